// Made from protos/groundline/v1 by `make generate`; do not edit.

/** Any JSON object. */
export type JsonObject = Record<string, unknown>;

/**
 * Why something failed, was left out or was degraded: the `reason` of google.rpc.ErrorInfo (domain
 * "groundline.dev"), of degradations, of documents that could not be ingested, and of what validation found in
 * an answer.
 *
 * The values have no prefix, as in google.api.ErrorReason, because `reason` is spelled like them.
 */
export type ErrorReason =
  /** Not known. */
  | "ERROR_REASON_UNSPECIFIED"
  /** A field is wrong; the violations name every one. */
  | "INVALID_REQUEST"
  /** The principals that came with the call cannot be read. */
  | "INVALID_PRINCIPALS"
  /** The request is not JSON, or cannot be decoded. */
  | "MALFORMED_REQUEST"
  /** The gateway cannot serve the request. */
  | "REQUEST_REFUSED"
  /** There is nothing at this address for this method. */
  | "ROUTE_NOT_FOUND"
  /** The body is larger than the limit for this address. */
  | "BODY_TOO_LARGE"
  /** The headers are too large. */
  | "HEADERS_TOO_LARGE"
  /** The request did not arrive in time. */
  | "REQUEST_TIMEOUT"
  /** The API key is missing or wrong. */
  | "API_KEY_INVALID"
  /** The caller could not be identified. */
  | "CALLER_UNKNOWN"
  /** Too many requests from this client. */
  | "RATE_LIMITED"
  /** The option is not available in this release. */
  | "OPTION_NOT_AVAILABLE"
  /** The method is not implemented. */
  | "NOT_IMPLEMENTED"
  /** The request_id came with another request before. */
  | "REQUEST_ID_REUSED"
  /** The request_id made another collection before. */
  | "REQUEST_ID_USED"
  /** A request with this request_id is still under way. */
  | "REQUEST_UNDER_WAY"
  /** It was not finished in time. */
  | "DEADLINE_EXCEEDED"
  /** An unexpected failure; its error_id is in the service's log. */
  | "INTERNAL"
  /** A service that the request needs is not available. */
  | "SERVICE_UNAVAILABLE"
  /** No such collection, or none that the caller may read. */
  | "COLLECTION_NOT_FOUND"
  /** The collection's id is taken. */
  | "COLLECTION_EXISTS"
  /** The caller may read the collection, but not change it. */
  | "COLLECTION_NOT_WRITABLE"
  /** The collection was deleted or rebuilt meanwhile. */
  | "COLLECTION_CHANGED"
  /** No such document, or none that the caller may read. */
  | "DOCUMENT_NOT_FOUND"
  /** The document exists, and the caller may not read it, so it cannot be replaced. */
  | "DOCUMENT_NOT_WRITABLE"
  /** No such job. */
  | "JOB_NOT_FOUND"
  /** The job has no item that can be tried again. */
  | "NOTHING_TO_RETRY"
  /** The change takes ReindexCollection. */
  | "REINDEX_REQUIRED"
  /** The collection is being indexed again already. */
  | "REINDEX_RUNNING"
  /** The collection was embedded with a model that does not run. */
  | "EMBEDDING_MODEL_MISMATCH"
  /** The collection was indexed with another keyword engine than the one running. */
  | "LEXICAL_BACKEND_MISMATCH"
  /** A keyword index is missing or may lack chunks, and is left out until it is rebuilt. */
  | "LEXICAL_INDEX_UNSOUND"
  /** The index is being built. */
  | "INDEX_BEING_BUILT"
  /** No such thread of the caller. */
  | "THREAD_NOT_FOUND"
  /** No reader for this kind of file. */
  | "UNSUPPORTED_TYPE"
  /** The file is damaged. */
  | "CORRUPT_DOCUMENT"
  /** The file is protected by a password. */
  | "ENCRYPTED_DOCUMENT"
  /** The document holds no text. */
  | "EMPTY_TEXT"
  /** The text is not in the encoding that it should be in. */
  | "INVALID_ENCODING"
  /** The text holds characters that cannot be stored. */
  | "INVALID_TEXT"
  /** The file is not JSON. */
  | "INVALID_JSON"
  /** The file is not a table. */
  | "INVALID_TABLE"
  /** The document is larger than the service takes. */
  | "DOCUMENT_TOO_LARGE"
  /** The document has more pages than the service takes. */
  | "TOO_MANY_PAGES"
  /** The document has more chunks than the service takes. */
  | "TOO_MANY_CHUNKS"
  /** Images cannot be read: the program for it is not installed. */
  | "OCR_NOT_AVAILABLE"
  /** The image could not be read. */
  | "OCR_FAILED"
  /** Reading the file took too long. */
  | "READER_TIMEOUT"
  /** Reading the file failed, or took too much memory. */
  | "READER_CRASHED"
  /** The document's text is no longer stored; hand it in again. */
  | "TEXT_NOT_STORED"
  /** The model did not write a context for every chunk. */
  | "CONTEXTS_INCOMPLETE"
  /** The ingestor knows no generator, which the collection's contexts need. */
  | "GENERATOR_NOT_CONFIGURED"
  /** The embedding model cannot be used. */
  | "EMBEDDING_MODEL_UNAVAILABLE"
  /** It was begun too often without an end. */
  | "ATTEMPTS_EXHAUSTED"
  /** The address is not an http or https URL. */
  | "INVALID_URL"
  /** The address is not the internet's, and the crawl may not go there. */
  | "ADDRESS_NOT_ALLOWED"
  /** The page leads to another host. */
  | "OTHER_HOST"
  /** The page redirects too often. */
  | "TOO_MANY_REDIRECTS"
  /** The page redirects to nowhere. */
  | "INVALID_REDIRECT"
  /** The server answered with an error. */
  | "HTTP_STATUS"
  /** robots.txt does not allow the page. */
  | "ROBOTS_DISALLOWED"
  /** The page is larger than a crawl takes. */
  | "PAGE_TOO_LARGE"
  /** The page did not come in time. */
  | "CRAWL_TIMEOUT"
  /** The crawl found no page that it could have. */
  | "NO_PAGES"
  /** Some of the searches for the question failed. */
  | "SEARCH_INCOMPLETE"
  /** The question could not be rewritten, or what was found for it not be read, by the model. */
  | "REWRITING_UNAVAILABLE"
  /** The reranker did not answer. */
  | "RERANKER_UNAVAILABLE"
  /** The strategy did not answer in time. */
  | "RERANKER_LATE"
  /** The reranker is not set up for the strategy. */
  | "STRATEGY_NOT_CONFIGURED"
  /** The model's scores are not one number for each passage. */
  | "SCORES_UNUSABLE"
  /** The model is not the one that is set up. */
  | "MODEL_NOT_OFFERED"
  /** The model cannot be loaded. */
  | "MODEL_NOT_LOADED"
  /** The reranker is installed without cross-encoders. */
  | "CROSS_ENCODER_NOT_INSTALLED"
  /** The rerank API failed. */
  | "RERANK_API_FAILED"
  /** The rerank API's answer cannot be read. */
  | "RERANK_API_MALFORMED"
  /** The rerank API's quota is used up. */
  | "RERANK_API_QUOTA"
  /** The rerank API refused the request. */
  | "RERANK_API_REFUSED"
  /** The rerank API cannot be reached. */
  | "RERANK_API_UNREACHABLE"
  /** The language model does not exist, or none is configured. */
  | "MODEL_NOT_AVAILABLE"
  /** The prompt template does not exist. */
  | "PROMPT_TEMPLATE_NOT_AVAILABLE"
  /** A prompt template cannot be used. */
  | "PROMPT_TEMPLATE_INVALID"
  /** The limit on calls of the language model is reached. */
  | "GENERATOR_QUOTA_EXHAUSTED"
  /** The model's provider is out of reach. */
  | "PROVIDER_UNAVAILABLE"
  /** The model's provider did not answer in time. */
  | "PROVIDER_TIMEOUT"
  /** The model's provider broke the answer off. */
  | "PROVIDER_STREAM_CUT"
  /** The provider's quota is used up. */
  | "PROVIDER_QUOTA_EXHAUSTED"
  /** The provider refused the request. */
  | "PROVIDER_REJECTED_REQUEST"
  /** The provider does not accept the key. */
  | "PROVIDER_ACCESS_DENIED"
  /** The provider's answer cannot be read. */
  | "PROVIDER_OUTPUT_UNREADABLE"
  /** The model's reply is not what was asked for. */
  | "MODEL_OUTPUT_INVALID"
  /** The model's answer ended without an end. */
  | "MODEL_STREAM_INCOMPLETE"
  /** The answer ended without a finish reason. */
  | "ANSWER_INCOMPLETE"
  /** The answer is longer than can be judged. */
  | "ANSWER_TOO_LONG"
  /** The answer ended for a reason that this release does not know. */
  | "FINISH_REASON_UNKNOWN"
  /** The judge did not judge every passage. */
  | "JUDGEMENT_INCOMPLETE"
  /** The answer ends at the limit on output tokens. */
  | "ANSWER_CUT_OFF"
  /** The provider withheld the answer. */
  | "ANSWER_WITHHELD"
  /** The provider withheld a part for safety. */
  | "WITHHELD_FOR_SAFETY"
  /** The model wrote nothing. */
  | "EMPTY_ANSWER"
  /** No passage is relevant enough to answer from. */
  | "LOW_RELEVANCE"
  /** No passage was found to answer from. */
  | "NO_PASSAGES"
  /** No passage supports an answer. */
  | "NO_SUPPORTING_PASSAGE"
  /** A sentence carries no citation. */
  | "UNCITED_SENTENCE"
  /** A sentence is not supported by the passages that it cites. */
  | "UNSUPPORTED_SENTENCE"
  /**
   * A sentence has a number, or a number with a unit, that the passages that it cites do not have or have of
   * something else.
   */
  | "NUMBER_NOT_SUPPORTED"
  /** A sentence names something, such as a person, a place or a model, that the passages that it cites do not name. */
  | "NAME_NOT_SUPPORTED"
  /** A sentence denies what the passages that it cites say, or says what they deny. */
  | "CONTRADICTED_SENTENCE"
  /**
   * Two documents answer the question differently: with another number, or with a negation. The message names
   * both.
   */
  | "SOURCES_DISAGREE"
  /** A cited source has text that looks like instructions to an assistant: it may have been written to mislead it. */
  | "SUSPECTED_PROMPT_INJECTION"
  /** The answer is in another language than the question. */
  | "ANSWER_IN_OTHER_LANGUAGE"
  /** The passages contradicted a sentence, and another stands in its place. */
  | "SENTENCE_CORRECTED"
  /** The passages contradicted a sentence, and it was taken back. */
  | "SENTENCE_WITHDRAWN"
  /** The answer was corrected after it was sent. */
  | "ANSWER_CORRECTED"
  /** The model did not correct the answer in time, or failed. */
  | "CORRECTION_UNAVAILABLE"
  /** No such revision of the document is kept, or none that the caller might read. */
  | "REVISION_NOT_FOUND"
  /** The answer cites a number that no passage has. */
  | "UNKNOWN_CITATION"
  /** Some passages did not fit into the prompt. */
  | "PASSAGES_OMITTED"
  /** A part of the request was not used. */
  | "INPUT_NOT_USED"
  /** The answer could not be judged. */
  | "JUDGE_UNAVAILABLE"
  /** The database is out of reach. */
  | "DATABASE_UNAVAILABLE"
  /** The database refuses the connection. */
  | "DATABASE_REFUSED"
  /** The database's URL cannot be used. */
  | "DATABASE_URL_INVALID"
  /** The database's disk is full. */
  | "DATABASE_FULL"
  /** The database did not answer in time, or has no connection left. */
  | "DATABASE_BUSY"
  /** The database's schema is older than the service needs. */
  | "SCHEMA_TOO_OLD"
  /** The database's schema is newer than the service knows. */
  | "SCHEMA_TOO_NEW"
  /** A migration that was applied has been changed since. */
  | "MIGRATION_CHANGED"
  /** The database has no keyword engine that can be used. */
  | "LEXICAL_INDEX_UNAVAILABLE"
  /** A model or index that the service needs cannot be used. */
  | "NOT_USABLE"
  /** The service cannot listen on its address. */
  | "ADDRESS_UNUSABLE"
  /** The key or token is not for this; the message names the scope that is. */
  | "SCOPE_MISSING"
  /** The token is not one that the gateway takes. */
  | "TOKEN_INVALID"
  /** The call was cancelled. */
  | "CANCELLED"
  /** A service failed without saying why. */
  | "UNKNOWN"
  /** A service refused the call without naming a field. */
  | "INVALID_ARGUMENT"
  /** A service did not find what the call names. */
  | "NOT_FOUND"
  /** The call would create something that exists already. */
  | "ALREADY_EXISTS"
  /** The call is not allowed. */
  | "PERMISSION_DENIED"
  /** The caller is not known. */
  | "UNAUTHENTICATED"
  /** A limit was reached. */
  | "RESOURCE_EXHAUSTED"
  /** The call does not fit the state that things are in. */
  | "FAILED_PRECONDITION"
  /** A concurrent change won. */
  | "ABORTED"
  /** A value is out of range. */
  | "OUT_OF_RANGE"
  /** The service does not offer this. */
  | "UNIMPLEMENTED"
  /** A service is out of reach. */
  | "UNAVAILABLE"
  /** Stored data is damaged. */
  | "DATA_LOSS"
  /** A service's disk is full. */
  | "DISK_FULL"
  /** The caller may use the collection, but not administer it. */
  | "COLLECTION_NOT_ADMINISTRABLE"
  /** The document is there, but not what was handed in: its collection keeps no originals, or did not when it came. */
  | "ORIGINAL_NOT_KEPT"
  /** The document was replaced or deleted meanwhile: while it was sent, or before a change of it was taken back. */
  | "DOCUMENT_CHANGED"
  /** No model of that name is running. */
  | "MODEL_NOT_FOUND"
  /** The embedding API failed. */
  | "EMBEDDING_API_FAILED"
  /** The embedding API's answer cannot be read. */
  | "EMBEDDING_API_MALFORMED"
  /** The embedding API's quota is used up. */
  | "EMBEDDING_API_QUOTA"
  /** The embedding API refused the request. */
  | "EMBEDDING_API_REFUSED"
  /** The embedding API cannot be reached. */
  | "EMBEDDING_API_UNREACHABLE"
  /** A quota is used up, which metadata names, with its limit and what is used: delete something, or wait for jobs. */
  | "QUOTA_EXHAUSTED"
  /** The distributed index does not answer. */
  | "SEARCH_INDEX_UNAVAILABLE"
  /** The distributed index refused what it was asked. */
  | "SEARCH_INDEX_REFUSED"
  /** More requests have come than can be answered in time. Nothing was done; RetryInfo says when to try again. */
  | "OVERLOADED"
  /** The distributed index lacks what was written lately; searches do not find that yet. */
  | "SEARCH_INDEX_BEHIND"
  /** There may be more matches: too much of what the distributed index proposed does not match, or may not be read. */
  | "SEARCH_INDEX_INCOMPLETE"
  /** There is no such source. */
  | "SOURCE_NOT_FOUND"
  /** The collection has a source of this name. */
  | "SOURCE_NAME_TAKEN"
  /** The collector has no directory, secret or plug-in that the source names. */
  | "SOURCE_NOT_AVAILABLE"
  /** The server of the source does not answer. */
  | "SOURCE_UNREACHABLE"
  /**
   * The server of the source refuses it: wrong credentials, no such bucket, repository, branch or column, a wrong
   * query.
   */
  | "SOURCE_REFUSED"
  /** The collection has a document of this uri that another source has brought, or somebody handed in. */
  | "URI_OF_OTHER_SOURCE"
  /** The source was changed meanwhile, by another request. Read it, and decide again. */
  | "SOURCE_CHANGED"
  /** The document has fewer pages. */
  | "PAGE_NOT_FOUND"
  /** Pages of documents of this type are not drawn: only those of PDF files and images are. */
  | "NO_PAGE_PICTURES"
  /** No such answer in the thread. */
  | "MESSAGE_NOT_FOUND"
  /** The thread has more answers than one evidence holds: name one. */
  | "EVIDENCE_TOO_LARGE"
  /** The job has not ended: wait for it, or cancel it. */
  | "JOB_UNDER_WAY"
  /**
   * The document, the collection or a document of it, or the thread is under a legal hold: it cannot be deleted
   * before that is released.
   */
  | "LEGAL_HOLD"
  /** The caller may read the document, but not download it as it was handed in. */
  | "ORIGINAL_NOT_READABLE"
  /** There is no such erasure that the caller may see. */
  | "ERASURE_NOT_FOUND"
  /** The collection has no such index: a re-index holds none back, or none was kept. */
  | "INDEX_NOT_FOUND"
  /** The job does not build an index, or it failed or was cancelled. */
  | "NO_REINDEX"
  /** The document has no such table, or the caller may not read it. */
  | "TABLE_NOT_FOUND"
  /** No API key has this id. */
  | "KEY_NOT_FOUND";

/** Request of ListApiKeys. */
export interface ListApiKeysRequest {
  /** Maximum number of keys to return; more than 1000 count as 1000. */
  pageSize: number;
  /** Token of the page to return, from the last response; page_size may differ. */
  pageToken: string;
}

/** State of an API key. */
export type ApiKeyState =
  /** Not known. */
  | "API_KEY_STATE_UNSPECIFIED"
  /** The gateway takes it, in every replica within seconds of its creation. */
  | "API_KEY_STATE_ACTIVE"
  /** Its expire_time has passed. */
  | "API_KEY_STATE_EXPIRED"
  /** It was revoked. */
  | "API_KEY_STATE_REVOKED";

