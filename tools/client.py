"""Make the parts of the Python client that the contract or its asynchronous half decide.

client.py write    write models.py and rpcs.py from protos/, sync_client.py from async_client.py
client.py check    fail when one of them is stale
"""

import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from contract import Comments, camel, is_map, message_of, read
from generated import write_or_check
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from groundline.v1 import error_pb2
from groundline_gateway.endpoints import Endpoint, endpoints
from project import ROOT

CLIENT: Final = ROOT / "clients/python/groundline_client"
TYPESCRIPT: Final = ROOT / "clients/typescript/src"
BIN: Final = Path(sys.executable).parent

HEAD: Final = '"""{purpose}\n\nMade from protos/groundline/v1 by `make generate`; do not edit.\n"""\n\n'

TYPESCRIPT_HEAD: Final = "// Made from protos/groundline/v1 by `make generate`; do not edit.\n"

_SCALARS: Final = {
    FieldDescriptor.TYPE_BOOL: ("bool", "False"),
    FieldDescriptor.TYPE_BYTES: ("bytes", 'b""'),
    FieldDescriptor.TYPE_DOUBLE: ("float", "0.0"),
    FieldDescriptor.TYPE_FLOAT: ("float", "0.0"),
    FieldDescriptor.TYPE_INT32: ("int", "0"),
    FieldDescriptor.TYPE_STRING: ("str", '""'),
}
# Messages whose JSON is not an object of their fields.
_WELL_KNOWN: Final = {
    "google.protobuf.Struct": "dict[str, Any]",
    "google.protobuf.Value": "Any",
    "google.protobuf.Timestamp": "datetime",
    "google.protobuf.FieldMask": "str",
}
# The raw body of an upload, which is not JSON.
_NOT_JSON: Final = ("google.api.HttpBody",)
type _Kind = Descriptor | EnumDescriptor

