"""Pictures of pages: the frames of an image, made as small as is asked for."""

import io
from math import sqrt
from typing import BinaryIO, Final

from PIL import Image

from groundline_extraction.readers.common import Give, Hints, MemberPart, Read, ReaderLimits, ReadError
from groundline_extraction.readers.images.image import opened

MAX_PIXELS: Final = 4_000_000
"""Maximum pixels of a picture, as the contract has it."""
_PART_BYTES: Final = 1024**2


def read_pieces(file: BinaryIO, hints: Hints, limits: ReaderLimits, give: Give) -> None:
    """Draw the frame that the hints name, on white. Raises ReadError with PAGE_NOT_FOUND, and as reading
    does."""
    with opened(file, limits) as image:
        if hints.page > min(getattr(image, "n_frames", 1), limits.max_pages):
            raise no_such_page(getattr(image, "n_frames", 1))
        image.seek(hints.page - 1)
        if image.width * image.height > limits.max_image_pixels:
            raise ReadError("DOCUMENT_TOO_LARGE", f"more than {limits.max_image_pixels} pixels")
        layers = image.convert("RGBA")
        picture = Image.new("RGB", image.size, "white")
        picture.paste(layers, mask=layers)
        picture.thumbnail((hints.width, MAX_PIXELS))
        scale = scale_of(*picture.size, picture.width)
        picture.thumbnail((max(1, int(picture.width * scale)), max(1, int(picture.height * scale))))
        give_picture(picture, give)


def scale_of(width: float, height: float, wanted: int) -> float:
    """Return the factor by which a page gets the wanted width in pixels, or as much as MAX_PIXELS allow."""
    return min(wanted / max(width, 1e-3), 0.99 * sqrt(MAX_PIXELS / max(width * height, 1e-6)))


def give_picture(picture: Image.Image, give: Give) -> None:
    """Give a picture as PNG, in parts."""
    written = io.BytesIO()
    picture.save(written, "PNG", compress_level=4)
    data = written.getvalue()
    for start in range(0, len(data), _PART_BYTES):
        give(
            Read(
                "",
                members=[
                    MemberPart("page.png", mime_type="image/png", data=data[start : start + _PART_BYTES])
                ],
            )
        )


def no_such_page(count: int) -> ReadError:
    """Return the error of a page behind the last."""
    return ReadError("PAGE_NOT_FOUND", f"the document has {count} page{'' if count == 1 else 's'}")
