"""The cross_encoder strategy: a fastembed model on a thread of its own."""

import asyncio
import itertools
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from groundline.v1 import passage_pb2
from groundline_runtime.context import remaining_seconds
from groundline_runtime.errors import FailedPreconditionError, UnavailableError

from groundline_reranker.adapters.documents import document

if TYPE_CHECKING:
    from fastembed.rerank.cross_encoder import TextCrossEncoder

LOADING_SHARE: Final = 0.8
"""Share of a request's time that it waits for the model: the rest is for saying that it is missing."""

GRAPH_FILES: Final = ("model.onnx", "onnx/model.onnx")

# fastembed's registry of models is global to the process and refuses a name it has.
_registry = threading.Lock()


class CrossEncoderScorer:
    """A Scorer over a fastembed cross-encoder, by name or from a directory of model files.

    The model is loaded for the first request that needs it. While it loads (by name that may be a download),
    requests wait for most of their time, and later ones find it loaded. Batches take turns on one thread,
    whose native code releases the GIL; a request that is cancelled stops after the batch under way.
    """

    def __init__(
        self,
        name: str,
        directory: Path | None,
        *,
        cache_dir: Path | None,
        threads: int | None,
        batch_size: int,
    ) -> None:
        self._name = name
        self._directory = directory
        self._cache_dir = cache_dir
        self._threads = threads
        self._batch_size = batch_size
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="cross-encoder")
        self._loading: asyncio.Task[TextCrossEncoder] | None = None

    async def score(
        self, query: str, chunks: Sequence[passage_pb2.Chunk], model: str | None
    ) -> Sequence[float]:
        """Return the model's raw scores. Raises FailedPreconditionError for another model than the configured
        one, and UnavailableError if that cannot be loaded, or not in time."""
        if model is not None and model.lower() != self._name.lower():
            # Loading any model that a request names would let it fill memory and disk.
            raise FailedPreconditionError(
                "MODEL_NOT_OFFERED", f"the cross-encoder that is set up is {self._name}"
            )
        encoder = await self._loaded()
        loop = asyncio.get_running_loop()
        # Passages of like length share a batch, so that little of it is padding.
        texts = [document(chunk) for chunk in chunks]
        order = sorted(range(len(texts)), key=lambda place: -len(texts[place]))
        scores = [0.0] * len(texts)
        for batch in itertools.batched(order, self._batch_size):
            found = await loop.run_in_executor(
                self._executor, _score, encoder, query, [texts[place] for place in batch]
            )
            for place, score in zip(batch, found, strict=True):
                scores[place] = score
        return scores

    def missing(self) -> str | None:
        """Return the reason why the model cannot be used as it is, None if its files are here; nothing is
        loaded."""
        if find_spec("fastembed") is None:
            return "groundline-reranker[cross-encoder] is not installed"
        if self._directory is not None:
            if any((self._directory / file).is_file() for file in GRAPH_FILES):
                return None
            return f"cross_encoder_dir has neither {' nor '.join(GRAPH_FILES)}"
        if self._cache_dir is None:
            return "no directory is set; if fastembed's own cache lacks it, the first search downloads it"
        # As the hub's client keeps it.
        kept = self._cache_dir / f"models--{self._name.replace('/', '--')}"
        if next(kept.glob("snapshots/*/**/*.onnx"), None) is not None:
            return None
        return "its files are not in cross_encoder_cache_dir; the first search with it has to download them"

    async def close(self) -> None:
        """Wait for the batch under way."""
        if self._loading is not None:
            self._loading.cancel()
        await asyncio.to_thread(self._executor.shutdown, cancel_futures=True)

    async def _loaded(self) -> "TextCrossEncoder":
        """Wait for the model so long that the request can still tell that it is missing."""
        left = remaining_seconds()
        loading = self._load()
        await asyncio.wait({loading}, timeout=None if left is None else left * LOADING_SHARE)
        if not loading.done():
            raise UnavailableError(
                "MODEL_NOT_LOADED",
                f"the cross-encoder {self._name} is not loaded yet; its download may be slow or failing",
            )
        return await loading

    def _load(self) -> "asyncio.Task[TextCrossEncoder]":
        failed = (
            self._loading
            and self._loading.done()
            and (self._loading.cancelled() or self._loading.exception() is not None)
        )
        if self._loading is None or failed:
            self._loading = asyncio.create_task(self._open())
            # Retrieved, or asyncio would report the failure of a load that nobody waits for any more.
            self._loading.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self._loading

    async def _open(self) -> "TextCrossEncoder":
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._open_now)

    def _open_now(self) -> "TextCrossEncoder":
        try:
            from fastembed.rerank.cross_encoder import TextCrossEncoder
        except ImportError:
            raise UnavailableError(
                "CROSS_ENCODER_NOT_INSTALLED",
                "the cross_encoder strategy needs groundline-reranker[cross-encoder]",
            ) from None
        options: dict[str, Any] = {"threads": self._threads}
        if self._cache_dir is not None:
            options["cache_dir"] = str(self._cache_dir)
        name = self._name
        try:
            if self._directory is not None:
                name = _register(TextCrossEncoder, self._directory)
                options |= {"specific_model_path": str(self._directory), "cache_dir": str(self._directory)}
            return TextCrossEncoder(name, **options)
        except Exception as error:  # fastembed, its downloads, tokenizers and onnxruntime share no base class
            raise UnavailableError(
                "MODEL_NOT_LOADED", f"the cross-encoder {self._name} cannot be loaded"
            ) from error


def _score(encoder: "TextCrossEncoder", query: str, texts: list[str]) -> list[float]:
    return [float(score) for score in encoder.rerank(query, texts, batch_size=len(texts))]


def _register(encoders: "type[TextCrossEncoder]", directory: Path) -> str:
    """Register the model in a directory with fastembed; return its name there."""
    from fastembed.common.model_description import ModelSource

    name = str(directory.resolve())
    graph = next((file for file in GRAPH_FILES if (directory / file).is_file()), GRAPH_FILES[0])
    with _registry:
        if not any(known["model"].lower() == name.lower() for known in encoders.list_supported_models()):
            encoders.add_custom_model(
                name, sources=ModelSource(url=directory.resolve().as_uri()), model_file=graph
            )
    return name
