"""groundline models list and fetch"""

from pathlib import Path
from typing import Final

import click
from groundline_embedding import EmbeddingSettings, ModelError
from groundline_embedding.local.catalog import (
    CHECKSUMS_FILE,
    KNOWN_MODELS,
    KnownModel,
    fetched_directory,
    find_model,
)
from groundline_embedding.local.download import HUB, fetch_model, read_checksums
from groundline_embedding.local.models import WHEEL_MODELS

from groundline_cli.commands.gateway import json_option
from groundline_cli.errors import CommandFailedError
from groundline_cli.terminal import print_columns, print_json

_CACHE_DIR: Final = click.option(
    "--cache-dir",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="GROUNDLINE_EMBEDDING__CACHE_DIR",
    default=lambda: EmbeddingSettings().cache_dir,
    show_default="groundline/models in the user's cache directory",
    help="Where retriever and ingestor keep models.",
)


@click.group(short_help="List and fetch local embedding models.")
def models() -> None:
    """List local embedding models, and fetch their files for machines that run them offline."""


@models.command("list")
@_CACHE_DIR
@json_option
def list_models(cache_dir: Path, as_json: bool) -> None:
    """List the models that are known to run well on a CPU."""
    shown = [
        {
            "name": model.name,
            "licence": model.licence,
            "dimensions": model.dimensions,
            "maxTokens": model.max_tokens,
            "languages": model.languages,
            "megabytes": model.megabytes,
            "isHere": _is_here(model, cache_dir),
            "note": model.note,
        }
        for model in KNOWN_MODELS
    ]
    if as_json:
        print_json({"models": shown})
        return
    headings = ("MODEL", "LICENCE", "DIMENSIONS", "TOKENS", "LANGUAGES", "MB", "HERE", "")
    print_columns(
        headings,
        [(*list(one.values())[:6], "yes" if one["isHere"] else "no", one["note"]) for one in shown],
    )


@models.command()
@click.argument("model")
@_CACHE_DIR
@click.option(
    "--from",
    "base_url",
    metavar="URL",
    envvar="GROUNDLINE_MODELS_URL",
    default=HUB,
    show_default=True,
    help="The hub, or a mirror that serves MODEL/resolve/REVISION/FILE as it does.",
)
@click.option("--revision", default="main", show_default=True, help="Branch, tag or commit.")
@click.option(
    "--checksums",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="SHA256SUMS that the files must match, such as the one that an earlier fetch has written. Default: "
    "what the server states.",
)
def fetch(model: str, cache_dir: Path, base_url: str, revision: str, checksums: Path | None) -> None:
    """Download the files of MODEL, and verify them; what broke off goes on.

    Afterwards the model runs without a network: GROUNDLINE_EMBEDDING__MODEL=MODEL.
    """
    known = find_model(model)
    if known is None:
        names = ", ".join(one.name for one in KNOWN_MODELS if one.files)
        raise click.BadParameter(f"{model!r} is not known; there are {names}", param_hint="MODEL")
    if not known.files:
        click.echo(f"{model} is installed with the suite; there is nothing to fetch")
        return
    try:
        directory = fetch_model(
            known,
            cache_dir,
            base_url=base_url,
            revision=revision,
            checksums=read_checksums(checksums) if checksums else None,
            on_progress=_Progress(),
        )
    except ModelError as error:
        raise CommandFailedError(str(error)) from error
    click.echo(f"{model} is in {directory}, verified; its checksums are in SHA256SUMS there")


class _Progress:
    """Progress of a download: a line on standard error for each tenth of a file, so that logs stay short."""

    def __init__(self) -> None:
        self._shown: dict[str, int] = {}

    def __call__(self, file: str, done: int, total: int) -> None:
        tenths = done * 10 // total if total else 0
        if self._shown.get(file) != tenths:
            self._shown[file] = tenths
            of = f" of {total / 1e6:.1f}" if total else ""
            click.echo(f"{file}: {done / 1e6:.1f}{of} MB", err=True)


def _is_here(model: KnownModel, cache_dir: Path) -> bool:
    if model.name in WHEEL_MODELS:
        return WHEEL_MODELS[model.name].is_at_hand(cache_dir)
    return (fetched_directory(cache_dir, model.name) / CHECKSUMS_FILE).is_file()
