// Made from protos/groundline/v1 by `make generate`; do not edit.

import type { CallOptions, Input } from "./client.js";
import type * as models from "./models.js";

/** The methods that answer once. */
export interface Methods {
  listApiKeys(request: Input<models.ListApiKeysRequest>, options?: CallOptions): Promise<models.ListApiKeysResponse>;
  createApiKey(request: Input<models.CreateApiKeyRequest>, options?: CallOptions): Promise<models.CreateApiKeyResponse>;
  revokeApiKey(request: Input<models.RevokeApiKeyRequest>, options?: CallOptions): Promise<models.RevokeApiKeyResponse>;
  listAuditEntries(request: Input<models.ListAuditEntriesRequest>, options?: CallOptions): Promise<models.ListAuditEntriesResponse>;
  answer(request: Input<models.AnswerRequest>, options?: CallOptions): Promise<models.AnswerResponse>;
  getThread(request: Input<models.GetThreadRequest>, options?: CallOptions): Promise<models.GetThreadResponse>;
  listThreads(request: Input<models.ListThreadsRequest>, options?: CallOptions): Promise<models.ListThreadsResponse>;
  updateThread(request: Input<models.UpdateThreadRequest>, options?: CallOptions): Promise<models.UpdateThreadResponse>;
  deleteThread(request: Input<models.DeleteThreadRequest>, options?: CallOptions): Promise<models.DeleteThreadResponse>;
  rateAnswer(request: Input<models.RateAnswerRequest>, options?: CallOptions): Promise<models.RateAnswerResponse>;
  listSigningKeys(request: Input<models.ListSigningKeysRequest>, options?: CallOptions): Promise<models.ListSigningKeysResponse>;
  listModels(request: Input<models.ListModelsRequest>, options?: CallOptions): Promise<models.ListModelsResponse>;
  getQuotas(request: Input<models.GetQuotasRequest>, options?: CallOptions): Promise<models.GetQuotasResponse>;
  getUsage(request: Input<models.GetUsageRequest>, options?: CallOptions): Promise<models.GetUsageResponse>;
  createCollection(request: Input<models.CreateCollectionRequest>, options?: CallOptions): Promise<models.CreateCollectionResponse>;
  getCollection(request: Input<models.GetCollectionRequest>, options?: CallOptions): Promise<models.GetCollectionResponse>;
  listCollections(request: Input<models.ListCollectionsRequest>, options?: CallOptions): Promise<models.ListCollectionsResponse>;
  updateCollection(request: Input<models.UpdateCollectionRequest>, options?: CallOptions): Promise<models.UpdateCollectionResponse>;
  deleteCollection(request: Input<models.DeleteCollectionRequest>, options?: CallOptions): Promise<models.DeleteCollectionResponse>;
  reindexCollection(request: Input<models.ReindexCollectionRequest>, options?: CallOptions): Promise<models.ReindexCollectionResponse>;
  swapIndex(request: Input<models.SwapIndexRequest>, options?: CallOptions): Promise<models.SwapIndexResponse>;
  revertIndex(request: Input<models.RevertIndexRequest>, options?: CallOptions): Promise<models.RevertIndexResponse>;
  reclaimIndex(request: Input<models.ReclaimIndexRequest>, options?: CallOptions): Promise<models.ReclaimIndexResponse>;
  getCollectionStats(request: Input<models.GetCollectionStatsRequest>, options?: CallOptions): Promise<models.GetCollectionStatsResponse>;
  ingestDocuments(request: Input<models.IngestDocumentsRequest>, options?: CallOptions): Promise<models.IngestDocumentsResponse>;
  getDocument(request: Input<models.GetDocumentRequest>, options?: CallOptions): Promise<models.GetDocumentResponse>;
  listDocuments(request: Input<models.ListDocumentsRequest>, options?: CallOptions): Promise<models.ListDocumentsResponse>;
  getDocumentText(request: Input<models.GetDocumentTextRequest>, options?: CallOptions): Promise<models.GetDocumentTextResponse>;
  listRevisions(request: Input<models.ListRevisionsRequest>, options?: CallOptions): Promise<models.ListRevisionsResponse>;
  getRevision(request: Input<models.GetRevisionRequest>, options?: CallOptions): Promise<models.GetRevisionResponse>;
  compareRevisions(request: Input<models.CompareRevisionsRequest>, options?: CallOptions): Promise<models.CompareRevisionsResponse>;
  restoreRevision(request: Input<models.RestoreRevisionRequest>, options?: CallOptions): Promise<models.RestoreRevisionResponse>;
  setLegalHold(request: Input<models.SetLegalHoldRequest>, options?: CallOptions): Promise<models.SetLegalHoldResponse>;
  listLegalHolds(request: Input<models.ListLegalHoldsRequest>, options?: CallOptions): Promise<models.ListLegalHoldsResponse>;
  listErasures(request: Input<models.ListErasuresRequest>, options?: CallOptions): Promise<models.ListErasuresResponse>;
  listChunks(request: Input<models.ListChunksRequest>, options?: CallOptions): Promise<models.ListChunksResponse>;
  deleteDocument(request: Input<models.DeleteDocumentRequest>, options?: CallOptions): Promise<models.DeleteDocumentResponse>;
  deleteDocuments(request: Input<models.DeleteDocumentsRequest>, options?: CallOptions): Promise<models.DeleteDocumentsResponse>;
  getJob(request: Input<models.GetJobRequest>, options?: CallOptions): Promise<models.GetJobResponse>;
  listJobs(request: Input<models.ListJobsRequest>, options?: CallOptions): Promise<models.ListJobsResponse>;
  cancelJob(request: Input<models.CancelJobRequest>, options?: CallOptions): Promise<models.CancelJobResponse>;
  retryJob(request: Input<models.RetryJobRequest>, options?: CallOptions): Promise<models.RetryJobResponse>;
  revertJob(request: Input<models.RevertJobRequest>, options?: CallOptions): Promise<models.RevertJobResponse>;
  createSource(request: Input<models.CreateSourceRequest>, options?: CallOptions): Promise<models.CreateSourceResponse>;
  getSource(request: Input<models.GetSourceRequest>, options?: CallOptions): Promise<models.GetSourceResponse>;
  listSources(request: Input<models.ListSourcesRequest>, options?: CallOptions): Promise<models.ListSourcesResponse>;
  updateSource(request: Input<models.UpdateSourceRequest>, options?: CallOptions): Promise<models.UpdateSourceResponse>;
  runSource(request: Input<models.RunSourceRequest>, options?: CallOptions): Promise<models.RunSourceResponse>;
  deleteSource(request: Input<models.DeleteSourceRequest>, options?: CallOptions): Promise<models.DeleteSourceResponse>;
  search(request: Input<models.SearchRequest>, options?: CallOptions): Promise<models.SearchResponse>;
  queryTables(request: Input<models.QueryTablesRequest>, options?: CallOptions): Promise<models.QueryTablesResponse>;
}

/** The methods that answer in pages, with what the pages hold. */
export interface Lists {
  listApiKeys: { request: models.ListApiKeysRequest; entry: models.ApiKey };
  listAuditEntries: { request: models.ListAuditEntriesRequest; entry: models.AuditEntry };
  getThread: { request: models.GetThreadRequest; entry: models.Message };
  listThreads: { request: models.ListThreadsRequest; entry: models.Thread };
  listCollections: { request: models.ListCollectionsRequest; entry: models.Collection };
  listDocuments: { request: models.ListDocumentsRequest; entry: models.Document };
  listRevisions: { request: models.ListRevisionsRequest; entry: models.Revision };
  listLegalHolds: { request: models.ListLegalHoldsRequest; entry: models.LegalHold };
  listErasures: { request: models.ListErasuresRequest; entry: models.Erasure };
  listChunks: { request: models.ListChunksRequest; entry: models.Chunk };
  getJob: { request: models.GetJobRequest; entry: models.IngestionItem };
  listJobs: { request: models.ListJobsRequest; entry: models.IngestionJob };
  listSources: { request: models.ListSourcesRequest; entry: models.DocumentSource };
}