/** An API key of the gateway. Its text is shown once, when it is created, and stored nowhere. */
export interface ApiKey {
  /** Id of the key; the audit log names it as the credential key:ID. */
  keyId: string;
  /** Name of the client, in logs and limits. Several keys may share it. */
  name: string;
  /** Principals that the key stands for. The first one owns what the key creates. */
  principals: string[];
  /** Scopes: search, chat, ingest, admin, administration. */
  scopes: string[];
  /** State at the time of the response. */
  state: ApiKeyState;
  /** Time of its creation. */
  createTime?: string;
  /** Time from which it is refused; not set: never. */
  expireTime?: string;
  /** Time at which it was revoked; not set: it was not. */
  revokeTime?: string;
  /**
   * Time of a call with it, up to two hours before the last one; not set: none is known. A gateway notes it that
   * keeps the audit log and may write this column.
   */
  lastUseTime?: string;
}

/** Response of ListApiKeys. */
export interface ListApiKeysResponse {
  /** The keys. */
  keys: ApiKey[];
  /** For the next page; empty on the last. */
  nextPageToken: string;
}

/** Request of CreateApiKey. */
export interface CreateApiKeyRequest {
  /** Name of the client, in logs and limits: letters, digits, ".", "-" and "_". Several keys may share it. */
  name: string;
  /**
   * Principals that the key stands for, such as user:alice and group:staff: visible ASCII without a comma, not
   * "*". The first one owns what the key creates.
   */
  principals: string[];
  /** Scopes of the key. */
  scopes: string[];
  /** Time from which it is refused, in the future. Not set: never. */
  expireTime?: string;
}

/** Response of CreateApiKey. */
export interface CreateApiKeyResponse {
  /** The key. */
  key?: ApiKey;
  /** Its text, which is sent as x-api-key; it is shown this once. */
  secret: string;
}

/** Request of RevokeApiKey. */
export interface RevokeApiKeyRequest {
  /** Id of the key. */
  keyId: string;
}

/** Response of RevokeApiKey. */
export interface RevokeApiKeyResponse {
  /** The key. */
  key?: ApiKey;
}

/** Request of ListAuditEntries. A condition that is not set holds for every entry. */
export interface ListAuditEntriesRequest {
  /** Maximum number of entries to return; more than 1000 count as 1000. */
  pageSize: number;
  /** Token of the page to return, from the last response; page_size may differ. */
  pageToken: string;
  /** Only calls since this time. */
  since?: string;
  /** Only calls before this time. */
  until?: string;
  /** Only calls of the client with this name. */
  client: string;
  /** Only calls of this RPC, such as DeleteDocument. */
  action: string;
  /** Only calls whose path begins so, such as /api/collections/hr. */
  resource: string;
}

/** An entry of the audit log: a call of the API, with who made it and how it ended. It has no query, body or key. */
export interface AuditEntry {
  /** Number of the entry, from 1, without gaps; a decimal number. */
  entryId: string;
  /** Time of the call. */
  time?: string;
  /** Name of the client; empty: the caller was not known. */
  client: string;
  /** Credential of the caller, such as key:ID for an API key that is stored. */
  credential: string;
  /** Principals of the caller. */
  principals: string[];
  /**
   * The RPC, such as DeleteDocument. The gateway itself writes PruneAuditLog (older entries were deleted by
   * retention) and LoseAuditEntries (some could not be stored).
   */
  action: string;
  /** Path of the request. */
  resource: string;
  /** HTTP status of the response; 0: no response was sent. */
  status: number;
  /** gRPC status of a call whose HTTP status is 200, such as OK or PermissionDenied; empty: not known. */
  grpcStatus: string;
  /** IP address of the peer. */
  peer: string;
  /** Id of the request. */
  requestId: string;
  /** Id of its trace. */
  traceId: string;
  /** Whether the call was a dry run. */
  isDryRun: boolean;
  /** Name of the resource that the call created, such as key:ID; empty: nothing that is named. */
  created: string;
  /** SHA-256 of the entry and of the hash before it, in hexadecimal digits. */
  hash: string;
}

/** Response of ListAuditEntries. */
export interface ListAuditEntriesResponse {
  /** The entries. */
  entries: AuditEntry[];
  /** For the next page; empty on the last. */
  nextPageToken: string;
}

/**
 * Who wrote a message. The values have no prefix, so that JSON clients may write "user" and "assistant", as they
 * do elsewhere: case makes no difference.
 */
export type Role =
  /** Not known. */
  | "ROLE_UNSPECIFIED"
  /** The one who asks. */
  | "USER"
  /** The one who answers. */
  | "ASSISTANT";

/** A message of the conversation that comes with a request. */
export interface ChatMessage {
  /** Who wrote it. */
  role: Role;
  /** Its text, 1 to 32000 characters. */
  content: string;
}

/** Which searches run. */
export type RetrievalMode =
  /** The collection's default, or hybrid. */
  | "RETRIEVAL_MODE_UNSPECIFIED"
  /** BM25 and vector search side by side. */
  | "RETRIEVAL_MODE_HYBRID"
  /** Vector search alone. */
  | "RETRIEVAL_MODE_SEMANTIC"
  /** BM25 alone; the query is not embedded. */
  | "RETRIEVAL_MODE_KEYWORD";

/** How pgvector goes on scanning when a filter removes what its first scan found. */
export type IterativeScan =
  /** The collection's default, or relaxed order. */
  | "ITERATIVE_SCAN_UNSPECIFIED"
  /** One scan only; a filtered search may return fewer than its limit. */
  | "ITERATIVE_SCAN_OFF"
  /** Scans on until the limit is reached; what turns up late though it is nearer is left out. */
  | "ITERATIVE_SCAN_STRICT_ORDER"
  /** Scans on until the limit is reached; what turns up late takes its place by distance, for better recall. */
  | "ITERATIVE_SCAN_RELAXED_ORDER";

/** Which of a collection's indexes a search reads. */
export type IndexChoice =
  /** The one in use. */
  | "INDEX_CHOICE_UNSPECIFIED"
  /** The one in use. */
  | "INDEX_CHOICE_CURRENT"
  /** The one that a re-index has built and holds back; see ReindexCollectionRequest.hold. */
  | "INDEX_CHOICE_CANDIDATE"
  /** The one that was kept when it was replaced; see ReindexCollectionRequest.keep_previous. */
  | "INDEX_CHOICE_PREVIOUS";

/**
 * Retrieval parameters. A field that is not set takes the collection's default, and where the collection sets
 * none, the default named here.
 */
export interface RetrievalOptions {
  /** Which searches run. */
  mode: RetrievalMode;
  /** Maximum number of candidates from BM25. */
  keywordLimit?: number;
  /** Maximum number of candidates from vector search. */
  semanticLimit?: number;
  /**
   * Size of the HNSW search list, 1 to 1000; larger finds more and takes longer. Default: 1 for each 1,000 chunks
   * of the partition that is searched, 100 at least. Never below semantic_limit.
   */
  efSearch?: number;
  /** Scan of a filtered vector search when its first one returns too little. */
  iterativeScan: IterativeScan;
  /**
   * Vector candidates below this similarity (-1 to 1) are dropped: the cosine, but for models that put hardly any
   * two texts below a certain one (.7, E5), from which on it is drawn out to 0 to 1. Not set: none is dropped.
   */
  minSimilarity?: number;
  /**
   * BM25 candidates below this score (0 or more, unbounded, comparable within one search only) are dropped. Not
   * set: none is dropped.
   */
  minBm25?: number;
  /**
   * Chunks to add before and after each hit from the same document, 0 to 10. What overlaps is cut from their texts
   * and offsets; a chunk that is a passage itself, or a better passage's adjacent chunk, is not repeated.
   */
  adjacentChunks?: number;
  /**
   * Whether misspelled words of the query are corrected where BM25 takes part: a word of four letters or more that
   * no chunk has that the caller may read, and that differs from a word of the passages found in one letter (from
   * eight letters on in two). The search is then repeated with the other word, which corrections tells.
   */
  correctSpelling?: boolean;
  /**
   * Which index is read; not for a collection's settings. Others than the one in use lack what was written since
   * they were complete: documents that are new, and those that were changed. Of the collections that a search does
   * not name, those without such an index are left out.
   */
  index: IndexChoice;
}

/** How the ranked lists of one question become one list. */
export type FusionMethod =
  /** The collection's default, or weighted. */
  | "FUSION_METHOD_UNSPECIFIED"
  /** Reciprocal rank fusion: the sum over the lists of weight / (rrf_k + rank). */
  | "FUSION_METHOD_RRF"
  /**
   * The weighted sum over the lists of the arms' scores: BM25 as a share of the best in its list, similarity as it
   * is; a passage that only one of them found counts with the lowest of the other's list, unless that is a list of
   * BM25 with all that match. A list that tells its passages little apart so decides little. Beside a model of the
   * E5 family BM25 has the weight 1/3 and similarity 5/3. With either method, BM25 of a collection in another
   * language than the query counts a tenth of similarity where the collection's embedding model is known to know
   * many languages.
   */
  | "FUSION_METHOD_WEIGHTED";

/** How fused candidates are put in their final order. */
export type RerankStrategy =
  /** The collection's default, or none. */
  | "RERANK_STRATEGY_UNSPECIFIED"
  /** The fused order stays. */
  | "RERANK_STRATEGY_NONE"
  /** A weighted sum of components; see RerankWeights. */
  | "RERANK_STRATEGY_WEIGHTED"
  /** A cross-encoder model scores query and passage together. */
  | "RERANK_STRATEGY_CROSS_ENCODER"
  /** A hosted /rerank endpoint. */
  | "RERANK_STRATEGY_API"
  /** The generator's language model judges relevance. */
  | "RERANK_STRATEGY_LLM";

/**
 * Weights of the components of the weighted strategy, each 0 or more. A component whose weight is 0 is not
 * computed.
 */
export interface RerankWeights {
  /** The fused score, as a share of the best; component "fused". */
  semantic?: number;
  /**
   * The similarity of query and passage, as min_similarity has it; the lowest one found for a passage that vector
   * search did not find.
   */
  vector?: number;
  /** Earlier chunks of a document score higher: 1 / (1 + chunk_index). */
  position?: number;
  /** Recently updated documents score higher: halves every 90 days before the newest candidate. */
  recency?: number;
  /** The source type's priority; see RerankOptions.type_priorities. */
  type?: number;
  /** The share of the query's terms that the passage holds, rare ones counting for more. */
  keyword?: number;
  /**
   * How near to each other the passage has the neighbouring words of the query, rare ones counting for more; 0.3
   * is a good weight beside the other defaults.
   */
  proximity?: number;
}

/**
 * Fusion, deduplication and reranking parameters. A field that is not set takes the collection's default, and
 * where the collection sets none, the default named here.
 */
export interface RerankOptions {
  /** Maximum number of passages returned. */
  topK?: number;
  /** How the arms are fused. */
  fusion: FusionMethod;
  /**
   * Constant of reciprocal rank fusion, 1 to 1000; its default is the one of Cormack, Clarke and Buettcher (SIGIR
   * 2009).
   */
  rrfK?: number;
  /** Weight of the keyword arm, 0 or more. */
  keywordWeight?: number;
  /** Weight of the semantic arm, 0 or more. */
  semanticWeight?: number;
  /** The final ordering. */
  strategy: RerankStrategy;
  /** Components of the weighted strategy. */
  weights?: RerankWeights;
  /**
   * Passages at least this similar (0 to 1) to a better one are its near-duplicates: they become its alternatives.
   * 0 switches that off; with 1 only equal texts are duplicates. Similarity is the Jaccard index of the texts'
   * three-word shingles, estimated from signatures made at ingestion.
   */
  deduplicationThreshold?: number;
  /**
   * Maximal marginal relevance: 1 looks at relevance only, 0 at diversity only. It comes last, and its value is
   * then the final score. Not set: not applied.
   */
  mmrLambda?: number;
  /** Priority of each source type, 0 to 1, by name ("file", "object", "web"), for the weighted strategy. */
  typePriorities: Record<string, number>;
  /**
   * Model of the api or llm strategy; of the cross_encoder strategy only the one that the reranker is set to.
   * Default: the reranker's setting.
   */
  model?: string;
  /** Whether the response also lists what was cut, and by which rule. */
  includeCut?: boolean;
  /** Passages whose score, before diversity, is below this are dropped. Not set: none is dropped. */
  minScore?: number;
  /**
   * Maximum number of passages of one document, the best of it, before diversity and top_k. Candidates of few
   * documents may leave fewer than top_k passages; keyword_limit and semantic_limit then bring more. Not set: any
   * number.
   */
  maxPerDocument?: number;
}

/**
 * Parameters of the answer. A field that is not set takes the collection's default, and where the collection
 * sets none, the generator's setting.
 */
export interface GenerationOptions {
  /** Model name as the provider spells it. */
  model?: string;
  /** Sampling temperature, 0 to 2. */
  temperature?: number;
  /** Maximum number of tokens of the answer. */
  maxOutputTokens?: number;
  /** Instructions that come before the suite's own rules on grounding and citation, 8000 characters at most. */
  systemPrompt?: string;
  /** Below this relevance (0 to 1) of the best passage the answer is refused. */
  minRelevance?: number;
  /** Name of the prompt template. */
  promptTemplate?: string;
}

/** How much work an answer may take. */
export type Effort =
  /** The default. */
  | "EFFORT_UNSPECIFIED"
  /** One search. A follow-up is made standalone; nothing else is rewritten. */
  | "EFFORT_QUICK"
  /**
   * A complex question is also decomposed, and a search that finds too little is repeated once with the question
   * rewritten. The passages found for a complex question are read; what they lack is searched for once.
   */
  | "EFFORT_BALANCED"
  /**
   * The passages found for any question are read, and what they lack is searched for, twice at most. Each time
   * takes a model call and a search.
   */
  | "EFFORT_THOROUGH";

/** Parameters of a chat or an answer. */
export interface ChatOptions {
  /** Retrieval parameters. */
  retrieval?: RetrievalOptions;
  /** Fusion and reranking parameters. */
  rerank?: RerankOptions;
  /** Parameters of the answer. */
  generation?: GenerationOptions;
  /** How much work the answer may take. */
  effort: Effort;
  /**
   * Whether text that was sent stays, for clients that cannot take it back: no correction is sent. Instead each
   * sentence of a language model comes when it has been checked, and what follows a contradicted one when that has
   * been corrected. Answer sends no events and does not look at it.
   */
  appendOnly?: boolean;
}

/** Request of Chat. */
export interface ChatRequest {
  /** The question, 1 to 8000 characters after trimming white space. */
  query: string;
  /** The thread to continue. Empty: a new one. */
  threadId: string;
  /**
   * The conversation so far, oldest first, 100 messages at most. Given, it is used instead of the thread's stored
   * messages.
   */
  chatHistory: ChatMessage[];
  /** Collections to search, 100 at most. Empty: every collection that the caller may read. */
  collectionIds: string[];
  /**
   * Condition on documents, as a JSON object whose members must all hold. Empty: no condition. A member is - a
   * metadata path with its conditions, as "year": {"$gte": 2024, "$lt": 2026} or "owner.team": "red", which is
   * short for {"$eq": "red"}; "a.b" is the member b of the object a. Operators: $eq $ne $in $nin (a string,
   * number, boolean or null, equal in type too; a list equals what one of its elements equals), $gt $gte $lt $lte
   * (numbers by size, strings by code points), $exists (true or false), $contains (a list with an element equal to
   * the operand), $prefix (a string, or one in a list, that begins with the operand), $regex (one of which a part
   * matches an expression: RE2's syntax without \b and \p, flags but a leading (?i), and names; 256 characters,
   * 512 steps with repetitions counted), $not (an object of operators that do not all hold). - "$document_id" ($eq
   * $ne $in $nin with UUIDs), "$source_type" (the same with file, object, web), "$uri", "$title", "$mime_type" or
   * "$container_uri" (the same with texts, and $prefix and $regex), "$update_time" or "$create_time" ($gt $gte $lt
   * $lte with an RFC 3339 time, or a date: its first moment in UTC); $not with each. - "$and" or "$or" with a list
   * of such objects, "$not" with one. A value that is missing, or of another type, satisfies only $ne, $nin,
   * {"$exists": false} and $not. At most 100 conditions, 8 levels, 1000 values in a list.
   */
  filter?: JsonObject;
  /** Parameters. */
  options?: ChatOptions;
  /**
   * Makes a retry safe: the same id from the same caller within 10 minutes replays the stored answer: started
   * (with the trace of the replay), status where the question was rewritten, sources, one delta, completed. What
   * failed or was cancelled is done anew. 64 characters at most. Empty: no replay.
   */
  requestId: string;
  /** Further information for the model, for example the page that the user is on; 8000 characters at most. */
  additionalContext: string;
  /**
   * Whether question and answer are kept in a thread. Without it started carries no thread_id of its own, and a
   * request_id cannot be given, since a replay reads the thread.
   */
  store?: boolean;
  /**
   * Position up to which changes are visible to the search, such as the position of an ingestion job whose
   * documents are asked about. Empty: if it reads from a standby of the database, a search may lack the changes of
   * the last moments, 2 seconds unless the operator set another bound.
   */
  minPosition: string;
  /**
   * Time in the past: what was current then is searched, in place of what is now; sources name the revisions of
   * then. Tables are not asked. For collections with settings.history.searchable, from when that was set and as
   * far back as settings.history keeps. INVALID_ARGUMENT if a named collection has no such history or none that
   * reaches back so far, or if the time is in the future. Without collection_ids those take part whose history
   * does. Conditions on a document's own properties, such as "$title", are on those that it has now. Not together
   * with options.retrieval.index. Where a distributed index has the present, PostgreSQL searches the past.
   */
  asOf?: string;
}

/** First event: the request is valid and work begins. */
export interface ChatStarted {
  /**
   * The thread; a new one when the request named none, and empty where it named none and is not stored, or cannot
   * be: then `completed` says why.
   */
  threadId: string;
  /** The answer's message. */
  messageId: string;
  /** W3C trace id of this request, 32 hex digits; empty where the request is not traced. */
  traceId: string;
}

