"""Contexts that a language model writes: what is asked for, what is paid for, and at which pace."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from groundline.v1 import chat_pb2, document_pb2, error_pb2, passage_pb2
from groundline_extraction.documents import IngestionError
from groundline_extraction.texts import ExtractedText
from groundline_indexing.collections import StoredCollection
from groundline_indexing.documents import DocumentVersion
from groundline_indexing.preparation import Prepared
from groundline_indexing.texts import PreparedChunk, Section
from groundline_ingestor.service.worker.generator import contextualization
from groundline_ingestor.service.worker.generator.asking import GeneratorCalls
from groundline_ingestor.service.worker.generator.contextualization import (
    CHUNKS_PER_CALL,
    Contextualization,
    WrittenContexts,
)
from groundline_runtime.errors import (
    FailedPreconditionError,
    GroundlineError,
    InternalError,
    InvalidArgumentError,
    ResourceExhaustedError,
    UnavailableError,
)
from groundline_tests.ingestor.messages import stored_collection

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LLM = {"mode": "CONTEXTUALIZATION_MODE_LLM"}


def collection(**contextualization: str) -> StoredCollection:
    return stored_collection(contextualization=contextualization)


def prepared(count: int, *, text: str = "", title: str = "Manual") -> Prepared:
    words = [f"Chunk{number}." for number in range(count)]
    text = text or " ".join(words)
    version = DocumentVersion("manual.md", passage_pb2.SOURCE_TYPE_FILE, title, "", b"", b"", b"", 0, {}, ())
    chunks = []
    for word in words:
        start = max(text.find(word), 0)
        chunks.append(PreparedChunk(Section(word, start, start + len(word)), "structural", "lexical", b""))
    return Prepared(version, chunks, ExtractedText(text, "text/plain"))


@dataclass
class Writer:
    """A generator that says of each chunk where it is; it fails first as it is told to."""

    errors: list[GroundlineError] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    running: int = 0
    most_running: int = 0
    short: int = 0
    default: str = "m"

    async def write(self, **call: Any) -> WrittenContexts:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        self.calls.append(call)
        await asyncio.sleep(0)
        self.running -= 1
        if self.errors:
            raise self.errors.pop(0)
        contexts = [f"Where {text} is." for text in call["chunk_texts"]]
        return WrittenContexts(
            contexts[self.short :], chat_pb2.Usage(prompt_tokens=100, cached_tokens=80, output_tokens=5)
        )

    async def version(self, *, prompt: str, model: str) -> str:
        return f"{model or self.default} {prompt}"


class Cache(dict[bytes, str]):
    """In memory."""

    async def get(self, keys: Sequence[bytes]) -> Mapping[bytes, str]:  # type: ignore[override]
        return {key: self[key] for key in keys if key in self}

    async def put(self, contexts: Mapping[bytes, str]) -> None:
        for key, context in contexts.items():
            self.setdefault(key, context)

    async def discard(self, older_than_seconds: float, limit: int) -> int:
        raise NotImplementedError


@dataclass
class Setup:
    writer: Writer = field(default_factory=Writer)
    cache: Cache = field(default_factory=Cache)
    pauses: list[float] = field(default_factory=list)
    usages: list[chat_pb2.Usage] = field(default_factory=list)
    budget: int = -1
    """Calls that may be paid; negative without a limit."""

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)

    async def require_budget(self) -> None:
        if self.budget == 0:
            raise IngestionError(document_pb2.INGESTION_STATE_CONTEXTUALIZING, "QUOTA_EXHAUSTED", "spent")
        self.budget -= 1

    async def spend(self, usage: chat_pb2.Usage) -> None:
        self.usages.append(usage)

    def contextualization(self, calls: int = 4) -> Contextualization:
        count: Callable[[Sequence[str]], list[int]] = lambda texts: [len(text.split()) for text in texts]  # noqa: E731
        return Contextualization(self.writer, self.cache, count, GeneratorCalls(calls, sleep=self.sleep))


async def test_without_a_generator_the_llm_mode_is_refused_and_the_others_work() -> None:
    alone = Contextualization(None, Cache(), lambda texts: [0] * len(texts), GeneratorCalls())
    with pytest.raises(FailedPreconditionError) as raised:
        alone.require(collection(**LLM))
    assert raised.value.reason == "GENERATOR_NOT_CONFIGURED"
    with pytest.raises(FailedPreconditionError):
        await alone.contextualize(prepared(1), collection(**LLM), Setup())
    for mode in ("CONTEXTUALIZATION_MODE_NONE", "CONTEXTUALIZATION_MODE_STRUCTURAL"):
        alone.require(collection(mode=mode))
        given = prepared(2)
        assert await alone.contextualize(given, collection(mode=mode), Setup()) == given.chunks


async def test_a_spent_budget_ends_a_document_and_what_was_paid_for_stays() -> None:
    setup = Setup(budget=1)
    given = prepared(CHUNKS_PER_CALL + 1)
    with pytest.raises(IngestionError) as refused:
        await setup.contextualization().contextualize(given, collection(**LLM), setup)
    assert refused.value.failure.reason == error_pb2.QUOTA_EXHAUSTED
    assert len(setup.cache) == CHUNKS_PER_CALL
    setup.budget = 1
    await setup.contextualization().contextualize(given, collection(**LLM), setup)
    assert [len(call["chunk_texts"]) for call in setup.writer.calls] == [CHUNKS_PER_CALL, 1]


async def test_chunks_of_a_document_share_calls_that_carry_it_whole() -> None:
    setup = Setup()
    given = prepared(CHUNKS_PER_CALL + 1)
    done = await setup.contextualization().contextualize(
        given, collection(**LLM, prompt="p", model="m"), setup
    )
    assert [len(call["chunk_texts"]) for call in setup.writer.calls] == [CHUNKS_PER_CALL, 1]
    for call in setup.writer.calls:
        assert call["document_text"] == given.extraction.text
        assert (call["title"], call["prompt"], call["model"]) == ("Manual", "p", "m")
    assert [chunk.context for chunk in done][-1] == f"Where Chunk{CHUNKS_PER_CALL}. is."
    assert done[0].embedded_text == "Where Chunk0. is.\n\nChunk0."
    assert "where chunk0 is" in done[0].lexical_text
    assert [chunk.section for chunk in done] == [chunk.section for chunk in given.chunks]
    assert setup.usages == [chat_pb2.Usage(prompt_tokens=100, cached_tokens=80, output_tokens=5)] * 2


async def test_a_chunk_within_a_table_keeps_the_first_row_of_the_table() -> None:
    setup = Setup()
    given = prepared(2, text="| Part | Price |\n|---|---|\n| Chunk0. | 1 |\n| Chunk1. | 2 |\n")
    done = await setup.contextualization().contextualize(given, collection(**LLM), setup)
    assert [chunk.context for chunk in done] == [
        f"Where Chunk{number}. is.\n| Part | Price |" for number in (0, 1)
    ]


async def test_tokens_of_failed_calls_are_told_too() -> None:
    """The generator tells in an error's metadata what the provider has charged for until then."""
    paid = {"prompt_tokens": "40", "cached_tokens": "7", "output_tokens": "2"}
    setup = Setup()
    setup.writer.errors = [
        UnavailableError("PROVIDER_STREAM_CUT", "cut off", metadata=paid),
        UnavailableError("PROVIDER_UNAVAILABLE", "out of reach"),
        InternalError("MODEL_REPLY_UNUSABLE", "no contexts", metadata={"prompt_tokens": "30"}),
    ]
    with pytest.raises(InternalError):
        await setup.contextualization().contextualize(prepared(1), collection(**LLM), setup)
    assert setup.usages == [
        chat_pb2.Usage(prompt_tokens=40, cached_tokens=7, output_tokens=2),
        chat_pb2.Usage(prompt_tokens=30),
    ]


