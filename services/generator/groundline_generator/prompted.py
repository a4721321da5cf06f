"""The AnswerModel of the hosted providers: a prompt made of the passages, and a model that reads it."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from groundline_runtime.errors import FailedPreconditionError

from groundline_generator.citations import MarkerFilter, cites
from groundline_generator.domain import (
    Delta,
    FinishReason,
    Message,
    ModelCall,
    ModelFinished,
    Passage,
    Question,
)
from groundline_generator.ports import ChatModel
from groundline_generator.prompting import PromptTemplate, pack
from groundline_generator.refusals import RefusalFilter, reads_like_refusal, refusal
from groundline_generator.relevance import reaches

__all__ = ["ModelChoice", "PromptedModel"]


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The models that requests may ask for; `default` answers where they ask for none."""

    default: str
    further: Sequence[str] = ()

    def of(self, wanted: str | None) -> str:
        """Raises FailedPreconditionError for a model that is not listed."""
        if not wanted or wanted == self.default:
            return self.default
        if wanted not in self.further:
            available = ", ".join((self.default, *self.further))
            raise FailedPreconditionError(
                "MODEL_NOT_AVAILABLE",
                f"model '{wanted}' is not available; available: {available}",
                metadata={"model": wanted, "available": available},
            )
        return wanted


@dataclass(frozen=True, slots=True)
class PromptedModel:
    """Answers by a ChatModel. `context_tokens` is what the passages of a prompt may take."""

    chat: ChatModel
    models: ModelChoice
    templates: Mapping[str, PromptTemplate]
    template: str
    context_tokens: int
    min_relevance: float
    temperature: float | None = None
    max_output_tokens: int | None = None

    def __post_init__(self) -> None:
        """Raises FailedPreconditionError where the default template is missing."""
        self._template(Question(""))

    def check(self, question: Question) -> str:
        self._template(question)
        return self.models.of(question.options.model)

    def served(self, question: Question) -> Sequence[Passage]:
        packed, _ = pack(self._template(question), question.passages, self.context_tokens)
        return packed

    async def stream(self, question: Question) -> AsyncGenerator[Delta | ModelFinished]:
        """See AnswerModel. Where no passage reaches the threshold the model is not called."""
        threshold = question.options.min_relevance
        if not await reaches(question, self.min_relevance if threshold is None else threshold):
            yield Delta(refusal(question.query))
            yield ModelFinished(FinishReason.NO_ANSWER)
            return
        template = self._template(question)
        refusals = RefusalFilter()
        # A refusal cites nothing, whatever the model writes.
        no_markers = MarkerFilter(frozenset())
        answer: list[str] = []
        async with aclosing(self.chat.stream(self._call(question, template))) as events:
            async for event in events:
                if isinstance(event, Delta):
                    if text := refusals.feed(event.text):
                        answer.append(text)
                        yield Delta(no_markers.feed(text) if refusals.refused else text)
                    continue
                if text := refusals.finish():
                    answer.append(text)
                    yield Delta(text)
                if refusals.refused:
                    yield Delta(no_markers.finish() if answer else refusal(question.query))
                yield self._finished(event, "".join(answer), refusals.refused, question, template)

    def _finished(
        self,
        event: ModelFinished,
        answer: str,
        marked: bool,
        question: Question,
        template: PromptTemplate,
    ) -> ModelFinished:
        numbers = frozenset(passage.number for passage in question.passages)
        refused = marked or (
            event.finish_reason is FinishReason.STOP
            and reads_like_refusal(answer, cited=cites(answer, numbers))
        )
        return ModelFinished(
            FinishReason.NO_ANSWER if refused else event.finish_reason,
            event.usage,
            event.issues,
            event.model,
            template.version,
        )

    def _call(self, question: Question, template: PromptTemplate) -> ModelCall:
        options = question.options
        return ModelCall(
            model=self.models.of(options.model),
            system=template.system_text(question),
            messages=(Message("user", template.user_text(question)),),
            temperature=self.temperature if options.temperature is None else options.temperature,
            max_output_tokens=options.max_output_tokens or self.max_output_tokens,
        )

    def _template(self, question: Question) -> PromptTemplate:
        name = question.options.prompt_template or self.template
        if name not in self.templates:
            raise FailedPreconditionError(
                "PROMPT_TEMPLATE_NOT_AVAILABLE",
                f"prompt template '{name}' is not available; available: {', '.join(sorted(self.templates))}",
                metadata={"prompt_template": name},
            )
        return self.templates[name]
