"""The `local` embedder: an ONNX model on threads of its own."""

import asyncio
import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding

from groundline_embedding.errors import ModelError
from groundline_embedding.local import models
from groundline_embedding.local.onnx_model import TokenIds, whole_texts
from groundline_embedding.ports import ReadsTextsAlone, Vectors
from groundline_embedding.settings import EmbeddingSettings

WINDOW_OVERLAP: Final = 32
"""Tokens that two windows of a long text share, so that a passage across their border is in one of them."""

WINDOW_SLACK: Final = 4
"""Tokens that a window leaves free."""

TOKENISED_AT_ONCE: Final = 256
"""Texts tokenised in one call; a tokeniser's result takes some 25 kB a text."""

RUN_TOKENS: Final = 256
"""Maximum tokens in one run of the model, padding included, unless one text has more. MiniLM is fastest with
200 to 400, whether of many texts or of one; and the fewer texts share a run, the less of it is padding."""


class LocalEmbedder(ReadsTextsAlone):
    """An Embedder over a model of sentence-transformers or fastembed.

    The model's native code releases the GIL, so it runs on threads beside the event loop. Queries have
    threads of their own and share the processor with batches of documents instead of waiting for them.
    Documents go batch by batch, a batch for each thread of the model: threads that share a batch wait for
    each other, which takes a third more processor time. Callers take turns at each batch, and a cancelled
    call stops after the batches under way.
    """

    def __init__(
        self,
        name: str,
        model: models.Model,
        *,
        threads: int,
        batch_size: int,
        prompts: models.Prompts | None = None,
    ) -> None:
        """Take a model for queries, which is loaded with one thread for each run when the first document
        comes."""
        self.model = name
        self._prompts = prompts or models.Prompts()
        self._tokenizer = model.tokenizer
        self._counting = whole_texts(self._tokenizer)
        self._model = model
        self._for_documents: models.Model | None = None
        self._loading = threading.Lock()
        self._threads = threads
        self._batch_size = batch_size
        # Fails now rather than at the first query if the files are wrong.
        self.dimensions = len(self._embed_one("dimensions"))
        self._queries = ThreadPoolExecutor(threads, thread_name_prefix="embed-query")
        self._documents = ThreadPoolExecutor(threads, thread_name_prefix="embed-documents")

    @classmethod
    def load(cls, settings: EmbeddingSettings) -> Self:
        """Prepare the model's files if need be and load them. Blocks; raises ModelError."""
        threads = settings.threads or _usable_cores()
        model = models.load(settings, threads)
        try:
            embedder = cls(
                settings.model,
                model,
                threads=threads,
                batch_size=settings.batch_size,
                prompts=models.prompts(settings),
            )
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(
                f"embedding model {settings.model!r} does not run: {' '.join(str(error).split())}"
            ) from error
        if embedder.dimensions != model.dimensions:
            raise ModelError(
                f"embedding model {settings.model!r} should have {model.dimensions} dimensions, "
                f"but its files give {embedder.dimensions}"
            )
        return embedder

    @property
    def max_tokens(self) -> int | None:
        truncation = self._tokenizer.truncation
        return None if truncation is None else int(truncation["max_length"])

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        encodings = self._counting.encode_batch_fast(list(texts), add_special_tokens=False)
        return [len(encoding.ids) for encoding in encodings]

    def cost(self, tokens: int) -> float:
        return 0.0

    async def embed_query(self, text: str) -> Vectors:
        return await _run(self._queries, self._embed_one, text)

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed documents; a text longer than the model reads gets the mean of its windows' vectors, so that
        all of it counts.

        On a set where 3 in 4 texts are longer (BEIR scifact), 3 in 100 more were found among the first 10
        than by the vectors of their beginnings; on other sets as many or more.
        """
        owners: list[int] = []
        windows: list[TokenIds] = []
        for some in itertools.batched(enumerate(texts), TOKENISED_AT_ONCE):
            for owner, window in await _run(self._documents, self._windows, some):
                owners.append(owner)
                windows.append(window)
        lengths = [len(window) for window in windows]
        vectors = await self._embed_in_batches(windows, lengths)
        if len(windows) == len(texts):
            return vectors
        sums = np.zeros((len(texts), self.dimensions), np.float32)
        np.add.at(sums, owners, vectors * np.array(lengths, np.float32)[:, None])
        return _unit(sums)

    async def _embed_in_batches(self, windows: Sequence[TokenIds], lengths: Sequence[int]) -> Vectors:
        vectors = np.empty((len(windows), self.dimensions), np.float32)
        batches = batches_by_length(lengths, self._batch_size)

        async def embed() -> None:
            for batch in batches:
                some = [windows[i] for i in batch]
                vectors[batch] = await _run(self._documents, self._embed_batch, some)

        running = [asyncio.ensure_future(embed()) for _ in range(self._threads)]
        try:
            await asyncio.gather(*running)
        finally:
            for one in running:
                one.cancel()
        return vectors

    async def close(self) -> None:
        for executor in (self._queries, self._documents):
            await asyncio.to_thread(executor.shutdown)

    def _windows(self, texts: Sequence[tuple[int, str]]) -> list[tuple[int, TokenIds]]:
        """Return the token windows of numbered texts, with their numbers; a long text has several, evenly
        spread."""
        windows = []
        encodings = self._encoded([text for _, text in texts])
        for (number, text), encoding in zip(texts, encodings, strict=True):
            parts = self._parts(text) if encoding.overflowing else []
            windows += [(number, _token_ids(one)) for one in (self._encoded(parts) if parts else [encoding])]
        return windows

    def _encoded(self, texts: Sequence[str]) -> Sequence[Encoding]:
        """Encode texts as the model reads them: with its prompt and special tokens, truncated."""
        encodings: Sequence[Encoding] = self._tokenizer.encode_batch(
            [f"{self._prompts.document}{text}" for text in texts]
        )
        return encodings

    def _parts(self, text: str) -> list[str]:
        """Split a text that is too long for the model into parts that fit; empty if it fits by itself."""
        assert self.max_tokens is not None, "nothing is too long otherwise"
        [prompt] = self.count_tokens([self._prompts.document])
        # A word that a window cuts may take more tokens than it did whole.
        special = self._counting.num_special_tokens_to_add(False)
        size = self.max_tokens - prompt - special - WINDOW_SLACK
        offsets = self._counting.encode(text, add_special_tokens=False).offsets
        if len(offsets) <= size:
            return []
        needed = -(-(len(offsets) - WINDOW_OVERLAP) // (size - WINDOW_OVERLAP))
        firsts = [round(position * (len(offsets) - size) / (needed - 1)) for position in range(needed)]
        return [text[offsets[first][0] : offsets[first + size - 1][1]] for first in firsts]

    def _embed_one(self, text: str) -> Vectors:
        return _unit(self._model.embed_query(f"{self._prompts.query}{text}"))

    def _embed_batch(self, windows: list[TokenIds]) -> Vectors:
        with self._loading:
            if self._for_documents is None:
                self._for_documents = self._model.single_threaded()
        return _unit(self._for_documents.embed_windows(windows))


def batches_by_length(lengths: Sequence[int], batch_size: int) -> Iterator[list[int]]:
    """Yield the indices of the texts that share a run of the model, by their lengths in tokens: at most
    `batch_size` of like length, so that little is padding, and fewer of long ones. The longest go first, so
    that onnxruntime allocates its memory once."""
    batch: list[int] = []
    for position in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if batch and (len(batch) == batch_size or (len(batch) + 1) * lengths[batch[0]] > RUN_TOKENS):
            yield batch
            batch = []
        batch.append(position)
    if batch:
        yield batch


def _token_ids(encoding: Encoding) -> TokenIds:
    """Return the ids without padding."""
    ids: TokenIds = np.array(encoding.ids, np.int64)[np.array(encoding.attention_mask, bool)]
    return ids


def _unit(vectors: NDArray[Any]) -> Vectors:
    """Scale vectors to length 1 along the last axis; not all models do so themselves."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    scaled: Vectors = (vectors / np.maximum(norms, np.finfo(np.float32).tiny)).astype(np.float32, copy=False)
    return scaled


async def _run[*Arguments, Result](
    executor: ThreadPoolExecutor, function: Callable[[*Arguments], Result], *arguments: *Arguments
) -> Result:
    return await asyncio.get_running_loop().run_in_executor(executor, function, *arguments)


def _usable_cores() -> int:
    # Fewer than the machine's cores if a cpuset or taskset limits the process.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
