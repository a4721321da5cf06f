"""Spreadsheets: each sheet a section, each row a record under the names of its columns."""

import datetime
import io
import re
import zipfile
from collections.abc import Iterable, Iterator
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

import openpyxl
import python_calamine
from lxml import etree
from openpyxl.styles.numbers import is_date_format
from openpyxl.utils.cell import range_boundaries

from groundline_extraction.formats import XLSX
from groundline_extraction.readers.building import MarkdownBuilder
from groundline_extraction.readers.common import Hints, Read, ReaderLimits, ReadError
from groundline_extraction.readers.office.comments import comments_of
from groundline_extraction.readers.office.drawings import pictures_of
from groundline_extraction.readers.office.sheets import (
    MAX_CELLS,
    Comments,
    Merged,
    Numbers,
    Rows,
    Sheet,
    add_sheet,
    fill_merged,
)
from groundline_extraction.readers.zips import open_zip


def read(data: bytes, hints: Hints, limits: ReaderLimits) -> Read:
    """Read values as the sheets show them, hidden sheets too: people search for what they hold.

    Raises ReadError with ENCRYPTED_DOCUMENT, CORRUPT_DOCUMENT or DOCUMENT_TOO_LARGE.
    """
    builder = MarkdownBuilder(limits, with_pictures=hints.with_pictures)
    title = ""
    try:
        if data.startswith(b"PK"):
            open_zip(io.BytesIO(data), limits).close()
        shown: _ShownByExcel | _ShownByCalamine
        shown = _ShownByExcel(data) if hints.mime_type == XLSX else _ShownByCalamine(data)
        title = shown.title
        count = 0
        for name in shown.names:
            rows, numbers = shown.rows(name)
            count += sum(map(len, rows))
            if count > MAX_CELLS:
                raise ReadError("DOCUMENT_TOO_LARGE", f"more than {MAX_CELLS} cells")
            pictures = shown.pictures(name) if builder.takes_pictures else ()
            comments = shown.comments(name)
            sheet = Sheet(name, rows, comments, numbers, has_points=True, pictures=pictures)
            add_sheet(builder, sheet, limits)
    except (ReadError, MemoryError):
        raise
    except python_calamine.PasswordError:
        raise ReadError("ENCRYPTED_DOCUMENT", "the workbook needs a password") from None
    except Exception as error:
        raise ReadError("CORRUPT_DOCUMENT", f"not a sound workbook ({type(error).__name__})") from None
    return builder.read(title=title)


class _ShownByExcel:
    """Values by their number formats, which calamine ignores; row by row, since a sheet's stated size may be
    wrong."""

    def __init__(self, data: bytes) -> None:
        self._archive = zipfile.ZipFile(io.BytesIO(data))
        self._workbook = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        self.title = self._workbook.properties.title or ""
        self.names = self._workbook.sheetnames

    def rows(self, name: str) -> tuple[Rows, Numbers]:
        sheet: Any = self._workbook[name]
        if not hasattr(sheet, "iter_rows"):  # a chart
            return [], {}
        sheet.reset_dimensions()
        rows: Rows = []
        numbers: Numbers = {}
        count = 0
        for row in sheet.iter_rows():
            values = [(cell.value, cell.number_format or "") for cell in row]
            for column, (value, number_format) in enumerate(values):
                if exact := _exact(value, number_format):
                    numbers[len(rows), column] = exact
            rows.append([_shown(*value) for value in values])
            count += len(row)
            if count > MAX_CELLS:
                raise ReadError("DOCUMENT_TOO_LARGE", f"more than {MAX_CELLS} cells")
        return rows, {**numbers, **fill_merged(rows, self._merged(sheet._worksheet_path))}

    def comments(self, name: str) -> Comments:
        return comments_of(self._archive, self._path(name))

    def pictures(self, name: str) -> Iterator[tuple[int, bytes]]:
        """Yield the row, from 0, and the bytes of each picture on a sheet."""
        for row, _, path in pictures_of(self._archive, self._path(name)):
            yield row, self._archive.read(path)

    def _path(self, name: str) -> str:
        """Return the path of a sheet's part; "" for a chart, which has neither comments nor pictures."""
        return str(getattr(self._workbook[name], "_worksheet_path", "")).lstrip("/")

    def _merged(self, path: str) -> Merged:
        """Return the merged ranges, which openpyxl leaves out when it reads row by row."""
        found = []
        with self._archive.open(path) as part:
            for _, element in etree.iterparse(part, tag="{*}mergeCell"):
                left, top, right, bottom = (edge or 1 for edge in range_boundaries(element.get("ref", "A1")))
                found.append(((top - 1, left - 1), (bottom - 1, right - 1)))
        return found


