"""Compiled filters select on real PostgreSQL what a plain reading of them in Python selects."""

import json
import re
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from groundline_filters import Columns, FilterError, compile_sql, parse
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

MISSING = object()
TIMES = [datetime(2025, 1, day, 12, tzinfo=UTC) for day in (1, 2, 3)]
IDS = [str(UUID(int=number)) for number in range(1, 4)]
SOURCES = ["file", "object", "web"]

# Few names and values, so that conditions meet documents; among them what SQL and JSON treat specially.
names = st.sampled_from(["a", "b", "c", "0", "é.", "$set"])
scalars = st.sampled_from(
    [None, True, False, 0, 1, -1.5, 1e300, 2**53, "", "1", "a", "B", "é", "ä", "true", "z'"]
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)
documents = st.fixed_dictionaries(
    {
        "document_id": st.sampled_from(IDS),
        "source_type": st.sampled_from(SOURCES),
        "update_time": st.sampled_from(TIMES),
        "metadata": st.dictionaries(names, values, max_size=4),
    }
)

paths = st.sampled_from(["a", "b", "c", "0", "a.b", "a.0", "a.a.a", "missing", "é"])
ordered_operands = scalars.filter(lambda value: value is not None and not isinstance(value, bool))
plain_conditions = st.one_of(
    st.tuples(st.sampled_from(["$eq", "$ne", "$contains"]), scalars),
    # More than are looked up one by one, too.
    st.tuples(
        st.sampled_from(["$in", "$nin"]), st.lists(scalars, max_size=3) | st.lists(scalars, min_size=9)
    ),
    st.tuples(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), ordered_operands),
    st.tuples(st.just("$exists"), st.booleans()),
    st.tuples(st.just("$prefix"), st.sampled_from(["a", "1", "t", "é"])),
    st.tuples(st.just("$regex"), st.sampled_from(["^[a-z1]$", "(?i)^b", "é|'", "r.e"])),
)
conditions = st.one_of(
    plain_conditions,
    st.lists(plain_conditions, min_size=1, max_size=2).map(lambda inner: ("$not", dict(inner))),
)
named = st.one_of(
    st.tuples(
        st.just("$document_id"), st.sampled_from(["$in", "$nin"]), st.lists(st.sampled_from(IDS), max_size=2)
    ),
    st.tuples(st.just("$source_type"), st.sampled_from(["$eq", "$ne"]), st.sampled_from(SOURCES)),
    st.tuples(
        st.just("$update_time"),
        st.sampled_from(["$gt", "$gte", "$lt", "$lte"]),
        st.sampled_from(TIMES).map(datetime.isoformat),
    ),
)
leaves = st.one_of(
    st.tuples(paths, st.lists(conditions, min_size=1, max_size=2)).map(lambda leaf: {leaf[0]: dict(leaf[1])}),
    st.tuples(paths, scalars).map(lambda leaf: {leaf[0]: leaf[1]}),
    named.map(lambda leaf: {leaf[0]: {leaf[1]: leaf[2]}}),
)
filters = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["$and", "$or"]), st.lists(inner, min_size=1, max_size=3)).map(
            lambda node: {node[0]: node[1]}
        ),
        inner.map(lambda part: {"$not": part}),
        st.tuples(inner, inner).map(lambda parts: {**parts[0], **parts[1]}),
    ),
    max_leaves=6,
)


def holds(filter: Mapping[str, Any], document: Mapping[str, Any]) -> bool:  # noqa: A002
    return all(member_holds(name, value, document) for name, value in filter.items())


def member_holds(name: str, value: Any, document: Mapping[str, Any]) -> bool:
    match name:
        case "$and":
            return all(holds(part, document) for part in value)
        case "$or":
            return any(holds(part, document) for part in value)
        case "$not":
            return not holds(value, document)
        case "$document_id" | "$source_type":
            found = document[name[1:]]
        case "$update_time":
            found = document["update_time"]
            value = {operator: datetime.fromisoformat(operand) for operator, operand in value.items()}
        case _:
            found = at_path(document["metadata"], name.split("."))
    operators = value if isinstance(value, Mapping) else {"$eq": value}
    return all(operator_holds(operator, operand, found) for operator, operand in operators.items())


def at_path(value: Any, names: list[str]) -> Any:
    for name in names:
        value = value.get(name, MISSING) if isinstance(value, Mapping) else MISSING
    return value