async def test_what_was_written_before_is_not_paid_for_again() -> None:
    setup = Setup()
    service = setup.contextualization()
    first = await service.contextualize(prepared(3), collection(**LLM), setup)
    again = await service.contextualize(prepared(3), collection(**LLM), setup)
    assert again == first
    assert len(setup.writer.calls) == len(setup.usages) == 1
    setup.writer.default = "a newer model"
    await service.contextualize(prepared(3), collection(**LLM), setup)
    assert len(setup.writer.calls) == 2


def changed(given: Prepared, position: int, text: str) -> Prepared:
    """Return the document with other text in one of its chunks."""
    chunks = list(given.chunks)
    old = chunks[position].section
    chunks[position] = replace(chunks[position], section=replace(old, text=text))
    whole = given.extraction.text.replace(old.text, text)
    return replace(given, chunks=chunks, extraction=replace(given.extraction, text=whole))


@pytest.mark.parametrize(
    ("keeps", "rewritten"),
    [
        (True, ["Chunk4.", "Changed.", "Chunk6."]),
        (False, [*(f"Chunk{n}." for n in range(5)), "Changed.", *(f"Chunk{n}." for n in range(6, 10))]),
    ],
)
async def test_a_changed_word_rewrites_what_it_touches_where_contexts_are_kept_and_else_all(
    keeps: bool, rewritten: list[str]
) -> None:
    setup = Setup()
    service = setup.contextualization()
    into = stored_collection(contextualization={**LLM, "keepUnchanged": keeps})
    before = await service.contextualize(prepared(10), into, setup)
    setup.writer.calls.clear()
    after = await service.contextualize(changed(prepared(10), 5, "Changed."), into, setup)
    assert [text for call in setup.writer.calls for text in call["chunk_texts"]] == rewritten
    assert after[5].context == "Where Changed. is."
    assert after[0] == before[0]


async def test_documents_of_one_text_do_not_keep_contexts_for_each_other() -> None:
    setup = Setup()
    service = setup.contextualization()
    into = stored_collection(contextualization={**LLM, "keepUnchanged": True})
    await service.contextualize(prepared(3), into, setup)
    copy = replace(prepared(3), version=replace(prepared(3).version, uri="copy.md"))
    await service.contextualize(copy, into, setup)
    assert len(setup.writer.calls) == 2


