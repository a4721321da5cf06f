"""Images by tesseract, as a library: no program is started and no file written."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, Final

import tesserocr
from PIL import Image, ImageSequence, UnidentifiedImageError

from groundline_extraction.readers.building import MAX_PICTURES
from groundline_extraction.readers.common import (
    Hints,
    PicturePart,
    Read,
    ReaderLimits,
    ReadError,
    clean,
    line_edges,
)

# Below it tesseract only guesses an image's orientation.
_SURE_OF_ORIENTATION: Final = 2.0
_SURE_OF_TEXT: Final = 0.8
_BETWEEN_PAGES: Final = "\n\n\f\n\n"

MIN_SHOWN_PIXELS: Final = 100
"""Minimum width and height of a picture that is shown to a model; smaller ones are icons and lines."""
MAX_SHOWN_PIXELS: Final = 1280
"""Maximum width and height in which it is shown; providers make larger ones smaller themselves."""


type Edges = tuple[float, float, float, float]
"""Left, upper, right and lower edge, in shares of an image's width and height."""


@dataclass(frozen=True, slots=True)
class Recognized:
    """Text on an image, its confidence up to 1, and where its lines begin in it and are on the image."""

    text: str = ""
    confidence: float = 0.0
    lines: Sequence[tuple[int, Edges]] = ()


def read(data: bytes, hints: Hints, limits: ReaderLimits) -> Read:
    """Read the text on an image, frame by frame. If pictures are wanted, it needs no OCR, and is one itself:
    its first frame, of a TIFF each without text. Raises ReadError with OCR_NOT_AVAILABLE, OCR_FAILED,
    CORRUPT_DOCUMENT, DOCUMENT_TOO_LARGE or TOO_MANY_PAGES."""
    if not limits.ocr_data and not hints.with_pictures:
        raise ReadError("OCR_NOT_AVAILABLE", "reading images takes tesseract's languages, which are not here")
    with opened(io.BytesIO(data), limits) as image:
        frames: list[Recognized] = []
        pictures: dict[int, bytes] = {}
        has_pages = image.format == "TIFF"
        for number, frame in enumerate(ImageSequence.Iterator(image)):
            if number == limits.max_pages:
                raise ReadError("TOO_MANY_PAGES", f"more than {limits.max_pages} frames")
            frames.append(recognized(frame, limits) if limits.ocr_data else Recognized())
            is_wanted = not frames[-1].text if has_pages else number == 0
            if hints.with_pictures and is_wanted and len(pictures) < MAX_PICTURES:
                pictures[number + 1] = shown(frame, limits)
    certainty = round(sum(found.confidence for found in frames) / max(len(frames), 1), 2)
    text, lines, parts = "", [], []
    for page, found in enumerate(frames, 1):
        text += _BETWEEN_PAGES if page > 1 else ""
        lines += [line_edges(page, len(text) + start, *edges) for start, edges in found.lines]
        text += found.text
        if data_shown := pictures.get(page):
            parts.append(PicturePart(len(text), data_shown, line_edges(page, 0, 0, 0, 1, 1)))
    return Read(text, metadata={"ocr_confidence": certainty}, lines=lines, pictures=parts)


def shown(image: Image.Image, limits: ReaderLimits) -> bytes:
    """Return a picture as JPEG on white, not larger than a model needs it and without what else is in its
    file; b"" for a very small one. Raises ReadError with DOCUMENT_TOO_LARGE."""
    if min(image.size) < MIN_SHOWN_PIXELS:
        return b""
    if image.width * image.height > limits.max_image_pixels:
        raise _too_large(limits)
    layers = image.convert("RGBA")
    layers.thumbnail((MAX_SHOWN_PIXELS, MAX_SHOWN_PIXELS))
    picture = Image.new("RGB", layers.size, "white")
    picture.paste(layers, mask=layers)
    written = io.BytesIO()
    picture.save(written, "JPEG", quality=85)
    return written.getvalue()


