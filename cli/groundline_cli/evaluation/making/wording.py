"""Questions worded by the language model behind a gateway, if it has one."""

import re
from typing import Final

from groundline_client import ApiError, AsyncClient

from groundline_cli.evaluation.making.drafting import Draft

_WITHOUT_MODEL: Final = "extractive"
_PROMPT: Final = (
    "You write questions for a test of a search engine. Reply with one short question, in the language of "
    "the sentence, that a reader who does not know the document could ask, that the sentence answers, and "
    "that avoids its words. Reply with the question alone."
)
_MARKER: Final = re.compile(r"\s*\[\d+(?:, ?\d+)*\]")
_MOST_CHARACTERS: Final = 200


class Wording:
    """The rules' question, or a model's where there is one and it keeps to the form."""

    def __init__(self, client: AsyncClient, collection: str) -> None:
        self._client = client
        self._collection = collection
        self._has_model = True

    async def question(self, draft: Draft) -> str:
        """Return the question to propose. Raises GatewayError."""
        if not self._has_model:
            return draft.question
        try:
            response = await self._client.answer(
                f"Sentence: {draft.sentence}\nThe answer must be: {draft.answer}",
                collection_ids=[self._collection],
                filter={"$uri": draft.uri},
                options={"generation": {"systemPrompt": _PROMPT}, "effort": "EFFORT_QUICK"},
                store=False,
            )
        except ApiError:
            # A collection may forbid prompts, or the model be busy: rules always work.
            self._has_model = False
            return draft.question
        if response.completed is None or response.completed.model in ("", _WITHOUT_MODEL):
            self._has_model = False
            return draft.question
        question = _MARKER.sub("", response.answer).strip()
        is_question = question.endswith("?") and "\n" not in question and len(question) <= _MOST_CHARACTERS
        # One that names the answer asks nothing.
        return question if is_question and draft.answer not in question else draft.question
