"""A model that fastembed knows by name, run by fastembed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from fastembed import TextEmbedding

from groundline_embedding.local.onnx_model import TokenIds, padded
from groundline_embedding.ports import Vectors


def is_known(model: str) -> bool:
    """Tell whether fastembed has a model of this name."""
    return any(known["model"].lower() == model.lower() for known in TextEmbedding.list_supported_models())


def download(model: str, cache_dir: Path) -> None:
    """Put the model's files into the cache unless they are there."""
    TextEmbedding(model, cache_dir=str(cache_dir), lazy_load=True)


class NamedModel:
    """A Model of fastembed's."""

    def __init__(self, name: str, cache_dir: Path, *, threads: int, directory: Path | None = None) -> None:
        """Load the model from `directory`, or from the cache, into which it is downloaded at first."""
        self._files = name, cache_dir, directory
        given: dict[str, Any] = {} if directory is None else {"specific_model_path": str(directory)}
        self._embedding = TextEmbedding(name, cache_dir=str(cache_dir), threads=threads, **given)
        # Every text model of fastembed has these, though their common base does not declare them.
        inner = cast(Any, self._embedding.model)
        self.tokenizer, self.session = inner.tokenizer, inner.model
        self.dimensions = self._embedding.embedding_size
        self._pad_id = int((self.tokenizer.padding or {}).get("pad_id", 0))
        self._tokenize = inner.tokenize
        inner.tokenize = self._tokens

    def single_threaded(self) -> "NamedModel":
        name, cache_dir, directory = self._files
        return NamedModel(name, cache_dir, threads=1, directory=directory)

    def embed_query(self, text: str) -> Vectors:
        [vector] = self._embedding.query_embed(text)
        return np.asarray(vector, np.float32)

    def embed_windows(self, windows: Sequence[TokenIds]) -> Vectors:
        given = cast(Any, windows)
        return np.stack(list(self._embedding.passage_embed(given, batch_size=len(windows)))).astype(
            np.float32
        )

    def _tokens(self, texts: Sequence[str] | Sequence[TokenIds], **options: Any) -> Any:
        """Tokenise texts; windows are tokens already."""
        if isinstance(texts[0], str):
            return self._tokenize(texts, **options)
        ids, attention_mask = padded(cast(Sequence[TokenIds], texts), self._pad_id)
        return list(map(_Tokens, ids, attention_mask))


class _Tokens(NamedTuple):
    """The part of a tokeniser's result that fastembed reads."""

    ids: TokenIds
    attention_mask: TokenIds
