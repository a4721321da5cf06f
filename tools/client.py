"""Make the parts of the Python client that the contract or its asynchronous half decide.

client.py write    write models.py and rpcs.py from protos/, sync_client.py from async_client.py
client.py check    fail when one of them is stale
"""

import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from generated import write_or_check
from google.api import annotations_pb2  # type: ignore[import-untyped]
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    MethodDescriptorProto,
    MethodOptions,
)
from project import ROOT
from reference import PACKAGE, Comments, Path_, read_files

CLIENT: Final = ROOT / "clients/python/groundline_client"
TYPESCRIPT: Final = ROOT / "clients/typescript/src"
BIN: Final = Path(sys.executable).parent

HEAD: Final = '"""{purpose}\n\nMade from protos/groundline/v1 by `make generate`; do not edit.\n"""\n\n'

TYPESCRIPT_HEAD: Final = "// Made from protos/groundline/v1 by `make generate`; do not edit.\n"

_SCALARS: Final = {
    FieldDescriptorProto.TYPE_BOOL: ("bool", "False"),
    FieldDescriptorProto.TYPE_BYTES: ("bytes", 'b""'),
    FieldDescriptorProto.TYPE_DOUBLE: ("float", "0.0"),
    FieldDescriptorProto.TYPE_FLOAT: ("float", "0.0"),
    FieldDescriptorProto.TYPE_INT32: ("int", "0"),
    FieldDescriptorProto.TYPE_STRING: ("str", '""'),
}
# Messages whose JSON is not an object of their fields.
_WELL_KNOWN: Final = {
    ".google.protobuf.Struct": "dict[str, Any]",
    ".google.protobuf.Timestamp": "datetime",
    ".google.protobuf.FieldMask": "str",
}
# The raw body of an upload, which is not JSON.
_NOT_JSON: Final = (".google.api.HttpBody",)
_TYPESCRIPT_SCALARS: Final = {
    FieldDescriptorProto.TYPE_BOOL: "boolean",
    FieldDescriptorProto.TYPE_BYTES: "string",
    FieldDescriptorProto.TYPE_DOUBLE: "number",
    FieldDescriptorProto.TYPE_FLOAT: "number",
    FieldDescriptorProto.TYPE_INT32: "number",
    FieldDescriptorProto.TYPE_STRING: "string",
}
_ERROR_REASON: Final = f".{PACKAGE}.ErrorReason"

# Differences between the two clients, whole words first.
_SYNCHRONOUS: Final = [
    (r"\bAsyncClient\b", "Client"),
    (r"\bAsyncGenerator\b", "Generator"),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\bAsyncBaseTransport\b", "BaseTransport"),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\baclosing\b", "closing"),
    (r"\b__aenter__\b", "__enter__"),
    (r"\b__aexit__\b", "__exit__"),
    (r"\baclose\b", "close"),
    (r"\baread\b", "read"),
    (r"\baiter_bytes\b", "iter_bytes"),
    (r"\bASYNC_WAITING\b", "SYNC_WAITING"),
    (r"\basync_waiting\b", "sync_waiting"),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
]


def contract_files() -> Mapping[Path, str]:
    """Return the text of the generated modules."""
    contract = Contract(read_files())
    waiting = (CLIENT / "async_client.py").read_text(encoding="utf-8")
    return {
        CLIENT / "models.py": formatted(contract.models()),
        CLIENT / "transport/rpcs.py": formatted(contract.rpcs()),
        CLIENT / "sync_client.py": formatted(synchronous(waiting)),
        TYPESCRIPT / "models.d.ts": contract.typescript_models(),
        TYPESCRIPT / "rpcs.js": contract.javascript_rpcs(),
        TYPESCRIPT / "rpcs.d.ts": contract.typescript_rpcs(),
    }


