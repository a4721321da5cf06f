"""groundline verify"""

import sys
from contextlib import aclosing
from datetime import datetime
from typing import Final, TextIO

import click
from groundline_client import AsyncClient, JsonObject, to_json
from groundline_client.models import Source, Verdict, VerifiedClaim, VerifyCompleted

from groundline_cli.commands.as_of import as_of_option
from groundline_cli.commands.ask import print_degraded
from groundline_cli.commands.gateway import collections_option, json_object, json_option, run, with_gateway
from groundline_cli.connection import Connection
from groundline_cli.terminal import one_line, print_json, printable, shown_enum, summary

_REFUTED_EXIT_CODE: Final = 1
_CLAIM_LENGTH: Final = 300
_TITLE_LENGTH: Final = 120
_COLOURS: Final = {Verdict.SUPPORTED: "green", Verdict.REFUTED: "red", Verdict.NOT_FOUND: "yellow"}


@click.command(short_help="Check a text against the documents, claim by claim.")
@click.argument("text", required=False)
@click.option(
    "--file",
    "-f",
    "file",
    type=click.File("r", encoding="utf-8"),
    help="File with the text; - is standard input, which is read too if no text is given.",
)
@collections_option
@click.option(
    "--filter",
    "condition",
    metavar="JSON",
    callback=json_object,
    help='Condition on documents, such as \'{"team": "ops"}\'.',
)
@as_of_option
@json_option
@with_gateway
def verify(
    connection: Connection,
    /,
    text: str | None,
    file: TextIO | None,
    collections: tuple[str, ...],
    condition: JsonObject | None,
    as_of: datetime | None,
    as_json: bool,
) -> None:
    """Check the claims of TEXT, or of a file, against the documents: supported, refuted or not found.

    With --json: one object with all claims as POST /api/verify streams them, and the last event.

    Exit codes: 0 nothing is refuted, 1 a claim is refuted or the command failed, 2 wrong usage.
    """
    if text is not None and file is not None:
        raise click.UsageError("give the text or a file, not both")
    if text is None:
        text = sys.stdin.read() if file is None else file.read()
    given = {"collection_ids": collections, "filter": condition, "as_of": as_of}
    claims, completed = run(connection, lambda client: _checked(client, text, given, quiet=as_json))
    if as_json:
        print_json({"claims": [to_json(claim) for claim in claims], "completed": to_json(completed)})
    else:
        _print_end(completed)
    if completed.refuted_count:
        raise SystemExit(_REFUTED_EXIT_CODE)


async def _checked(
    client: AsyncClient, text: str, given: JsonObject, *, quiet: bool
) -> tuple[list[VerifiedClaim], VerifyCompleted]:
    """Return the claims and the last event; print each claim as it comes unless told to be quiet."""
    claims: list[VerifiedClaim] = []
    completed = VerifyCompleted()
    async with aclosing(client.verify(text, **given)) as events:
        async for event in events:
            match event:
                case VerifiedClaim():
                    claims.append(event)
                    if not quiet:
                        _print_claim(event)
                case VerifyCompleted():
                    completed = event
    return claims, completed


def _print_claim(claim: VerifiedClaim) -> None:
    verdict = click.style(shown_enum(claim.verdict), fg=_COLOURS.get(claim.verdict), bold=True)
    click.echo(f"{verdict} {claim.probability:.2f}  {summary(claim.text, length=_CLAIM_LENGTH)}")
    if claim.message:
        click.echo(f"    {printable(claim.message)}")
    if claim.verdict == Verdict.NOT_FOUND:
        return
    for evidence in claim.evidence:
        source = evidence.source or Source()
        click.echo(f"    “{summary(evidence.text, length=_CLAIM_LENGTH)}”")
        click.echo(f"    {summary(source.title, length=_TITLE_LENGTH)} — {one_line(source.uri)}")


def _print_end(completed: VerifyCompleted) -> None:
    counts = (
        f"{completed.supported_count} supported, {completed.refuted_count} refuted, "
        f"{completed.not_found_count} not found"
    )
    judges = ", ".join(f"{each.claim_count} by {printable(each.model)}" for each in completed.judged_by)
    by = f" (judged: {judges})" if judges else ""
    click.echo(click.style(counts + by, dim=True), err=True)
    print_degraded(completed.degraded)
