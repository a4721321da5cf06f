import pytest
from groundline.v1 import chat_pb2, error_pb2, options_pb2
from groundline.v1 import generator_service_pb2 as pb
from groundline_generator.domain.calls import ModelChoice, ModelFinished
from groundline_generator.domain.prompting import load_templates
from groundline_generator.service.answers.answering import AnswerService
from groundline_generator.service.judging import ModelJudge
from groundline_generator.service.prompted_model import PromptedModel
from groundline_runtime.errors import FailedPreconditionError, UnavailableError
from groundline_tests.generator.messages import ask, numbered, used
from groundline_tests.generator.models import ScriptedChat

END = ModelFinished(chat_pb2.FINISH_REASON_STOP, used(9, 3, 4), model="served-model")
PARIS = numbered(3, "Paris is the capital of France.", chunk_id="30", similarity=0.7)
WHALES = numbered(4, "Whales sing.", chunk_id="40", similarity=0.0)
QUESTION = ask("What is the capital of France?", (PARIS,))
MODELS = ModelChoice("m", ("n",))


def prompted(chat: ScriptedChat, *, context_tokens: int = 2000) -> PromptedModel:
    return PromptedModel(chat, MODELS, load_templates(), "default", context_tokens, 0.2, max_output_tokens=50)


async def answered(
    model: PromptedModel, question: pb.GenerateRequest = QUESTION, judge: ModelJudge | None = None
) -> tuple[str, pb.GenerateCompleted]:
    events = [event async for event in AnswerService(model, judge).answer(question)]
    return "".join(event.delta.text for event in events), events[-1].completed


def reasons(completed: pb.GenerateCompleted) -> list[int]:
    return [issue.reason for issue in completed.validation.issues]


@pytest.mark.parametrize("passages", [(), (WHALES,)])
async def test_the_hopeless_is_refused_without_paying(passages: tuple[pb.NumberedPassage, ...]) -> None:
    chat = ScriptedChat()
    text, completed = await answered(prompted(chat), ask(QUESTION.query, passages))
    assert text == "I cannot answer this from the documents."
    assert completed.finish_reason == chat_pb2.FINISH_REASON_NO_ANSWER
    assert completed.prompt_version == ""
    assert chat.calls == []


async def test_a_german_question_is_refused_in_german() -> None:
    text, _ = await answered(prompted(ScriptedChat()), ask("Was ist die Hauptstadt von Frankreich?"))
    assert text == "Das kann ich anhand der Dokumente nicht beantworten."


async def test_a_name_that_a_provider_reports_is_cut_to_the_length_of_names() -> None:
    end = ModelFinished(chat_pb2.FINISH_REASON_STOP, used(1, 0, 1), model="m" * 3000)
    _, completed = await answered(prompted(ScriptedChat(["Paris [3].", end])))
    assert completed.model == "m" * 200


@pytest.mark.parametrize(
    ("pieces", "said"),
    [
        (["NO_ANSWER\nThe documents do not say."], "The documents do not say."),
        (["NO", "_ANS", "WER", "\n", "Not", " there [3]."], "Not there."),
        (["**NO_ANSWER**: Nothing", " found [3][9]."], "Nothing found."),
        (["NO_ANSWER"], "I cannot answer this from the documents."),
    ],
)
async def test_a_marked_refusal_has_no_sources_and_no_marker(pieces: list[str], said: str) -> None:
    text, completed = await answered(prompted(ScriptedChat([*pieces, END])))
    assert text == said
    assert completed.finish_reason == chat_pb2.FINISH_REASON_NO_ANSWER
    assert not completed.citations
    assert not completed.validation.grounded