@pytest.mark.parametrize(
    ("given", "settings"),
    [
        (prepared(3, text="Chunk0. Chunk1. Chunk2. More."), {}),
        (prepared(3, title="Other"), {}),
        (prepared(3), {"prompt": "another"}),
        (prepared(3), {"model": "another"}),
    ],
)
async def test_another_text_prompt_or_model_is_new_work(given: Prepared, settings: dict[str, str]) -> None:
    setup = Setup()
    service = setup.contextualization()
    await service.contextualize(prepared(3), collection(**LLM), setup)
    await service.contextualize(given, collection(**LLM, **settings), setup)
    assert len(setup.writer.calls) == 2


async def test_contexts_of_calls_that_succeeded_outlive_a_failure() -> None:
    class Failing(Writer):
        async def write(self, **call: Any) -> WrittenContexts:
            if self.calls:
                self.errors = [InvalidArgumentError([])]
            return await super().write(**call)

    setup = Setup(writer=Failing())
    with pytest.raises(InvalidArgumentError):
        await setup.contextualization().contextualize(prepared(CHUNKS_PER_CALL + 2), collection(**LLM), setup)
    setup.writer = Writer()
    await setup.contextualization().contextualize(prepared(CHUNKS_PER_CALL + 2), collection(**LLM), setup)
    assert [len(call["chunk_texts"]) for call in setup.writer.calls] == [2]


async def test_a_quota_slows_the_work_down_and_does_not_end_it() -> None:
    quota = ResourceExhaustedError("QUOTA", "slow down", retry_after_seconds=17.0)
    setup = Setup(writer=Writer(errors=[quota, UnavailableError("DOWN", "down")]))
    done = await setup.contextualization().contextualize(prepared(2), collection(**LLM), setup)
    assert [chunk.context for chunk in done] == ["Where Chunk0. is.", "Where Chunk1. is."]
    assert len(setup.writer.calls) == 3
    assert setup.pauses[0] >= 17


async def test_when_one_call_is_told_to_wait_all_wait() -> None:
    quota = ResourceExhaustedError("QUOTA", "slow down", retry_after_seconds=40.0)
    setup = Setup(writer=Writer(errors=[quota]))
    service = setup.contextualization(calls=1)
    await service.contextualize(prepared(1), collection(**LLM), setup)
    before = len(setup.pauses)
    await service.contextualize(prepared(1, title="Other"), collection(**LLM), setup)
    assert setup.pauses[before:][0] > 30


async def test_no_more_calls_run_at_a_time_than_may() -> None:
    setup = Setup()
    service = setup.contextualization(calls=2)
    await asyncio.gather(
        *(service.contextualize(prepared(1, title=str(n)), collection(**LLM), setup) for n in range(8))
    )
    assert setup.writer.most_running == 2
    assert len(setup.writer.calls) == 8


async def test_an_error_that_waiting_does_not_cure_is_passed_on() -> None:
    setup = Setup(writer=Writer(errors=[FailedPreconditionError("MODEL_UNKNOWN", "no such model")]))
    with pytest.raises(FailedPreconditionError):
        await setup.contextualization().contextualize(prepared(1), collection(**LLM), setup)
    assert setup.pauses == []


async def test_contexts_that_do_not_match_their_chunks_are_refused() -> None:
    setup = Setup(writer=Writer(short=1))
    with pytest.raises(IngestionError) as raised:
        await setup.contextualization().contextualize(prepared(3), collection(**LLM), setup)
    assert raised.value.failure.reason == error_pb2.CONTEXTS_INCOMPLETE
    assert not setup.cache


async def test_of_a_long_document_the_segment_around_the_chunks_goes_along() -> None:
    half = contextualization.DOCUMENT_CHARACTERS // 2
    text = "Chunk0. Chunk1.".ljust(2 * half + 10) + "Chunk2. ".ljust(half) + "Chunk3."
    setup = Setup()
    await setup.contextualization().contextualize(prepared(4, text=text), collection(**LLM), setup)
    assert [call["chunk_texts"] for call in setup.writer.calls] == [
        ["Chunk0.", "Chunk1."],
        ["Chunk2."],
        ["Chunk3."],
    ]
    for call in setup.writer.calls:
        assert len(call["document_text"]) <= contextualization.DOCUMENT_CHARACTERS
        assert all(chunk in call["document_text"] for chunk in call["chunk_texts"])


async def test_an_estimate_calls_nobody_and_counts_what_is_not_cached() -> None:
    setup = Setup()
    service = setup.contextualization()
    given = prepared(CHUNKS_PER_CALL + 1)
    words = CHUNKS_PER_CALL + 1
    assert await service.estimate(given, collection(**LLM)) == chat_pb2.Usage(
        # The document for each of 10, 10 and 1 chunks, and the chunks.
        prompt_tokens=4 * words,
        cached_tokens=2 * words,
        output_tokens=100 * words,
    )
    assert setup.writer.calls == []
    await service.contextualize(given, collection(**LLM), setup)
    assert await service.estimate(given, collection(**LLM)) == chat_pb2.Usage()
    assert await service.estimate(given, collection()) == chat_pb2.Usage()
