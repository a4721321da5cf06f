"""Rules between the fields of one message, which limits on single fields cannot state.

They hold wherever the message occurs: what is refused in a request is refused as a collection's default too.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from string import Formatter
from typing import Any, Final
from urllib.parse import urlsplit

from google.protobuf.message import Message
from groundline.v1 import (
    collection_pb2,
    collector_service_pb2,
    coordinator_service_pb2,
    document_pb2,
    generator_service_pb2,
    ingestor_service_pb2,
    options_pb2,
    reranker_service_pb2,
    retriever_service_pb2,
    source_pb2,
    table_pb2,
    thread_pb2,
)
from groundline_contracts import default_of
from groundline_filters import FilterError, parse_facet

from groundline_validation.addresses import page_address

_CHUNK_SIZE: Final[int] = default_of(collection_pb2.ChunkingSettings, "chunk_size")
_CHILD_SIZE: Final = 400
"""Default of chunk_size if chunks have parents."""

MAX_NAMED_CANDIDATES: Final = 50
"""Maximum number of wrong candidates that are named: 10,000 of them get no 10,000 violations."""

_ONE_INDEX: Final = "must not be set together with options.retrieval.index"

type Rule = Callable[[Any], Iterable[tuple[str, str]]]
"""Yields the name of a wrong field of the message, or "" for the message, and what is wrong with it.