/** A part of the work, and the parts of it whose time is told. */
export type Stage =
  /** Not known. */
  | "STAGE_UNSPECIFIED"
  /** The question is made standalone or decomposed. */
  | "STAGE_REWRITING"
  /** The collections are searched. */
  | "STAGE_RETRIEVING"
  /** Candidates are fused, deduplicated and reranked; part of retrieving where that takes no model and one search. */
  | "STAGE_RERANKING"
  /** The answer is written. */
  | "STAGE_GENERATING"
  /** The chunks that are kept are read; part of retrieving as reranking is. */
  | "STAGE_FETCHING"
  /** Part of retrieving: the query is embedded. */
  | "STAGE_EMBEDDING"
  /** Part of retrieving: BM25. */
  | "STAGE_KEYWORD_SEARCH"
  /** Part of retrieving: vector search. */
  | "STAGE_SEMANTIC_SEARCH"
  /** Part of generating: until the first text. */
  | "STAGE_FIRST_TOKEN"
  /** The passages found are read, to tell whether they suffice. */
  | "STAGE_READING";

/** A pause of a second or more before a language model is asked. */
export interface ModelWait {
  /** Why: its provider is busy or down, or the generator's own limits are reached. */
  reason: ErrorReason;
  /** About how long, in seconds; 0 where that is not known. */
  durationSeconds: number;
}

/** A word of the query that was taken for a misspelled one. */
export interface Correction {
  /** The word as the query has it. */
  given: string;
  /** The word of the documents that was searched for in its place, with the capitals of the given one. */
  used: string;
}

/**
 * A stage begins. Where the first search found too little, rewriting and retrieving may come once more; by the
 * effort, reading and retrieving may follow, twice at most.
 */
export interface ChatStatus {
  /** The stage. */
  stage: Stage;
  /** Query of the search, if it differs from the question; with the retrieving stage. */
  rewrittenQuery: string;
  /** The parts of a decomposed question, searched beside it; with the retrieving stage. */
  subQueries: string[];
  /** Model that rewrote or decomposed it: a language model, or "rules" without one; with either of the two above. */
  rewritingModel: string;
  /** Reason why the generating stage waits; sent again for each wait. */
  waiting?: ModelWait;
  /** Misspelled words that the search corrected, once it has; rewritten_query is the question with the other words. */
  corrections: Correction[];
  /**
   * The part of the answer that the passages found so far lack, for people; with the retrieving stage, if it
   * searches for that.
   */
  missing: string;
}

/** Where a document came from. */
export type SourceType =
  /** Not known. */
  | "SOURCE_TYPE_UNSPECIFIED"
  /** A file, or text handed in as one. */
  | "SOURCE_TYPE_FILE"
  /** A structured record. */
  | "SOURCE_TYPE_OBJECT"
  /** A web page. */
  | "SOURCE_TYPE_WEB";

/** Score of a chunk by one search arm. */
export interface ArmScore {
  /** Rank within the arm's list, from 1. */
  rank: number;
  /**
   * The arm's own score: BM25 for the keyword arm, for the semantic arm the similarity that min_similarity has;
   * higher is better.
   */
  score: number;
}

/** One component of a passage's final score. */
export interface ScoreComponent {
  /** Name, such as "fused", "vector", "position" or "cross_encoder". */
  name: string;
  /** Value before weighting. */
  value: number;
  /** Weight it was multiplied with. */
  weight: number;
}

/** Why a passage stands where it does. */
export interface ScoreExplanation {
  /** Rank and score in the keyword arm; not set when that arm did not find it. */
  keyword?: ArmScore;
  /** Rank and score in the semantic arm; not set when that arm did not find it. */
  semantic?: ArmScore;
  /** Score after fusion. */
  fusedScore: number;
  /** Rank after fusion, from 1. */
  fusedRank: number;
  /** Components of the reranking strategy; empty for the strategy none. */
  components: ScoreComponent[];
  /** The score that decided the order. */
  finalScore: number;
}

/** A passage that was served to the model, with the number it is cited by. */
export interface Source {
  /** The number in [n], from 1. */
  number: number;
  /** Title of the document. */
  title: string;
  /** Where the document is found. */
  uri: string;
  /** Where the document came from. */
  type: SourceType;
  /**
   * The part of the passage's text where most of the question's words stand, 400 characters at most; an ellipsis
   * stands where something is left out.
   */
  snippet: string;
  /** The chunk. */
  chunkId: string;
  /** The document. */
  documentId: string;
  /** The collection. */
  collectionId: string;
  /** Final score; comparable within one answer only. */
  score: number;
  /** Why it was chosen. */
  explanation?: ScoreExplanation;
  /** Metadata of the chunk, "page" among them; see Chunk.metadata. */
  metadata?: JsonObject;
  /** Start in the document's extracted text, in Unicode code points, inclusive. */
  startOffset: number;
  /** End in the document's extracted text, in Unicode code points, exclusive. */
  endOffset: number;
  /** Whether DownloadDocument has the document as it was handed in. */
  hasOriginal: boolean;
  /**
   * The document's revision that was read; see Revision. Offsets count in its text. Empty in answers of earlier
   * releases.
   */
  revision: string;
  /** Whether the document has another revision by now; of a source that is read with its thread. */
  isOutdated: boolean;
}

/** The passages that the answer may cite; sent once, before the first delta. Empty when nothing was found. */
export interface ChatSources {
  /** In the order of their numbers. */
  sources: Source[];
}

/** Text to append to the answer, as it stands after the corrections so far. */
export interface ChatDelta {
  /** May end within a word; never within a citation marker. */
  text: string;
}

/** Why an answer ended. */
export type FinishReason =
  /** Not known. */
  | "FINISH_REASON_UNSPECIFIED"
  /** The answer is complete. */
  | "FINISH_REASON_STOP"
  /** The documents do not hold the answer; the text says so and nothing is cited. */
  | "FINISH_REASON_NO_ANSWER"
  /** The limit on output tokens was reached. */
  | "FINISH_REASON_MAX_TOKENS"
  /** The provider withheld the answer for safety. */
  | "FINISH_REASON_SAFETY"
  /** The caller went away. */
  | "FINISH_REASON_CANCELLED";

/** Tokens that a model read and wrote, zero where no model was called, and what they cost. */
export interface Usage {
  /** Tokens read, cached ones included. */
  promptTokens: number;
  /** Tokens of the prompt that came from the provider's cache. */
  cachedTokens: number;
  /** Tokens written. */
  outputTokens: number;
  /**
   * Tokens that the embedding model read: of a document's chunks, and of questions if the model is hosted. As the
   * provider counts them, or else an estimate. Texts that were embedded before are not among them.
   */
  embeddingTokens: number;
  /**
   * Price of the model calls in US dollars, by the list prices of their provider or the operator's own, hosted
   * embedding and reranking included. Local models cost nothing. Unset where no other was called, and where the
   * price of a call is not known.
   */
  costUsd?: number;
  /**
   * Units that a hosted reranker's provider bills: tokens (Jina, Voyage), or searches (Cohere); the number of
   * calls where it tells none.
   */
  rerankUnits: number;
}

/** A rectangle on a page as it is shown, by which a picture of the page (GetDocumentPage) can be marked. */
export interface Box {
  /** The page, from 1. */
  page: number;
  /** Left edge, as a share of the page's width, 0 to 1 from the left. */
  left: number;
  /** Upper edge, as a share of the page's height, 0 to 1 from the top. */
  top: number;
  /** Right edge, as left. */
  right: number;
  /** Lower edge, as top. */
  bottom: number;
}

/** A claim of the answer and the source that supports it. */
export interface Citation {
  /** The source's number. */
  sourceNumber: number;
  /** Start of the supported text in the answer, in Unicode code points, inclusive. */
  startOffset: number;
  /** End of the supported text in the answer, in Unicode code points, exclusive; the marker [n] is not part of it. */
  endOffset: number;
  /** The sentence of the source that supports it best. */
  supportingText: string;
  /** The source's chunk. */
  chunkId: string;
  /** The page that the supporting text begins on, from 1; 0 if the document has no pages. */
  page: number;
  /**
   * Where the supporting text is on its pages: the lines that it stands in, in its order, whole ones; in tables
   * the cells. Empty if its place is not known: only PDF files and images tell it.
   */
  boxes: Box[];
}

/** Something that validation found. */
export interface ValidationIssue {
  /** Kind of issue, such as UNSUPPORTED_SENTENCE or UNKNOWN_CITATION. */
  reason: ErrorReason;
  /** The same for people. */
  message: string;
}

/** Result of the finished answer's checks. */
export interface Validation {
  /**
   * Whether every sentence carries a citation and its cited passages support it: they have its terms, and rules
   * find no number, unit, name or negation in it that they do not have. Where a model judges, its verdicts count
   * instead.
   */
  grounded: boolean;
  /** 0 to 1; by the calibration of the collection, if it alone was asked and has one. */
  confidence: number;
  /** Issues found; empty without any. */
  issues: ValidationIssue[];
  /** Share of the answer's sentences that carry a citation, 0 to 1. */
  citedShare: number;
  /** Share of the answer's sentences that their cited passages support, 0 to 1. */
  supportedShare: number;
  /** Relevance of the answer to the question, 0 to 1. */
  queryRelevance: number;
  /** Confidence before the calibration of the collection, 0 to 1. */
  rawConfidence: number;
}

/** A part of the work that can be skipped, fail or come late without failing the request. */
export type Component =
  /** Not known. */
  | "COMPONENT_UNSPECIFIED"
  /** Keyword search. */
  | "COMPONENT_KEYWORD_ARM"
  /** Vector search. */
  | "COMPONENT_SEMANTIC_ARM"
  /** Searching for one of several queries. */
  | "COMPONENT_RETRIEVAL"
  /** Reranking. */
  | "COMPONENT_RERANKER"
  /** Rewriting of the question. */
  | "COMPONENT_REWRITING"
  /** Checking of the answer. */
  | "COMPONENT_VALIDATION"
  /** Storing of the conversation. */
  | "COMPONENT_HISTORY"
  /** Finding the places of citations on their pages. */
  | "COMPONENT_CITATION_BOXES"
  /** Counting the values of facets. */
  | "COMPONENT_FACETS";

/** Something that was skipped, failed or came late, without failing the request. */
export interface Degradation {
  /** Component of the score. */
  component: Component;
  /** Why. */
  reason: ErrorReason;
  /** The same for people. */
  message: string;
}

/** How long a stage took. */
export interface StageTiming {
  /** The stage, or a part of one, which follows it. */
  stage: Stage;
  /** Milliseconds. */
  durationMs: number;
}

/** Kind of quota. */
export type Quota =
  /** Not known. */
  | "QUOTA_UNSPECIFIED"
  /** Collections that the caller created. */
  | "QUOTA_COLLECTIONS"
  /** Jobs that the caller handed in and that have not ended. */
  | "QUOTA_JOBS"
  /** Documents of the collection. */
  | "QUOTA_DOCUMENTS"
  /** Bytes of the collection's documents as handed in, with those of contents that replaced revisions keep. */
  | "QUOTA_BYTES"
  /** Threads that the caller began. */
  | "QUOTA_THREADS"
  /** Chat, Answer and Verify requests of the caller that are under way in one replica. */
  | "QUOTA_ANSWERS"
  /** Tokens that the caller's answers and checked texts took, prompts included, since midnight UTC. */
  | "QUOTA_TOKENS"
  /** Sources of the collection. */
  | "QUOTA_SOURCES"
  /**
   * US dollars that the caller's answers, checked texts and documents cost since midnight UTC, where the price is
   * known.
   */
  | "QUOTA_COST_DAY"
  /** The same, since the month began. */
  | "QUOTA_COST_MONTH"
  /** The same since midnight UTC of all callers together; amounts are in GetUsage alone, errors have none. */
  | "QUOTA_TOTAL_COST_DAY"
  /** The same, since the month began. */
  | "QUOTA_TOTAL_COST_MONTH";

/** Usage of a quota; doubles, exact to 2^53. */
export interface QuotaUsage {
  /** The quota. */
  quota: Quota;
  /** Amount in use, by documents that the caller may not read, too. */
  used: number;
  /** Maximum. */
  limit: number;
}

/** Last event of a request that succeeded. */
export interface ChatCompleted {
  /** Why the answer ended. */
  finishReason: FinishReason;
  /** Tokens read and written for this request, all model calls included. */
  usage?: Usage;
  /** In the order of their position in the answer, corrections included. */
  citations: Citation[];
  /** Result of the answer's checks. */
  validation?: Validation;
  /** Parts that were skipped, failed or came late; empty without any. */
  degraded: Degradation[];
  /** How long each stage took, in order; a stage that ran twice is there twice. */
  timings: StageTiming[];
  /** The model that wrote the answer; "extractive" when none did, "tables" if a table was asked, see QueryTables. */
  model: string;
  /** Version of the prompt template; empty when no model was called. */
  promptVersion: string;
  /**
   * The whole answer, if a correction changed it after it was sent: a client that only joins the text of its
   * deltas shows this in place of it. Empty if the joined text is the answer, and in the response of Answer.
   */
  correctedAnswer: string;
  /**
   * Quotas of tokens and cost of which the caller has used 80 % or more with this answer, or what the operator
   * sets instead (QUOTA_WARNING_SHARE). When one is used up, requests are refused (QUOTA_EXHAUSTED). Empty without
   * any.
   */
  nearlyUsed: QuotaUsage[];
}

/** A wrong field of a request. */
export interface FieldError {
  /** Path of the field, such as "chat_history[2].role". */
  field: string;
  /** Description of the mistake. */
  description: string;
}

/** Last event of a request that failed after it had started. The RPC then ends with the same status. */
export interface ChatError {
  /** google.rpc.Code number. */
  code: number;
  /** Why, as in the status's ErrorInfo. */
  reason: ErrorReason;
  /** For people. */
  message: string;
  /** Identifies an internal error in logs and traces; empty for others. */
  errorId: string;
  /** Whether the same request may succeed later. */
  retryable: boolean;
  /** Wrong fields, where that is the reason. */
  violations: FieldError[];
}

/**
 * A sentence of the answer that its cited passages do not bear out; it stays. Sent once for each, when the next
 * sentence has begun or the answer has ended, and only for answers of a language model. Sentences that are
 * supported, or that cite nothing, are not told of here; `completed` names the latter.
 */
export interface UnsupportedSentence {
  /**
   * Start in the answer, in Unicode code points, inclusive. The answer is the text as it stands when the event
   * comes: all text and corrections before it count, in their order. A later correction moves it; see
   * AnswerCorrection.
   */
  startOffset: number;
  /** End in the answer, in Unicode code points, exclusive; a marker [n] behind the full stop is not part of it. */
  endOffset: number;
  /**
   * Reason: UNSUPPORTED_SENTENCE, or what the passages lack or may have otherwise: NUMBER_NOT_SUPPORTED,
   * NAME_NOT_SUPPORTED or CONTRADICTED_SENTENCE.
   */
  issue?: ValidationIssue;
}

/**
 * A change to the text of the answer that was sent before: answer[:start_offset] + text + answer[end_offset:].
 *
 * A sentence that its cited passages contradict is taken back when the next one has begun or the answer has
 * ended, and further text goes on at the end. Behind the last text, other sentences may come in the places of
 * those, written in one more call of the model at most. If nothing is left of an answer, a refusal comes.
 * Offsets behind end_offset, such as those of an UnsupportedSentence, move by the difference in length.
 */
export interface AnswerCorrection {
  /**
   * Start in the answer, in Unicode code points, inclusive. The answer is the text as it stands when the event
   * comes: all text and corrections before it count, in their order.
   */
  startOffset: number;
  /** End in the answer, in Unicode code points, exclusive; equal to the start where text is put in only. */
  endOffset: number;
  /** Text in its place; empty: taken back. */
  text: string;
  /**
   * Reason. Of a sentence that is taken back NUMBER_NOT_SUPPORTED, NAME_NOT_SUPPORTED or CONTRADICTED_SENTENCE; of
   * one in its place SENTENCE_CORRECTED; of a refusal NO_SUPPORTING_PASSAGE; ANSWER_CORRECTED where a stream that
   * is resumed replaces all its text.
   */
  issue?: ValidationIssue;
}

/** One event of Chat. */
export interface ChatResponse {
  /** Counts from 1 without gaps. */
  sequence: number;
  /** First event. */
  started?: ChatStarted;
  /** A stage begins. */
  status?: ChatStatus;
  /** The passages that the answer may cite. */
  sources?: ChatSources;
  /** Text to append. */
  delta?: ChatDelta;
  /** Last event, on success. */
  completed?: ChatCompleted;
  /** Last event, on failure. */
  error?: ChatError;
  /** A sentence that stays, although its passages do not bear it out. */
  unsupported?: UnsupportedSentence;
  /** A change to text that was sent. */
  correction?: AnswerCorrection;
  /** Identifies the event, for resumption; the id of the server-sent event. */
  eventId: string;
}

/** Request of Answer; the fields are those of ChatRequest. */
export interface AnswerRequest {
  /** The question, 1 to 8000 characters after trimming white space. */
  query: string;
  /** The thread to continue. Empty: a new one. */
  threadId: string;
  /** The conversation so far, oldest first, 100 messages at most; used instead of the thread's stored messages. */
  chatHistory: ChatMessage[];
  /** Collections to search, 100 at most. Empty: every collection that the caller may read. */
  collectionIds: string[];
  /** Condition on documents; see ChatRequest.filter. */
  filter?: JsonObject;
  /** Parameters. */
  options?: ChatOptions;
  /** Makes a retry safe; see ChatRequest.request_id. */
  requestId: string;
  /** Further information for the model; 8000 characters at most. */
  additionalContext: string;
  /** Whether question and answer are kept in a thread; see ChatRequest.store. */
  store?: boolean;
  /** Position up to which changes are visible to the search; see ChatRequest.min_position. */
  minPosition: string;
  /** Time in the past of which what was current then is searched; see ChatRequest.as_of. */
  asOf?: string;
}

