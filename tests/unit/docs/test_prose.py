"""The checker of wording: what it refuses, and what it lets pass."""

import prose
import pytest


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('def f():\n    """What it returns."""', "line 2: a verb in the imperative, not 'What'"),
        ('def f():\n    """Returns it."""', "line 2: a verb in the imperative, not 'Returns'"),
        ('def f():\n    """The result."""', "line 2: a verb in the imperative, not 'The'"),
        ('def f():\n    """`thing`: this."""', "line 2: a verb in the imperative, not '`thing`:'"),
        ('class A:\n    """Nothing where it is there."""', "line 2: the name of the thing, not 'Nothing'"),
        ('A = 1\n"""Of all clients."""', "line 2: the name of the thing, not 'Of'"),
        ('raise ValueError("it is no sitemap")', "line 1: 'is no sitemap' in plain English"),
        ("a = 1  # so many times", "line 1: 'so many' in plain English"),
    ],
)
def test_a_sentence_without_subject_or_in_odd_words_is_refused(text: str, problem: str) -> None:
    [found] = prose.problems("a.py", text)
    line, message = found.removeprefix("a.py:").split(": ", 1)
    assert f"line {line}: {message.removeprefix('begin with ').removeprefix('write ')}" == problem


@pytest.mark.parametrize(
    "text",
    [
        'def f():\n    """Return the result."""',
        'def f():\n    """Process every item."""',
        'def test_f():\n    """The suite, used by nobody."""',
        '@property\ndef f(self):\n    """Number of items."""',
        'class A:\n    """A client."""\n    a: int\n    """Timeout, in seconds."""',
        "a = 1  # There is no reason that is no longer valid.",
    ],
)
def test_plain_sentences_pass(text: str) -> None:
    assert list(prose.problems("a.py", text)) == []


def test_pages_and_contracts_are_read_without_their_code() -> None:
    page = "A page.\n\n```python\nprint('so many')\n```\n\nThere is\nnone.\n"
    assert list(prose.problems("a.md", page)) == ["a.md:7: write 'There is none' in plain English"]
    contract = "// The key, or that\n// of another.\nstring key = 1;\n"
    assert list(prose.problems("a.proto", contract)) == ["a.proto:1: write 'that of' in plain English"]
