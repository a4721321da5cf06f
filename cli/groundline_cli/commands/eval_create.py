"""groundline eval create"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

import click
from groundline_client import AsyncClient
from groundline_client.models import Document

from groundline_cli.commands.evaluation_work import question_bar
from groundline_cli.commands.gateway import all_of, run, with_gateway
from groundline_cli.connection import Connection
from groundline_cli.errors import CommandFailedError
from groundline_cli.evaluation.making.drafting import Draft, drafts
from groundline_cli.evaluation.making.folder import DraftedSet
from groundline_cli.evaluation.making.rated import Rated, rated_questions
from groundline_cli.evaluation.making.wording import Wording
from groundline_cli.evaluation.sets import DatasetError
from groundline_cli.terminal import one_line, printable

_ACCEPT: Final = "a"
_EDIT: Final = "e"
_REJECT: Final = "r"
_QUIT: Final = "q"
_WITHOUT_DOCUMENT: Final = {
    True: "the document that holds the answer is not known: edit it in, or reject the question",
    False: "nothing holds the answer: it is to be refused",
}

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
@click.option(
    "--from-feedback",
    is_flag=True,
    help="Take the questions whose answers you rated, from your own threads.",
)
@click.option("--accept-all", is_flag=True, help="Accept every draft as it is, unread.")
@with_gateway
def create_set(
    connection: Connection,
    collection: str,
    output: Path,
    questions: int,
    from_feedback: bool,
    accept_all: bool,
) -> None:
    """Draft questions about the documents of COLLECTION, and write those that you accept as a set.

    A draft comes from a sentence that names a number, a date, a part or a name. If the gateway has a language
    model, it words the question; otherwise rules do, and the question shares most of its words with the
    sentence: edit it to what a person would ask. Each is accepted, edited or rejected; what was decided is
    kept at once, and the same command goes on from there.

    With --from-feedback, what a good answer cites holds the answer of its question; for a bad answer you name
    the document that does. --accept-all leaves out the latter, and follow-up questions, which may not be
    understood alone.
    """
    try:
        made = DraftedSet(output)
    except DatasetError as error:
        raise CommandFailedError(str(error)) from error

    async def corpus(client: AsyncClient) -> list[_Text]:
        texts = await _texts(client, collection, await all_of(client.list_documents(collection)))
        made.write_corpus(texts)
        return texts

    async def drafted(client: AsyncClient) -> list[Draft]:
        texts = await corpus(client)
        found = drafts([(uri, text) for uri, _, text in texts])
        undecided = list(islice((one for one in found if one.draft_id not in made.decided), questions))
        wording = Wording(client, collection)
        with question_bar("drafting", len(undecided)) as advance:
            worded = []
            for one in undecided:
                worded.append(replace(one, question=await wording.question(one)))
                advance()
        return worded

    async def rated(client: AsyncClient) -> list[Rated]:
        found = await rated_questions(client, {uri for uri, _, _ in await corpus(client)})
        if accept_all:
            found = [one for one in found if one.is_complete and not one.is_follow_up]
        return [one for one in found if one.draft_id not in made.decided][:questions]

    if from_feedback:
        cases = run(connection, rated)
        accepted = _added(made, cases, _decide_rated, _keep_rated, accept_all, "no rated question is left")
    else:
        found = run(connection, drafted)
        nothing = "no sentence is left that a question could be made of"
        accepted = _added(made, found, _decide, _keep, accept_all, nothing)
    click.echo(f"{accepted} questions added to {output}")


def _added[D](
    made: DraftedSet,
    found: Sequence[D],
    decide: Callable[[D, str], str],
    keep: Callable[[DraftedSet, D, str], bool],
    accept_all: bool,
    nothing: str,
) -> int:
    """Have each draft decided on, until the person quits; return how many were accepted."""
    if not found:
        click.echo(nothing, err=True)
    accepted = 0
    for number, one in enumerate(found, 1):
        decision = _ACCEPT if accept_all else decide(one, f"{number} of {len(found)}")
        if decision == _QUIT:
            break
        accepted += keep(made, one, decision)
    return accepted


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
    click.echo(f"\n{place}  {one_line(one.uri)}\n  {shown}")
    click.echo(f"  question: {printable(one.question)}\n  answer:   {printable(one.answer)}")
    choices = click.Choice([_ACCEPT, _EDIT, _REJECT, _QUIT])
    decision: str = click.prompt("[a]ccept, [e]dit, [r]eject or [q]uit", type=choices, show_choices=False)
    return decision


def _keep(made: DraftedSet, one: Draft, decision: str) -> bool:
    """Keep a decision on a draft; return whether it was accepted."""
    if decision == _REJECT:
        made.reject(one.draft_id, one.question)
        return False
    question, answer = one.question, one.answer
    if decision == _EDIT:
        question = click.prompt("question", default=printable(question))
        answer = click.prompt("answer", default=printable(answer))
    made.accept(one.draft_id, question, uris=[one.uri], answers=[answer], passage=one.sentence)
    return True


def _decide_rated(one: Rated, place: str) -> str:
    """Show a rated question, and ask what to do with it."""
    click.echo(f"\n{place}  {printable(one.said)}\n  question: {printable(one.question)}")
    click.echo(f"  answered: {printable(one.answer)}")
    click.echo(
        f"  {'stands in: ' + ', '.join(one.uris) if one.uris else _WITHOUT_DOCUMENT[one.is_answerable]}"
    )
    choices = [_ACCEPT, _EDIT, _REJECT, _QUIT] if one.is_complete else [_EDIT, _REJECT, _QUIT]
    asked = "[a]ccept, [e]dit, [r]eject or [q]uit" if one.is_complete else "[e]dit, [r]eject or [q]uit"
    decision: str = click.prompt(asked, type=click.Choice(choices), show_choices=False)
    return decision


def _keep_rated(made: DraftedSet, one: Rated, decision: str) -> bool:
    """Keep a decision on a rated question; return whether it was accepted."""
    if decision == _REJECT:
        made.reject(one.draft_id, one.question)
        return False
    question, uris, answers = one.question, one.uris, []
    if decision == _EDIT:
        question = click.prompt("question", default=printable(question))
        if one.is_answerable:
            uris = [click.prompt("document that holds the answer", default=uris[0] if uris else None)]
            answer = click.prompt("text that a right answer contains (none: -)", default="-")
            answers = [] if answer == "-" else [answer]
    made.accept(one.draft_id, question, uris=uris, answers=answers)
    return True