@contextmanager
def opened(file: BinaryIO, limits: ReaderLimits) -> Iterator[Image.Image]:
    """Open an image for the block. Raises ReadError, also for what its decoder fails with in the block."""
    try:
        with Image.open(file) as image:
            yield image
    except UnidentifiedImageError:
        raise ReadError("CORRUPT_DOCUMENT", "not an image that can be read") from None
    except (ReadError, MemoryError):
        raise
    except Image.DecompressionBombError:
        raise _too_large(limits) from None
    except Exception as error:
        # Each format's decoder fails in its own way on a broken file.
        raise ReadError("CORRUPT_DOCUMENT", f"not a sound image ({type(error).__name__})") from None


def recognized(image: Image.Image, limits: ReaderLimits) -> Recognized:
    """Return the text on an image, whichever way up it is. Raises ReadError."""
    if image.width * image.height > limits.max_image_pixels:
        raise _too_large(limits)
    image = image.convert("RGB")
    upright, is_sure = _upright(image, limits)
    found = _read(image, upright, limits)
    if found.text and not is_sure and found.confidence < _SURE_OF_TEXT:
        # A line or two are too little to tell their orientation.
        turned = (_read(image, degrees, limits) for degrees in (90, 180, 270))
        found = max([found, *turned], key=lambda one: one.confidence)
    return found


def _read(image: Image.Image, degrees: int, limits: ReaderLimits) -> Recognized:
    """Return the text on an image once it is turned against the clock, and its lines where they are on the
    image."""
    engine = _engine(limits.ocr_data, limits.ocr_languages)
    turned = image.rotate(degrees, expand=True) if degrees else image
    engine.SetImage(turned)
    try:
        text = clean(engine.GetUTF8Text()).strip()
        confidence, lines, at = engine.MeanTextConf() / 100, [], 0
        found = engine.GetIterator() if text else None
        for line in tesserocr.iterate_level(found, tesserocr.RIL.TEXTLINE) if found else ():
            written = clean(line.GetUTF8Text(tesserocr.RIL.TEXTLINE)).strip()
            box = line.BoundingBox(tesserocr.RIL.TEXTLINE)
            begin = text.find(written, at) if written and box else -1
            if begin >= 0:
                left, top, right, bottom = box
                edges = left / turned.width, top / turned.height, right / turned.width, bottom / turned.height
                lines.append((begin, _turned_back(edges, degrees)))
                at = begin + len(written)
        return Recognized(text, confidence, lines)
    finally:
        engine.Clear()


def _turned_back(edges: Edges, degrees: int) -> Edges:
    left, top, right, bottom = edges
    match degrees % 360:
        case 90:
            return 1 - bottom, left, 1 - top, right
        case 180:
            return 1 - right, 1 - bottom, 1 - left, 1 - top
        case 270:
            return top, 1 - right, bottom, 1 - left
        case _:
            return edges


def _upright(image: Image.Image, limits: ReaderLimits) -> tuple[int, bool]:
    """Return the degrees by which the image is to be turned against the clock, and whether these are sure."""
    if not (Path(limits.ocr_data) / "osd.traineddata").exists():
        return 0, False
    engine = _engine(limits.ocr_data, "osd")
    engine.SetImage(image)
    try:
        found = engine.DetectOrientationScript()
    finally:
        engine.Clear()
    if not found or found["orient_conf"] < _SURE_OF_ORIENTATION:
        return 0, False
    return int(found["orient_deg"]), True


@lru_cache(maxsize=4)
def _engine(data: str, languages: str) -> tesserocr.PyTessBaseAPI:
    mode = tesserocr.PSM.OSD_ONLY if languages == "osd" else tesserocr.PSM.AUTO
    try:
        return tesserocr.PyTessBaseAPI(path=data, lang=languages, psm=mode)
    except RuntimeError:
        raise ReadError("OCR_FAILED", f"tesseract has not all of the languages {languages}") from None


def _too_large(limits: ReaderLimits) -> ReadError:
    return ReadError("DOCUMENT_TOO_LARGE", f"an image of more than {limits.max_image_pixels} pixels")