/** Response of Answer. */
export interface AnswerResponse {
  /** The thread. */
  threadId: string;
  /** The answer's message. */
  messageId: string;
  /** W3C trace id of this request; empty where the request is not traced. */
  traceId: string;
  /** The whole answer, with its [n] markers. */
  answer: string;
  /** The passages that the answer may cite, in the order of their numbers. */
  sources: Source[];
  /** End of the answer: finish reason, citations, usage. */
  completed?: ChatCompleted;
  /** Query of the search, if it differs from the question. */
  rewrittenQuery: string;
  /** The parts of a decomposed question. */
  subQueries: string[];
  /** Model that rewrote or decomposed it: a language model, or "rules" without one. */
  rewritingModel: string;
  /** Misspelled words that the search corrected; rewritten_query is the question with the other words. */
  corrections: Correction[];
}

/** Parameters of a search without generation. */
export interface SearchOptions {
  /** Retrieval parameters. */
  retrieval?: RetrievalOptions;
  /** Fusion and reranking parameters. */
  rerank?: RerankOptions;
}

/** Request of Verify. */
export interface VerifyRequest {
  /** Text to check, 1 to 100000 characters after trimming white space; 500 claims at most. */
  text: string;
  /** Collections to check it against, 100 at most. Empty: every collection that the caller may read. */
  collectionIds: string[];
  /** Condition on documents; see ChatRequest.filter. */
  filter?: JsonObject;
  /** Parameters of the search for each claim. Adjacent chunks are not read. */
  options?: SearchOptions;
  /** Position up to which changes are visible to the search; see ChatRequest.min_position. */
  minPosition: string;
  /**
   * Time in the past: the text is checked against what was current then; see ChatRequest.as_of. Evidence names the
   * revisions of then.
   */
  asOf?: string;
}

/** First event: the request is valid, and the text is cut into claims. */
export interface VerifyStarted {
  /** W3C trace id of this request, 32 hex digits; empty where the request is not traced. */
  traceId: string;
  /** Number of claims, each of which gets an event. */
  claimCount: number;
}

/** Answer of documents to whether a claim is so. */
export type Verdict =
  /** Not known. */
  | "VERDICT_UNSPECIFIED"
  /** A passage says so. */
  | "VERDICT_SUPPORTED"
  /** A passage says otherwise. */
  | "VERDICT_REFUTED"
  /** No passage that was found says so or otherwise. */
  | "VERDICT_NOT_FOUND";

/** A sentence of a passage that decides on a claim. */
export interface ClaimEvidence {
  /** Its passage, numbered from 1 for each claim in the order in which the search found them. */
  source?: Source;
  /** Start of the sentence in the document's extracted text, in Unicode code points, inclusive. */
  startOffset: number;
  /** End of the sentence in the document's extracted text, in Unicode code points, exclusive. */
  endOffset: number;
  /** The sentence. */
  text: string;
  /** Words of the sentence that decide, such as a number that the claim has otherwise. Empty where all of it does. */
  words: string[];
}

/** A claim and the verdict on it. */
export interface VerifiedClaim {
  /** Counts from 1, in the order of the text. */
  number: number;
  /** Start in the text, in Unicode code points, inclusive. */
  startOffset: number;
  /** End in the text, in Unicode code points, exclusive. */
  endOffset: number;
  /** The claim as it stands there. */
  text: string;
  /** Verdict on it. */
  verdict: Verdict;
  /** How likely the verdict is right, 0 to 1; an estimate. */
  probability: number;
  /**
   * Kind of contradiction of a claim that is refuted: NUMBER_NOT_SUPPORTED, NAME_NOT_SUPPORTED or
   * CONTRADICTED_SENTENCE. UNSUPPORTED_SENTENCE of one that is not found. Not set of one that is supported.
   */
  reason: ErrorReason;
  /** The same for people. */
  message: string;
  /**
   * Words of the claim that decide: those that the passage has otherwise, or that no passage has. Empty where all
   * of it does.
   */
  words: string[];
  /** Sentences that decide, the best first. Of a claim that is not found the nearest one, if there is one. */
  evidence: ClaimEvidence[];
}

/** Number of claims that one judge decided. */
export interface JudgedClaims {
  /** "rules", "reader" (a small model of the generator), or the name of a language model. */
  model: string;
  /** Number of claims. */
  claimCount: number;
}

/** Last event of a request that succeeded. */
export interface VerifyCompleted {
  /** Number of claims that are supported. */
  supportedCount: number;
  /** Number of claims that are refuted. */
  refutedCount: number;
  /** Number of claims that no passage decides on. */
  notFoundCount: number;
  /** Tokens read and written for this request, all model calls included. */
  usage?: Usage;
  /** Parts that were skipped, failed or came late; empty without any. */
  degraded: Degradation[];
  /** The model that judged the most claims; "rules" when none did. */
  model: string;
  /** Who decided how many claims: rules first, a small model what they left open, a language model the rest. */
  judgedBy: JudgedClaims[];
}

/** One event of Verify. */
export interface VerifyResponse {
  /** Counts from 1 without gaps. */
  sequence: number;
  /** First event. */
  started?: VerifyStarted;
  /** A claim is decided. */
  claim?: VerifiedClaim;
  /** Last event, on success. */
  completed?: VerifyCompleted;
  /** Last event, on failure. */
  error?: ChatError;
}

/** Request of GetThread. */
export interface GetThreadRequest {
  /** The thread. */
  threadId: string;
  /** Maximum number of messages to return; more than 1000 count as 1000. */
  pageSize: number;
  /**
   * Token of the page to return, from the last response to the same caller's same request; its page_size may
   * differ.
   */
  pageToken: string;
}

/** A conversation. Only the caller that began it sees it. */
export interface Thread {
  /** Identifier, a UUID. */
  threadId: string;
  /** The first question, or what UpdateThread put in its place; 120 characters at most. */
  title: string;
  /** How many messages it holds. */
  messageCount: number;
  /** When it began. */
  createTime?: string;
  /** When its last message was stored. */
  updateTime?: string;
  /** Whether it comes before the others in lists. */
  isPinned: boolean;
}

/** Whether an answer was of use. */
export type Rating =
  /** Says nothing. */
  | "RATING_UNSPECIFIED"
  /** It was. */
  | "RATING_GOOD"
  /** It was not. */
  | "RATING_BAD";

/** Why an answer was of no use. */
export type Problem =
  /** Says nothing. */
  | "PROBLEM_UNSPECIFIED"
  /** It says something wrong. */
  | "PROBLEM_INCORRECT"
  /** It lacks something that the documents say. */
  | "PROBLEM_INCOMPLETE"
  /** It cites a source that does not say so. */
  | "PROBLEM_WRONG_SOURCE"
  /** It tells of what was true once. */
  | "PROBLEM_OUTDATED"
  /** It answers what the documents do not say, and should have been refused. */
  | "PROBLEM_UNANSWERABLE"
  /** It refuses what the documents say. */
  | "PROBLEM_REFUSED"
  /** Something else; the comment may say what. */
  | "PROBLEM_OTHER";

/**
 * Verdict of a caller on an answer. Nobody else sees it, and it is deleted with its thread; logs, traces and
 * metrics hold nothing of its comment.
 */
export interface Feedback {
  /** Whether it was of use. */
  rating: Rating;
  /** Why not; of a bad rating only. */
  problem: Problem;
  /** In the caller's own words, 2000 characters at most. */
  comment: string;
  /** When it was given; set by the server. */
  updateTime?: string;
}

/** A stored message of a thread. */
export interface Message {
  /** Identifier, a UUID. */
  messageId: string;
  /** Who wrote it. */
  role: Role;
  /** Its text; empty where it is withheld. */
  content: string;
  /**
   * The passages served for it whose documents are there and may be read by the caller, as they are now; without
   * snippet where the collection was indexed again since. Of assistant messages only.
   */
  sources: Source[];
  /**
   * Citations, with the part of the source that has most of the supported text's words; of assistant messages
   * only.
   */
  citations: Citation[];
  /** Tokens read and written for it; of assistant messages only. */
  usage?: Usage;
  /** Why it ended; of assistant messages only. */
  finishReason: FinishReason;
  /** The model that wrote it; of assistant messages only. */
  model: string;
  /** When it was stored. */
  createTime?: string;
  /**
   * Whether an answer's text is not shown, because a document that it rests on was deleted or may not be read by
   * the caller any more; of assistant messages only.
   */
  isWithheld: boolean;
  /**
   * Verdict of the caller on the answer; its comment is left out where the answer is withheld. Of assistant
   * messages only.
   */
  feedback?: Feedback;
}

/** Response of GetThread. */
export interface GetThreadResponse {
  /** The thread. */
  thread?: Thread;
  /** Its messages, oldest first. */
  messages: Message[];
  /** For the next page; empty on the last. */
  nextPageToken: string;
}

/** Request of ListThreads. */
export interface ListThreadsRequest {
  /** Maximum number of threads to return; more than 1000 count as 1000. */
  pageSize: number;
  /**
   * Token of the page to return, from the last response to the same caller's same request; its page_size may
   * differ.
   */
  pageToken: string;
}

/** Response of ListThreads. */
export interface ListThreadsResponse {
  /** The pinned ones, then the others, of each the last used first. */
  threads: Thread[];
  /** For the next page; empty on the last. */
  nextPageToken: string;
}

/** Request of UpdateThread. */
export interface UpdateThreadRequest {
  /** The thread. */
  threadId: string;
  /** The new title. Not set: unchanged. */
  title?: string;
  /** Whether it comes before the others in lists. Not set: unchanged. */
  isPinned?: boolean;
}

/** Response of UpdateThread. */
export interface UpdateThreadResponse {
  /** The thread as it is now. */
  thread?: Thread;
}

/** Request of DeleteThread. */
export interface DeleteThreadRequest {
  /** The thread. */
  threadId: string;
}

/** Response of DeleteThread. */
export interface DeleteThreadResponse {
}

/** Request of RateAnswer. */
export interface RateAnswerRequest {
  /** The thread. */
  threadId: string;
  /** The answer's message. */
  messageId: string;
  /** Verdict of the caller; update_time is ignored. Without a rating: nothing any more. */
  feedback?: Feedback;
}

/** Response of RateAnswer. */
export interface RateAnswerResponse {
  /** As it is stored; absent where it was taken back. */
  feedback?: Feedback;
}

/** Request of GetEvidence. */
export interface GetEvidenceRequest {
  /** The thread. */
  threadId: string;
  /** The answer's message. Empty: all answers of the thread, 100 at most. */
  messageId: string;
}

/** Request of ListSigningKeys. */
export interface ListSigningKeysRequest {
}

/** Public half of a signing key, as a JSON Web Key (RFC 8037). */
export interface SigningKey {
  /** "OKP". */
  kty: string;
  /** "Ed25519". */
  crv: string;
  /** The public key, 32 bytes in base64url without padding. */
  x: string;
  /** Its name: the thumbprint of RFC 7638. */
  kid: string;
  /** "EdDSA". */
  alg: string;
  /** "sig". */
  use: string;
  /** Since when evidence is signed with it. */
  createTime?: string;
  /** When another took its place, and its private half was deleted. Not set: it is in use. */
  retireTime?: string;
}

/** Response of ListSigningKeys. */
export interface ListSigningKeysResponse {
  /** The one in use, then those before it, the newest first. */
  keys: SigningKey[];
}

/** Request of ListModels. */
export interface ListModelsRequest {
}

/** Response of ListModels. */
export interface ListModelsResponse {
  /**
   * Names as the provider spells them: first the one that answers if neither question nor collection names any,
   * then the others that the operator offers. Without a language model it is "extractive" alone.
   */
  models: string[];
}

/** Request of GetQuotas. */
export interface GetQuotasRequest {
}

/** Response of GetQuotas. */
export interface GetQuotasResponse {
  /** One for each quota that is set. */
  quotas: QuotaUsage[];
}

/** Request of GetUsage. */
export interface GetUsageRequest {
  /** Number of days in UTC to count, today being the last. */
  days: number;
  /** Only the caller with this first principal. Empty: all callers. */
  caller: string;
}

/** Cost and tokens of models: in all, of a day, of a caller or of one model. */
export interface UsageSum {
  /** The day in UTC, such as 2026-11-30; the caller's first principal, empty for callers without one; or the model. */
  name: string;
  /**
   * US dollars that answers, checked texts and documents cost, where the price is known; of a model, what its
   * answers did.
   */
  costUsd: number;
  /**
   * Answers in threads that are still stored. Only these have tokens and a model here; a model has all tokens of
   * its answers, those of others that rewrote the question or checked the answer among them.
   */
  answers: number;
  /**
   * Tokens that models read for these answers, cached ones included; a double, exact to 2^53, as are the two
   * below.
   */
  promptTokens: number;
  /** Tokens of the prompts that came from the provider's cache. */
  cachedTokens: number;
  /** Tokens written. */
  outputTokens: number;
}

/** Response of GetUsage. */
export interface GetUsageResponse {
  /** All of these days together. */
  total?: UsageSum;
  /** Days on which something was used, the newest first. */
  days: UsageSum[];
  /** Callers that used something, by cost and then by tokens; the first 100. */
  callers: UsageSum[];
  /** Models that answered, in the same order; the first 100. */
  models: UsageSum[];
  /**
   * Quotas that are set, and what is used of them at present: the caller's of tokens and cost if the request names
   * one, else the budgets of all callers together.
   */
  quotas: QuotaUsage[];
}

/** How documents are cut into chunks. */
export type ChunkingStrategy =
  /** The default, recursive. */
  | "CHUNKING_STRATEGY_UNSPECIFIED"
  /** At the largest boundary that fits: headings, paragraphs, sentences, words, characters. */
  | "CHUNKING_STRATEGY_RECURSIVE"
  /** At headings; long sections are split further, with overlap. */
  | "CHUNKING_STRATEGY_SECTIONS"
  /** A sliding window of words. */
  | "CHUNKING_STRATEGY_WORDS"
  /** Whole sentences. */
  | "CHUNKING_STRATEGY_SENTENCES"
  /**
   * Small chunks, which are searched, of larger parents: sections, or parts of them. An answer is given all of the
   * parent of a chunk that was found; of several such chunks the best stands for the others, unless deduplication
   * is off.
   */
  | "CHUNKING_STRATEGY_PARENT_CHILD";

/** Unit of chunk sizes. */
export type ChunkSizeUnit =
  /** The default, characters. */
  | "CHUNK_SIZE_UNIT_UNSPECIFIED"
  /** Unicode code points. */
  | "CHUNK_SIZE_UNIT_CHARACTERS"
  /** Tokens of the embedding model. */
  | "CHUNK_SIZE_UNIT_TOKENS";

/** Chunking of a collection. */
export interface ChunkingSettings {
  /** How documents are cut. */
  strategy: ChunkingStrategy;
  /** Maximum number of units in a chunk; 400 by default where the strategy is parent_child. */
  chunkSize?: number;
  /**
   * Units that a chunk shares with the one before, less than half of chunk_size; across headings as far as
   * chunk_size leaves room, and never with another section or parent where the strategy is sections or
   * parent_child. By default a tenth of a chunk_size of 400 or less.
   */
  chunkOverlap?: number;
  /** Unit of the sizes. */
  unit: ChunkSizeUnit;
  /** Maximum number of units in a parent, of parent_child only; by default never less than chunk_size. */
  parentSize?: number;
}

/** Where the text that places a chunk in its document comes from. */
export type ContextualizationMode =
  /** The default, structural. */
  | "CONTEXTUALIZATION_MODE_UNSPECIFIED"
  /** Chunks are indexed as they are. */
  | "CONTEXTUALIZATION_MODE_NONE"
  /** Title, path and the trail of headings above the chunk. */
  | "CONTEXTUALIZATION_MODE_STRUCTURAL"
  /** A language model writes it from the whole document. */
  | "CONTEXTUALIZATION_MODE_LLM";

/** Contextualization of a collection. */
export interface ContextualizationSettings {
  /** Where the text that places a chunk comes from. */
  mode: ContextualizationMode;
  /** Prompt of the llm mode. Empty: the generator's setting. */
  prompt: string;
  /** Model of the llm mode. Empty: the generator's setting. */
  model: string;
  /**
   * Whether a chunk keeps the context that was written for it while its document changes elsewhere: a change then
   * rewrites the contexts of the chunks that it is in and of those next to them, and a context may say what the
   * rest of the document no longer says. Otherwise a changed document has all of its contexts written anew.
   */
  keepUnchanged?: boolean;
}

/**
 * Descriptions of pictures in documents, which a language model writes as documents are brought in.
 *
 * Pictures of DOCX, PPTX, XLSX, PDF, ODT, ODP and EPUB, those that HTML holds as data URIs, and files that are
 * pictures, are sent to the generator's model provider; of a document the first 100 of a certain size, each
 * once. What a model wrote stands in the document's text behind the picture's place, as "[Picture, described by
 * a model: …]". It holds for documents brought in from then on, also the same ones again; what was described
 * stays so until the document is brought in again.
 */
export interface PictureSettings {
  /**
   * Whether pictures are described. A picture that no model described, for want of one or since it failed, is left
   * out; see IngestionItem.undescribed_picture_count.
   */
  described?: boolean;
  /** Model that describes them, one that takes pictures. Empty: the generator's setting. */
  model: string;
}

/** Embedding of a collection. */
export interface EmbeddingSettings {
  /**
   * The model's name, one that runs. Set when the collection is created where it is empty: the default, or, for a
   * language that the default does not know, one of many languages that came with the suite. Changing it takes
   * ReindexCollection.
   */
  model: string;
  /** Length of its vectors. Output only. */
  dimensions: number;
}

/** Vector index of a collection. It has one once its chunks are in a partition of their own, from some 2,000 on. */
export interface VectorIndexSettings {
  /**
   * Whether the index holds three bits for each dimension in place of the vectors, which takes .4 of its memory. A
   * search takes eight times what it needs by these bits, at least, and orders that by the vectors, for more
   * processor time. For collections whose index outgrows the memory. The bits are tried on a sample first: where
   * they would find less than .98 of the nearest, as with multilingual-e5-small, the index stays as it is, and
   * GetCollectionStats says so (VECTOR_INDEX_STATE_NOT_QUANTIZED). The index in use serves until the other is
   * built, beside it. In Weaviate, where it is in use, objects have a byte for each dimension in memory, and are
   * compared again by their vectors on disk; there it holds from the next ReindexCollection on, or when the
   * collection first gets a partition of its own.
   */
  quantized?: boolean;
}

