"""A sentence-transformers model in a directory, run by onnxruntime.

fastembed runs such files too; its import alone takes 29 MB (clients of a model hub, readers of pictures), in
each process that embeds.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tokenizers import AddedToken, Tokenizer

from groundline_embedding.errors import ModelError
from groundline_embedding.ports import Vectors

type TokenIds = NDArray[np.int64]
"""Token ids of one text, special tokens included, without padding."""

GRAPH_FILES: Final = ("model.onnx", "onnx/model.onnx")
POOLING_MODES: Final = (
    "pooling_mode_mean_tokens",
    "pooling_mode_cls_token",
    "pooling_mode_lasttoken",
)


class OnnxModel:
    """A Model over the files of a directory."""

    def __init__(self, directory: Path, *, threads: int, tokenizer: Tokenizer | None = None) -> None:
        """Load the graph and, unless it is given, the tokenizer. Raises ModelError, and what onnxruntime and
        tokenizers raise."""
        graph = next((file for file in GRAPH_FILES if (directory / file).is_file()), None)
        if graph is None:
            raise ModelError(f"model_dir {directory} holds none of {', '.join(GRAPH_FILES)}")
        self._pooling, self.dimensions = _pooling(directory / "1_Pooling" / "config.json")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = threads
        # Threads that spin for more work after a query take four times its processor time.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        self.session = onnxruntime.InferenceSession(
            str(directory / graph), options, providers=["CPUExecutionProvider"]
        )
        self.tokenizer = tokenizer or _tokenizer(directory)
        self._directory = directory
        self._inputs = {entry.name for entry in self.session.get_inputs()}
        self._pad_id = int((self.tokenizer.padding or {}).get("pad_id", 0))

    def single_threaded(self) -> "OnnxModel":
        # The tokenizer of a large vocabulary takes 300 MB.
        return OnnxModel(self._directory, threads=1, tokenizer=self.tokenizer)

    def embed_query(self, text: str) -> Vectors:
        encoding = self.tokenizer.encode(text)
        vector: Vectors = self.embed_windows([np.array(encoding.ids, np.int64)])[0]
        return vector

    def embed_windows(self, windows: Sequence[TokenIds]) -> Vectors:
        ids, attention_mask = padded(windows, self._pad_id)
        given = {"input_ids": ids, "attention_mask": attention_mask, "token_type_ids": np.zeros_like(ids)}
        run = self.session.run(None, {name: given[name] for name in self._inputs})
        return self._pooled(run[0], attention_mask)

    def _pooled(self, tokens: NDArray[Any], attention_mask: TokenIds) -> Vectors:
        """Make one vector of each text's tokens, which are (texts, tokens, dimensions)."""
        match self._pooling:
            case "pooling_mode_mean_tokens":
                vectors = np.sum(tokens, axis=1, where=attention_mask[:, :, np.newaxis].astype(bool))
            case "pooling_mode_cls_token":
                vectors = tokens[:, 0]
            case _:
                vectors = tokens[np.arange(len(tokens)), attention_mask.sum(axis=1) - 1]
        return np.asarray(vectors, np.float32)


def padded(windows: Sequence[TokenIds], pad_id: int) -> tuple[TokenIds, TokenIds]:
    """Return ids and attention mask of a batch, each (windows, longest window)."""
    ids = np.full((len(windows), max(map(len, windows))), pad_id, np.int64)
    attention_mask = np.zeros_like(ids)
    for row, window in enumerate(windows):
        ids[row, : len(window)] = window
        attention_mask[row, : len(window)] = 1
    return ids, attention_mask


def whole_texts(tokenizer: Tokenizer) -> Tokenizer:
    """Return a tokenizer that neither truncates nor pads, over the same vocabulary in memory.

    Both are state of a tokenizer, so one that does them cannot also count whole texts.
    """
    whole = Tokenizer(tokenizer.model)
    for part in ("normalizer", "pre_tokenizer", "post_processor"):
        if (value := getattr(tokenizer, part)) is not None:
            setattr(whole, part, value)
    for _, token in sorted(tokenizer.get_added_tokens_decoder().items()):
        (whole.add_special_tokens if token.special else whole.add_tokens)([token])
    return whole


def _pooling(file: Path) -> tuple[str, int]:
    """Return the pooling mode and the dimensions of its vectors."""
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
        dimensions = int(config["word_embedding_dimension"])
        [mode] = [mode for mode in POOLING_MODES if config.get(mode)]
    except OSError as error:
        raise ModelError(f"cannot read {file}, which tells how to pool ({error.strerror})") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ModelError(
            f"{file}: word_embedding_dimension and one of {', '.join(POOLING_MODES)} are needed"
        ) from error
    return mode, dimensions


def _tokenizer(directory: Path) -> Tokenizer:
    """Return the directory's tokenizer, which truncates and pads as transformers does by these files."""
    config = _json(directory / "tokenizer_config.json")
    tokenizer: Tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    # Where the length is not known, transformers writes 1e30.
    lengths = [config.get("model_max_length"), config.get("max_length")]
    known = [length for length in lengths if isinstance(length, int) and 0 < length <= sys.maxsize]
    if not known:
        raise ModelError(f"{directory}: tokenizer_config.json has no model_max_length")
    direction = config.get("truncation_side") or (tokenizer.truncation or {}).get("direction", "right")
    tokenizer.enable_truncation(min(known), direction=direction)
    special = _json(directory / "special_tokens_map.json", default={})
    for value in special.values():
        for token in value if isinstance(value, list) else [value]:
            tokenizer.add_special_tokens([AddedToken(**token) if isinstance(token, dict) else token])
    padding = tokenizer.padding or {}
    pad_token = padding.get("pad_token") or config.get("pad_token")
    pad_id = padding.get("pad_id", None if pad_token is None else tokenizer.token_to_id(pad_token))
    if pad_id is None:
        raise ModelError(f"{directory}: tokenizer_config.json has no pad_token of the vocabulary")
    # To the longest text of a batch: a fixed length that is stored with the tokenizer would be run through.
    tokenizer.enable_padding(pad_id=pad_id, pad_token=pad_token)
    return tokenizer


def _json(file: Path, default: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    if default is not None and not file.is_file():
        return default
    try:
        found: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{file} cannot be read ({error})") from error
    return found
