"""Forms of PDF files: the values of their fields, which are not part of a page's text."""

import ctypes
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final

import pypdfium2
import pypdfium2.raw as pdfium

from groundline_extraction.readers.common import one_line

MAX_FIELDS: Final = 10_000
"""Maximum annotations of one page that are searched for fields."""
MAX_VALUE: Final = 65_536
"""Maximum size of a field's value, in bytes of UTF-16."""

_INDEX: Final = re.compile(r"\[\d+\]$")
_PASSWORD: Final = 1 << 13
_CHECKED, _UNCHECKED = "[x]", "[ ]"
_VALUED: Final = {
    pdfium.FPDF_FORMFIELD_TEXTFIELD,
    pdfium.FPDF_FORMFIELD_COMBOBOX,
    pdfium.FPDF_FORMFIELD_LISTBOX,
}


def open_forms(document: pypdfium2.PdfDocument) -> None:
    """Make the document's fields known, before its first page is loaded."""
    with suppress(pypdfium2.PdfiumError):  # the pages can be read; broken forms do not count
        document.init_forms()


def fields_of(
    document: pypdfium2.PdfDocument, number: int, seen: set[str]
) -> Iterator[tuple[str, tuple[float, float, float, float]]]:
    """Yield a line for each field of a page that is filled in, and for each check box, with its label and
    value, and the field's left, lower, right and upper edge on the paper.

    Hidden fields, passwords, buttons and the fields in `seen` are left out; `seen` is added to. `open_forms`
    comes first.
    """
    if document.formenv is None:
        return
    try:
        page = document[number]
    except pypdfium2.PdfiumError:
        return  # a broken page; others may be sound
    try:
        for index in range(min(pdfium.FPDFPage_GetAnnotCount(page.raw), MAX_FIELDS)):
            annotation = pdfium.FPDFPage_GetAnnot(page.raw, index)
            if not annotation:
                continue
            try:
                if pdfium.FPDFAnnot_GetSubtype(annotation) == pdfium.FPDF_ANNOT_WIDGET:
                    yield from _field(document.formenv.raw, annotation, seen)
            finally:
                pdfium.FPDFPage_CloseAnnot(annotation)
    finally:
        page.close()


def _field(
    form: Any, annotation: Any, seen: set[str]
) -> Iterator[tuple[str, tuple[float, float, float, float]]]:
    name = _text(partial(pdfium.FPDFAnnot_GetFormFieldName, form, annotation))
    label = one_line(_text(partial(pdfium.FPDFAnnot_GetFormFieldAlternateName, form, annotation)))
    label = label or _INDEX.sub("", one_line(name).rpartition(".")[2])
    is_hidden = pdfium.FPDFAnnot_GetFlags(annotation) & pdfium.FPDF_ANNOT_FLAG_HIDDEN
    if is_hidden or not label or name in seen:
        return
    kind = pdfium.FPDFAnnot_GetFormFieldType(form, annotation)
    value = ""
    if kind in _VALUED and not pdfium.FPDFAnnot_GetFormFieldFlags(form, annotation) & _PASSWORD:
        value = (
            _chosen(form, annotation)
            or _text(partial(pdfium.FPDFAnnot_GetFormFieldValue, form, annotation)).strip()
        )
    elif kind == pdfium.FPDF_FORMFIELD_CHECKBOX:
        value = _CHECKED if pdfium.FPDFAnnot_IsChecked(form, annotation) else _UNCHECKED
    elif kind == pdfium.FPDF_FORMFIELD_RADIOBUTTON and pdfium.FPDFAnnot_IsChecked(form, annotation):
        value = one_line(_text(partial(pdfium.FPDFAnnot_GetFormFieldExportValue, form, annotation)))
    if value:
        seen.add(name)
        box = pdfium.FS_RECTF()
        pdfium.FPDFAnnot_GetRect(annotation, ctypes.byref(box))
        edges = (
            min(box.left, box.right),
            min(box.bottom, box.top),
            max(box.left, box.right),
            max(box.bottom, box.top),
        )
        yield f"{label}: {value}", edges


def _chosen(form: Any, annotation: Any) -> str:
    """Return the options that are chosen in a list, as it shows them; its value may name them otherwise."""
    count = min(pdfium.FPDFAnnot_GetOptionCount(form, annotation), MAX_FIELDS)
    return ", ".join(
        one_line(_text(partial(pdfium.FPDFAnnot_GetOptionLabel, form, annotation, index)))
        for index in range(count)
        if pdfium.FPDFAnnot_IsOptionSelected(form, annotation, index)
    )


def _text(get: Callable[..., int]) -> str:
    size = min(get(None, 0), MAX_VALUE)
    buffer = (ctypes.c_ushort * (size // 2 + 1))()
    if size < 2 or get(buffer, size) > size:
        return ""
    return bytes(buffer)[: size - 2].decode("utf-16-le", "replace").replace("\r\n", "\n").replace("\r", "\n")