/** Lexical indexing of a collection. */
export interface LexicalSettings {
  /**
   * Language of stemming and stop words, by its English name in lower case, such as "english" or "german";
   * "simple" for none. A language that the index has no stemming for is taken as "simple", and the collection says
   * so.
   */
  language: string;
}

/**
 * Who may use a collection. A principal is a name that the gateway gives to a caller, such as "user:alice" or
 * "group:staff"; "*" is every caller. A list that is empty when the collection is created or changed becomes the
 * caller's own: its first principal. A caller without principals has to fill all three.
 */
export interface AccessSettings {
  /** Principals that may search and read, 1000 at most; "*": every caller. */
  readers: string[];
  /** Principals that may bring documents in, change and delete them, 1000 at most; they may also read. */
  writers: string[];
  /**
   * Principals that may change name, settings and access, index the collection again and delete it, 1000 at most;
   * they may also write and read.
   */
  admins: string[];
}

/** Crawling of web sites into a collection. */
export interface CrawlSettings {
  /**
   * Whether pages may come from, and sources and webhooks be at, private, loopback, link-local and other addresses
   * that are not the internet's. Whoever may write the collection then reaches what the ingestor reaches.
   */
  allowPrivateAddresses?: boolean;
}

/**
 * How far a request may depart from what a collection sets for answers. A request beyond a limit is refused with
 * INVALID_ARGUMENT. Where several collections are searched, the limits of each hold.
 */
export interface GenerationLimits {
  /** Models that a request may name, 100 at most. Empty: any. */
  models: string[];
  /** Highest sampling temperature, 0 to 2. Not set: no limit. */
  maxTemperature?: number;
  /** Highest max_output_tokens, 1 to 32768. Not set: no limit. */
  maxOutputTokens?: number;
  /** Highest top_k of reranking, 1 to 100. Not set: no limit. */
  maxTopK?: number;
  /** Lowest min_relevance, 0 to 1: a request cannot make refusals rarer than this. Not set: no limit. */
  lowestMinRelevance?: number;
  /** Whether requests must leave system_prompt and prompt_template alone. */
  fixedPrompt?: boolean;
}

/**
 * An address that is told when a job of the collection has ended, whatever came of it, by a POST of JSON that is
 * signed as Standard Webhooks has it: webhook-id, webhook-timestamp and webhook-signature are headers. Its data
 * are the job as GetJob shows it to one who may see all of it, without items and text of documents. What is not
 * answered with 2xx within 15 seconds is sent again, 8 times in all over 28 hours, with the same webhook-id. One
 * job may be told of twice, and again when it has ended after RetryJob.
 */
export interface Webhook {
  /**
   * Address, https, or http if crawl.allow_private_addresses is true. Redirects are not followed, and addresses
   * are reached as by a crawl. Whoever may read the collection sees it.
   */
  url: string;
  /** Secret of the collection that holds the key: "whsec_" and 24 to 64 bytes in base64. */
  secret: string;
}

/**
 * Retention of the revisions of a document that were replaced, with text, title, metadata and access. One stays
 * while any of these holds, and as long as a stored answer cites it, whatever is set here; all of them go with
 * the document when it is deleted. Segments of text that several revisions of a document have are stored once.
 * What is no longer to be kept is dropped within an hour.
 */
export interface HistorySettings {
  /** How many replaced revisions of each document are kept, the newest, 10000 at most. */
  revisions: number;
  /** For how many days a revision is kept after it was replaced, 36500 at most. */
  days: number;
  /** Whether all are kept. */
  everything?: boolean;
  /**
   * Whether the chunks of replaced revisions are kept with them, for searches with as_of. It needs `days` or
   * `everything`, and holds from when it is set: the past begins then. Chunks that a new revision leaves as they
   * were are stored once. It begins anew with a re-index by another embedding model or language, and ends when it
   * is no longer set.
   */
  searchable?: boolean;
}

/** A point of a map of confidence. */
export interface CalibrationPoint {
  /** Confidence before the map, 0 to 1. */
  confidence: number;
  /** Probability that such an answer is right, 0 to 1. */
  probability: number;
}

/** A map of confidence: straight between its points, level beyond the first and the last. */
export interface Calibration {
  /** By rising confidence; the probability never falls. 20 at most; none: confidence stays as it is. */
  points: CalibrationPoint[];
}

/** Settings of a collection, which are the defaults of the requests that use it. */
export interface CollectionSettings {
  /** Chunking. */
  chunking?: ChunkingSettings;
  /** Contextualization. */
  contextualization?: ContextualizationSettings;
  /** Descriptions of pictures. */
  pictures?: PictureSettings;
  /** Embedding. */
  embedding?: EmbeddingSettings;
  /** Vector index, which may change at any time. */
  vectorIndex?: VectorIndexSettings;
  /** Lexical indexing. */
  lexical?: LexicalSettings;
  /** Defaults of retrieval. */
  retrieval?: RetrievalOptions;
  /** Defaults of fusion and reranking. */
  rerank?: RerankOptions;
  /** Defaults of answers. */
  generation?: GenerationOptions;
  /** Who may use it. */
  access?: AccessSettings;
  /** Crawling. */
  crawl?: CrawlSettings;
  /** Limits of requests' changes of rerank.top_k and generation. Not set: no limits. */
  generationLimits?: GenerationLimits;
  /**
   * Whether documents are kept as they were handed in, to be fetched by DownloadDocument, which takes their size
   * again in the database. It holds for documents brought in from then on.
   */
  keepOriginals?: boolean;
  /**
   * Principals that may download originals, beside who may write, 1000 at most. Empty: whoever may read. Pictures
   * of pages and extracted texts are for every reader.
   */
  originalReaders: string[];
  /** Addresses that are told when a job has ended, each of them once. Those that are set when it ends are told. */
  webhooks: Webhook[];
  /** Retention of replaced revisions of documents. Not set: those that answers cite. */
  history?: HistorySettings;
  /**
   * Map from the confidence of answers to the share of right ones among them, made by `groundline calibrate`. It
   * counts for requests that ask this collection alone. Not set: confidence stays as it is.
   */
  calibration?: Calibration;
}

/** Request of CreateCollection. */
export interface CreateCollectionRequest {
  /** Identifier; see Collection.collection_id. Empty: made from the name. */
  collectionId: string;
  /** Name for people. Empty: the id. */
  name: string;
  /** Settings; those not set take their defaults. */
  settings?: CollectionSettings;
  /**
   * Makes a retry safe: creating again with the same request_id returns the caller's collection. 64 characters at
   * most.
   */
  requestId: string;
  /** Checks the request and returns the collection as it would be; nothing is created. */
  dryRun: boolean;
}

/** A set of documents that are searched together, with one embedding model and one lexical language. */
export interface Collection {
  /**
   * Identifier, chosen by its creator: lower-case letters, digits, "_" and "-", 1 to 63 characters, beginning with
   * a letter or digit.
   */
  collectionId: string;
  /** Name for people, 200 characters at most. */
  name: string;
  /** Settings; those not set are shown with their defaults where the collection itself decides them. */
  settings?: CollectionSettings;
  /** How many documents that the caller may read are searchable. */
  documentCount: number;
  /** How many chunks of these documents are searchable. */
  chunkCount: number;
  /** When it was created. */
  createTime?: string;
  /** When its name or settings last changed. */
  updateTime?: string;
  /** Whether the index before is kept; see RevertIndex. */
  hasPreviousIndex: boolean;
  /** Entity tag: a text that differs whenever name or settings do; see UpdateCollectionRequest.etag. */
  etag: string;
}

/** Response of CreateCollection. */
export interface CreateCollectionResponse {
  /** The new collection. */
  collection?: Collection;
}

/** Request of GetCollection. */
export interface GetCollectionRequest {
  /** The collection. */
  collectionId: string;
}

/** Response of GetCollection. */
export interface GetCollectionResponse {
  /** The collection. */
  collection?: Collection;
}

/** Request of ListCollections. */
export interface ListCollectionsRequest {
  /** Maximum number of collections to return; more than 1000 count as 1000. */
  pageSize: number;
  /**
   * Token of the page to return, from the last response to the same caller's same request; its page_size may
   * differ.
   */
  pageToken: string;
}

/** Response of ListCollections. */
export interface ListCollectionsResponse {
  /** By id. */
  collections: Collection[];
  /** For the next page; empty on the last. */
  nextPageToken: string;
}

/** Request of UpdateCollection. */
export interface UpdateCollectionRequest {
  /** The collection. */
  collectionId: string;
  /** The new name. Empty and not in the mask: unchanged. */
  name: string;
  /** The new settings. */
  settings?: CollectionSettings;
  /**
   * Paths to change, such as "name" or "settings.chunking". Without it, every field that is set is changed, down
   * to single settings.
   */
  updateMask: string;
  /** Checks the request and returns the collection as it would be; nothing is changed. */
  dryRun: boolean;
  /**
   * Collection.etag of the collection that the change was made for: of any other the request is refused. Empty: it
   * is changed whatever it is.
   */
  etag: string;
}

/** Response of UpdateCollection. */
export interface UpdateCollectionResponse {
  /** The collection as it is now. */
  collection?: Collection;
}

/** Request of DeleteCollection. */
export interface DeleteCollectionRequest {
  /** The collection. */
  collectionId: string;
}

/** Response of DeleteCollection. */
export interface DeleteCollectionResponse {
}

/** Request of ReindexCollection. */
export interface ReindexCollectionRequest {
  /** The collection. */
  collectionId: string;
  /** New embedding, chunking, contextualization and lexical settings. Not set: those of the collection. */
  settings?: CollectionSettings;
  /** Makes a retry safe: the caller's same id returns the same job. 64 characters at most. */
  requestId: string;
  /** Whether the new index waits, once it is complete, for SwapIndex or CancelJob. Default: false. */
  hold: boolean;
  /**
   * Whether the old index stays once it is replaced. It takes the place of one that was kept before; without
   * `keep_previous` that one is given up at the swap, too. Default: false.
   */
  keepPrevious: boolean;
}

/** How far a job has come. */
export type JobState =
  /** Not known. */
  | "JOB_STATE_UNSPECIFIED"
  /** Stored, not begun. */
  | "JOB_STATE_QUEUED"
  /** At work. */
  | "JOB_STATE_RUNNING"
  /** Every item ended, and at least one is done (or there was none). */
  | "JOB_STATE_DONE"
  /** Every item ended, and none is done. */
  | "JOB_STATE_FAILED"
  /** Cancelled; items that were done before stay. */
  | "JOB_STATE_CANCELLED";

/** Chunks that passed each stage. When an item is done, all four are equal. */
export interface ChunkCounts {
  /** Cut from the text. */
  parsed: number;
  /** Given their context. */
  contextualized: number;
  /** Embedded. */
  embedded: number;
  /** Written. */
  stored: number;
}

/**
 * Documents on their way into a collection. Its numbers count the items that the caller may see: all of a job of
 * its own, of another's those whose document it may read.
 */
export interface IngestionJob {
  /** Identifier, a UUID. */
  jobId: string;
  /** The collection. */
  collectionId: string;
  /** How far it has come. */
  state: JobState;
  /**
   * Documents in it, with those found so far by a crawl and within others. A crawl that failed or was cancelled
   * counts as one as well.
   */
  itemCount: number;
  /** Documents that are done, the unchanged and the skipped ones included. */
  doneCount: number;
  /** Documents that were done and had not changed. */
  unchangedCount: number;
  /** Documents that failed. */
  failedCount: number;
  /** Documents that were cancelled. */
  cancelledCount: number;
  /** Chunks of all items. */
  chunks?: ChunkCounts;
  /** Tokens of all items. */
  usage?: Usage;
  /** When it was stored. */
  createTime?: string;
  /** When it was first begun. */
  startTime?: string;
  /** When it ended. */
  endTime?: string;
  /**
   * Set once it has ended: a position in what was written to the database, at which all that the job did is there.
   * As the min_position of a search or question it makes sure that they see it, wherever they read. Opaque; a
   * later request may give another one of the same job.
   */
  position: string;
  /**
   * Documents that a run of a source deleted, since they have gone from it; in a dry run its items name them
   * instead.
   */
  deletedCount: number;
  /** Whether it takes nothing in: the outcomes of its items are what there would be. */
  isDryRun: boolean;
  /** Files within documents that were skipped; see INGESTION_OUTCOME_SKIPPED. */
  skippedCount: number;
  /** Whether it is a re-index whose index is complete and waits for SwapIndex or CancelJob. */
  isHeld: boolean;
}

/** Response of ReindexCollection. */
export interface ReindexCollectionResponse {
  /** The job. */
  job?: IngestionJob;
}

/** Request of SwapIndex. */
export interface SwapIndexRequest {
  /** The job of the re-index. */
  jobId: string;
}

/** Response of SwapIndex. */
export interface SwapIndexResponse {
  /** The job, which ends once the new index is in use. */
  job?: IngestionJob;
}

/** Request of RevertIndex. */
export interface RevertIndexRequest {
  /** The collection. */
  collectionId: string;
  /** Makes a retry safe: the caller's same id returns the same job. 64 characters at most. */
  requestId: string;
}

/** Response of RevertIndex. */
export interface RevertIndexResponse {
  /** The job, which ends once the index is in use. */
  job?: IngestionJob;
}

/** Request of ReclaimIndex. */
export interface ReclaimIndexRequest {
  /** The collection. */
  collectionId: string;
}

/** Response of ReclaimIndex. */
export interface ReclaimIndexResponse {
  /** Whether an index was kept. */
  wasKept: boolean;
}

/** Request of GetCollectionStats. */
export interface GetCollectionStatsRequest {
  /** The collection. */
  collectionId: string;
}

/** How far a document or an item of a job has come. */
export type IngestionState =
  /** Not known. */
  | "INGESTION_STATE_UNSPECIFIED"
  /** Stored, not begun. */
  | "INGESTION_STATE_QUEUED"
  /** Its text is read out of its bytes. */
  | "INGESTION_STATE_EXTRACTING"
  /** Its text is cut into chunks. */
  | "INGESTION_STATE_CHUNKING"
  /** Its chunks are given their context. */
  | "INGESTION_STATE_CONTEXTUALIZING"
  /** Its chunks are embedded. */
  | "INGESTION_STATE_EMBEDDING"
  /** Its chunks are written. */
  | "INGESTION_STATE_STORING"
  /** It is searchable. */
  | "INGESTION_STATE_DONE"
  /** It failed; what was searchable of it before still is. */
  | "INGESTION_STATE_FAILED"
  /** Its job was cancelled before it was done. */
  | "INGESTION_STATE_CANCELLED";

/** Documents in one state. */
export interface StateCount {
  /** The state. */
  state: IngestionState;
  /** Documents in it. */
  documentCount: number;
}

/**
 * Whether a collection's vectors have an index of their own. Without it a search reads every vector, which finds
 * the same or more, slower.
 */
export type VectorIndexState =
  /** Not used. */
  | "VECTOR_INDEX_STATE_UNSPECIFIED"
  /** Too few chunks for one. */
  | "VECTOR_INDEX_STATE_NONE"
  /** Being built, or will be when what is being ingested is done. */
  | "VECTOR_INDEX_STATE_PENDING"
  /** In use. */
  | "VECTOR_INDEX_STATE_READY"
  /**
   * In use, with the vectors themselves: the settings ask for a quantized index, but its bits found less than .98
   * of the nearest in a sample. They are tried again every ten minutes.
   */
  | "VECTOR_INDEX_STATE_NOT_QUANTIZED";

/**
 * Figures of a collection's documents that the caller may read. Byte and token counts are doubles, exact to
 * 2^53.
 */
export interface CollectionStats {
  /** Documents in each state. */
  states: StateCount[];
  /** Searchable chunks. */
  chunkCount: number;
  /** Searchable chunks with an embedding. */
  vectorCount: number;
  /** Chunks whose document does not exist; always 0 in a sound database. */
  orphanCount: number;
  /** Bytes of the documents as handed in. */
  documentBytes: number;
  /** Bytes of the chunks' texts. */
  textBytes: number;
  /** Bytes of table and indexes, by the share of chunks. */
  storageBytes: number;
  /** Tokens of the chunks, by the embedding model. */
  tokenCount: number;
  /** How vectors are searched. */
  vectorIndex: VectorIndexState;
  /**
   * Quotas of the caller, for who may write the collection, and those of the collection, for who may administer
   * it: they count documents that a writer may not read.
   */
  quotas: QuotaUsage[];
}

/** Response of GetCollectionStats. */
export interface GetCollectionStatsResponse {
  /** Figures of the collection. */
  stats?: CollectionStats;
}

/**
 * A structured record, serialised field by field. Its own "uri", else "uuid", identifies it where
 * DocumentInput.uri is empty; "uuid" is shown in the metadata.
 */
export interface ObjectContent {
  /** The record's fields. */
  properties?: JsonObject;
  /** Name of the record's type, such as "product"; shown as "schema" in the metadata, unless that has one. */
  schema: string;
}

/**
 * A document as it is handed in.
 *
 * A mail or a ZIP archive, however its content is given, becomes several documents: one of its own (a mail's
 * headers and text, or the names of an archive's members), and one for each attachment or member, at all depths,
 * with the uri "<uri of what it is in>!/<name>", such as "mails/offer.eml!/prices.xlsx". They get the metadata
 * and the allowed principals of the document that they are in, are replaced with it and deleted with it. At most
 * 1000 of them, 3 deep; what cannot be read is skipped (see INGESTION_OUTCOME_SKIPPED).
 */
