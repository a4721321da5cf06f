"""Which versions of the extensions are taken."""

import pytest
from groundline_lexical import LexicalIndexError, languages
from groundline_lexical.pg_search import PgSearchIndex
from groundline_lexical.pg_textsearch import PgTextsearchIndex
from groundline_lexical.vchord_bm25 import VchordBm25Index


@pytest.mark.parametrize("version", ["0.20.9", "0.25.0", "1.0", "next", ""])
def test_an_unknown_version_of_pg_search_is_refused(version: str) -> None:
    with pytest.raises(LexicalIndexError, match="is not supported"):
        PgSearchIndex.of_version(version)


@pytest.mark.parametrize("version", ["0.2.9", "0.4.0", "1.3", "next", ""])
def test_an_unknown_version_of_vchord_bm25_is_refused(version: str) -> None:
    with pytest.raises(LexicalIndexError, match="is not supported"):
        VchordBm25Index.of_version(version)


@pytest.mark.parametrize("version", ["0.5.9", "0.6.1", "1.0.0", "1.2.9"])
def test_a_version_of_pg_textsearch_that_loses_rows_is_refused_with_the_reason(version: str) -> None:
    with pytest.raises(LexicalIndexError, match=r"loses rows when the server stops uncleanly.* from 1\.3 on"):
        PgTextsearchIndex.of_version(version)


@pytest.mark.parametrize("version", ["2.0.0", "next", ""])
def test_an_unknown_version_of_pg_textsearch_is_refused(version: str) -> None:
    with pytest.raises(LexicalIndexError, match="is not supported; install") as raised:
        PgTextsearchIndex.of_version(version, allow_lossy=True)
    assert "loses" not in str(raised.value)


@pytest.mark.parametrize("version", ["1.3.0", "1.4.0", "1.5.0-dev"])
def test_pg_textsearch_is_relied_on_from_1_3_on(version: str) -> None:
    capabilities = PgTextsearchIndex.of_version(version).capabilities
    assert capabilities.survives_unclean_stop
    assert capabilities.answers_on_standby


def test_what_tests_allow_of_it_is_not_relied_on() -> None:
    capabilities = PgTextsearchIndex.of_version("0.6.1", allow_lossy=True).capabilities
    assert not capabilities.survives_unclean_stop
    assert not capabilities.answers_on_standby
    with pytest.raises(LexicalIndexError, match="is not supported"):
        PgTextsearchIndex.of_version("0.5.0", allow_lossy=True)


def test_the_languages_are_known() -> None:
    assert {"simple", "english", "german"} <= languages()
    assert "klingon" not in languages()
