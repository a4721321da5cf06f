"""Options of a search over the defaults and within the limits of its collections."""

from collections.abc import Mapping

from groundline.v1 import collection_pb2, options_pb2
from groundline_runtime.errors import FieldViolation

from groundline_validation.walker import violations_of


def options_of(
    given: options_pb2.RerankOptions, collections: Mapping[str, collection_pb2.CollectionSettings]
) -> tuple[options_pb2.RerankOptions, list[FieldViolation]]:
    """Return the options of a search of these collections, and what is wrong with them, by the fields of a
    request.

    Defaults of several collections could contradict each other, so they count for a single one only;
    limits count for each. Options that are right by themselves may be wrong together with the collection's
    defaults.
    """
    violations = [
        FieldViolation(
            "options.rerank.top_k",
            f"must be at most {settings.generation_limits.max_top_k} in collection {collection_id}",
        )
        for collection_id, settings in collections.items()
        if settings.generation_limits.HasField("max_top_k")
        and given.top_k > settings.generation_limits.max_top_k
    ]
    if len(collections) != 1:
        return given, violations
    [settings] = collections.values()
    if not settings.rerank.ByteSize():  # what is given has been checked by itself
        return given, violations
    options = options_pb2.RerankOptions()
    options.CopyFrom(settings.rerank)
    options.MergeFrom(given)
    violations += [
        FieldViolation(violation.field, f"{violation.description} (with the collection's defaults)")
        for violation in violations_of(options, "options.rerank")
    ]
    return options, violations