class Contract:
    """The gateway's API: methods with an HTTP binding, and every type that they reach."""

    def __init__(self, files: Mapping[str, FileDescriptorProto]) -> None:
        self._messages: dict[str, tuple[DescriptorProto, Comments, Path_]] = {}
        self._enums: dict[str, tuple[EnumDescriptorProto, Comments, Path_]] = {}
        self._methods: list[MethodDescriptorProto] = []
        for file in files.values():
            comments = Comments(file)
            for index, message in enumerate(file.message_type):
                name = f".{PACKAGE}.{message.name}"
                self._messages[name] = (message, comments, (4, index))
                for number, nested in enumerate(message.enum_type):
                    self._enums[f"{name}.{nested.name}"] = (nested, comments, (4, index, 4, number))
            for index, enum in enumerate(file.enum_type):
                self._enums[f".{PACKAGE}.{enum.name}"] = (enum, comments, (5, index))
            for service in file.service:
                self._methods += [method for method in service.method if is_offered(method)]

    def models(self) -> str:
        reached: dict[str, None] = {_ERROR_REASON: None}
        for method in self._methods:
            # The client's methods take a request's fields, not the request.
            self._reach_fields(method.input_type, reached)
            for name, _ in self._results(method):
                self._reach(name, reached)
        names = list(reached)
        parts = [
            HEAD.format(purpose="Messages of the gateway's API."),
            "from collections.abc import Mapping, Sequence\nfrom dataclasses import dataclass\n"
            "from datetime import datetime\nfrom typing import Any\n\n"
            "from groundline_client.open_enum import OpenEnum\n\n",
        ]
        parts += [self._enum(name) for name in names if name in self._enums]
        parts += [self._message(name) for name in names if name in self._messages]
        return "\n".join(parts)

    def rpcs(self) -> str:
        lines = [
            HEAD.format(purpose="The methods that the gateway offers."),
            "from typing import Final\n",
            "from groundline_client import models",
            "from groundline_client.transport.rpc import Rpc\n",
        ]
        for method in self._methods:
            verb, path, body = binding(method)
            facts = ", has_body=True" if body == "*" else ""
            if method.options.idempotency_level != MethodOptions.IDEMPOTENCY_UNKNOWN:
                facts += ", is_idempotent=True"
            results = [(f"models.{short(name)}", field) for name, field in self._results(method)]
            # The entries of a page that holds something else too are a method of their own.
            for name, (result, field) in zip(
                (constant(method.name), f"{constant(method.name)}_ENTRIES"),
                results or [("bytes", None)],
                strict=False,
            ):
                member = f', "{camel(field.name)}"' if field else ""
                lines.append(f'{name}: Final = Rpc("{verb}", "{path}", {result}{member}{facts})')
        return "\n".join(lines) + "\n"

    def typescript_models(self) -> str:
        reached: dict[str, None] = {_ERROR_REASON: None}
        for method in self._methods:
            self._reach(method.input_type, reached)
            if not self._is_raw(method):
                self._reach(method.output_type, reached)
        parts = [
            TYPESCRIPT_HEAD,
            "/** Any JSON object. */\nexport type JsonObject = Record<string, unknown>;\n",
        ]
        for name in reached:
            if name in self._enums:
                enum, comments, path = self._enums[name]
                values = "".join(
                    f'{jsdoc(comments, (*path, 2, index), "  ")}  | "{value.name}"\n'
                    for index, value in enumerate(enum.value)
                )
                parts.append(f"{jsdoc(comments, path)}export type {enum.name} =\n{values.rstrip()};\n")
            else:
                message, comments, path = self._messages[name]
                fields = "".join(
                    f"{jsdoc(comments, (*path, 2, index), '  ')}  {typescript_field(field, message)};\n"
                    for index, field in enumerate(message.field)
                    if field.type_name not in _NOT_JSON
                )
                parts.append(f"{jsdoc(comments, path)}export interface {message.name} {{\n{fields}}}\n")
        return "\n".join(parts)

    def javascript_rpcs(self) -> str:
        lines = [TYPESCRIPT_HEAD, "export const rpcs = {"]
        for method in self._methods:
            verb, path, body = binding(method)
            request = self._messages[method.input_type][0]
            entries = self._entries(method)
            facts: dict[str, object] = {
                "verb": verb,
                "path": re.sub(r"\{(\w+)\}", lambda found: f"{{{camel(found[1])}}}", path),
                "hasBody": body == "*",
                "isIdempotent": method.options.idempotency_level != MethodOptions.IDEMPOTENCY_UNKNOWN,
                "takesRequestId": any(field.name == "request_id" for field in request.field),
                **({"entries": camel(entries.name)} if entries else {}),
            }
            shown = ", ".join(f"{name}: {json.dumps(value)}" for name, value in facts.items())
            lines.append(f"  {method.name[0].lower()}{method.name[1:]}: {{ {shown} }},")
        return "\n".join([*lines, "};", ""])

    def typescript_rpcs(self) -> str:
        lines = [
            TYPESCRIPT_HEAD,
            'import type { CallOptions, Input } from "./client.js";',
            'import type * as models from "./models.js";\n',
            "/** The methods that answer once. */",
            "export interface Methods {",
        ]
        lists = [
            "/** The methods that answer in pages, with what the pages hold. */",
            "export interface Lists {",
        ]
        for method in self._methods:
            name = method.name[0].lower() + method.name[1:]
            request, response = f"models.{short(method.input_type)}", f"models.{short(method.output_type)}"
            if not method.server_streaming and not method.client_streaming:
                lines.append(
                    f"  {name}(request: Input<{request}>, options?: CallOptions): Promise<{response}>;"
                )
            if entries := self._entries(method):
                entry = f"models.{short(entries.type_name)}"
                lists.append(f"  {name}: {{ request: {request}; entry: {entry} }};")
        return "\n".join([*lines, "}\n", *lists, "}", ""])

    def _is_raw(self, method: MethodDescriptorProto) -> bool:
        """Tell whether its response is not JSON."""
        return any(field.type_name in _NOT_JSON for field in self._messages[method.output_type][0].field)

    def _results(self, method: MethodDescriptorProto) -> list[tuple[str, FieldDescriptorProto | None]]:
        """Return the types that callers get, each with the field of the response that holds it: one message,
        the entries of a page, or both; otherwise the response itself."""
        if self._is_raw(method):
            return []
        fields = self._messages[method.output_type][0].field
        entries = self._entries(method)
        others = [one for one in fields if one != entries and one.name != "next_page_token"]
        held = [*others, *([entries] if entries else [])]
        if not held or len(others) > 1 or not all(map(is_message, others)):
            return [(method.output_type, None)]
        return [(one.type_name, one) for one in held]

    def _entries(self, method: MethodDescriptorProto) -> FieldDescriptorProto | None:
        """Return the field of a page's entries, for a method that answers in pages."""
        fields = self._messages[method.output_type][0].field
        if not any(field.name == "next_page_token" for field in fields):
            return None
        (entries,) = (one for one in fields if one.label == FieldDescriptorProto.LABEL_REPEATED)
        return entries

    def _reach(self, name: str, reached: dict[str, None]) -> None:
        """Add a type, after the types that it needs."""
        if name in reached or name in _WELL_KNOWN or name in _NOT_JSON:
            return
        if name in self._messages:
            self._reach_fields(name, reached)
        reached[name] = None

    def _reach_fields(self, name: str, reached: dict[str, None]) -> None:
        message = self._messages[name][0]
        for field in message.field:
            if field.type_name and not entry_of(field, message):
                self._reach(field.type_name, reached)

    def _enum(self, name: str) -> str:
        enum, comments, path = self._enums[name]
        prefix = constant(enum.name) + "_"
        lines = [f"class {enum.name}(OpenEnum):", *docstring(comments, path)]
        for index, value in enumerate(enum.value):
            lines.append(f'    {value.name.removeprefix(prefix)} = "{value.name}"')
            lines += docstring(comments, (*path, 2, index))
        return "\n".join(lines) + "\n\n"

    def _message(self, name: str) -> str:
        message, comments, path = self._messages[name]
        lines = ["@dataclass(frozen=True, kw_only=True, slots=True)", f"class {message.name}:"]
        lines += [*docstring(comments, path), ""]
        for index, field in enumerate(message.field):
            kind, default = typed(field, message)
            lines.append(f"    {field.name}: {kind} = {default}")
            lines += docstring(comments, (*path, 2, index))
        return "\n".join(lines) + "\n\n"


