"""Options of a request over the defaults and within the limits of its collections."""

from collections.abc import Iterator, Sequence

from groundline.v1 import collection_pb2, options_pb2
from groundline_runtime.errors import FieldViolation, InvalidArgumentError
from groundline_validation import options_of

from groundline_coordinator.domain.turns import Inquiry, Plan, ReadableCollection


def plan_of(
    inquiry: Inquiry, generation: options_pb2.GenerationOptions, collections: Sequence[ReadableCollection]
) -> Plan:
    """Return the plan of a request, whose collections were found.

    Defaults of several collections could contradict each other, so they count for a single one only; limits
    count for each. Raises InvalidArgumentError for what is beyond a limit, and for options that are right by
    themselves and wrong together with the collection's defaults.
    """
    settings = {collection.collection_id: collection.settings for collection in collections}
    beyond = [
        FieldViolation(f"options.generation.{name}", f"{description} in collection {collection_id}")
        for collection_id, each in settings.items()
        for name, description in _excesses(each.generation_limits, generation)
    ]
    # The retriever reports the same for a search; reported here, it comes before anything has begun.
    beyond += options_of(inquiry.rerank, settings)[1]
    if beyond:
        raise InvalidArgumentError(beyond)
    alone = collections[0].settings if len(collections) == 1 else collection_pb2.CollectionSettings()
    answering = options_pb2.GenerationOptions()
    answering.CopyFrom(alone.generation)
    answering.MergeFrom(generation)
    return Plan(not collections, answering, alone.calibration)


def _excesses(
    limits: collection_pb2.GenerationLimits,
    generation: options_pb2.GenerationOptions,
) -> Iterator[tuple[str, str]]:
    """Yield the name and a description of each option that is beyond a limit."""
    if limits.models and generation.HasField("model") and generation.model not in limits.models:
        yield "model", f"must be one of {', '.join(limits.models)}"
    if limits.HasField("max_temperature") and generation.temperature > limits.max_temperature:
        yield "temperature", f"must be at most {limits.max_temperature:g}"
    if limits.HasField("max_output_tokens") and generation.max_output_tokens > limits.max_output_tokens:
        yield "max_output_tokens", f"must be at most {limits.max_output_tokens}"
    if (
        limits.HasField("lowest_min_relevance")
        and generation.HasField("min_relevance")
        and generation.min_relevance < limits.lowest_min_relevance
    ):
        yield "min_relevance", f"must be at least {limits.lowest_min_relevance:g}"
    if limits.fixed_prompt:
        for name in ("system_prompt", "prompt_template"):
            if generation.HasField(name):
                yield name, "cannot be changed"