@pytest.mark.parametrize(
    "said",
    [
        "The provided passages do not contain this information.",
        "I'm sorry, I cannot answer that.",
        "Diese Frage kann ich anhand der Dokumente nicht beantworten.",
        "Die Dokumente enthalten dazu keine Angaben.",
    ],
)
async def test_an_unmarked_refusal_counts_as_well(said: str) -> None:
    _, completed = await answered(prompted(ScriptedChat([said, END])))
    assert completed.finish_reason == chat_pb2.FINISH_REASON_NO_ANSWER


async def test_a_cited_part_of_an_answer_is_no_refusal() -> None:
    said = "Paris is the capital of France. [3] The documents do not say since when."
    _, completed = await answered(prompted(ScriptedChat([said, END])))
    assert completed.finish_reason == chat_pb2.FINISH_REASON_STOP
    assert [c.source_number for c in completed.citations] == [3]


@pytest.mark.parametrize("word", ["No", "NO_A", "Nothing", "NOT", ""])
async def test_an_answer_that_begins_like_a_refusal_passes_whole(word: str) -> None:
    text, _ = await answered(prompted(ScriptedChat([word, f"{word} x", END])))
    assert text == f"{word}{word} x".rstrip()


async def test_what_did_not_fit_is_named_and_cannot_be_cited() -> None:
    long = ask(QUESTION.query, (PARIS, numbered(8, "word " * 4000)))
    text, completed = await answered(
        prompted(ScriptedChat(["Paris. [3] Words. [8]", END]), context_tokens=200), long
    )
    assert text == "Paris. [3] Words."
    assert reasons(completed)[:2] == [error_pb2.PASSAGES_OMITTED, error_pb2.UNKNOWN_CITATION]


async def test_the_answer_tells_model_template_and_usage() -> None:
    chat = ScriptedChat(["Paris is the capital of France [3].", END])
    _, completed = await answered(prompted(chat))
    assert completed.model == "served-model"
    assert completed.prompt_version.startswith("default@2/")
    assert completed.usage == used(9, 3, 4)
    assert completed.validation.grounded
    assert chat.calls[0].max_output_tokens == 50


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (options_pb2.GenerationOptions(model="o"), "MODEL_NOT_AVAILABLE"),
        (options_pb2.GenerationOptions(prompt_template="none"), "PROMPT_TEMPLATE_NOT_AVAILABLE"),
    ],
)
async def test_what_is_not_here_is_refused_before_the_first_event(
    options: options_pb2.GenerationOptions, reason: str
) -> None:
    with pytest.raises(FailedPreconditionError) as failure:
        await answered(prompted(ScriptedChat()), ask("q", (PARIS,), options=options))
    assert failure.value.reason == reason


async def test_a_request_chooses_among_the_models_and_sets_its_own_parameters() -> None:
    chat = ScriptedChat(["x", END])
    options = options_pb2.GenerationOptions(model="n", temperature=1.5, max_output_tokens=7)
    await answered(prompted(chat), ask(QUESTION.query, (PARIS,), options=options))
    assert (chat.calls[0].model, chat.calls[0].temperature, chat.calls[0].max_output_tokens) == ("n", 1.5, 7)


async def test_a_judge_overrules_the_terms_and_is_paid_for() -> None:
    verdict = '{"claims": [{"claim": 1, "verdict": "refuted", "reason": "no"}]}'
    chat = ScriptedChat(["Paris is the capital of France. [3]", END], [verdict, END])
    _, completed = await answered(prompted(chat), judge=ModelJudge(chat, MODELS, 1000))
    assert not completed.validation.grounded
    assert reasons(completed) == [error_pb2.UNSUPPORTED_SENTENCE]
    assert completed.usage == used(18, 6, 8)


async def test_without_its_judge_the_answer_is_checked_by_terms_and_says_so() -> None:
    chat = ScriptedChat(["Paris is the capital of France. [3]", END], [UnavailableError("DOWN", "down")])
    _, completed = await answered(prompted(chat), judge=ModelJudge(chat, MODELS, 1000))
    assert completed.validation.grounded
    assert reasons(completed) == [error_pb2.JUDGE_UNAVAILABLE]