def typed(field: FieldDescriptorProto, message: DescriptorProto) -> tuple[str, str]:
    """Return type and default of a field."""
    if entry := entry_of(field, message):
        value, _ = single(entry.field[1])
        return f"Mapping[str, {value}] | None", "None"
    kind, default = single(field)
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        return f"Sequence[{kind}]", "()"
    may_be_unset = field.type == FieldDescriptorProto.TYPE_MESSAGE or field.HasField("oneof_index")
    if may_be_unset and field.type_name != ".google.protobuf.FieldMask":
        return f"{kind} | None", "None"
    return kind, default


def single(field: FieldDescriptorProto) -> tuple[str, str]:
    if field.type_name in _WELL_KNOWN:
        return _WELL_KNOWN[field.type_name], '""'
    if field.type_name:
        return short(field.type_name), f"{short(field.type_name)}.UNSPECIFIED"
    return _SCALARS[field.type]


def typescript_field(field: FieldDescriptorProto, message: DescriptorProto) -> str:
    """Return name and type; an optional field has a question mark."""
    entry = entry_of(field, message)
    kind = _typescript_single(entry.field[1] if entry else field)
    _, default = typed(field, message)
    if entry:
        kind = f"Record<string, {kind}>"
    elif field.label == FieldDescriptorProto.LABEL_REPEATED:
        kind = f"{kind}[]"
    return f"{camel(field.name)}{'?' if default == 'None' and not entry else ''}: {kind}"