_TYPESCRIPT_SCALARS: Final = {
    FieldDescriptor.TYPE_BOOL: "boolean",
    FieldDescriptor.TYPE_BYTES: "string",
    FieldDescriptor.TYPE_DOUBLE: "number",
    FieldDescriptor.TYPE_FLOAT: "number",
    FieldDescriptor.TYPE_INT32: "number",
    FieldDescriptor.TYPE_STRING: "string",
}

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
    contract = Contract()
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

    def __init__(self) -> None:
        _, self._comments = read()
        self._endpoints = sorted(
            endpoints(), key=lambda one: (one.method.containing_service.full_name, one.method.index)
        )

    def models(self) -> str:
        reached: dict[str, _Kind] = {}
        self._reach(error_pb2.ErrorReason.DESCRIPTOR, reached)
        for endpoint in self._endpoints:
            # The client's methods take a request's fields, not the request.
            self._reach_fields(endpoint.method.input_type, reached)
            for kind, _ in results(endpoint):
                self._reach(kind, reached)
        parts = [
            HEAD.format(purpose="Messages of the gateway's API."),
            "from collections.abc import Mapping, Sequence\nfrom dataclasses import dataclass\n"
            "from datetime import datetime\nfrom typing import Any\n\n"
            "from groundline_client.open_enum import OpenEnum\n\n",
        ]
        parts += [self._enum(kind) for kind in reached.values() if isinstance(kind, EnumDescriptor)]
        parts += [self._message(kind) for kind in reached.values() if isinstance(kind, Descriptor)]
        return "\n".join(parts)

    def rpcs(self) -> str:
        lines = [
            HEAD.format(purpose="The methods that the gateway offers."),
            "from typing import Final\n",
            "from groundline_client import models",
            "from groundline_client.transport.rpc import Rpc\n",
        ]
        for endpoint in self._endpoints:
            is_upload = endpoint.verb in ("PATCH", "POST") and endpoint.body_field != "*"
            facts = ", is_upload=True" if is_upload else ""
            facts += "" if endpoint.is_idempotent else ", is_idempotent=False"
            held = [
                f"models.{kind.name}" + (f', "{field.json_name}"' if field else "")
                for kind, field in results(endpoint)
            ]
            # The entries of a page that holds something else too are a method of their own.
            names = (constant(endpoint.name), f"{constant(endpoint.name)}_ENTRIES")
            for name, result in zip(names, held or ["bytes"], strict=False):
                lines.append(
                    f'{name}: Final = Rpc("{endpoint.verb}", "{endpoint.template}", {result}{facts})'
                )
        return "\n".join(lines) + "\n"

    def typescript_models(self) -> str:
        reached: dict[str, _Kind] = {}
        self._reach(error_pb2.ErrorReason.DESCRIPTOR, reached)
        for endpoint in self._endpoints:
            self._reach(endpoint.method.input_type, reached)
            if not endpoint.is_download:
                self._reach(endpoint.method.output_type, reached)
        parts = [
            TYPESCRIPT_HEAD,
            "/** Any JSON object. */\nexport type JsonObject = Record<string, unknown>;\n",
        ]
        for kind in reached.values():
            if isinstance(kind, EnumDescriptor):
                values = "".join(
                    f'{jsdoc(self._comments, f"{kind.full_name}.{value.name}", "  ")}  | "{value.name}"\n'
                    for value in kind.values
                )
                text = f"export type {kind.name} =\n{values.rstrip()};\n"
            else:
                fields = "".join(
                    f"{jsdoc(self._comments, field.full_name, '  ')}  {typescript_field(field)};\n"
                    for field in kind.fields
                    if not is_raw(field)
                )
                text = f"export interface {kind.name} {{\n{fields}}}\n"
            parts.append(jsdoc(self._comments, kind.full_name) + text)
        return "\n".join(parts)

    def javascript_rpcs(self) -> str:
        lines = [TYPESCRIPT_HEAD, "export const rpcs = {"]
        for endpoint in self._endpoints:
            entries = entries_of(endpoint)
            facts: dict[str, object] = {
                "verb": endpoint.verb,
                "path": re.sub(r"\{(\w+)\}", lambda found: f"{{{camel(found[1])}}}", endpoint.template),
                "hasBody": endpoint.body_field == "*",
                "isIdempotent": endpoint.is_idempotent,
                "takesRequestId": "request_id" in endpoint.method.input_type.fields_by_name,
                **({"entries": entries.json_name} if entries else {}),
            }
            shown = ", ".join(f"{name}: {json.dumps(value)}" for name, value in facts.items())
            lines.append(f"  {lower(endpoint.name)}: {{ {shown} }},")
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
        for endpoint in self._endpoints:
            name, method = lower(endpoint.name), endpoint.method
            request, response = f"models.{method.input_type.name}", f"models.{method.output_type.name}"
            if not method.server_streaming and not method.client_streaming:
                lines.append(
                    f"  {name}(request: Input<{request}>, options?: CallOptions): Promise<{response}>;"
                )
            if entries := entries_of(endpoint):
                entry = f"models.{message_of(entries).name}"
                lists.append(f"  {name}: {{ request: {request}; entry: {entry} }};")
        return "\n".join([*lines, "}\n", *lists, "}", ""])

    def _reach(self, kind: _Kind, reached: dict[str, _Kind]) -> None:
        """Add a type, after the types that it needs."""
        if kind.full_name in (*reached, *_WELL_KNOWN, *_NOT_JSON):
            return
        if isinstance(kind, Descriptor):
            self._reach_fields(kind, reached)
        reached[kind.full_name] = kind

    def _reach_fields(self, message: Descriptor, reached: dict[str, _Kind]) -> None:
        for field in message.fields:
            kind = field.message_type or field.enum_type
            if kind is not None and not is_map(field):
                self._reach(kind, reached)

    def _enum(self, enum: EnumDescriptor) -> str:
        prefix = constant(enum.name) + "_"
        lines = [f"class {enum.name}(OpenEnum):", *docstring(self._comments, enum.full_name)]
        for value in enum.values:
            lines.append(f'    {value.name.removeprefix(prefix)} = "{value.name}"')
            lines += docstring(self._comments, f"{enum.full_name}.{value.name}")
        return "\n".join(lines) + "\n\n"

    def _message(self, message: Descriptor) -> str:
        lines = ["@dataclass(frozen=True, kw_only=True, slots=True)", f"class {message.name}:"]
        lines += [*docstring(self._comments, message.full_name), ""]
        for field in message.fields:
            kind, default = typed(field)
            lines.append(f"    {field.name}: {kind} = {default}")
            lines += docstring(self._comments, field.full_name)
        return "\n".join(lines) + "\n\n"


