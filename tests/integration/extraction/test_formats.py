"""Extraction of each format, from files that their own libraries write."""

import json
from collections.abc import Sequence
from typing import Any, Final

import pytest
from groundline_tests.extraction.files import titles

# --- texts with marks ---


def test_rtf_is_read_in_its_own_code_page(extract: Any) -> None:
    source = (
        rb"{\rtf1\ansi\ansicpg1250{\info{\title Manual}}{\b Za\'b3\'f3\'9f}\par Opens at 41 \u176?C.\par "
        rb"\trowd\cellx1\cellx2 Valve\cell Width\cell\row\trowd\cellx1\cellx2 A\cell 4\cell\row}"
    )
    extraction = extract(source)
    assert extraction.text == "Załóź\n\nOpens at 41 °C.\n\n| Valve | Width |\n|---|---|\n| A | 4 |"
    assert extraction.title == "Manual"


@pytest.mark.parametrize(
    "source",
    [
        rb"{\rtf1\ansi Tighten to {\deleted\revauthdel1 9 Nm}{\revised 12 Nm}.}",
        rb"{\rtf1\ansi Tighten to \deleted 9\~\'4e{\b m}\u8364?\tab\deleted0 12 Nm.}",
        rb"{\rtf1\ansi Tighten to {\deleted 9 {\*\bkmkstart a}Nm\plain 12 Nm}.}",
        rb"{\rtf1\ansi {\deleted Gone.\par }Tighten to {\pict\bin4 {{{{}12 Nm.{\deleted\par}}",
    ],
    ids=["groups", "switches", "plain", "paragraphs"],
)
def test_what_tracked_changes_deleted_from_rtf_is_left_out(extract: Any, source: bytes) -> None:
    assert extract(source).text == "Tighten to 12 Nm."


def test_a_notebook_is_its_text_its_code_and_what_it_printed_without_pictures(extract: Any) -> None:
    cells: Sequence[dict[str, Any]] = [
        {"cell_type": "markdown", "source": ["# Valves\n", "\n", "Some text."]},
        {
            "cell_type": "code",
            "source": "print(41)\n# no heading",
            "outputs": [
                {"output_type": "stream", "text": ["41\n"]},
                {
                    "output_type": "display_data",
                    "data": {"image/png": "iVBOR" * 1000, "text/plain": "<Figure>"},
                },
            ],
        },
    ]
    notebook = {"nbformat": 4, "metadata": {"language_info": {"name": "python"}}, "cells": cells}
    extraction = extract(json.dumps(notebook).encode(), "analysis.ipynb")
    assert extraction.text == (
        "# Valves\n\nSome text.\n\n```python\nprint(41)\n# no heading\n```\n\n"
        "```\n41\n```\n\n```\n<Figure>\n```"
    )
    assert titles(extraction) == [(1, "Valves")]


def test_a_notebook_of_an_earlier_version_has_worksheets_and_cells_of_other_fields(extract: Any) -> None:
    cells = [
        {"cell_type": "heading", "level": 2, "source": ["Valves"]},
        {"cell_type": "markdown", "source": ["Some text.", "", "More."]},
        {
            "cell_type": "code",
            "input": ["a = 41", "a"],
            "outputs": [{"output_type": "pyout", "text": ["41"]}],
        },
        {"cell_type": "of the future", "content": "x"},
    ]
    notebook = {"nbformat": 2, "metadata": {}, "worksheets": [{"cells": cells}]}
    extraction = extract(json.dumps(notebook).encode(), "analysis.ipynb")
    assert extraction.text == (
        "## Valves\n\nSome text.\n\nMore.\n\n```python\na = 41\na\n```\n\n```\n41\n```"
    )
    assert titles(extraction) == [(2, "Valves")]


RESTRUCTURED = """\
.. _start:

..
  Nobody reads this.

=====
Guide
=====

See :ref:`the start <start>` and `our page <https://example.org>`__ for ``init``.

Starting
--------

.. toctree::
   :maxdepth: 2

   start

.. note:: The disk is
   needed.

#. Run the first one::

     $ guide init

#. Then
   wait.

.. code-block:: console
   :caption: Shell

   $ guide wait

- one
- two

.. option:: --fast

   Be quick.

Ports
-----

+------+-------+
| Port | For   |
+======+=======+
| 53   | names |
|      | only  |
+------+-------+

====  =====
Name  Value
====  =====
TTL   5
====  =====
"""


