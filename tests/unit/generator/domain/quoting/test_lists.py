"""A sentence that leads to a list, a table or code is quoted with it."""

from collections.abc import Sequence
from functools import partial

import pytest
from groundline.v1 import generator_service_pb2 as pb
from groundline_generator.domain.quoting.extraction import Extract, extract
from groundline_tests.generator.messages import numbered

answers = partial(extract, min_relevance=0.3, max_sentences=3)

SYSTEMS = numbered(
    1,
    "# Requirements\n\nThese operating systems are supported:\n\n"
    "- Alpine. It has to be 3.18.\n- Debian\n\n"
    "The server needs a disk.\n",
    title="Groundhog: installing",
)
PORTS = numbered(
    2,
    "The server needs these ports open:\n\n| Port | For |\n| --- | --- |\n| 53 | names |\n| 80 | pages |\n",
    title="Groundhog: network",
)
START = numbered(
    3,
    "You start a new archive like this:\n\n```\ngroundhog init\n```\n\n```\ncreated archive 1\n```\n",
    title="Groundhog: archives",
)
LEVELS = numbered(
    4,
    "The standard defines two levels of care.\n\n• Level 1 is for all.\n• Level 2 is for few.\n",
    title="Standard",
)
PASSAGES = [SYSTEMS, PORTS, START, LEVELS]


def quoted(query: str, passages: Sequence[pb.NumberedPassage] = PASSAGES) -> Sequence[Extract]:
    return answers(query, passages).extracts


def test_a_list_that_is_long_is_quoted_in_part() -> None:
    items = "\n".join(f"- system {number}" for number in range(40))
    text = f"These operating systems are supported:\n\n{items}\n"
    assert len(quoted("Which operating systems are supported?", [numbered(1, text)])) == 13


def test_what_stands_behind_the_list_is_not_of_it() -> None:
    assert not any("disk" in each.text for each in quoted("Which operating systems are supported?"))


def test_a_colon_at_the_end_of_a_passage_leads_to_nothing() -> None:
    passage = numbered(1, "These operating systems are supported:\n")
    assert [each.step for each in quoted("Which operating systems are supported?", [passage])] == [0]


def test_one_sentence_alone_is_quoted_where_no_more_are_allowed() -> None:
    found = extract("Which operating systems are supported?", PASSAGES, min_relevance=0.3, max_sentences=1)
    assert len(found.extracts) == 1


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            "Which operating systems are supported?",
            [
                ("These operating systems are supported:", 0),
                ("Alpine.", 1),
                ("It has to be 3.18.", 1),
                ("Debian", 2),
            ],
        ),
        (
            "Which ports does the server need open?",
            [("The server needs these ports open:", 0), ("53 – For: names.", 1), ("80 – For: pages.", 2)],
        ),
        (
            "How does one start a new archive?",
            [("You start a new archive like this:", 0), ("groundhog init", 0)],
        ),
    ],
)
def test_what_a_colon_leads_to_is_quoted(query: str, expected: list[tuple[str, int]]) -> None:
    found = [(each.text, each.step) for each in quoted(query)]
    assert found[: len(expected)] == expected
    assert not any(each.is_numbered and each.step for each in quoted(query))


def test_a_list_without_a_colon_is_quoted_only_where_several_things_are_asked_for() -> None:
    listed = [each.text for each in quoted("What are the levels of care of the standard?", [LEVELS])]
    assert listed[1:3] == ["Level 1 is for all.", "Level 2 is for few."]
    assert all(each.step == 0 for each in quoted("Does the standard define levels of care?", [LEVELS]))


def test_a_colon_leads_to_the_next_sentence_where_no_list_follows() -> None:
    removing = numbered(
        1, "Groundhog is removed by:\n\n`groundhog remove`\n\nKeep its disk. Or not.", title="Groundhog"
    )
    assert [each.text for each in quoted("How do I get Groundhog removed?", [removing])][:2] == [
        "Groundhog is removed by:",
        "`groundhog remove`",
    ]


def test_an_item_in_the_middle_of_a_sentence_is_quoted_with_its_beginning() -> None:
    law = numbered(
        1,
        "A lease cannot be ended\n\n1.  before the third year,\n\n2.  while the tenant's pregnancy lasts.\n\n"
        "Another rule is for gardens.",
        title="Tenancy",
    )
    texts = [each.text for each in quoted("What about the pregnancy of a tenant?", [law])]
    assert texts[:2] == ["A lease cannot be ended", "while the tenant's pregnancy lasts."]
