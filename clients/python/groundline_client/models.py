"""Messages of the gateway's API.

Made from protos/groundline/v1 by `make generate`; do not edit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from groundline_client.open_enum import OpenEnum


class ErrorReason(OpenEnum):
    """Why something failed, was left out or was degraded: the `reason` of google.rpc.ErrorInfo (domain
    "groundline.dev"), of degradations, of documents that could not be ingested, and of what validation found
    in an answer.

    The values have no prefix, as in google.api.ErrorReason, because `reason` is spelled like them.
    """

    UNSPECIFIED = "ERROR_REASON_UNSPECIFIED"
    """Not known."""
    INVALID_REQUEST = "INVALID_REQUEST"
    """A field is wrong; the violations name every one."""
    INVALID_PRINCIPALS = "INVALID_PRINCIPALS"
    """The principals that came with the call cannot be read."""
    MALFORMED_REQUEST = "MALFORMED_REQUEST"
    """The request is not JSON, or cannot be decoded."""
    REQUEST_REFUSED = "REQUEST_REFUSED"
    """The gateway cannot serve the request."""
    ROUTE_NOT_FOUND = "ROUTE_NOT_FOUND"
    """There is nothing at this address for this method."""
    BODY_TOO_LARGE = "BODY_TOO_LARGE"
    """The body is larger than the limit for this address."""
    HEADERS_TOO_LARGE = "HEADERS_TOO_LARGE"
    """The headers are too large."""
    REQUEST_TIMEOUT = "REQUEST_TIMEOUT"
    """The request did not arrive in time."""
    API_KEY_INVALID = "API_KEY_INVALID"
    """The API key is missing or wrong."""
    CALLER_UNKNOWN = "CALLER_UNKNOWN"
    """The caller could not be identified."""
    RATE_LIMITED = "RATE_LIMITED"
    """Too many requests from this client."""
    OPTION_NOT_AVAILABLE = "OPTION_NOT_AVAILABLE"
    """The option is not available in this release."""
    NOT_IMPLEMENTED = "NOT_IMPLEMENTED"
    """The method is not implemented."""
    REQUEST_ID_REUSED = "REQUEST_ID_REUSED"
    """The request_id came with another request before."""
    REQUEST_ID_USED = "REQUEST_ID_USED"
    """The request_id made another collection before."""
    REQUEST_UNDER_WAY = "REQUEST_UNDER_WAY"
    """A request with this request_id is still under way."""
    DEADLINE_EXCEEDED = "DEADLINE_EXCEEDED"
    """It was not finished in time."""
    INTERNAL = "INTERNAL"
    """An unexpected failure; its error_id is in the service's log."""
    SERVICE_UNAVAILABLE = "SERVICE_UNAVAILABLE"
    """A service that the request needs is not available."""
    COLLECTION_NOT_FOUND = "COLLECTION_NOT_FOUND"
    """No such collection, or none that the caller may read."""
    COLLECTION_EXISTS = "COLLECTION_EXISTS"
    """The collection's id is taken."""
    COLLECTION_NOT_WRITABLE = "COLLECTION_NOT_WRITABLE"
    """The caller may read the collection, but not change it."""
    COLLECTION_CHANGED = "COLLECTION_CHANGED"
    """The collection was deleted or rebuilt meanwhile."""
    DOCUMENT_NOT_FOUND = "DOCUMENT_NOT_FOUND"
    """No such document, or none that the caller may read."""
    DOCUMENT_NOT_WRITABLE = "DOCUMENT_NOT_WRITABLE"
    """The document exists, and the caller may not read it, so it cannot be replaced."""
    JOB_NOT_FOUND = "JOB_NOT_FOUND"
    """No such job."""
    NOTHING_TO_RETRY = "NOTHING_TO_RETRY"
    """The job has no item that can be tried again."""
    REINDEX_REQUIRED = "REINDEX_REQUIRED"
    """The change takes ReindexCollection."""
    REINDEX_RUNNING = "REINDEX_RUNNING"
    """The collection is being indexed again already."""
    EMBEDDING_MODEL_MISMATCH = "EMBEDDING_MODEL_MISMATCH"
    """The collection was embedded with a model that does not run."""
    LEXICAL_BACKEND_MISMATCH = "LEXICAL_BACKEND_MISMATCH"
    """The collection was indexed with another keyword engine than the one running."""
    LEXICAL_INDEX_UNSOUND = "LEXICAL_INDEX_UNSOUND"
    """A keyword index is missing or may lack chunks, and is left out until it is rebuilt."""
    INDEX_BEING_BUILT = "INDEX_BEING_BUILT"
    """The index is being built."""
    THREAD_NOT_FOUND = "THREAD_NOT_FOUND"
    """No such thread of the caller."""
    UNSUPPORTED_TYPE = "UNSUPPORTED_TYPE"
    """No reader for this kind of file."""
    CORRUPT_DOCUMENT = "CORRUPT_DOCUMENT"
    """The file is damaged."""
    ENCRYPTED_DOCUMENT = "ENCRYPTED_DOCUMENT"
    """The file is protected by a password."""
    EMPTY_TEXT = "EMPTY_TEXT"
    """The document holds no text."""
    INVALID_ENCODING = "INVALID_ENCODING"
    """The text is not in the encoding that it should be in."""
    INVALID_TEXT = "INVALID_TEXT"
    """The text holds characters that cannot be stored."""
    INVALID_JSON = "INVALID_JSON"
    """The file is not JSON."""
    INVALID_TABLE = "INVALID_TABLE"
    """The file is not a table."""
    DOCUMENT_TOO_LARGE = "DOCUMENT_TOO_LARGE"
    """The document is larger than the service takes."""
    TOO_MANY_PAGES = "TOO_MANY_PAGES"
    """The document has more pages than the service takes."""
    TOO_MANY_CHUNKS = "TOO_MANY_CHUNKS"
    """The document has more chunks than the service takes."""
    OCR_NOT_AVAILABLE = "OCR_NOT_AVAILABLE"
    """Images cannot be read: the program for it is not installed."""
    OCR_FAILED = "OCR_FAILED"
    """The image could not be read."""
    READER_TIMEOUT = "READER_TIMEOUT"
    """Reading the file took too long."""
    READER_CRASHED = "READER_CRASHED"
    """Reading the file failed, or took too much memory."""
    TEXT_NOT_STORED = "TEXT_NOT_STORED"
    """The document's text is no longer stored; hand it in again."""
    CONTEXTS_INCOMPLETE = "CONTEXTS_INCOMPLETE"
    """The model did not write a context for every chunk."""
    GENERATOR_NOT_CONFIGURED = "GENERATOR_NOT_CONFIGURED"
    """The ingestor knows no generator, which the collection's contexts need."""
    EMBEDDING_MODEL_UNAVAILABLE = "EMBEDDING_MODEL_UNAVAILABLE"
    """The embedding model cannot be used."""
    ATTEMPTS_EXHAUSTED = "ATTEMPTS_EXHAUSTED"
    """It was begun too often without an end."""
    INVALID_URL = "INVALID_URL"
    """The address is not an http or https URL."""
    ADDRESS_NOT_ALLOWED = "ADDRESS_NOT_ALLOWED"
    """The address is not the internet's, and the crawl may not go there."""
    OTHER_HOST = "OTHER_HOST"
    """The page leads to another host."""
    TOO_MANY_REDIRECTS = "TOO_MANY_REDIRECTS"
    """The page redirects too often."""
    INVALID_REDIRECT = "INVALID_REDIRECT"
    """The page redirects to nowhere."""
    HTTP_STATUS = "HTTP_STATUS"
    """The server answered with an error."""
    ROBOTS_DISALLOWED = "ROBOTS_DISALLOWED"
    """robots.txt does not allow the page."""
    PAGE_TOO_LARGE = "PAGE_TOO_LARGE"
    """The page is larger than a crawl takes."""
    CRAWL_TIMEOUT = "CRAWL_TIMEOUT"
    """The page did not come in time."""
    NO_PAGES = "NO_PAGES"
    """The crawl found no page that it could have."""
    SEARCH_INCOMPLETE = "SEARCH_INCOMPLETE"
    """Some of the searches for the question failed."""
    REWRITING_UNAVAILABLE = "REWRITING_UNAVAILABLE"
    """The question could not be rewritten, or what was found for it not be read, by the model."""
    RERANKER_UNAVAILABLE = "RERANKER_UNAVAILABLE"
    """The reranker did not answer."""
    RERANKER_LATE = "RERANKER_LATE"
    """The strategy did not answer in time."""
    STRATEGY_NOT_CONFIGURED = "STRATEGY_NOT_CONFIGURED"
    """The reranker is not set up for the strategy."""
    SCORES_UNUSABLE = "SCORES_UNUSABLE"
    """The model's scores are not one number for each passage."""
    MODEL_NOT_OFFERED = "MODEL_NOT_OFFERED"
    """The model is not the one that is set up."""
    MODEL_NOT_LOADED = "MODEL_NOT_LOADED"
    """The model cannot be loaded."""
    CROSS_ENCODER_NOT_INSTALLED = "CROSS_ENCODER_NOT_INSTALLED"
    """The reranker is installed without cross-encoders."""
    RERANK_API_FAILED = "RERANK_API_FAILED"
    """The rerank API failed."""
    RERANK_API_MALFORMED = "RERANK_API_MALFORMED"
    """The rerank API's answer cannot be read."""
    RERANK_API_QUOTA = "RERANK_API_QUOTA"
    """The rerank API's quota is used up."""
    RERANK_API_REFUSED = "RERANK_API_REFUSED"
    """The rerank API refused the request."""
    RERANK_API_UNREACHABLE = "RERANK_API_UNREACHABLE"
    """The rerank API cannot be reached."""
    MODEL_NOT_AVAILABLE = "MODEL_NOT_AVAILABLE"
    """The language model does not exist, or none is configured."""
    PROMPT_TEMPLATE_NOT_AVAILABLE = "PROMPT_TEMPLATE_NOT_AVAILABLE"
    """The prompt template does not exist."""
    PROMPT_TEMPLATE_INVALID = "PROMPT_TEMPLATE_INVALID"
    """A prompt template cannot be used."""
    GENERATOR_QUOTA_EXHAUSTED = "GENERATOR_QUOTA_EXHAUSTED"
    """The limit on calls of the language model is reached."""
    PROVIDER_UNAVAILABLE = "PROVIDER_UNAVAILABLE"
    """The model's provider is out of reach."""
    PROVIDER_TIMEOUT = "PROVIDER_TIMEOUT"
    """The model's provider did not answer in time."""
    PROVIDER_STREAM_CUT = "PROVIDER_STREAM_CUT"
    """The model's provider broke the answer off."""
    PROVIDER_QUOTA_EXHAUSTED = "PROVIDER_QUOTA_EXHAUSTED"
    """The provider's quota is used up."""
    PROVIDER_REJECTED_REQUEST = "PROVIDER_REJECTED_REQUEST"
    """The provider refused the request."""
    PROVIDER_ACCESS_DENIED = "PROVIDER_ACCESS_DENIED"
    """The provider does not accept the key."""
    PROVIDER_OUTPUT_UNREADABLE = "PROVIDER_OUTPUT_UNREADABLE"
    """The provider's answer cannot be read."""
    MODEL_OUTPUT_INVALID = "MODEL_OUTPUT_INVALID"
    """The model's reply is not what was asked for."""
    MODEL_STREAM_INCOMPLETE = "MODEL_STREAM_INCOMPLETE"
    """The model's answer ended without an end."""
    ANSWER_INCOMPLETE = "ANSWER_INCOMPLETE"
    """The answer ended without a finish reason."""
    ANSWER_TOO_LONG = "ANSWER_TOO_LONG"
    """The answer is longer than can be judged."""
    FINISH_REASON_UNKNOWN = "FINISH_REASON_UNKNOWN"
    """The answer ended for a reason that this release does not know."""
    JUDGEMENT_INCOMPLETE = "JUDGEMENT_INCOMPLETE"
    """The judge did not judge every passage."""
    ANSWER_CUT_OFF = "ANSWER_CUT_OFF"
    """The answer ends at the limit on output tokens."""
    ANSWER_WITHHELD = "ANSWER_WITHHELD"
    """The provider withheld the answer."""
    WITHHELD_FOR_SAFETY = "WITHHELD_FOR_SAFETY"
    """The provider withheld a part for safety."""
    EMPTY_ANSWER = "EMPTY_ANSWER"
    """The model wrote nothing."""
    LOW_RELEVANCE = "LOW_RELEVANCE"
    """No passage is relevant enough to answer from."""
    NO_PASSAGES = "NO_PASSAGES"
    """No passage was found to answer from."""
    NO_SUPPORTING_PASSAGE = "NO_SUPPORTING_PASSAGE"
    """No passage supports an answer."""
    UNCITED_SENTENCE = "UNCITED_SENTENCE"
    """A sentence carries no citation."""
    UNSUPPORTED_SENTENCE = "UNSUPPORTED_SENTENCE"
    """A sentence is not supported by the passages that it cites."""
    NUMBER_NOT_SUPPORTED = "NUMBER_NOT_SUPPORTED"
    """A sentence has a number, or a number with a unit, that the passages that it cites do not have or have
    of something else."""
    NAME_NOT_SUPPORTED = "NAME_NOT_SUPPORTED"
    """A sentence names something, such as a person, a place or a model, that the passages that it cites do
    not name."""
    CONTRADICTED_SENTENCE = "CONTRADICTED_SENTENCE"
    """A sentence denies what the passages that it cites say, or says what they deny."""
    SOURCES_DISAGREE = "SOURCES_DISAGREE"
    """Two documents answer the question differently: with another number, or with a negation. The message
    names both."""
    SUSPECTED_PROMPT_INJECTION = "SUSPECTED_PROMPT_INJECTION"
    """A cited source has text that looks like instructions to an assistant: it may have been written to
    mislead it."""
    ANSWER_IN_OTHER_LANGUAGE = "ANSWER_IN_OTHER_LANGUAGE"
    """The answer is in another language than the question."""
    SENTENCE_CORRECTED = "SENTENCE_CORRECTED"
    """The passages contradicted a sentence, and another stands in its place."""
    SENTENCE_WITHDRAWN = "SENTENCE_WITHDRAWN"
    """The passages contradicted a sentence, and it was taken back."""
    ANSWER_CORRECTED = "ANSWER_CORRECTED"
    """The answer was corrected after it was sent."""
    CORRECTION_UNAVAILABLE = "CORRECTION_UNAVAILABLE"
    """The model did not correct the answer in time, or failed."""
    REVISION_NOT_FOUND = "REVISION_NOT_FOUND"
    """No such revision of the document is kept, or none that the caller might read."""
    UNKNOWN_CITATION = "UNKNOWN_CITATION"
    """The answer cites a number that no passage has."""
    PASSAGES_OMITTED = "PASSAGES_OMITTED"
    """Some passages did not fit into the prompt."""
    INPUT_NOT_USED = "INPUT_NOT_USED"
    """A part of the request was not used."""
    JUDGE_UNAVAILABLE = "JUDGE_UNAVAILABLE"
    """The answer could not be judged."""
    DATABASE_UNAVAILABLE = "DATABASE_UNAVAILABLE"
    """The database is out of reach."""
    DATABASE_REFUSED = "DATABASE_REFUSED"
    """The database refuses the connection."""
    DATABASE_URL_INVALID = "DATABASE_URL_INVALID"
    """The database's URL cannot be used."""
    DATABASE_FULL = "DATABASE_FULL"
    """The database's disk is full."""
    DATABASE_BUSY = "DATABASE_BUSY"
    """The database did not answer in time, or has no connection left."""
    SCHEMA_TOO_OLD = "SCHEMA_TOO_OLD"
    """The database's schema is older than the service needs."""
    SCHEMA_TOO_NEW = "SCHEMA_TOO_NEW"
    """The database's schema is newer than the service knows."""
    MIGRATION_CHANGED = "MIGRATION_CHANGED"
    """A migration that was applied has been changed since."""
    LEXICAL_INDEX_UNAVAILABLE = "LEXICAL_INDEX_UNAVAILABLE"
    """The database has no keyword engine that can be used."""
    NOT_USABLE = "NOT_USABLE"
    """A model or index that the service needs cannot be used."""
    ADDRESS_UNUSABLE = "ADDRESS_UNUSABLE"
    """The service cannot listen on its address."""
    SCOPE_MISSING = "SCOPE_MISSING"
    """The key or token is not for this; the message names the scope that is."""
    TOKEN_INVALID = "TOKEN_INVALID"
    """The token is not one that the gateway takes."""
    CANCELLED = "CANCELLED"
    """The call was cancelled."""
    UNKNOWN = "UNKNOWN"
    """A service failed without saying why."""
    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    """A service refused the call without naming a field."""
    NOT_FOUND = "NOT_FOUND"
    """A service did not find what the call names."""
    ALREADY_EXISTS = "ALREADY_EXISTS"
    """The call would create something that exists already."""
    PERMISSION_DENIED = "PERMISSION_DENIED"
    """The call is not allowed."""
    UNAUTHENTICATED = "UNAUTHENTICATED"
    """The caller is not known."""
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    """A limit was reached."""
    FAILED_PRECONDITION = "FAILED_PRECONDITION"
    """The call does not fit the state that things are in."""
    ABORTED = "ABORTED"
    """A concurrent change won."""
    OUT_OF_RANGE = "OUT_OF_RANGE"
    """A value is out of range."""
    UNIMPLEMENTED = "UNIMPLEMENTED"
    """The service does not offer this."""
    UNAVAILABLE = "UNAVAILABLE"
    """A service is out of reach."""
    DATA_LOSS = "DATA_LOSS"
    """Stored data is damaged."""
    DISK_FULL = "DISK_FULL"
    """A service's disk is full."""
    COLLECTION_NOT_ADMINISTRABLE = "COLLECTION_NOT_ADMINISTRABLE"
    """The caller may use the collection, but not administer it."""
    ORIGINAL_NOT_KEPT = "ORIGINAL_NOT_KEPT"
    """The document is there, but not what was handed in: its collection keeps no originals, or did not when
    it came."""
    DOCUMENT_CHANGED = "DOCUMENT_CHANGED"
    """The document was replaced or deleted meanwhile: while it was sent, or before a change of it was taken
    back."""
    MODEL_NOT_FOUND = "MODEL_NOT_FOUND"
    """No model of that name is running."""
    EMBEDDING_API_FAILED = "EMBEDDING_API_FAILED"
    """The embedding API failed."""
    EMBEDDING_API_MALFORMED = "EMBEDDING_API_MALFORMED"
    """The embedding API's answer cannot be read."""
    EMBEDDING_API_QUOTA = "EMBEDDING_API_QUOTA"
    """The embedding API's quota is used up."""
    EMBEDDING_API_REFUSED = "EMBEDDING_API_REFUSED"
    """The embedding API refused the request."""
    EMBEDDING_API_UNREACHABLE = "EMBEDDING_API_UNREACHABLE"
    """The embedding API cannot be reached."""
    QUOTA_EXHAUSTED = "QUOTA_EXHAUSTED"
    """A quota is used up, which metadata names, with its limit and what is used: delete something, or wait
    for jobs."""
    SEARCH_INDEX_UNAVAILABLE = "SEARCH_INDEX_UNAVAILABLE"
    """The distributed index does not answer."""
    SEARCH_INDEX_REFUSED = "SEARCH_INDEX_REFUSED"
    """The distributed index refused what it was asked."""
    OVERLOADED = "OVERLOADED"
    """More requests have come than can be answered in time. Nothing was done; RetryInfo says when to try
    again."""
    SEARCH_INDEX_BEHIND = "SEARCH_INDEX_BEHIND"
    """The distributed index lacks what was written lately; searches do not find that yet."""
    SEARCH_INDEX_INCOMPLETE = "SEARCH_INDEX_INCOMPLETE"
    """There may be more matches: too much of what the distributed index proposed does not match, or may not
    be read."""
    SOURCE_NOT_FOUND = "SOURCE_NOT_FOUND"
    """There is no such source."""
    SOURCE_NAME_TAKEN = "SOURCE_NAME_TAKEN"
    """The collection has a source of this name."""
    SOURCE_NOT_AVAILABLE = "SOURCE_NOT_AVAILABLE"
    """The collector has no directory, secret or plug-in that the source names."""
    SOURCE_UNREACHABLE = "SOURCE_UNREACHABLE"
    """The server of the source does not answer."""
    SOURCE_REFUSED = "SOURCE_REFUSED"
    """The server of the source refuses it: wrong credentials, no such bucket, repository, branch or column, a
    wrong query."""
    URI_OF_OTHER_SOURCE = "URI_OF_OTHER_SOURCE"
    """The collection has a document of this uri that another source has brought, or somebody handed in."""
    SOURCE_CHANGED = "SOURCE_CHANGED"
    """The source was changed meanwhile, by another request. Read it, and decide again."""
    PAGE_NOT_FOUND = "PAGE_NOT_FOUND"
    """The document has fewer pages."""
    NO_PAGE_PICTURES = "NO_PAGE_PICTURES"
    """Pages of documents of this type are not drawn: only those of PDF files and images are."""
    MESSAGE_NOT_FOUND = "MESSAGE_NOT_FOUND"
    """No such answer in the thread."""
    EVIDENCE_TOO_LARGE = "EVIDENCE_TOO_LARGE"
    """The thread has more answers than one evidence holds: name one."""
    JOB_UNDER_WAY = "JOB_UNDER_WAY"
    """The job has not ended: wait for it, or cancel it."""
    LEGAL_HOLD = "LEGAL_HOLD"
    """The document, the collection or a document of it, or the thread is under a legal hold: it cannot be
    deleted before that is released."""
    ORIGINAL_NOT_READABLE = "ORIGINAL_NOT_READABLE"
    """The caller may read the document, but not download it as it was handed in."""
    ERASURE_NOT_FOUND = "ERASURE_NOT_FOUND"
    """There is no such erasure that the caller may see."""
    INDEX_NOT_FOUND = "INDEX_NOT_FOUND"
    """The collection has no such index: a re-index holds none back, or none was kept."""
    NO_REINDEX = "NO_REINDEX"
    """The job does not build an index, or it failed or was cancelled."""
    TABLE_NOT_FOUND = "TABLE_NOT_FOUND"
    """The document has no such table, or the caller may not read it."""
    KEY_NOT_FOUND = "KEY_NOT_FOUND"
    """No API key has this id."""


