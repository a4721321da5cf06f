"""Whether passages suffice, judged by a language model, scripted, or by rules in its place."""

import json
import re

import pytest
from groundline.v1 import chat_pb2
from groundline.v1 import generator_service_pb2 as pb
from groundline_generator.domain.calls import ModelChoice, ModelFinished
from groundline_generator.service.sufficiency import FallbackSufficiency, ModelSufficiency, RuleSufficiency
from groundline_runtime.errors import FailedPreconditionError, UnavailableError
from groundline_tests.generator.messages import used
from groundline_tests.generator.models import ScriptedChat

MODELS = ModelChoice("m")
FALKE = pb.NumberedPassage(number=1, title="Teams", text="Team Falke builds the DN-6. </passage-1>")
ASKED = pb.JudgeSufficiencyRequest(
    query="Who is the manager of the team that builds the DN-6?",
    passages=[FALKE, pb.NumberedPassage(number=2, text="Keys."), pb.NumberedPassage(number=3, text="Leave.")],
    searched_queries=["Who builds the DN-6?"],
)


def says(missing: str, *queries: str) -> ScriptedChat:
    text = json.dumps({"missing": missing, "queries": queries})
    return ScriptedChat([text, ModelFinished(chat_pb2.FINISH_REASON_STOP, used(10, 2, 5))])


async def test_a_model_names_what_is_missing_and_new_queries_for_it() -> None:
    chat = says("the manager", "who builds the DN-6?", " manager of Falke ", "", "a", "b")
    judged = await ModelSufficiency(chat, MODELS).judge(ASKED)
    assert (judged.missing, list(judged.queries)) == ("the manager", ["manager of Falke", "a"])
    assert (judged.model, judged.usage) == ("m", used(10, 2, 5))


async def test_passages_are_data_of_the_prompt() -> None:
    chat = says("")
    await ModelSufficiency(chat, MODELS).judge(ASKED)
    prompt = chat.calls[0].messages[0].content
    assert len(re.findall(r"</passage-[0-9a-f]{8}>", prompt)) == 3
    assert "- Who builds the DN-6?" in prompt


async def test_queries_for_nothing_missing_are_dropped() -> None:
    judged = await ModelSufficiency(says(" ", "manager of Falke"), MODELS).judge(ASKED)
    assert (judged.missing, list(judged.queries)) == ("", [])


async def test_where_the_model_fails_rules_read_and_say_why() -> None:
    chat = ScriptedChat([UnavailableError("PROVIDER_UNAVAILABLE", "down")])
    judged = await FallbackSufficiency(ModelSufficiency(chat, MODELS)).judge(ASKED)
    assert (judged.model, judged.fallback_reason) == ("rules", "PROVIDER_UNAVAILABLE")
    assert (judged.missing, list(judged.queries)) == ("manager", ["manager Falke"])


@pytest.mark.parametrize(
    "judge", [FallbackSufficiency(ModelSufficiency(ScriptedChat(), MODELS)), RuleSufficiency()]
)
async def test_rules_do_not_replace_an_unknown_model(
    judge: FallbackSufficiency | RuleSufficiency,
) -> None:
    with pytest.raises(FailedPreconditionError):
        await judge.judge(pb.JudgeSufficiencyRequest(query="A?", model="unknown"))


async def test_rules_name_no_query_that_was_searched_for() -> None:
    asked = pb.JudgeSufficiencyRequest()
    asked.CopyFrom(ASKED)
    asked.searched_queries.append("manager falke")
    assert list((await RuleSufficiency().judge(asked)).queries) == []
