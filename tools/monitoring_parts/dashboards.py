"""Dashboards of the suite."""

from typing import Final

from groundline_bridge.metrics import HTTP_DURATION
from groundline_coordinator import metrics as answers
from groundline_database.pool import CONNECTION_WAIT, CONNECTIONS
from groundline_embedding.metrics import EMBEDDED_TOKENS
from groundline_generator import metrics as models
from groundline_indexing.feed import metrics as index
from groundline_ingestor import metrics as ingestion
from groundline_retriever import telemetry as searches
from groundline_runtime.metrics import common
from groundline_runtime.metrics.declaring import Counter, Histogram

from monitoring_parts.expressions import WINDOW, increase, quantile, rate, series
from monitoring_parts.panels import Dashboard, Panel

SEARCH: Final = 'rpc_method="groundline.v1.RetrieverService/Search"'
RERANK: Final = 'rpc_method="groundline.v1.RerankerService/Rerank"'
EMPTY: Final = series(searches.PASSAGES, 'le="0.0"', suffix="_bucket")
PUBLIC: Final = 'envoy_http_conn_manager_prefix="public"'
HOUR: Final = "1h"
RATINGS: Final = increase(answers.RATINGS, by=["rating", "problem"], window=HOUR)

STANDBY: Final = "standbys of PostgreSQL"
INDEX: Final = "the distributed index"
HOSTED: Final = "a hosted embedding model"


def _quantiles(metric: Histogram, *matchers: str, by: tuple[str, ...] = ()) -> tuple[tuple[str, str], ...]:
    legend = "".join(f"{{{{{label}}}}} " for label in by)
    return tuple(
        (quantile(share, metric, *matchers, by=by), f"{legend}p{share * 100:g}")
        for share in (0.5, 0.95, 0.99)
    )


def _share(part: str, whole: str) -> str:
    """Return the query of a share: 0 where there is a whole and no part."""
    return f"({part} or 0 * {whole}) / {whole}"


def _by_class(name: str, matchers: str, label: str) -> tuple[str, str]:
    return f"sum by ({label}) (rate({name}{{{matchers}}}[{WINDOW}]))", f"{{{{{label}}}}}xx"


def _cost(what: str, metric: Counter, label: str, *, needs: str = "") -> Panel:
    queries = ((increase(metric, by=[label], window=HOUR), f"{{{{{label}}}}}"),)
    return Panel(f"Cost of {what} an hour, by {label}", queries, "currencyUSD", needs=needs)


FIRST_TEXT: Final = Panel(
    "Time to the first text of an answer",
    _quantiles(answers.FIRST_DELTA),
    "s",
    "What people who ask feel.",
    with_exemplars=True,
)
SEARCH_DURATION: Final = Panel(
    "Duration of searches", _quantiles(common.RPC_DURATION, SEARCH), "s", with_exemplars=True
)
FINISHED: Final = Panel(
    "Answers by finish reason",
    ((rate(answers.ANSWERS, by=["finish_reason"]), "{{finish_reason}}"),),
    "reqps",
    "Refusals are `no_answer`: the documents lack what people ask, or the search misses it.",
)
DEGRADED: Final = Panel(
    "Answers and searches that went on without something",
    (
        (
            rate(common.DEGRADATIONS, by=["service", "component", "reason"]),
            "{{service}} {{component}} {{reason}}",
        ),
    ),
    "reqps",
    "A reranker, an arm of the search or the rewriting failed; the answer says so.",
)
COST: Final = Panel(
    "Cost of model calls an hour",
    ((increase(models.CALL_COST, by=["gen_ai_request_model"], window=HOUR), "{{gen_ai_request_model}}"),),
    "currencyUSD",
    "Contexts of documents are in it; models without a known price are not.",
)

