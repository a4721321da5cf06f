"""Whether a question is worth a rewriting before it is searched for: cheap signs, no model.

A wrong yes costs one call, a wrong no a worse search, which the look at its results may still notice. English
and German words are known; of other languages only short follow-ups and several questions in one are seen.
"""

import re
from collections.abc import Sequence

from groundline_coordinator.domain import Candidate, HistoryMessage, RewritingMode

__all__ = ["MAX_SUB_QUERIES", "is_complex", "is_follow_up", "is_weak", "wants_rewriting"]

MAX_SUB_QUERIES = 4

# With a conversation before it, a question this short leans on it.
_SHORT_WORDS = 4

_WORD = re.compile(r"[^\W_]+")
_QUESTION_END = re.compile(r"[?？؟](?=\s|$)")

# Words that point at something said before.
_ENGLISH_POINTERS = """
    it its they them their theirs he him his she her hers this that these those there then one ones former
    latter same else instead otherwise above
"""
_GERMAN_POINTERS = """
    er ihn ihm sein seine seiner sie ihr ihre ihrer ihnen es das dies diese dieser dieses diesem diesen jene
    jener jenes dort davon dazu damit dafür dagegen darüber darauf daran darin danach dabei deren dessen denen
    sonst stattdessen solche solcher
"""
_POINTERS = frozenset((_ENGLISH_POINTERS + _GERMAN_POINTERS).split())
_CONTINUATION = re.compile(
    r"(and|but|or|so|also|what about|how about|why|why not|what if|und|aber|oder|auch|was ist mit|"
    r"wie ist es mit|wie sieht es|warum|wieso|weshalb|und wenn)\b",
    re.IGNORECASE,
)
_COMPARISON = re.compile(
    r"\b(compar(e|ed|ing|ison)|differences?\s+between|differs?|versus|vs|(better|worse|more|less|\w+er)\s+than|"
    r"vergleich\w*|unterschied\w*|unterscheide\w*|gegenüber|im gegensatz)\b",
    re.IGNORECASE,
)
_INTERROGATIVES = (
    r"(what|which|who|whom|whose|when|where|why|how|was|welche[rmns]?|wer|wen|wem|wann|wo|warum|wie|wieviel)"
)
_SEVERAL = re.compile(
    rf"\b{_INTERROGATIVES}\b.*\b(and|or|und|oder)\s+{_INTERROGATIVES}\b", re.IGNORECASE | re.DOTALL
)


def wants_rewriting(mode: RewritingMode, query: str, history: Sequence[HistoryMessage]) -> bool:
    """Whether to rewrite before the first search."""
    match mode:
        case RewritingMode.OFF:
            return False
        case RewritingMode.ALWAYS:
            return True
        case RewritingMode.AUTO:
            return is_follow_up(query, history) or is_complex(query)


def is_follow_up(query: str, history: Sequence[HistoryMessage]) -> bool:
    """Whether the question may not be understood without the conversation before it."""
    if not history:
        return False
    words = [word.casefold() for word in _WORD.findall(query)]
    return (
        len(words) <= _SHORT_WORDS
        or _CONTINUATION.match(query.strip()) is not None
        or not _POINTERS.isdisjoint(words)
    )


def is_complex(query: str) -> bool:
    """Whether it asks for several things, or compares: each part is then better searched for by itself."""
    return (
        len(_QUESTION_END.findall(query)) > 1
        or _COMPARISON.search(query) is not None
        or _SEVERAL.search(query) is not None
    )


def is_weak(candidates: Sequence[Candidate], weak_similarity: float) -> bool:
    """Whether a search found nothing, or nothing that is at least this similar.

    Without the semantic arm nothing is known of similarity, and what was found counts as good.
    """
    similarities = [each.semantic.score for each in candidates if each.semantic is not None]
    return not candidates or (bool(similarities) and max(similarities) < weak_similarity)
