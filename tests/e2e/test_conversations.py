"""Follow-up questions without a language model: 40 written conversations about the examples."""

import json
import re
from pathlib import Path
from typing import Any, Final

import httpx

CONVERSATIONS: Final = json.loads(Path(__file__).with_name("conversations.json").read_text())["conversations"]

RIGHT: Final = 37
"""Conversations of which the last question is answered; what a change loses here shows in the test."""


async def last_answer(client: httpx.AsyncClient, turns: list[str]) -> str:
    history: list[dict[str, Any]] = []
    answer = ""
    for question in turns:
        body = {"query": question, "collectionIds": ["examples"], "chatHistory": history}
        response = await client.post("/api/answer", json=body)
        assert response.status_code == 200, response.text
        answer = response.json()["answer"]
        history += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return answer


async def test_the_last_questions_of_conversations_are_answered(client: httpx.AsyncClient) -> None:
    wrong = []
    for one in CONVERSATIONS:
        answer = await last_answer(client, one["turns"])
        if not set(re.findall(r"\w+", one["fragment"])) <= set(re.findall(r"\w+", answer)):
            wrong.append((one["turns"], answer))
    assert len(CONVERSATIONS) - len(wrong) >= RIGHT, wrong