export interface DocumentInput {
  /**
   * Identifier within its collection: a path, a URL, a key; 2000 characters and 2500 bytes of UTF-8 at most.
   * Handing in the same uri again replaces the document. Empty: a name made from the content's hash, so that the
   * same content is one document.
   */
  uri: string;
  /**
   * Title, 500 characters at most. Empty: what the document calls itself, its first heading, else the uri's last
   * part.
   */
  title: string;
  /** Text as it is. */
  text?: string;
  /** Bytes of a file (base64 in JSON). */
  data?: string;
  /** A structured record. */
  object?: ObjectContent;
  /**
   * MIME type. Empty: from the content, with the uri's extension as a hint. Binary formats are told by their
   * content whatever is said here. Ignored for an object.
   */
  mimeType: string;
  /**
   * Anything to filter by and to show, 64 KiB as JSON at most. The front matter of a Markdown document, YAML
   * between lines of three hyphens before its text, is added to it; what is given here goes before it.
   */
  metadata?: JsonObject;
  /** Principals that may read it, 1000 at most. Empty, or with "*" in it: whoever may read the collection. */
  allowedPrincipals: string[];
}

/**
 * Pages of a web site to ingest: those to which links and the site's sitemaps lead from the start, on its host,
 * but for those that robots.txt forbids or that ask not to be indexed. One that names another of the host its
 * canonical address is stored under that one.
 */
export interface WebCrawl {
  /** Where to begin, http or https. */
  startUrl: string;
  /** Maximum number of pages. */
  maxPages: number;
  /** Maximum number of links from the start; pages of a sitemap count as one link away. */
  maxDepth?: number;
  /** Path patterns (with * and **) of pages to take. Empty: all of the start's host. */
  includePaths: string[];
  /** Path patterns of pages to leave out. */
  excludePaths: string[];
  /** Seconds between two requests to a host, 0 to 60. Not set: 1, or what robots.txt asks for. */
  delaySeconds?: number;
  /** Metadata of every page; see DocumentInput.metadata. */
  metadata?: JsonObject;
  /** Who may read every page; see DocumentInput.allowed_principals. */
  allowedPrincipals: string[];
}

/** Request of IngestDocuments. */
export interface IngestDocumentsRequest {
  /** The collection. */
  collectionId: string;
  /** Documents, 1000 at most. */
  documents: DocumentInput[];
  /** Web pages, instead of documents. */
  crawl?: WebCrawl;
  /** Makes a retry safe: the caller's same id returns the same job. 64 characters at most. */
  requestId: string;
  /**
   * Takes nothing in. Of documents chunks and tokens are estimated, without those of files within them, and no job
   * is stored. A crawl is a job whose items are the pages, each with what would become of it by its content as it
   * was served.
   */
  dryRun: boolean;
}

/** Effect of a document's ingestion. */
export type IngestionOutcome =
  /** Not ended, or failed. */
  | "INGESTION_OUTCOME_UNSPECIFIED"
  /** It is new. */
  | "INGESTION_OUTCOME_CREATED"
  /** It replaced its earlier version. */
  | "INGESTION_OUTCOME_UPDATED"
  /** It was the same as before; nothing was done. */
  | "INGESTION_OUTCOME_UNCHANGED"
  /**
   * It is a file within another document that cannot be read, as its failure says: of a format that is not
   * supported, encrypted, or without text. No document is made of it, and nothing else fails by it.
   */
  | "INGESTION_OUTCOME_SKIPPED"
  /** It has gone from its source and would be deleted; only in a dry run. */
  | "INGESTION_OUTCOME_DELETED";

/** Why an ingestion failed. */
export interface IngestionFailure {
  /** The state it was in. */
  stage: IngestionState;
  /** Why, such as UNSUPPORTED_TYPE. */
  reason: ErrorReason;
  /** The same for people. */
  message: string;
}

/**
 * One document of a job, or the crawl that finds its documents. Attachments of a mail and members of an archive
 * are items of their own, which join the job when the mail or the archive is stored.
 */
export interface IngestionItem {
  /** The document; empty until it is known. */
  documentId: string;
  /** Identifier of the document within its collection; for a crawl, its start. */
  uri: string;
  /** How far it has come. */
  state: IngestionState;
  /** Effect, or in a dry run the expected one, once it is done. */
  outcome: IngestionOutcome;
  /** Why it failed or was skipped; not set where it was not. */
  failure?: IngestionFailure;
  /** How often it was begun, those times included that do not count against the maximum. */
  attempts: number;
  /** Its chunks. */
  chunks?: ChunkCounts;
  /**
   * Tokens that its contextualization and the descriptions of its pictures read and wrote, with their price, and
   * that its embedding read, in all attempts.
   */
  usage?: Usage;
  /**
   * Whether it is the job's crawl, or the run of a source, whose documents are items of their own. It is
   * EXTRACTING while it goes from one to the next.
   */
  isCrawl: boolean;
  /** Its place in the job, from 0. */
  itemIndex: number;
  /**
   * The uri of the document that it was found within; empty where it was handed in, or found by a crawl or a
   * source.
   */
  containerUri: string;
  /**
   * How many items were made of the files within it, at all depths, skipped and failed ones included; 0 until it
   * is done.
   */
  memberCount: number;
  /**
   * How many of its pictures were to be described and are not, since no model could be asked or it failed. Brought
   * in again, the document is read again, and only these are asked for.
   */
  undescribedPictureCount: number;
}

/** Response of IngestDocuments. */
export interface IngestDocumentsResponse {
  /** The job; it may have ended already. */
  job?: IngestionJob;
  /** Its first items, 1000 at most. */
  items: IngestionItem[];
}

/** Part of the request of UploadDocument; all but content counts in the first one only. */
export interface UploadDocumentRequest {
  /** The collection. */
  collectionId: string;
  /** Where the document is found; see DocumentInput.uri. */
  uri: string;
  /** Its title. Empty: what the document calls itself. */
  title: string;
  /** Its metadata, a JSON object; see DocumentInput.metadata. Empty: none. */
  metadataJson: string;
  /** Who may read it; see DocumentInput.allowed_principals. */
  allowedPrincipals: string[];
  /** Makes a retry safe: the caller's same id returns the same job. 64 characters at most. */
  requestId: string;
}

/** Response of UploadDocument. */
export interface UploadDocumentResponse {
  /** The job. */
  job?: IngestionJob;
  /** Its item. */
  item?: IngestionItem;
}

/** Request of GetDocument. */
export interface GetDocumentRequest {
  /** The collection. */
  collectionId: string;
  /** The document. */
  documentId: string;
}

/** A document of a collection. */
export interface Document {
  /** Identifier, a UUID; it stays the same when the document is replaced. */
  documentId: string;
  /** Its collection. */
  collectionId: string;
  /** Where it came from. */
  sourceType: SourceType;
  /** Identifier within its collection. */
  uri: string;
  /** Title. */
  title: string;
  /** MIME type. */
  mimeType: string;
  /** SHA-256 of what was handed in, 64 hex digits. */
  contentHash: string;
  /** Metadata. */
  metadata?: JsonObject;
  /** Principals that may read it. Empty: whoever may read the collection. */
  allowedPrincipals: string[];
  /** How far its last ingestion came. */
  state: IngestionState;
  /** How many of its chunks are searchable. */
  chunkCount: number;
  /** Size of what was handed in, in bytes. */
  sizeBytes: number;
  /** Why its last ingestion failed; not set where it did not. */
  failure?: IngestionFailure;
  /** When it was first handed in. */
  createTime?: string;
  /** When its content or metadata last changed. */
  updateTime?: string;
  /** Whether DownloadDocument has what was handed in. */
  hasOriginal: boolean;
  /**
   * The uri of the mail or archive that it is an attachment or member of; empty where it is none. To filter by it
   * is "$container_uri".
   */
  containerUri: string;
  /** The revision in use; see Revision. */
  revision: string;
}

/** Response of GetDocument. */
export interface GetDocumentResponse {
  /** The document. */
  document?: Document;
}

/** Request of ListDocuments. */
export interface ListDocumentsRequest {
  /** The collection. */
  collectionId: string;
  /** Maximum number of documents to return; more than 1000 count as 1000. */
  pageSize: number;
  /**
   * Token of the page to return, from the last response to the same caller's same request; its page_size may
   * differ.
   */
  pageToken: string;
  /** Condition on documents as JSON; see ChatRequest.filter. Empty: all of them. */
  filterJson: string;
  /** Order, ascending, or descending with " desc" behind it; equal ones by uri. Empty: uri. */
  orderBy: string;
}

/** Response of ListDocuments. */
export interface ListDocumentsResponse {
  /** In the order asked for. */
  documents: Document[];
  /** For the next page; empty on the last. */
  nextPageToken: string;
}

/** Request of GetDocumentText. */
export interface GetDocumentTextRequest {
  /** The collection. */
  collectionId: string;
  /** The document. */
  documentId: string;
  /** Where to begin, in Unicode code points. */
  startOffset: number;
  /** Maximum number of characters to return. */
  maxCharacters: number;
  /** The revision whose text it is. Empty: the one in use. */
  revision: string;
}

/** Response of GetDocumentText. */
export interface GetDocumentTextResponse {
  /**
   * The text from start_offset to end_offset; empty behind the end, and of a document that has not been read yet.
   * Form feeds stand between pages.
   */
  text: string;
  /** Where it begins in the whole text, in Unicode code points, inclusive. */
  startOffset: number;
  /**
   * Where it ends in the whole text, in Unicode code points, exclusive: where to go on, unless it is
   * character_count.
   */
  endOffset: number;
  /** Characters of the whole text. */
  characterCount: number;
}

/** Request of ListRevisions. */
export interface ListRevisionsRequest {
  /** The collection. */
  collectionId: string;
  /** The document. */
  documentId: string;
  /** Maximum number of revisions to return; more than 1000 count as 1000. */
  pageSize: number;
  /**
   * Token of the page to return, from the last response to the same caller's same request; its page_size may
   * differ.
   */
  pageToken: string;
}

/** Who stored a revision of a document, and what made its text and its chunks. */
export interface Provenance {
  /**
   * First principal of the caller that handed it in, changed its metadata or put it back; of a source, its
   * creator's.
   */
  storedBy: string;
  /** The job that did it. */
  jobId: string;
  /**
   * Reader that read the text out of the file, with its version, such as "pdf.reader 0.1.0"; empty where it was
   * handed in as text, or put back from an earlier revision.
   */
  reader: string;
  /** How it was last cut into chunks. */
  chunking?: ChunkingSettings;
  /**
   * Version of the ingestion's steps when it was stored; the same content of the same version gives the same
   * chunks.
   */
  pipelineVersion: number;
}

/**
 * A revision of a document: what was stored of it at a time. It never changes, and is named by its content:
 * text, title, metadata and access. Storing the same again makes none.
 */
export interface Revision {
  /** Its name, 32 hex digits, unique in the document. */
  revision: string;
  /** Whether it is the one in use. */
  isCurrent: boolean;
  /** Title. */
  title: string;
  /** MIME type. */
  mimeType: string;
  /** Where it came from. */
  sourceType: SourceType;
  /** SHA-256 of what was handed in, 64 hex digits. */
  contentHash: string;
  /** Size of what was handed in, in bytes. */
  sizeBytes: number;
  /** Metadata. */
  metadata?: JsonObject;
  /** Principals that might read it. Empty: whoever may read the collection. */
  allowedPrincipals: string[];
  /** Since when it was the one in use. */
  storeTime?: string;
  /** When it was replaced; not set of the one in use. */
  replaceTime?: string;
  /** Whether DownloadDocument has what was handed in. */
  hasOriginal: boolean;
  /** Who stored it, and what made it; not set where a bulk import or an earlier release did. */
  provenance?: Provenance;
}

/** Response of ListRevisions. */
export interface ListRevisionsResponse {
  /** The revisions. */
  revisions: Revision[];
  /** Token of the next page; empty at the end. */
  nextPageToken: string;
}

/** Request of GetRevision. */
export interface GetRevisionRequest {
  /** The collection. */
  collectionId: string;
  /** The document. */
  documentId: string;
  /** The revision. */
  revision: string;
}

/** Response of GetRevision. */
export interface GetRevisionResponse {
  /** The revision. */
  revision?: Revision;
}

/** Request of CompareRevisions. */
export interface CompareRevisionsRequest {
  /** The collection. */
  collectionId: string;
  /** The document. */
  documentId: string;
  /** The first revision. */
  revision: string;
  /** The second revision. Empty: the one in use. */
  otherRevision: string;
  /** Where the part to compare begins in the first revision's text, in Unicode code points. */
  startOffset: number;
  /**
   * Where it ends, exclusive; what is more than 100,000 characters behind its beginning is left out. 0: the whole
   * texts are compared.
   */
  endOffset: number;
}

/** Fate of a part of a document's text in another of its revisions. */
export type TextFate =
  /** Not known. */
  | "TEXT_FATE_UNSPECIFIED"
  /** It stands where it stood. */
  | "TEXT_FATE_SAME"
  /** It stands elsewhere, as it was. */
  | "TEXT_FATE_MOVED"
  /** Something like it stands there. */
  | "TEXT_FATE_CHANGED"
  /** It is gone, and so is everything like it within 2,000,000 characters of its place. */
  | "TEXT_FATE_GONE";

/** How a stretch of text came to be. */
export type TextChange =
  /** Not known. */
  | "TEXT_CHANGE_UNSPECIFIED"
  /** Both have it. */
  | "TEXT_CHANGE_EQUAL"
  /** The first has it, the second does not. */
  | "TEXT_CHANGE_DELETED"
  /** The second has it, the first does not. */
  | "TEXT_CHANGE_INSERTED";

/** A stretch of text in a comparison. */
export interface ComparedText {
  /** Who has it. */
  change: TextChange;
  /**
   * The stretch. A long one that both have is cut in its middle, where an ellipsis stands, unless the part of a
   * text that was asked for is compared.
   */
  text: string;
}

/** Response of CompareRevisions. */
export interface CompareRevisionsResponse {
  /** Fate of the part; of whole texts SAME or CHANGED. */
  fate: TextFate;
  /** The second revision. */
  otherRevision: string;
  /**
   * Where the part, or what it became, begins in the second revision's text, in Unicode code points; 0 if it is
   * gone.
   */
  startOffset: number;
  /** Where it ends, exclusive. */
  endOffset: number;
  /**
   * Both texts in stretches, in their order; those that both have give with the deleted ones the first text, with
   * the inserted ones the second. 10,000 at most.
   */
  texts: ComparedText[];
  /** Whether there were more of them. */
  isCut: boolean;
}

/** Request of RestoreRevision. */
export interface RestoreRevisionRequest {
  /** The collection. */
  collectionId: string;
  /** The document. */
  documentId: string;
  /** The revision. */
  revision: string;
  /** Makes a retry safe: the caller's same request_id returns the job that it made. 64 characters at most. */
  requestId: string;
}

/** Response of RestoreRevision. */
export interface RestoreRevisionResponse {
  /** The job. */
  job?: IngestionJob;
  /** Its item. */
  item?: IngestionItem;
}

/** Request of DownloadDocument. */
export interface DownloadDocumentRequest {
  /** The collection. */
  collectionId: string;
  /** The document. */
  documentId: string;
  /** The revision that it is of. Empty: the one in use. */
  revision: string;
}

/** Request of GetDocumentPage. */
export interface GetDocumentPageRequest {
  /** The collection. */
  collectionId: string;
  /** The document. */
  documentId: string;
  /** The page, from 1. */
  page: number;
  /**
   * Width of the picture in pixels, 3000 at most; less where the page would have more than 4,000,000 pixels, or
   * where an image has fewer.
   */
  width: number;
  /** The revision that it is of. Empty: the one in use. */
  revision: string;
}

/** Request of SetLegalHold. */
export interface SetLegalHoldRequest {
  /** The collection. */
  collectionId: string;
  /** Its documents, 1000 at most. Empty, and no threads: the whole collection, with what it will hold. */
  documentIds: string[];
  /** Why, 500 characters at most; such as a case. Empty: it is released. */
  reason: string;
  /** Threads, 1000 at most, whose answers cite a document of the collection. */
  threadIds: string[];
}

/** Response of SetLegalHold. */
export interface SetLegalHoldResponse {
  /** Number of holds that were set, changed or released. */
  changedCount: number;
}

/** Request of ListLegalHolds. */
export interface ListLegalHoldsRequest {
  /** The collection. */
  collectionId: string;
  /** Maximum number of holds to return; more than 1000 count as 1000. */
  pageSize: number;
  /**
   * Token of the page to return, from the last response to the same caller's same request; its page_size may
   * differ.
   */
  pageToken: string;
}

/** A legal hold. */
export interface LegalHold {
  /** The document; empty for a thread and for the whole collection. */
  documentId: string;
  /** The document's uri; empty for a thread and for the whole collection. */
  uri: string;
  /** The reason that was given. */
  reason: string;
  /** Since when. */
  createTime?: string;
  /** The thread; empty for documents and for the whole collection. */
  threadId: string;
}

/** Response of ListLegalHolds. */
export interface ListLegalHoldsResponse {
  /** The holds. */
  holds: LegalHold[];
  /** For the next page; empty on the last. */
  nextPageToken: string;
}

/** Request of ListErasures. */
export interface ListErasuresRequest {
  /** The collection, of which all are listed. Empty: those that the caller asked for, of all collections. */
  collectionId: string;
  /** Maximum number of erasures to return; more than 1000 count as 1000. */
  pageSize: number;
  /**
   * Token of the page to return, from the last response to the same caller's same request; its page_size may
   * differ.
   */
  pageToken: string;
}

/**
 * A deletion of documents for good: with their texts, chunks, contexts, cached vectors, originals and revisions,
 * and the answers that rest on them, in one transaction. It holds no text, title or uri.
 */
export interface Erasure {
  /** Identifier, a UUID. */
  erasureId: string;
  /** The collection. */
  collectionId: string;
  /** Whether it was deleted whole. */
  isCollection: boolean;
  /** When. */
  eraseTime?: string;
  /** Number of documents. */
  documentCount: number;
  /** Number of their replaced revisions. */
  revisionCount: number;
  /** Number of their chunks. */
  chunkCount: number;
  /** Number of answers that named a revision of them as a source. */
  answerCount: number;
  /** SHA-256 of what was handed in, of all revisions, each once, 64 hex digits; the first 1000 in their order. */
  contentHashes: string[];
}