def _typescript_single(field: FieldDescriptorProto) -> str:
    if field.type_name in _WELL_KNOWN:
        return "JsonObject" if field.type_name == ".google.protobuf.Struct" else "string"
    return short(field.type_name) if field.type_name else _TYPESCRIPT_SCALARS[field.type]


def jsdoc(comments: Comments, path: Path_, indent: str = "") -> str:
    """Return the comment at a path, for TypeScript."""
    text = "\n\n".join(textwrap.fill(one, width=110) for one in comments.paragraphs(*path)).replace(
        "*/", "* /"
    )
    if not text:
        return ""
    if "\n" not in text:
        return f"{indent}/** {text} */\n"
    inside = "".join(f"{indent} * {line}".rstrip() + "\n" for line in text.split("\n"))
    return f"{indent}/**\n{inside}{indent} */\n"


def is_message(field: FieldDescriptorProto) -> bool:
    """Tell whether a field holds one message, not a list."""
    return (
        field.type == FieldDescriptorProto.TYPE_MESSAGE and field.label != FieldDescriptorProto.LABEL_REPEATED
    )


def camel(name: str) -> str:
    """Convert `page_token` to `pageToken`."""
    head, *others = name.split("_")
    return head + "".join(map(str.capitalize, others))


def entry_of(field: FieldDescriptorProto, message: DescriptorProto) -> DescriptorProto | None:
    """Return the entry of a field that is a map."""
    nested = {one.name: one for one in message.nested_type if one.options.map_entry}
    return nested.get(short(field.type_name)) if field.type_name else None


def is_offered(method: MethodDescriptorProto) -> bool:
    """Tell whether the gateway offers a method."""
    return bool(method.options.HasExtension(annotations_pb2.http))


def binding(method: MethodDescriptorProto) -> tuple[str, str, str]:
    """Return verb, path and body of a method that the gateway offers."""
    rule = method.options.Extensions[annotations_pb2.http]
    verb = rule.WhichOneof("pattern")
    return verb.upper(), getattr(rule, verb), rule.body


def docstring(comments: Comments, path: Path_) -> Iterator[str]:
    """Yield the comment at a path, as a docstring of Python."""
    text = "\n\n".join(comments.paragraphs(*path)).replace("\\", "\\\\")
    several = "\n" in text
    quoted = f'"""{text}{" " if text.endswith(chr(34)) else ""}' + ("" if several else '"""')
    for paragraph in quoted.split("\n"):
        yield textwrap.fill(paragraph, width=110, initial_indent="    ", subsequent_indent="    ")
    if several:
        yield '    """'


def constant(name: str) -> str:
    """Convert `GetJob` to `GET_JOB`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()


def short(type_name: str) -> str:
    return type_name.rpartition(".")[2]


def synchronous(source: str) -> str:
    """Return the blocking client, made from the text of the asynchronous one."""
    for pattern, replacement in _SYNCHRONOUS:
        source = re.sub(pattern, replacement, source)
    return source


def formatted(source: str) -> str:
    for arguments in (["check", "--fix-only", "--select", "I", "--quiet"], ["format"]):
        command = [str(BIN / "ruff"), *arguments, "--stdin-filename", str(CLIENT / "generated.py"), "-"]
        done = subprocess.run(command, cwd=ROOT, input=source, check=True, capture_output=True, text=True)
        source = done.stdout
    return source


def main() -> int:
    return write_or_check(sys.argv[1:], contract_files(), "make generate", str(__doc__))


if __name__ == "__main__":
    raise SystemExit(main())
