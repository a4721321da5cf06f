"""Make docs/reference/api.md, the reference of the API, from protos/ and the rules between fields.

reference.py write    write it
reference.py check    fail when it is stale
"""

import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from inspect import cleandoc
from pathlib import Path
from typing import Final

from generated import write_or_check
from google.api import annotations_pb2  # type: ignore[import-untyped]
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    MethodOptions,
    ServiceDescriptorProto,
)
from groundline.v1 import limits_pb2
from groundline_validation.rules import rules_of
from project import ROOT, SERVICES

import protos

REFERENCE: Final = ROOT / "docs/reference/api.md"
PACKAGE: Final = "groundline.v1"

HEAD: Final = """\
# API reference

Made from `protos/groundline/v1` by `make generate`; do not edit.

Services speak gRPC; the gateway offers the methods that have an HTTP binding as JSON and server-sent events.
In JSON a field's name is written in lowerCamelCase (`collectionIds`), bytes are base64, times are RFC 3339,
and a field that has its type's zero value may be left out.

A request that is beyond a limit is refused with `INVALID_ARGUMENT`, and every wrong field is named. Numbers
must be finite, enum values known, and texts free of U+0000 unless it is said otherwise.
"""

# Messages that describe the contract itself, or have a section of their own.
_NOT_LISTED: Final = ("limits.proto", "error.proto")

type Path_ = tuple[int, ...]


