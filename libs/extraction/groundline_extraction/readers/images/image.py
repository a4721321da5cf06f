"""Images by tesseract, as a library: no program is started and no file written."""

import io
from functools import lru_cache
from pathlib import Path
from typing import Final

import tesserocr
from PIL import Image, ImageSequence, UnidentifiedImageError

from groundline_extraction.readers.common import Hints, Read, ReaderLimits, ReadError, clean

__all__ = ["read", "recognized"]

# Below it tesseract only guesses an image's orientation.
_SURE_OF_ORIENTATION: Final = 2.0
_SURE_OF_TEXT: Final = 0.8


def read(data: bytes, hints: Hints, limits: ReaderLimits) -> Read:
    """Read the text on an image, frame by frame. Raises ReadError with OCR_NOT_AVAILABLE, OCR_FAILED,
    CORRUPT_DOCUMENT, DOCUMENT_TOO_LARGE or TOO_MANY_PAGES."""
    if not limits.ocr_data:
        raise ReadError("OCR_NOT_AVAILABLE", "reading images takes tesseract's languages, which are not here")
    try:
        with Image.open(io.BytesIO(data)) as image:
            texts, confidences = [], []
            for number, frame in enumerate(ImageSequence.Iterator(image)):
                if number == limits.max_pages:
                    raise ReadError("TOO_MANY_PAGES", f"more than {limits.max_pages} frames")
                text, confidence = recognized(frame, limits)
                texts.append(text)
                confidences.append(confidence)
    except UnidentifiedImageError:
        raise ReadError("CORRUPT_DOCUMENT", "not an image that can be read") from None
    except (ReadError, MemoryError):
        raise
    except Image.DecompressionBombError:
        raise _too_large(limits) from None
    except Exception as error:
        # Each format's decoder fails in its own way on a broken file.
        raise ReadError("CORRUPT_DOCUMENT", f"not a sound image ({type(error).__name__})") from None
    certainty = round(sum(confidences) / max(len(confidences), 1), 2)
    return Read(clean("\n\n\f\n\n".join(texts)), metadata={"ocr_confidence": certainty})


def recognized(image: Image.Image, limits: ReaderLimits) -> tuple[str, float]:
    """Return the text on an image, whichever way up it is, and a confidence up to 1. Raises ReadError."""
    if image.width * image.height > limits.max_image_pixels:
        raise _too_large(limits)
    image, is_sure = _upright(image.convert("RGB"), limits)
    text, confidence = _read(image, limits)
    if text and not is_sure and confidence < _SURE_OF_TEXT:
        # A line or two are too little to tell their orientation.
        turned = (_read(image.rotate(degrees, expand=True), limits) for degrees in (90, 180, 270))
        text, confidence = max([(text, confidence), *turned], key=lambda found: found[1])
    return text, confidence


def _read(image: Image.Image, limits: ReaderLimits) -> tuple[str, float]:
    engine = _engine(limits.ocr_data, limits.ocr_languages)
    engine.SetImage(image)
    try:
        text: str = engine.GetUTF8Text()
        return text.strip(), engine.MeanTextConf() / 100
    finally:
        engine.Clear()


def _upright(image: Image.Image, limits: ReaderLimits) -> tuple[Image.Image, bool]:
    """Return the image turned upright, and whether its direction is sure."""
    if not (Path(limits.ocr_data) / "osd.traineddata").exists():
        return image, False
    engine = _engine(limits.ocr_data, "osd")
    engine.SetImage(image)
    try:
        found = engine.DetectOrientationScript()
    finally:
        engine.Clear()
    if not found or found["orient_conf"] < _SURE_OF_ORIENTATION:
        return image, False
    return (image.rotate(found["orient_deg"], expand=True) if found["orient_deg"] else image), True


@lru_cache(maxsize=4)
def _engine(data: str, languages: str) -> tesserocr.PyTessBaseAPI:
    mode = tesserocr.PSM.OSD_ONLY if languages == "osd" else tesserocr.PSM.AUTO
    try:
        return tesserocr.PyTessBaseAPI(path=data, lang=languages, psm=mode)
    except RuntimeError:
        raise ReadError("OCR_FAILED", f"tesseract has not all of the languages {languages}") from None


def _too_large(limits: ReaderLimits) -> ReadError:
    return ReadError("DOCUMENT_TOO_LARGE", f"an image of more than {limits.max_image_pixels} pixels")
