"""API keys of a configuration, which are planned and made in the gateway's database."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime

from groundline_gateway.keys import Key, KeyStore
from groundline_gateway.scopes import Scope
from groundline_runtime.errors import AlreadyExistsError

from groundline_cli.configuration.planning import Action, ConfigurationPlan, Difference, Prune, Step
from groundline_cli.configuration.reading import DeclaredKey


async def plan_keys(
    store: KeyStore, declared: Sequence[DeclaredKey], prune: frozenset[Prune]
) -> ConfigurationPlan:
    """Plan the keys that are to exist. Raises UnavailableError when the database cannot be reached."""
    plan = ConfigurationPlan()
    valid = await valid_keys(store)
    existing = set(map(_as_declared, valid))
    for key in declared:
        if key in existing:
            continue
        if key.secret_file is None:
            plan.problems.append(f"key {key.name}: secretFile must name the file that it is to be written to")
        elif key.secret_file.exists():
            plan.problems.append(f"key {key.name}: {key.secret_file} exists, and no key is written over")
        else:
            plan.steps.append(_creation(store, key))
    if Prune.KEYS in prune:
        plan.steps += [_revocation(store, key) for key in valid if _as_declared(key) not in declared]
    return plan


def described_key(key: Key) -> dict[str, object]:
    """Return a key as a file has it, with a file for what is made of it elsewhere."""
    described: dict[str, object] = {
        "name": key.name,
        "principals": list(key.principals),
        "scopes": list(key.scopes),
    }
    if key.expire_time:
        described["expireTime"] = key.expire_time.isoformat()
    return {**described, "secretFile": f"{key.name}-{key.key_id}.key"}


async def valid_keys(store: KeyStore) -> Sequence[Key]:
    """Return the keys that are neither revoked nor expired."""
    now = datetime.now(UTC)
    return [key for key in await store.list_keys() if key.state(now) == "active"]


def _as_declared(key: Key) -> DeclaredKey:
    return DeclaredKey(key.name, frozenset(key.principals), frozenset(key.scopes), key.expire_time)


def _creation(store: KeyStore, declared: DeclaredKey) -> Step:
    path = declared.secret_file
    assert path is not None, "planned only with one"

    async def take() -> None:
        if declared in map(_as_declared, await valid_keys(store)):
            raise AlreadyExistsError("KEY_EXISTS", f"key {declared.name}: somebody else has made it since")
        # Opened first: a key that cannot be written would be lost.
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            try:
                scopes = [scope for scope in Scope if scope in declared.scopes]
                made = await store.create(
                    declared.name, sorted(declared.principals), scopes, declared.expire_time
                )
                file.write(f"{made.secret}\n")
            except BaseException:
                path.unlink()
                raise

    differences = [
        Difference("principals", None, sorted(declared.principals)),
        Difference("scopes", None, sorted(declared.scopes)),
    ]
    if declared.expire_time:
        differences.append(Difference("expireTime", None, declared.expire_time.isoformat()))
    return Step(Action.CREATE, f"key {declared.name}", take, differences, note=f"written to {path}")


def _revocation(store: KeyStore, key: Key) -> Step:
    async def take() -> None:
        await store.revoke(key.key_id)

    return Step(Action.DELETE, f"key {key.key_id} of {key.name}", take, note="it is revoked")
