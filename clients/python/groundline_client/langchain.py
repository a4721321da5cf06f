"""LangChain: a retriever and a chat model. Needs the extra `langchain`.

Both work blocking and with asyncio; every refusal of the gateway is raised as GatewayError.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from functools import cached_property
from typing import Any, Final

from langchain_core.callbacks import (
    AsyncCallbackManagerForLLMRun,
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForLLMRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    UsageMetadata,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from pydantic import BaseModel, SecretStr

from groundline_client.framework import (
    Connection,
    chunk_of,
    metadata_of,
    options_json,
    search_options,
)
from groundline_client.json_form import JsonObject, to_json
from groundline_client.models import (
    ChatCompleted,
    ChatDelta,
    ChatMessage,
    ChatOptions,
    ChatSources,
    Citation,
    Passage,
    Role,
    SearchOptions,
    SearchResponse,
    Source,
    Usage,
)
from groundline_client.transport.messages import ChatEvent, present

__all__ = ["ChatGroundline", "GroundlineRetriever"]

# The contract's limits of a request (ChatRequest.chat_history, ChatMessage.content).
_MAX_MESSAGES: Final = 100
_PROVIDER: Final = "groundline"


class _Connected(BaseModel):
    """A gateway, and the collections to search."""

    gateway: str
    """URL of the gateway."""
    api_key: SecretStr
    """A key or token with the scope `search` for a retriever, `chat` for a chat model."""
    collection_ids: Sequence[str] = ()
    """Collections to search; empty: all that the key may read."""
    filter: JsonObject | None = None
    """Condition on documents, as the gateway takes it."""
    timeout_seconds: float | None = None
    """Maximum time of one search or answer in seconds, retries included."""

    def close(self) -> None:
        """Close the connections of blocking calls."""
        self._connection.close()

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._connection.aclose()

    @cached_property
    def _connection(self) -> Connection:
        return Connection(self.gateway, self.api_key.get_secret_value(), self.timeout_seconds)


class GroundlineRetriever(_Connected, BaseRetriever):
    """Passages of a gateway's collections, best first, as documents.

    A document's id is its chunk's; its metadata is the ingested document's, with `source` (its uri), `title`,
    ids, offsets and `score`. A filter given to invoke() or ainvoke() is used instead of the retriever's own.
    """

    top_k: int | None = None
    """Maximum number of documents; None: the collection's default."""
    options: SearchOptions | JsonObject | None = None
    """Parameters of retrieval and reranking."""

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        filter: JsonObject | None = None,  # noqa: A002 (the contract's name)
    ) -> list[Document]:
        found = self._connection.client.search(query, **self._arguments(filter))
        return _documents(found)

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        filter: JsonObject | None = None,  # noqa: A002
    ) -> list[Document]:
        found = await self._connection.async_client.search(query, **self._arguments(filter))
        return _documents(found)

    def _arguments(self, given: JsonObject | None) -> dict[str, Any]:
        return {
            "collection_ids": self.collection_ids,
            "filter": self.filter if given is None else given,
            "options": search_options(self.options, self.top_k),
        }


