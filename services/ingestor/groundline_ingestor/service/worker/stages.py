"""Stages of every document on its way to chunks with vectors."""

from dataclasses import dataclass

from groundline_indexing.preparation import Preparation

from groundline_ingestor.service.worker.embedding import RememberingEmbedder
from groundline_ingestor.service.worker.generator.contextualization import Contextualization
from groundline_ingestor.service.worker.generator.describing import PictureDescriptions


@dataclass(frozen=True, slots=True)
class Stages:
    """Parts that turn a document's file into chunks with vectors; one for a process."""

    preparation: Preparation
    pictures: PictureDescriptions
    contextualization: Contextualization
    embedder: RememberingEmbedder