class _ShownByCalamine:
    """Values of the older and the binary format."""

    title = ""

    def __init__(self, data: bytes) -> None:
        self._workbook = python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(data))
        self.names = self._workbook.sheet_names

    def rows(self, name: str) -> tuple[Rows, Numbers]:
        sheet = self._workbook.get_sheet_by_name(name)
        rows = [[_shown(value, "") for value in row] for row in sheet.to_python(skip_empty_area=False)]
        return rows, fill_merged(rows, sheet.merged_cell_ranges or ())

    def comments(self, name: str) -> Comments:
        return {}  # calamine reads none

    def pictures(self, name: str) -> Iterable[tuple[int, bytes]]:
        return ()


def _shown(value: Any, number_format: str) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "TRUE" if value else "FALSE"
        case datetime.datetime():
            return value.isoformat(" ", "minutes").removesuffix(" 00:00")
        case datetime.date() | datetime.time():
            return value.isoformat()
        case int() | float():
            return _number(value, number_format)
        case _:
            return str(value).strip()


def _exact(value: Any, number_format: str) -> str:
    """Return the number of a cell whose format may round it; "" if it shows all of it. A share is in per
    cent, as it is shown."""
    if type(value) not in {int, float} or number_format.lower() in {"", "general", "@"}:
        return ""
    if is_date_format(number_format):
        return ""
    shown = _LITERAL.sub("", number_format.split(";")[0])
    return f"{Decimal(repr(value)) * (100 if '%' in shown else 1):f}"


_LITERAL: Final = re.compile(r'"([^"]*)"|\\(.)')
_MOST_EXACT: Final = 10**15
"""Limit of the numbers whose digits are all known."""
_MOST_DECIMALS: Final = 12
_CURRENCY: Final = re.compile(r"\[\$([^\]-]*)[^\]]*\]")
_DIGITS: Final = re.compile(r"[#0?][#0?,.]*")


def _number(value: float, number_format: str) -> str:
    """Return a number by the commonest parts of Excel's formats: decimals, thousands, per cent, text
    around."""
    shown = number_format.split(";")[0]
    if (
        shown.lower() in {"", "general", "@"}
        or is_date_format(shown)
        or "E+" in shown.upper()
        or "/" in shown
    ):
        return str(value) if isinstance(value, int) else f"{value:.15g}"
    shown = re.sub(r"\[[A-Z][a-z]+\d*\]|_.|\*.", "", _CURRENCY.sub(r'"\1"', shown))
    found = _DIGITS.search(_LITERAL.sub(lambda literal: "x" * len(literal[0]), shown))
    if found is None:
        return str(value)
    pattern = shown[found.start() : found.end()]
    before, after = (_LITERAL.sub(r"\1\2", part) for part in (shown[: found.start()], shown[found.end() :]))
    if "%" in before + after:
        value *= 100
    decimals = len(pattern.rpartition(".")[2]) if "." in pattern else 0
    whole = pattern.partition(".")[0]
    rounded: float | Decimal = abs(value)
    if rounded < _MOST_EXACT and decimals <= _MOST_DECIMALS:  # halves are rounded up, as Excel does
        rounded = Decimal(repr(rounded)).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)
    digits = f"{rounded:{',' if ',' in whole.rstrip(',') else ''}.{decimals}f}"
    if "." in digits and pattern.endswith("#"):
        digits = digits.rstrip("0").rstrip(".")
    padded = digits.zfill(whole.replace(",", "").count("0") + (len(digits) - len(digits.partition(".")[0])))
    return f"{'-' if value < 0 else ''}{before}{padded}{after}".strip()