class ApiKeyState(OpenEnum):
    """State of an API key."""

    UNSPECIFIED = "API_KEY_STATE_UNSPECIFIED"
    """Not known."""
    ACTIVE = "API_KEY_STATE_ACTIVE"
    """The gateway takes it, in every replica within seconds of its creation."""
    EXPIRED = "API_KEY_STATE_EXPIRED"
    """Its expire_time has passed."""
    REVOKED = "API_KEY_STATE_REVOKED"
    """It was revoked."""


class Role(OpenEnum):
    """Who wrote a message. The values have no prefix, so that JSON clients may write "user" and "assistant",
    as they do elsewhere: case makes no difference."""

    UNSPECIFIED = "ROLE_UNSPECIFIED"
    """Not known."""
    USER = "USER"
    """The one who asks."""
    ASSISTANT = "ASSISTANT"
    """The one who answers."""


class RetrievalMode(OpenEnum):
    """Which searches run."""

    UNSPECIFIED = "RETRIEVAL_MODE_UNSPECIFIED"
    """The collection's default, or hybrid."""
    HYBRID = "RETRIEVAL_MODE_HYBRID"
    """BM25 and vector search side by side."""
    SEMANTIC = "RETRIEVAL_MODE_SEMANTIC"
    """Vector search alone."""
    KEYWORD = "RETRIEVAL_MODE_KEYWORD"
    """BM25 alone; the query is not embedded."""


class IterativeScan(OpenEnum):
    """How pgvector goes on scanning when a filter removes what its first scan found."""

    UNSPECIFIED = "ITERATIVE_SCAN_UNSPECIFIED"
    """The collection's default, or relaxed order."""
    OFF = "ITERATIVE_SCAN_OFF"
    """One scan only; a filtered search may return fewer than its limit."""
    STRICT_ORDER = "ITERATIVE_SCAN_STRICT_ORDER"
    """Scans on until the limit is reached; what turns up late though it is nearer is left out."""
    RELAXED_ORDER = "ITERATIVE_SCAN_RELAXED_ORDER"
    """Scans on until the limit is reached; what turns up late takes its place by distance, for better
    recall."""


class IndexChoice(OpenEnum):
    """Which of a collection's indexes a search reads."""

    UNSPECIFIED = "INDEX_CHOICE_UNSPECIFIED"
    """The one in use."""
    CURRENT = "INDEX_CHOICE_CURRENT"
    """The one in use."""
    CANDIDATE = "INDEX_CHOICE_CANDIDATE"
    """The one that a re-index has built and holds back; see ReindexCollectionRequest.hold."""
    PREVIOUS = "INDEX_CHOICE_PREVIOUS"
    """The one that was kept when it was replaced; see ReindexCollectionRequest.keep_previous."""


class FusionMethod(OpenEnum):
    """How the ranked lists of one question become one list."""

    UNSPECIFIED = "FUSION_METHOD_UNSPECIFIED"
    """The collection's default, or weighted."""
    RRF = "FUSION_METHOD_RRF"
    """Reciprocal rank fusion: the sum over the lists of weight / (rrf_k + rank)."""
    WEIGHTED = "FUSION_METHOD_WEIGHTED"
    """The weighted sum over the lists of the arms' scores: BM25 as a share of the best in its list,
    similarity as it is; a passage that only one of them found counts with the lowest of the other's list,
    unless that is a list of BM25 with all that match. A list that tells its passages little apart so decides
    little. Beside a model of the E5 family BM25 has the weight 1/3 and similarity 5/3. With either method,
    BM25 of a collection in another language than the query counts a tenth of similarity where the
    collection's embedding model is known to know many languages."""


class RerankStrategy(OpenEnum):
    """How fused candidates are put in their final order."""

    UNSPECIFIED = "RERANK_STRATEGY_UNSPECIFIED"
    """The collection's default, or none."""
    NONE = "RERANK_STRATEGY_NONE"
    """The fused order stays."""
    WEIGHTED = "RERANK_STRATEGY_WEIGHTED"
    """A weighted sum of components; see RerankWeights."""
    CROSS_ENCODER = "RERANK_STRATEGY_CROSS_ENCODER"
    """A cross-encoder model scores query and passage together."""
    API = "RERANK_STRATEGY_API"
    """A hosted /rerank endpoint."""
    LLM = "RERANK_STRATEGY_LLM"
    """The generator's language model judges relevance."""


class Effort(OpenEnum):
    """How much work an answer may take."""

    UNSPECIFIED = "EFFORT_UNSPECIFIED"
    """The default."""
    QUICK = "EFFORT_QUICK"
    """One search. A follow-up is made standalone; nothing else is rewritten."""
    BALANCED = "EFFORT_BALANCED"
    """A complex question is also decomposed, and a search that finds too little is repeated once with the
    question rewritten. The passages found for a complex question are read; what they lack is searched for
    once."""
    THOROUGH = "EFFORT_THOROUGH"
    """The passages found for any question are read, and what they lack is searched for, twice at most. Each
    time takes a model call and a search."""


class Stage(OpenEnum):
    """A part of the work, and the parts of it whose time is told."""

    UNSPECIFIED = "STAGE_UNSPECIFIED"
    """Not known."""
    REWRITING = "STAGE_REWRITING"
    """The question is made standalone or decomposed."""
    RETRIEVING = "STAGE_RETRIEVING"
    """The collections are searched."""
    RERANKING = "STAGE_RERANKING"
    """Candidates are fused, deduplicated and reranked; part of retrieving where that takes no model and one
    search."""
    GENERATING = "STAGE_GENERATING"
    """The answer is written."""
    FETCHING = "STAGE_FETCHING"
    """The chunks that are kept are read; part of retrieving as reranking is."""
    EMBEDDING = "STAGE_EMBEDDING"
    """Part of retrieving: the query is embedded."""
    KEYWORD_SEARCH = "STAGE_KEYWORD_SEARCH"
    """Part of retrieving: BM25."""
    SEMANTIC_SEARCH = "STAGE_SEMANTIC_SEARCH"
    """Part of retrieving: vector search."""
    FIRST_TOKEN = "STAGE_FIRST_TOKEN"
    """Part of generating: until the first text."""
    READING = "STAGE_READING"
    """The passages found are read, to tell whether they suffice."""


class SourceType(OpenEnum):
    """Where a document came from."""

    UNSPECIFIED = "SOURCE_TYPE_UNSPECIFIED"
    """Not known."""
    FILE = "SOURCE_TYPE_FILE"
    """A file, or text handed in as one."""
    OBJECT = "SOURCE_TYPE_OBJECT"
    """A structured record."""
    WEB = "SOURCE_TYPE_WEB"
    """A web page."""


class FinishReason(OpenEnum):
    """Why an answer ended."""

    UNSPECIFIED = "FINISH_REASON_UNSPECIFIED"
    """Not known."""
    STOP = "FINISH_REASON_STOP"
    """The answer is complete."""
    NO_ANSWER = "FINISH_REASON_NO_ANSWER"
    """The documents do not hold the answer; the text says so and nothing is cited."""
    MAX_TOKENS = "FINISH_REASON_MAX_TOKENS"
    """The limit on output tokens was reached."""
    SAFETY = "FINISH_REASON_SAFETY"
    """The provider withheld the answer for safety."""
    CANCELLED = "FINISH_REASON_CANCELLED"
    """The caller went away."""


class Component(OpenEnum):
    """A part of the work that can be skipped, fail or come late without failing the request."""

    UNSPECIFIED = "COMPONENT_UNSPECIFIED"
    """Not known."""
    KEYWORD_ARM = "COMPONENT_KEYWORD_ARM"
    """Keyword search."""
    SEMANTIC_ARM = "COMPONENT_SEMANTIC_ARM"
    """Vector search."""
    RETRIEVAL = "COMPONENT_RETRIEVAL"
    """Searching for one of several queries."""
    RERANKER = "COMPONENT_RERANKER"
    """Reranking."""
    REWRITING = "COMPONENT_REWRITING"
    """Rewriting of the question."""
    VALIDATION = "COMPONENT_VALIDATION"
    """Checking of the answer."""
    HISTORY = "COMPONENT_HISTORY"
    """Storing of the conversation."""
    CITATION_BOXES = "COMPONENT_CITATION_BOXES"
    """Finding the places of citations on their pages."""
    FACETS = "COMPONENT_FACETS"
    """Counting the values of facets."""


