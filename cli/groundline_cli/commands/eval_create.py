"""groundline eval create"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

import click
from groundline_client import AsyncClient
from groundline_client.models import Document

from groundline_cli.commands.evaluation_work import question_bar
from groundline_cli.commands.gateway import CommandFailedError, all_of, run, with_gateway
from groundline_cli.connection import Connection
from groundline_cli.evaluation.making.drafting import Draft, drafts
from groundline_cli.evaluation.making.folder import DraftedSet
from groundline_cli.evaluation.making.wording import Wording
from groundline_cli.evaluation.sets import DatasetError
from groundline_cli.terminal import printable

__all__ = ["create_set"]

_ACCEPT: Final = "a"
_EDIT: Final = "e"
_REJECT: Final = "r"
_QUIT: Final = "q"

type _Text = tuple[str, str, str]
"""Uri, title and text of a document."""


@click.command("create", short_help="Make a set of questions about a collection.")
@click.argument("collection")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="FOLDER",
    help="Folder of the set; one that is there already is continued.",
)
@click.option(
    "--questions",
    type=click.IntRange(1, 10_000),
    default=50,
    show_default=True,
    help="Drafts to decide on, at most.",
)
@click.option("--accept-all", is_flag=True, help="Accept every draft as it is, unread.")
@with_gateway
def create_set(
    connection: Connection, collection: str, output: Path, questions: int, accept_all: bool
) -> None:
    """Draft questions about the documents of COLLECTION, and write those that you accept as a set.

    A draft comes from a sentence that names a number, a date, a part or a name. If the gateway has a language
    model, it words the question; otherwise rules do, and the question shares most of its words with the
    sentence: edit it to what a person would ask. Each is accepted, edited or rejected; what was decided is
    kept at once, and the same command goes on from there.
    """
    try:
        made = DraftedSet(output)
    except DatasetError as error:
        raise CommandFailedError(str(error)) from error

    async def prepare(client: AsyncClient) -> list[Draft]:
        documents = await all_of(client.list_documents(collection))
        texts = await _texts(client, collection, documents)
        made.write_corpus(texts)
        found = drafts([(uri, text) for uri, _, text in texts])
        undecided = list(islice((one for one in found if one.draft_id not in made.decided), questions))
        wording = Wording(client, collection)
        with question_bar("drafting", len(undecided)) as advance:
            worded = []
            for one in undecided:
                worded.append(replace(one, question=await wording.question(one)))
                advance()
        return worded

    found = run(connection, prepare)
    if not found:
        click.echo("no sentence is left that a question could be made of", err=True)
    accepted = 0
    for number, one in enumerate(found, 1):
        decision = _ACCEPT if accept_all else _decide(one, f"{number} of {len(found)}")
        if decision == _QUIT:
            break
        accepted += _keep(made, one, decision)
    click.echo(f"{accepted} questions added to {output}")


async def _texts(client: AsyncClient, collection: str, documents: Sequence[Document]) -> list[_Text]:
    """Return the documents whose text was extracted."""
    found = []
    with question_bar("reading", len(documents)) as advance:
        for document in documents:
            parts, end = [], 0
            while True:
                part = await client.get_document_text(collection, document.document_id, start_offset=end)
                parts.append(part.text)
                end = part.end_offset
                if not part.text or end >= part.character_count:
                    break
            if text := "".join(parts):
                found.append((document.uri, document.title, text))
            advance()
    return found


def _decide(one: Draft, place: str) -> str:
    """Show a draft, and ask what to do with it."""
    shown = printable(one.sentence).replace(one.answer, click.style(one.answer, bold=True))
    click.echo(f"\n{place}  {printable(one.uri)}\n  {shown}")
    click.echo(f"  question: {printable(one.question)}\n  answer:   {printable(one.answer)}")
    choices = click.Choice([_ACCEPT, _EDIT, _REJECT, _QUIT])
    decision: str = click.prompt("[a]ccept, [e]dit, [r]eject or [q]uit", type=choices, show_choices=False)
    return decision


def _keep(made: DraftedSet, one: Draft, decision: str) -> bool:
    """Keep a decision on a draft; return whether it was accepted."""
    if decision == _REJECT:
        made.reject(one)
        return False
    if decision == _EDIT:
        question = click.prompt("question", default=printable(one.question))
        made.accept(one, question, click.prompt("answer", default=printable(one.answer)))
    else:
        made.accept(one, one.question, one.answer)
    return True
