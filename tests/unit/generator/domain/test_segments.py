import pytest
from groundline_generator.domain.segments import Kind, Segment, segments
from hypothesis import given
from hypothesis import strategies as st


def texts(text: str, language: str | None = None, kind: Kind | None = None) -> list[str]:
    return [text[s.start : s.end] for s in segments(text, language) if kind in (None, s.kind)]


@given(st.text(alphabet=st.sampled_from("ab1.!? \n#|-`>*[]()。Ü{};="), max_size=200))
def test_any_text_gives_ordered_segments_inside_it(text: str) -> None:
    end = 0
    for segment in segments(text, "english"):
        assert end <= segment.start < segment.end <= len(text)
        end = segment.end


@pytest.mark.parametrize("text", ["", "   \n\n ", "---", "```\n```", "| --- |", "* * *", "…"])
def test_text_without_words_has_no_segment(text: str) -> None:
    assert texts(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "Dr. Smith met Mr. J. R. Brown at 3.5 p.m. sharp.",
        "See e.g. Fig. 3 and cf. Sec. 4 for details.",
        "He said Wow! and left.",
    ],
)
def test_abbreviations_initials_and_numbers_do_not_end_an_english_sentence(text: str) -> None:
    assert texts(text, "english") == [text]


@pytest.mark.parametrize(
    "text", ["Am 3. Oktober wurde gefeiert.", "Im 19. Jahrhundert gab es z. B. keine Bahn bzw. Straße Nr. 5."]
)
def test_ordinals_and_abbreviations_do_not_end_a_german_sentence(text: str) -> None:
    assert texts(text, "german") == [text]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Send it by mail (max. 3 photos).", ["Send it by mail (max. 3 photos)."]),
        ("JPG-Stufe max. 8, mind. 300 dpi.", ["JPG-Stufe max. 8, mind. 300 dpi."]),
        ("Wait for 5 min. 3 lamps light up.", ["Wait for 5 min.", "3 lamps light up."]),
        ("Set the power to max. The fan starts.", ["Set the power to max.", "The fan starts."]),
    ],
)
def test_a_bound_is_not_cut_from_its_number(text: str, sentences: list[str]) -> None:
    assert texts(text, "german") == sentences


def test_a_number_ends_an_english_sentence() -> None:
    assert texts("They had 24. The rest left.", "english") == ["They had 24.", "The rest left."]


def test_quotes_footnotes_and_full_width_stops_stay_with_their_sentence() -> None:
    assert texts('She said "Go." Then she left.[2] Done.') == ['She said "Go."', "Then she left.[2]", "Done."]
    assert texts("今日は雨です。明日は晴れ。") == ["今日は雨です。", "明日は晴れ。"]


def test_hard_wrapped_lines_are_one_sentence() -> None:
    assert texts("One sentence over\ntwo lines. Another.") == ["One sentence over\ntwo lines.", "Another."]


def test_list_items_come_without_their_markers() -> None:
    assert texts("Intro:\n\n- first item\n  goes on\n* second\n3. third") == [
        "Intro:",
        "first item\n  goes on",
        "second",
        "third",
    ]


def test_headings_are_known_to_what_follows_them() -> None:
    text = "# Guide\n\n## Install\n\nRun it.\n\n## Use\n\nCall it."
    found = segments(text, "english")
    assert [(text[s.start : s.end], s.kind, s.heading) for s in found if s.kind is Kind.SENTENCE] == [
        ("Run it.", Kind.SENTENCE, "Guide Install"),
        ("Call it.", Kind.SENTENCE, "Guide Use"),
    ]


def test_an_underlined_line_is_a_heading() -> None:
    assert texts("Title\n=====\nText here.", kind=Kind.HEADING) == ["Title"]


def test_table_rows_know_their_header() -> None:
    text = "| Name | Port |\n| --- | --- |\n| gateway | 8080 |\n| retriever | 9001 |"
    rows = [s for s in segments(text, None) if s.kind is Kind.ROW]
    assert [text[s.start : s.end] for s in rows] == ["| gateway | 8080 |", "| retriever | 9001 |"]
    assert all("Port" in s.heading for s in rows)