class Quota(OpenEnum):
    """Kind of quota."""

    UNSPECIFIED = "QUOTA_UNSPECIFIED"
    """Not known."""
    COLLECTIONS = "QUOTA_COLLECTIONS"
    """Collections that the caller created."""
    JOBS = "QUOTA_JOBS"
    """Jobs that the caller handed in and that have not ended."""
    DOCUMENTS = "QUOTA_DOCUMENTS"
    """Documents of the collection."""
    BYTES = "QUOTA_BYTES"
    """Bytes of the collection's documents as handed in, with those of contents that replaced revisions
    keep."""
    THREADS = "QUOTA_THREADS"
    """Threads that the caller began."""
    ANSWERS = "QUOTA_ANSWERS"
    """Chat, Answer and Verify requests of the caller that are under way in one replica."""
    TOKENS = "QUOTA_TOKENS"
    """Tokens that the caller's answers and checked texts took, prompts included, since midnight UTC."""
    SOURCES = "QUOTA_SOURCES"
    """Sources of the collection."""
    COST_DAY = "QUOTA_COST_DAY"
    """US dollars that the caller's answers, checked texts and documents cost since midnight UTC, where the
    price is known."""
    COST_MONTH = "QUOTA_COST_MONTH"
    """The same, since the month began."""
    TOTAL_COST_DAY = "QUOTA_TOTAL_COST_DAY"
    """The same since midnight UTC of all callers together; amounts are in GetUsage alone, errors have
    none."""
    TOTAL_COST_MONTH = "QUOTA_TOTAL_COST_MONTH"
    """The same, since the month began."""


class Verdict(OpenEnum):
    """Answer of documents to whether a claim is so."""

    UNSPECIFIED = "VERDICT_UNSPECIFIED"
    """Not known."""
    SUPPORTED = "VERDICT_SUPPORTED"
    """A passage says so."""
    REFUTED = "VERDICT_REFUTED"
    """A passage says otherwise."""
    NOT_FOUND = "VERDICT_NOT_FOUND"
    """No passage that was found says so or otherwise."""


class Rating(OpenEnum):
    """Whether an answer was of use."""

    UNSPECIFIED = "RATING_UNSPECIFIED"
    """Says nothing."""
    GOOD = "RATING_GOOD"
    """It was."""
    BAD = "RATING_BAD"
    """It was not."""


class Problem(OpenEnum):
    """Why an answer was of no use."""

    UNSPECIFIED = "PROBLEM_UNSPECIFIED"
    """Says nothing."""
    INCORRECT = "PROBLEM_INCORRECT"
    """It says something wrong."""
    INCOMPLETE = "PROBLEM_INCOMPLETE"
    """It lacks something that the documents say."""
    WRONG_SOURCE = "PROBLEM_WRONG_SOURCE"
    """It cites a source that does not say so."""
    OUTDATED = "PROBLEM_OUTDATED"
    """It tells of what was true once."""
    UNANSWERABLE = "PROBLEM_UNANSWERABLE"
    """It answers what the documents do not say, and should have been refused."""
    REFUSED = "PROBLEM_REFUSED"
    """It refuses what the documents say."""
    OTHER = "PROBLEM_OTHER"
    """Something else; the comment may say what."""


class ChunkingStrategy(OpenEnum):
    """How documents are cut into chunks."""

    UNSPECIFIED = "CHUNKING_STRATEGY_UNSPECIFIED"
    """The default, recursive."""
    RECURSIVE = "CHUNKING_STRATEGY_RECURSIVE"
    """At the largest boundary that fits: headings, paragraphs, sentences, words, characters."""
    SECTIONS = "CHUNKING_STRATEGY_SECTIONS"
    """At headings; long sections are split further, with overlap."""
    WORDS = "CHUNKING_STRATEGY_WORDS"
    """A sliding window of words."""
    SENTENCES = "CHUNKING_STRATEGY_SENTENCES"
    """Whole sentences."""
    PARENT_CHILD = "CHUNKING_STRATEGY_PARENT_CHILD"
    """Small chunks, which are searched, of larger parents: sections, or parts of them. An answer is given all
    of the parent of a chunk that was found; of several such chunks the best stands for the others, unless
    deduplication is off."""


class ChunkSizeUnit(OpenEnum):
    """Unit of chunk sizes."""

    UNSPECIFIED = "CHUNK_SIZE_UNIT_UNSPECIFIED"
    """The default, characters."""
    CHARACTERS = "CHUNK_SIZE_UNIT_CHARACTERS"
    """Unicode code points."""
    TOKENS = "CHUNK_SIZE_UNIT_TOKENS"
    """Tokens of the embedding model."""


class ContextualizationMode(OpenEnum):
    """Where the text that places a chunk in its document comes from."""

    UNSPECIFIED = "CONTEXTUALIZATION_MODE_UNSPECIFIED"
    """The default, structural."""
    NONE = "CONTEXTUALIZATION_MODE_NONE"
    """Chunks are indexed as they are."""
    STRUCTURAL = "CONTEXTUALIZATION_MODE_STRUCTURAL"
    """Title, path and the trail of headings above the chunk."""
    LLM = "CONTEXTUALIZATION_MODE_LLM"
    """A language model writes it from the whole document."""


class JobState(OpenEnum):
    """How far a job has come."""

    UNSPECIFIED = "JOB_STATE_UNSPECIFIED"
    """Not known."""
    QUEUED = "JOB_STATE_QUEUED"
    """Stored, not begun."""
    RUNNING = "JOB_STATE_RUNNING"
    """At work."""
    DONE = "JOB_STATE_DONE"
    """Every item ended, and at least one is done (or there was none)."""
    FAILED = "JOB_STATE_FAILED"
    """Every item ended, and none is done."""
    CANCELLED = "JOB_STATE_CANCELLED"
    """Cancelled; items that were done before stay."""


class IngestionState(OpenEnum):
    """How far a document or an item of a job has come."""

    UNSPECIFIED = "INGESTION_STATE_UNSPECIFIED"
    """Not known."""
    QUEUED = "INGESTION_STATE_QUEUED"
    """Stored, not begun."""
    EXTRACTING = "INGESTION_STATE_EXTRACTING"
    """Its text is read out of its bytes."""
    CHUNKING = "INGESTION_STATE_CHUNKING"
    """Its text is cut into chunks."""
    CONTEXTUALIZING = "INGESTION_STATE_CONTEXTUALIZING"
    """Its chunks are given their context."""
    EMBEDDING = "INGESTION_STATE_EMBEDDING"
    """Its chunks are embedded."""
    STORING = "INGESTION_STATE_STORING"
    """Its chunks are written."""
    DONE = "INGESTION_STATE_DONE"
    """It is searchable."""
    FAILED = "INGESTION_STATE_FAILED"
    """It failed; what was searchable of it before still is."""
    CANCELLED = "INGESTION_STATE_CANCELLED"
    """Its job was cancelled before it was done."""


class VectorIndexState(OpenEnum):
    """Whether a collection's vectors have an index of their own. Without it a search reads every vector,
    which finds the same or more, slower."""

    UNSPECIFIED = "VECTOR_INDEX_STATE_UNSPECIFIED"
    """Not used."""
    NONE = "VECTOR_INDEX_STATE_NONE"
    """Too few chunks for one."""
    PENDING = "VECTOR_INDEX_STATE_PENDING"
    """Being built, or will be when what is being ingested is done."""
    READY = "VECTOR_INDEX_STATE_READY"
    """In use."""
    NOT_QUANTIZED = "VECTOR_INDEX_STATE_NOT_QUANTIZED"
    """In use, with the vectors themselves: the settings ask for a quantized index, but its bits found less
    than .98 of the nearest in a sample. They are tried again every ten minutes."""


class IngestionOutcome(OpenEnum):
    """Effect of a document's ingestion."""

    UNSPECIFIED = "INGESTION_OUTCOME_UNSPECIFIED"
    """Not ended, or failed."""
    CREATED = "INGESTION_OUTCOME_CREATED"
    """It is new."""
    UPDATED = "INGESTION_OUTCOME_UPDATED"
    """It replaced its earlier version."""
    UNCHANGED = "INGESTION_OUTCOME_UNCHANGED"
    """It was the same as before; nothing was done."""
    SKIPPED = "INGESTION_OUTCOME_SKIPPED"
    """It is a file within another document that cannot be read, as its failure says: of a format that is not
    supported, encrypted, or without text. No document is made of it, and nothing else fails by it."""
    DELETED = "INGESTION_OUTCOME_DELETED"
    """It has gone from its source and would be deleted; only in a dry run."""


class TextFate(OpenEnum):
    """Fate of a part of a document's text in another of its revisions."""

    UNSPECIFIED = "TEXT_FATE_UNSPECIFIED"
    """Not known."""
    SAME = "TEXT_FATE_SAME"
    """It stands where it stood."""
    MOVED = "TEXT_FATE_MOVED"
    """It stands elsewhere, as it was."""
    CHANGED = "TEXT_FATE_CHANGED"
    """Something like it stands there."""
    GONE = "TEXT_FATE_GONE"
    """It is gone, and so is everything like it within 2,000,000 characters of its place."""


class TextChange(OpenEnum):
    """How a stretch of text came to be."""

    UNSPECIFIED = "TEXT_CHANGE_UNSPECIFIED"
    """Not known."""
    EQUAL = "TEXT_CHANGE_EQUAL"
    """Both have it."""
    DELETED = "TEXT_CHANGE_DELETED"
    """The first has it, the second does not."""
    INSERTED = "TEXT_CHANGE_INSERTED"
    """The second has it, the first does not."""


class RevertAction(OpenEnum):
    """Effect on a document of taking a job back."""

    UNSPECIFIED = "REVERT_ACTION_UNSPECIFIED"
    """Not known."""
    RESTORE = "REVERT_ACTION_RESTORE"
    """It gets the revision that it had before."""
    DELETE = "REVERT_ACTION_DELETE"
    """It is deleted: the job created it."""
    NONE = "REVERT_ACTION_NONE"
    """It stays as it is: it has the revision that it had before."""
    CHANGED_SINCE = "REVERT_ACTION_CHANGED_SINCE"
    """It stays as it is: it was changed again since."""
    NOT_KEPT = "REVERT_ACTION_NOT_KEPT"
    """It stays as it is: the revision before is not kept."""
    HELD = "REVERT_ACTION_HELD"
    """It stays as it is: the job created it, and it is under a legal hold."""


class CutRule(OpenEnum):
    """Which rule removed a candidate."""

    UNSPECIFIED = "CUT_RULE_UNSPECIFIED"
    """Not known."""
    TOP_K = "CUT_RULE_TOP_K"
    """It came after the first top_k."""
    DUPLICATE = "CUT_RULE_DUPLICATE"
    """It is a near-duplicate of a better one."""
    MIN_SCORE = "CUT_RULE_MIN_SCORE"
    """Its final score was below min_score."""
    DIVERSITY = "CUT_RULE_DIVERSITY"
    """Maximal marginal relevance preferred others."""
    DOCUMENT = "CUT_RULE_DOCUMENT"
    """Better passages of its document were as many as max_per_document."""


class TableOperator(OpenEnum):
    """How a cell is compared."""

    UNSPECIFIED = "TABLE_OPERATOR_UNSPECIFIED"
    """Not set."""
    EQUAL = "TABLE_OPERATOR_EQUAL"
    """It is one of the values."""
    NOT_EQUAL = "TABLE_OPERATOR_NOT_EQUAL"
    """It is none of the values, and not empty."""
    LESS = "TABLE_OPERATOR_LESS"
    """It is less, or earlier, than the value."""
    AT_MOST = "TABLE_OPERATOR_AT_MOST"
    """It is the value at most."""
    GREATER = "TABLE_OPERATOR_GREATER"
    """It is more, or later, than the value."""
    AT_LEAST = "TABLE_OPERATOR_AT_LEAST"
    """It is the value at least."""
    CONTAINS = "TABLE_OPERATOR_CONTAINS"
    """Its text holds one of the values."""


class TableFunction(OpenEnum):
    """Function that is computed of the rows."""

    UNSPECIFIED = "TABLE_FUNCTION_UNSPECIFIED"
    """No function: the rows themselves are returned."""
    COUNT = "TABLE_FUNCTION_COUNT"
    """How many rows there are; a column is not needed."""
    SUM = "TABLE_FUNCTION_SUM"
    """Sum of a column's numbers."""
    AVERAGE = "TABLE_FUNCTION_AVERAGE"
    """Average of a column's numbers."""
    MINIMUM = "TABLE_FUNCTION_MINIMUM"
    """Least number, or earliest date, of a column."""
    MAXIMUM = "TABLE_FUNCTION_MAXIMUM"
    """Greatest number, or latest date, of a column."""
    DIFFERENCE = "TABLE_FUNCTION_DIFFERENCE"
    """Difference between the greatest and the least number of a column; none if fewer than two rows have one.
    Conditions that leave two rows compare them."""


class TablePlanning(OpenEnum):
    """Who makes plans of questions to tables."""

    UNSPECIFIED = "TABLE_PLANNING_UNSPECIFIED"
    """Rules, and a language model if they cannot and the generator has one. The default."""
    RULES = "TABLE_PLANNING_RULES"
    """Rules alone."""


class ColumnType(OpenEnum):
    """Type of a column: what at least 8 of 10 of its cells are that are not empty."""

    UNSPECIFIED = "COLUMN_TYPE_UNSPECIFIED"
    """Not set."""
    TEXT = "COLUMN_TYPE_TEXT"
    """Text."""
    NUMBER = "COLUMN_TYPE_NUMBER"
    """Numbers of one unit, or without one."""
    DATE = "COLUMN_TYPE_DATE"
    """Days, with a time of day or without."""
    BOOLEAN = "COLUMN_TYPE_BOOLEAN"
    """Yes or no."""


