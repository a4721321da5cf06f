"""Settings of a collection: what they come to, and changes of them."""

import enum
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from groundline_runtime.errors import FieldViolation

__all__ = [
    "Chunking",
    "ChunkingStrategy",
    "ContextualizationMode",
    "SettingChange",
    "SizeUnit",
    "contextualization_of",
    "llm_contextualization_of",
    "settings_violations",
    "with_changes",
]


class ChunkingStrategy(enum.StrEnum):
    RECURSIVE = "CHUNKING_STRATEGY_RECURSIVE"
    SECTIONS = "CHUNKING_STRATEGY_SECTIONS"
    WORDS = "CHUNKING_STRATEGY_WORDS"
    SENTENCES = "CHUNKING_STRATEGY_SENTENCES"


class SizeUnit(enum.StrEnum):
    CHARACTERS = "CHUNK_SIZE_UNIT_CHARACTERS"
    TOKENS = "CHUNK_SIZE_UNIT_TOKENS"


class ContextualizationMode(enum.StrEnum):
    NONE = "CONTEXTUALIZATION_MODE_NONE"
    STRUCTURAL = "CONTEXTUALIZATION_MODE_STRUCTURAL"
    LLM = "CONTEXTUALIZATION_MODE_LLM"


@dataclass(frozen=True)
class Chunking:
    """How documents are cut; the defaults are the contract's."""

    strategy: ChunkingStrategy = ChunkingStrategy.RECURSIVE
    chunk_size: int = 2000
    chunk_overlap: int = 200
    unit: SizeUnit = SizeUnit.CHARACTERS

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> "Chunking":
        """The effective chunking of a collection's settings."""
        chosen = settings.get("chunking", {})
        size = chosen.get("chunkSize", cls.chunk_size)
        # A small chunk_size that is set alone must not clash with the default overlap.
        overlap = cls.chunk_overlap if cls.chunk_overlap * 2 < size else size // 10
        return cls(
            strategy=ChunkingStrategy(chosen.get("strategy", cls.strategy)),
            chunk_size=size,
            chunk_overlap=chosen.get("chunkOverlap", overlap),
            unit=SizeUnit(chosen.get("unit", cls.unit)),
        )


def contextualization_of(settings: Mapping[str, Any]) -> ContextualizationMode:
    """The effective contextualization mode of a collection's settings."""
    mode = settings.get("contextualization", {}).get("mode", ContextualizationMode.STRUCTURAL)
    return ContextualizationMode(mode)


def llm_contextualization_of(settings: Mapping[str, Any]) -> tuple[str, str] | None:
    """Prompt and model, empty for the generator's own, where a language model writes the contexts."""
    if contextualization_of(settings) is not ContextualizationMode.LLM:
        return None
    chosen = settings["contextualization"]
    return chosen.get("prompt", ""), chosen.get("model", "")


def settings_violations(settings: Mapping[str, Any]) -> Sequence[FieldViolation]:
    """What is wrong between settings that are right one by one."""
    chunking = Chunking.of(settings)
    if chunking.chunk_overlap * 2 >= chunking.chunk_size:
        return [
            FieldViolation(
                "settings.chunking.chunk_overlap",
                f"must be less than half of chunk_size, which is {chunking.chunk_size}",
            )
        ]
    return []


@dataclass(frozen=True)
class SettingChange:
    """One change of a collection's settings: a path of JSON names, and the new value, None to unset it."""

    path: tuple[str, ...]
    value: Any


def with_changes(settings: Mapping[str, Any], changes: Sequence[SettingChange]) -> dict[str, Any]:
    """The settings after the changes; what is left empty is dropped."""
    changed: dict[str, Any] = json.loads(json.dumps(settings))
    for change in changes:
        *parents, last = change.path
        target = changed
        for name in parents:
            target = target.setdefault(name, {})
        if change.value is None:
            target.pop(last, None)
        else:
            target[last] = change.value
    return {name: value for name, value in changed.items() if value != {}}