def test_fenced_code_is_not_cut_into_sentences() -> None:
    text = "Do this:\n\n```python\nx = f(a). g\n# Heading?\n```\n\nDone."
    assert texts(text, kind=Kind.CODE) == ["x = f(a). g\n# Heading?"]


def test_code_without_a_fence_is_recognised() -> None:
    text = "pub struct Diff {\n    primary: A,\n}\n\nfn run(&mut self) -> Result {\n    self.go();\n}"
    assert {s.kind for s in segments(text, None)} == {Kind.CODE}


def test_long_code_comes_in_pieces() -> None:
    code = "\n".join(f"call_{n}(x);" for n in range(40))
    assert len(texts(f"```\n{code}\n```", kind=Kind.CODE)) == 3


def test_an_unclosed_fence_runs_to_the_end() -> None:
    assert segments("```\na = 1", None) == [Segment(4, 9, Kind.CODE)]


def test_offsets_count_code_points() -> None:
    text = "𝔘nicode 🎉 first. Second one."
    assert texts(text) == ["𝔘nicode 🎉 first.", "Second one."]


def test_code_that_is_indented_below_a_sentence_is_not_part_of_it() -> None:
    text = "Raise the limit first:\n\n    limit = 5\nThen call it:\n    retry(limit)\n    wait()\nDone."
    assert texts(text, kind=Kind.CODE) == ["    limit = 5", "    retry(limit)\n    wait()"]
    assert texts(text, kind=Kind.SENTENCE) == ["Raise the limit first:", "Then call it:", "Done."]


def test_an_indented_continuation_of_a_sentence_stays_in_it() -> None:
    text = "- The limit is raised\n    when the service has been idle for an hour."
    assert len(texts(text, kind=Kind.SENTENCE)) == 1


def test_each_field_of_a_record_stands_alone() -> None:
    fields = ["name: Relief valve", "opening pressure: 41 bar. Checked yearly.", "parts[0].sku: RV-41"]
    assert texts("\n".join(fields)) == [
        "name: Relief valve",
        "opening pressure: 41 bar.",
        "Checked yearly.",
        "parts[0].sku: RV-41",
    ]
    paths = [
        "paths./api/keys.post.summary: Creates an API key",
        "paths./api/keys/{keyId}:revoke.post.tags: Keys",
    ]
    assert texts("\n".join(paths)) == paths
    assert texts("Note: it opens at\nhigh pressure.") == ["Note: it opens at\nhigh pressure."]


def test_a_table_set_with_spaces_gives_rows_below_the_names_of_its_columns() -> None:
    table = "Part      Price  Delivery\nRV-41     189    3 days\nRV-42     1,640  4 weeks"
    assert texts(f"Prices in EUR.\n\n{table}", kind=Kind.ROW) == table.splitlines()[1:]
    assert {segment.heading for segment in segments(table, None) if segment.kind is Kind.ROW} == {
        "Part Price Delivery"
    }


def test_front_matter_gives_its_fields_without_those_that_name_the_page() -> None:
    front = "---\ntitle: Leave\nowner: People team\nredirect_from:\n  - /leave/\n---\n"
    assert texts(f"{front}\nAsk your manager.") == ["owner: People team", "Ask your manager."]
    assert texts("---\n\nnote: ask us.\n\n---\n\nOr them.") == ["note: ask us.", "Or them."]


def test_comments_and_lines_for_the_generator_of_a_site_belong_to_nothing() -> None:
    assert texts("<!-- lint off -->\nWait.\n<!-- lint on -->\nGo.") == ["Wait.", "Go."]
    assert texts('1. Click **Search**.\n   {% image "search.png" %}\n2. Done.') == [
        "Click **Search**.",
        "Done.",
    ]