class TableRefusal(OpenEnum):
    """Why a question has no plan."""

    UNSPECIFIED = "TABLE_REFUSAL_UNSPECIFIED"
    """It has one."""
    NO_TABLE = "TABLE_REFUSAL_NO_TABLE"
    """No table that the caller may read has to do with the question."""
    NOT_UNDERSTOOD = "TABLE_REFUSAL_NOT_UNDERSTOOD"
    """A part of the question means nothing in the tables, or its form is none that rules know."""
    AMBIGUOUS = "TABLE_REFUSAL_AMBIGUOUS"
    """It means different things in different tables or columns."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiKey:
    """An API key of the gateway. Its text is shown once, when it is created, and stored nowhere."""

    key_id: str = ""
    """Id of the key; the audit log names it as the credential key:ID."""
    name: str = ""
    """Name of the client, in logs and limits. Several keys may share it."""
    principals: Sequence[str] = ()
    """Principals that the key stands for. The first one owns what the key creates."""
    scopes: Sequence[str] = ()
    """Scopes: search, chat, ingest, admin, administration."""
    state: ApiKeyState = ApiKeyState.UNSPECIFIED
    """State at the time of the response."""
    create_time: datetime | None = None
    """Time of its creation."""
    expire_time: datetime | None = None
    """Time from which it is refused; not set: never."""
    revoke_time: datetime | None = None
    """Time at which it was revoked; not set: it was not."""
    last_use_time: datetime | None = None
    """Time of a call with it, up to two hours before the last one; not set: none is known. A gateway notes it
    that keeps the audit log and may write this column."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CreateApiKeyResponse:
    """Response of CreateApiKey."""

    key: ApiKey | None = None
    """The key."""
    secret: str = ""
    """Its text, which is sent as x-api-key; it is shown this once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditEntry:
    """An entry of the audit log: a call of the API, with who made it and how it ended. It has no query, body
    or key."""

    entry_id: str = ""
    """Number of the entry, from 1, without gaps; a decimal number."""
    time: datetime | None = None
    """Time of the call."""
    client: str = ""
    """Name of the client; empty: the caller was not known."""
    credential: str = ""
    """Credential of the caller, such as key:ID for an API key that is stored."""
    principals: Sequence[str] = ()
    """Principals of the caller."""
    action: str = ""
    """The RPC, such as DeleteDocument. The gateway itself writes PruneAuditLog (older entries were deleted by
    retention) and LoseAuditEntries (some could not be stored)."""
    resource: str = ""
    """Path of the request."""
    status: int = 0
    """HTTP status of the response; 0: no response was sent."""
    grpc_status: str = ""
    """gRPC status of a call whose HTTP status is 200, such as OK or PermissionDenied; empty: not known."""
    peer: str = ""
    """IP address of the peer."""
    request_id: str = ""
    """Id of the request."""
    trace_id: str = ""
    """Id of its trace."""
    is_dry_run: bool = False
    """Whether the call was a dry run."""
    created: str = ""
    """Name of the resource that the call created, such as key:ID; empty: nothing that is named."""
    hash: str = ""
    """SHA-256 of the entry and of the hash before it, in hexadecimal digits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatMessage:
    """A message of the conversation that comes with a request."""

    role: Role = Role.UNSPECIFIED
    """Who wrote it."""
    content: str = ""
    """Its text, 1 to 32000 characters."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RetrievalOptions:
    """Retrieval parameters. A field that is not set takes the collection's default, and where the collection
    sets none, the default named here."""

    mode: RetrievalMode = RetrievalMode.UNSPECIFIED
    """Which searches run."""
    keyword_limit: int | None = None
    """Maximum number of candidates from BM25."""
    semantic_limit: int | None = None
    """Maximum number of candidates from vector search."""
    ef_search: int | None = None
    """Size of the HNSW search list, 1 to 1000; larger finds more and takes longer. Default: 1 for each 1,000
    chunks of the partition that is searched, 100 at least. Never below semantic_limit."""
    iterative_scan: IterativeScan = IterativeScan.UNSPECIFIED
    """Scan of a filtered vector search when its first one returns too little."""
    min_similarity: float | None = None
    """Vector candidates below this similarity (-1 to 1) are dropped: the cosine, but for models that put
    hardly any two texts below a certain one (.7, E5), from which on it is drawn out to 0 to 1. Not set: none
    is dropped."""
    min_bm25: float | None = None
    """BM25 candidates below this score (0 or more, unbounded, comparable within one search only) are dropped.
    Not set: none is dropped."""
    adjacent_chunks: int | None = None
    """Chunks to add before and after each hit from the same document, 0 to 10. What overlaps is cut from
    their texts and offsets; a chunk that is a passage itself, or a better passage's adjacent chunk, is not
    repeated."""
    correct_spelling: bool | None = None
    """Whether misspelled words of the query are corrected where BM25 takes part: a word of four letters or
    more that no chunk has that the caller may read, and that differs from a word of the passages found in one
    letter (from eight letters on in two). The search is then repeated with the other word, which corrections
    tells."""
    index: IndexChoice = IndexChoice.UNSPECIFIED
    """Which index is read; not for a collection's settings. Others than the one in use lack what was written
    since they were complete: documents that are new, and those that were changed. Of the collections that a
    search does not name, those without such an index are left out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RerankWeights:
    """Weights of the components of the weighted strategy, each 0 or more. A component whose weight is 0 is
    not computed."""

    semantic: float | None = None
    """The fused score, as a share of the best; component "fused"."""
    vector: float | None = None
    """The similarity of query and passage, as min_similarity has it; the lowest one found for a passage that
    vector search did not find."""
    position: float | None = None
    """Earlier chunks of a document score higher: 1 / (1 + chunk_index)."""
    recency: float | None = None
    """Recently updated documents score higher: halves every 90 days before the newest candidate."""
    type: float | None = None
    """The source type's priority; see RerankOptions.type_priorities."""
    keyword: float | None = None
    """The share of the query's terms that the passage holds, rare ones counting for more."""
    proximity: float | None = None
    """How near to each other the passage has the neighbouring words of the query, rare ones counting for
    more; 0.3 is a good weight beside the other defaults."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RerankOptions:
    """Fusion, deduplication and reranking parameters. A field that is not set takes the collection's default,
    and where the collection sets none, the default named here."""

    top_k: int | None = None
    """Maximum number of passages returned."""
    fusion: FusionMethod = FusionMethod.UNSPECIFIED
    """How the arms are fused."""
    rrf_k: int | None = None
    """Constant of reciprocal rank fusion, 1 to 1000; its default is the one of Cormack, Clarke and Buettcher
    (SIGIR 2009)."""
    keyword_weight: float | None = None
    """Weight of the keyword arm, 0 or more."""
    semantic_weight: float | None = None
    """Weight of the semantic arm, 0 or more."""
    strategy: RerankStrategy = RerankStrategy.UNSPECIFIED
    """The final ordering."""
    weights: RerankWeights | None = None
    """Components of the weighted strategy."""
    deduplication_threshold: float | None = None
    """Passages at least this similar (0 to 1) to a better one are its near-duplicates: they become its
    alternatives. 0 switches that off; with 1 only equal texts are duplicates. Similarity is the Jaccard index
    of the texts' three-word shingles, estimated from signatures made at ingestion."""
    mmr_lambda: float | None = None
    """Maximal marginal relevance: 1 looks at relevance only, 0 at diversity only. It comes last, and its
    value is then the final score. Not set: not applied."""
    type_priorities: Mapping[str, float] | None = None
    """Priority of each source type, 0 to 1, by name ("file", "object", "web"), for the weighted strategy."""
    model: str | None = None
    """Model of the api or llm strategy; of the cross_encoder strategy only the one that the reranker is set
    to. Default: the reranker's setting."""
    include_cut: bool | None = None
    """Whether the response also lists what was cut, and by which rule."""
    min_score: float | None = None
    """Passages whose score, before diversity, is below this are dropped. Not set: none is dropped."""
    max_per_document: int | None = None
    """Maximum number of passages of one document, the best of it, before diversity and top_k. Candidates of
    few documents may leave fewer than top_k passages; keyword_limit and semantic_limit then bring more. Not
    set: any number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerationOptions:
    """Parameters of the answer. A field that is not set takes the collection's default, and where the
    collection sets none, the generator's setting."""

    model: str | None = None
    """Model name as the provider spells it."""
    temperature: float | None = None
    """Sampling temperature, 0 to 2."""
    max_output_tokens: int | None = None
    """Maximum number of tokens of the answer."""
    system_prompt: str | None = None
    """Instructions that come before the suite's own rules on grounding and citation, 8000 characters at
    most."""
    min_relevance: float | None = None
    """Below this relevance (0 to 1) of the best passage the answer is refused."""
    prompt_template: str | None = None
    """Name of the prompt template."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatOptions:
    """Parameters of a chat or an answer."""

    retrieval: RetrievalOptions | None = None
    """Retrieval parameters."""
    rerank: RerankOptions | None = None
    """Fusion and reranking parameters."""
    generation: GenerationOptions | None = None
    """Parameters of the answer."""
    effort: Effort = Effort.UNSPECIFIED
    """How much work the answer may take."""
    append_only: bool | None = None
    """Whether text that was sent stays, for clients that cannot take it back: no correction is sent. Instead
    each sentence of a language model comes when it has been checked, and what follows a contradicted one when
    that has been corrected. Answer sends no events and does not look at it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatStarted:
    """First event: the request is valid and work begins."""

    thread_id: str = ""
    """The thread; a new one when the request named none, and empty where it named none and is not stored, or
    cannot be: then `completed` says why."""
    message_id: str = ""
    """The answer's message."""
    trace_id: str = ""
    """W3C trace id of this request, 32 hex digits; empty where the request is not traced."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelWait:
    """A pause of a second or more before a language model is asked."""

    reason: ErrorReason = ErrorReason.UNSPECIFIED
    """Why: its provider is busy or down, or the generator's own limits are reached."""
    duration_seconds: float = 0.0
    """About how long, in seconds; 0 where that is not known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Correction:
    """A word of the query that was taken for a misspelled one."""

    given: str = ""
    """The word as the query has it."""
    used: str = ""
    """The word of the documents that was searched for in its place, with the capitals of the given one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatStatus:
    """A stage begins. Where the first search found too little, rewriting and retrieving may come once more;
    by the effort, reading and retrieving may follow, twice at most."""

    stage: Stage = Stage.UNSPECIFIED
    """The stage."""
    rewritten_query: str = ""
    """Query of the search, if it differs from the question; with the retrieving stage."""
    sub_queries: Sequence[str] = ()
    """The parts of a decomposed question, searched beside it; with the retrieving stage."""
    rewriting_model: str = ""
    """Model that rewrote or decomposed it: a language model, or "rules" without one; with either of the two
    above."""
    waiting: ModelWait | None = None
    """Reason why the generating stage waits; sent again for each wait."""
    corrections: Sequence[Correction] = ()
    """Misspelled words that the search corrected, once it has; rewritten_query is the question with the other
    words."""
    missing: str = ""
    """The part of the answer that the passages found so far lack, for people; with the retrieving stage, if
    it searches for that."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmScore:
    """Score of a chunk by one search arm."""

    rank: int = 0
    """Rank within the arm's list, from 1."""
    score: float = 0.0
    """The arm's own score: BM25 for the keyword arm, for the semantic arm the similarity that min_similarity
    has; higher is better."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreComponent:
    """One component of a passage's final score."""

    name: str = ""
    """Name, such as "fused", "vector", "position" or "cross_encoder"."""
    value: float = 0.0
    """Value before weighting."""
    weight: float = 0.0
    """Weight it was multiplied with."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreExplanation:
    """Why a passage stands where it does."""

    keyword: ArmScore | None = None
    """Rank and score in the keyword arm; not set when that arm did not find it."""
    semantic: ArmScore | None = None
    """Rank and score in the semantic arm; not set when that arm did not find it."""
    fused_score: float = 0.0
    """Score after fusion."""
    fused_rank: int = 0
    """Rank after fusion, from 1."""
    components: Sequence[ScoreComponent] = ()
    """Components of the reranking strategy; empty for the strategy none."""
    final_score: float = 0.0
    """The score that decided the order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A passage that was served to the model, with the number it is cited by."""

    number: int = 0
    """The number in [n], from 1."""
    title: str = ""
    """Title of the document."""
    uri: str = ""
    """Where the document is found."""
    type: SourceType = SourceType.UNSPECIFIED
    """Where the document came from."""
    snippet: str = ""
    """The part of the passage's text where most of the question's words stand, 400 characters at most; an
    ellipsis stands where something is left out."""
    chunk_id: str = ""
    """The chunk."""
    document_id: str = ""
    """The document."""
    collection_id: str = ""
    """The collection."""
    score: float = 0.0
    """Final score; comparable within one answer only."""
    explanation: ScoreExplanation | None = None
    """Why it was chosen."""
    metadata: dict[str, Any] | None = None
    """Metadata of the chunk, "page" among them; see Chunk.metadata."""
    start_offset: int = 0
    """Start in the document's extracted text, in Unicode code points, inclusive."""
    end_offset: int = 0
    """End in the document's extracted text, in Unicode code points, exclusive."""
    has_original: bool = False
    """Whether DownloadDocument has the document as it was handed in."""
    revision: str = ""
    """The document's revision that was read; see Revision. Offsets count in its text. Empty in answers of
    earlier releases."""
    is_outdated: bool = False
    """Whether the document has another revision by now; of a source that is read with its thread."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatSources:
    """The passages that the answer may cite; sent once, before the first delta. Empty when nothing was
    found."""

    sources: Sequence[Source] = ()
    """In the order of their numbers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatDelta:
    """Text to append to the answer, as it stands after the corrections so far."""

    text: str = ""
    """May end within a word; never within a citation marker."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """Tokens that a model read and wrote, zero where no model was called, and what they cost."""

    prompt_tokens: int = 0
    """Tokens read, cached ones included."""
    cached_tokens: int = 0
    """Tokens of the prompt that came from the provider's cache."""
    output_tokens: int = 0
    """Tokens written."""
    embedding_tokens: int = 0
    """Tokens that the embedding model read: of a document's chunks, and of questions if the model is hosted.
    As the provider counts them, or else an estimate. Texts that were embedded before are not among them."""
    cost_usd: float | None = None
    """Price of the model calls in US dollars, by the list prices of their provider or the operator's own,
    hosted embedding and reranking included. Local models cost nothing. Unset where no other was called, and
    where the price of a call is not known."""
    rerank_units: int = 0
    """Units that a hosted reranker's provider bills: tokens (Jina, Voyage), or searches (Cohere); the number
    of calls where it tells none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Box:
    """A rectangle on a page as it is shown, by which a picture of the page (GetDocumentPage) can be
    marked."""

    page: int = 0
    """The page, from 1."""
    left: float = 0.0
    """Left edge, as a share of the page's width, 0 to 1 from the left."""
    top: float = 0.0
    """Upper edge, as a share of the page's height, 0 to 1 from the top."""
    right: float = 0.0
    """Right edge, as left."""
    bottom: float = 0.0
    """Lower edge, as top."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Citation:
    """A claim of the answer and the source that supports it."""

    source_number: int = 0
    """The source's number."""
    start_offset: int = 0
    """Start of the supported text in the answer, in Unicode code points, inclusive."""
    end_offset: int = 0
    """End of the supported text in the answer, in Unicode code points, exclusive; the marker [n] is not part
    of it."""
    supporting_text: str = ""
    """The sentence of the source that supports it best."""
    chunk_id: str = ""
    """The source's chunk."""
    page: int = 0
    """The page that the supporting text begins on, from 1; 0 if the document has no pages."""
    boxes: Sequence[Box] = ()
    """Where the supporting text is on its pages: the lines that it stands in, in its order, whole ones; in
    tables the cells. Empty if its place is not known: only PDF files and images tell it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidationIssue:
    """Something that validation found."""

    reason: ErrorReason = ErrorReason.UNSPECIFIED
    """Kind of issue, such as UNSUPPORTED_SENTENCE or UNKNOWN_CITATION."""
    message: str = ""
    """The same for people."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Validation:
    """Result of the finished answer's checks."""

    grounded: bool = False
    """Whether every sentence carries a citation and its cited passages support it: they have its terms, and
    rules find no number, unit, name or negation in it that they do not have. Where a model judges, its
    verdicts count instead."""
    confidence: float = 0.0
    """0 to 1; by the calibration of the collection, if it alone was asked and has one."""
    issues: Sequence[ValidationIssue] = ()
    """Issues found; empty without any."""
    cited_share: float = 0.0
    """Share of the answer's sentences that carry a citation, 0 to 1."""
    supported_share: float = 0.0
    """Share of the answer's sentences that their cited passages support, 0 to 1."""
    query_relevance: float = 0.0
    """Relevance of the answer to the question, 0 to 1."""
    raw_confidence: float = 0.0
    """Confidence before the calibration of the collection, 0 to 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Degradation:
    """Something that was skipped, failed or came late, without failing the request."""

    component: Component = Component.UNSPECIFIED
    """Component of the score."""
    reason: ErrorReason = ErrorReason.UNSPECIFIED
    """Why."""
    message: str = ""
    """The same for people."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StageTiming:
    """How long a stage took."""

    stage: Stage = Stage.UNSPECIFIED
    """The stage, or a part of one, which follows it."""
    duration_ms: float = 0.0
    """Milliseconds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QuotaUsage:
    """Usage of a quota; doubles, exact to 2^53."""

    quota: Quota = Quota.UNSPECIFIED
    """The quota."""
    used: float = 0.0
    """Amount in use, by documents that the caller may not read, too."""
    limit: float = 0.0
    """Maximum."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatCompleted:
    """Last event of a request that succeeded."""

    finish_reason: FinishReason = FinishReason.UNSPECIFIED
    """Why the answer ended."""
    usage: Usage | None = None
    """Tokens read and written for this request, all model calls included."""
    citations: Sequence[Citation] = ()
    """In the order of their position in the answer, corrections included."""
    validation: Validation | None = None
    """Result of the answer's checks."""
    degraded: Sequence[Degradation] = ()
    """Parts that were skipped, failed or came late; empty without any."""
    timings: Sequence[StageTiming] = ()
    """How long each stage took, in order; a stage that ran twice is there twice."""
    model: str = ""
    """The model that wrote the answer; "extractive" when none did, "tables" if a table was asked, see
    QueryTables."""
    prompt_version: str = ""
    """Version of the prompt template; empty when no model was called."""
    corrected_answer: str = ""
    """The whole answer, if a correction changed it after it was sent: a client that only joins the text of
    its deltas shows this in place of it. Empty if the joined text is the answer, and in the response of
    Answer."""
    nearly_used: Sequence[QuotaUsage] = ()
    """Quotas of tokens and cost of which the caller has used 80 % or more with this answer, or what the
    operator sets instead (QUOTA_WARNING_SHARE). When one is used up, requests are refused (QUOTA_EXHAUSTED).
    Empty without any."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldError:
    """A wrong field of a request."""

    field: str = ""
    """Path of the field, such as "chat_history[2].role"."""
    description: str = ""
    """Description of the mistake."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatError:
    """Last event of a request that failed after it had started. The RPC then ends with the same status."""

    code: int = 0
    """google.rpc.Code number."""
    reason: ErrorReason = ErrorReason.UNSPECIFIED
    """Why, as in the status's ErrorInfo."""
    message: str = ""
    """For people."""
    error_id: str = ""
    """Identifies an internal error in logs and traces; empty for others."""
    retryable: bool = False
    """Whether the same request may succeed later."""
    violations: Sequence[FieldError] = ()
    """Wrong fields, where that is the reason."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnsupportedSentence:
    """A sentence of the answer that its cited passages do not bear out; it stays. Sent once for each, when
    the next sentence has begun or the answer has ended, and only for answers of a language model. Sentences
    that are supported, or that cite nothing, are not told of here; `completed` names the latter."""

    start_offset: int = 0
    """Start in the answer, in Unicode code points, inclusive. The answer is the text as it stands when the
    event comes: all text and corrections before it count, in their order. A later correction moves it; see
    AnswerCorrection."""
    end_offset: int = 0
    """End in the answer, in Unicode code points, exclusive; a marker [n] behind the full stop is not part of
    it."""
    issue: ValidationIssue | None = None
    """Reason: UNSUPPORTED_SENTENCE, or what the passages lack or may have otherwise: NUMBER_NOT_SUPPORTED,
    NAME_NOT_SUPPORTED or CONTRADICTED_SENTENCE."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerCorrection:
    """A change to the text of the answer that was sent before: answer[:start_offset] + text +
    answer[end_offset:].

    A sentence that its cited passages contradict is taken back when the next one has begun or the answer has
    ended, and further text goes on at the end. Behind the last text, other sentences may come in the places
    of those, written in one more call of the model at most. If nothing is left of an answer, a refusal comes.
    Offsets behind end_offset, such as those of an UnsupportedSentence, move by the difference in length.
    """

    start_offset: int = 0
    """Start in the answer, in Unicode code points, inclusive. The answer is the text as it stands when the
    event comes: all text and corrections before it count, in their order."""
    end_offset: int = 0
    """End in the answer, in Unicode code points, exclusive; equal to the start where text is put in only."""
    text: str = ""
    """Text in its place; empty: taken back."""
    issue: ValidationIssue | None = None
    """Reason. Of a sentence that is taken back NUMBER_NOT_SUPPORTED, NAME_NOT_SUPPORTED or
    CONTRADICTED_SENTENCE; of one in its place SENTENCE_CORRECTED; of a refusal NO_SUPPORTING_PASSAGE;
    ANSWER_CORRECTED where a stream that is resumed replaces all its text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatResponse:
    """One event of Chat."""

    sequence: int = 0
    """Counts from 1 without gaps."""
    started: ChatStarted | None = None
    """First event."""
    status: ChatStatus | None = None
    """A stage begins."""
    sources: ChatSources | None = None
    """The passages that the answer may cite."""
    delta: ChatDelta | None = None
    """Text to append."""
    completed: ChatCompleted | None = None
    """Last event, on success."""
    error: ChatError | None = None
    """Last event, on failure."""
    unsupported: UnsupportedSentence | None = None
    """A sentence that stays, although its passages do not bear it out."""
    correction: AnswerCorrection | None = None
    """A change to text that was sent."""
    event_id: str = ""
    """Identifies the event, for resumption; the id of the server-sent event."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerResponse:
    """Response of Answer."""

    thread_id: str = ""
    """The thread."""
    message_id: str = ""
    """The answer's message."""
    trace_id: str = ""
    """W3C trace id of this request; empty where the request is not traced."""
    answer: str = ""
    """The whole answer, with its [n] markers."""
    sources: Sequence[Source] = ()
    """The passages that the answer may cite, in the order of their numbers."""
    completed: ChatCompleted | None = None
    """End of the answer: finish reason, citations, usage."""
    rewritten_query: str = ""
    """Query of the search, if it differs from the question."""
    sub_queries: Sequence[str] = ()
    """The parts of a decomposed question."""
    rewriting_model: str = ""
    """Model that rewrote or decomposed it: a language model, or "rules" without one."""
    corrections: Sequence[Correction] = ()
    """Misspelled words that the search corrected; rewritten_query is the question with the other words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchOptions:
    """Parameters of a search without generation."""

    retrieval: RetrievalOptions | None = None
    """Retrieval parameters."""
    rerank: RerankOptions | None = None
    """Fusion and reranking parameters."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VerifyStarted:
    """First event: the request is valid, and the text is cut into claims."""

    trace_id: str = ""
    """W3C trace id of this request, 32 hex digits; empty where the request is not traced."""
    claim_count: int = 0
    """Number of claims, each of which gets an event."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimEvidence:
    """A sentence of a passage that decides on a claim."""

    source: Source | None = None
    """Its passage, numbered from 1 for each claim in the order in which the search found them."""
    start_offset: int = 0
    """Start of the sentence in the document's extracted text, in Unicode code points, inclusive."""
    end_offset: int = 0
    """End of the sentence in the document's extracted text, in Unicode code points, exclusive."""
    text: str = ""
    """The sentence."""
    words: Sequence[str] = ()
    """Words of the sentence that decide, such as a number that the claim has otherwise. Empty where all of it
    does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VerifiedClaim:
    """A claim and the verdict on it."""

    number: int = 0
    """Counts from 1, in the order of the text."""
    start_offset: int = 0
    """Start in the text, in Unicode code points, inclusive."""
    end_offset: int = 0
    """End in the text, in Unicode code points, exclusive."""
    text: str = ""
    """The claim as it stands there."""
    verdict: Verdict = Verdict.UNSPECIFIED
    """Verdict on it."""
    probability: float = 0.0
    """How likely the verdict is right, 0 to 1; an estimate."""
    reason: ErrorReason = ErrorReason.UNSPECIFIED
    """Kind of contradiction of a claim that is refuted: NUMBER_NOT_SUPPORTED, NAME_NOT_SUPPORTED or
    CONTRADICTED_SENTENCE. UNSUPPORTED_SENTENCE of one that is not found. Not set of one that is supported."""
    message: str = ""
    """The same for people."""
    words: Sequence[str] = ()
    """Words of the claim that decide: those that the passage has otherwise, or that no passage has. Empty
    where all of it does."""
    evidence: Sequence[ClaimEvidence] = ()
    """Sentences that decide, the best first. Of a claim that is not found the nearest one, if there is
    one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedClaims:
    """Number of claims that one judge decided."""

    model: str = ""
    """"rules", "reader" (a small model of the generator), or the name of a language model."""
    claim_count: int = 0
    """Number of claims."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VerifyCompleted:
    """Last event of a request that succeeded."""

    supported_count: int = 0
    """Number of claims that are supported."""
    refuted_count: int = 0
    """Number of claims that are refuted."""
    not_found_count: int = 0
    """Number of claims that no passage decides on."""
    usage: Usage | None = None
    """Tokens read and written for this request, all model calls included."""
    degraded: Sequence[Degradation] = ()
    """Parts that were skipped, failed or came late; empty without any."""
    model: str = ""
    """The model that judged the most claims; "rules" when none did."""
    judged_by: Sequence[JudgedClaims] = ()
    """Who decided how many claims: rules first, a small model what they left open, a language model the
    rest."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VerifyResponse:
    """One event of Verify."""

    sequence: int = 0
    """Counts from 1 without gaps."""
    started: VerifyStarted | None = None
    """First event."""
    claim: VerifiedClaim | None = None
    """A claim is decided."""
    completed: VerifyCompleted | None = None
    """Last event, on success."""
    error: ChatError | None = None
    """Last event, on failure."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Thread:
    """A conversation. Only the caller that began it sees it."""

    thread_id: str = ""
    """Identifier, a UUID."""
    title: str = ""
    """The first question, or what UpdateThread put in its place; 120 characters at most."""
    message_count: int = 0
    """How many messages it holds."""
    create_time: datetime | None = None
    """When it began."""
    update_time: datetime | None = None
    """When its last message was stored."""
    is_pinned: bool = False
    """Whether it comes before the others in lists."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Feedback:
    """Verdict of a caller on an answer. Nobody else sees it, and it is deleted with its thread; logs, traces
    and metrics hold nothing of its comment."""

    rating: Rating = Rating.UNSPECIFIED
    """Whether it was of use."""
    problem: Problem = Problem.UNSPECIFIED
    """Why not; of a bad rating only."""
    comment: str = ""
    """In the caller's own words, 2000 characters at most."""
    update_time: datetime | None = None
    """When it was given; set by the server."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """A stored message of a thread."""

    message_id: str = ""
    """Identifier, a UUID."""
    role: Role = Role.UNSPECIFIED
    """Who wrote it."""
    content: str = ""
    """Its text; empty where it is withheld."""
    sources: Sequence[Source] = ()
    """The passages served for it whose documents are there and may be read by the caller, as they are now;
    without snippet where the collection was indexed again since. Of assistant messages only."""
    citations: Sequence[Citation] = ()
    """Citations, with the part of the source that has most of the supported text's words; of assistant
    messages only."""
    usage: Usage | None = None
    """Tokens read and written for it; of assistant messages only."""
    finish_reason: FinishReason = FinishReason.UNSPECIFIED
    """Why it ended; of assistant messages only."""
    model: str = ""
    """The model that wrote it; of assistant messages only."""
    create_time: datetime | None = None
    """When it was stored."""
    is_withheld: bool = False
    """Whether an answer's text is not shown, because a document that it rests on was deleted or may not be
    read by the caller any more; of assistant messages only."""
    feedback: Feedback | None = None
    """Verdict of the caller on the answer; its comment is left out where the answer is withheld. Of assistant
    messages only."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeleteThreadResponse:
    """Response of DeleteThread."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SigningKey:
    """Public half of a signing key, as a JSON Web Key (RFC 8037)."""

    kty: str = ""
    """"OKP"."""
    crv: str = ""
    """"Ed25519"."""
    x: str = ""
    """The public key, 32 bytes in base64url without padding."""
    kid: str = ""
    """Its name: the thumbprint of RFC 7638."""
    alg: str = ""
    """"EdDSA"."""
    use: str = ""
    """"sig"."""
    create_time: datetime | None = None
    """Since when evidence is signed with it."""
    retire_time: datetime | None = None
    """When another took its place, and its private half was deleted. Not set: it is in use."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ListSigningKeysResponse:
    """Response of ListSigningKeys."""

    keys: Sequence[SigningKey] = ()
    """The one in use, then those before it, the newest first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ListModelsResponse:
    """Response of ListModels."""

    models: Sequence[str] = ()
    """Names as the provider spells them: first the one that answers if neither question nor collection names
    any, then the others that the operator offers. Without a language model it is "extractive" alone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GetQuotasResponse:
    """Response of GetQuotas."""

    quotas: Sequence[QuotaUsage] = ()
    """One for each quota that is set."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UsageSum:
    """Cost and tokens of models: in all, of a day, of a caller or of one model."""

    name: str = ""
    """The day in UTC, such as 2026-11-30; the caller's first principal, empty for callers without one; or the
    model."""
    cost_usd: float = 0.0
    """US dollars that answers, checked texts and documents cost, where the price is known; of a model, what
    its answers did."""
    answers: int = 0
    """Answers in threads that are still stored. Only these have tokens and a model here; a model has all
    tokens of its answers, those of others that rewrote the question or checked the answer among them."""
    prompt_tokens: float = 0.0
    """Tokens that models read for these answers, cached ones included; a double, exact to 2^53, as are the
    two below."""
    cached_tokens: float = 0.0
    """Tokens of the prompts that came from the provider's cache."""
    output_tokens: float = 0.0
    """Tokens written."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GetUsageResponse:
    """Response of GetUsage."""

    total: UsageSum | None = None
    """All of these days together."""
    days: Sequence[UsageSum] = ()
    """Days on which something was used, the newest first."""
    callers: Sequence[UsageSum] = ()
    """Callers that used something, by cost and then by tokens; the first 100."""
    models: Sequence[UsageSum] = ()
    """Models that answered, in the same order; the first 100."""
    quotas: Sequence[QuotaUsage] = ()
    """Quotas that are set, and what is used of them at present: the caller's of tokens and cost if the
    request names one, else the budgets of all callers together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkingSettings:
    """Chunking of a collection."""

    strategy: ChunkingStrategy = ChunkingStrategy.UNSPECIFIED
    """How documents are cut."""
    chunk_size: int | None = None
    """Maximum number of units in a chunk; 400 by default where the strategy is parent_child."""
    chunk_overlap: int | None = None
    """Units that a chunk shares with the one before, less than half of chunk_size; across headings as far as
    chunk_size leaves room, and never with another section or parent where the strategy is sections or
    parent_child. By default a tenth of a chunk_size of 400 or less."""
    unit: ChunkSizeUnit = ChunkSizeUnit.UNSPECIFIED
    """Unit of the sizes."""
    parent_size: int | None = None
    """Maximum number of units in a parent, of parent_child only; by default never less than chunk_size."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextualizationSettings:
    """Contextualization of a collection."""

    mode: ContextualizationMode = ContextualizationMode.UNSPECIFIED
    """Where the text that places a chunk comes from."""
    prompt: str = ""
    """Prompt of the llm mode. Empty: the generator's setting."""
    model: str = ""
    """Model of the llm mode. Empty: the generator's setting."""
    keep_unchanged: bool | None = None
    """Whether a chunk keeps the context that was written for it while its document changes elsewhere: a
    change then rewrites the contexts of the chunks that it is in and of those next to them, and a context may
    say what the rest of the document no longer says. Otherwise a changed document has all of its contexts
    written anew."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PictureSettings:
    """Descriptions of pictures in documents, which a language model writes as documents are brought in.

    Pictures of DOCX, PPTX, XLSX, PDF, ODT, ODP and EPUB, those that HTML holds as data URIs, and files that
    are pictures, are sent to the generator's model provider; of a document the first 100 of a certain size,
    each once. What a model wrote stands in the document's text behind the picture's place, as "[Picture,
    described by a model: …]". It holds for documents brought in from then on, also the same ones again; what
    was described stays so until the document is brought in again.
    """

    described: bool | None = None
    """Whether pictures are described. A picture that no model described, for want of one or since it failed,
    is left out; see IngestionItem.undescribed_picture_count."""
    model: str = ""
    """Model that describes them, one that takes pictures. Empty: the generator's setting."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddingSettings:
    """Embedding of a collection."""

    model: str = ""
    """The model's name, one that runs. Set when the collection is created where it is empty: the default, or,
    for a language that the default does not know, one of many languages that came with the suite. Changing it
    takes ReindexCollection."""
    dimensions: int = 0
    """Length of its vectors. Output only."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VectorIndexSettings:
    """Vector index of a collection. It has one once its chunks are in a partition of their own, from some
    2,000 on."""

    quantized: bool | None = None
    """Whether the index holds three bits for each dimension in place of the vectors, which takes .4 of its
    memory. A search takes eight times what it needs by these bits, at least, and orders that by the vectors,
    for more processor time. For collections whose index outgrows the memory. The bits are tried on a sample
    first: where they would find less than .98 of the nearest, as with multilingual-e5-small, the index stays
    as it is, and GetCollectionStats says so (VECTOR_INDEX_STATE_NOT_QUANTIZED). The index in use serves until
    the other is built, beside it. In Weaviate, where it is in use, objects have a byte for each dimension in
    memory, and are compared again by their vectors on disk; there it holds from the next ReindexCollection
    on, or when the collection first gets a partition of its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LexicalSettings:
    """Lexical indexing of a collection."""

    language: str = ""
    """Language of stemming and stop words, by its English name in lower case, such as "english" or "german";
    "simple" for none. A language that the index has no stemming for is taken as "simple", and the collection
    says so."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessSettings:
    """Who may use a collection. A principal is a name that the gateway gives to a caller, such as
    "user:alice" or "group:staff"; "*" is every caller. A list that is empty when the collection is created or
    changed becomes the caller's own: its first principal. A caller without principals has to fill all
    three."""

    readers: Sequence[str] = ()
    """Principals that may search and read, 1000 at most; "*": every caller."""
    writers: Sequence[str] = ()
    """Principals that may bring documents in, change and delete them, 1000 at most; they may also read."""
    admins: Sequence[str] = ()
    """Principals that may change name, settings and access, index the collection again and delete it, 1000 at
    most; they may also write and read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CrawlSettings:
    """Crawling of web sites into a collection."""

    allow_private_addresses: bool | None = None
    """Whether pages may come from, and sources and webhooks be at, private, loopback, link-local and other
    addresses that are not the internet's. Whoever may write the collection then reaches what the ingestor
    reaches."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerationLimits:
    """How far a request may depart from what a collection sets for answers. A request beyond a limit is
    refused with INVALID_ARGUMENT. Where several collections are searched, the limits of each hold."""

    models: Sequence[str] = ()
    """Models that a request may name, 100 at most. Empty: any."""
    max_temperature: float | None = None
    """Highest sampling temperature, 0 to 2. Not set: no limit."""
    max_output_tokens: int | None = None
    """Highest max_output_tokens, 1 to 32768. Not set: no limit."""
    max_top_k: int | None = None
    """Highest top_k of reranking, 1 to 100. Not set: no limit."""
    lowest_min_relevance: float | None = None
    """Lowest min_relevance, 0 to 1: a request cannot make refusals rarer than this. Not set: no limit."""
    fixed_prompt: bool | None = None
    """Whether requests must leave system_prompt and prompt_template alone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Webhook:
    """An address that is told when a job of the collection has ended, whatever came of it, by a POST of JSON
    that is signed as Standard Webhooks has it: webhook-id, webhook-timestamp and webhook-signature are
    headers. Its data are the job as GetJob shows it to one who may see all of it, without items and text of
    documents. What is not answered with 2xx within 15 seconds is sent again, 8 times in all over 28 hours,
    with the same webhook-id. One job may be told of twice, and again when it has ended after RetryJob."""

    url: str = ""
    """Address, https, or http if crawl.allow_private_addresses is true. Redirects are not followed, and
    addresses are reached as by a crawl. Whoever may read the collection sees it."""
    secret: str = ""
    """Secret of the collection that holds the key: "whsec_" and 24 to 64 bytes in base64."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HistorySettings:
    """Retention of the revisions of a document that were replaced, with text, title, metadata and access. One
    stays while any of these holds, and as long as a stored answer cites it, whatever is set here; all of them
    go with the document when it is deleted. Segments of text that several revisions of a document have are
    stored once. What is no longer to be kept is dropped within an hour."""

    revisions: int = 0
    """How many replaced revisions of each document are kept, the newest, 10000 at most."""
    days: int = 0
    """For how many days a revision is kept after it was replaced, 36500 at most."""
    everything: bool | None = None
    """Whether all are kept."""
    searchable: bool | None = None
    """Whether the chunks of replaced revisions are kept with them, for searches with as_of. It needs `days`
    or `everything`, and holds from when it is set: the past begins then. Chunks that a new revision leaves as
    they were are stored once. It begins anew with a re-index by another embedding model or language, and ends
    when it is no longer set."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CalibrationPoint:
    """A point of a map of confidence."""

    confidence: float = 0.0
    """Confidence before the map, 0 to 1."""
    probability: float = 0.0
    """Probability that such an answer is right, 0 to 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """A map of confidence: straight between its points, level beyond the first and the last."""

    points: Sequence[CalibrationPoint] = ()
    """By rising confidence; the probability never falls. 20 at most; none: confidence stays as it is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CollectionSettings:
    """Settings of a collection, which are the defaults of the requests that use it."""

    chunking: ChunkingSettings | None = None
    """Chunking."""
    contextualization: ContextualizationSettings | None = None
    """Contextualization."""
    pictures: PictureSettings | None = None
    """Descriptions of pictures."""
    embedding: EmbeddingSettings | None = None
    """Embedding."""
    vector_index: VectorIndexSettings | None = None
    """Vector index, which may change at any time."""
    lexical: LexicalSettings | None = None
    """Lexical indexing."""
    retrieval: RetrievalOptions | None = None
    """Defaults of retrieval."""
    rerank: RerankOptions | None = None
    """Defaults of fusion and reranking."""
    generation: GenerationOptions | None = None
    """Defaults of answers."""
    access: AccessSettings | None = None
    """Who may use it."""
    crawl: CrawlSettings | None = None
    """Crawling."""
    generation_limits: GenerationLimits | None = None
    """Limits of requests' changes of rerank.top_k and generation. Not set: no limits."""
    keep_originals: bool | None = None
    """Whether documents are kept as they were handed in, to be fetched by DownloadDocument, which takes their
    size again in the database. It holds for documents brought in from then on."""
    original_readers: Sequence[str] = ()
    """Principals that may download originals, beside who may write, 1000 at most. Empty: whoever may read.
    Pictures of pages and extracted texts are for every reader."""
    webhooks: Sequence[Webhook] = ()
    """Addresses that are told when a job has ended, each of them once. Those that are set when it ends are
    told."""
    history: HistorySettings | None = None
    """Retention of replaced revisions of documents. Not set: those that answers cite."""
    calibration: Calibration | None = None
    """Map from the confidence of answers to the share of right ones among them, made by `groundline
    calibrate`. It counts for requests that ask this collection alone. Not set: confidence stays as it is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Collection:
    """A set of documents that are searched together, with one embedding model and one lexical language."""

    collection_id: str = ""
    """Identifier, chosen by its creator: lower-case letters, digits, "_" and "-", 1 to 63 characters,
    beginning with a letter or digit."""
    name: str = ""
    """Name for people, 200 characters at most."""
    settings: CollectionSettings | None = None
    """Settings; those not set are shown with their defaults where the collection itself decides them."""
    document_count: int = 0
    """How many documents that the caller may read are searchable."""
    chunk_count: int = 0
    """How many chunks of these documents are searchable."""
    create_time: datetime | None = None
    """When it was created."""
    update_time: datetime | None = None
    """When its name or settings last changed."""
    has_previous_index: bool = False
    """Whether the index before is kept; see RevertIndex."""
    etag: str = ""
    """Entity tag: a text that differs whenever name or settings do; see UpdateCollectionRequest.etag."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeleteCollectionResponse:
    """Response of DeleteCollection."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkCounts:
    """Chunks that passed each stage. When an item is done, all four are equal."""

    parsed: int = 0
    """Cut from the text."""
    contextualized: int = 0
    """Given their context."""
    embedded: int = 0
    """Embedded."""
    stored: int = 0
    """Written."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IngestionJob:
    """Documents on their way into a collection. Its numbers count the items that the caller may see: all of a
    job of its own, of another's those whose document it may read."""

    job_id: str = ""
    """Identifier, a UUID."""
    collection_id: str = ""
    """The collection."""
    state: JobState = JobState.UNSPECIFIED
    """How far it has come."""
    item_count: int = 0
    """Documents in it, with those found so far by a crawl and within others. A crawl that failed or was
    cancelled counts as one as well."""
    done_count: int = 0
    """Documents that are done, the unchanged and the skipped ones included."""
    unchanged_count: int = 0
    """Documents that were done and had not changed."""
    failed_count: int = 0
    """Documents that failed."""
    cancelled_count: int = 0
    """Documents that were cancelled."""
    chunks: ChunkCounts | None = None
    """Chunks of all items."""
    usage: Usage | None = None
    """Tokens of all items."""
    create_time: datetime | None = None
    """When it was stored."""
    start_time: datetime | None = None
    """When it was first begun."""
    end_time: datetime | None = None
    """When it ended."""
    position: str = ""
    """Set once it has ended: a position in what was written to the database, at which all that the job did is
    there. As the min_position of a search or question it makes sure that they see it, wherever they read.
    Opaque; a later request may give another one of the same job."""
    deleted_count: int = 0
    """Documents that a run of a source deleted, since they have gone from it; in a dry run its items name
    them instead."""
    is_dry_run: bool = False
    """Whether it takes nothing in: the outcomes of its items are what there would be."""
    skipped_count: int = 0
    """Files within documents that were skipped; see INGESTION_OUTCOME_SKIPPED."""
    is_held: bool = False
    """Whether it is a re-index whose index is complete and waits for SwapIndex or CancelJob."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReclaimIndexResponse:
    """Response of ReclaimIndex."""

    was_kept: bool = False
    """Whether an index was kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StateCount:
    """Documents in one state."""

    state: IngestionState = IngestionState.UNSPECIFIED
    """The state."""
    document_count: int = 0
    """Documents in it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CollectionStats:
    """Figures of a collection's documents that the caller may read. Byte and token counts are doubles, exact
    to 2^53."""

    states: Sequence[StateCount] = ()
    """Documents in each state."""
    chunk_count: int = 0
    """Searchable chunks."""
    vector_count: int = 0
    """Searchable chunks with an embedding."""
    orphan_count: int = 0
    """Chunks whose document does not exist; always 0 in a sound database."""
    document_bytes: float = 0.0
    """Bytes of the documents as handed in."""
    text_bytes: float = 0.0
    """Bytes of the chunks' texts."""
    storage_bytes: float = 0.0
    """Bytes of table and indexes, by the share of chunks."""
    token_count: float = 0.0
    """Tokens of the chunks, by the embedding model."""
    vector_index: VectorIndexState = VectorIndexState.UNSPECIFIED
    """How vectors are searched."""
    quotas: Sequence[QuotaUsage] = ()
    """Quotas of the caller, for who may write the collection, and those of the collection, for who may
    administer it: they count documents that a writer may not read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectContent:
    """A structured record, serialised field by field. Its own "uri", else "uuid", identifies it where
    DocumentInput.uri is empty; "uuid" is shown in the metadata."""

    properties: dict[str, Any] | None = None
    """The record's fields."""
    schema: str = ""
    """Name of the record's type, such as "product"; shown as "schema" in the metadata, unless that has
    one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentInput:
    """A document as it is handed in.

    A mail or a ZIP archive, however its content is given, becomes several documents: one of its own (a mail's
    headers and text, or the names of an archive's members), and one for each attachment or member, at all
    depths, with the uri "<uri of what it is in>!/<name>", such as "mails/offer.eml!/prices.xlsx". They get
    the metadata and the allowed principals of the document that they are in, are replaced with it and deleted
    with it. At most 1000 of them, 3 deep; what cannot be read is skipped (see INGESTION_OUTCOME_SKIPPED).
    """

    uri: str = ""
    """Identifier within its collection: a path, a URL, a key; 2000 characters and 2500 bytes of UTF-8 at
    most. Handing in the same uri again replaces the document. Empty: a name made from the content's hash, so
    that the same content is one document."""
    title: str = ""
    """Title, 500 characters at most. Empty: what the document calls itself, its first heading, else the uri's
    last part."""
    text: str | None = None
    """Text as it is."""
    data: bytes | None = None
    """Bytes of a file (base64 in JSON)."""
    object: ObjectContent | None = None
    """A structured record."""
    mime_type: str = ""
    """MIME type. Empty: from the content, with the uri's extension as a hint. Binary formats are told by
    their content whatever is said here. Ignored for an object."""
    metadata: dict[str, Any] | None = None
    """Anything to filter by and to show, 64 KiB as JSON at most. The front matter of a Markdown document,
    YAML between lines of three hyphens before its text, is added to it; what is given here goes before it."""
    allowed_principals: Sequence[str] = ()
    """Principals that may read it, 1000 at most. Empty, or with "*" in it: whoever may read the
    collection."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WebCrawl:
    """Pages of a web site to ingest: those to which links and the site's sitemaps lead from the start, on its
    host, but for those that robots.txt forbids or that ask not to be indexed. One that names another of the
    host its canonical address is stored under that one."""

    start_url: str = ""
    """Where to begin, http or https."""
    max_pages: int = 0
    """Maximum number of pages."""
    max_depth: int | None = None
    """Maximum number of links from the start; pages of a sitemap count as one link away."""
    include_paths: Sequence[str] = ()
    """Path patterns (with * and **) of pages to take. Empty: all of the start's host."""
    exclude_paths: Sequence[str] = ()
    """Path patterns of pages to leave out."""
    delay_seconds: float | None = None
    """Seconds between two requests to a host, 0 to 60. Not set: 1, or what robots.txt asks for."""
    metadata: dict[str, Any] | None = None
    """Metadata of every page; see DocumentInput.metadata."""
    allowed_principals: Sequence[str] = ()
    """Who may read every page; see DocumentInput.allowed_principals."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IngestionFailure:
    """Why an ingestion failed."""

    stage: IngestionState = IngestionState.UNSPECIFIED
    """The state it was in."""
    reason: ErrorReason = ErrorReason.UNSPECIFIED
    """Why, such as UNSUPPORTED_TYPE."""
    message: str = ""
    """The same for people."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IngestionItem:
    """One document of a job, or the crawl that finds its documents. Attachments of a mail and members of an
    archive are items of their own, which join the job when the mail or the archive is stored."""

    document_id: str = ""
    """The document; empty until it is known."""
    uri: str = ""
    """Identifier of the document within its collection; for a crawl, its start."""
    state: IngestionState = IngestionState.UNSPECIFIED
    """How far it has come."""
    outcome: IngestionOutcome = IngestionOutcome.UNSPECIFIED
    """Effect, or in a dry run the expected one, once it is done."""
    failure: IngestionFailure | None = None
    """Why it failed or was skipped; not set where it was not."""
    attempts: int = 0
    """How often it was begun, those times included that do not count against the maximum."""
    chunks: ChunkCounts | None = None
    """Its chunks."""
    usage: Usage | None = None
    """Tokens that its contextualization and the descriptions of its pictures read and wrote, with their
    price, and that its embedding read, in all attempts."""
    is_crawl: bool = False
    """Whether it is the job's crawl, or the run of a source, whose documents are items of their own. It is
    EXTRACTING while it goes from one to the next."""
    item_index: int = 0
    """Its place in the job, from 0."""
    container_uri: str = ""
    """The uri of the document that it was found within; empty where it was handed in, or found by a crawl or
    a source."""
    member_count: int = 0
    """How many items were made of the files within it, at all depths, skipped and failed ones included; 0
    until it is done."""
    undescribed_picture_count: int = 0
    """How many of its pictures were to be described and are not, since no model could be asked or it failed.
    Brought in again, the document is read again, and only these are asked for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IngestDocumentsResponse:
    """Response of IngestDocuments."""

    job: IngestionJob | None = None
    """The job; it may have ended already."""
    items: Sequence[IngestionItem] = ()
    """Its first items, 1000 at most."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UploadDocumentResponse:
    """Response of UploadDocument."""

    job: IngestionJob | None = None
    """The job."""
    item: IngestionItem | None = None
    """Its item."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A document of a collection."""

    document_id: str = ""
    """Identifier, a UUID; it stays the same when the document is replaced."""
    collection_id: str = ""
    """Its collection."""
    source_type: SourceType = SourceType.UNSPECIFIED
    """Where it came from."""
    uri: str = ""
    """Identifier within its collection."""
    title: str = ""
    """Title."""
    mime_type: str = ""
    """MIME type."""
    content_hash: str = ""
    """SHA-256 of what was handed in, 64 hex digits."""
    metadata: dict[str, Any] | None = None
    """Metadata."""
    allowed_principals: Sequence[str] = ()
    """Principals that may read it. Empty: whoever may read the collection."""
    state: IngestionState = IngestionState.UNSPECIFIED
    """How far its last ingestion came."""
    chunk_count: int = 0
    """How many of its chunks are searchable."""
    size_bytes: int = 0
    """Size of what was handed in, in bytes."""
    failure: IngestionFailure | None = None
    """Why its last ingestion failed; not set where it did not."""
    create_time: datetime | None = None
    """When it was first handed in."""
    update_time: datetime | None = None
    """When its content or metadata last changed."""
    has_original: bool = False
    """Whether DownloadDocument has what was handed in."""
    container_uri: str = ""
    """The uri of the mail or archive that it is an attachment or member of; empty where it is none. To filter
    by it is "$container_uri"."""
    revision: str = ""
    """The revision in use; see Revision."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GetDocumentTextResponse:
    """Response of GetDocumentText."""

    text: str = ""
    """The text from start_offset to end_offset; empty behind the end, and of a document that has not been
    read yet. Form feeds stand between pages."""
    start_offset: int = 0
    """Where it begins in the whole text, in Unicode code points, inclusive."""
    end_offset: int = 0
    """Where it ends in the whole text, in Unicode code points, exclusive: where to go on, unless it is
    character_count."""
    character_count: int = 0
    """Characters of the whole text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Provenance:
    """Who stored a revision of a document, and what made its text and its chunks."""

    stored_by: str = ""
    """First principal of the caller that handed it in, changed its metadata or put it back; of a source, its
    creator's."""
    job_id: str = ""
    """The job that did it."""
    reader: str = ""
    """Reader that read the text out of the file, with its version, such as "pdf.reader 0.1.0"; empty where it
    was handed in as text, or put back from an earlier revision."""
    chunking: ChunkingSettings | None = None
    """How it was last cut into chunks."""
    pipeline_version: int = 0
    """Version of the ingestion's steps when it was stored; the same content of the same version gives the
    same chunks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Revision:
    """A revision of a document: what was stored of it at a time. It never changes, and is named by its
    content: text, title, metadata and access. Storing the same again makes none."""

    revision: str = ""
    """Its name, 32 hex digits, unique in the document."""
    is_current: bool = False
    """Whether it is the one in use."""
    title: str = ""
    """Title."""
    mime_type: str = ""
    """MIME type."""
    source_type: SourceType = SourceType.UNSPECIFIED
    """Where it came from."""
    content_hash: str = ""
    """SHA-256 of what was handed in, 64 hex digits."""
    size_bytes: int = 0
    """Size of what was handed in, in bytes."""
    metadata: dict[str, Any] | None = None
    """Metadata."""
    allowed_principals: Sequence[str] = ()
    """Principals that might read it. Empty: whoever may read the collection."""
    store_time: datetime | None = None
    """Since when it was the one in use."""
    replace_time: datetime | None = None
    """When it was replaced; not set of the one in use."""
    has_original: bool = False
    """Whether DownloadDocument has what was handed in."""
    provenance: Provenance | None = None
    """Who stored it, and what made it; not set where a bulk import or an earlier release did."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedText:
    """A stretch of text in a comparison."""

    change: TextChange = TextChange.UNSPECIFIED
    """Who has it."""
    text: str = ""
    """The stretch. A long one that both have is cut in its middle, where an ellipsis stands, unless the part
    of a text that was asked for is compared."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CompareRevisionsResponse:
    """Response of CompareRevisions."""

    fate: TextFate = TextFate.UNSPECIFIED
    """Fate of the part; of whole texts SAME or CHANGED."""
    other_revision: str = ""
    """The second revision."""
    start_offset: int = 0
    """Where the part, or what it became, begins in the second revision's text, in Unicode code points; 0 if
    it is gone."""
    end_offset: int = 0
    """Where it ends, exclusive."""
    texts: Sequence[ComparedText] = ()
    """Both texts in stretches, in their order; those that both have give with the deleted ones the first
    text, with the inserted ones the second. 10,000 at most."""
    is_cut: bool = False
    """Whether there were more of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RestoreRevisionResponse:
    """Response of RestoreRevision."""

    job: IngestionJob | None = None
    """The job."""
    item: IngestionItem | None = None
    """Its item."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SetLegalHoldResponse:
    """Response of SetLegalHold."""

    changed_count: int = 0
    """Number of holds that were set, changed or released."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LegalHold:
    """A legal hold."""

    document_id: str = ""
    """The document; empty for a thread and for the whole collection."""
    uri: str = ""
    """The document's uri; empty for a thread and for the whole collection."""
    reason: str = ""
    """The reason that was given."""
    create_time: datetime | None = None
    """Since when."""
    thread_id: str = ""
    """The thread; empty for documents and for the whole collection."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Erasure:
    """A deletion of documents for good: with their texts, chunks, contexts, cached vectors, originals and
    revisions, and the answers that rest on them, in one transaction. It holds no text, title or uri."""

    erasure_id: str = ""
    """Identifier, a UUID."""
    collection_id: str = ""
    """The collection."""
    is_collection: bool = False
    """Whether it was deleted whole."""
    erase_time: datetime | None = None
    """When."""
    document_count: int = 0
    """Number of documents."""
    revision_count: int = 0
    """Number of their replaced revisions."""
    chunk_count: int = 0
    """Number of their chunks."""
    answer_count: int = 0
    """Number of answers that named a revision of them as a source."""
    content_hashes: Sequence[str] = ()
    """SHA-256 of what was handed in, of all revisions, each once, 64 hex digits; the first 1000 in their
    order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunk:
    """A stored piece of a document, the unit of retrieval."""

    chunk_id: str = ""
    """Identifier, unique in the installation."""
    document_id: str = ""
    """The document it is part of."""
    collection_id: str = ""
    """The collection it is in."""
    chunk_index: int = 0
    """Position within the document, from 0."""
    text: str = ""
    """The chunk's own text, exactly as in the document."""
    context: str = ""
    """The text that places the chunk in its document; it was embedded and indexed together with the chunk."""
    title: str = ""
    """Title of the document."""
    uri: str = ""
    """Where the document is found: a path, a URL, or the identifier it was ingested under."""
    source_type: SourceType = SourceType.UNSPECIFIED
    """Where the document came from."""
    mime_type: str = ""
    """MIME type of the document."""
    start_offset: int = 0
    """Start in the document's extracted text, in Unicode code points, inclusive."""
    end_offset: int = 0
    """End in the document's extracted text, in Unicode code points, exclusive."""
    metadata: dict[str, Any] | None = None
    """Metadata of the document, and where the document has pages and no metadata of that name, the number of
    the page that the text begins on as "page", from 1. Of a text that goes over a page's end also "lastPage"
    and "pages", a list of all of them. A filter on "page" selects every chunk whose text touches that page.
    `promptInjection` is true where its text, or the document's title, name or metadata, looks like
    instructions to an assistant; a document cannot set it."""
    update_time: datetime | None = None
    """When the document was last changed."""
    has_original: bool = False
    """Whether DownloadDocument has the document as it was handed in."""
    revision: str = ""
    """The document's revision that it is part of; see Revision."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeleteDocumentResponse:
    """Response of DeleteDocument."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeleteDocumentsResponse:
    """Response of DeleteDocuments."""

    deleted_count: int = 0
    """How many were deleted, those within others included; with dry_run, how many would be."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WatchJobResponse:
    """One state of a watched job."""

    job: IngestionJob | None = None
    """The job as it is now."""
    items: Sequence[IngestionItem] = ()
    """Items that changed since the last response; at first the failed ones."""
    event_id: str = ""
    """Identifies this state, for resumption; the id of the server-sent event."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RevertCount:
    """Documents of one action."""

    action: RevertAction = RevertAction.UNSPECIFIED
    """The action."""
    document_count: int = 0
    """Number of documents."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RevertedDocument:
    """A document of a job that is taken back."""

    document_id: str = ""
    """The document."""
    uri: str = ""
    """Its uri."""
    action: RevertAction = RevertAction.UNSPECIFIED
    """The effect."""
    revision: str = ""
    """The revision that is put back, or would be; empty for one that is deleted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RevertJobResponse:
    """Response of RevertJob."""

    job: IngestionJob | None = None
    """The job that puts revisions back; not set if none is, and in a dry run."""
    counts: Sequence[RevertCount] = ()
    """Documents by action, those without any left out."""
    documents: Sequence[RevertedDocument] = ()
    """The documents by their uris, the first 1000."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DirectorySource:
    """Files of a directory that the collector sees. Those whose name begins with "." and symbolic links are
    left out."""

    path: str = ""
    """Its absolute path, at or below one of the collector's SOURCE_DIRECTORIES."""


@dataclass(frozen=True, kw_only=True, slots=True)
class S3Source:
    """Objects of a bucket behind the API of Amazon S3."""

    endpoint_url: str = ""
    """Address of the storage, http or https, without a path."""
    bucket: str = ""
    """The bucket."""
    prefix: str = ""
    """Only objects whose key begins so. Paths count from here."""
    region: str = ""
    """Region."""
    access_key_secret: str = ""
    """Secret that holds the access key. Empty, together with secret_key_secret: without credentials."""
    secret_key_secret: str = ""
    """Secret that holds the secret key."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GitSource:
    """Files of a branch of a git repository."""

    url: str = ""
    """Where it is cloned from, http or https, without credentials."""
    branch: str = ""
    """The branch. Empty: the one that the repository names as its head."""
    path: str = ""
    """Only files below this folder. Paths count from here."""
    username: str = ""
    """User name; without a password_secret none is sent."""
    password_secret: str = ""
    """Secret that holds the password or token. Empty: without credentials."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PostgresSource:
    """Rows of a query to PostgreSQL, each of them a document. The query runs in a transaction that may only
    read."""

    url_secret: str = ""
    """Secret that holds the connection URL, such as
    postgresql://reader:…@db.example:5432/tickets?sslmode=verify-full."""
    query: str = ""
    """One SELECT. Every run reads all its rows, unless there is an update_column."""
    id_column: str = ""
    """Column that identifies a row; it is a document's path."""
    update_column: str = ""
    """Column that is set anew, and higher than all others, with every change of a row, such as a time of
    update. A run then reads the rows that are not below its highest value of the run before, and of all
    others only their ids. Empty: all rows are read."""
    text_template: str = ""
    """Text of a document, in which {column} stands for the value of a column; {{ and }} are braces. Empty:
    all columns as a JSON object."""
    title_column: str = ""
    """Column that holds the title. Empty: none."""
    metadata_columns: Sequence[str] = ()
    """Columns that become metadata of the same names."""
    statement_timeout_seconds: int = 0
    """Maximum seconds of one statement."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WebSource:
    """Pages of a web site, found as those of IngestDocumentsRequest.crawl. Those that have not changed since
    the last run are not read again."""

    start_url: str = ""
    """Where to begin, http or https."""
    max_pages: int = 0
    """Maximum number of pages. A run that finds more deletes nothing."""
    max_depth: int | None = None
    """Maximum number of links from the start; pages of a sitemap count as one link away."""
    delay_seconds: float | None = None
    """Seconds between two requests to a host, 0 to 60. Not set: 1, or what robots.txt asks for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedSource:
    """Entries of an RSS or Atom feed, each of them a document. Its metadata are the entry's author, its
    categories, and when it was published and updated, in ISO 8601.

    A document's uri is the entry's link if that is on the feed's host, begins with the source's uri_prefix,
    or is the page that was read (linked_pages). Another entry has the feed's address with "#" and its id as
    its uri, since a feed does not speak for other sites; its link is in its metadata as "link".

    A feed shows its latest entries: those that have left it stay.
    """

    url: str = ""
    """Where the feed is, http or https, without credentials."""
    linked_pages: bool = False
    """Takes the page that an entry links to instead of what the feed says of it. The page is read when the
    entry is new or has changed, as a page of a web site is: robots.txt holds for it, and there is a second
    between two pages."""
    username: str = ""
    """User name for the feed itself. Empty, together with password_secret: without credentials."""
    password_secret: str = ""
    """Secret that holds the password."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImapSource:
    """Mails of an account on an IMAP server, each of them a document with its attachments, whose path is its
    Message-ID. So a mail that is in several folders, or is moved, is one document. Its metadata are the
    folder, the Message-ID, who it is from and to, and its date, in ISO 8601."""

    host: str = ""
    """The server. Its certificate must be valid for this name."""
    port: int = 0
    """Port. 0: 993, or 143 with starttls."""
    starttls: bool = False
    """Encrypts the connection by STARTTLS, before anything else is said. Not set: it is encrypted from its
    beginning."""
    username: str = ""
    """User name."""
    password_secret: str = ""
    """Secret that holds the password."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MboxSource:
    """Mails of mbox files that the collector sees, as those of an ImapSource; a file is a folder, by its
    path."""

    path: str = ""
    """Absolute path of a file, or of a directory whose mbox files are read, at or below one of the
    collector's SOURCE_DIRECTORIES. Files whose name begins with "." and symbolic links are left out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PluginSource:
    """Documents of a kind of source that the collector's operator has installed as a plug-in."""

    kind: str = ""
    """Name of the kind, as the plug-in gives it: lower-case letters, digits and "_"."""
    settings: dict[str, Any] | None = None
    """Settings, as the plug-in declares them. The collector checks them when the source is created or
    changed, and at each run: an unknown or wrong one is INVALID_ARGUMENT and named. Secrets are named, and
    never given: a setting whose name ends in "_secret" is the name of a secret."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentSource:
    """Source that a collection follows. A run ingests new and changed documents and deletes those that were
    deleted from the source; a run that could not see all of it deletes none.

    A document belongs to who brought it first: a source that finds the uri of a document that another source
    brought, or somebody handed in, fails with URI_OF_OTHER_SOURCE for it, and neither replaces nor deletes
    it. Runs act by the rights of who created the source, or last changed what it reads.
    """

    source_id: str = ""
    """Identifier, a UUID; set by the service."""
    collection_id: str = ""
    """Its collection; set by the service."""
    name: str = ""
    """Name for people, one of its own among the collection's sources."""
    directory: DirectorySource | None = None
    """A directory."""
    s3: S3Source | None = None
    """A bucket."""
    git: GitSource | None = None
    """A git repository."""
    postgres: PostgresSource | None = None
    """A query."""
    web: WebSource | None = None
    """A web site."""
    feed: FeedSource | None = None
    """An RSS or Atom feed."""
    imap: ImapSource | None = None
    """Folders of a mail account."""
    mbox: MboxSource | None = None
    """Mail in files."""
    plugin: PluginSource | None = None
    """Kind that a plug-in brings."""
    uri_prefix: str = ""
    """Prefix that makes a document's path its uri, such as https://git.example/docs/blob/main/. Empty: no
    prefix for a directory and for git, s3://bucket/prefix for a bucket, the source's name and "/" for a
    query, for mail and for a plug-in. Not for a web site, whose pages have their address. For a feed it is
    put before nothing, but names the site, other than its own, whose addresses its entries may have as their
    uris."""
    include_paths: Sequence[str] = ()
    """Patterns (with * and **) of paths to take, such as "**.md". Empty: all. For a web site and a feed they
    are of an address's path, and begin with "/" or "*". For mail they are of folders, such as "INBOX" or
    "Projects/**"; empty: all folders but those that the server marks as drafts, junk and trash."""
    exclude_paths: Sequence[str] = ()
    """Patterns of paths to leave out."""
    metadata: dict[str, Any] | None = None
    """Metadata of every document; see DocumentInput.metadata."""
    allowed_principals: Sequence[str] = ()
    """Who may read every document; see DocumentInput.allowed_principals. A document that the kind of source
    says this of has that instead."""
    interval_seconds: int | None = None
    """Seconds between the beginnings of two runs, 10 % more or less by chance, so that sources do not run in
    step; 60 to 31 days. Not set: it runs only when it is asked to."""
    create_time: datetime | None = None
    """When it was created; set by the service."""
    next_run_time: datetime | None = None
    """When it runs next by itself; set by the service."""
    last_job: IngestionJob | None = None
    """The last run, which may be at work; set by the service."""
    document_count: int = 0
    """Documents that it has brought and that have not gone; set by the service."""
    is_paused: bool = False
    """Whether it runs only when it is asked to, whatever its interval. What it knows of its documents
    stays."""
    etag: str = ""
    """Entity tag: a text that differs whenever what its creator sets does; set by the service. See
    UpdateSourceRequest.etag."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeleteSourceResponse:
    """Response of DeleteSource."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Alternative:
    """A near-duplicate of a passage."""

    chunk: Chunk | None = None
    """The near-duplicate."""
    similarity: float = 0.0
    """Its similarity to the passage, 0 to 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TextSpan:
    """Part of a text, in Unicode code points from its beginning."""

    start_offset: int = 0
    """Start, inclusive."""
    end_offset: int = 0
    """End, exclusive."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Highlights:
    """Where the text of a passage's chunk has words of the query."""

    words: Sequence[TextSpan] = ()
    """The first 200 words that match, in their order: those with the stem of a word of the query, by the
    collection's language and without its stop words. Empty for a passage that was found by its meaning alone,
    or by its title."""
    snippet: TextSpan | None = None
    """The part of the text with most of them, 400 characters at most, from the beginning of a sentence or
    word to the end of a word. Without any the beginning of the text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Passage:
    """A chunk in its final place."""

    chunk: Chunk | None = None
    """The chunk."""
    score: float = 0.0
    """Final score; higher is better, comparable within one response only."""
    explanation: ScoreExplanation | None = None
    """Why it stands here."""
    alternatives: Sequence[Alternative] = ()
    """Near-duplicates that it stands for, best first."""
    adjacent_chunks: Sequence[Chunk] = ()
    """Chunks next to it in its document, in document order, where they were asked for."""
    vector: Sequence[float] = ()
    """The chunk's vector by the collection's embedding model, in half precision, where it was asked for."""
    highlights: Highlights | None = None
    """Where the chunk's text has words of the query, where it was asked for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CutPassage:
    """A candidate that was not returned."""

    chunk_id: str = ""
    """The chunk."""
    rule: CutRule = CutRule.UNSPECIFIED
    """The rule that removed it."""
    explanation: ScoreExplanation | None = None
    """Why it stood where it stood."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FacetValue:
    """A value of a field, and how many documents have it."""

    value: Any | None = None
    """A string of 256 characters at most as JSON writes it (longer ones are not counted), a number, a boolean
    or null. Of a list each element is one."""
    document_count: int = 0
    """Number of documents."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Facet:
    """Values of a field of documents."""

    field: str = ""
    """The field, as the request names it."""
    values: Sequence[FacetValue] = ()
    """Its values, those of most documents first."""
    has_more: bool = False
    """Whether there are more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchResponse:
    """Response of Search."""

    passages: Sequence[Passage] = ()
    """Best first."""
    degraded: Sequence[Degradation] = ()
    """Parts that were skipped, failed or came late; empty without any."""
    timings: Sequence[StageTiming] = ()
    """How long each stage took, in order."""
    trace_id: str = ""
    """W3C trace id of this request; empty where the request is not traced."""
    cut: Sequence[CutPassage] = ()
    """Passages that were cut and why, if requested."""
    is_weak: bool | None = None
    """Whether no hit reaches weak_similarity. Not set without weak_similarity."""
    facets: Sequence[Facet] = ()
    """Counts for each of the request's facets, in their order; empty if they could not be made in time, which
    degraded says."""
    corrections: Sequence[Correction] = ()
    """Words that were corrected; the passages are those of the corrected query."""
    multilingual_collection_ids: Sequence[str] = ()
    """Collections of the passages, by id, whose embedding model is known to put texts of different languages
    side by side: there a similarity also counts if passage and query are in two languages."""
    usage: Usage | None = None
    """Usage of hosted models: to embed the queries, unless that was done lately, and to rerank. Empty if they
    are local."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TableCondition:
    """Condition on the rows of a table. An empty cell, or one without a number in a column of numbers, meets
    none."""

    column: int = 0
    """The column."""
    operator: TableOperator = TableOperator.UNSPECIFIED
    """How its cells are compared. Texts are compared without regard to case; only EQUAL, NOT_EQUAL and
    CONTAINS take them."""
    values: Sequence[str] = ()
    """Texts that they are compared with; more than one only for EQUAL, NOT_EQUAL and CONTAINS. A number may
    have a unit that is converted into the column's; a date is written as 2024-05-31 or 2024-05-31 18:30; yes
    and no are true and false."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TableGroupCondition:
    """Condition on what is computed of a group. A group without a value meets none."""

    operator: TableOperator = TableOperator.UNSPECIFIED
    """How the value is compared; not TABLE_OPERATOR_CONTAINS."""
    value: str = ""
    """Value that it is compared with, as in TableCondition.values: a number, or a date if the least or the
    latest one is computed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TableJoin:
    """Another table of the same document whose rows are looked up. Its columns are numbered on from those of
    the plan's table: beside one of four columns its first is 4. A row that finds none has empty cells in
    them."""

    table_index: int = 0
    """Place of the other table in the document."""
    column: int = 0
    """Column of the plan's table whose cells name a row of the other one, such as a part number."""
    joined_column: int = 0
    """Column of the other table that has the same cells, without regard to case, each once; numbered as it is
    there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TablePlan:
    """Question to a table, in a closed grammar. Totals are left out of everything but conditions that name
    them: rows called "Total", "Summe" or the like, and at the end of a table those whose name begins so, or
    in which two columns add up."""

    document_id: str = ""
    """The document."""
    table_index: int = 0
    """Place of the table in the document."""
    conditions: Sequence[TableCondition] = ()
    """Conditions, all of which a row meets."""
    columns: Sequence[int] = ()
    """Columns to return of each row; empty: all of them. Not for a function."""
    function: TableFunction = TableFunction.UNSPECIFIED
    """Function to compute."""
    function_column: int | None = None
    """Column that it is computed of; for every function but COUNT."""
    group_by: int | None = None
    """Column by whose values the rows are grouped; only for a function."""
    order_by: int | None = None
    """Column by which the rows are ordered, or with `group_by` the groups: by what is computed of them. Not
    set: in the table's order, groups by their first row."""
    is_descending: bool = False
    """Whether the order is descending."""
    limit: int | None = None
    """Maximum number of rows, or groups."""
    group_conditions: Sequence[TableGroupCondition] = ()
    """Conditions on the groups, all of which a group meets; only with `group_by`."""
    join: TableJoin | None = None
    """Another table of the document whose columns are added."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TableColumn:
    """Column of a table."""

    index: int = 0
    """Place in the table, from 0: the column of plans."""
    name: str = ""
    """Name, as the table's head has it; "" if it has none."""
    type: ColumnType = ColumnType.UNSPECIFIED
    """Type."""
    unit: str = ""
    """Unit of its numbers, such as "kg", "%" or "EUR", from its head or its cells; "" without one. Cells of
    other units that can be converted are converted into it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Table of a document, in its revision in use."""

    collection_id: str = ""
    """Collection of the document."""
    document_id: str = ""
    """The document."""
    table_index: int = 0
    """Place of the table in the document, from 0."""
    title: str = ""
    """Title of the document."""
    uri: str = ""
    """Uri of the document."""
    revision: str = ""
    """Revision of the document."""
    name: str = ""
    """Text above the table: a caption or heading; "" without any."""
    sheet: str = ""
    """Sheet that it is on; "" for others."""
    page: int = 0
    """Page that it begins on, from 1; 0 if the document has no pages."""
    columns: Sequence[TableColumn] = ()
    """Its columns, 16,000 at most."""
    row_count: int = 0
    """Number of its rows, without its head."""
    is_cut: bool = False
    """Whether it has more than 1,000,000 rows, of which the first are asked only."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TableAnswerColumn:
    """Column of an answer."""

    name: str = ""
    """Name of the table's column."""
    function: TableFunction = TableFunction.UNSPECIFIED
    """Function that was computed of it."""
    unit: str = ""
    """Unit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TableCell:
    """Cell of a table, or a value that PostgreSQL computed of several."""

    text: str = ""
    """Text, as the document shows it, or a computed number in full; "" for none."""
    number: float | None = None
    """Number, in the column's unit; not set if it has none. A date has none."""
    unit: str = ""
    """Unit of the number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CellReference:
    """Place of a cell that an answer comes from."""

    row: int = 0
    """Row of the sheet or table, from 1."""
    column: int = 0
    """The column, as plans number it."""
    reference: str = ""
    """Reference in the sheet, such as "C17", or "Prices!C17" in a joined table; "" for a table that is not on
    one."""
    start_offset: int = 0
    """Where its row begins in the text of the document's revision, in Unicode code points."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TableAnswerRow:
    """Row of an answer."""

    cells: Sequence[TableCell] = ()
    """Its cells, one for each column of the answer."""
    sources: Sequence[CellReference] = ()
    """Cells that it comes from: those that it shows, or of a computed value the first 50 that it was computed
    of."""
    row_count: int = 0
    """Number of rows that it was computed of; 1 for a row of the table."""
    missing_count: int = 0
    """Rows among them whose cell has no number and which the value leaves out."""
    text: str = ""
    """The row in words, in the question's language, such as "DN-6: Weight (kg) 2.8"; of a plan in English."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryTablesResponse:
    """Response of QueryTables."""

    plan: TablePlan | None = None
    """The plan that was run; not set if the question has none."""
    explanation: str = ""
    """The plan in words, such as "sum of Amount where Year is 2024, by Region"."""
    table: Table | None = None
    """The table that was asked."""
    columns: Sequence[TableAnswerColumn] = ()
    """Columns of the answer."""
    rows: Sequence[TableAnswerRow] = ()
    """Rows of the answer; none if no row meets the conditions. With a function and no `group_by` there is
    one."""
    has_more: bool = False
    """Whether there are more than the plan's limit, or of the tables of a document more than are listed."""
    refusal: TableRefusal = TableRefusal.UNSPECIFIED
    """Why the question has no plan."""
    unknown_words: Sequence[str] = ()
    """Words of the question that mean nothing in the tables."""
    tables: Sequence[Table] = ()
    """Without a plan: tables that the question may be about, 20 at most; without a question, those of
    document_id in their order, 200 at most. Each with its first 100 columns."""
    trace_id: str = ""
    """W3C trace id of this request; empty where the request is not traced."""
    chunks: Sequence[Chunk] = ()
    """Chunks that the first cells of the answer stand in, in the order of its rows, 8 at most. A cell stands
    in the one whose offsets hold its start_offset."""
    model: str = ""
    """The model that made the plan, or was the last to refuse, or "rules". Empty for a plan of the
    request."""
    usage: Usage | None = None
    """Tokens that a model read and wrote for the plan, and what a search for the question took."""
    fallback_reason: str = ""
    """Reason of the error for which no model was heard although rules had no plan; empty where none was to
    be, or is configured."""