class Comments:
    """Comments of a file, by the path in its descriptor."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self._by_path = {
            tuple(location.path): location.leading_comments for location in file.source_code_info.location
        }

    def paragraphs(self, *path: int) -> list[str]:
        """Return the paragraphs, each on one line."""
        text = re.sub(r"^ buf:lint:ignore .*\n", "", self._by_path.get(path, ""), flags=re.MULTILINE)
        return [" ".join(part.split()) for part in text.split("\n\n") if part.strip()]

    def line(self, *path: int) -> str:
        """Return the comment for a cell of a table."""
        return " ".join(self.paragraphs(*path)).replace("|", "\\|")


def reference() -> str:
    """Return the whole page."""
    files = read_files()
    listed = [file for name, file in files.items() if name not in _NOT_LISTED]
    parts = [HEAD]
    for file in filter(None, (files.get(f"{name}_service.proto") for name in SERVICES)):
        parts.extend(service(file, index) for index in range(len(file.service)))
    parts.append("## Messages\n")
    for file in listed:
        comments = Comments(file)
        for index, one in enumerate(file.message_type):
            parts.extend(message(one, f"{PACKAGE}.{one.name}", comments, (4, index)))
        for index, enum in enumerate(file.enum_type):
            parts.append(enumeration(enum, enum.name, comments, (5, index)))
    parts.append(formats(files["limits.proto"]))
    parts.append(reasons(files["error.proto"]))
    return "\n".join(parts)


def read_files() -> Mapping[str, FileDescriptorProto]:
    """Read our own files, by name without folder."""
    with tempfile.TemporaryDirectory() as folder:
        image = protos.image(ROOT / "protos", Path(folder) / "image.binpb").read_bytes()
    every = descriptor_pb2.FileDescriptorSet.FromString(image).file
    return {file.name.rpartition("/")[2]: file for file in every if file.package == PACKAGE}


def service(file: FileDescriptorProto, index: int) -> str:
    one: ServiceDescriptorProto = file.service[index]
    comments = Comments(file)
    lines = [f"## {one.name}\n", *spaced(comments.paragraphs(6, index))]
    for number, method in enumerate(one.method):
        lines.append(f"### {one.name}.{method.name}\n")
        stream = "stream of " if method.server_streaming else ""
        request, response = linked(method.input_type), linked(method.output_type)
        lines.append(f"{request} → {stream}{response}\n")
        if bindings := http(method.options):
            lines.append(f"{bindings}\n")
        lines.extend(spaced(comments.paragraphs(6, index, 2, number)))
        level = MethodOptions.IdempotencyLevel.Name(method.options.idempotency_level)
        lines.append(f"Idempotency: `{level}`\n")
    return "\n".join(lines)


def http(options: MethodOptions) -> str:
    """Return `POST /api/chat` and the like."""
    rule = options.Extensions[annotations_pb2.http]
    shown = []
    for one in (rule, *rule.additional_bindings):
        if verb := one.WhichOneof("pattern"):
            shown.append(f"`{verb.upper()} {getattr(one, verb)}`")
    return ", ".join(shown)


def message(one: DescriptorProto, full_name: str, comments: Comments, path: Path_) -> Iterator[str]:
    """Yield the lines of the message, then those of the messages within it."""
    name = full_name.removeprefix(f"{PACKAGE}.")
    lines = [f"### {name}\n", *spaced(comments.paragraphs(*path))]
    entries = {nested.name: nested for nested in one.nested_type if nested.options.map_entry}
    if one.field:
        lines += ["| field | type | limits and default | |", "|---|---|---|---|"]
    for index, field in enumerate(one.field):
        shown = (
            f"`{field.name}` | {kind(field, entries)} | {limits(field)} | {comments.line(*path, 2, index)}"
        )
        lines.append(f"| {shown} |")
    if one.field:
        lines.append("")
    lines += spaced(f"Rule: {cleandoc(str(rule.__doc__))}" for rule in rules_of(full_name))
    yield "\n".join(lines)
    for index, nested in enumerate(one.nested_type):
        if not nested.options.map_entry:
            yield from message(nested, f"{full_name}.{nested.name}", comments, (*path, 3, index))
    for index, enum in enumerate(one.enum_type):
        yield enumeration(enum, f"{name}.{enum.name}", comments, (*path, 4, index))


def enumeration(enum: EnumDescriptorProto, name: str, comments: Comments, path: Path_) -> str:
    lines = [f"### {name}\n", *spaced(comments.paragraphs(*path)), "| value | |", "|---|---|"]
    lines += [
        f"| `{value.name}` | {comments.line(*path, 2, index)} |" for index, value in enumerate(enum.value)
    ]
    return "\n".join([*lines, ""])


def formats(file: FileDescriptorProto) -> str:
    """Return the section of the formats that limits name."""
    comments = Comments(file)
    lines = ["## Formats\n", "| format | |", "|---|---|"]
    for number, enum in enumerate(file.enum_type):
        lines += [
            f"| {format_name(value.name)} | {comments.line(5, number, 2, index)} |"
            for index, value in enumerate(enum.value)
            if value.number
        ]
    return "\n".join([*lines, ""])


def reasons(file: FileDescriptorProto) -> str:
    """Return the closed list of reasons, each with a link to its remedy."""
    comments = Comments(file)
    (enum,) = file.enum_type
    lines = ["## Error reasons\n", *spaced(comments.paragraphs(5, 0)), "| reason | |", "|---|---|"]
    lines += [
        f"| [`{value.name}`](../troubleshooting.md#{value.name.lower()}) | {comments.line(5, 0, 2, index)} |"
        for index, value in enumerate(enum.value)
        if value.number
    ]
    return "\n".join([*lines, ""])


def kind(field: FieldDescriptorProto, entries: Mapping[str, DescriptorProto]) -> str:
    """Return the type of a field, linked if it is ours."""
    if entry := entries.get(field.type_name.rpartition(".")[2]):
        key, value = (single_kind(one) for one in entry.field)
        return f"map of {key} to {value}"
    shown = single_kind(field)
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        return f"list of {shown}"
    return f"{shown}, optional" if field.proto3_optional else shown


def single_kind(field: FieldDescriptorProto) -> str:
    if field.type_name:
        return linked(field.type_name)
    return FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()


def linked(type_name: str) -> str:
    """Return `.groundline.v1.Chunk` as a link to its heading."""
    name = type_name.removeprefix(f".{PACKAGE}.")
    if name.startswith("."):
        return f"`{name[1:]}`"
    if name == "ErrorReason":
        return "[ErrorReason](#error-reasons)"
    return f"[{name}](#{name.lower().replace('.', '')})"


def limits(field: FieldDescriptorProto) -> str:
    """Return the limits of a field and its default in words."""
    one = field.options.Extensions[limits_pb2.limits]
    found = []
    if one.HasField("minimum") or one.HasField("maximum"):
        found.append(span(one, "minimum", "maximum"))
    if one.HasField("min_length") or one.HasField("max_length"):
        found.append(f"{span(one, 'min_length', 'max_length')} characters")
    if one.HasField("max_bytes"):
        found.append(f"at most {one.max_bytes} bytes")
    if one.HasField("min_items") or one.HasField("max_items"):
        found.append(f"{span(one, 'min_items', 'max_items')} entries")
    for name in ("text_format", "struct_format"):
        if value := getattr(one, name):
            enum = limits_pb2.TextFormat if name == "text_format" else limits_pb2.StructFormat
            found.append(f"[{format_name(enum.Name(value))}](#formats)")
    if one.allowed_values:
        found.append("one of " + ", ".join(f"`{value}`" for value in one.allowed_values))
    if one.allow_nul:
        found.append("U+0000 is removed")
    if default := field.options.Extensions[limits_pb2.default]:
        found.append(f"default `{default}`")
    return "; ".join(found)


def span(one: limits_pb2.Limits, least: str, most: str) -> str:
    if not one.HasField(most):  # type: ignore[arg-type]
        return f"at least {getattr(one, least):g}"
    if not one.HasField(least):  # type: ignore[arg-type]
        return f"at most {getattr(one, most):.15g}"
    return f"{getattr(one, least):g} to {getattr(one, most):.15g}"


def format_name(value: str) -> str:
    """Return `TEXT_FORMAT_CHUNK_ID` as words."""
    return value.partition("_FORMAT_")[2].lower().replace("_", " ")


def spaced(paragraphs: Iterable[str]) -> list[str]:
    return [f"{paragraph}\n" for paragraph in paragraphs]


def main() -> int:
    return write_or_check(sys.argv[1:], {REFERENCE: reference()}, "make generate", str(__doc__))


if __name__ == "__main__":
    raise SystemExit(main())