class ChatGroundline(_Connected, BaseChatModel):
    """Answers from a gateway's documents, with citations.

    The last message must be the user's: it is the question, and the messages before it are the history.
    System messages go before the suite's own rules. The conversation is not stored. An answer's
    response_metadata holds `citations` (LangChain's Citation, with positions in the answer and a `url` that
    opens the source), `sources`, `validation`, `degraded`, `finish_reason` and `model_name`.
    """

    options: ChatOptions | JsonObject | None = None
    """Parameters of retrieval, reranking and generation."""

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: dict[str, Any] | str | bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return the model itself, which leaves tools alone: the gateway finds its sources without them, and
        front ends and agents that always bind some get an answer at once.

        Raises NotImplementedError for a `tool_choice` that demands a call: anything but None, False, "auto"
        and "none".
        """
        if tool_choice not in (None, False, "auto", "none"):
            raise NotImplementedError(
                "ChatGroundline answers from documents and calls no tool, whatever tool_choice demands: send "
                '"auto", or give the agent a model that calls tools, and Groundline as one of them, by '
                "create_retriever_tool(GroundlineRetriever(…), …)"
            )
        return self

    @property
    def _llm_type(self) -> str:
        return _PROVIDER

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        return {"gateway": self.gateway, "collection_ids": list(self.collection_ids)}

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        found = self._connection.client.answer(**self._arguments(messages, stop))
        completed = present(found.completed, "completed")
        return _result(found.answer, _response_metadata(found.sources, completed, self.gateway), completed)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        found = await self._connection.async_client.answer(**self._arguments(messages, stop))
        completed = present(found.completed, "completed")
        return _result(found.answer, _response_metadata(found.sources, completed, self.gateway), completed)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        chunks = _Chunks(self.gateway)
        with closing(self._connection.client.chat(**self._arguments(messages, stop))) as events:
            for event in events:
                for chunk in chunks.of(event):
                    if run_manager:
                        run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        chunks = _Chunks(self.gateway)
        async with aclosing(self._connection.async_client.chat(**self._arguments(messages, stop))) as events:
            async for event in events:
                for chunk in chunks.of(event):
                    if run_manager:
                        await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk

    def _arguments(self, messages: Sequence[BaseMessage], stop: list[str] | None) -> dict[str, Any]:
        """Return the arguments of a request. Raises ValueError for options without a meaning here."""
        if stop:
            raise ValueError("stop sequences are not supported: an answer ends where it is finished")
        said = [message for message in messages if not isinstance(message, SystemMessage)]
        if not said or not isinstance(said[-1], HumanMessage):
            raise ValueError("the last message must be the user's")
        # Chunks are only ever appended.
        options = {**options_json(self.options), "appendOnly": True}
        instructions = [_text(message) for message in messages if isinstance(message, SystemMessage)]
        if instructions:
            generation = options.get("generation", {})
            options["generation"] = {**generation, "systemPrompt": "\n\n".join(instructions)}
        return {
            "query": _text(said[-1]),
            "chat_history": [
                ChatMessage(role=_role(message), content=_text(message))
                for message in said[:-1]
                if _text(message).strip()
            ][-_MAX_MESSAGES:],
            "collection_ids": self.collection_ids,
            "filter": self.filter,
            "options": options,
            "store": False,
        }


class _Chunks:
    """Translator of chat events into LangChain's chunks."""

    def __init__(self, gateway: str) -> None:
        self._gateway = gateway
        self._sources: Sequence[Source] = ()

    def of(self, event: ChatEvent) -> Iterator[ChatGenerationChunk]:
        match event:
            case ChatSources():
                self._sources = event.sources
            case ChatDelta():
                yield ChatGenerationChunk(message=AIMessageChunk(content=event.text))
            case ChatCompleted():
                last = AIMessageChunk(
                    content="",
                    response_metadata=_response_metadata(self._sources, event, self._gateway),
                    usage_metadata=_usage(event.usage),
                    chunk_position="last",
                )
                yield ChatGenerationChunk(message=last)


def _documents(found: SearchResponse) -> list[Document]:
    return [_document(passage) for passage in found.passages]


def _document(passage: Passage) -> Document:
    chunk = chunk_of(passage)
    # LangChain's chains that name their sources read them from `source`.
    metadata = metadata_of(passage) | {"source": chunk.uri}
    return Document(id=chunk.chunk_id, page_content=chunk.text, metadata=metadata)


def _result(answer: str, metadata: dict[str, Any], completed: ChatCompleted) -> ChatResult:
    message = AIMessage(
        content=answer,
        response_metadata=metadata,
        usage_metadata=_usage(completed.usage),
    )
    return ChatResult(generations=[ChatGeneration(message=message)])


def _response_metadata(sources: Sequence[Source], completed: ChatCompleted, gateway: str) -> dict[str, Any]:
    numbered = {source.number: source for source in sources}
    return {
        "model_provider": _PROVIDER,
        "model_name": completed.model,
        "finish_reason": completed.finish_reason.value.removeprefix("FINISH_REASON_").lower(),
        "citations": [
            _citation(citation, numbered[citation.source_number], gateway) for citation in completed.citations
        ],
        "sources": [to_json(source) for source in sources],
        "validation": None if completed.validation is None else to_json(completed.validation),
        "degraded": [to_json(one) for one in completed.degraded],
    }


def _citation(citation: Citation, source: Source, gateway: str) -> dict[str, Any]:
    return {
        "type": "citation",
        "url": _link(source, gateway),
        "title": source.title,
        "start_index": citation.start_offset,
        "end_index": citation.end_offset,
        "cited_text": citation.supporting_text,
        "extras": {
            "source_number": source.number,
            "chunk_id": source.chunk_id,
            "document_id": source.document_id,
            "collection_id": source.collection_id,
        },
    }


def _link(source: Source, gateway: str) -> str:
    """Return the document's own address on the web, or the gateway's page at the passage within its text."""
    if source.uri.lower().startswith(("http://", "https://")):
        return source.uri
    passage = f"{source.start_offset}-{source.end_offset}"
    return f"{gateway.rstrip('/')}/#source={source.collection_id}/{source.document_id}/{passage}"


def _usage(usage: Usage | None) -> UsageMetadata | None:
    if usage is None:
        return None
    return UsageMetadata(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.prompt_tokens + usage.output_tokens,
        input_token_details={"cache_read": usage.cached_tokens},
    )


def _role(message: BaseMessage) -> Role:
    match message:
        case HumanMessage():
            return Role.USER
        case AIMessage():
            return Role.ASSISTANT
        case _:
            raise ValueError(f"a message of type {message.type!r} is not understood: there are no tools")


def _text(message: BaseMessage) -> str:
    if not isinstance(message.content, str):
        others = [
            part for part in message.content if not isinstance(part, str) and part.get("type") != "text"
        ]
        if others:
            raise ValueError(f"only text is understood, not a part of type {others[0].get('type')!r}")
    return str(message.text)
