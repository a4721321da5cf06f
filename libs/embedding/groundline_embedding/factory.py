"""Factory of embedders. Providers are imported when chosen, so the others cost nothing."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from groundline_embedding.embedders import Embedders
from groundline_embedding.errors import ModelError
from groundline_embedding.local.catalog import KnownModel, find_model
from groundline_embedding.ports import Embedder
from groundline_embedding.settings import EmbeddingSettings


@asynccontextmanager
async def create_embedder(settings: EmbeddingSettings) -> AsyncIterator[Embedder]:
    """Load the model that the settings name, preparing its files if need be, or connect to a hosted one;
    close it on exit.

    Raises ModelError.
    """
    match settings.provider:
        case "local":
            from groundline_embedding.local.embedder import LocalEmbedder

            embedder: Embedder = await asyncio.to_thread(LocalEmbedder.load, settings)
        case _:
            from groundline_embedding.hosted.embedder import HostedEmbedder

            embedder = await HostedEmbedder.load(settings)
    try:
        yield embedder
    finally:
        await embedder.close()


@asynccontextmanager
async def create_embedders(
    settings: EmbeddingSettings, other: EmbeddingSettings | None = None, *, needed: Collection[str] = ()
) -> AsyncIterator[Embedders]:
    """Load the model of new collections and the other one; close them on exit.

    Models that came with the suite are loaded when a text comes, or now if they are `needed`; beside a local
    model there are all of them. Raises ModelError.
    """
    async with AsyncExitStack() as stack:

        async def lazy(known: KnownModel, chosen: EmbeddingSettings) -> Embedder:
            from groundline_embedding.local.lazy import LazyEmbedder

            embedder = LazyEmbedder(known, chosen)
            stack.push_async_callback(embedder.close)
            if known.name in needed:
                await embedder.load()
            return embedder

        embedders: list[Embedder] = []
        for one in (settings, other):
            if one is None:
                continue
            known = find_model(one.model) if one.provider == "local" and one.model_dir is None else None
            if known is None or known.files:
                embedders.append(await stack.enter_async_context(create_embedder(one)))
            else:
                await asyncio.to_thread(prepare_model, one)
                embedders.append(await lazy(known, one))
        if settings.provider == "local":
            from groundline_embedding.local.models import at_hand

            running = {embedder.model for embedder in embedders}
            for known in at_hand(settings.cache_dir):
                if known.name not in running:
                    chosen = settings.model_copy(update={"model": known.name, "model_dir": None})
                    embedders.append(await lazy(known, chosen))
        yield Embedders(embedders)


def prepare_model(settings: EmbeddingSettings) -> Path:
    """Build or download the files of the model ahead of time and return their directory.

    Does nothing if they exist. An image built with this needs no write access to `cache_dir` later. Raises
    ModelError.
    """
    match settings.provider:
        case "local":
            from groundline_embedding.local.models import prepare

            return prepare(settings)
        case provider:
            raise ModelError(f"the provider {provider} has no files to prepare")