OVERVIEW: Final = Dashboard(
    "overview",
    "overview",
    "Whether the suite answers, how fast, and what is wrong at the moment.",
    (
        (
            "Users",
            (
                Panel(
                    "Requests at the gateway by class of status",
                    (_by_class("envoy_http_downstream_rq_xx", PUBLIC, "envoy_response_code_class"),),
                    "reqps",
                ),
                Panel(
                    "Duration of requests at the gateway",
                    tuple(
                        (
                            f"histogram_quantile({share}, sum by (le) (rate("
                            f"envoy_http_downstream_rq_time_bucket{{{PUBLIC}}}[{WINDOW}]))) / 1000",
                            f"p{share * 100:g}",
                        )
                        for share in (0.5, 0.95, 0.99)
                    ),
                    "s",
                    "Streams of chats count until their end.",
                ),
                FIRST_TEXT,
            ),
        ),
        ("Answers", (FINISHED, DEGRADED, SEARCH_DURATION)),
        (
            "Services",
            (
                Panel("Replicas that answer", (("sum by (service) (up)", "{{service}}"),)),
                Panel(
                    "Replicas that the gateway finds healthy",
                    (
                        (
                            "max by (envoy_cluster_name) (envoy_cluster_membership_healthy)",
                            "{{envoy_cluster_name}}",
                        ),
                    ),
                ),
                Panel(
                    "RPCs that failed",
                    (
                        (
                            rate(
                                common.RPC_DURATION,
                                'rpc_response_status_code!~"OK|CANCELLED|NOT_FOUND|INVALID_ARGUMENT"',
                                by=["service", "rpc_response_status_code"],
                            ),
                            "{{service}} {{rpc_response_status_code}}",
                        ),
                    ),
                    "reqps",
                ),
            ),
        ),
    ),
)

RETRIEVAL: Final = Dashboard(
    "retrieval",
    "retrieval",
    "What searches find, how long they take, and what they go on without.",
    (
        (
            "Searches",
            (
                Panel("Searches", ((rate(searches.PASSAGES), "searches"),), "reqps"),
                Panel(
                    "Share of searches that found nothing",
                    (
                        (
                            _share(f"sum(rate({EMPTY}[{WINDOW}]))", rate(searches.PASSAGES)),
                            "nothing found",
                        ),
                    ),
                    "percentunit",
                ),
                Panel("Passages of a search", _quantiles(searches.PASSAGES)),
            ),
        ),
        (
            "Time",
            (
                SEARCH_DURATION,
                Panel(
                    "Duration of reranking", _quantiles(common.RPC_DURATION, RERANK), "s", with_exemplars=True
                ),
                Panel(
                    "Lookups of question vectors",
                    ((rate(common.CACHE_LOOKUPS, 'cache="query_vectors"', by=["outcome"]), "{{outcome}}"),),
                    "reqps",
                ),
            ),
        ),
        (
            "Parts",
            (
                DEGRADED,
                Panel(
                    "Reads by server",
                    ((rate(searches.READS, by=["server", "reason"]), "{{server}} {{reason}}"),),
                    "reqps",
                    needs=STANDBY,
                ),
            ),
        ),
    ),
)

