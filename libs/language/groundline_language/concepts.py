"""Words for one thing, in English and German: what a question and its answer may call differently."""

import re
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from itertools import chain
from typing import Final

from groundline_language.terms import content_terms

_SHORTEST_PART: Final = 4
"""Minimum letters of a word that may begin or end a German compound."""

_LONG_WORD: Final = 8
"""Minimum letters of a compound that may end with a shorter word, such as Tag or Ort."""

_REMEMBERED_TERMS: Final = 8_192

_VERB: Final = re.compile(
    r"(?P<prefix>zusammen|zurück|heraus|hinaus|herein|hinein|weiter|wieder|unter|bereit|fertig|durch|über|nach|teil"
    r"|frei|fest|fort|dar|auf|aus|bei|ein|her|hin|los|mit|vor|weg|ab|an|um|zu)?"
    r"(?P<rest>(?P<bound>be|emp|ent|er|ge|miss|ver|zer)?\w{2,}?)e?n"
)
"""A German verb with what may stand apart from it, and what rules out a "ge" in its participle."""

_COLUMNS: Final = ("english", "german")
_OTHER: Final[Mapping[str, str]] = dict(zip(_COLUMNS, reversed(_COLUMNS), strict=True))
_VOCABULARY: Final = ("concepts.txt", "translations.txt")

type _Concept = Mapping[str, list[str]]
"""Terms by language."""

type _Concepts = Mapping[str, Mapping[str, list[_Concept]]]
"""Concepts of each term, by language."""


def _lines(*names: str) -> Iterator[str]:
    folder = files("groundline_language")
    return chain.from_iterable((folder / each).read_text("utf-8").splitlines() for each in names)


def _concepts(*names: str, is_inflected: bool) -> _Concepts:
    found: dict[str, dict[str, list[_Concept]]] = {each: defaultdict(list) for each in _COLUMNS}
    for line in _lines(*names):
        english, german = line.split("|")
        if is_inflected:
            german = " ".join((german, *chain.from_iterable(map(_forms, german.split()))))
        concept = {
            language: list(dict.fromkeys(content_terms(words, language)))
            for language, words in zip(_COLUMNS, (english, german), strict=True)
        }
        for language, terms in concept.items():
            for term in terms:
                found[language][term].append(concept)
    return found


def _forms(verb: str) -> Iterator[str]:
    """Yield the forms of a German verb that begin in another way: "ausgewählt" and "auszuwählen"."""
    found = _VERB.fullmatch(verb)
    if found is None or verb.endswith("ieren"):
        return
    prefix = found["prefix"] or ""
    if not found["bound"]:
        yield f"{prefix}ge{found['rest']}t"
    if prefix:
        yield f"{prefix}zu{verb.removeprefix(prefix)}"


_CONCEPTS: Final = _concepts("concepts.txt", is_inflected=False)


@cache
def _vocabulary() -> _Concepts:
    """Return the concepts with the common words of both languages, which are no synonyms within one."""
    return _concepts(*_VOCABULARY, is_inflected=True)


@lru_cache(maxsize=_REMEMBERED_TERMS)
def related(term: str, language: str, other: str) -> frozenset[str]:
    """Return the terms by which texts in language `other` may say what a term of a question says; of a
    compound, those for its parts if it has none itself."""
    if language == other:
        return _meanings(_CONCEPTS, term, language, other)
    known = _vocabulary()
    parts = _both_parts(term, known.get(language, {})) if language == "english" else ()
    return frozenset(chain.from_iterable(_meanings(known, each, language, other) for each in (term, *parts)))


@lru_cache(maxsize=_REMEMBERED_TERMS)
def is_grammatical(term: str, language: str, other: str) -> bool:
    """Tell whether the vocabulary has a word for which the other language has no term, such as "without"."""
    concepts = _vocabulary().get(language, {}).get(term, [])
    return bool(concepts) and other in _COLUMNS and not any(concept[other] for concept in concepts)


def is_known(word: str, language: str) -> bool:
    """Tell whether the vocabulary has a word, the end of a German compound, or, for a woman (*Architektin*),
    the word for a man."""
    known = _vocabulary().get(language, {})
    return any(
        spelt[at:] in known
        for term in content_terms(word, language)
        for spelt in (term, term.removesuffix("in"))
        for at in range(max(1, len(spelt) - _SHORTEST_PART + 1))
    )


