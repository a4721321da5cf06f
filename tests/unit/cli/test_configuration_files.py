"""Files of `groundline apply`: what they may hold, and how what is wrong is told."""

from pathlib import Path
from typing import Any

import pytest
from groundline_cli.configuration import SOURCE_KINDS
from groundline_cli.configuration.reading import (
    Configuration,
    ConfigurationError,
    properties_of,
    read_configuration,
)


def read(tmp_path: Path, *texts: str) -> Configuration:
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.yaml").write_text(text)
    return read_configuration([tmp_path], str)


def problems(tmp_path: Path, *texts: str) -> list[str]:
    with pytest.raises(ConfigurationError) as raised:
        read(tmp_path, *texts)
    return [problem.replace(f"{tmp_path}/", "") for problem in raised.value.problems]


def test_files_documents_and_directories_make_one_configuration(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "c.json").write_text('{"collections": [{"collectionId": "c"}]}')
    (tmp_path / "notes.txt").write_text("collections: 7")
    found = read(
        tmp_path, "collections: [{collectionId: a}]\n---\ncollections: [{collectionId: b}]", "collections: []"
    )
    assert sorted(one["collectionId"] for one in found.collections) == ["a", "b", "c"]


def test_every_wrong_place_is_named(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        """
        collections:
          - collectionId: Hand Book
            settngs: {}
          - collectionId: x
            settings: {chunking: {chunkSize: 12}, access: {readers: all}}
            sources: [{name: a, git: {}}, {name: b}, {name: c, web: {startUrl: u}, git: {url: u}}]
        """,
        "keys: [{name: p, principals: ['*'], scopes: [everything], expireTime: soon}]",
    )
    expected = [
        "0.yaml: collections[0].collectionId: 'Hand Book' does not match",
        "0.yaml: collections[0]: Additional properties are not allowed ('settngs' was unexpected)",
        "0.yaml: collections[1].settings.chunking.chunkSize: 12 is less than the minimum of 50",
        "0.yaml: collections[1].settings.access.readers: 'all' is not of type 'array'",
        "0.yaml: collections[1].sources[0].git: 'url' is a required property",
        f"0.yaml: source b of x: must have one of {', '.join(SOURCE_KINDS)}",
        f"0.yaml: source c of x: must have one of {', '.join(SOURCE_KINDS)}, and has git and web",
        "1.yaml: keys[0].principals[0]: '*' does not match",
        "1.yaml: keys[0].scopes[0]: 'everything' is not one of",
        "1.yaml: key p: expireTime must be a time",
    ]
    assert len(found) == len(expected)
    for problem, beginning in zip(found, expected, strict=True):
        assert problem.startswith(beginning)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("collections: [{collectionId: a, collectionId: b}]", "'collectionId' stands twice"),
        ("{7: a}", "7 stands twice, or is not a text"),
        ("collections: [", "expected the node content"),
        ("- a", "is not of type 'object'"),
        ("", "is empty"),
        ("# only a remark", "is empty"),
        ("collections: !!python/object/apply:os.system [ls]", "could not determine a constructor"),
    ],
)
def test_what_is_no_configuration_is_refused(tmp_path: Path, text: str, told: str) -> None:
    [problem] = problems(tmp_path, text)
    assert told in problem


def test_one_thing_is_described_once(tmp_path: Path) -> None:
    source = "{name: wiki, web: {startUrl: 'https://a.test'}}"
    key = "{name: p, principals: [u], scopes: [chat], secretFile: p.key}"
    assert problems(
        tmp_path,
        f"collections: [{{collectionId: a, sources: [{source}, {source}]}}]\nkeys: [{key}]",
        f"collections: [{{collectionId: a}}]\nkeys: [{key}]",
    ) == [
        "0.yaml: the source wiki of a is named in 0.yaml already",
        "1.yaml: the collection a is named in 0.yaml already",
        "1.yaml: the key p is named twice",
        "1.yaml: the file of a key p.key is named in 0.yaml already",
    ]


def test_an_unreadable_file_and_an_empty_directory_are_named(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"name: Caf\xe9")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigurationError) as raised:
        read_configuration([tmp_path / "latin.yaml", tmp_path / "empty", tmp_path / "gone.yaml"], str)
    told = [problem.split(": ")[1] for problem in raised.value.problems]
    assert told == [
        "is not UTF-8",
        "holds no file that ends in .yaml, .yml, .json",
        "No such file or directory",
    ]


def test_words_and_times_stay_texts_and_a_key_is_beside_its_file(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        """
        collections: [{collectionId: a, name: on, settings: {keepOriginals: true}}]
        keys: [{name: p, principals: [no], scopes: [chat], expireTime: 2027-01-31, secretFile: below/p.key}]
        """,
    )
    [collection], [key] = found.collections, found.keys
    assert (collection["name"], collection["settings"]["keepOriginals"]) == ("on", True)
    assert (key.principals, key.secret_file) == (frozenset({"no"}), tmp_path / "below" / "p.key")
    assert key.expire_time is not None
    assert key.expire_time.isoformat() == "2027-01-31T00:00:00+00:00"


def test_the_schema_has_what_a_user_sets_and_nothing_that_the_service_sets() -> None:
    source: dict[str, Any] = properties_of("DocumentSource")
    assert {"name", "intervalSeconds", "includePaths", *SOURCE_KINDS} <= set(source)
    assert not {"sourceId", "etag", "lastJob", "nextRunTime", "documentCount", "createTime"} & set(source)
    assert set(properties_of("EmbeddingSettings")) == {"model"}
