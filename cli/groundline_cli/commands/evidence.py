"""groundline evidence"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import click
from groundline_client import ApiError, AsyncClient, to_json
from groundline_evidence import EvidenceError, Verified
from groundline_evidence import verify as verified

from groundline_cli.commands.gateway import json_option, output_option, run, with_gateway, with_gateway_unless
from groundline_cli.connection import Connection
from groundline_cli.errors import CommandFailedError
from groundline_cli.terminal import print_json, printable, summary

_ANSWERS: Final = "groundline/evidence/1"
_ERASURE: Final = "groundline/erasure/1"
_NOT_FOUND: Final = 404
_QUESTION_LENGTH: Final = 100

_SAME: Final = "same"
_CHANGED: Final = "changed"
_GONE: Final = "gone"
_WITHOUT_TEXT: Final = "without text"
_STATES: Final = {
    _SAME: "there, with the text of the evidence",
    _CHANGED: "there, with ANOTHER text",
    _GONE: "gone, or not to be read with this key",
    _WITHOUT_TEXT: "without text in the evidence",
}
"""Words for the states of a passage."""


@click.group(short_help="Export signed evidence of answers, and verify it.")
def evidence() -> None:
    """Export signed evidence of your answers, and verify it.

    Evidence holds question, answer, what was searched for and how, and the passages with their revisions. The
    installation signs it, so that whoever has its public keys can tell whether a byte was changed.
    """


@evidence.command()
@click.argument("thread")
@click.option("--message", metavar="ID", default="", help="The answer; by default all answers of THREAD.")
@output_option
@with_gateway
def export(connection: Connection, thread: str, message: str, output: BinaryIO) -> None:
    """Write evidence of the answers of THREAD; keep it byte for byte."""
    output.write(run(connection, lambda client: client.get_evidence(thread, message)))


@evidence.command()
@output_option
@with_gateway
def keys(connection: Connection, output: BinaryIO) -> None:
    """Write the public keys of the installation, as its /.well-known/jwks.json has them.

    Keep them with the evidence: `verify --keys` then needs nothing else, as long as you know whose keys they
    are.
    """
    found = run(connection, _keys)
    output.write(json.dumps({"keys": found}).encode() + b"\n")


@evidence.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--keys",
    "keys_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Public keys that `groundline evidence keys` wrote. No gateway is asked then.",
)
@json_option
@with_gateway_unless("keys_file")
def verify(connection: Connection | None, file: Path, keys_file: Path | None, as_json: bool) -> None:
    """Tell whether the evidence in FILE, or a certificate of an erasure, is what an installation signed, byte
    for byte.

    Without --keys the gateway is asked for its keys, and for each passage: whether its revision is still
    there, with the text that the evidence has.

    Exit codes: 0 it holds, 1 it does not or the command failed, 2 wrong usage.
    """
    document = _content(file)
    if connection is None:
        assert keys_file is not None
        found = _verified(document, _keys_in(keys_file))
        states: list[_Passage] = []
    else:
        found, states = run(connection, lambda client: _compared(client, document))
    if as_json:
        passages = [
            {"messageId": each.message_id, "sourceNumber": each.source_number, "state": each.state}
            for each in states
        ]
        print_json({"keyId": found.key_id, "issueTime": found.values["issueTime"], "passages": passages})
    else:
        _print(found, states)
    if any(each.state == _CHANGED for each in states):
        raise SystemExit(1)


class _Passage(NamedTuple):
    """A source of an answer, and what became of its passage."""

    message_id: str
    source_number: int
    state: str


async def _keys(client: AsyncClient) -> list[Mapping[str, Any]]:
    return [to_json(key) for key in await client.list_signing_keys()]


def _keys_in(path: Path) -> Sequence[Mapping[str, Any]]:
    try:
        keys = json.loads(_content(path))["keys"]
        return [dict(key) for key in keys]
    except (ValueError, KeyError, TypeError) as error:
        raise CommandFailedError(f"{path}: not a JSON Web Key Set") from error


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CommandFailedError(f"{path}: {error.strerror}") from error


def _verified(document: bytes, keys: Sequence[Mapping[str, Any]]) -> Verified:
    try:
        found = verified(document, keys)
    except EvidenceError as error:
        raise CommandFailedError(f"the evidence does not hold: {error}") from error
    if found.values.get("format") not in (_ANSWERS, _ERASURE):
        raise CommandFailedError(f"signed, but not evidence: {found.values.get('format')}")
    return found


async def _compared(client: AsyncClient, document: bytes) -> tuple[Verified, list[_Passage]]:
    """Verify the evidence with the gateway's keys, and compare its passages with what is there now."""
    found = _verified(document, await _keys(client))
    states = []
    for answer in found.values.get("answers", ()):
        message_id = answer["answer"]["messageId"]
        for passage, spans in _passages(answer):
            state = await _state(client, passage["text"], spans)
            states.append(_Passage(message_id, passage["sourceNumber"], state))
    return found, states


type _Span = tuple[Mapping[str, Any], Mapping[str, Any]]
"""A source, and a part of its revision's text."""


def _passages(answer: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], list[_Span]]]:
    """Yield the passages of an answer, each with the parts of a text that it is."""
    sources = {each["number"]: each for each in answer["answer"]["sources"]}
    served = {each["sourceNumber"]: each["spans"] for each in answer.get("record", {}).get("passages", ())}
    for passage in answer["passages"]:
        source = sources[passage["sourceNumber"]]
        yield passage, [(source, span) for span in served.get(passage["sourceNumber"], (source,))]


async def _state(client: AsyncClient, text: str, spans: Sequence[_Span]) -> str:
    if not text:
        return _WITHOUT_TEXT
    try:
        parts = [await _text(client, *span) for span in spans]
    except ApiError as error:
        if error.http_status != _NOT_FOUND:
            raise
        return _GONE
    return _SAME if "\n".join(parts).startswith(text) else _CHANGED


async def _text(client: AsyncClient, source: Mapping[str, Any], span: Mapping[str, Any]) -> str:
    start, end = span["startOffset"], span["endOffset"]
    found = await client.get_document_text(
        source["collectionId"],
        source["documentId"],
        start_offset=start,
        max_characters=end - start,
        revision=source["revision"],
    )
    return found.text


def _print(found: Verified, states: Sequence[_Passage]) -> None:
    click.echo(click.style("the evidence holds", fg="green", bold=True))
    click.echo(f"signed {printable(str(found.values['issueTime']))} with the key {found.key_id}")
    if erasure := found.values.get("erasure"):
        counts = ("documentCount", "revisionCount", "chunkCount", "answerCount")
        documents, revisions, chunks, answers = (erasure[name] for name in counts)
        click.echo(
            f"{printable(erasure['eraseTime'])}: {documents} documents, {revisions} revisions, "
            f"{chunks} chunks and {answers} answers of the collection {printable(erasure['collectionId'])}"
        )
    for answer in found.values.get("answers", ()):
        question = summary(answer["question"]["content"], length=_QUESTION_LENGTH)
        click.echo(f"{answer['answer']['messageId']}  {question}")
        if answer["answer"]["isWithheld"]:
            click.echo("    withheld: a document that it rests on was gone, or could not be read")
        here = Counter(each.state for each in states if each.message_id == answer["answer"]["messageId"])
        for state, words in _STATES.items():
            if here[state]:
                click.echo(f"    passages {words}: {here[state]}")
