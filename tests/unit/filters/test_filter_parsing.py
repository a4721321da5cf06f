"""Filters: what is refused, with the path of every mistake, and what a client's JSON becomes."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from google.protobuf.struct_pb2 import Struct
from groundline_filters import (
    Columns,
    FacetField,
    FilterError,
    compile_sql,
    holds_always,
    parse,
    parse_facet,
    plain,
)
from groundline_filters.tree import (
    All,
    AnyOf,
    BeginsWith,
    Contains,
    DocumentIds,
    Exists,
    Inequality,
    Matches,
    NamingField,
    Negation,
    OneOf,
    Ordered,
    SourceTypes,
    Updated,
)

ID = "0b8f9c1e-64a5-4c1a-9d5b-0c9a3a0f3c11"


def paths(filter: Any) -> list[str]:  # noqa: A002
    with pytest.raises(FilterError) as caught:
        parse(filter)
    return [problem.path for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("filter", "path"),
    [
        ({"year": {"$above": 3}}, "filter.year.$above"),
        ({"$nor": []}, "filter.$nor"),
        ({"": 1}, "filter."),
        ({"a..b": 1}, "filter.a..b"),
        ({".".join("a" * 17): 1}, "filter." + ".".join("a" * 17)),
        ({"a\0": 1}, "filter.a\0"),
        ({"year": {}}, "filter.year"),
        ({"year": {"from": 2024}}, "filter.year.from"),
        ({"year": [2024]}, "filter.year.$eq"),
        ({"year": {"$eq": {"a": 1}}}, "filter.year.$eq"),
        ({"year": {"$gt": None}}, "filter.year.$gt"),
        ({"year": {"$lt": True}}, "filter.year.$lt"),
        ({"year": {"$gte": float("nan")}}, "filter.year.$gte"),
        ({"year": {"$in": 2024}}, "filter.year.$in"),
        ({"year": {"$in": [1, [2]]}}, "filter.year.$in"),
        ({"year": {"$nin": [0] * 1001}}, "filter.year.$nin"),
        ({"year": {"$exists": 1}}, "filter.year.$exists"),
        ({"tags": {"$contains": ["a"]}}, "filter.tags.$contains"),
        ({"team": {"$prefix": ""}}, "filter.team.$prefix"),
        ({"team": {"$prefix": 3}}, "filter.team.$prefix"),
        ({"team": {"$regex": ["a"]}}, "filter.team.$regex"),
        ({"$title": {"$regex": "("}}, "filter.$title.$regex"),
        ({"team": {"$not": "red"}}, "filter.team.$not"),
        ({"team": {"$not": {}}}, "filter.team.$not"),
        ({"team": {"$not": {"$eq": "a", "$above": 3}}}, "filter.team.$not.$above"),
        ({"$uri": {"$not": {"$gt": "a"}}}, "filter.$uri.$not.$gt"),
        ({"team": "a\0b"}, "filter.team.$eq"),
        ({"team": "\ud83d"}, "filter.team.$eq"),
        ({"team": "x" * 4097}, "filter.team.$eq"),
        ({"$and": {"a": 1}}, "filter.$and"),
        ({"$or": []}, "filter.$or"),
        ({"$or": [{"a": 1}, 3]}, "filter.$or[1]"),
        ({"$or": [{"a": 1}] * 101}, "filter.$or"),
        ({"$not": "a"}, "filter.$not"),
        ({"$not": {"a": {"$x": 1}}}, "filter.$not.a.$x"),
        ({"$document_id": "7"}, "filter.$document_id.$eq"),
        ({"$document_id": {"$gt": ID}}, "filter.$document_id.$gt"),
        ({"$document_id": {"$in": [ID, 3]}}, "filter.$document_id.$in"),
        ({"$source_type": "mail"}, "filter.$source_type.$eq"),
        ({"$update_time": "2025-01-31"}, "filter.$update_time.$eq"),
        ({"$update_time": {"$gt": "yesterday"}}, "filter.$update_time.$gt"),
        ({"$update_time": {"$gt": "2025-01-31T09:00:00"}}, "filter.$update_time.$gt"),
        ({"$update_time": {"$gt": "0001-01-01T00:00:00+14:00"}}, "filter.$update_time.$gt"),
        ({"$update_time": {"$gt": 1738281600}}, "filter.$update_time.$gt"),
    ],
)
def test_a_mistake_is_named_by_its_path(filter: Any, path: str) -> None:  # noqa: A002
    assert paths(filter) == [path]


def test_every_mistake_is_named() -> None:
    filter = {"a": {"$x": 1, "$gt": False}, "$or": [{"b": {"$in": 1}}], "$source_type": 3}  # noqa: A001
    assert paths(filter) == [
        "filter.a.$x", "filter.a.$gt", "filter.$or[0].b.$in", "filter.$source_type.$eq"
    ]  # fmt: skip


def test_conditions_and_levels_are_bounded() -> None:
    assert paths({f"a{number}": 1 for number in range(101)}) == ["filter.a100.$eq"]
    parse({f"a{number}": 1 for number in range(100)})
    nested: dict[str, Any] = {"a": 1}
    for _ in range(7):
        nested = {"$not": nested}
    parse(nested)
    assert paths({"$not": nested}) == ["filter" + ".$not" * 8]
    operators: dict[str, Any] = {"$eq": 1}
    for _ in range(7):
        operators = {"$not": operators}
    parse({"a": operators})
    assert paths({"a": {"$not": operators}}) == ["filter.a" + ".$not" * 8]
    assert paths({"a": {"$not": {"$eq": 1}}, **{f"b{number}": 1 for number in range(100)}}) == [
        "filter.b99.$eq"
    ]


def test_what_clients_write_becomes_a_tree() -> None:
    assert parse({}) == All(())
    assert parse({"a.b": None}) == All((OneOf(("a", "b"), (None,)),))
    assert parse({"year": {"$gte": 2024, "$lt": 2026}}) == All(
        (Ordered(("year",), Inequality.GTE, 2024), Ordered(("year",), Inequality.LT, 2026))
    )
    assert parse({"t": {"$nin": ["a", 1]}, "$not": {"u": {"$exists": False}}}) == All(
        (Negation(OneOf(("t",), ("a", 1))), Negation(All((Exists(("u",), False),))))
    )
    assert parse({"$or": [{"t": {"$contains": "a"}}, {"$document_id": {"$ne": ID}}]}) == All(
        (AnyOf((All((Contains(("t",), "a"),)), All((Negation(DocumentIds((UUID(ID),))),)))),)
    )
    assert parse({"$source_type": {"$in": ["file", "web"]}}) == All((SourceTypes(("file", "web")),))
    assert parse({"a": {"$prefix": "x", "$not": {"$gte": 1}}, "$title": {"$regex": "^x.y"}}) == All(
        (
            BeginsWith(("a",), "x"),
            Negation(All((Ordered(("a",), Inequality.GTE, 1),))),
            Matches(NamingField.TITLE, r"^x[^\n]y"),
        )
    )


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        (r"(a)\1", r"has \1;"),
        (r"\ba", r"has \b;"),
        (r"\p{L}", r"has \p;"),
        (r"[a\D]", r"has \D in a class"),
        ("(?=a)b", "groups as ( and (?: only"),
        ("(?<name>a)", "groups as ( and (?: only"),
        ("a(?i)b", "groups as ( and (?: only"),
        ("***=a", "has a * that repeats nothing"),
        ("a|+b", "has a + that repeats nothing"),
        ("a**", "repeats a repetition"),
        ("a++", "repeats a repetition"),
        ("^*a", "repeats ^"),
        ("a{,3}", "{n}, {n,} or {n,m}"),
        ("a{3", "{n}, {n,} or {n,m}"),
        ("a{101}", "up to 100"),
        ("a{3,2}", "from n to m"),
        ("(a", "without its )"),
        ("a)", "without its ("),
        ("[a", "ends too early"),
        ("a\\", "ends too early"),
        ("[z-a]", "ends before it begins"),
        ("[[:alpha:]]", "has a [ in a class"),
        ("(?i)[a-\U0010ffff]", "more than 1000 characters"),
        ("(" * 9 + "a" + ")" * 9, "deeper than 8"),
        ("((a{9}){9}){9}", "more than 512 steps"),
        ("a" * 257, "more than 256 characters"),
        ("", "matches every text"),
        (".*", "matches every text"),
        ("^", "matches every text"),
        ("a|b*$", "matches every text"),
    ],
)
def test_an_expression_beyond_the_subset_is_refused_with_the_reason(pattern: str, problem: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse({"a": {"$regex": pattern}})
    (found,) = caught.value.problems
    assert problem in found.description


def test_no_part_of_an_expression_reaches_the_database_unread() -> None:
    tree = parse({"a": {"$regex": r"(?i)k-9[.\]é](x|\.)??"}})
    assert tree == All((Matches(("a",), r"[Kk]\-9[\.\]éÉ](?:[Xx]|\.)?"),))


def test_a_chunk_is_on_each_page_that_its_text_touches() -> None:
    assert parse({"page": 7}) == All((AnyOf((OneOf(("page",), (7,)), Contains(("pages",), 7))),))
    assert parse({"page": {"$nin": [1, 2]}}) == All(
        (Negation(AnyOf((OneOf(("page",), (1, 2)), Contains(("pages",), 1), Contains(("pages",), 2)))),)
    )
    assert parse({"page": {"$gte": 7, "$lte": 9}}) == All(
        (
            AnyOf((Ordered(("page",), Inequality.GTE, 7), Ordered(("lastPage",), Inequality.GTE, 7))),
            Ordered(("page",), Inequality.LTE, 9),
        )
    )
    assert paths({"page": {"$in": list(range(101))}}) == ["filter.page.$in"]


@pytest.mark.parametrize("text", ["2025-01-31", "2025-01-31T00:00:00Z", "2025-01-31T01:00:00+01:00"])
def test_a_time_has_a_zone_or_is_a_date(text: str) -> None:
    assert parse({"$update_time": {"$lte": text}}) == All(
        (Updated(Inequality.LTE, datetime(2025, 1, 31, tzinfo=UTC)),)
    )


def test_a_struct_becomes_plain_values() -> None:
    struct = Struct()
    struct.update({"a": {"$in": [1, "x", None, True]}, "b": {}})
    assert plain(struct) == {"a": {"$in": [1.0, "x", None, True]}, "b": {}}


def test_values_are_parameters_and_equal_shapes_give_equal_statements() -> None:
    one, other = (
        compile_sql(parse({"team'; --": value}), Columns(), first_parameter=4) for value in ("red", "'; DROP")
    )
    assert one.text == other.text
    assert "red" not in one.text
    assert "team" not in one.text
    assert "$4::text" in one.text
    assert list(other.arguments) == ['{"team\'; --": "\'; DROP"}', '{"team\'; --": ["\'; DROP"]}']


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        ({}, True),
        ({"$and": [{}]}, True),
        ({"$or": [{"a": 1}, {}]}, True),
        ({"$not": {"a": {"$in": []}}}, True),
        ({"a": {"$nin": []}}, True),
        ({"$document_id": {"$nin": []}}, True),
        ({"$not": {}}, False),
        ({"a": 1}, False),
        ({"$and": [{}, {"a": 1}]}, False),
        ({"a": {"$exists": False}}, False),
        ({"a": {"$in": []}}, False),
    ],
)
def test_a_filter_that_selects_everything_by_its_form_is_known(
    filter: dict[str, Any],  # noqa: A002
    expected: bool,
) -> None:
    assert holds_always(parse(filter)) is expected


@pytest.mark.parametrize("field", ["", "a..b", "$uri", "$update_time", ".".join("a" * 17), "a\0"])
def test_a_field_whose_values_cannot_be_counted_is_refused(field: str) -> None:
    with pytest.raises(FilterError, match="1 to 16 names"):
        parse_facet(field)


def test_fields_whose_values_are_counted_are_paths_or_properties() -> None:
    assert parse_facet("owner.team") == ("owner", "team")
    assert parse_facet("$mime_type") is FacetField.MIME_TYPE