def test_restructured_text_is_read_as_markdown_without_what_steers_the_site(extract: Any) -> None:
    extraction = extract(RESTRUCTURED.encode(), "guide.rst")
    assert extraction.text == (
        "# Guide\n\nSee the start and [our page](https://example.org) for `init`.\n\n"
        "## Starting\n\nNote: The disk is needed.\n\n"
        "1. Run the first one:\n\n```\n$ guide init\n```\n\n1. Then wait.\n\n"
        "```console\n$ guide wait\n```\n\n- one\n- two\n\n--fast\n\nBe quick.\n\n"
        "## Ports\n\n| Port | For |\n|---|---|\n| 53 | names only |\n\n"
        "| Name | Value |\n|---|---|\n| TTL | 5 |"
    )
    assert (extraction.title, titles(extraction)) == ("Guide", [(1, "Guide"), (2, "Starting"), (2, "Ports")])


@pytest.mark.parametrize(
    "source",
    [
        "+----+---------+\n| 0  | fine    |\n+----+---------+\n| 10 | missing |\n+----+---------+\n",
        "==  =======\n0   fine\n10  missing\n==  =======\n",
    ],
)
def test_the_first_row_of_a_restructured_table_without_a_head_names_no_columns(
    extract: Any, source: str
) -> None:
    extraction = extract(f"Exit codes:\n\n{source}".encode(), "codes.rst")
    assert extraction.text == "Exit codes:\n\n|  |  |\n|---|---|\n| 0 | fine |\n| 10 | missing |"


@pytest.mark.parametrize(
    "source",
    [
        "=====\nTitle without end",
        "+---+\n| a",
        "=== ===\na   b",
        "- " * 40 + "deep",
        ".. note::\n" + "".join(f"{' ' * depth}.. note::\n" for depth in range(1, 60)) + " " * 60 + "deep",
        "::\n\n  text",
        "..",
        "text\n..",
    ],
)
def test_broken_restructured_text_is_read_all_the_same(extract: Any, source: str) -> None:
    assert extract(f"Some words.\n\n{source}".encode(), "a.rst").text.startswith("Some words.")


def test_xml_is_read_field_by_field_and_its_entities_reach_nothing(extract: Any) -> None:
    source = (
        b'<?xml version="1.0"?><!DOCTYPE f [<!ENTITY x SYSTEM "file:///etc/hostname">]><feed>'
        b"<entry lang='en'><title>Valve</title><size><width>4</width></size></entry>"
        b"<entry><title>Pump &x;</title><p>Some <b>bold</b> text.</p></entry></feed>"
    )
    assert extract(source).text == (
        "entry.lang: en\nentry.title: Valve\nentry.size.width: 4\n\n"
        "entry.title: Pump &x;\nentry.p: Some bold text."
    )


def test_of_an_svg_its_words_are_read(extract: Any) -> None:
    words = "<title>Plan</title><path d='M0 0'/><text>Valve <tspan>A</tspan></text>"
    source = f"<svg xmlns='http://www.w3.org/2000/svg'>{words}</svg>"
    assert extract(source, "plan.svg").text == "Plan\n\nValve A"


@pytest.mark.parametrize(
    ("text", "uri", "read"),
    [
        ("a,b\n1,2\n", "https://example.org/t.csv?x=1", "a: 1\nb: 2"),
        ('{"a": {"b": 1}}', "t.json", "a.b: 1"),
        ("<h1>Valve</h1><p>Opens.</p>", "t.html", "# Valve\n\nOpens."),
        ("<svg><text>Plan</text></svg>", "t.svg", "Plan"),
    ],
)
def test_a_text_is_read_as_what_its_uri_says(extract: Any, text: str, uri: str, read: str) -> None:
    assert extract(text, uri).text == read


# --- HTML ---


def page(main: str) -> bytes:
    return (
        "<html><head><title>Valves</title><link rel='stylesheet' href='x.css'></head><body>"
        "<header>Shop</header>"
        f"<nav><a href='/'>Home</a></nav><main>{main}</main><footer>Imprint</footer></body></html>"
    ).encode()


