"""Images by tesseract."""

import io

import pytesseract
from PIL import Image, ImageSequence, UnidentifiedImageError

from groundline_ingestor.adapters.extraction.readers.common import Limits, Read, ReadError, clean

__all__ = ["read", "text_of"]


def read(data: bytes, limits: Limits) -> Read:
    """What is written on an image, frame by frame.

    Raises ReadError with OCR_NOT_AVAILABLE, OCR_FAILED, CORRUPT_DOCUMENT, DOCUMENT_TOO_LARGE or
    TOO_MANY_PAGES.
    """
    if not limits.ocr_command:
        raise ReadError("OCR_NOT_AVAILABLE", "reading images takes tesseract, which is not installed here")
    try:
        with Image.open(io.BytesIO(data)) as image:
            texts = []
            for number, frame in enumerate(ImageSequence.Iterator(image)):
                if number == limits.max_pages:
                    raise ReadError("TOO_MANY_PAGES", f"more than {limits.max_pages} frames")
                texts.append(text_of(frame, limits))
    except UnidentifiedImageError:
        raise ReadError("CORRUPT_DOCUMENT", "not an image that can be read") from None
    except (ReadError, MemoryError):
        raise
    except Image.DecompressionBombError:
        raise _too_large(limits) from None
    except Exception as error:
        # Each format's decoder fails in its own way on a broken file.
        raise ReadError("CORRUPT_DOCUMENT", f"not a sound image ({type(error).__name__})") from None
    return Read(clean("\n\n".join(filter(None, texts))))


def text_of(image: Image.Image, limits: Limits) -> str:
    """Raises ReadError."""
    if image.width * image.height > limits.max_image_pixels:
        raise _too_large(limits)
    pytesseract.pytesseract.tesseract_cmd = limits.ocr_command
    try:
        text: str = pytesseract.image_to_string(image.convert("RGB"), lang=limits.ocr_languages)
    except pytesseract.TesseractError as error:
        raise ReadError("OCR_FAILED", f"tesseract: {clean(str(error.message))[:200]}") from None
    return text.strip()


def _too_large(limits: Limits) -> ReadError:
    return ReadError("DOCUMENT_TOO_LARGE", f"an image of more than {limits.max_image_pixels} pixels")
