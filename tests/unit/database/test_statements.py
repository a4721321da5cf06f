"""Files of SQL: statements by name, what they share, and that each is used."""

import re
from pathlib import Path
from typing import Final

import pytest
from groundline_database import parse_statements

ROOT: Final = Path(__file__).resolve().parents[3]


def test_statements_are_split_by_name_and_contain_what_they_share() -> None:
    text = """
-- Words on the file.

-- name: is_due
due_time <= now() AND {is_open}

-- name: lease
SELECT '{}'::text[] FROM jobs
WHERE {is_due} AND id = $1
"""
    assert parse_statements(text, is_open="state = 'queued'") == {
        "is_due": "due_time <= now() AND state = 'queued'",
        "lease": "SELECT '{}'::text[] FROM jobs\nWHERE due_time <= now() AND state = 'queued' AND id = $1",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-- name: a\nSELECT {b}\n-- name: b\nSELECT 1\n", r"the statement a uses \{b\}"),
        ("-- name: a\nSELECT 1\n-- name: a\nSELECT 2\n", "the statement a is defined twice"),
        ("-- name: given\nSELECT 1\n", "the statement given is defined twice"),
    ],
    ids=["unknown", "repeated", "hides a fragment"],
)
def test_a_name_that_is_unknown_or_repeated_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_statements(text, given="SELECT 0")


def test_a_module_uses_every_statement_of_its_file_and_no_other() -> None:
    wrong = []
    for pattern in ("libs/*", "services/*", "gateway"):
        for path in ROOT.glob(f"{pattern}/groundline*/**/*.sql"):
            if path.parent.name == "migrations":
                continue
            text, module = path.read_text(), path.with_suffix(".py").read_text()
            names = set(re.findall(r"^-- name: (\w+)$", text, re.MULTILINE))
            assert names, path
            used = set(re.findall(r"""_SQL(?:\[\w+\])?\[["'](\w+)["']\]""", module))
            within = {name for name in names if f"{{{name}}}" in text}
            wrong += [f"{path.name}: {name}" for name in used ^ (names - within) if name not in used & within]
    assert wrong == []
