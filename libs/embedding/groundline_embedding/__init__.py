"""The Embedder port of Groundline and its providers.

Retriever and ingestor both take their embedder from here, so that a query and the chunks it is compared
with always come from the same code.
"""

from groundline_embedding.agreement import require_agreement
from groundline_embedding.embedders import Embedders
from groundline_embedding.errors import ModelError
from groundline_embedding.factory import create_embedder, create_embedders, prepare_model
from groundline_embedding.local.catalog import keyword_weight, knows_many_languages, similarity_floor
from groundline_embedding.ports import Embedder
from groundline_embedding.settings import EmbeddingSettings

__all__ = [
    "Embedder",
    "Embedders",
    "EmbeddingSettings",
    "ModelError",
    "create_embedder",
    "create_embedders",
    "keyword_weight",
    "knows_many_languages",
    "prepare_model",
    "require_agreement",
    "similarity_floor",
]