Its docstring says in the reference of the API what must hold."""

_RULES: Final[dict[str, list[Rule]]] = defaultdict(list)


def rule(message: type[Message]) -> Callable[[Rule], Rule]:
    """Register a rule for every message of a type; use it while modules are imported, before any check."""

    def register(function: Rule) -> Rule:
        _RULES[message.DESCRIPTOR.full_name].append(function)
        return function

    return register


def rules_of(full_name: str) -> Sequence[Rule]:
    """Return the rules for the messages of a type."""
    return tuple(_RULES.get(full_name, ()))


@rule(options_pb2.RerankOptions)
def _an_arm_counts(options: options_pb2.RerankOptions) -> Iterable[tuple[str, str]]:
    """keyword_weight and semantic_weight must not both be 0."""
    weights = ("keyword_weight", "semantic_weight")
    if all(options.HasField(name) and getattr(options, name) == 0 for name in weights):  # type: ignore[arg-type]
        yield "semantic_weight", "must not be 0 together with keyword_weight"


@rule(collection_pb2.HistorySettings)
def _a_searchable_past_is_complete(history: collection_pb2.HistorySettings) -> Iterable[tuple[str, str]]:
    """searchable needs days or everything."""
    if history.searchable and not history.days and not history.everything:
        yield "searchable", "needs days or everything: a past with gaps cannot be searched"


@rule(collection_pb2.Calibration)
def _calibration_rises(calibration: collection_pb2.Calibration) -> Iterable[tuple[str, str]]:
    """points must have a rising confidence, and a probability that never falls."""
    for index, (before, point) in enumerate(pairwise(calibration.points), 1):
        if point.confidence <= before.confidence:
            yield f"points[{index}].confidence", "must be above the one before"
        if point.probability < before.probability:
            yield f"points[{index}].probability", "must not be below the one before"


@rule(thread_pb2.Feedback)
def _feedback_is_of_one_kind(feedback: thread_pb2.Feedback) -> Iterable[tuple[str, str]]:
    """problem needs a bad rating, comment any."""
    if feedback.problem and feedback.rating != thread_pb2.Feedback.RATING_BAD:
        yield "problem", "needs RATING_BAD"
    if feedback.comment and not feedback.rating:
        yield "comment", "needs a rating"


@rule(retriever_service_pb2.SearchRequest)
def _facets_are_fields(request: retriever_service_pb2.SearchRequest) -> Iterable[tuple[str, str]]:
    """facets must be paths of metadata, "$collection_id", "$source_type" or "$mime_type"."""
    for index, field in enumerate(request.facets):
        try:
            parse_facet(field)
        except FilterError as error:
            yield f"facets[{index}]", error.problems[0].description


@rule(coordinator_service_pb2.ChatRequest)
@rule(coordinator_service_pb2.AnswerRequest)
@rule(coordinator_service_pb2.VerifyRequest)
def _the_past_has_one_index(
    request: coordinator_service_pb2.ChatRequest
    | coordinator_service_pb2.AnswerRequest
    | coordinator_service_pb2.VerifyRequest,
) -> Iterable[tuple[str, str]]:
    """as_of must not be set together with options.retrieval.index."""
    if request.HasField("as_of") and request.options.retrieval.index:
        yield "as_of", _ONE_INDEX


@rule(retriever_service_pb2.SearchRequest)
def _the_past_is_not_counted(request: retriever_service_pb2.SearchRequest) -> Iterable[tuple[str, str]]:
    """as_of must not be set together with facets or options.retrieval.index."""
    if request.HasField("as_of"):
        if request.facets:
            yield "as_of", "must not be set together with facets, which count the documents of now"
        if request.options.retrieval.index:
            yield "as_of", _ONE_INDEX


@rule(retriever_service_pb2.QueryTablesRequest)
def _a_table_is_asked_something(
    request: retriever_service_pb2.QueryTablesRequest,
) -> Iterable[tuple[str, str]]:
    """question must be set unless there is a plan or a document whose tables are listed."""
    if not (request.question.strip() or request.HasField("plan") or request.document_id):
        yield "question", "must be set, or plan, or document_id"


@rule(table_pb2.TablePlan)
def _a_plan_computes_or_selects(plan: table_pb2.TablePlan) -> Iterable[tuple[str, str]]:
    """function_column and group_by need a function; every function but TABLE_FUNCTION_COUNT needs a
    function_column; columns must be empty with a function."""
    if not plan.function:
        for name in ("function_column", "group_by"):
            if plan.HasField(name):
                yield name, "needs a function"
    elif plan.columns:
        yield "columns", "must be empty with a function"
    if plan.function > table_pb2.TABLE_FUNCTION_COUNT and not plan.HasField("function_column"):
        yield "function_column", "must be set for this function"


@rule(ingestor_service_pb2.RunSourceRequest)
def _a_dry_run_forgets_nothing(request: ingestor_service_pb2.RunSourceRequest) -> Iterable[tuple[str, str]]:
    """dry_run must not be set together with full."""
    if request.dry_run and request.full:
        yield "dry_run", "must not be set together with full"


def default_chunk_size(strategy: collection_pb2.ChunkingStrategy.ValueType) -> int:
    """Return the chunk size of a collection that sets none, in its unit."""
    return _CHILD_SIZE if strategy == collection_pb2.CHUNKING_STRATEGY_PARENT_CHILD else _CHUNK_SIZE


@rule(collection_pb2.ChunkingSettings)
def _chunking_sizes_agree(settings: collection_pb2.ChunkingSettings) -> Iterable[tuple[str, str]]:
    """chunk_overlap must be less than half of chunk_size, and parent_size no less than chunk_size where the
    strategy is CHUNKING_STRATEGY_PARENT_CHILD."""
    size = settings.chunk_size if settings.HasField("chunk_size") else default_chunk_size(settings.strategy)
    if settings.HasField("chunk_overlap") and settings.chunk_overlap * 2 >= size:
        yield "chunk_overlap", f"must be less than half of chunk_size, which is {size}"
    has_parents = settings.strategy == collection_pb2.CHUNKING_STRATEGY_PARENT_CHILD
    if has_parents and settings.HasField("parent_size") and settings.parent_size < size:
        yield "parent_size", f"must be at least chunk_size, which is {size}"


@rule(collection_pb2.Webhook)
def _is_told_over_http(webhook: collection_pb2.Webhook) -> Iterable[tuple[str, str]]:
    """url must be an https or http URL without credentials."""
    if not _is_web_address(webhook.url):
        yield "url", "must be an https or http URL without credentials"


@rule(collection_pb2.CollectionSettings)
def _webhooks_are_told_once(settings: collection_pb2.CollectionSettings) -> Iterable[tuple[str, str]]:
    """Each of webhooks must have a url of its own."""
    seen: set[str] = set()
    for index, webhook in enumerate(settings.webhooks[:100]):
        if webhook.url in seen:
            yield f"webhooks[{index}].url", "is not unique"
        seen.add(webhook.url)


@rule(collection_pb2.CollectionSettings)
def _requests_choose_the_index(settings: collection_pb2.CollectionSettings) -> Iterable[tuple[str, str]]:
    """retrieval.index must not be set: requests choose it."""
    if settings.retrieval.index:
        yield "retrieval.index", "must not be set: requests choose it"


@rule(coordinator_service_pb2.ChatRequest)
@rule(coordinator_service_pb2.AnswerRequest)
def _a_replay_is_stored(
    request: coordinator_service_pb2.ChatRequest | coordinator_service_pb2.AnswerRequest,
) -> Iterable[tuple[str, str]]:
    """request_id must not be given where store is false."""
    if request.request_id and request.HasField("store") and not request.store:
        yield "request_id", "must not be given where store is false: nothing is kept that could be replayed"


@rule(document_pb2.DocumentInput)
def _has_content(document: document_pb2.DocumentInput) -> Iterable[tuple[str, str]]:
    """One of text, data and object must be set."""
    if document.WhichOneof("content") is None:
        yield "", "needs one of text, data and object"


@rule(ingestor_service_pb2.IngestDocumentsRequest)
def _documents_or_a_crawl(
    request: ingestor_service_pb2.IngestDocumentsRequest,
) -> Iterable[tuple[str, str]]:
    """There must be documents or a crawl, not both."""
    if request.HasField("crawl"):
        if request.documents:
            yield "crawl", "excludes documents"
    elif not request.documents:
        yield "documents", "must have 1 to 1000 entries, has 0"


@rule(ingestor_service_pb2.WebCrawl)
def _addresses_and_patterns(crawl: ingestor_service_pb2.WebCrawl) -> Iterable[tuple[str, str]]:
    """start_url must be an http or https URL without credentials; paths must begin with "/" or "*"."""
    if not _is_web_address(crawl.start_url):
        yield "start_url", "must be an http or https URL without credentials"
    for name in ("include_paths", "exclude_paths"):
        for index, pattern in enumerate(getattr(crawl, name)[:100]):
            if not pattern.startswith(("/", "*")):
                yield f"{name}[{index}]", 'must begin with "/" or "*"'


@rule(collector_service_pb2.CollectStart)
@rule(collector_service_pb2.CheckSourceRequest)
@rule(ingestor_service_pb2.CreateSourceRequest)
def _has_a_source(
    request: collector_service_pb2.CollectStart
    | collector_service_pb2.CheckSourceRequest
    | ingestor_service_pb2.CreateSourceRequest,
) -> Iterable[tuple[str, str]]:
    """source must be set."""
    if not request.HasField("source"):
        yield "source", "must be set"


@rule(source_pb2.DocumentSource)
def _has_a_kind(source: source_pb2.DocumentSource) -> Iterable[tuple[str, str]]:
    """One of directory, s3, git, postgres, web, feed, imap, mbox and plugin must be set; the paths of a web
    site and of a feed must begin with "/" or "*"; a web site must have no uri_prefix, and a feed none but an
    http or https URL."""
    if source.WhichOneof("kind") is None:
        yield "", "needs one of directory, s3, git, postgres, web, feed, imap, mbox and plugin"
    if source.HasField("web") and source.uri_prefix:
        yield "uri_prefix", "must not be set for a web site"
    if source.HasField("feed") and source.uri_prefix and not _is_web_address(source.uri_prefix):
        yield "uri_prefix", "must be an http or https URL without credentials for a feed"
    if source.WhichOneof("kind") in ("web", "feed"):
        for name in ("include_paths", "exclude_paths"):
            for index, pattern in enumerate(getattr(source, name)[:100]):
                if not pattern.startswith(("/", "*")):
                    yield f"{name}[{index}]", 'must begin with "/" or "*"'


@rule(source_pb2.WebSource)
def _starts_at_a_page(web: source_pb2.WebSource) -> Iterable[tuple[str, str]]:
    """start_url must be an http or https URL without credentials."""
    if not _is_web_address(web.start_url):
        yield "start_url", "must be an http or https URL without credentials"


@rule(source_pb2.FeedSource)
def _is_fetched_over_http(feed: source_pb2.FeedSource) -> Iterable[tuple[str, str]]:
    """url must be an http or https URL without credentials; username and password_secret must be set, or
    neither."""
    if not _is_web_address(feed.url):
        yield "url", "must be an http or https URL without credentials"
    if bool(feed.username) != bool(feed.password_secret):
        yield "password_secret", "must be set together with username"


@rule(source_pb2.ImapSource)
def _has_a_host(imap: source_pb2.ImapSource) -> Iterable[tuple[str, str]]:
    """host must be a host's name or address alone."""
    if not _HOST.fullmatch(imap.host):
        yield "host", "must be the name or the address of a host, without port"


