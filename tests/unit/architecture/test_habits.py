"""One way to do what is done often: caches, imports of the contract."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]
PRODUCT: Final = ("libs", "services", "gateway", "clients/python", "cli", "benchmarks")

# cachetools holds what is bounded by number or time, functools.lru_cache the results of pure functions.
HAND_MADE_CACHE: Final = re.compile(
    r"\bOrderedDict\b|\.popitem\(last=|next\(iter\(self\._"
    r"|if len\(self.*\) (?:\+ .*)?>=? .*:\n +self\S*\.clear\(\)"
)
CACHES: Final[Mapping[str, str]] = {
    "libs/language/groundline_language/__init__.py": "a hit takes 30 ns, of lru_cache 130"
}

MESSAGE_BY_NAME: Final = re.compile(r"^\s*from groundline\.v1\.\w+_pb2 import", re.MULTILINE)


def modules(*folders: str) -> Iterator[tuple[str, str]]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not path.stem.endswith(("_pb2", "_pb2_grpc")):
                yield path.relative_to(ROOT).as_posix(), path.read_text()


def test_no_cache_is_made_by_hand() -> None:
    assert {path for path, text in modules(*PRODUCT) if HAND_MADE_CACHE.search(text)} == set(CACHES)


def test_the_contracts_modules_are_imported_not_what_is_in_them() -> None:
    everywhere = modules(*PRODUCT, "tests", "tools")
    assert [path for path, text in everywhere if MESSAGE_BY_NAME.search(text)] == []
