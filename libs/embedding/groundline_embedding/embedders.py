"""The embedding models that run in one process."""

from collections.abc import Iterator, Sequence

from groundline_embedding.local.catalog import ENGLISH, find_model, knows_many_languages
from groundline_embedding.ports import Embedder


class Embedders:
    """Embedders by the names of their models; the first is the default of new collections."""

    def __init__(self, embedders: Sequence[Embedder]) -> None:
        """Take at least one, each of another model."""
        self.default = embedders[0]
        self._by_model = {embedder.model: embedder for embedder in embedders}

    @property
    def models(self) -> Sequence[str]:
        """Names of the models, the default's first."""
        return list(self._by_model)

    def of(self, model: str, dimensions: int = 0) -> Embedder | None:
        """Return a model's embedder, or None if it does not run, or has vectors of another length than one
        that is given."""
        embedder = self._by_model.get(model)
        return embedder if embedder and dimensions in (0, embedder.dimensions) else None

    def for_language(self, language: str) -> Embedder:
        """Return the embedder for new collections of a language by its English name: the default, or one of
        many languages where the default knows English alone. It does for "simple", which names none."""
        if language in ("english", "simple") or not _knows_english_alone(self.default):
            return self.default
        return next((each for each in self if knows_many_languages(each.model)), self.default)

    def __iter__(self) -> Iterator[Embedder]:
        return iter(self._by_model.values())


def _knows_english_alone(embedder: Embedder) -> bool:
    known = find_model(embedder.model)
    return known is not None and known.languages == ENGLISH