def results(endpoint: Endpoint) -> Sequence[tuple[Descriptor, FieldDescriptor | None]]:
    """Return the types that callers get, each with the field of the response that holds it: one message, the
    entries of a page, or both; otherwise the response itself. A download has none."""
    if endpoint.is_download:
        return []
    response = endpoint.method.output_type
    entries = entries_of(endpoint)
    others = [one for one in response.fields if one != entries and one.name != "next_page_token"]
    held = [*others, *([entries] if entries else [])]
    if not held or len(others) > 1 or any(one.is_repeated or one.message_type is None for one in others):
        return [(response, None)]
    return [(message_of(one), one) for one in held]


def entries_of(endpoint: Endpoint) -> FieldDescriptor | None:
    """Return the field of a page's entries, for a method that answers in pages."""
    response = endpoint.method.output_type
    if "next_page_token" not in response.fields_by_name:
        return None
    [entries] = (one for one in response.fields if one.is_repeated)
    return entries


def is_raw(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.full_name in _NOT_JSON


def typed(field: FieldDescriptor) -> tuple[str, str]:
    """Return type and default of a field."""
    if is_map(field):
        value, _ = single(message_of(field).fields_by_name["value"])
        return f"Mapping[str, {value}] | None", "None"
    kind, default = single(field)
    if field.is_repeated:
        return f"Sequence[{kind}]", "()"
    is_mask = field.message_type is not None and field.message_type.name == "FieldMask"
    if field.has_presence and not is_mask:
        return f"{kind} | None", "None"
    return kind, default


def single(field: FieldDescriptor) -> tuple[str, str]:
    kind = field.message_type or field.enum_type
    if kind is None:
        return _SCALARS[field.type]
    if kind.full_name in _WELL_KNOWN:
        return _WELL_KNOWN[kind.full_name], '""'
    return kind.name, f"{kind.name}.UNSPECIFIED"


def typescript_field(field: FieldDescriptor) -> str:
    """Return name and type; an optional field has a question mark."""
    kind = _typescript_single(message_of(field).fields_by_name["value"] if is_map(field) else field)
    _, default = typed(field)
    if is_map(field):
        kind = f"Record<string, {kind}>"
    elif field.is_repeated:
        kind = f"{kind}[]"
    return f"{field.json_name}{'?' if default == 'None' and not is_map(field) else ''}: {kind}"


def _typescript_single(field: FieldDescriptor) -> str:
    kind = field.message_type or field.enum_type
    if kind is None:
        return _TYPESCRIPT_SCALARS[field.type]
    if kind.full_name in _WELL_KNOWN:
        return {"Struct": "JsonObject", "Value": "unknown"}.get(kind.name, "string")
    return kind.name


def jsdoc(comments: Comments, full_name: str, indent: str = "") -> str:
    """Return the comment on a subject, for TypeScript."""
    text = "\n\n".join(textwrap.fill(one, width=110) for one in comments.paragraphs(full_name)).replace(
        "*/", "* /"
    )
    if not text:
        return ""
    if "\n" not in text:
        return f"{indent}/** {text} */\n"
    inside = "".join(f"{indent} * {line}".rstrip() + "\n" for line in text.split("\n"))
    return f"{indent}/**\n{inside}{indent} */\n"


def lower(name: str) -> str:
    """Convert `GetJob` to `getJob`."""
    return name[0].lower() + name[1:]


def docstring(comments: Comments, full_name: str) -> Iterator[str]:
    """Yield the comment on a subject, as a docstring of Python."""
    text = "\n\n".join(comments.paragraphs(full_name)).replace("\\", "\\\\")
    several = "\n" in text
    quoted = f'"""{text}{" " if text.endswith(chr(34)) else ""}' + ("" if several else '"""')
    for paragraph in quoted.split("\n"):
        yield textwrap.fill(paragraph, width=110, initial_indent="    ", subsequent_indent="    ")
    if several:
        yield '    """'


def constant(name: str) -> str:
    """Convert `GetJob` to `GET_JOB`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()


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
