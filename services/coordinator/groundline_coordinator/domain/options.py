"""Options of a request over the defaults and within the limits of its collections."""

from collections.abc import Iterator, Sequence

from groundline.v1 import collection_pb2, options_pb2
from groundline_runtime.errors import FieldViolation, InvalidArgumentError
from groundline_validation import violations_of

from groundline_coordinator.domain.turns import Inquiry, ReadableCollection, Scope

__all__ = ["scope_of"]


def scope_of(
    inquiry: Inquiry, generation: options_pb2.GenerationOptions, collections: Sequence[ReadableCollection]
) -> Scope:
    """The scope of a request, whose collections were found.

    Defaults of several collections could contradict each other, so they count for a single one only; limits
    count for each. Raises InvalidArgumentError for what is beyond a limit, and for options that are right by
    themselves and wrong together with the collection's defaults.
    """
    beyond = [
        FieldViolation(f"options.{path}", f"{description} in collection {collection.collection_id}")
        for collection in collections
        for path, description in _excesses(collection.settings.generation_limits, inquiry.rerank, generation)
    ]
    rerank, answering = options_pb2.RerankOptions(), options_pb2.GenerationOptions()
    if len(collections) == 1:
        [collection] = collections
        rerank.CopyFrom(collection.settings.rerank)
        answering.CopyFrom(collection.settings.generation)
    rerank.MergeFrom(inquiry.rerank)
    answering.MergeFrom(generation)
    beyond += [
        FieldViolation(violation.field, f"{violation.description} (with the collection's defaults)")
        for violation in violations_of(rerank, "options.rerank")
    ]
    if beyond:
        raise InvalidArgumentError(beyond)
    versions = {each.collection_id: each.version for each in collections} if inquiry.collection_ids else {}
    return Scope(versions, not collections, rerank, answering)


def _excesses(
    limits: collection_pb2.GenerationLimits,
    rerank: options_pb2.RerankOptions,
    generation: options_pb2.GenerationOptions,
) -> Iterator[tuple[str, str]]:
    """Path within the request's options, and description, of each value that is beyond a limit."""
    if limits.models and generation.HasField("model") and generation.model not in limits.models:
        yield "generation.model", f"must be one of {', '.join(limits.models)}"
    if limits.HasField("max_temperature") and generation.temperature > limits.max_temperature:
        yield "generation.temperature", f"must be at most {limits.max_temperature:g}"
    if limits.HasField("max_output_tokens") and generation.max_output_tokens > limits.max_output_tokens:
        yield "generation.max_output_tokens", f"must be at most {limits.max_output_tokens}"
    if limits.HasField("max_top_k") and rerank.top_k > limits.max_top_k:
        yield "rerank.top_k", f"must be at most {limits.max_top_k}"
    if (
        limits.HasField("lowest_min_relevance")
        and generation.HasField("min_relevance")
        and generation.min_relevance < limits.lowest_min_relevance
    ):
        yield "generation.min_relevance", f"must be at least {limits.lowest_min_relevance:g}"
    if limits.fixed_prompt:
        for name in ("system_prompt", "prompt_template"):
            if generation.HasField(name):
                yield f"generation.{name}", "cannot be changed"