@lru_cache(maxsize=_REMEMBERED_TERMS)
def is_known_whole(term: str, language: str) -> bool:
    """Tell whether the vocabulary has a term, or words that a compound begins and ends with: *burg* alone
    tells nothing of *Hamburg*."""
    known = _vocabulary().get(language, {})
    cuts = range(_SHORTEST_PART - 1, len(term) - _SHORTEST_PART + 2)
    return term in known or (
        any(term[:at] in known for at in cuts) and any(term[at:] in known for at in cuts)
    )


def _meanings(among: _Concepts, term: str, language: str, other: str) -> frozenset[str]:
    found = _concepts_of(among, term, language)
    return frozenset(chain.from_iterable(concept.get(other, ()) for concept in found)) - {term}


def _concepts_of(among: _Concepts, term: str, language: str) -> Sequence[_Concept]:
    known = among.get(language, {})
    return known.get(term) or (_of_parts(term, known) if language == "german" else ())


@lru_cache(maxsize=_REMEMBERED_TERMS)
def synonyms(term: str, language: str) -> frozenset[str]:
    """Return the terms of a language that mean the same as a term, and not only as a part of it."""
    concepts = _CONCEPTS.get(language, {}).get(term, ())
    return frozenset(chain.from_iterable(concept.get(language, ()) for concept in concepts)) - {term}


@lru_cache(maxsize=_REMEMBERED_TERMS)
def alike(term: str, language: str | None) -> frozenset[str]:
    """Return the terms of a language that may mean the same as a term, by all of the vocabulary: enough to
    compare two texts that share most words, too much to search by."""
    concepts = _vocabulary().get(language or "", {}).get(term, ())
    # A line without words of the other language lists words that only join others.
    joined = (each for each in concepts if all(each.values()))
    return frozenset(chain.from_iterable(each[language or ""] for each in joined)) - {term}


def _of_parts(compound: str, known: Mapping[str, list[_Concept]]) -> list[_Concept]:
    """Return the concepts of the longest words that a German compound begins and ends with."""
    lengths = range(len(compound) - 1, _SHORTEST_PART - 2, -1)
    begins = (known[compound[:n]] for n in lengths if n >= _SHORTEST_PART and compound[:n] in known)
    ends = (known[compound[-n:]] for n in lengths if compound[-n:] in known)
    return [*next(begins, []), *next(ends, [])]


def _both_parts(compound: str, known: Container[str]) -> Sequence[str]:
    """Return the two known words that an unknown English one consists of, such as "rainforest"."""
    if compound in known:
        return ()
    cuts = range(_SHORTEST_PART, len(compound) - _SHORTEST_PART + 1)
    parts = ((compound[:cut], compound[cut:]) for cut in cuts)
    return next((each for each in parts if each[0] in known and each[1] in known), ())


def is_part(term: str, word: str) -> bool:
    """Tell whether a word is a term, or a German compound that begins or ends with it."""
    if len(term) < _SHORTEST_PART:
        return term == word or (len(word) >= _LONG_WORD and word.endswith(term))
    return word.startswith(term) or word.endswith(term)


def other_language(language: str | None) -> str | None:
    """Return the one of the two languages that is not this one; None if neither is."""
    return _OTHER.get(language or "")


@cache
def _spellings() -> Mapping[str, Mapping[str, str]]:
    """Return the first word of the vocabulary for each of its terms, by language."""
    found: dict[str, dict[str, str]] = {language: {} for language in _COLUMNS}
    for line in _lines(*_VOCABULARY):
        for language, words in zip(_COLUMNS, line.split("|"), strict=True):
            for word in words.split():
                for term in content_terms(word, language):
                    found[language].setdefault(term, word)
    return found


def translated(query: str, language: str | None) -> str:
    """Return a question's words in the other of the two languages, and those that mean no known thing as they
    are; "" if none is known."""
    if (other := other_language(language)) is None:
        return ""
    assert language is not None
    found: list[str] = []
    known = False
    for word in query.strip(" ?.!").split():
        terms = [each for each in content_terms(word, language) if not is_grammatical(each, language, other)]
        words = list(chain.from_iterable(_translations(term, language, other) for term in terms))
        known = known or bool(words)
        found.extend(words or ([word.strip(",;:()\"'")] if terms else []))
    return " ".join(dict.fromkeys(found)) if known else ""


def _translations(term: str, language: str, other: str) -> Sequence[str]:
    """Return a word of the other language for each thing that a term means, the usual one of several."""
    known = _vocabulary()
    parts = _both_parts(term, known[language]) if language == "english" else ()
    meant = chain.from_iterable(_concepts_of(known, each, language) for each in (term, *parts))
    return [_spellings()[other][concept[other][0]] for concept in meant if concept[other]]
