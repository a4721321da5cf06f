"""Descriptions of pictures by a language model, from the cache if they were written before."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import structlog
from groundline.v1 import chat_pb2
from groundline_extraction.descriptions import PlacedDescription
from groundline_extraction.readers.common import PicturePart
from groundline_indexing.collections import StoredCollection
from groundline_indexing.texts import Series
from groundline_runtime.charges import usage_of
from groundline_runtime.errors import Code, FailedPreconditionError, GroundlineError

from groundline_ingestor.domain.pictures import description_paragraphs
from groundline_ingestor.service.worker.generator.asking import GeneratorCalls
from groundline_ingestor.service.worker.generator.contextualization import ContextCache, Payer

FAILURES: Final = 3
"""Pictures in a row that a model may fail to describe; then the document's others are not tried."""

PICTURE_TOKENS: Final = 1500
DESCRIPTION_TOKENS: Final = 150
"""Tokens of a picture with the prompt, and of its description, for estimates."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class DescribedPicture:
    """A description, "" of a picture that needs none, and the usage of the call."""

    description: str
    usage: chat_pb2.Usage


class PictureDescriber(Protocol):
    """Describer of pictures, by a language model."""

    async def describer_version(self, *, model: str) -> str:
        """Return a name of the prompt and the model that `describe` uses; it changes when they do.

        Raises as `describe` does.
        """

    async def describe(self, picture: bytes, *, language: str, model: str) -> DescribedPicture:
        """Describe a JPEG file in a language; `model` "" for the generator's own. Raises GroundlineError."""


class PictureDescriptions:
    """Descriptions of the pictures in documents, for collections that ask for them.

    They are cached by picture, language, prompt and model. A picture that cannot be described is left out:
    the document around it can be read.
    """

    def __init__(
        self, describer: PictureDescriber | None, cache: ContextCache, calls: GeneratorCalls
    ) -> None:
        self._describer = describer
        self._cache = cache
        self._calls = calls

    def are_asked_for(self, collection: StoredCollection) -> bool:
        """Tell whether a language model describes the pictures of the collection's documents."""
        return collection.settings.pictures.described

    async def describe(
        self, pictures: Series[PicturePart], collection: StoredCollection, payer: Payer
    ) -> tuple[Sequence[PlacedDescription], int]:
        """Return the descriptions of a document's pictures, and how many pictures could not be described.

        Raises IngestionError if a budget is spent, and UnavailableError while the cache is down.
        """
        if not len(pictures):
            return (), 0
        model, language = collection.settings.pictures.model, collection.settings.lexical.language
        try:
            version = await self._version(model)
        except GroundlineError as error:
            _log.warning("pictures_not_described", reason=error.reason, pictures=len(pictures))
            return (), len(pictures)
        keys = [
            hashlib.sha256(
                json.dumps(["picture", hashlib.sha256(one.data).hexdigest(), language, version]).encode()
            ).digest()
            for one in pictures
        ]
        known = dict(await self._cache.get(keys))
        await self._ask_for_others(pictures, keys, known, collection, payer)
        found = [
            PlacedDescription(one.start, paragraphs, one.edges)
            for one, key in zip(pictures, keys, strict=True)
            if (paragraphs := description_paragraphs(known.get(key, ""), language))
        ]
        return found, sum(key not in known for key in keys)

    def estimate(self, count: int) -> chat_pb2.Usage:
        """Estimate the tokens of describing a number of pictures, none of them known."""
        return chat_pb2.Usage(prompt_tokens=PICTURE_TOKENS * count, output_tokens=DESCRIPTION_TOKENS * count)

    async def _version(self, model: str) -> str:
        describer = self._describer
        if describer is None:
            raise FailedPreconditionError("GENERATOR_NOT_CONFIGURED", "this ingestor has no generator_target")
        return await self._calls.patiently(lambda: describer.describer_version(model=model))

    async def _ask_for_others(
        self,
        pictures: Series[PicturePart],
        keys: Sequence[bytes],
        known: dict[bytes, str],
        collection: StoredCollection,
        payer: Payer,
    ) -> None:
        """Add the descriptions that are not known yet, as long as the model can be asked."""
        failures = 0
        for picture, key in zip(pictures, keys, strict=True):
            if key in known:
                continue
            await payer.require_budget()
            try:
                described = await self._described(picture.data, collection, payer)
            except GroundlineError as error:
                failures += 1
                _log.warning("picture_not_described", reason=error.reason)
                if error.code != Code.INTERNAL or failures == FAILURES:
                    return
                continue
            failures = 0
            known[key] = described.description
            await self._cache.put({key: described.description})
            await payer.spend(described.usage)

    async def _described(
        self, picture: bytes, collection: StoredCollection, payer: Payer
    ) -> DescribedPicture:
        describer, settings = self._describer, collection.settings
        assert describer is not None, "its version was asked for"

        async def attempt() -> DescribedPicture:
            try:
                return await describer.describe(
                    picture, language=settings.lexical.language, model=settings.pictures.model
                )
            except GroundlineError as error:
                if (paid := usage_of(error)) != chat_pb2.Usage():
                    await payer.spend(paid)
                raise

        return await self._calls.patiently(attempt)
