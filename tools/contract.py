"""The contract for those who make something from it: its files, and the comments on all that they define."""

import re
import tempfile
from collections.abc import Sequence
from importlib import import_module
from itertools import batched
from pathlib import Path
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from project import ROOT

import protos

PACKAGE: Final = "groundline.v1"


def read() -> "tuple[Sequence[FileDescriptor], Comments]":
    """Return the contract's files, each after those that it imports, as the stubs have them, and the comments
    of protos/."""
    with tempfile.TemporaryDirectory() as folder:
        image = protos.image(ROOT / "protos", Path(folder) / "image.binpb").read_bytes()
    files = [file for file in FileDescriptorSet.FromString(image).file if file.package == PACKAGE]
    stubs = [import_module(f"{PACKAGE}.{Path(file.name).stem}_pb2") for file in files]
    return [stub.DESCRIPTOR for stub in stubs], Comments(files)


class Comments:
    """Comments by the full name of their subject; a value of an enum is `{enum.full_name}.{value.name}`."""

    def __init__(self, files: Sequence[FileDescriptorProto]) -> None:
        self._by_name = {
            _name_at(file, location.path): re.sub(r"(?m)^ buf:lint:.*\n", "", location.leading_comments)
            for file in files
            for location in file.source_code_info.location
            if location.leading_comments
        }
        fields = {name.rpartition(".")[2] for name in self._by_name}
        self._json_names = {name: camel(name) for name in fields if name.islower() and "_" in name}

    def paragraphs(self, full_name: str) -> list[str]:
        """Return the paragraphs, each on one line."""
        parts = self._by_name.get(full_name, "").split("\n\n")
        return [" ".join(part.split()) for part in parts if part.strip()]

    def markdown(self, full_name: str) -> str:
        """Return paragraphs and lists, fields named as in JSON."""
        lines: list[str] = []
        for line in self._by_name.get(full_name, "").strip().splitlines():
            text = line.strip()
            begins = not text or text.startswith("- ") or not lines or not lines[-1]
            if begins:
                lines.append(text)
            else:
                lines[-1] += f" {text}"
        return re.sub(r"\b[a-z]+(_[a-z0-9]+)+\b", self._spelled, "\n".join(lines))

    def _spelled(self, word: re.Match[str]) -> str:
        return self._json_names.get(word[0], word[0])


def _name_at(file: FileDescriptorProto, path: Sequence[int]) -> str:
    """Return the full name of what is at a path of a file's descriptor; of its own parts and options none."""
    node: Any = file
    name = file.package
    for number, *index in batched(path, 2):
        found = getattr(node, node.DESCRIPTOR.fields_by_number[number].name)
        node = found[index[0]] if index and isinstance(found, Sequence) else None
        if not hasattr(node, "name"):
            return ""
        name += f".{node.name}"
    return name


def camel(name: str) -> str:
    """Convert `page_token` to `pageToken`."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def message_of(field: FieldDescriptor) -> Descriptor:
    """Return the message that the field is known to be of."""
    assert field.message_type is not None
    return field.message_type