def operator_holds(operator: str, operand: Any, found: Any) -> bool:
    match operator:
        case "$eq":
            return any(same(each, operand) for each in elements(found))
        case "$ne":
            return not operator_holds("$eq", operand, found)
        case "$in":
            return any(operator_holds("$eq", value, found) for value in operand)
        case "$nin":
            return not operator_holds("$in", operand, found)
        case "$not":
            return not all(operator_holds(inner, value, found) for inner, value in operand.items())
        case "$prefix":
            return any(isinstance(each, str) and each.startswith(operand) for each in elements(found))
        case "$regex":
            return any(isinstance(each, str) and re.search(operand, each) for each in elements(found))
        case "$exists":
            return (found is not MISSING) is operand
        case "$contains":
            return isinstance(found, list) and any(same(element, operand) for element in found)
    if kind(found) != kind(operand):
        return False
    comparisons = {
        "$gt": found > operand, "$gte": found >= operand, "$lt": found < operand, "$lte": found <= operand
    }  # fmt: skip
    return bool(comparisons[operator])


def elements(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def kind(value: Any) -> type:
    return float if isinstance(value, int | float) and not isinstance(value, bool) else type(value)


def same(found: Any, operand: Any) -> bool:
    return kind(found) is kind(operand) and bool(found == operand)


@pytest.fixture(scope="module")
async def connection(database_url: str) -> AsyncIterator["asyncpg.Connection[Any]"]:
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


SELECT = """
    SELECT coalesce(array_agg(number), '{{}}') FROM (
        SELECT * FROM ROWS FROM (
            unnest($1::text[]::uuid[]), unnest($2::text[]), unnest($3::timestamptz[]), unnest($4::jsonb[])
        ) WITH ORDINALITY AS d (document_id, source_type, update_time, metadata, number)
    ) d WHERE {condition}
"""


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(filter=filters, library=st.lists(documents, min_size=1, max_size=12))
async def test_the_same_documents_are_selected(
    connection: "asyncpg.Connection[Any]",
    filter: Mapping[str, Any],  # noqa: A002
    library: list[Mapping[str, Any]],
) -> None:
    condition = compile_sql(parse(filter), Columns(), first_parameter=5)
    selected = await connection.fetchval(
        SELECT.format(condition=condition.text),
        [document["document_id"] for document in library],
        [document["source_type"] for document in library],
        [document["update_time"] for document in library],
        [json.dumps(document["metadata"]) for document in library],
        *condition.arguments,
    )
    expected = [number for number, document in enumerate(library, 1) if holds(filter, document)]
    assert sorted(selected) == expected


async def test_an_empty_filter_selects_everything(connection: "asyncpg.Connection[Any]") -> None:
    condition = compile_sql(parse({}), Columns(), first_parameter=1)
    assert await connection.fetchval(f"SELECT {condition.text}", *condition.arguments)


# Pieces that meet each other, so that expressions of them often match.
atoms = st.sampled_from(
    [
        "a",
        "b",
        "ä",
        "Ä",
        "7",
        "-",
        " ",
        ".",
        r"\d",
        r"\w",
        r"\S",
        r"\.",
        r"\n",
        "[ab]",
        "[^a7]",
        r"[\w.-]",
        "[x-ä]",
    ]
)
quantifiers = st.sampled_from(["", "", "", "*", "+?", "?", "{2}", "{1,}", "{0,2}"])
expressions = st.recursive(
    st.tuples(atoms, quantifiers).map("".join),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.tuples(inner, inner, quantifiers).map(lambda three: f"(?:{three[0]}|{three[1]}){three[2]}"),
    ),
    max_leaves=6,
)
patterns = st.tuples(
    st.sampled_from(["", "(?i)"]), st.sampled_from(["", "^"]), expressions, st.sampled_from(["", "$"])
)
texts = st.text(st.sampled_from("abAäÄ7-. \n"), max_size=8)


MATCHING = """
    SELECT array_agg({condition} ORDER BY number)
    FROM unnest($1::text[]::jsonb[]) WITH ORDINALITY AS d (metadata, number)
"""


@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(pattern=patterns.map("".join), library=st.lists(texts, min_size=1, max_size=12))
async def test_an_expression_matches_what_it_says_everywhere(
    connection: "asyncpg.Connection[Any]", pattern: str, library: list[str]
) -> None:
    # Python cannot ignore the case of all letters while \w is ASCII only, as PostgreSQL does here.
    assume(not ("(?i)" in pattern and r"\w" in pattern))
    try:
        condition = compile_sql(parse({"a": {"$regex": pattern}}), Columns(), first_parameter=2)
    except FilterError:
        # Every text would match.
        assume(False)
    found = await connection.fetchval(
        MATCHING.format(condition=condition.text),
        [json.dumps({"a": text}) for text in library],
        *condition.arguments,
    )
    # Python's $ also holds before a line feed at the end.
    meant = re.compile(
        pattern.removesuffix("$") + r"\Z" * pattern.endswith("$"), re.ASCII if r"\w" in pattern else 0
    )
    assert found == [meant.search(text) is not None for text in library]
