"""`groundline apply` and `export`: an installation becomes what files say, and says what it is."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
import yaml
from groundline_cli.configuration.planning import plan
from groundline_cli.configuration.reading import Configuration
from groundline_client import ApiError, AsyncClient
from groundline_tests.commands.forked import Finished
from groundline_tests.suite import Stack, delete_collection


@pytest.fixture
async def collection_id(client: httpx.AsyncClient) -> AsyncIterator[str]:
    name = f"applied-{uuid4().hex[:8]}"
    yield name
    await delete_collection(client, name)


def described(collection_id: str, **collection: Any) -> dict[str, Any]:
    return {"collections": [{"collectionId": collection_id, **collection}]}


def source(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "web": {"startUrl": f"https://{name}.example/"}, "isPaused": True, **fields}


class Applying:
    """`groundline apply` of one file."""

    def __init__(self, stack: Stack, folder: Path) -> None:
        self._stack = stack
        self.file = folder / "installation.yaml"

    async def __call__(self, configuration: dict[str, Any], *options: str) -> Finished:
        self.file.write_text(yaml.safe_dump(configuration))
        return await self._stack.command("apply", str(self.file), *options)

    async def steps(self, configuration: dict[str, Any], *options: str) -> dict[str, str]:
        """Return what is planned, or was done: actions by what they are of."""
        done = await self(configuration, "--json", *options)
        assert done.code == 0, done.err
        return {step["what"]: step["action"] for step in json.loads(done.out)["steps"]}


@pytest.fixture
def applying(stack: Stack, tmp_path: Path) -> Applying:
    return Applying(stack, tmp_path)


async def test_a_collection_with_sources_and_a_key_is_made_once_and_exported_as_it_is(
    applying: Applying, stack: Stack, collection_id: str, tmp_path: Path
) -> None:
    database = ("--database-url", stack.ready["database_url"])
    wanted = described(
        collection_id,
        name="Applied",
        settings={"chunking": {"chunkSize": 1200}, "generation": {"temperature": 0.2}},
        sources=[source("wiki", metadata={"team": "ops"}), source("blog")],
    )
    key = {
        "name": collection_id,
        "principals": ["user:portal"],
        "scopes": ["search"],
        "secretFile": "a/b.key",
    }
    wanted["keys"] = [key]
    whole = {
        f"collection {collection_id}": "create",
        f"source wiki of {collection_id}": "create",
        f"source blog of {collection_id}": "create",
        f"key {collection_id}": "create",
    }
    assert await applying.steps(wanted, "--dry-run", *database) == whole
    assert (await applying(wanted, "--check", *database)).code == 1
    assert await applying.steps(wanted, *database) == whole
    assert await applying.steps(wanted, "--check", *database) == {}
    secret = tmp_path / "a" / "b.key"
    assert secret.stat().st_mode & 0o777 == 0o600
    headers = {"x-api-key": secret.read_text().strip()}
    async with httpx.AsyncClient(base_url=stack.ready["gateway"], headers=headers, trust_env=False) as portal:
        async with asyncio.timeout(30):
            while (await portal.get("/api/collections")).status_code != 200:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.2)

    exported = await stack.command("export", collection_id)
    assert exported.code == 0, exported.err
    found = yaml.safe_load(exported.out)
    [collection] = found["collections"]
    assert (collection["name"], collection["settings"]["generation"]) == ("Applied", {"temperature": 0.2})
    assert collection["sources"] == [source("blog"), source("wiki", metadata={"team": "ops"})]
    assert await applying.steps(found, "--check") == {}
    keys = yaml.safe_load((await stack.command("export", collection_id, "--keys", *database)).out)["keys"]
    [named] = [one for one in keys if one["name"] == collection_id]
    assert (named["principals"], named["scopes"]) == (["user:portal"], ["search"])
    assert secret.read_text().strip() not in json.dumps(keys)
    assert (await stack.command("keys", "revoke", collection_id, "--yes", *database)).code == 0


async def test_the_unnamed_stays_and_null_gives_the_default(applying: Applying, collection_id: str) -> None:
    settings: dict[str, Any] = {"chunking": {"chunkSize": 1200}, "rerank": {"topK": 7}}
    settings["originalReaders"] = ["user:editor"]
    wiki = source("wiki", allowedPrincipals=["user:editor"], intervalSeconds=600)
    await applying.steps(described(collection_id, settings=settings, sources=[wiki, source("blog")]))
    changed = {"chunking": {"chunkSize": None}, "rerank": {"rrfK": 10}}
    wanted = described(collection_id, settings=changed, sources=[source("wiki", isPaused=None)])
    wanted["collections"][0]["sources"][0]["includePaths"] = ["/docs/**"]
    shown = (await applying(wanted, "--dry-run")).out.splitlines()
    assert [line.strip() for line in shown] == [
        f"~ collection {collection_id}",
        "settings.chunking.chunkSize: 1200 → 2000",
        "settings.rerank.rrfK: not set → 10",
        f"~ source wiki of {collection_id}",
        "isPaused: true → not set",
        'includePaths: not set → ["/docs/**"]',
        "2 to change",
    ]
    await applying.steps(wanted)
    assert await applying.steps(wanted, "--check") == {}
    pruned = await applying.steps(wanted, "--dry-run", "--prune", "settings", "--prune", "sources")
    assert pruned == {
        f"collection {collection_id}": "change",
        f"source wiki of {collection_id}": "change",
        f"source blog of {collection_id}": "delete",
    }
    await applying.steps(wanted, "--prune", "settings", "--prune", "sources", "--yes")
    assert await applying.steps(wanted, "--check", "--prune", "settings", "--prune", "sources") == {}
    # Who may read widens by no omission.
    kept = described(
        collection_id,
        settings={"rerank": {"topK": None, "rrfK": 10}, "originalReaders": ["user:editor"]},
        sources=[source("wiki", isPaused=None, allowedPrincipals=["user:editor"], intervalSeconds=None)],
    )
    assert await applying.steps(kept, "--check") == {}


async def test_nothing_is_done_while_anything_is_refused(
    applying: Applying, stack: Stack, client: httpx.AsyncClient, collection_id: str
) -> None:
    await applying.steps(described(collection_id))
    wanted = described(
        collection_id,
        name="Renamed",
        settings={"lexical": {"language": "german"}},
        sources=[{"name": "outside", "directory": {"path": "/etc"}}, source("wiki")],
    )
    wanted["collections"].append({"collectionId": f"{collection_id}-2"})
    wanted["keys"] = [{"name": "nowhere", "principals": ["u"], "scopes": ["chat"]}]
    for options, told in (
        ((), ("the database of",)),
        (
            ("--database-url", stack.ready["database_url"]),
            ("ReindexCollection", "source outside", "key nowhere: secretFile"),
        ),
    ):
        refused = await applying(wanted, *options)
        assert refused.code == 1
        for each in told:
            assert each in refused.err
    assert (await client.get(f"/api/collections/{collection_id}")).json()["collection"][
        "name"
    ] == collection_id
    assert (await client.get(f"/api/collections/{collection_id}-2")).status_code == 404


async def test_deletions_are_asked_for_and_touch_what_the_key_administers(
    applying: Applying, stack: Stack, collection_id: str
) -> None:
    database = ("--database-url", stack.ready["database_url"])
    made = await stack.command(
        "keys", "create", "--name", collection_id, "--principal", f"user:{collection_id}",
        "--json", *database, "--scope", "search", "--scope", "ingest", "--scope", "admin",
    )  # fmt: skip
    api_key = ("--api-key", json.loads(made.out)["key"])
    kept, gone = f"{collection_id}-kept", f"{collection_id}-gone"
    both = {"collections": [{"collectionId": kept}, {"collectionId": gone}]}
    async with asyncio.timeout(30):
        while (await applying(both, *api_key)).code != 0:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.5)
    # It may read this one, and not administer it.
    access = {"readers": ["*"], "writers": ["user:local"], "admins": ["user:local"]}
    await applying.steps(described(collection_id, settings={"access": access}))
    asked = await applying(described(kept), "--prune", "collections", *api_key)
    assert asked.code == 1
    assert "Do this, and delete 1?" in asked.err
    assert await applying.steps(described(kept), "--prune", "collections", "--yes", *api_key) == {
        f"collection {gone}": "delete"
    }
    left = await applying.steps({"collections": []}, "--prune", "collections", "--yes", *api_key)
    assert left == {f"collection {kept}": "delete"}
    assert (await stack.command("keys", "revoke", collection_id, "--yes", *database)).code == 0


async def test_who_applies_at_once_loses_no_change_of_another(
    stack: Stack, applying: Applying, collection_id: str, tmp_path: Path
) -> None:
    await applying.steps(described(collection_id, sources=[source("wiki")]))
    async with AsyncClient(stack.ready["gateway"], stack.ready["api_key"]) as client:
        wanted = described(collection_id, name="Mine", sources=[source("wiki", includePaths=["/a/**"])])
        mine = await plan(client, Configuration(wanted["collections"]), frozenset())
        theirs = described(
            collection_id, settings={"rerank": {"topK": 3}}, sources=[source("wiki", includePaths=["/b/**"])]
        )
        await applying.steps(theirs)
        reasons = []
        for step in mine.steps:
            with pytest.raises(ApiError) as raised:
                await step.take()
            reasons.append(raised.value.reason)
        assert reasons == ["COLLECTION_CHANGED", "SOURCE_CHANGED"]

    async def until_done(name: str, value: int) -> int:
        """Apply a file that sets a setting of its own, again while it is refused; return the attempts."""
        one = Applying(stack, tmp_path / name)
        one.file.parent.mkdir()
        for attempt in range(1, 20):
            done = await one(described(collection_id, settings={"retrieval": {name: value}}))
            if done.code == 0:
                return attempt
            assert "changed meanwhile" in done.err, done.err
        raise AssertionError("refused every time")

    names = {"keywordLimit": 11, "semanticLimit": 12, "adjacentChunks": 3, "efSearch": 14}
    await asyncio.gather(*(until_done(name, value) for name, value in names.items()))
    assert await applying.steps(described(collection_id, settings={"retrieval": names}), "--check") == {}


async def test_dry_runs_are_no_audited_changes(stack: Stack, applying: Applying, collection_id: str) -> None:
    await applying.steps(described(collection_id, sources=[source("wiki")]), "--dry-run")
    await applying.steps(described(collection_id, sources=[source("wiki")]))
    renamed = described(collection_id, name="Other", sources=[source("wiki", isPaused=False)])
    await applying.steps(renamed, "--dry-run")
    await applying.steps(renamed)
    database = ("--database-url", stack.ready["database_url"])
    actions: list[str] = []
    async with asyncio.timeout(60):
        while "UpdateSource" not in actions:
            listed = await stack.command(
                "audit", "list", "--resource", f"/api/collections/{collection_id}", "--json", *database
            )
            assert listed.code == 0, listed.err
            actions = [entry["action"] for entry in json.loads(listed.out)["entries"]]
    assert actions == ["CreateSource", "UpdateCollection", "UpdateSource"]
