"""PPTX by python-pptx: slides in their order, each with its title, its shapes as they are read, its notes and
comments."""

import io
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pptx
from pptx.enum.shapes import MSO_SHAPE_TYPE
from pptx.util import Emu

from groundline_extraction.readers.building import MarkdownBuilder
from groundline_extraction.readers.common import Hints, Read, ReaderLimits, ReadError, parsing
from groundline_extraction.readers.data.xml import parsed
from groundline_extraction.readers.grids import GridRow
from groundline_extraction.readers.images.pictures import add_picture
from groundline_extraction.readers.zips import open_zip

MAX_POINTS: Final = 10_000
"""Maximum points of a chart's series."""

_FORMATS: Final = "http://schemas.openxmlformats.org"
_DRAWING: Final = f"{_FORMATS}/drawingml/2006"
_DIAGRAM: Final = f"{_DRAWING}/diagram"
_NAMES: Final = {"a": f"{_DRAWING}/main", "c": f"{_DRAWING}/chart", "dgm": _DIAGRAM}
_DIAGRAM_DATA: Final = f"{{{_FORMATS}/officeDocument/2006/relationships}}dm"


def read(data: bytes, hints: Hints, limits: ReaderLimits) -> Read:
    """Read each slide as a page. Raises ReadError with ENCRYPTED_DOCUMENT, CORRUPT_DOCUMENT, TOO_MANY_PAGES
    or DOCUMENT_TOO_LARGE."""
    open_zip(io.BytesIO(data), limits).close()
    builder = MarkdownBuilder(limits, with_pictures=hints.with_pictures)
    with parsing("a sound PPTX"):
        presentation = pptx.Presentation(io.BytesIO(data))
        if len(presentation.slides) > limits.max_pages:
            raise ReadError("TOO_MANY_PAGES", f"more than {limits.max_pages} slides")
        for number, slide in enumerate(presentation.slides, 1):
            builder.page(number)
            title = slide.shapes.title
            builder.heading(2, title.text_frame.text if title is not None else f"Slide {number}")
            shown = [one for one in slide.shapes if title is None or one.shape_id != title.shape_id]
            for shape in _in_order(shown):
                _add(builder, shape, limits)
            notes = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
            if notes is not None and notes.text.strip():
                builder.heading(3, "Notes")
                builder.paragraph(notes.text)
            if comments := list(_comments(slide.part)):
                builder.heading(3, "Comments")
                builder.paragraph("\n".join(comments))
        return builder.read(title=presentation.core_properties.title or "")


def _in_order(shapes: Iterable[Any]) -> list[Any]:
    """Return shapes from top to bottom in steps of half an inch, and from left to right within a step."""
    step = Emu(457_200)
    return sorted(shapes, key=lambda shape: ((shape.top or 0) // step, shape.left or 0))


def _add(builder: MarkdownBuilder, shape: Any, limits: ReaderLimits) -> None:
    if shape.shape_type == MSO_SHAPE_TYPE.GROUP:
        for inner in _in_order(shape.shapes):
            _add(builder, inner, limits)
    elif getattr(shape, "has_table", False) and shape.has_table:
        builder.table(_grid(shape.table))
    elif getattr(shape, "has_chart", False) and shape.has_chart:
        space = parsed(shape.chart_part.blob)
        for title in _find(space, ".//c:title"):
            builder.paragraph("".join(_find(title, ".//a:t/text()")))
        builder.table(list(map(GridRow, _chart_rows(space))))
    elif (diagram := next(shape._element.iter(f"{{{_DIAGRAM}}}relIds"), None)) is not None:
        points = _find(parsed(shape.part.related_part(diagram.get(_DIAGRAM_DATA)).blob), ".//dgm:pt/dgm:t")
        texts = ("".join(_find(point, ".//a:t/text()")).strip() for point in points)
        builder.paragraph("\n".join(f"- {text}" for text in texts if text))
    elif shape.has_text_frame:
        paragraphs = [one for one in shape.text_frame.paragraphs if one.text.strip()]
        mark = "- " if len(paragraphs) > 1 else ""
        lines = (f"{'  ' * one.level}{mark}{one.text.strip()}" for one in paragraphs)
        builder.paragraph("\n".join(lines))
    elif shape.shape_type == MSO_SHAPE_TYPE.PICTURE:
        add_picture(builder, shape.image.blob, limits)


def _comments(slide: Any) -> Iterator[str]:
    """Yield the comments on a slide and the replies to them; newer files have them as text bodies."""
    for relation in slide.rels.values():
        if not relation.is_external and relation.reltype.endswith("/comments"):
            for comment in parsed(relation.target_part.blob).iter("{*}cm", "{*}reply"):
                texts = comment.findall("{*}text") or comment.findall("{*}txBody//{*}t")
                if text := " ".join("".join(one.text or "" for one in texts).split()):
                    yield f"- {text}"


def _grid(table: Any) -> list[GridRow]:
    """Return the cells by rows; a merged cell has its text in each of its places."""
    rows, columns = len(table.rows), len(table.columns)
    grid = [[""] * columns for _ in range(rows)]
    left: list[set[int]] = [set() for _ in range(rows)]
    above: list[set[int]] = [set() for _ in range(rows)]
    for row in range(rows):
        for column in range(columns):
            cell = table.cell(row, column)
            if cell.is_spanned:
                continue
            for below in range(row, min(row + cell.span_height, rows)):
                for right in range(column, min(column + cell.span_width, columns)):
                    grid[below][right] = cell.text_frame.text
                    if below > row:
                        above[below].add(right)
                    elif right > column:
                        left[below].add(right)
    merged = zip(grid, map(frozenset, left), map(frozenset, above), strict=True)
    return [GridRow(*row) for row in merged]


def _chart_rows(space: Any) -> Iterator[list[str]]:
    """Yield the categories of a chart, and the values of each series of them, from what is shown without its
    workbook: of every kind of chart, also of those that python-pptx does not know."""
    before: list[str] = []
    for series in _find(space, ".//c:ser"):
        [*categories] = _points(series, "(c:cat | c:xVal)//*[c:pt][1]/c:pt")
        if categories and categories != before:
            yield ["", *categories]
            before = categories
        name = " ".join(_find(series, "c:tx//c:v/text()"))
        yield [name, *_points(series, "(c:val | c:yVal)//c:pt")]


def _points(series: Any, path: str) -> Iterator[str]:
    """Yield the values of points in their places; one that is missing is empty."""
    found = {int(point.get("idx")): "".join(_find(point, "c:v/text()")) for point in _find(series, path)}
    for index in range(min(max(found, default=-1) + 1, MAX_POINTS)):
        value = found.get(index, "")
        try:
            yield f"{float(value):.15g}"
        except ValueError:
            yield value


def _find(element: Any, path: str) -> Any:
    return element.xpath(path, namespaces=_NAMES)