ANSWERS: Final = Dashboard(
    "answers",
    "answers and cost",
    "What becomes of questions, what models do for it, and what it costs.",
    (
        (
            "Answers",
            (
                FINISHED,
                Panel(
                    "Share of answers that are grounded",
                    ((_share(rate(answers.ANSWERS, 'grounded="true"'), rate(answers.ANSWERS)), "grounded"),),
                    "percentunit",
                    "Refusals are not grounded.",
                ),
                FIRST_TEXT,
            ),
        ),
        (
            "What people and checks say",
            (
                Panel("Ratings an hour", ((RATINGS, "{{rating}} {{problem}}"),)),
                Panel(
                    "Verified claims an hour",
                    ((increase(answers.VERIFIED_CLAIMS, by=["verdict"], window=HOUR), "{{verdict}}"),),
                ),
                Panel(
                    "Claims an hour, by the last judge",
                    ((increase(models.JUDGED_CLAIMS, by=["stage"], window=HOUR), "{{stage}}"),),
                ),
            ),
        ),
        (
            "Models",
            (
                Panel(
                    "Duration of model calls",
                    _quantiles(models.CALL_DURATION, by=("gen_ai_request_model",)),
                    "s",
                    with_exemplars=True,
                ),
                Panel(
                    "Time to a model's first text",
                    _quantiles(models.FIRST_CHUNK, by=("gen_ai_request_model",)),
                    "s",
                    with_exemplars=True,
                ),
                Panel(
                    "Model calls that failed",
                    (
                        (
                            rate(
                                models.CALL_DURATION,
                                'error_type!=""',
                                by=["gen_ai_request_model", "error_type"],
                            ),
                            "{{gen_ai_request_model}} {{error_type}}",
                        ),
                        (series(models.PAUSED), "{{gen_ai_provider_name}} paused"),
                    ),
                    "short",
                ),
            ),
        ),
        (
            "Cost",
            (
                COST,
                _cost("answers", answers.ANSWER_COST, "client"),
                _cost("answers", answers.ANSWER_COST, "collection"),
                _cost("searches", searches.COST, "client", needs=HOSTED),
                _cost("documents", ingestion.COST, "collection", needs="contexts by a model"),
            ),
        ),
        (
            "Tokens",
            (
                Panel(
                    "Tokens of model calls an hour",
                    (
                        (
                            f"sum by (gen_ai_request_model, gen_ai_token_type) (increase("
                            f"{series(models.CALL_TOKENS, suffix='_sum')}[{HOUR}]))",
                            "{{gen_ai_request_model}} {{gen_ai_token_type}}",
                        ),
                    ),
                ),
                Panel(
                    "Tokens of answers an hour, by client",
                    ((increase(answers.ANSWER_TOKENS, by=["client"], window=HOUR), "{{client}}"),),
                ),
            ),
        ),
    ),
)

INGESTION: Final = Dashboard(
    "ingestion",
    "ingestion and sources",
    "What waits to be taken in, what becomes of it, and what it needs.",
    (
        (
            "Queue",
            (
                Panel(
                    "Items that have not ended, by state",
                    ((f"max by (state) ({series(ingestion.ITEMS)})", "{{state}}"),),
                ),
                Panel(
                    "Age of the oldest item that waits",
                    ((f"max({series(ingestion.OLDEST_ITEM)})", "oldest"),),
                    "s",
                ),
                Panel(
                    "Time since a job ended of which a webhook was not told",
                    ((f"max({series(ingestion.WEBHOOK_LAG)})", "longest"),),
                    "s",
                ),
                Panel(
                    "Calls of webhooks by outcome",
                    ((rate(ingestion.WEBHOOK_CALLS, by=["outcome"]), "{{outcome}}"),),
                    "reqps",
                    needs="webhooks",
                ),
            ),
        ),
        (
            "Work",
            (
                Panel(
                    "Documents by outcome",
                    ((rate(ingestion.DOCUMENTS, by=["outcome"]), "{{outcome}}"),),
                    "reqps",
                ),
                Panel("Chunks stored", ((rate(ingestion.CHUNKS), "chunks"),), "reqps"),
                Panel(
                    "Lookups of chunk vectors",
                    ((rate(common.CACHE_LOOKUPS, 'cache="chunk_vectors"', by=["outcome"]), "{{outcome}}"),),
                    "reqps",
                ),
            ),
        ),
        (
            "Sources and models",
            (
                Panel(
                    "Requests to the collector, which reads sources",
                    (
                        (
                            rate(
                                common.RPC_DURATION,
                                'service="collector"',
                                by=["rpc_method", "rpc_response_status_code"],
                            ),
                            "{{rpc_method}} {{rpc_response_status_code}}",
                        ),
                    ),
                    "reqps",
                ),
                Panel(
                    "Tokens that hosted models embedded",
                    ((rate(EMBEDDED_TOKENS, by=["gen_ai_request_model"]), "{{gen_ai_request_model}}"),),
                    needs=HOSTED,
                ),
            ),
        ),
    ),
)

