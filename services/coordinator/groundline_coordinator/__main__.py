"""Entry point of the coordinator, and the migration of its tables."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from groundline.v1 import coordinator_service_pb2_grpc
from groundline_database import (
    keep_session,
    migrate,
    migrations_of,
    open_pool,
    page_token_key,
    require_schema,
)
from groundline_database.commands import serve_or_migrate
from groundline_database.spending import SpendingLedger
from groundline_runtime.channels import service_channel
from groundline_runtime.paging import PageTokens
from groundline_runtime.quotas import Budgets
from groundline_runtime.serving.server import Application
from groundline_validation import validate

from groundline_coordinator.adapters import generator, retriever
from groundline_coordinator.adapters.postgres import PostgresCatalog, PostgresThreads
from groundline_coordinator.adapters.postgres_quotas import PostgresCallerQuotas
from groundline_coordinator.adapters.signing import PostgresSigner
from groundline_coordinator.service.chats import ChatLimits, ChatService
from groundline_coordinator.service.evidence import EvidenceService
from groundline_coordinator.service.quotas import CallerQuotas, QuotaLimits
from groundline_coordinator.service.threads import ThreadService
from groundline_coordinator.service.verifying import VerificationService, VerifyLimits
from groundline_coordinator.servicer import SERVICE, CoordinatorServicer
from groundline_coordinator.settings import CoordinatorMigrationSettings, CoordinatorSettings

SCHEMA: Final = {"ingestor": 15, "coordinator": len(migrations_of("coordinator"))}
"""Minimum versions of the tables that it reads."""


@asynccontextmanager
async def wire(settings: CoordinatorSettings) -> AsyncIterator[Application]:
    """Provide the service with its database and channels. A backend that is down fails requests, not
    readiness."""
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(open_pool(settings, reset=keep_session))
        await require_schema(pool, SCHEMA)
        to_retriever = service_channel(settings, settings.retriever_target, retriever.SERVICE)
        search = retriever.GrpcRetriever(await stack.enter_async_context(to_retriever))
        store = PostgresThreads(pool)
        threads = ThreadService(store, search, PageTokens(await page_token_key(pool, "coordinator")))
        if settings.thread_days:
            expiry = asyncio.create_task(threads.expire(settings.thread_days * 86_400))
            stack.callback(expiry.cancel)
        limits = _quota_limits(settings)
        ledger = SpendingLedger(pool, limits.budgets)
        quotas = CallerQuotas(PostgresCallerQuotas(pool, ledger), limits)
        to_generator = service_channel(settings, settings.generator_target, generator.SERVICE)
        writer = generator.GrpcGenerator(await stack.enter_async_context(to_generator))
        catalog = PostgresCatalog(pool)
        chats = ChatService(
            retriever=search,
            generator=writer,
            catalog=catalog,
            threads=store,
            quotas=quotas,
            limits=_chat_limits(settings),
        )
        stack.push_async_callback(chats.settle)
        verifications = VerificationService(
            retriever=search,
            generator=writer,
            catalog=catalog,
            quotas=quotas,
            limits=VerifyLimits(settings.search_timeout_seconds, settings.store_timeout_seconds),
        )
        stack.push_async_callback(verifications.settle)
        signer = PostgresSigner(pool)
        await signer.prepare()
        evidence = EvidenceService(store, search, signer)
        waiting = settings.max_waiting_characters
        servicer = CoordinatorServicer(
            chats, verifications, threads, evidence, quotas, writer, max_waiting_characters=waiting
        )
        yield Application(
            services={
                SERVICE: lambda server: coordinator_service_pb2_grpc.add_CoordinatorServiceServicer_to_server(
                    servicer, server
                )
            },
            validate=validate,
            readiness={"database": lambda: require_schema(pool, SCHEMA)},
        )


def _quota_limits(settings: CoordinatorSettings) -> QuotaLimits:
    return QuotaLimits(
        threads=settings.max_threads_per_caller,
        answers=settings.max_answers_per_caller,
        tokens=settings.max_tokens_per_caller,
        budgets=Budgets.of(settings),
        warning_share=settings.quota_warning_share,
    )


def _chat_limits(settings: CoordinatorSettings) -> ChatLimits:
    return ChatLimits(
        rewrite_timeout_seconds=settings.rewrite_timeout_seconds,
        search_timeout_seconds=settings.search_timeout_seconds,
        store_timeout_seconds=settings.store_timeout_seconds,
        history_messages=settings.history_messages,
        history_tokens=settings.history_tokens,
        weak_similarity=settings.weak_similarity,
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Run `groundline-coordinator [serve|migrate] [--settings FILE]`."""
    serve_or_migrate(CoordinatorSettings, wire, CoordinatorMigrationSettings, _migrate, argv)


async def _migrate(settings: CoordinatorMigrationSettings) -> None:
    async with open_pool(settings) as pool:
        # A trigger on the ingestor's table deletes answers with the documents that they rest on; the ledger
        # of what callers spent is the ingestor's, too.
        await require_schema(pool, {"ingestor": SCHEMA["ingestor"]})
    await migrate(settings, "coordinator")


if __name__ == "__main__":
    main()
