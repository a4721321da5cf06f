"""Questions whose answers the caller rated."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from groundline_client import AsyncClient
from groundline_client.models import FinishReason, Message, Problem, Rating, Role


@dataclass(frozen=True, slots=True)
class Rated:
    """A question whose answer was rated, and what the rating tells of a right answer."""

    draft_id: str
    question: str
    answer: str
    uris: Sequence[str]
    """Documents that hold the answer; empty if they are not known, or if none does."""
    is_answerable: bool
    said: str
    is_follow_up: bool
    """Whether other questions of its thread came before, so that it may not be understood alone."""

    @property
    def is_complete(self) -> bool:
        """Whether it can be a case as it is."""
        return bool(self.uris) or not self.is_answerable


async def rated_questions(client: AsyncClient, uris: Collection[str]) -> list[Rated]:
    """Return the caller's rated questions of all its threads, the last used first, without those that were
    answered from other documents than these.

    What a good answer cites holds the answer. If an answer was bad, its question can be answered by something
    that only a person knows, unless the problem is that nothing answers it.
    """
    found = []
    async for thread in client.list_threads():
        messages = [message async for message in client.list_messages(thread.thread_id)]
        found += list(_rated(messages, uris))
    return found


def _rated(messages: Sequence[Message], uris: Collection[str]) -> Iterator[Rated]:
    for place, (question, answer) in enumerate(pairwise(messages)):
        feedback = answer.feedback
        if question.role != Role.USER or feedback is None or answer.is_withheld:
            continue
        sources = {source.number: source.uri for source in answer.sources}
        if sources and not set(sources.values()) & set(uris):
            continue
        is_good = feedback.rating == Rating.GOOD
        refused = answer.finish_reason == FinishReason.NO_ANSWER
        cited = [sources.get(citation.source_number, "") for citation in answer.citations]
        case = Rated(
            draft_id=answer.message_id,
            question=question.content,
            answer=answer.content,
            uris=sorted({uri for uri in cited if uri in uris}) if is_good else [],
            is_answerable=not refused if is_good else feedback.problem != Problem.UNANSWERABLE,
            said=", ".join(filter(None, (_words(feedback.rating, feedback.problem), feedback.comment))),
            is_follow_up=place > 0,
        )
        if case.is_complete or not is_good:
            yield case


def _words(rating: Rating, problem: Problem) -> str:
    named = "" if problem == Problem.UNSPECIFIED else f", {problem.name.lower().replace('_', ' ')}"
    return f"{rating.name.lower()}{named}"