def test_a_heading_that_is_a_sentence_can_be_quoted() -> None:
    text = "## Visitors _do not_ need a badge.\n\nSee below.\n\n## You need one if:\n\n## Version 1.2."
    assert texts(text, kind=Kind.SENTENCE) == ["Visitors _do not_ need a badge.", "See below."]
    assert [s.heading for s in segments(text, None)][1] == "Visitors _do not_ need a badge."


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("x = f(1)\n```\n\nIt prints 1. Then:\n\n```python\ny = g(2)\n```", ["x = f(1)", "y = g(2)"]),
        ("x = f(1)\n```\n\nIt prints 1.", ["x = f(1)"]),
        ("```\n\n## Next\n\nIt prints 1.", []),
        ("It prints 1:\n```\nx = f(1)", ["x = f(1)"]),
    ],
)
def test_a_text_may_begin_within_a_block_of_code(text: str, code: list[str]) -> None:
    assert texts(text, kind=Kind.CODE) == code
    assert texts(text, kind=Kind.SENTENCE)[0] in ("It prints 1.", "It prints 1:")


LEVELS = (
    "| Skill | Junior (L1) | Senior (L2) |\n| --- | --- | --- |\n| **Craft** | | |\n"
    "| Scope | Works on small and tightly scoped problems, with help from others in the team. "
    "| Owns whole systems from the first idea to their end. Improves how all others do their work. |\n"
)


def cells_of(text: str, columns: str = "") -> list[tuple[str, str]]:
    found = segments(text, "english", columns)
    return [(each.columns, text[each.start : each.end]) for each in found if each.kind is Kind.CELL]


def test_each_sentence_of_a_cell_stands_alone_with_the_names_of_its_row_and_column() -> None:
    assert cells_of(LEVELS) == [
        (
            "Scope – Junior (L1)",
            "Works on small and tightly scoped problems, with help from others in the team.",
        ),
        ("Scope – Senior (L2)", "Owns whole systems from the first idea to their end."),
        ("Scope – Senior (L2)", "Improves how all others do their work."),
    ]
    headings = {each.heading for each in segments(LEVELS, "english") if each.kind is Kind.CELL}
    assert headings == {"Scope Junior (L1)", "Scope Senior (L2)"}


def test_a_row_that_only_has_a_label_is_a_heading() -> None:
    assert "| **Craft** | | |" in texts(LEVELS, kind=Kind.HEADING)


def test_a_text_that_begins_or_ends_within_a_row_has_cells_of_the_columns_they_stand_in() -> None:
    columns = "| Skill | Junior (L1) | Senior (L2) |"
    end, begin = (
        "the first idea to the day on which nobody needs them any more",
        "Reads whatever others wrote before",
    )
    text = f"Owns whole systems from {end}. |\n| Tools | {begin}, and then asks them about all of it,"
    assert cells_of(text, columns) == [
        ("Senior (L2)", f"Owns whole systems from {end}."),
        ("Tools – Junior (L1)", f"{begin}, and then asks them about all of it,"),
    ]


def test_a_row_of_short_cells_stays_whole() -> None:
    assert cells_of("| Part | Price | Note |\n|---|---|---|\n| RV-41 | 189 EUR | on stock |") == []


def test_a_tag_that_ends_a_line_ends_a_sentence() -> None:
    assert texts("Read this.<br>\n<br> Go on.<br>Stop.</p>") == [
        "Read this.",
        "<br>\n<br> Go on.",
        "<br>Stop.",
    ]


def test_tags_between_sentences_are_no_sentences() -> None:
    assert texts("Read this first.\n\n<br>\n\n<b>Then go on.</b>") == [
        "Read this first.",
        "<b>Then go on.</b>",
    ]


def test_titles_of_persons_end_no_sentence() -> None:
    assert texts("Ask Mag. Engelmaier. Dipl. Ing. Huber is away.") == [
        "Ask Mag. Engelmaier.",
        "Dipl. Ing. Huber is away.",
    ]
