"""Compound files of the old Microsoft formats, as Office writes them, from their streams."""

import struct
from collections.abc import Mapping
from itertools import batched
from typing import Final

_SECTOR: Final = 512
_END, _FREE = 0xFFFFFFFE, 0xFFFFFFFF


def compound_file(streams: Mapping[str, bytes]) -> bytes:
    """Return a file with the streams, whose names are paths with slashes."""
    paths = sorted({"/".join(path.split("/")[:n]) for path in streams for n in range(1, path.count("/") + 2)})
    chains: list[int] = []  # for each sector, the next one
    sectors: list[bytes] = []

    def put(data: bytes) -> int:
        pieces = [bytes(one).ljust(_SECTOR, b"\0") for one in batched(data, _SECTOR)]
        begin = len(sectors)
        sectors.extend(pieces)
        chains.extend([*range(begin + 1, begin + len(pieces)), _END] if pieces else [])
        return begin if pieces else _END

    small, small_chains, entries = b"", list[int](), list[bytes]()

    def entry(name: str, kind: int, child: int, following: int, begin: int, size: int) -> bytes:
        wide = name.encode("utf-16-le") + b"\0\0"
        links = struct.pack("<BBIII", kind, 1, _FREE, following, child)
        return (
            wide.ljust(64, b"\0")
            + struct.pack("<H", len(wide))
            + links
            + bytes(36)
            + struct.pack("<IQ", begin, size)
        )

    def first(parent: str, after: int = -1) -> int:
        """Return the entry of the next child of a storage after one of them."""
        return next(
            (n + 1 for n, one in enumerate(paths) if n > after and one.rpartition("/")[0] == parent), _FREE
        )

    for number, path in enumerate(paths):
        parent, _, name = path.rpartition("/")
        data = streams.get(path)
        if data is None:
            entries.append(entry(name, 1, first(path), first(parent, number), 0, 0))
            continue
        begin = _END
        if len(data) >= 4096:
            begin = put(data)
        elif data:
            begin, count = len(small_chains), -(-len(data) // 64)
            small_chains += [*range(begin + 1, begin + count), _END]
            small += data.ljust(count * 64, b"\0")
        entries.append(entry(name, 2, _FREE, first(parent, number), begin, len(data)))
    root = entry("Root Entry", 5, first(""), _FREE, put(small), len(small))
    directory = put(b"".join([root, *entries]))
    small_table = put(struct.pack(f"<{len(small_chains)}I", *small_chains).ljust(_SECTOR, b"\xff"))
    count = 1
    while (len(chains) + count) * 4 > count * _SECTOR:
        count += 1
    table = [*chains, *[0xFFFFFFFD] * count]
    table += [_FREE] * (count * 128 - len(table))
    begin = len(sectors)
    sectors += [struct.pack("<128I", *one) for one in batched(table, 128)]
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + struct.pack("<HHHHH", 62, 3, 0xFFFE, 9, 6)
    header += bytes(6) + struct.pack(
        "<IIIIIIIIII", 0, count, directory, 0, 4096, small_table, -(-len(small_chains) // 128), _END, 0, begin
    )
    places = [*range(begin + 1, begin + count), *[_FREE] * 109][:108]
    return header + struct.pack("<108I", *places) + b"".join(sectors)
