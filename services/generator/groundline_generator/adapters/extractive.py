"""A provider without a model: it quotes the sentences that answer, each with its source."""

import re
import threading
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Final

from groundline.v1 import chat_pb2, error_pb2
from groundline.v1 import generator_service_pb2 as pb

from groundline_generator.domain.calls import EXTRACTIVE, ModelFinished, OnWait
from groundline_generator.domain.checking.validation import shortened
from groundline_generator.domain.quoting.extraction import Answerability, Extract, Extraction, extract
from groundline_generator.domain.refusals import refusal
from groundline_generator.service.concurrency import computed

_TOKEN: Final = re.compile(r"\w+|[^\w\s]")


class ExtractiveModel:
    """An AnswerModel; tokens are words and punctuation marks."""

    def __init__(
        self, *, min_relevance: float, max_sentences: int, answerability: Answerability | None
    ) -> None:
        self._min_relevance = min_relevance
        self._max_sentences = max_sentences
        self._answerability = answerability

    def check(self, request: pb.GenerateRequest) -> str:
        return EXTRACTIVE.of(request.options.model)

    def served(self, request: pb.GenerateRequest) -> Sequence[pb.NumberedPassage]:
        return request.passages

    async def stream(
        self, request: pb.GenerateRequest, served: Sequence[pb.NumberedPassage], on_wait: OnWait
    ) -> AsyncGenerator[str | ModelFinished]:
        """Answer sentence by sentence; see AnswerModel."""
        issues = _unused(request)
        extraction = await self._extract(request, served)
        if not extraction.extracts:
            yield refusal(request.query)
            yield ModelFinished(chat_pb2.FINISH_REASON_NO_ANSWER, issues=issues)
            return
        issues.extend(map(_untold, extraction.untold))
        quoted, complete = _within(extraction.extracts, request.options.max_output_tokens)
        for previous, piece in zip((None, *quoted), quoted, strict=False):
            yield _separator(previous, piece) + _quoted(piece)
        yield ModelFinished(
            chat_pb2.FINISH_REASON_STOP if complete else chat_pb2.FINISH_REASON_MAX_TOKENS,
            issues=issues,
            likelihood=extraction.likelihood,
        )

    async def _extract(self, request: pb.GenerateRequest, served: Sequence[pb.NumberedPassage]) -> Extraction:
        """Extract in a thread, which ends soon after this call is cancelled."""
        cancelled = threading.Event()

        def checkpoint() -> None:
            if cancelled.is_set():
                raise _CancelledError

        options = request.options
        work = partial(
            extract,
            request.query,
            served,
            min_relevance=(
                options.min_relevance if options.HasField("min_relevance") else self._min_relevance
            ),
            max_sentences=self._max_sentences,
            answerability=self._answerability,
            checkpoint=checkpoint,
        )
        try:
            return await computed(work, served)
        finally:
            cancelled.set()


class _CancelledError(Exception):
    """A cancelled call; it ends the thread."""


def _within(extracts: Sequence[Extract], limit: int) -> tuple[list[Extract], bool]:
    """Return the first extracts that fit into `limit` tokens, and whether all did; a first one too long is
    cut.

    0 sets no limit.
    """
    if not limit:
        return list(extracts), True
    fitting: list[Extract] = []
    for piece in extracts:
        ends = [token.end() for token in _TOKEN.finditer(piece.text)]
        if len(ends) > limit:
            if not fitting:
                fitting.append(Extract(piece.number, piece.text[: ends[limit - 1]], piece.is_code))
            return fitting, False
        fitting.append(piece)
        limit -= len(ends)
    return fitting, True


def _separator(previous: Extract | None, piece: Extract) -> str:
    """Return what stands between two quotations, and begins an item of a list."""
    mark = f"{piece.step}." if piece.is_numbered else "-"
    if previous is None:
        return f"{mark} " if piece.step else ""
    if piece.step and previous.step != piece.step:
        return f"{'\n\n' if previous.is_code else '\n'}{mark} "
    return "\n\n" if previous.is_code or piece.is_code or (previous.step and not piece.step) else " "


def _quoted(piece: Extract) -> str:
    """Return a quotation with its marker, which would keep a block of code open behind its closing fence."""
    return f"```\n{piece.text}\n```\n[{piece.number}]" if piece.is_code else f"{piece.text} [{piece.number}]"


def _untold(part: str) -> chat_pb2.ValidationIssue:
    message = f"no passage was found that answers this part: {shortened(part)}"
    return chat_pb2.ValidationIssue(reason=error_pb2.NO_SUPPORTING_PASSAGE, message=message)


def _unused(request: pb.GenerateRequest) -> list[chat_pb2.ValidationIssue]:
    """Return an issue that names the options that only a language model follows."""
    names = [
        name
        for name, value in (
            ("system_prompt", request.options.system_prompt),
            ("prompt_template", request.options.prompt_template),
            ("additional_context", request.additional_context),
        )
        if value
    ]
    if not names:
        return []
    message = f"the extractive provider calls no language model; not used: {', '.join(names)}"
    return [chat_pb2.ValidationIssue(reason=error_pb2.INPUT_NOT_USED, message=message)]
