"""The AnswerModel of the hosted providers: a prompt of the passages for a chat model."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial

from groundline.v1 import chat_pb2, options_pb2
from groundline.v1 import generator_service_pb2 as pb
from groundline_runtime.errors import FailedPreconditionError

from groundline_generator.domain.calls import ModelCall, ModelChoice, ModelFinished, OnWait
from groundline_generator.domain.fences import new_nonce
from groundline_generator.domain.markers import MarkerFilter, cites
from groundline_generator.domain.prompting import PromptTemplate, pack
from groundline_generator.domain.refusals import RefusalFilter, reads_like_refusal, refusal
from groundline_generator.domain.relevance import reaches
from groundline_generator.ports import ChatModel
from groundline_generator.service.concurrency import computed


@dataclass(frozen=True, slots=True)
class PromptedModel:
    """An AnswerModel over a ChatModel. `context_tokens` is the maximum of the passages in a prompt."""

    chat: ChatModel
    models: ModelChoice
    templates: Mapping[str, PromptTemplate]
    template: str
    context_tokens: int
    min_relevance: float
    temperature: float | None = None
    max_output_tokens: int | None = None

    def __post_init__(self) -> None:
        """Raise FailedPreconditionError if the default template is missing."""
        self._template(options_pb2.GenerationOptions())

    def check(self, request: pb.GenerateRequest) -> str:
        self._template(request.options)
        return self.models.of(request.options.model)

    def served(self, request: pb.GenerateRequest) -> Sequence[pb.NumberedPassage]:
        return pack(self._template(request.options), request.passages, self.context_tokens)

    async def stream(
        self, request: pb.GenerateRequest, served: Sequence[pb.NumberedPassage], on_wait: OnWait
    ) -> AsyncGenerator[str | ModelFinished]:
        """Stream the answer; see AnswerModel. If no passage reaches the threshold, the model is not
        called."""
        options = request.options
        threshold = options.min_relevance if options.HasField("min_relevance") else self.min_relevance
        if not await computed(partial(reaches, request.query, served, threshold), served):
            yield refusal(request.query)
            yield ModelFinished(chat_pb2.FINISH_REASON_NO_ANSWER)
            return
        template = self._template(options)
        numbers = frozenset(passage.number for passage in served)
        refusals = RefusalFilter()
        # A refusal cites nothing, whatever the model writes.
        no_markers = MarkerFilter(frozenset())
        answer: list[str] = []
        call = replace(self._call(request, served, template), on_wait=on_wait)
        async with aclosing(self.chat.stream(call)) as events:
            async for event in events:
                if isinstance(event, str):
                    if text := refusals.feed(event):
                        answer.append(text)
                        yield no_markers.feed(text) if refusals.refused else text
                    continue
                if text := refusals.finish():
                    answer.append(text)
                    yield text
                if refusals.refused:
                    yield no_markers.finish() if answer else refusal(request.query)
                refused = refusals.refused or (
                    event.finish_reason == chat_pb2.FINISH_REASON_STOP
                    and reads_like_refusal("".join(answer), cited=cites("".join(answer), numbers))
                )
                yield replace(
                    event,
                    finish_reason=chat_pb2.FINISH_REASON_NO_ANSWER if refused else event.finish_reason,
                    prompt_version=template.version,
                )

    def _call(
        self, request: pb.GenerateRequest, served: Sequence[pb.NumberedPassage], template: PromptTemplate
    ) -> ModelCall:
        options = request.options
        nonce = new_nonce()
        prompt = template.user_text(request, served, nonce)
        return ModelCall(
            model=self.models.of(options.model),
            system=template.system_text(request, nonce),
            messages=(chat_pb2.ChatMessage(role=chat_pb2.ChatMessage.USER, content=prompt),),
            temperature=options.temperature if options.HasField("temperature") else self.temperature,
            max_output_tokens=options.max_output_tokens or self.max_output_tokens,
        )

    def _template(self, options: options_pb2.GenerationOptions) -> PromptTemplate:
        name = options.prompt_template or self.template
        if name not in self.templates:
            raise FailedPreconditionError(
                "PROMPT_TEMPLATE_NOT_AVAILABLE",
                f"prompt template '{name}' is not available; available: {', '.join(sorted(self.templates))}",
                metadata={"prompt_template": name},
            )
        return self.templates[name]
