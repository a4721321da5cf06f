"""Prompts: templates as configuration, and passages packed into them."""

import hashlib
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Final

from groundline.v1 import chat_pb2
from groundline.v1 import generator_service_pb2 as pb
from groundline_runtime.errors import FailedPreconditionError
from groundline_runtime.tokens import estimated_tokens

from groundline_generator.domain.fences import attribute, fenced, new_nonce

NO_ANSWER_MARKER: Final = "NO_ANSWER"
"""Marker with which a model begins a refusal; it is removed from the answer."""

_PLACEHOLDERS: Final = {
    "system": {"system_prompt", "no_answer_marker", "nonce"},
    "user": {"passages", "additional_context", "conversation", "question", "nonce"},
    "passage": {"number", "title", "uri", "placed", "text", "nonce"},
}
_REQUIRED: Final = {
    "system": {"no_answer_marker"},
    "user": {"passages", "question"},
    "passage": {"number", "text", "nonce"},
}
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}$")
_ANY_NONCE: Final = new_nonce()
"""A nonce of the length that all have."""

_BLANK_LINES: Final = re.compile(r"\n{3,}")


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """Template that turns a question into a prompt. `version` is `name@number/hash of the text`."""

    version: str
    system: Template
    user: Template
    passage: Template

    def system_text(self, request: pb.GenerateRequest, nonce: str) -> str:
        """Return the operator's own instructions and then the rules, so that these have the last word."""
        return self.system.substitute(
            system_prompt=request.options.system_prompt, no_answer_marker=NO_ANSWER_MARKER, nonce=nonce
        ).strip()

    def user_text(
        self, request: pb.GenerateRequest, passages: Sequence[pb.NumberedPassage], nonce: str
    ) -> str:
        context = request.additional_context
        text = self.user.substitute(
            passages="\n".join(self.passage_text(passage, nonce) for passage in passages),
            additional_context=f"\n{fenced('context', nonce, context)}\n" if context.strip() else "",
            conversation=conversation(request.chat_history, nonce),
            question=request.query.strip(),
            nonce=nonce,
        )
        return _BLANK_LINES.sub("\n\n", text).strip()

    def passage_text(self, passage: pb.NumberedPassage, nonce: str) -> str:
        return self.passage.substitute(
            number=passage.number,
            title=attribute(passage.title),
            uri=attribute(passage.uri),
            placed=f"({passage.context})\n" if passage.context else "",
            text=passage.text,
            nonce=nonce,
        ).strip()


def load_templates(directory: Path | None = None) -> Mapping[str, PromptTemplate]:
    """Load the templates of the package, and those of a directory, which win.

    Raises FailedPreconditionError naming the template that cannot be used.
    """
    sources = {
        Path(file.name).stem: file.read_text(encoding="utf-8")
        for file in (files("groundline_generator.domain") / "templates").iterdir()
        if file.name.endswith(".toml")
    }
    if directory is not None:
        if not directory.is_dir():
            raise _invalid(f"prompt templates: {directory} is not a directory")
        sources |= {path.stem: path.read_text(encoding="utf-8") for path in sorted(directory.glob("*.toml"))}
    return {name: _parsed(name, text) for name, text in sources.items()}


def pack(
    template: PromptTemplate, passages: Sequence[pb.NumberedPassage], budget_tokens: int
) -> Sequence[pb.NumberedPassage]:
    """Return the best passages that fit into a budget.

    The first passage is cut if it alone is too long. Neighbouring chunks of one document are put together in
    their order, at the rank of the better one; numbers stay.
    """
    kept: list[pb.NumberedPassage] = []
    remaining = budget_tokens
    for passage in passages:
        cost = estimated_tokens(template.passage_text(passage, _ANY_NONCE))
        if cost > remaining and not kept:
            passage = _cut(passage, cost, remaining)
            cost = min(cost, remaining)
        if cost <= remaining:
            kept.append(passage)
            remaining -= cost
    return _neighbours_together(kept)


