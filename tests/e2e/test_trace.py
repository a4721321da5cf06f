"""One chat, one ingestion and one run of a source are one trace each, from the gateway to the SQL statements;
polling is none."""

import json
from typing import Final

import httpx
from groundline_tests.ingestor.site import Site, serving
from groundline_tests.runtime import OtlpCollector, Span
from groundline_tests.suite import Stack

GATEWAY: Final = "groundline-gateway"
# Without a model that reranks, the coordinator ranks itself.
SERVICES: Final = {GATEWAY, *(f"groundline-{name}" for name in ("coordinator", "retriever", "generator"))}


def ancestors(span: Span, spans: dict[str, Span]) -> list[str]:
    """Return services from the span's own up to the root's, each once if neighbours are the same."""
    services: list[str] = []
    current: Span | None = span
    while current is not None:
        if not services or services[-1] != current.service:
            services.append(current.service)
        current = spans.get(current.parent_span_id)
    return services


async def test_a_chat_is_one_trace(client: httpx.AsyncClient, collector: OtlpCollector) -> None:
    response = await client.post("/api/chat", json={"query": "How many days of leave do I have?"})
    first = next(line for line in response.text.splitlines() if line.startswith("data: "))
    trace_id = json.loads(first.removeprefix("data: "))["started"]["traceId"]

    def of_this_chat(received: tuple[Span, ...]) -> dict[str, Span]:
        return {span.span_id: span for span in received if span.trace_id == trace_id}

    def complete(received: tuple[Span, ...]) -> bool:
        """Tell whether every service has sent its spans, and only the gateway's has no parent among them."""
        spans = of_this_chat(received)
        roots = [span.service for span in spans.values() if span.parent_span_id not in spans]
        return {span.service for span in spans.values()} >= SERVICES and roots == [GATEWAY]

    spans = of_this_chat(await collector.wait_for(complete, timeout_seconds=30))

    for service in ("retriever", "generator"):
        served = [s for s in spans.values() if s.service == f"groundline-{service}" and s.kind == "SERVER"]
        assert served, service
        for span in served:
            assert ancestors(span, spans) == [f"groundline-{service}", "groundline-coordinator", GATEWAY]

    statements = [
        str(span.attributes.get("db.statement") or span.attributes.get("db.query.text"))
        for span in spans.values()
        if span.service == "groundline-retriever" and span.kind == "CLIENT"
    ]
    # By the chunks' terms, or by the index where other tests stored more than are scored one by one.
    assert any("lexical_terms" in each or "paradedb" in each for each in statements)
    assert any("<=>" in statement for statement in statements)

    (retrieval,) = (span for span in spans.values() if span.name == "retrieval")
    found = retrieval.attributes
    assert found["openinference.span.kind"] == "RETRIEVER"
    assert (
        json.loads(str(found["gen_ai.retrieval.documents"]))[0]["id"]
        == found["retrieval.documents.0.document.id"]
    )
    assert not any("leave" in str(value) for name, value in found.items() if name != "gen_ai.data_source.id")


async def test_an_ingestion_is_one_trace_and_looking_for_work_is_none(
    client: httpx.AsyncClient, collector: OtlpCollector
) -> None:
    trace_id = "0af7651916cd43dd8448eb211c80319d"
    (await client.post("/api/collections", json={"collectionId": "traced"})).raise_for_status()
    response = await client.post(
        "/api/collections/traced/documents",
        json={"documents": [{"uri": "a.md", "text": "Leave is 27 days a year."}]},
        headers={"traceparent": f"00-{trace_id}-b7ad6b7169203331-01"},
    )
    response.raise_for_status()

    def of_storing(received: tuple[Span, ...]) -> list[str]:
        spans = {span.span_id: span for span in received if span.trace_id == trace_id}
        storing = {key for key, span in spans.items() if span.name == "store_items"}
        return [span.name for span in spans.values() if span.parent_span_id in storing]

    received = await collector.wait_for(lambda spans: bool(of_storing(spans)), timeout_seconds=30)
    names = {span.name for span in received if span.trace_id == trace_id}
    assert {"ingest_item", "embed_items", "embed_chunks", "store_items"} <= names
    statements = [
        span for span in received if span.service == "groundline-ingestor" and span.kind == "CLIENT"
    ]
    assert [span for span in statements if not span.parent_span_id] == []


async def test_a_crawl_is_a_trace_of_all_pages(client: httpx.AsyncClient, collector: OtlpCollector) -> None:
    trace_id = "2af7651916cd43dd8448eb211c80319d"
    collection = {"collectionId": "crawled", "settings": {"crawl": {"allowPrivateAddresses": True}}}
    (await client.post("/api/collections", json=collection)).raise_for_status()
    site = Site()
    with serving(site):
        site.put("/", "<a href='/towers'>Towers</a> Leave is 27 days a year.")
        site.put("/towers", "The tower is 93 metres high.")
        response = await client.post(
            "/api/collections/crawled/documents",
            json={"crawl": {"startUrl": site.url, "delaySeconds": 0}},
            headers={"traceparent": f"00-{trace_id}-b7ad6b7169203331-01"},
        )
        response.raise_for_status()

        def is_whole(received: tuple[Span, ...]) -> bool:
            """Tell whether the spans of each service have come, which sends its own."""
            own = [span for span in received if span.trace_id == trace_id]
            names = [span.name for span in own]
            return (
                {GATEWAY, "groundline-ingestor"} <= {span.service for span in own}
                and any(span.service == "groundline-collector" and span.kind == "SERVER" for span in own)
                # The crawl itself is an item, too.
                and names.count("ingest_item") >= 3
                and "store_items" in names
            )

        await collector.wait_for(is_whole, timeout_seconds=60)


async def test_a_suite_with_a_collector_counts_its_queue(stack: Stack, collector: OtlpCollector) -> None:
    await collector.wait_for_metric("groundline.ingestion.items", timeout_seconds=150)


async def test_a_run_that_no_request_began_and_a_reindex_are_one_trace_each(
    client: httpx.AsyncClient, collector: OtlpCollector
) -> None:
    begun, trace_id = await collector.wait_for(bool, timeout_seconds=30), "1af7651916cd43dd8448eb211c80319d"
    seen = {span.trace_id for span in begun}

    def traces_of(received: tuple[Span, ...], *names: str) -> set[str]:
        """Return the traces that have spans of all these names and began since."""
        found = ({span.trace_id for span in received if span.name.endswith(name)} for name in names)
        return set.intersection(*found) - seen

    collection = {"collectionId": "run", "settings": {"crawl": {"allowPrivateAddresses": True}}}
    (await client.post("/api/collections", json=collection)).raise_for_status()
    site = Site()
    with serving(site):
        site.put("/", "Leave is 27 days a year.")
        source = {"name": "site", "web": {"startUrl": site.url, "delaySeconds": 0}}
        (await client.post("/api/collections/run/sources", json={"source": source})).raise_for_status()
        received = await collector.wait_for(
            lambda spans: bool(traces_of(spans, "CollectorService/Collect", "store_items")),
            timeout_seconds=60,
        )
    assert len(traces_of(received, "CollectorService/Collect")) == 1

    headers = {"traceparent": f"00-{trace_id}-b7ad6b7169203331-01"}
    settings = {"settings": {"lexical": {"language": "german"}}}
    (await client.post("/api/collections/run:reindex", json=settings, headers=headers)).raise_for_status()
    await collector.wait_for(lambda spans: trace_id in traces_of(spans, "store_items"), timeout_seconds=60)
