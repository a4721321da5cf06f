"""Check the wording of docstrings, comments, messages, contracts and pages; CONTRIBUTING.md states the rules.

prose.py [FILE…]    fail when a sentence breaks a rule; by default in all files under version control
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from typing import Final

from project import ROOT

LEFT_OUT: Final = re.compile(r"_pb2|^examples/|^CHANGELOG|^docs/reference/|tools/prose|test_prose")
"""Files that are generated, samples, or about these rules."""

PHRASES: Final = re.compile(
    r"\b(that of|there (is|are) none|so many|in vain|what there is|(?<!there )is no (?!longer|more)\w+)\b",
    re.IGNORECASE,
)
FRAGMENT: Final = re.compile(r"(What|Of|Those|Whose|Nothing|With)\b")
"""Beginnings of a docstring without a subject."""
NO_VERB: Final = re.compile(
    r"(A|After|All|An|Another|Any|As|At|Because|Before|Behind|Beside|Both|By|Each|Either|Empty|Every|For|From|How|If"
    r"|In|Into|It|Like|More|Most|Neither|No|None|Not|On|Once|One|Only|Other|Our|Same|Since|So|Some|Such|That|The"
    r"|Their|There|These|They|This|Through|Under|Until|Up|Upon|When|Where|Whether|Which|While|Who|Whole|Whom|Why"
    r"|Without|Your|\w*[^s]s)\b|[^A-Z]|.\w*[A-Z0-9]"
)
"""Beginnings of a function's docstring that are not verbs in the imperative; Passages and Runs are not."""
NAMED_AS_THING: Final = re.compile(r"property|fixture|^rule\(")
"""Decorators of functions whose docstring is a noun phrase, or the text of a rule."""


def problems(name: str, text: str) -> Iterator[str]:
    """Yield a line for each sentence that breaks a rule."""
    for line, sentence, kind in python_texts(text) if name.endswith(".py") else paragraphs(text):
        sentence = " ".join(sentence.split())
        if kind and (FRAGMENT.match(sentence) or (kind == "function" and NO_VERB.match(sentence))):
            noun = "a verb in the imperative" if kind == "function" else "the name of the thing"
            yield f"{name}:{line}: begin with {noun}, not {sentence.split()[0]!r}"
        if phrase := PHRASES.search(sentence):
            yield f"{name}:{line}: write {phrase[0]!r} in plain English"


def python_texts(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, text and kind of each docstring ("function" or "thing"), other string and comment ("")."""
    docstrings = set()
    nodes = list(ast.walk(ast.parse(text)))
    for node in nodes:
        body: object = getattr(node, "body", None)
        for index, one in enumerate(body) if isinstance(body, list) else ():
            match one:
                case ast.Expr(value=ast.Constant(value=str(docstring)) as constant):
                    docstrings.add(constant)
                    yield one.lineno, docstring, "thing" if index or not _acts(node) else "function"
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings:
            yield node.lineno, node.value, ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string, ""


def paragraphs(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line and text of each paragraph of a page or contract, without blocks of code."""
    text = re.sub(
        r"^```.*?^```", lambda code: "\n" * code[0].count("\n"), text, flags=re.DOTALL | re.MULTILINE
    )
    for paragraph in re.finditer(r"(?:.*\S.*\n?)+", text):
        yield text.count("\n", 0, paragraph.start()) + 1, re.sub(r"(?m)^\s*//", "", paragraph[0]), ""


def _acts(node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("test_"):
        return False
    return not any(NAMED_AS_THING.search(ast.unparse(one)) for one in node.decorator_list)


def main(names: list[str]) -> int:
    """Print every problem; return the exit code."""
    tracked = subprocess.check_output(
        ["git", "ls-files", "*.py", "*.proto", "*.md"], cwd=ROOT, text=True
    ).split()
    wanted = names or [name for name in tracked if not LEFT_OUT.search(name)]
    found = [
        problem for name in wanted for problem in problems(name, (ROOT / name).read_text(encoding="utf-8"))
    ]
    print("\n".join(found), end="\n" if found else "")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