@rule(source_pb2.GitSource)
def _is_cloned_over_http(git: source_pb2.GitSource) -> Iterable[tuple[str, str]]:
    """url must be an http or https URL without credentials."""
    if not _is_web_address(git.url):
        yield "url", "must be an http or https URL without credentials"


@rule(source_pb2.S3Source)
def _has_an_endpoint(s3: source_pb2.S3Source) -> Iterable[tuple[str, str]]:
    """endpoint_url must be an http or https URL without credentials and path; both keys must be set, or
    neither."""
    if not _is_web_address(s3.endpoint_url) or urlsplit(s3.endpoint_url.strip()).path not in ("", "/"):
        yield "endpoint_url", "must be an http or https URL without credentials and path"
    if bool(s3.access_key_secret) != bool(s3.secret_key_secret):
        yield "secret_key_secret", "must be set together with access_key_secret"


@rule(source_pb2.PostgresSource)
def _has_a_template(postgres: source_pb2.PostgresSource) -> Iterable[tuple[str, str]]:
    """text_template must name columns in braces, without conversion and format."""
    try:
        fields = list(Formatter().parse(postgres.text_template))
    except ValueError:
        yield "text_template", "has a brace that is not closed, or not opened; {{ and }} stand for braces"
        return
    if any(name is not None and (not name or form or conversion) for _, name, form, conversion in fields):
        yield "text_template", "must name columns in braces, without conversion and format"