@pytest.mark.parametrize(
    ("main", "text"),
    [
        (
            "<ol start='3'><li>three</li><li>four<ol><li>one</li></ol></li></ol>",
            "3. three\n4. four\n  1. one",
        ),
        (
            "<table><caption>Widths</caption><tr><th>Valve</th><th colspan=2>2026</th></tr>"
            "<tr><td rowspan=2>A</td><td>1</td><td></td></tr><tr><td>2</td><td>3</td></tr></table>",
            "Widths\n\n| Valve | 2026 | 2026 |\n|---|---|---|\n| A | 1 |  |\n| A | 2 | 3 |",
        ),
        ("<pre>if x:\n    y()</pre>", "```\nif x:\n    y()\n```"),
        ("<p>see <a href='#f1'>note<sup>1</sup></a><br>next</p>", "see note[1]\nnext"),
        ("<p><img src='a.png' alt='A cut through the valve'></p>", "A cut through the valve"),
        (
            "<div><span>16.3</span><span>Close it.</span></div><code><span>2</span><span>px</span></code>",
            "16.3 Close it.\n\n2px",
        ),
        ("<dl><dt>DN</dt><dd>width</dd></dl>", "DN\n- width"),
        ("<div>loose <b>bold</b><p>own</p>after</div>", "loose bold\n\nown\n\nafter"),
        (
            "<h2>Widths<a class='headerlink' href='#w'>\u00b6</a></h2><p>2<a href='#p'>\u00b6</a></p>",
            "## Widths\n\n2",
        ),
        ("<p hidden>no</p><p style='display: none'>no</p><p># no heading</p>", "\\# no heading"),
    ],
)
def test_html_keeps_numbers_spans_code_notes_and_descriptions(extract: Any, main: str, text: str) -> None:
    assert extract(page(main)).text == text


UNMARKED: Final = (
    "<html><head><title>Pumps</title><script src='x.js'></script></head><body><div class='menu'>"
    "<a href='/'>Home</a> <a href='/shop'>Shop</a> <a href='/news'>News</a></div>"
    "<h1><a name='pumps'>Pumps</a></h1><p>A pump moves water from a well to a tank, by day and by night.</p>"
    "<div><h2><a name='care'></a>Care of the pump</h2><p>Clean the filter of the pump in each week of the "
    "year, and keep the tank closed.</p><table><tr><th>Part</th><th>Weeks</th></tr>"
    "<tr><td>filter</td><td>1</td></tr><tr><td>seal of the lid</td><td>26</td></tr></table></div>{}"
    "<div class='footer'>Copyright 2026 <a href='/law'>Imprint</a></div></body></html>"
)


def test_a_page_that_marks_no_content_keeps_its_headings_and_tables(extract: Any) -> None:
    read = extract(UNMARKED.format("").encode())
    assert read.text == (
        "# Pumps\n\nA pump moves water from a well to a tank, by day and by night.\n\n## Care of the pump\n\n"
        "Clean the filter of the pump in each week of the year, and keep the tank closed.\n\n"
        "| Part | Weeks |\n|---|---|\n| filter | 1 |\n| seal of the lid | 26 |"
    )


@pytest.mark.parametrize(
    ("main", "text"),
    [
        ("<ul><li><h3>Methods</h3><p>open</p></li></ul>", "### Methods\n\nopen"),
        ("<table><tr><td>Menu</td><td><p>One.</p><p>Two.</p></td></tr></table>", "Menu\n\nOne.\n\nTwo."),
        ("<table><tr><td><h2>Left</h2>a</td><td>b</td></tr></table>", "## Left\n\na\n\nb"),
    ],
)
def test_lists_and_tables_of_layout_are_read_as_what_they_hold(extract: Any, main: str, text: str) -> None:
    assert extract(page(main)).text == text


def test_html_that_is_nested_without_end_is_read(extract: Any) -> None:
    assert "deep" in extract(page("<div>" * 1500 + "deep")).text
    assert (
        "deep in a well" in extract(UNMARKED.format("<div>" * 1500 + "deep in a well of water").encode()).text
    )
