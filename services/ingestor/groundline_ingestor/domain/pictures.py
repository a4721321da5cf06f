"""Paragraphs of descriptions of pictures, marked as what they are."""

import re
import textwrap
import unicodedata
from collections.abc import Mapping
from typing import Final

MAX_CHARACTERS: Final = 1200
"""Maximum characters of a description; what a model wrote beyond is cut."""

PARAGRAPH_CHARACTERS: Final = 280
"""Maximum characters of a paragraph without its mark, so that a chunk of usual size that has a part of a
description has the mark as well."""

_MARKS: Final[Mapping[str, str]] = {
    "dutch": "Afbeelding, beschreven door een model",
    "french": "Image, décrite par un modèle",
    "german": "Bild, von einem Modell beschrieben",
    "italian": "Immagine, descritta da un modello",
    "polish": "Obraz, opisany przez model",
    "portuguese": "Imagem, descrita por um modelo",
    "spanish": "Imagen, descrita por un modelo",
}
_ENGLISH: Final = "Picture, described by a model"

# Characters that could end the mark, or pass for a citation, a table or code.
_REPLACED: Final = str.maketrans("[]［］【】〔〕|｜`", "()()()()//'")
_TAG: Final = re.compile(r"<(?=[A-Za-z/!?])")
_SENTENCE_END: Final = re.compile(r"[.!?]+ (?=(\S))|[。！？]+\s*(?=(\S))")


def description_paragraphs(description: str, language: str) -> str:
    """Return a description as paragraphs in brackets, each with the mark in the language, if it is known, and
    in English otherwise; "" for an empty description.

    It is cleaned of whatever could pass for another passage, for markup or for a citation. A paragraph is one
    sentence, so that no sentence of it is quoted without the mark.
    """
    visible = "".join(" " if unicodedata.category(each)[0] in "CZ" else each for each in description)
    plain = _TAG.sub("(", visible.translate(_REPLACED))
    plain = " ".join(plain.split())[:MAX_CHARACTERS]
    plain = _SENTENCE_END.sub(_joined, plain).rstrip(" .;")
    mark = _MARKS.get(language, _ENGLISH)
    parts = textwrap.wrap(plain, PARAGRAPH_CHARACTERS, break_on_hyphens=False)
    return "\n\n".join(f"[{mark}: {part}]" for part in parts)


def _joined(end: re.Match[str]) -> str:
    """Join two sentences; after what may be an abbreviation, a small letter or a digit follows."""
    following = end[1]
    return end[0] if following and not following.isupper() else "; "
