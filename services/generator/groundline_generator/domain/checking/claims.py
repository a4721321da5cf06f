"""Claims of any text: its sentences, list items and rows of tables."""

import re
from collections.abc import Iterator
from typing import Final

from groundline.v1 import generator_service_pb2 as pb
from groundline_language import guess_language
from groundline_language.terms import content_terms

from groundline_generator.domain.markers import SPACES, unmarked
from groundline_generator.domain.references import refers_back
from groundline_generator.domain.segments import Kind, segments

_QUESTION: Final = re.compile(r"[?？][\"'”’»«)\]*_]*\s*$")
_NO_CLAIMS: Final = frozenset((Kind.HEADING, Kind.CODE))


def claims_of(text: str) -> Iterator[pb.Claim]:
    """Yield the claims of a text, each with what it refers to: the headings above it, and the sentence
    before it if it begins with a word such as "it".

    Headings, code, questions and what holds no term are left out.
    """
    language = guess_language(text)
    bare, _ = unmarked(text)
    before = ""
    for segment in segments(bare, language):
        shown = SPACES.sub(" ", bare[segment.start : segment.end]).strip()
        if segment.kind in _NO_CLAIMS or _QUESTION.search(shown) or not content_terms(shown, language):
            continue
        context = [segment.heading, before if refers_back(shown) else ""]
        yield pb.Claim(
            text=shown,
            context=" ".join(part for part in context if part),
            start_offset=segment.start,
            end_offset=segment.start + len(bare[segment.start : segment.end].rstrip()),
        )
        before = shown
