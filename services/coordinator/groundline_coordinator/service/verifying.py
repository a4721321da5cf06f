"""Verification: a text is cut into claims, each is searched for, and judged by what is found."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Final

from groundline.v1 import (
    chat_pb2,
    generator_service_pb2,
    options_pb2,
    passage_pb2,
    retriever_service_pb2,
    verification_pb2,
)
from groundline.v1 import coordinator_service_pb2 as pb
from groundline_runtime.charges import total
from groundline_runtime.context import Caller, begun, current_trace_id, deadline_within, give_place_back
from groundline_runtime.reasons import enum_label
from groundline_runtime.serving.detached import DetachedWork

from groundline_coordinator.domain.claims import query_of, verified
from groundline_coordinator.domain.passages import numbered_passages
from groundline_coordinator.domain.turns import Inquiry, Plan
from groundline_coordinator.metrics import VERIFIED_CLAIMS
from groundline_coordinator.ports import CollectionCatalog, Generator, Retriever
from groundline_coordinator.service.progress import share
from groundline_coordinator.service.quotas import CallerQuotas
from groundline_coordinator.service.scoping import looking_up, scope_of

type VerifyEvent = (
    verification_pb2.VerifyStarted | verification_pb2.VerifiedClaim | verification_pb2.VerifyCompleted
)

_SIDE_BY_SIDE: Final = 4
"""Claims of one text that are worked on at a time: enough for two cores, and little of a busy suite."""

_SEARCHING_SHARE: Final = 0.6
"""Share of the time left when a search begins that it may take."""


@dataclass(frozen=True, slots=True)
class VerifyLimits:
    """Maximum seconds of each step."""

    search_timeout_seconds: float
    store_timeout_seconds: float


@dataclass(frozen=True, slots=True)
class Verification:
    """A text whose collections exist, and its claims."""

    owner: str
    text: str
    inquiry: Inquiry
    plan: Plan
    claims: Sequence[generator_service_pb2.Claim]
    started: verification_pb2.VerifyStarted


@dataclass(slots=True)
class _Report:
    """Verdicts so far, and what they took and lacked."""

    usages: list[chat_pb2.Usage] = field(default_factory=list)
    searches: list[chat_pb2.Usage] = field(default_factory=list)
    """Usage of searches, which the retriever has counted for the budgets."""
    degraded: list[passage_pb2.Degradation] = field(default_factory=list)
    verdicts: Counter[verification_pb2.Verdict.ValueType] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)

    def degrade(self, degraded: Sequence[passage_pb2.Degradation]) -> None:
        self.degraded.extend(each for each in degraded if each not in self.degraded)

    def completed(self) -> verification_pb2.VerifyCompleted:
        [(model, _)] = self.models.most_common(1) or [("", 0)]
        return verification_pb2.VerifyCompleted(
            supported_count=self.verdicts[verification_pb2.VERDICT_SUPPORTED],
            refuted_count=self.verdicts[verification_pb2.VERDICT_REFUTED],
            not_found_count=self.verdicts[verification_pb2.VERDICT_NOT_FOUND],
            usage=total([*self.usages, *self.searches]),
            degraded=self.degraded,
            model=model,
            judged_by=[
                verification_pb2.JudgedClaims(model=each, claim_count=count)
                for each, count in self.models.most_common()
            ],
        )


class VerificationService:
    """Use case of Verify."""

    def __init__(
        self,
        *,
        retriever: Retriever,
        generator: Generator,
        catalog: CollectionCatalog,
        quotas: CallerQuotas,
        limits: VerifyLimits,
    ) -> None:
        self._retriever = retriever
        self._generator = generator
        self._catalog = catalog
        self._quotas = quotas
        self._limits = limits
        self._work = DetachedWork(limits.store_timeout_seconds)

    async def begin(self, caller: Caller, request: pb.VerifyRequest) -> Verification:
        """Look up the collections, and cut the text into claims.

        Raises NotFoundError (COLLECTION_NOT_FOUND), InvalidArgumentError for values beyond a collection's
        limits or a text with too many claims, ResourceExhaustedError (QUOTA_EXHAUSTED), and UnavailableError
        if the database does not answer in time.
        """
        inquiry = _inquiry_of(request)
        async with looking_up(self._limits.store_timeout_seconds):
            plan, used = await asyncio.gather(
                scope_of(self._catalog, caller, inquiry, options_pb2.GenerationOptions()),
                self._quotas.used(caller.owner, ""),
            )
        self._quotas.require_room(used, "")
        split = generator_service_pb2.SplitClaimsRequest(text=request.text)
        claims = (await self._generator.split_claims(split)).claims
        started = verification_pb2.VerifyStarted(trace_id=current_trace_id() or "", claim_count=len(claims))
        return Verification(caller.owner, request.text, inquiry, plan, claims, started)

    async def verify(self, verification: Verification) -> AsyncGenerator[VerifyEvent]:
        """Yield the events: started, each claim in the order of the text, and completed.

        Claims are worked on side by side, a few ahead of the one that comes next. Closing the iterator stops
        them; what they took counts all the same.
        """
        # The searches and judgements of its claims take their own turns in the queues of the other services.
        give_place_back()
        report = _Report()
        ahead: deque[asyncio.Task[verification_pb2.VerifiedClaim]] = deque()
        try:
            yield verification.started
            for number, claim in enumerate(verification.claims, 1):
                ahead.append(asyncio.create_task(self._decide(verification, number, claim, report)))
                if len(ahead) == _SIDE_BY_SIDE:
                    yield await ahead.popleft()
            while ahead:
                yield await ahead.popleft()
            for verdict, count in report.verdicts.items():
                VERIFIED_CLAIMS.add(count, {"verdict": enum_label(verification_pb2.Verdict, verdict)})
            yield report.completed()
        finally:
            for task in ahead:
                task.cancel()
            await asyncio.gather(*ahead, return_exceptions=True)
            spending = self._quotas.spend(verification.owner, total(report.usages), total(report.searches))
            self._work.run(self._work.in_own_time(spending))

    async def settle(self) -> None:
        """Wait for pending writes; call it when no more requests come."""
        await self._work.settle()

    async def _decide(
        self,
        verification: Verification,
        number: int,
        claim: generator_service_pb2.Claim,
        report: _Report,
    ) -> verification_pb2.VerifiedClaim:
        with begun():
            passages = () if verification.plan.is_empty else await self._search(verification, claim, report)
            judged = await self._generator.judge_claims(
                generator_service_pb2.JudgeClaimsRequest(
                    claims=[claim],
                    passages=numbered_passages(passages),
                    model=verification.plan.generation.model,
                )
            )
        [verdict] = judged.verdicts
        report.usages.append(judged.usage)
        report.degrade(judged.degraded)
        report.verdicts[verdict.verdict] += 1
        report.models[judged.model] += 1
        return verified(number, claim, verification.text, verdict, passages)

    async def _search(
        self, verification: Verification, claim: generator_service_pb2.Claim, report: _Report
    ) -> Sequence[passage_pb2.Passage]:
        inquiry = verification.inquiry
        request = retriever_service_pb2.SearchRequest(
            query=query_of(claim),
            collection_ids=inquiry.collection_ids,
            filter=inquiry.filter,
            options=options_pb2.SearchOptions(retrieval=inquiry.retrieval, rerank=inquiry.rerank),
            min_position=inquiry.min_position,
            as_of=inquiry.as_of,
        )
        async with deadline_within(share(_SEARCHING_SHARE, self._limits.search_timeout_seconds)):
            found = await self._retriever.search(request)
        report.degrade(found.degraded)
        report.searches.append(found.usage)
        return found.passages


def _inquiry_of(request: pb.VerifyRequest) -> Inquiry:
    """Return the collections and options of a request. Offsets of evidence are of single chunks, so adjacent
    ones are not read."""
    retrieval = options_pb2.RetrievalOptions()
    retrieval.CopyFrom(request.options.retrieval)
    retrieval.adjacent_chunks = 0
    return Inquiry(
        query="",
        collection_ids=tuple(dict.fromkeys(request.collection_ids)),
        filter=request.filter,
        retrieval=retrieval,
        rerank=request.options.rerank,
        min_position=request.min_position,
        as_of=request.as_of if request.HasField("as_of") else None,
    )
