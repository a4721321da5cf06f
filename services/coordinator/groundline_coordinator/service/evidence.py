"""Evidence of a caller's answers, signed by the installation."""

from importlib.metadata import version
from typing import Final

from groundline.v1 import coordinator_service_pb2 as pb
from groundline.v1 import evidence_pb2
from groundline_runtime.context import Caller
from groundline_runtime.errors import FailedPreconditionError

from groundline_coordinator.domain.evidence import FORMAT, known_texts, passages_of, spans_of
from groundline_coordinator.domain.passages import ReadSources, resolved, span_key
from groundline_coordinator.ports import Retriever, Signer, StoredAnswer, ThreadStore
from groundline_coordinator.service.searching import read_sources, read_spans

MAX_ANSWERS: Final = 100
"""Maximum number of answers in one evidence, as the contract says."""


class EvidenceService:
    """Making of evidence, and the keys that it is checked with."""

    def __init__(self, threads: ThreadStore, retriever: Retriever, signer: Signer) -> None:
        self._threads = threads
        self._retriever = retriever
        self._signer = signer

    async def get(self, caller: Caller, request: pb.GetEvidenceRequest) -> bytes:
        """Return the evidence of one answer, or of all answers of a thread, as canonical JSON.

        Raises NotFoundError (THREAD_NOT_FOUND, MESSAGE_NOT_FOUND), FailedPreconditionError
        (EVIDENCE_TOO_LARGE).
        """
        answers = await self._threads.answers(
            caller.owner, caller.principals, request.thread_id, request.message_id, limit=MAX_ANSWERS + 1
        )
        if len(answers) > MAX_ANSWERS:
            raise FailedPreconditionError(
                "EVIDENCE_TOO_LARGE",
                f"the thread has more than {MAX_ANSWERS} answers: ask for one, by message_id",
            )
        read = await read_sources(self._retriever, [each.answer.sources for each in answers])
        evidence = evidence_pb2.Evidence(
            format=FORMAT,
            version=version("groundline-coordinator"),
            thread_id=request.thread_id.lower(),
            answers=[await self._answer(each, read) for each in answers],
        )
        return await self._signer.sign(evidence)

    async def keys(self) -> pb.ListSigningKeysResponse:
        return pb.ListSigningKeysResponse(keys=await self._signer.keys())

    async def _answer(self, stored: StoredAnswer, read: ReadSources) -> evidence_pb2.AnswerEvidence:
        question, answer, record = stored.question, stored.answer, stored.record
        answer.ClearField("feedback")
        resolved(answer.sources, answer.citations, answer.content, question.content, read)
        if answer.is_withheld:
            return evidence_pb2.AnswerEvidence(question=question, answer=answer)
        sources = spans_of(answer.sources, record)
        texts = known_texts(answer.sources, read)
        wanted = (span for _, spans in sources for span in spans if span_key(span) not in texts)
        texts |= await read_spans(self._retriever, wanted)
        return evidence_pb2.AnswerEvidence(
            question=question, answer=answer, record=record, passages=passages_of(sources, record, texts)
        )