# A name or an IPv4 address, or an IPv6 address.
_HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|[0-9a-fA-F:]*:[0-9a-fA-F:.]*")


def _is_web_address(text: str) -> bool:
    return page_address(text) is not None


@rule(generator_service_pb2.ContextualizeChunksRequest)
def _chunks_have_a_document(
    request: generator_service_pb2.ContextualizeChunksRequest,
) -> Iterable[tuple[str, str]]:
    """document_text must not be empty where there are chunk_texts."""
    if request.chunk_texts and not request.document_text.strip():
        yield "document_text", "must not be empty"


@rule(generator_service_pb2.GenerateRequest)
@rule(generator_service_pb2.JudgeRelevanceRequest)
@rule(generator_service_pb2.JudgeClaimsRequest)
def _numbers_are_set_and_unique(request: Any) -> Iterable[tuple[str, str]]:
    """Each passage must have a number, and no other passage that number."""
    seen: set[int] = set()
    for index, passage in enumerate(request.passages):
        if not passage.number:
            yield f"passages[{index}].number", "must be set"
        elif passage.number in seen:
            yield f"passages[{index}].number", "is not unique"
        seen.add(passage.number)


@rule(reranker_service_pb2.RerankRequest)
def _candidates_are_named_once(request: reranker_service_pb2.RerankRequest) -> Iterable[tuple[str, str]]:
    """Each of candidates must have a chunk_id of its own, of 1 to 200 characters, and `lists` must name
    candidates alone."""
    yield from islice(_wrong_candidates(request), MAX_NAMED_CANDIDATES)
    known = {chunk.chunk_id for chunk in request.candidates}
    for index, ranked in enumerate(request.lists):
        if missing := set(ranked.chunk_ids) - known:
            yield f"lists[{index}].chunk_ids", f"must be candidates; {len(missing)} are not"


def _wrong_candidates(request: reranker_service_pb2.RerankRequest) -> Iterator[tuple[str, str]]:
    known: set[str] = set()
    for index, chunk in enumerate(request.candidates):
        if not 1 <= len(chunk.chunk_id) <= 200:
            yield f"candidates[{index}].chunk_id", "must be 1 to 200 characters"
        elif chunk.chunk_id in known:
            yield f"candidates[{index}].chunk_id", "is not unique"
        known.add(chunk.chunk_id)


@rule(reranker_service_pb2.RankedList)
def _columns_of_a_list_match(ranked: reranker_service_pb2.RankedList) -> Iterable[tuple[str, str]]:
    """`scores` must have an entry for each of `chunk_ids`, and each candidate must be there once."""
    if len(ranked.scores) != len(ranked.chunk_ids):
        yield "scores", f"must have as many entries as chunk_ids, which has {len(ranked.chunk_ids)}"
    if len(set(ranked.chunk_ids)) != len(ranked.chunk_ids):
        yield "chunk_ids", "must have each candidate once"
