"""Make docs/reference/api.md, the reference of the API, from protos/ and the rules between fields.

reference.py write    write it
reference.py check    fail when it is stale
"""

import sys
from collections.abc import Iterable, Iterator
from inspect import cleandoc
from typing import Final

from contract import PACKAGE, Comments, is_map, message_of, read
from generated import write_or_check
from google.protobuf.descriptor import (
    Descriptor,
    EnumDescriptor,
    FieldDescriptor,
    FileDescriptor,
    MethodDescriptor,
    ServiceDescriptor,
)
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, MethodOptions
from groundline.v1 import error_pb2, limits_pb2
from groundline_gateway.endpoints import bindings
from groundline_validation.rules import rules_of
from project import ROOT, SERVICES

REFERENCE: Final = ROOT / "docs/reference/api.md"

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
_NOT_LISTED: Final = (limits_pb2.DESCRIPTOR, error_pb2.DESCRIPTOR)


def reference() -> str:
    """Return the whole page."""
    files, comments = read()
    services = {name: one for file in files for name, one in file.services_by_name.items()}
    # The gateway serves one itself.
    names = [*(f"{name.title()}Service" for name in SERVICES), "AdministrationService"]
    parts = [HEAD, *(service(services[name], comments) for name in names if name in services)]
    parts.append("## Messages\n")
    for file in files:
        if file not in _NOT_LISTED:
            for one in file.message_types_by_name.values():
                parts.extend(message(one, comments))
            parts += [enumeration(enum, comments) for enum in file.enum_types_by_name.values()]
    parts.append(formats(limits_pb2.DESCRIPTOR, comments))
    parts.append(reasons(error_pb2.ErrorReason.DESCRIPTOR, comments))
    return "\n".join(parts)


def service(one: ServiceDescriptor, comments: Comments) -> str:
    lines = [f"## {one.name}\n", *spaced(comments.paragraphs(one.full_name))]
    for method in one.methods:
        lines.append(f"### {one.name}.{method.name}\n")
        stream = "stream of " if method.server_streaming else ""
        lines.append(f"{linked(method.input_type)} → {stream}{linked(method.output_type)}\n")
        if addresses := http(method):
            lines.append(f"{addresses}\n")
        lines.extend(spaced(comments.paragraphs(method.full_name)))
        level = MethodOptions.IdempotencyLevel.Name(method.GetOptions().idempotency_level)
        lines.append(f"Idempotency: `{level}`\n")
    return "\n".join(lines)


def http(method: MethodDescriptor) -> str:
    """Return `POST /api/chat` and the like."""
    return ", ".join(f"`{endpoint.verb} {endpoint.template}`" for endpoint in bindings(method))


def message(one: Descriptor, comments: Comments) -> Iterator[str]:
    """Yield the lines of the message, then those of the messages within it."""
    lines = [f"### {short(one)}\n", *spaced(comments.paragraphs(one.full_name))]
    if one.fields:
        lines += ["| field | type | limits and default | |", "|---|---|---|---|"]
    for field in one.fields:
        comment = cell(comments, field.full_name)
        lines.append(f"| `{field.name}` | {kind(field)} | {limits(field)} | {comment} |")
    if one.fields:
        lines.append("")
    lines += spaced(f"Rule: {cleandoc(str(rule.__doc__))}" for rule in rules_of(one.full_name))
    yield "\n".join(lines)
    for nested in one.nested_types:
        if not nested.GetOptions().map_entry:
            yield from message(nested, comments)
    for enum in one.enum_types:
        yield enumeration(enum, comments)


def enumeration(enum: EnumDescriptor, comments: Comments) -> str:
    lines = [f"### {short(enum)}\n", *spaced(comments.paragraphs(enum.full_name)), "| value | |", "|---|---|"]
    lines += [f"| `{name}` | {cell(comments, f'{enum.full_name}.{name}')} |" for name in enum.values_by_name]
    return "\n".join([*lines, ""])


def formats(file: FileDescriptor, comments: Comments) -> str:
    """Return the section of the formats that limits name."""
    lines = ["## Formats\n", "| format | |", "|---|---|"]
    lines += [
        f"| {format_name(value.name)} | {cell(comments, f'{enum.full_name}.{value.name}')} |"
        for enum in file.enum_types_by_name.values()
        for value in enum.values
        if value.number
    ]
    return "\n".join([*lines, ""])


def reasons(enum: EnumDescriptor, comments: Comments) -> str:
    """Return the closed list of reasons, each with a link to its remedy."""
    lines = ["## Error reasons\n", *spaced(comments.paragraphs(enum.full_name)), "| reason | |", "|---|---|"]
    lines += [
        f"| [`{value.name}`](../troubleshooting.md#{value.name.lower()}) | "
        f"{cell(comments, f'{enum.full_name}.{value.name}')} |"
        for value in enum.values
        if value.number
    ]
    return "\n".join([*lines, ""])


def cell(comments: Comments, full_name: str) -> str:
    """Return a comment for a cell of a table."""
    return " ".join(comments.paragraphs(full_name)).replace("|", "\\|")


def kind(field: FieldDescriptor) -> str:
    """Return the type of a field, linked if it is ours."""
    if is_map(field):
        key, value = map(single_kind, message_of(field).fields)
        return f"map of {key} to {value}"
    shown = single_kind(field)
    if field.is_repeated:
        return f"list of {shown}"
    # An optional field is a oneof of its own.
    oneof = field.containing_oneof
    return f"{shown}, optional" if oneof is not None and len(oneof.fields) == 1 else shown


def single_kind(field: FieldDescriptor) -> str:
    named = field.message_type or field.enum_type
    if named is not None:
        return linked(named)
    return (
        FieldDescriptorProto.Type.Name(FieldDescriptorProto.Type.ValueType(field.type))
        .removeprefix("TYPE_")
        .lower()
    )


def short(named: Descriptor | EnumDescriptor) -> str:
    """Return the name within the contract."""
    return named.full_name.removeprefix(f"{PACKAGE}.")


def linked(named: Descriptor | EnumDescriptor) -> str:
    """Return the name as a link to its heading."""
    name = short(named)
    if name == named.full_name:
        return f"`{name}`"
    if name == "ErrorReason":
        return "[ErrorReason](#error-reasons)"
    return f"[{name}](#{name.lower().replace('.', '')})"


def limits(field: FieldDescriptor) -> str:
    """Return the limits of a field and its default in words."""
    one = field.GetOptions().Extensions[limits_pb2.limits]
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
    if default := field.GetOptions().Extensions[limits_pb2.default]:
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
