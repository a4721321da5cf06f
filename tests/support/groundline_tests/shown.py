"""Commands and code as the documentation shows them."""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]

NOT_RUN: Final = re.compile(r"<!-- not run: \S.*? -->")
"""Mark before a block that cannot be run on this machine; it names what that needs."""

_FENCE: Final = re.compile(
    r"^(?P<indent> *)```(?P<language>\w+)\n(?P<body>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
_HERE_DOCUMENT: Final = re.compile(
    r"<< *'?(?P<end>\w+)'?(?P<rest>[^\n]*)\n(?P<body>.*?)^(?P=end)$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Command:
    """A command, and the lines that it is shown to print."""

    text: str
    printed: Sequence[str]


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    body: str
    is_run: bool

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    def commands(self) -> list[Command]:
        """Return the commands: in a `console` block those behind a `$ `; in an `sh` block all."""
        lines = self.body.splitlines()
        if self.language == "sh":
            return [Command(text, ()) for text in _whole_commands(lines)]
        found = []
        while lines:
            if not lines[0].startswith("$ "):
                lines.pop(0)
                continue
            text = next(_whole_commands([lines[0].removeprefix("$ "), *lines[1:]]))
            del lines[: text.count("\n") + 1]
            end = next((n for n, line in enumerate(lines) if line.startswith("$ ")), len(lines))
            found.append(Command(text, [line for line in lines[:end] if line.strip() not in ("", "…")]))
            del lines[:end]
        return found


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page that name their language."""
    text = page.read_text(encoding="utf-8")
    found = []
    for fence in _FENCE.finditer(text):
        before = text[: fence.start()].rstrip().rpartition("\n")[2].strip()
        indent = fence["indent"]
        body = re.sub(f"^{indent}", "", fence["body"], flags=re.MULTILINE) if indent else fence["body"]
        line = text.count("\n", 0, fence.start()) + 1
        found.append(Block(page, line, fence["language"], body, not NOT_RUN.fullmatch(before)))
    return found


def words(command: str) -> list[str]:
    """Return the words and operators of a command, without here-documents; of `name=$(…)` those within.

    Raises ValueError for an open quotation.
    """
    text = _HERE_DOCUMENT.sub(r"\g<rest>", command).replace("\\\n", " ")
    text = re.sub(r"^\w+=\$\((.*)\)$", r"\1", text)
    lexer = shlex.shlex(text, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    return list(lexer)


def _whole_commands(lines: Sequence[str]) -> Iterator[str]:
    """Yield each command with its further lines, such as those of a here-document."""
    text = ""
    for line in lines:
        text = f"{text}\n{line}" if text else line
        if text.strip() and _is_whole(text):
            yield text
            text = ""
    if text.strip():
        raise ValueError(f"does not end: {text}")


def _is_whole(command: str) -> bool:
    if command.endswith("\\"):
        return False
    try:
        return "<<" not in words(command)
    except ValueError:
        return False
