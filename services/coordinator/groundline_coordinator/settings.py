"""Settings of the coordinator."""

from typing import Annotated

from groundline_database import DatabaseSettings
from groundline_runtime.quotas import BudgetSettings
from groundline_runtime.settings import Seconds, ServiceSettings
from pydantic import Field
from pydantic_settings import SettingsConfigDict

Target = Annotated[str, Field(min_length=1)]


class CoordinatorMigrationSettings(ServiceSettings, DatabaseSettings):
    """Settings of `migrate`."""

    model_config = SettingsConfigDict(env_prefix="GROUNDLINE_COORDINATOR_")


class CoordinatorSettings(BudgetSettings, CoordinatorMigrationSettings):
    """Settings of the coordinator, read from GROUNDLINE_COORDINATOR_* and GROUNDLINE_*."""

    retriever_target: Target
    """Address of the retriever: host:port, or dns:///host:port for all its replicas."""

    generator_target: Target
    """Address of the generator."""

    rewrite_timeout_seconds: Seconds = 5.0
    """Maximum time for rewriting the question; never more than 20 % of what the request has left."""

    search_timeout_seconds: Seconds = 15.0
    """Maximum time for a search; never more than 60 % of what the request has left."""

    store_timeout_seconds: Seconds = 5.0
    """Maximum time for what a chat looks up in the database before it begins, and for storing its question
    and its answer."""

    history_messages: Annotated[int, Field(ge=1, le=100)] = 20
    """Maximum number of stored messages of a thread that go to the model."""

    history_tokens: Annotated[int, Field(ge=0, le=1_000_000)] = 4_000
    """Maximum number of tokens of the conversation, estimated, that go to the model."""

    thread_days: Annotated[float, Field(ge=0, le=36_500)] = 0
    """Days that a thread is kept after its last question. 0: until it is deleted."""

    max_threads_per_caller: Annotated[int, Field(ge=1)] = 10_000
    """Maximum stored threads of a caller, known by its first principal."""

    max_answers_per_caller: Annotated[int, Field(ge=1)] = 100
    """Maximum Chat, Answer and Verify requests of a caller that are under way at once in this process; each
    replica counts its own."""

    max_tokens_per_caller: Annotated[int, Field(ge=1)] | None = None
    """Maximum tokens, prompts included, that a caller's answers and checked texts take in a day (UTC); the
    answer that reaches it is finished. Unset: no limit."""

    weak_similarity: Annotated[float, Field(ge=-1, le=1)] = 0.3
    """Cosine similarity below which a search found too little, and is repeated once with the question
    rewritten."""

    max_waiting_characters: Annotated[int, Field(ge=1, le=10_000_000)] = 64_000
    """Maximum characters of text that wait for a slow client before the generator has to wait too."""