/** Response of ListErasures. */
export interface ListErasuresResponse {
  /** The erasures, without hashes. */
  erasures: Erasure[];
  /** For the next page; empty on the last. */
  nextPageToken: string;
}

/** Request of GetErasureCertificate. */
export interface GetErasureCertificateRequest {
  /** The erasure. */
  erasureId: string;
}

/** Request of ListChunks. */
export interface ListChunksRequest {
  /** The collection. */
  collectionId: string;
  /** The document. */
  documentId: string;
  /** Maximum number of chunks to return; more than 1000 count as 1000. */
  pageSize: number;
  /**
   * Token of the page to return, from the last response to the same caller's same request; its page_size may
   * differ.
   */
  pageToken: string;
}

/** A stored piece of a document, the unit of retrieval. */
export interface Chunk {
  /** Identifier, unique in the installation. */
  chunkId: string;
  /** The document it is part of. */
  documentId: string;
  /** The collection it is in. */
  collectionId: string;
  /** Position within the document, from 0. */
  chunkIndex: number;
  /** The chunk's own text, exactly as in the document. */
  text: string;
  /** The text that places the chunk in its document; it was embedded and indexed together with the chunk. */
  context: string;
  /** Title of the document. */
  title: string;
  /** Where the document is found: a path, a URL, or the identifier it was ingested under. */
  uri: string;
  /** Where the document came from. */
  sourceType: SourceType;
  /** MIME type of the document. */
  mimeType: string;
  /** Start in the document's extracted text, in Unicode code points, inclusive. */
  startOffset: number;
  /** End in the document's extracted text, in Unicode code points, exclusive. */
  endOffset: number;
  /**
   * Metadata of the document, and where the document has pages and no metadata of that name, the number of the
   * page that the text begins on as "page", from 1. Of a text that goes over a page's end also "lastPage" and
   * "pages", a list of all of them. A filter on "page" selects every chunk whose text touches that page.
   * `promptInjection` is true where its text, or the document's title, name or metadata, looks like instructions
   * to an assistant; a document cannot set it.
   */
  metadata?: JsonObject;
  /** When the document was last changed. */
  updateTime?: string;
  /** Whether DownloadDocument has the document as it was handed in. */
  hasOriginal: boolean;
  /** The document's revision that it is part of; see Revision. */
  revision: string;
}

/** Response of ListChunks. */
export interface ListChunksResponse {
  /** In the order of the document. The page of each, where the document has pages, is "page" in its metadata. */
  chunks: Chunk[];
  /** For the next page; empty on the last. */
  nextPageToken: string;
}

/** Request of DeleteDocument. */
export interface DeleteDocumentRequest {
  /** The collection. */
  collectionId: string;
  /** The document. */
  documentId: string;
}

/** Response of DeleteDocument. */
export interface DeleteDocumentResponse {
}

/** Request of DeleteDocuments. */
export interface DeleteDocumentsRequest {
  /** The collection. */
  collectionId: string;
  /**
   * Condition on documents; see ChatRequest.filter. One that holds for every document, such as an empty one, is
   * refused: DeleteCollection deletes all.
   */
  filter?: JsonObject;
  /**
   * Makes a retry safe: the caller's same id deletes nothing more and returns the same count, for 7 days; 64
   * characters at most.
   */
  requestId: string;
  /** Only counts; nothing is deleted. */
  dryRun: boolean;
}

/** Response of DeleteDocuments. */
export interface DeleteDocumentsResponse {
  /** How many were deleted, those within others included; with dry_run, how many would be. */
  deletedCount: number;
}

/** Request of GetJob. */
export interface GetJobRequest {
  /** The job. */
  jobId: string;
  /** Maximum number of items to return; more than 1000 count as 1000. */
  pageSize: number;
  /**
   * Token of the page to return, from the last response to the same caller's same request; its page_size may
   * differ.
   */
  pageToken: string;
}

/** Response of GetJob. */
export interface GetJobResponse {
  /** The job. */
  job?: IngestionJob;
  /** Its items, in the order they were handed in. */
  items: IngestionItem[];
  /** For the next page; empty on the last. */
  nextPageToken: string;
}

/** Request of ListJobs. */
export interface ListJobsRequest {
  /** Only jobs on this collection. Empty: all. */
  collectionId: string;
  /** Maximum number of jobs to return; more than 1000 count as 1000. */
  pageSize: number;
  /**
   * Token of the page to return, from the last response to the same caller's same request; its page_size may
   * differ.
   */
  pageToken: string;
}

/** Response of ListJobs. */
export interface ListJobsResponse {
  /** Newest first. */
  jobs: IngestionJob[];
  /** For the next page; empty on the last. */
  nextPageToken: string;
}

/** Request of WatchJob. */
export interface WatchJobRequest {
  /** The job. */
  jobId: string;
}

/** One state of a watched job. */
export interface WatchJobResponse {
  /** The job as it is now. */
  job?: IngestionJob;
  /** Items that changed since the last response; at first the failed ones. */
  items: IngestionItem[];
  /** Identifies this state, for resumption; the id of the server-sent event. */
  eventId: string;
}

/** Request of CancelJob. */
export interface CancelJobRequest {
  /** The job. */
  jobId: string;
}

/** Response of CancelJob. */
export interface CancelJobResponse {
  /** The job as it is now. */
  job?: IngestionJob;
}

/** Request of RetryJob. */
export interface RetryJobRequest {
  /** The job. */
  jobId: string;
}

/** Response of RetryJob. */
export interface RetryJobResponse {
  /** The job as it is now. */
  job?: IngestionJob;
}

/** Request of RevertJob. */
export interface RevertJobRequest {
  /** The job. */
  jobId: string;
  /** Whether to tell only what would be done. Default: false. */
  dryRun: boolean;
  /** Whether to take back documents that were changed again since, too, with those changes. Default: false. */
  overwrite: boolean;
  /** Makes a retry safe: the same id from the same caller returns the job that was stored. 64 characters at most. */
  requestId: string;
}

/** Effect on a document of taking a job back. */
export type RevertAction =
  /** Not known. */
  | "REVERT_ACTION_UNSPECIFIED"
  /** It gets the revision that it had before. */
  | "REVERT_ACTION_RESTORE"
  /** It is deleted: the job created it. */
  | "REVERT_ACTION_DELETE"
  /** It stays as it is: it has the revision that it had before. */
  | "REVERT_ACTION_NONE"
  /** It stays as it is: it was changed again since. */
  | "REVERT_ACTION_CHANGED_SINCE"
  /** It stays as it is: the revision before is not kept. */
  | "REVERT_ACTION_NOT_KEPT"
  /** It stays as it is: the job created it, and it is under a legal hold. */
  | "REVERT_ACTION_HELD";

/** Documents of one action. */
export interface RevertCount {
  /** The action. */
  action: RevertAction;
  /** Number of documents. */
  documentCount: number;
}

/** A document of a job that is taken back. */
export interface RevertedDocument {
  /** The document. */
  documentId: string;
  /** Its uri. */
  uri: string;
  /** The effect. */
  action: RevertAction;
  /** The revision that is put back, or would be; empty for one that is deleted. */
  revision: string;
}

/** Response of RevertJob. */
export interface RevertJobResponse {
  /** The job that puts revisions back; not set if none is, and in a dry run. */
  job?: IngestionJob;
  /** Documents by action, those without any left out. */
  counts: RevertCount[];
  /** The documents by their uris, the first 1000. */
  documents: RevertedDocument[];
}

/**
 * Files of a directory that the collector sees. Those whose name begins with "." and symbolic links are left
 * out.
 */
export interface DirectorySource {
  /** Its absolute path, at or below one of the collector's SOURCE_DIRECTORIES. */
  path: string;
}

/** Objects of a bucket behind the API of Amazon S3. */
export interface S3Source {
  /** Address of the storage, http or https, without a path. */
  endpointUrl: string;
  /** The bucket. */
  bucket: string;
  /** Only objects whose key begins so. Paths count from here. */
  prefix: string;
  /** Region. */
  region: string;
  /** Secret that holds the access key. Empty, together with secret_key_secret: without credentials. */
  accessKeySecret: string;
  /** Secret that holds the secret key. */
  secretKeySecret: string;
}

/** Files of a branch of a git repository. */
export interface GitSource {
  /** Where it is cloned from, http or https, without credentials. */
  url: string;
  /** The branch. Empty: the one that the repository names as its head. */
  branch: string;
  /** Only files below this folder. Paths count from here. */
  path: string;
  /** User name; without a password_secret none is sent. */
  username: string;
  /** Secret that holds the password or token. Empty: without credentials. */
  passwordSecret: string;
}

/** Rows of a query to PostgreSQL, each of them a document. The query runs in a transaction that may only read. */
export interface PostgresSource {
  /**
   * Secret that holds the connection URL, such as postgresql://reader:…@db.example:5432/tickets?sslmode=verify-
   * full.
   */
  urlSecret: string;
  /** One SELECT. Every run reads all its rows, unless there is an update_column. */
  query: string;
  /** Column that identifies a row; it is a document's path. */
  idColumn: string;
  /**
   * Column that is set anew, and higher than all others, with every change of a row, such as a time of update. A
   * run then reads the rows that are not below its highest value of the run before, and of all others only their
   * ids. Empty: all rows are read.
   */
  updateColumn: string;
  /**
   * Text of a document, in which {column} stands for the value of a column; {{ and }} are braces. Empty: all
   * columns as a JSON object.
   */
  textTemplate: string;
  /** Column that holds the title. Empty: none. */
  titleColumn: string;
  /** Columns that become metadata of the same names. */
  metadataColumns: string[];
  /** Maximum seconds of one statement. */
  statementTimeoutSeconds: number;
}

/**
 * Pages of a web site, found as those of IngestDocumentsRequest.crawl. Those that have not changed since the
 * last run are not read again.
 */
export interface WebSource {
  /** Where to begin, http or https. */
  startUrl: string;
  /** Maximum number of pages. A run that finds more deletes nothing. */
  maxPages: number;
  /** Maximum number of links from the start; pages of a sitemap count as one link away. */
  maxDepth?: number;
  /** Seconds between two requests to a host, 0 to 60. Not set: 1, or what robots.txt asks for. */
  delaySeconds?: number;
}

/**
 * Entries of an RSS or Atom feed, each of them a document. Its metadata are the entry's author, its categories,
 * and when it was published and updated, in ISO 8601.
 *
 * A document's uri is the entry's link if that is on the feed's host, begins with the source's uri_prefix, or is
 * the page that was read (linked_pages). Another entry has the feed's address with "#" and its id as its uri,
 * since a feed does not speak for other sites; its link is in its metadata as "link".
 *
 * A feed shows its latest entries: those that have left it stay.
 */
export interface FeedSource {
  /** Where the feed is, http or https, without credentials. */
  url: string;
  /**
   * Takes the page that an entry links to instead of what the feed says of it. The page is read when the entry is
   * new or has changed, as a page of a web site is: robots.txt holds for it, and there is a second between two
   * pages.
   */
  linkedPages: boolean;
  /** User name for the feed itself. Empty, together with password_secret: without credentials. */
  username: string;
  /** Secret that holds the password. */
  passwordSecret: string;
}

/**
 * Mails of an account on an IMAP server, each of them a document with its attachments, whose path is its
 * Message-ID. So a mail that is in several folders, or is moved, is one document. Its metadata are the folder,
 * the Message-ID, who it is from and to, and its date, in ISO 8601.
 */
export interface ImapSource {
  /** The server. Its certificate must be valid for this name. */
  host: string;
  /** Port. 0: 993, or 143 with starttls. */
  port: number;
  /**
   * Encrypts the connection by STARTTLS, before anything else is said. Not set: it is encrypted from its
   * beginning.
   */
  starttls: boolean;
  /** User name. */
  username: string;
  /** Secret that holds the password. */
  passwordSecret: string;
}

/** Mails of mbox files that the collector sees, as those of an ImapSource; a file is a folder, by its path. */
export interface MboxSource {
  /**
   * Absolute path of a file, or of a directory whose mbox files are read, at or below one of the collector's
   * SOURCE_DIRECTORIES. Files whose name begins with "." and symbolic links are left out.
   */
  path: string;
}

/** Documents of a kind of source that the collector's operator has installed as a plug-in. */
export interface PluginSource {
  /** Name of the kind, as the plug-in gives it: lower-case letters, digits and "_". */
  kind: string;
  /**
   * Settings, as the plug-in declares them. The collector checks them when the source is created or changed, and
   * at each run: an unknown or wrong one is INVALID_ARGUMENT and named. Secrets are named, and never given: a
   * setting whose name ends in "_secret" is the name of a secret.
   */
  settings?: JsonObject;
}

/**
 * Source that a collection follows. A run ingests new and changed documents and deletes those that were deleted
 * from the source; a run that could not see all of it deletes none.
 *
 * A document belongs to who brought it first: a source that finds the uri of a document that another source
 * brought, or somebody handed in, fails with URI_OF_OTHER_SOURCE for it, and neither replaces nor deletes it.
 * Runs act by the rights of who created the source, or last changed what it reads.
 */
export interface DocumentSource {
  /** Identifier, a UUID; set by the service. */
  sourceId: string;
  /** Its collection; set by the service. */
  collectionId: string;
  /** Name for people, one of its own among the collection's sources. */
  name: string;
  /** A directory. */
  directory?: DirectorySource;
  /** A bucket. */
  s3?: S3Source;
  /** A git repository. */
  git?: GitSource;
  /** A query. */
  postgres?: PostgresSource;
  /** A web site. */
  web?: WebSource;
  /** An RSS or Atom feed. */
  feed?: FeedSource;
  /** Folders of a mail account. */
  imap?: ImapSource;
  /** Mail in files. */
  mbox?: MboxSource;
  /** Kind that a plug-in brings. */
  plugin?: PluginSource;
  /**
   * Prefix that makes a document's path its uri, such as https://git.example/docs/blob/main/. Empty: no prefix for
   * a directory and for git, s3://bucket/prefix for a bucket, the source's name and "/" for a query, for mail and
   * for a plug-in. Not for a web site, whose pages have their address. For a feed it is put before nothing, but
   * names the site, other than its own, whose addresses its entries may have as their uris.
   */
  uriPrefix: string;
  /**
   * Patterns (with * and **) of paths to take, such as "**.md". Empty: all. For a web site and a feed they are of
   * an address's path, and begin with "/" or "*". For mail they are of folders, such as "INBOX" or "Projects/**";
   * empty: all folders but those that the server marks as drafts, junk and trash.
   */
  includePaths: string[];
  /** Patterns of paths to leave out. */
  excludePaths: string[];
  /** Metadata of every document; see DocumentInput.metadata. */
  metadata?: JsonObject;
  /**
   * Who may read every document; see DocumentInput.allowed_principals. A document that the kind of source says
   * this of has that instead.
   */
  allowedPrincipals: string[];
  /**
   * Seconds between the beginnings of two runs, 10 % more or less by chance, so that sources do not run in step;
   * 60 to 31 days. Not set: it runs only when it is asked to.
   */
  intervalSeconds?: number;
  /** When it was created; set by the service. */
  createTime?: string;
  /** When it runs next by itself; set by the service. */
  nextRunTime?: string;
  /** The last run, which may be at work; set by the service. */
  lastJob?: IngestionJob;
  /** Documents that it has brought and that have not gone; set by the service. */
  documentCount: number;
  /** Whether it runs only when it is asked to, whatever its interval. What it knows of its documents stays. */
  isPaused: boolean;
  /**
   * Entity tag: a text that differs whenever what its creator sets does; set by the service. See
   * UpdateSourceRequest.etag.
   */
  etag: string;
}

/** Request of CreateSource. */
export interface CreateSourceRequest {
  /** The collection. */
  collectionId: string;
  /** The source; fields that the service sets are passed over. */
  source?: DocumentSource;
  /** Checks the request and returns the source as it would be, without an id; nothing is created. */
  dryRun: boolean;
}

/** Response of CreateSource. */
export interface CreateSourceResponse {
  /** The new source. */
  source?: DocumentSource;
}

/** Request of GetSource. */
export interface GetSourceRequest {
  /** The collection. */
  collectionId: string;
  /** The source. */
  sourceId: string;
}

/** Response of GetSource. */
export interface GetSourceResponse {
  /** The source. */
  source?: DocumentSource;
}

/** Request of ListSources. */
export interface ListSourcesRequest {
  /** The collection. */
  collectionId: string;
  /** Maximum number of sources to return; more than 1000 count as 1000. */
  pageSize: number;
  /**
   * Token of the page to return, from the last response to the same caller's same request; its page_size may
   * differ.
   */
  pageToken: string;
}

/** Response of ListSources. */
export interface ListSourcesResponse {
  /** By name. */
  sources: DocumentSource[];
  /** For the next page; empty on the last. */
  nextPageToken: string;
}

/** Request of UpdateSource. Its fields are those of DocumentSource. */
export interface UpdateSourceRequest {
  /** The collection. */
  collectionId: string;
  /** The source. */
  sourceId: string;
  /** The new name. Empty: unchanged. */
  name: string;
  /** A directory. */
  directory?: DirectorySource;
  /** A bucket. */
  s3?: S3Source;
  /** A git repository. */
  git?: GitSource;
  /** A query. */
  postgres?: PostgresSource;
  /** A web site. */
  web?: WebSource;
  /** An RSS or Atom feed. */
  feed?: FeedSource;
  /** Folders of a mail account. */
  imap?: ImapSource;
  /** Mail in files. */
  mbox?: MboxSource;
  /** Kind that a plug-in brings. */
  plugin?: PluginSource;
  /** The new prefix of uris; documents of the former one are deleted. */
  uriPrefix: string;
  /** The new patterns of paths to take. */
  includePaths: string[];
  /** The new patterns of paths to leave out. */
  excludePaths: string[];
  /** The new metadata of every document. */
  metadata?: JsonObject;
  /** Who may read every document from now on. */
  allowedPrincipals: string[];
  /** The new interval, which begins now. */
  intervalSeconds?: number;
  /** Whether it is paused. A source with an interval that is no longer paused runs at once. */
  isPaused?: boolean;
  /**
   * Fields to change, such as "interval_seconds", also to what is not set: without an interval the source then
   * runs only when it is asked to. Without a mask every field that is set is changed.
   */
  updateMask: string;
  /** Checks the request and returns the source as it would be; nothing is changed. */
  dryRun: boolean;
  /**
   * DocumentSource.etag of the source that the change was made for: of any other the request is refused. Empty: it
   * is changed whatever it is.
   */
  etag: string;
}

