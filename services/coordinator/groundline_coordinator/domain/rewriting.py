"""Signs that a question should be rewritten before the search: cheap ones, without a model.

A wrong yes costs one call, a wrong no a worse search, which the look at its results may still notice. English
and German words are known; in other languages only short follow-ups and several questions in one are
recognised.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from groundline.v1 import chat_pb2, generator_service_pb2, options_pb2, passage_pb2

MAX_SUB_QUERIES: Final = 4

_THOROUGH_SEARCHES: Final = 2
"""For iterative retrieval it is published that two rounds give some 95 % of what five give."""

# After a conversation, a question this short depends on it.
_SHORT_WORDS: Final = 4

_WORD: Final = re.compile(r"[^\W_]+")
_TOKEN: Final = re.compile(r"\w+")
"""A word as the retriever corrects it."""
_QUESTION_END: Final = re.compile(r"[?？؟](?=\s|$)")

# Words that point at something said before.
_ENGLISH_POINTERS: Final = """
    it its they them their theirs he him his she her hers this that these those there then one ones former
    latter same else instead otherwise above
"""
_GERMAN_POINTERS: Final = """
    er ihn ihm sein seine seiner sie ihr ihre ihrer ihnen es das dies diese dieser dieses diesem diesen jene
    jener jenes dort davon dazu damit dafür dagegen darüber darauf daran darin danach dabei deren dessen denen
    sonst stattdessen solche solcher
"""
_POINTERS: Final = frozenset((_ENGLISH_POINTERS + _GERMAN_POINTERS).split())
_CONTINUATION: Final = re.compile(
    r"(and|but|or|so|also|what about|how about|why|why not|what if|und|aber|oder|auch|was ist mit|"
    r"wie ist es mit|wie sieht es|warum|wieso|weshalb|und wenn)\b",
    re.IGNORECASE,
)
_COMPARISON: Final = re.compile(
    r"\b(compar(e|ed|ing|ison)|differences?\s+between|differs?|versus|vs|(better|worse|more|less|\w+er)\s+than|"
    r"(more|less|better|worse|most|\w{3,}er)\b.*\bor|or\b.*\b(more|less|better|worse|\w{3,}er)|"
    r"(mehr|weniger|\w{3,}er)\b.*\boder|oder\b.*\b(mehr|weniger|\w{3,}er)|\w{3,}er\s+als|"
    r"vergleich\w*|unterschied\w*|unterscheide\w*|gegenüber|im gegensatz)\b",
    re.IGNORECASE,
)
_INTERROGATIVES: Final = (
    r"(what|which|who|whom|whose|when|where|why|how|was|welche[rmns]?|wer|wen|wem|wann|wo|warum|wie|wieviel)"
)
_SEVERAL: Final = re.compile(
    rf"\b{_INTERROGATIVES}\b.*\b(and|or|und|oder)\s+((also|auch)\s+)?([a-zü]{{2,5}}\s+)?{_INTERROGATIVES}\b",
    re.IGNORECASE | re.DOTALL,
)


def wants_rewriting(
    effort: options_pb2.Effort.ValueType, query: str, history: Sequence[chat_pb2.ChatMessage]
) -> bool:
    """Tell whether to rewrite before the first search."""
    return is_follow_up(query, history) or (effort != options_pb2.EFFORT_QUICK and is_complex(query))


def further_searches(
    effort: options_pb2.Effort.ValueType, rewrite: generator_service_pb2.RewriteQueryResponse
) -> int:
    """Return the maximum number of searches for what the first one lacks."""
    if effort == options_pb2.EFFORT_THOROUGH:
        return _THOROUGH_SEARCHES
    return int(effort != options_pb2.EFFORT_QUICK and len(rewrite.sub_queries) > 1)


def is_follow_up(query: str, history: Sequence[chat_pb2.ChatMessage]) -> bool:
    """Tell whether the question may not be understood without the conversation before it."""
    if not history:
        return False
    words = [word.casefold() for word in _WORD.findall(query)]
    return (
        len(words) <= _SHORT_WORDS
        or _CONTINUATION.match(query.strip()) is not None
        or not _POINTERS.isdisjoint(words)
    )


def is_complex(query: str) -> bool:
    """Tell whether it asks for several things, or compares: each part is then better searched for by
    itself."""
    return (
        len(_QUESTION_END.findall(query)) > 1
        or _COMPARISON.search(query) is not None
        or _SEVERAL.search(query) is not None
    )


def queries_of(rewrite: generator_service_pb2.RewriteQueryResponse) -> Sequence[str]:
    """Return the queries of a rewriting: the standalone question, then its parts, each once."""
    return tuple(dict.fromkeys((rewrite.standalone_query, *rewrite.sub_queries)))


def with_corrections(
    rewrite: generator_service_pb2.RewriteQueryResponse, corrections: Iterable[passage_pb2.Correction]
) -> generator_service_pb2.RewriteQueryResponse:
    """Return a rewriting with the words that were searched for in place of misspelled ones."""
    used = {each.given.lower(): each.used for each in corrections}

    def corrected(query: str) -> str:
        return _TOKEN.sub(lambda match: used.get(match[0].lower(), match[0]), query)

    changed = generator_service_pb2.RewriteQueryResponse()
    changed.CopyFrom(rewrite)
    changed.standalone_query = corrected(rewrite.standalone_query)
    changed.sub_queries[:] = map(corrected, rewrite.sub_queries)
    changed.model = rewrite.model or "rules"
    return changed


def status_of(
    query: str,
    rewrite: generator_service_pb2.RewriteQueryResponse,
    corrections: Iterable[passage_pb2.Correction] = (),
) -> chat_pb2.ChatStatus:
    """Return a rewriting as a client is told it; empty if the question stayed the same."""
    rewritten = "" if rewrite.standalone_query == query else rewrite.standalone_query
    return chat_pb2.ChatStatus(
        rewritten_query=rewritten,
        sub_queries=rewrite.sub_queries,
        rewriting_model=rewrite.model if rewritten or rewrite.sub_queries else "",
        corrections=corrections,
    )
