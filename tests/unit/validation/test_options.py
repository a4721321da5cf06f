"""Options of a search over the defaults and within the limits of its collections."""

from groundline.v1 import collection_pb2, options_pb2
from groundline_validation import options_of

Options = options_pb2.RerankOptions


def settings(**fields: object) -> collection_pb2.CollectionSettings:
    return collection_pb2.CollectionSettings(**fields)  # type: ignore[arg-type]


def test_given_options_win_within_messages_too() -> None:
    weights = options_pb2.RerankWeights(vector=1.0, position=0.5)
    defaults = settings(rerank=Options(top_k=3, weights=weights))
    given = Options(weights=options_pb2.RerankWeights(vector=0.0))
    merged = Options(top_k=3, weights=options_pb2.RerankWeights(vector=0.0, position=0.5))
    assert options_of(given, {"docs": defaults}) == (merged, [])


def test_several_collections_give_no_defaults_but_each_its_limits() -> None:
    one = settings(rerank=Options(top_k=1))
    limits = collection_pb2.GenerationLimits(max_top_k=5)
    strict = settings(rerank=Options(top_k=2), generation_limits=limits)
    assert options_of(Options(), {"one": one, "strict": strict}) == (Options(), [])
    _, [violation] = options_of(Options(top_k=6), {"one": one, "strict": strict})
    assert violation.field == "options.rerank.top_k"
    assert violation.description == "must be at most 5 in collection strict"


def test_options_that_are_wrong_with_a_collections_defaults_are_named() -> None:
    defaults = settings(rerank=Options(semantic_weight=0.0))
    _, [violation] = options_of(Options(keyword_weight=0.0), {"docs": defaults})
    assert violation.field == "options.rerank.semantic_weight"
    assert violation.description.endswith("(with the collection's defaults)")