/** Response of UpdateSource. */
export interface UpdateSourceResponse {
  /** The source as it is now. */
  source?: DocumentSource;
}

/** Request of RunSource. */
export interface RunSourceRequest {
  /** The collection. */
  collectionId: string;
  /** The source. */
  sourceId: string;
  /**
   * Whether everything is read again, whatever the source knows of it, such as documents that failed. Those that
   * have not changed cost no more than reading them.
   */
  full: boolean;
  /**
   * Takes nothing in and deletes nothing; the source is left as it is, with all that it knows. The job is one of
   * its own, beside a run that has not ended, and its items are what has changed, each with what would become of
   * it; files within documents are not looked for. Not with full.
   */
  dryRun: boolean;
}

/** Response of RunSource. */
export interface RunSourceResponse {
  /** The job of the run. */
  job?: IngestionJob;
}

/** Request of DeleteSource. */
export interface DeleteSourceRequest {
  /** The collection. */
  collectionId: string;
  /** The source. */
  sourceId: string;
  /** Whether the documents that it brought are deleted as well. */
  deleteDocuments: boolean;
}

/** Response of DeleteSource. */
export interface DeleteSourceResponse {
}

/** Request of Search. */
export interface SearchRequest {
  /**
   * Query, 1 to 8000 characters after trimming white space. In collections whose model knows many languages, an
   * English one is also searched for by its words in German, and a German one in English, if they hold texts in
   * that language; what this finds counts .3 beside the rest.
   */
  query: string;
  /** Collections to search, 100 at most. Empty: every collection that the caller may read. */
  collectionIds: string[];
  /** Condition on documents; see ChatRequest.filter. */
  filter?: JsonObject;
  /** Parameters. */
  options?: SearchOptions;
  /** Position up to which changes are visible; see ChatRequest.min_position. */
  minPosition: string;
  /**
   * Other queries to search for at the same time, 9 at most: parts of `query`, or other words for it. What they
   * find is fused with what `query` finds, and ordered by `query`.
   */
  additionalQueries: string[];
  /**
   * Minimum similarity (cosine, -1 to 1). If no hit reaches it, the response says so and has no passages: better
   * words may find more. Not set: every hit is returned.
   */
  weakSimilarity?: number;
  /**
   * Whether each passage comes with its chunk's vector, read from the database beside the text. A vector of 384
   * dimensions is 4 KB of JSON. Vectors of different models cannot be compared.
   */
  includeVectors: boolean;
  /** Whether each passage comes with where its text has words of the queries, and with the part of it to show. */
  includeHighlights: boolean;
  /**
   * Fields whose values are counted, 10 at most: paths of metadata as in the filter, "$collection_id",
   * "$source_type", "$mime_type". Counted are the documents of the collections that the caller may read and that
   * the filter leaves, whatever the query, so that the counts tell what narrower filters would leave. A condition
   * on "page" leaves none.
   */
  facets: string[];
  /** Maximum number of values of each facet. */
  maxFacetValues?: number;
  /**
   * Time in the past of which what was current then is searched; see ChatRequest.as_of. Passages name the
   * revisions of then. Not together with facets.
   */
  asOf?: string;
}

/** A near-duplicate of a passage. */
export interface Alternative {
  /** The near-duplicate. */
  chunk?: Chunk;
  /** Its similarity to the passage, 0 to 1. */
  similarity: number;
}

/** Part of a text, in Unicode code points from its beginning. */
export interface TextSpan {
  /** Start, inclusive. */
  startOffset: number;
  /** End, exclusive. */
  endOffset: number;
}

/** Where the text of a passage's chunk has words of the query. */
export interface Highlights {
  /**
   * The first 200 words that match, in their order: those with the stem of a word of the query, by the
   * collection's language and without its stop words. Empty for a passage that was found by its meaning alone, or
   * by its title.
   */
  words: TextSpan[];
  /**
   * The part of the text with most of them, 400 characters at most, from the beginning of a sentence or word to
   * the end of a word. Without any the beginning of the text.
   */
  snippet?: TextSpan;
}

/** A chunk in its final place. */
export interface Passage {
  /** The chunk. */
  chunk?: Chunk;
  /** Final score; higher is better, comparable within one response only. */
  score: number;
  /** Why it stands here. */
  explanation?: ScoreExplanation;
  /** Near-duplicates that it stands for, best first. */
  alternatives: Alternative[];
  /** Chunks next to it in its document, in document order, where they were asked for. */
  adjacentChunks: Chunk[];
  /** The chunk's vector by the collection's embedding model, in half precision, where it was asked for. */
  vector: number[];
  /** Where the chunk's text has words of the query, where it was asked for. */
  highlights?: Highlights;
}

/** Which rule removed a candidate. */
export type CutRule =
  /** Not known. */
  | "CUT_RULE_UNSPECIFIED"
  /** It came after the first top_k. */
  | "CUT_RULE_TOP_K"
  /** It is a near-duplicate of a better one. */
  | "CUT_RULE_DUPLICATE"
  /** Its final score was below min_score. */
  | "CUT_RULE_MIN_SCORE"
  /** Maximal marginal relevance preferred others. */
  | "CUT_RULE_DIVERSITY"
  /** Better passages of its document were as many as max_per_document. */
  | "CUT_RULE_DOCUMENT";

/** A candidate that was not returned. */
export interface CutPassage {
  /** The chunk. */
  chunkId: string;
  /** The rule that removed it. */
  rule: CutRule;
  /** Why it stood where it stood. */
  explanation?: ScoreExplanation;
}

/** A value of a field, and how many documents have it. */
export interface FacetValue {
  /**
   * A string of 256 characters at most as JSON writes it (longer ones are not counted), a number, a boolean or
   * null. Of a list each element is one.
   */
  value?: unknown;
  /** Number of documents. */
  documentCount: number;
}

/** Values of a field of documents. */
export interface Facet {
  /** The field, as the request names it. */
  field: string;
  /** Its values, those of most documents first. */
  values: FacetValue[];
  /** Whether there are more. */
  hasMore: boolean;
}

/** Response of Search. */
export interface SearchResponse {
  /** Best first. */
  passages: Passage[];
  /** Parts that were skipped, failed or came late; empty without any. */
  degraded: Degradation[];
  /** How long each stage took, in order. */
  timings: StageTiming[];
  /** W3C trace id of this request; empty where the request is not traced. */
  traceId: string;
  /** Passages that were cut and why, if requested. */
  cut: CutPassage[];
  /** Whether no hit reaches weak_similarity. Not set without weak_similarity. */
  isWeak?: boolean;
  /**
   * Counts for each of the request's facets, in their order; empty if they could not be made in time, which
   * degraded says.
   */
  facets: Facet[];
  /** Words that were corrected; the passages are those of the corrected query. */
  corrections: Correction[];
  /**
   * Collections of the passages, by id, whose embedding model is known to put texts of different languages side by
   * side: there a similarity also counts if passage and query are in two languages.
   */
  multilingualCollectionIds: string[];
  /**
   * Usage of hosted models: to embed the queries, unless that was done lately, and to rerank. Empty if they are
   * local.
   */
  usage?: Usage;
}

/** How a cell is compared. */
export type TableOperator =
  /** Not set. */
  | "TABLE_OPERATOR_UNSPECIFIED"
  /** It is one of the values. */
  | "TABLE_OPERATOR_EQUAL"
  /** It is none of the values, and not empty. */
  | "TABLE_OPERATOR_NOT_EQUAL"
  /** It is less, or earlier, than the value. */
  | "TABLE_OPERATOR_LESS"
  /** It is the value at most. */
  | "TABLE_OPERATOR_AT_MOST"
  /** It is more, or later, than the value. */
  | "TABLE_OPERATOR_GREATER"
  /** It is the value at least. */
  | "TABLE_OPERATOR_AT_LEAST"
  /** Its text holds one of the values. */
  | "TABLE_OPERATOR_CONTAINS";

/** Condition on the rows of a table. An empty cell, or one without a number in a column of numbers, meets none. */
export interface TableCondition {
  /** The column. */
  column: number;
  /**
   * How its cells are compared. Texts are compared without regard to case; only EQUAL, NOT_EQUAL and CONTAINS take
   * them.
   */
  operator: TableOperator;
  /**
   * Texts that they are compared with; more than one only for EQUAL, NOT_EQUAL and CONTAINS. A number may have a
   * unit that is converted into the column's; a date is written as 2024-05-31 or 2024-05-31 18:30; yes and no are
   * true and false.
   */
  values: string[];
}

/** Function that is computed of the rows. */
export type TableFunction =
  /** No function: the rows themselves are returned. */
  | "TABLE_FUNCTION_UNSPECIFIED"
  /** How many rows there are; a column is not needed. */
  | "TABLE_FUNCTION_COUNT"
  /** Sum of a column's numbers. */
  | "TABLE_FUNCTION_SUM"
  /** Average of a column's numbers. */
  | "TABLE_FUNCTION_AVERAGE"
  /** Least number, or earliest date, of a column. */
  | "TABLE_FUNCTION_MINIMUM"
  /** Greatest number, or latest date, of a column. */
  | "TABLE_FUNCTION_MAXIMUM"
  /**
   * Difference between the greatest and the least number of a column; none if fewer than two rows have one.
   * Conditions that leave two rows compare them.
   */
  | "TABLE_FUNCTION_DIFFERENCE";

/** Condition on what is computed of a group. A group without a value meets none. */
export interface TableGroupCondition {
  /** How the value is compared; not TABLE_OPERATOR_CONTAINS. */
  operator: TableOperator;
  /**
   * Value that it is compared with, as in TableCondition.values: a number, or a date if the least or the latest
   * one is computed.
   */
  value: string;
}

/**
 * Another table of the same document whose rows are looked up. Its columns are numbered on from those of the
 * plan's table: beside one of four columns its first is 4. A row that finds none has empty cells in them.
 */
export interface TableJoin {
  /** Place of the other table in the document. */
  tableIndex: number;
  /** Column of the plan's table whose cells name a row of the other one, such as a part number. */
  column: number;
  /** Column of the other table that has the same cells, without regard to case, each once; numbered as it is there. */
  joinedColumn: number;
}

/**
 * Question to a table, in a closed grammar. Totals are left out of everything but conditions that name them:
 * rows called "Total", "Summe" or the like, and at the end of a table those whose name begins so, or in which
 * two columns add up.
 */
export interface TablePlan {
  /** The document. */
  documentId: string;
  /** Place of the table in the document. */
  tableIndex: number;
  /** Conditions, all of which a row meets. */
  conditions: TableCondition[];
  /** Columns to return of each row; empty: all of them. Not for a function. */
  columns: number[];
  /** Function to compute. */
  function: TableFunction;
  /** Column that it is computed of; for every function but COUNT. */
  functionColumn?: number;
  /** Column by whose values the rows are grouped; only for a function. */
  groupBy?: number;
  /**
   * Column by which the rows are ordered, or with `group_by` the groups: by what is computed of them. Not set: in
   * the table's order, groups by their first row.
   */
  orderBy?: number;
  /** Whether the order is descending. */
  isDescending: boolean;
  /** Maximum number of rows, or groups. */
  limit?: number;
  /** Conditions on the groups, all of which a group meets; only with `group_by`. */
  groupConditions: TableGroupCondition[];
  /** Another table of the document whose columns are added. */
  join?: TableJoin;
}

/** Who makes plans of questions to tables. */
export type TablePlanning =
  /** Rules, and a language model if they cannot and the generator has one. The default. */
  | "TABLE_PLANNING_UNSPECIFIED"
  /** Rules alone. */
  | "TABLE_PLANNING_RULES";

/** Request of QueryTables: a question, a plan, or a document whose tables are listed. */
export interface QueryTablesRequest {
  /**
   * Question, 1 to 1000 characters after trimming white space; not needed with a plan, or to list tables. Rules
   * understand English and German.
   */
  question: string;
  /** Plan to run; no other is then made of the question. */
  plan?: TablePlan;
  /** Collections whose tables may be asked, 100 at most. Empty: every collection that the caller may read. */
  collectionIds: string[];
  /**
   * Documents that a search for the question has found, 100 at most: if there are more than 50 tables, those of
   * these documents are tried. Empty: it is searched for.
   */
  documentIds: string[];
  /**
   * Document whose tables alone may be asked; without a question and a plan they are listed. Not for a plan, which
   * names its document. Empty: no restriction.
   */
  documentId: string;
  /** Who makes a plan of the question. */
  planning: TablePlanning;
}

/** Type of a column: what at least 8 of 10 of its cells are that are not empty. */
export type ColumnType =
  /** Not set. */
  | "COLUMN_TYPE_UNSPECIFIED"
  /** Text. */
  | "COLUMN_TYPE_TEXT"
  /** Numbers of one unit, or without one. */
  | "COLUMN_TYPE_NUMBER"
  /** Days, with a time of day or without. */
  | "COLUMN_TYPE_DATE"
  /** Yes or no. */
  | "COLUMN_TYPE_BOOLEAN";

/** Column of a table. */
export interface TableColumn {
  /** Place in the table, from 0: the column of plans. */
  index: number;
  /** Name, as the table's head has it; "" if it has none. */
  name: string;
  /** Type. */
  type: ColumnType;
  /**
   * Unit of its numbers, such as "kg", "%" or "EUR", from its head or its cells; "" without one. Cells of other
   * units that can be converted are converted into it.
   */
  unit: string;
}

/** Table of a document, in its revision in use. */
export interface Table {
  /** Collection of the document. */
  collectionId: string;
  /** The document. */
  documentId: string;
  /** Place of the table in the document, from 0. */
  tableIndex: number;
  /** Title of the document. */
  title: string;
  /** Uri of the document. */
  uri: string;
  /** Revision of the document. */
  revision: string;
  /** Text above the table: a caption or heading; "" without any. */
  name: string;
  /** Sheet that it is on; "" for others. */
  sheet: string;
  /** Page that it begins on, from 1; 0 if the document has no pages. */
  page: number;
  /** Its columns, 16,000 at most. */
  columns: TableColumn[];
  /** Number of its rows, without its head. */
  rowCount: number;
  /** Whether it has more than 1,000,000 rows, of which the first are asked only. */
  isCut: boolean;
}

/** Column of an answer. */
export interface TableAnswerColumn {
  /** Name of the table's column. */
  name: string;
  /** Function that was computed of it. */
  function: TableFunction;
  /** Unit. */
  unit: string;
}

/** Cell of a table, or a value that PostgreSQL computed of several. */
export interface TableCell {
  /** Text, as the document shows it, or a computed number in full; "" for none. */
  text: string;
  /** Number, in the column's unit; not set if it has none. A date has none. */
  number?: number;
  /** Unit of the number. */
  unit: string;
}

/** Place of a cell that an answer comes from. */
export interface CellReference {
  /** Row of the sheet or table, from 1. */
  row: number;
  /** The column, as plans number it. */
  column: number;
  /** Reference in the sheet, such as "C17", or "Prices!C17" in a joined table; "" for a table that is not on one. */
  reference: string;
  /** Where its row begins in the text of the document's revision, in Unicode code points. */
  startOffset: number;
}

/** Row of an answer. */
export interface TableAnswerRow {
  /** Its cells, one for each column of the answer. */
  cells: TableCell[];
  /** Cells that it comes from: those that it shows, or of a computed value the first 50 that it was computed of. */
  sources: CellReference[];
  /** Number of rows that it was computed of; 1 for a row of the table. */
  rowCount: number;
  /** Rows among them whose cell has no number and which the value leaves out. */
  missingCount: number;
  /** The row in words, in the question's language, such as "DN-6: Weight (kg) 2.8"; of a plan in English. */
  text: string;
}

/** Why a question has no plan. */
export type TableRefusal =
  /** It has one. */
  | "TABLE_REFUSAL_UNSPECIFIED"
  /** No table that the caller may read has to do with the question. */
  | "TABLE_REFUSAL_NO_TABLE"
  /** A part of the question means nothing in the tables, or its form is none that rules know. */
  | "TABLE_REFUSAL_NOT_UNDERSTOOD"
  /** It means different things in different tables or columns. */
  | "TABLE_REFUSAL_AMBIGUOUS";

/** Response of QueryTables. */
export interface QueryTablesResponse {
  /** The plan that was run; not set if the question has none. */
  plan?: TablePlan;
  /** The plan in words, such as "sum of Amount where Year is 2024, by Region". */
  explanation: string;
  /** The table that was asked. */
  table?: Table;
  /** Columns of the answer. */
  columns: TableAnswerColumn[];
  /** Rows of the answer; none if no row meets the conditions. With a function and no `group_by` there is one. */
  rows: TableAnswerRow[];
  /** Whether there are more than the plan's limit, or of the tables of a document more than are listed. */
  hasMore: boolean;
  /** Why the question has no plan. */
  refusal: TableRefusal;
  /** Words of the question that mean nothing in the tables. */
  unknownWords: string[];
  /**
   * Without a plan: tables that the question may be about, 20 at most; without a question, those of document_id in
   * their order, 200 at most. Each with its first 100 columns.
   */
  tables: Table[];
  /** W3C trace id of this request; empty where the request is not traced. */
  traceId: string;
  /**
   * Chunks that the first cells of the answer stand in, in the order of its rows, 8 at most. A cell stands in the
   * one whose offsets hold its start_offset.
   */
  chunks: Chunk[];
  /** The model that made the plan, or was the last to refuse, or "rules". Empty for a plan of the request. */
  model: string;
  /** Tokens that a model read and wrote for the plan, and what a search for the question took. */
  usage?: Usage;
  /**
   * Reason of the error for which no model was heard although rules had no plan; empty where none was to be, or is
   * configured.
   */
  fallbackReason: string;
}
