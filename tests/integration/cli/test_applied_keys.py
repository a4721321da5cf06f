"""Keys of `groundline apply`, in the gateway's database."""

import stat
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from groundline_cli.configuration.keys import plan_keys
from groundline_cli.configuration.planning import Action, Prune
from groundline_cli.configuration.reading import DeclaredKey
from groundline_database import open_pool
from groundline_gateway.keys import KeyDatabaseSettings, KeyStore
from groundline_runtime.errors import AlreadyExistsError
from pydantic import SecretStr


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[KeyStore]:
    async with open_pool(KeyDatabaseSettings(database_url=SecretStr(database_url), pool_max_size=2)) as pool:
        await pool.execute("UPDATE api_keys SET revoke_time = now() WHERE revoke_time IS NULL")
        yield KeyStore(pool)


@pytest.fixture
def declared(tmp_path: Path) -> DeclaredKey:
    return DeclaredKey(
        "portal", frozenset({"user:a", "group:b"}), frozenset({"search"}), None, tmp_path / "keys" / "a.key"
    )


async def test_a_key_is_made_once_into_a_file_of_its_owners(store: KeyStore, declared: DeclaredKey) -> None:
    made = await plan_keys(store, [declared], frozenset())
    [step] = made.steps
    await step.take()
    file = declared.secret_file
    assert file is not None
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    [key] = [key for key in await store.list_keys() if key.revoke_time is None]
    assert file.read_text().startswith(f"glk_{key.key_id}")
    assert (await plan_keys(store, [declared], frozenset())).steps == []


async def test_two_who_plan_one_key_make_one(store: KeyStore, declared: DeclaredKey, tmp_path: Path) -> None:
    other = replace(declared, secret_file=tmp_path / "other.key")
    [mine], [theirs] = [(await plan_keys(store, [one], frozenset())).steps for one in (declared, other)]
    await mine.take()
    with pytest.raises(AlreadyExistsError, match="somebody else has made it since"):
        await theirs.take()
    assert not (tmp_path / "other.key").exists()


async def test_another_scope_or_expiry_is_another_key_and_the_one_before_is_revoked_when_told(
    store: KeyStore, declared: DeclaredKey, tmp_path: Path
) -> None:
    [step] = (await plan_keys(store, [declared], frozenset())).steps
    await step.take()
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    wanted = replace(declared, expire_time=tomorrow, secret_file=tmp_path / "b.key")
    assert [step.action for step in (await plan_keys(store, [wanted], frozenset())).steps] == [Action.CREATE]
    for step in (await plan_keys(store, [wanted], frozenset({Prune.KEYS}))).steps:
        await step.take()
    [left] = [key for key in await store.list_keys() if key.state(datetime.now(UTC)) == "active"]
    assert left.expire_time == tomorrow
    assert (await plan_keys(store, [wanted], frozenset({Prune.KEYS}))).steps == []


async def test_a_key_is_written_over_no_file_and_needs_one(store: KeyStore, declared: DeclaredKey) -> None:
    file = declared.secret_file
    assert file is not None
    file.parent.mkdir()
    file.write_text("precious")
    plan = await plan_keys(store, [declared, replace(declared, name="b", secret_file=None)], frozenset())
    assert plan.steps == []
    assert [problem.split(": ")[0] for problem in plan.problems] == ["key portal", "key b"]
    assert file.read_text() == "precious"


async def test_an_unwritable_file_has_no_key(store: KeyStore, declared: DeclaredKey, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("a file, and no folder")
    [step] = (await plan_keys(store, [declared], frozenset())).steps
    with pytest.raises(OSError, match="keys"):
        await step.take()
    assert all(key.revoke_time for key in await store.list_keys())