def beginning(text: str, max_tokens: int) -> str:
    """Return the text, or its beginning of about `max_tokens`, cut between words."""
    needed = estimated_tokens(text)
    if needed <= max_tokens:
        return text
    head = text[: max(1, len(text) * max_tokens // needed)]
    return (head.rsplit(None, 1)[0] if " " in head else head) + " …"


def listed(passages: Iterable[pb.NumberedPassage], nonce: str, max_tokens: int) -> str:
    """Return passages as data of a prompt, each with its number and title; of a longer text than `max_tokens`
    its beginning."""
    return "\n".join(
        fenced("passage", nonce, _with_title(passage, max_tokens), number=passage.number)
        for passage in passages
    )


def _with_title(passage: pb.NumberedPassage, max_tokens: int) -> str:
    parts = (passage.title, passage.context, beginning(passage.text, max_tokens))
    return "\n".join(part for part in parts if part)


def role_name(message: chat_pb2.ChatMessage) -> str:
    """Return the role as prompts and providers write it: "user" or "assistant"."""
    return chat_pb2.ChatMessage.Role.Name(message.role).lower()


def conversation(messages: Sequence[chat_pb2.ChatMessage], nonce: str) -> str:
    """Return the conversation so far as a part of a prompt; "" for an empty one."""
    if not messages:
        return ""
    lines = "\n".join(f"{role_name(message)}: {message.content}" for message in messages)
    return f"\n{fenced('conversation', nonce, lines)}\n"


def _cut(passage: pb.NumberedPassage, cost: int, budget: int) -> pb.NumberedPassage:
    """Cut the text of a passage of `cost` tokens so that it takes `budget`."""
    text = passage.text
    around = cost - estimated_tokens(text)
    cut = pb.NumberedPassage()
    cut.CopyFrom(passage)
    # A margin, since some parts of a text have more tokens than others.
    cut.text = beginning(text, max(1, (budget - around) * 9 // 10))
    return cut


def _neighbours_together(passages: Iterable[pb.NumberedPassage]) -> list[pb.NumberedPassage]:
    runs: list[list[pb.NumberedPassage]] = []
    for passage in passages:
        joined = [run for run in runs if _adjoins(run[-1], passage) or _adjoins(passage, run[0])]
        if not joined:
            runs.append([passage])
            continue
        first = joined[0]
        members = [passage, *(member for run in joined for member in run)]
        first[:] = sorted(members, key=lambda member: int(member.chunk_id))
        for other in joined[1:]:
            runs.remove(other)
    return [passage for run in runs for passage in run]


def _adjoins(first: pb.NumberedPassage, second: pb.NumberedPassage) -> bool:
    """Tell whether two chunks follow each other: those of one document have consecutive ids, since the
    ingestor writes them at once."""
    if (first.uri, first.title) != (second.uri, second.title):
        return False
    ids = first.chunk_id, second.chunk_id
    return all(each.isdecimal() for each in ids) and int(ids[1]) == int(ids[0]) + 1


def _invalid(problem: str) -> FailedPreconditionError:
    return FailedPreconditionError("PROMPT_TEMPLATE_INVALID", problem)


def _parsed(name: str, text: str) -> PromptTemplate:
    if not _NAME.match(name):
        raise _invalid(f"prompt template '{name}': the name must be a slug")
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _invalid(f"prompt template '{name}': {error}") from None
    number = content.get("version")
    if not isinstance(number, int) or isinstance(number, bool):
        raise _invalid(f"prompt template '{name}': version must be a whole number")
    parts: dict[str, Template] = {}
    for part, allowed in _PLACEHOLDERS.items():
        value = content.get(part)
        if not isinstance(value, str):
            raise _invalid(f"prompt template '{name}': {part} must be a text")
        template = Template(value)
        used = set(template.get_identifiers()) if template.is_valid() else None
        if used is None or used - allowed or _REQUIRED[part] - used:
            raise _invalid(
                f"prompt template '{name}': {part} must hold "
                f"{', '.join('$' + each for each in sorted(_REQUIRED[part]))} and may hold "
                f"{', '.join('$' + each for each in sorted(allowed))}"
            )
        parts[part] = template
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return PromptTemplate(f"{name}@{number}/{digest}", parts["system"], parts["user"], parts["passage"])
