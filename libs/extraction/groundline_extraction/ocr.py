"""Location of tesseract's language data."""

from pathlib import Path
from typing import Final

_SYSTEM: Final = ("/usr/share/tesseract-ocr/*/tessdata", "/usr/share/tessdata", "/usr/local/share/tessdata")


def find_ocr_data(named: Path | None) -> str:
    """Return the named folder, else the system's; "" if neither holds language data."""
    found = [named] if named else (path for pattern in _SYSTEM for path in Path("/").glob(pattern[1:]))
    return next((str(path) for path in found if any(path.glob("*.traineddata"))), "")
