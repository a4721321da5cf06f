"""Rules between the fields of one message, which limits on single fields cannot state.

They hold wherever the message occurs: what is refused in a request is refused as a collection's default too.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from string import Formatter
from typing import Any, Final
from urllib.parse import urlsplit

from google.protobuf.message import Message
from groundline.v1 import (
    candidate_pb2,
    collection_pb2,
    coordinator_service_pb2,
    document_pb2,
    generator_service_pb2,
    ingestor_service_pb2,
    options_pb2,
    retriever_service_pb2,
    source_pb2,
)
from groundline_signatures import SIGNATURE_BYTES

__all__ = ["DEFAULT_CHUNK_OVERLAP", "DEFAULT_PARENT_SIZE", "default_chunk_size", "rule", "rules_of"]

DEFAULT_CHUNK_OVERLAP = 200
"""Units that a chunk shares with the one before, where a collection does not set them."""
DEFAULT_PARENT_SIZE = 2000

type Rule = Callable[[Any], Iterable[tuple[str, str]]]
"""Yields the name of a wrong field of the message, or "" for the message, and what is wrong with it.

Its docstring says in the reference of the API what must hold."""

_RULES: dict[str, list[Rule]] = defaultdict(list)


def rule(message: type[Message]) -> Callable[[Rule], Rule]:
    """Registers a rule for every message of a type; use it while modules are imported, before any check."""

    def register(function: Rule) -> Rule:
        _RULES[message.DESCRIPTOR.full_name].append(function)
        return function

    return register


def rules_of(full_name: str) -> Sequence[Rule]:
    """The rules for the messages of a type."""
    return tuple(_RULES.get(full_name, ()))


@rule(options_pb2.RerankOptions)
def _an_arm_counts(options: options_pb2.RerankOptions) -> Iterable[tuple[str, str]]:
    """keyword_weight and semantic_weight must not both be 0."""
    weights = ("keyword_weight", "semantic_weight")
    if all(options.HasField(name) and getattr(options, name) == 0 for name in weights):  # type: ignore[arg-type]
        yield "semantic_weight", "must not be 0 together with keyword_weight"


@rule(retriever_service_pb2.Ranking)
def _ranks_without_a_model(ranking: retriever_service_pb2.Ranking) -> Iterable[tuple[str, str]]:
    """options.strategy must be RERANK_STRATEGY_NONE, RERANK_STRATEGY_WEIGHTED or not set."""
    if ranking.options.strategy > options_pb2.RERANK_STRATEGY_WEIGHTED:
        yield "options.strategy", "must not ask a model"


@rule(ingestor_service_pb2.RunSourceRequest)
def _a_dry_run_forgets_nothing(request: ingestor_service_pb2.RunSourceRequest) -> Iterable[tuple[str, str]]:
    """dry_run must not be set together with full."""
    if request.dry_run and request.full:
        yield "dry_run", "must not be set together with full"


def default_chunk_size(strategy: collection_pb2.ChunkingStrategy.ValueType) -> int:
    """Units of a chunk, where a collection does not set them."""
    return 400 if strategy == collection_pb2.CHUNKING_STRATEGY_PARENT_CHILD else 2000


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


@rule(ingestor_service_pb2.CreateSourceRequest)
def _has_a_source(request: ingestor_service_pb2.CreateSourceRequest) -> Iterable[tuple[str, str]]:
    """source must be set."""
    if not request.HasField("source"):
        yield "source", "must be set"


@rule(source_pb2.DocumentSource)
def _has_a_kind(source: source_pb2.DocumentSource) -> Iterable[tuple[str, str]]:
    """One of directory, s3, git, postgres, web, feed, imap and mbox must be set; the paths of a web site and
    of a feed must begin with "/" or "*", and they must have no uri_prefix."""
    if source.WhichOneof("kind") is None:
        yield "", "needs one of directory, s3, git, postgres, web, feed, imap and mbox"
    if source.WhichOneof("kind") in ("web", "feed"):
        if source.uri_prefix:
            yield "uri_prefix", "must not be set for a web site or a feed"
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
    try:
        parts = urlsplit(text.strip())
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
    except ValueError:
        return False


@rule(generator_service_pb2.ContextualizeChunksRequest)
def _chunks_have_a_document(
    request: generator_service_pb2.ContextualizeChunksRequest,
) -> Iterable[tuple[str, str]]:
    """document_text must not be empty where there are chunk_texts."""
    if request.chunk_texts and not request.document_text.strip():
        yield "document_text", "must not be empty"


@rule(generator_service_pb2.GenerateRequest)
@rule(generator_service_pb2.JudgeRelevanceRequest)
@rule(generator_service_pb2.JudgeFaithfulnessRequest)
def _numbers_are_set_and_unique(request: Any) -> Iterable[tuple[str, str]]:
    """Each passage must have a number, and no other passage that number."""
    seen: set[int] = set()
    for index, passage in enumerate(request.passages):
        if not passage.number:
            yield f"passages[{index}].number", "must be set"
        elif passage.number in seen:
            yield f"passages[{index}].number", "is not unique"
        seen.add(passage.number)


@rule(candidate_pb2.RankedList)
def _columns_of_a_list_match(ranked: candidate_pb2.RankedList) -> Iterable[tuple[str, str]]:
    """`scores` has an entry for each of `chunk_ids`, and no chunk is there twice."""
    if len(ranked.scores) != len(ranked.chunk_ids):
        yield "scores", f"must have as many entries as chunk_ids, which has {len(ranked.chunk_ids)}"
    if len(set(ranked.chunk_ids[:])) != len(ranked.chunk_ids):
        yield "chunk_ids", "must have each chunk once"


@rule(candidate_pb2.CandidateFeatures)
def _columns_of_features_match(features: candidate_pb2.CandidateFeatures) -> Iterable[tuple[str, str]]:
    """Every column has an entry for each of `chunk_ids`, and no chunk is there twice."""
    count = len(features.chunk_ids)
    if len(set(features.chunk_ids[:])) != count:
        yield "chunk_ids", "must have each chunk once"
    for name in ("collections", "chunk_indexes", "update_seconds", "source_types"):
        if len(getattr(features, name)) != count:
            yield name, f"must have as many entries as chunk_ids, which has {count}"
    if len(features.signatures) != count * SIGNATURE_BYTES:
        yield "signatures", f"must have {SIGNATURE_BYTES} bytes for each of chunk_ids, which has {count}"
    if features.collections and max(features.collections[:]) >= len(features.collection_ids):
        yield "collections", f"must be positions in collection_ids, which has {len(features.collection_ids)}"


@rule(candidate_pb2.CandidateSet)
def _listed_chunks_have_features(each: candidate_pb2.CandidateSet) -> Iterable[tuple[str, str]]:
    """`features` tells of every chunk in `lists`."""
    listed = set().union(*(ranked.chunk_ids[:] for ranked in each.lists))
    if missing := listed.difference(each.features.chunk_ids[:]):
        yield "features.chunk_ids", f"must have every chunk of the lists; {len(missing)} are missing"
