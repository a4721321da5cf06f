"""Whether a question is worth a rewriting before it is searched for: cheap signs, no model.

A wrong yes costs one call, a wrong no a worse search, which the look at its results may still notice. English
and German words are known; of other languages only short follow-ups and several questions in one are seen.
"""

import re
from collections.abc import Sequence

from groundline.v1 import chat_pb2, generator_service_pb2, options_pb2

__all__ = [
    "MAX_SUB_QUERIES",
    "is_complex",
    "is_follow_up",
    "queries_of",
    "status_of",
    "wants_rewriting",
]

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


def wants_rewriting(
    mode: options_pb2.RewritingMode.ValueType, query: str, history: Sequence[chat_pb2.ChatMessage]
) -> bool:
    """Whether to rewrite before the first search."""
    if mode == options_pb2.REWRITING_MODE_OFF:
        return False
    return mode == options_pb2.REWRITING_MODE_ALWAYS or is_follow_up(query, history) or is_complex(query)


def is_follow_up(query: str, history: Sequence[chat_pb2.ChatMessage]) -> bool:
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


def queries_of(rewrite: generator_service_pb2.RewriteQueryResponse) -> Sequence[str]:
    """What to search for: the standalone question, then its parts, each once."""
    return tuple(dict.fromkeys((rewrite.standalone_query, *rewrite.sub_queries)))


def status_of(query: str, rewrite: generator_service_pb2.RewriteQueryResponse) -> chat_pb2.ChatStatus:
    """What of a rewriting a client is told: nothing where the question stayed what it was."""
    rewritten = "" if rewrite.standalone_query == query else rewrite.standalone_query
    return chat_pb2.ChatStatus(
        rewritten_query=rewritten,
        sub_queries=rewrite.sub_queries,
        rewriting_model=rewrite.model if rewritten or rewrite.sub_queries else "",
    )
