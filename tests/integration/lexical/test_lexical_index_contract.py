"""What every LexicalIndex keeps, on a real server; a backend that the server lacks is skipped."""

import warnings
from collections.abc import AsyncIterator, Sequence
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from groundline_cli.stack.postgres import EmbeddedPostgres
from groundline_lexical import (
    LexicalIndex,
    LexicalIndexError,
    detect_lexical_index,
    languages,
    lexical_text,
)
from groundline_lexical.detection import BACKENDS
from groundline_lexical.languages import ENGLISH_STOP_WORDS
from groundline_lexical.pg_search import PgSearchIndex
from groundline_lexical.vchord_bm25 import VchordBm25Index

# A backend that is skipped is to be seen, not to fail.
pytestmark = pytest.mark.filterwarnings("default:LEXICAL BACKEND NOT TESTED:pytest.PytestWarning")

type Rows = Sequence[tuple[int, float]]
type Connection = asyncpg.Connection[Any]

LEASES = "A replica that lost its lease stops serving reads and waits for the leader."
BREAD = "Bake the bread until the crust is dark brown, then let it rest."
CODE = "def parseConfig(path): return load_settings(path)  # reads utf8"
INVOICES = "Invoices are archived for ten years; the archive is read only."


@pytest.fixture(scope="module")
async def database(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    name = "lexical_contract"
    yield await postgres.create_database(name)
    await postgres.drop_database(name)


@pytest.fixture
async def connection(database: str) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(
        database,
        server_settings={"plan_cache_mode": "force_generic_plan", "max_parallel_workers_per_gather": "0"},
    )
    yield connection
    await connection.close()


@pytest.fixture(params=sorted(BACKENDS))
async def index(request: pytest.FixtureRequest, connection: Connection) -> LexicalIndex:
    try:
        found = await detect_lexical_index(connection, request.param)
    except LexicalIndexError as error:
        reason = f"LEXICAL BACKEND NOT TESTED: {error}"
        warnings.warn(reason, pytest.PytestWarning, stacklevel=1)
        pytest.skip(reason)
    await found.create_extension(connection)
    return found


class Table:
    """A partition with one row per text; chunk ids count from 1."""

    def __init__(self, connection: Connection, index: LexicalIndex) -> None:
        self.connection, self.index = connection, index
        self.language = "english"

    async def create(
        self, texts: Sequence[str], language: str = "english", *, is_shared: bool = False
    ) -> "Table":
        await self.connection.execute(
            """
            DROP TABLE IF EXISTS pieces;
            CREATE TABLE pieces (
                partition_id bigint NOT NULL, chunk_id bigint GENERATED ALWAYS AS IDENTITY,
                lexical_text text NOT NULL, colour text NOT NULL, document_id uuid NOT NULL,
                metadata jsonb NOT NULL, allowed_principals text[] NOT NULL, collection_id text NOT NULL,
                PRIMARY KEY (partition_id, chunk_id)
            ) PARTITION BY LIST (partition_id);
            CREATE TABLE pieces_p1 PARTITION OF pieces FOR VALUES IN (1)
            """
        )
        self.language = language
        await self.index.create_index(self.connection, "pieces_p1", language, is_shared=is_shared)
        await self.add(texts)
        return self

    async def add(self, texts: Sequence[str]) -> None:
        rows = [
            (
                lexical_text(text, context="", title="", uri=""),
                "odd" if number % 2 else "even",
                UUID(int=number),
            )
            for number, text in enumerate(texts, 1)
        ]
        await self.connection.executemany(
            """
            INSERT INTO pieces
                (partition_id, lexical_text, colour, collection_id, document_id, metadata, allowed_principals)
            VALUES (
                1, $1, $2, $2 || '-ones', $3,
                CASE $2 WHEN 'odd' THEN '{}' ELSE '{"kind": "lease", "n": 1}' END::jsonb,
                CASE $2 WHEN 'odd' THEN '{}' ELSE '{user:alice}' END::text[]
            )
            """,
            rows,
        )

    async def search(self, query: str, limit: int | None = 50) -> Rows:
        sql = self.index.search_sql("pieces_p1", self.language, limit=limit)
        async with self.connection.transaction():
            for name, value in self.index.search_settings(limit).items():
                await self.connection.execute("SELECT set_config($1, $2, true)", name, value)
            rows = await self.connection.fetch(sql, self.index.prepare_query(query, self.language))
        return [(row["chunk_id"], row["score"]) for row in rows]

    async def found(self, query: str) -> list[int]:
        return [chunk_id for chunk_id, _ in await self.search(query)]


@pytest.fixture
def table(connection: Connection, index: LexicalIndex) -> Table:
    return Table(connection, index)


@pytest.mark.parametrize(
    "query",
    ["", "   ", "?!", "\0", "\ud83d", "🙂", "\u0301", "the of and", "zzzunknown", "x" * 8000, "é" * 300],
)
async def test_a_query_without_a_known_word_finds_nothing(table: Table, query: str) -> None:
    await table.create([LEASES, BREAD])
    assert await table.found(query) == []


@pytest.mark.parametrize(
    "query",
    [
        "lease AND (", 'lease "unclosed', "lexical_text:lease", "lease^1000", "lease~9", "lease OR NOT *",
        "{\"lease\": 1}", "'; DROP TABLE pieces; -- lease", "lease\\", "[lease TO *]", "\0lease\0",
    ],
)  # fmt: skip
async def test_nothing_that_a_user_writes_is_syntax(table: Table, query: str) -> None:
    await table.create([LEASES, BREAD])
    assert await table.found(query) == [1]


async def test_an_empty_table_has_no_rows_and_a_sound_index(table: Table, connection: Connection) -> None:
    await table.create([])
    assert await table.found("lease") == []
    assert await table.index.probe(connection, "pieces_p1")


async def test_a_probe_notices_an_index_that_lost_its_rows(table: Table, connection: Connection) -> None:
    await table.create([LEASES, BREAD])
    assert await table.index.probe(connection, "pieces_p1")
    # As after an unclean stop: rows of which the index knows nothing.
    definition = await connection.fetchval(
        "SELECT indexdef FROM pg_indexes WHERE tablename = 'pieces_p1' AND indexdef LIKE '%bm25 (%'"
    )
    await connection.execute("DROP INDEX pieces_p1_bm25")
    await connection.execute(f"{definition} WHERE chunk_id < 2")
    assert await table.found("bread") == []
    assert not await table.index.probe(connection, "pieces_p1")
    await connection.execute("DROP INDEX pieces_p1_bm25")
    await connection.execute(definition)
    assert await table.index.probe(connection, "pieces_p1")


async def test_a_table_name_that_is_no_plain_name_is_refused(index: LexicalIndex) -> None:
    for name in ("", "pieces; DROP TABLE pieces", "Pieces", 'p"q', "a.b", "x" * 60):
        with pytest.raises(ValueError, match="plain name"):
            index.search_sql(name, "english", limit=1)


async def test_any_of_the_words_is_enough_and_more_of_them_score_higher(table: Table) -> None:
    await table.create([BREAD, "The lease.", LEASES])
    rows = await table.search("replica lease leader")
    assert [chunk_id for chunk_id, _ in rows] == [3, 2]
    assert rows[0][1] > rows[1][1] > 0


async def test_the_limit_keeps_the_best_and_ties_go_to_the_smaller_id(table: Table) -> None:
    await table.create(["lease"] * 5 + ["lease lease lease"])
    rows = await table.search("lease", limit=3)
    assert [chunk_id for chunk_id, _ in rows] == [6, 1, 2]
    assert await table.search("lease", limit=6) == sorted(
        await table.search("lease", limit=6), key=lambda row: (-row[1], row[0])
    )


@pytest.mark.parametrize(
    ("condition", "arguments", "kept"),
    [
        ("colour = $2", ["even"], {2, 4}),
        ("allowed_principals = '{}' OR allowed_principals && $2", [["user:bob"]], {1, 3}),
        ("allowed_principals = '{}' OR allowed_principals && $2", [["user:bob", "user:alice"]], {1, 2, 3, 4}),
        ("document_id = ANY ($2::uuid[])", [[UUID(int=3)]], {3}),
        ("metadata @> $2::jsonb", ['{"kind": "lease"}'], {2, 4}),
        ("coalesce((metadata -> $2::text) = $3::jsonb, false)", ["kind", '"lease"'], {2, 4}),
    ],
)
async def test_a_condition_among_the_columns_changes_no_score(
    table: Table, condition: str, arguments: list[object], kept: set[int]
) -> None:
    await table.create([LEASES, "lease lease", LEASES + BREAD, "The lease is ten years long", BREAD])
    scores = await table.search("replica lease years")
    sql = table.index.search_sql("pieces_p1", "english", limit=50, columns=f"({condition}) AS selected")
    query = table.index.prepare_query("replica lease years", "english")
    rows = await table.connection.fetch(sql, query, *arguments)
    assert [(row["chunk_id"], row["score"]) for row in rows] == scores
    assert {row["chunk_id"] for row in rows if row["selected"]} == kept


@pytest.mark.parametrize(
    ("collections", "kept"),
    [
        ([], set()),
        (["none"], set()),
        (["odd-ones"], {1, 3}),
        (["odd"], set()),
        (["even-ones", "odd-ones"], {1, 2, 3, 4}),
    ],
)
async def test_collections_of_a_shared_table_are_searched_alone_with_the_scores_of_all(
    table: Table, collections: list[str], kept: set[int]
) -> None:
    if not table.index.capabilities.filters_collections:
        with pytest.raises(ValueError, match="does not filter"):
            await table.create([], is_shared=True)
        return
    texts = [LEASES, "lease lease", LEASES + BREAD, "The lease is ten years long", BREAD]
    await table.create(texts, is_shared=True)
    scores = dict(await table.search("replica lease years"))
    sql = table.index.search_sql("pieces_p1", "english", limit=50, collections="$2")
    query = table.index.prepare_query("replica lease years", "english")
    rows = await table.connection.fetch(sql, query, collections)
    assert {row["chunk_id"]: row["score"] for row in rows} == {key: scores[key] for key in kept}


async def test_the_limit_counts_rows_of_the_collections_only(table: Table) -> None:
    if not table.index.capabilities.filters_collections:
        pytest.skip("no shared tables")
    await table.create(["lease lease"] * 9 + ["lease and more words"], is_shared=True)
    sql = table.index.search_sql("pieces_p1", "english", limit=2, collections="$2")
    rows = await table.connection.fetch(sql, table.index.prepare_query("lease", "english"), ["even-ones"])
    assert [row["chunk_id"] for row in rows] == [2, 4]


async def test_without_a_limit_every_match_is_found(table: Table) -> None:
    await table.create([LEASES] * 120 + [BREAD])
    assert len(await table.search("lease", limit=None)) == 120


async def test_names_are_found_by_their_parts_and_in_either_spelling(table: Table) -> None:
    await table.create([LEASES, CODE, BREAD])
    for query in ("parse", "config", "parseConfig", "parse_config", "PARSECONFIG", "loadSettings", "utf-8"):
        assert await table.found(query) == [2], query


async def test_english_words_are_found_in_any_form_and_stop_words_are_not_searched(table: Table) -> None:
    await table.create([INVOICES, BREAD], "english")
    assert await table.found("archiving an invoice") == [1]
    assert await table.found("the") == []


async def test_the_words_that_an_english_question_is_asked_with_are_not_searched(table: Table) -> None:
    await table.create([" ".join(ENGLISH_STOP_WORDS), BREAD], "english")
    assert await table.found("Why, and how, does he do that?") == []
    assert await table.found(" ".join(ENGLISH_STOP_WORDS)) == []


@pytest.mark.parametrize("language", ["simple", "english"])
@pytest.mark.parametrize(
    ("query", "number"),
    [
        ("北京", 1),
        ("升旗仪式", 1),
        ("検索", 2),
        ("データの検索方法", 2),
        ("문장", 3),
        ("猫", 4),
        ("iphone", 4),
    ],
)
async def test_text_without_spaces_is_found_by_the_words_in_it(
    table: Table, language: str, query: str, number: int
) -> None:
    texts = [
        "我们在北京天安门看升旗。",
        "日本語のデータを検索する。",
        "한국어 문장을 씁니다.",
        "她的猫坐在iPhone手机上。",
    ]
    await table.create(texts, language)
    assert await table.found(query) == [number]


async def test_german_words_are_found_in_any_form(table: Table) -> None:
    await table.create(["Die Häuser der Städte wurden verkauft.", "Das Brot ist dunkel."], "german")
    assert await table.found("Haus verkaufen in der Stadt") == [1]
    assert await table.found("die und das") == []


@pytest.mark.parametrize("language", ["simple", "klingon", "", "English'; --"])
async def test_an_unknown_language_is_indexed_as_it_is(table: Table, language: str) -> None:
    await table.create([INVOICES, BREAD], language)
    assert await table.found("invoices") == [1]
    assert await table.found("invoice") == []
    assert set(await table.found("the")) == {1, 2}


async def test_rows_are_searchable_once_written_and_gone_once_deleted(
    table: Table, connection: Connection
) -> None:
    await table.create([LEASES])
    await table.add([BREAD])
    assert await table.found("bread") == [2]
    await connection.execute("DELETE FROM pieces_p1 WHERE chunk_id = 2")
    assert await table.found("bread") == []
    assert await table.index.probe(connection, "pieces_p1")


async def test_the_best_are_taken_from_the_index_without_ranking_the_rest(
    table: Table, connection: Connection
) -> None:
    if table.index.name != "pg_search":
        pytest.skip("EXPLAIN is pg_search's own")
    await table.create([f"{LEASES} {number}" for number in range(200)], is_shared=True)
    for collections, arguments in (("", []), ("$2", [["odd-ones"]])):
        sql = table.index.search_sql("pieces_p1", "english", limit=5, collections=collections)
        statement = await connection.prepare(f"EXPLAIN (ANALYZE, COSTS OFF) {sql}")
        plan = "\n".join(row[0] for row in await statement.fetch("lease", *arguments))
        assert "TopNScanExecState" in plan


async def test_detection_names_what_is_wrong(connection: Connection) -> None:
    with pytest.raises(
        LexicalIndexError, match="no lexical backend 'lucene'; there are: pg_search, vchord_bm25"
    ):
        await detect_lexical_index(connection, "lucene")
    assert (await detect_lexical_index(connection)).name in BACKENDS


@pytest.mark.parametrize("version", ["0.20.9", "0.25.0", "1.0", "next", ""])
def test_an_unknown_version_is_refused(version: str) -> None:
    with pytest.raises(LexicalIndexError, match="is not supported"):
        PgSearchIndex.of_version(version)


@pytest.mark.parametrize("version", ["0.2.9", "0.4.0", "1.3", "next", ""])
def test_an_unknown_version_of_vchord_bm25_is_refused(version: str) -> None:
    with pytest.raises(LexicalIndexError, match="is not supported"):
        VchordBm25Index.of_version(version)


def test_the_languages_are_known() -> None:
    assert {"simple", "english", "german"} <= languages()
    assert "klingon" not in languages()
