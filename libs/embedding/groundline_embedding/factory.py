"""Factory of embedders. Providers are imported when chosen, so the others cost nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from groundline_embedding.errors import ModelError
from groundline_embedding.ports import Embedder
from groundline_embedding.settings import EmbeddingSettings

__all__ = ["create_embedder", "prepare_model"]


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