STORES: Final = Dashboard(
    "stores",
    "PostgreSQL and indexes",
    "How services get to the database, and whether what is copied from it keeps up.",
    (
        (
            "Connections",
            (
                Panel(
                    "Connections by service",
                    ((f"sum by (service, state) ({series(CONNECTIONS)})", "{{service}} {{state}}"),),
                ),
                Panel("Wait for a connection", _quantiles(CONNECTION_WAIT, by=("service",)), "s"),
                Panel(
                    "Requests by what came of the wait",
                    ((rate(CONNECTION_WAIT, by=["service", "outcome"]), "{{service}} {{outcome}}"),),
                    "reqps",
                ),
            ),
        ),
        (
            "Standbys",
            (
                Panel(
                    "How far standbys are behind",
                    ((f"max by (standby) ({series(searches.STANDBY_LAG)})", "{{standby}}"),),
                    "bytes",
                    needs=STANDBY,
                ),
            ),
        ),
        (
            "Distributed index",
            (
                Panel(
                    "How far it is behind", ((f"max({series(index.INDEX_LAG)})", "lag"),), "s", needs=INDEX
                ),
                Panel(
                    "Changes that it has still to take in, and chunks that it refused",
                    (
                        (f"max({series(index.INDEX_PENDING)})", "pending"),
                        (f"max({series(index.INDEX_SET_ASIDE)})", "refused"),
                    ),
                    needs=INDEX,
                ),
                Panel(
                    "Objects by outcome",
                    ((rate(index.INDEX_OBJECTS, by=["outcome"]), "{{outcome}}"),),
                    "reqps",
                    needs=INDEX,
                ),
            ),
        ),
    ),
)

_CHOSEN: Final = 'service="$service"'

SERVICE: Final = Dashboard(
    "service",
    "one service",
    "Requests, queue and resources of the chosen service.",
    (
        (
            "Requests",
            (
                Panel(
                    "RPCs by method and status",
                    (
                        (
                            rate(common.RPC_DURATION, _CHOSEN, by=["rpc_method", "rpc_response_status_code"]),
                            "{{rpc_method}} {{rpc_response_status_code}}",
                        ),
                        (
                            rate(HTTP_DURATION, _CHOSEN, by=["http_response_status_code"]),
                            "HTTP {{http_response_status_code}}",
                        ),
                    ),
                    "reqps",
                ),
                Panel(
                    "Duration by method",
                    (
                        (
                            quantile(0.95, common.RPC_DURATION, _CHOSEN, by=["rpc_method"]),
                            "{{rpc_method}} p95",
                        ),
                    ),
                    "s",
                    with_exemplars=True,
                ),
            ),
        ),
        (
            "Queue",
            (
                Panel(
                    "Requests under way and waiting",
                    (
                        (f"sum({series(common.REQUESTS_UNDER_WAY, _CHOSEN)})", "under way"),
                        (f"sum({series(common.REQUESTS_WAITING, _CHOSEN)}) or vector(0)", "waiting"),
                        (f"sum({series(common.STREAMS_UNDER_WAY, _CHOSEN)})", "streams"),
                    ),
                ),
                Panel("Requests refused", ((rate(common.REQUESTS_REFUSED, _CHOSEN), "refused"),), "reqps"),
                Panel(
                    "Time that requests waited for a place",
                    ((f"{quantile(0.95, common.PLACE_WAIT, _CHOSEN)} or vector(0)", "p95"),),
                    "s",
                ),
            ),
        ),
        (
            "Resources",
            (
                Panel(
                    "Processor",
                    ((f"rate(process_cpu_seconds_total{{{_CHOSEN}}}[{WINDOW}])", "{{instance}}"),),
                ),
                Panel("Memory", ((f"process_resident_memory_bytes{{{_CHOSEN}}}", "{{instance}}"),), "bytes"),
                Panel("Open files", ((f"process_open_fds{{{_CHOSEN}}}", "{{instance}}"),)),
            ),
        ),
    ),
    of_service=True,
)

DASHBOARDS: Final = (OVERVIEW, RETRIEVAL, ANSWERS, INGESTION, STORES, SERVICE)
