"""JWTs of an issuer: a real token server on loopback, and what is tried with its tokens."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from groundline.v1 import coordinator_service_pb2
from groundline.v1.coordinator_service_pb2_grpc import CoordinatorServiceStub
from groundline_tests.gateway.issuer import SigningKey, TokenServer, base64url, issuer, serving
from groundline_tests.gateway.program import gateway_program


@pytest.fixture(scope="module")
def server() -> Iterator[TokenServer]:
    with serving(TokenServer()) as server:
        yield server


@pytest.fixture
def other() -> Iterator[TokenServer]:
    """Another issuer."""
    with serving(TokenServer()) as server:
        yield server


@pytest.fixture
async def client(upstream: Any, shared: Any, server: TokenServer) -> AsyncIterator[httpx.AsyncClient]:
    """Provide a client of a gateway that accepts the server's tokens, and alice's key."""
    gateway = await shared(jwt_issuers=[issuer(server)])
    async with gateway.client(None) as client:
        await asks(client, server.token(), 200)
        yield client


async def ask(client: httpx.AsyncClient, token: str, path: str = "/api/answer") -> httpx.Response:
    return await client.post(path, json={}, headers={"authorization": f"Bearer {token}"})


async def asks(client: httpx.AsyncClient, token: str, status: int) -> None:
    """Ask until the status is this one."""
    async with asyncio.timeout(30):
        while True:
            if (await ask(client, token)).status_code == status:
                return
            await asyncio.sleep(0.02)


async def test_a_token_becomes_principals_and_does_not_go_on(
    upstream: Any, client: httpx.AsyncClient, server: TokenServer
) -> None:
    upstream.calls.clear()
    token = server.token(groups=["staff", "Sales, EMEA", "50%"])
    assert (await ask(client, token)).status_code == 200

    (call,) = upstream.calls
    (principals,) = call.values("x-groundline-principals")
    # Percent signs are what the services decode: they see group:Sales%2C%20EMEA and group:50%25.
    # The first one is who the caller is: what it makes must not belong to a group.
    assert principals.split(",") == [
        "user:alice",
        "group:staff",
        "group:Sales%252C%2520EMEA",
        "group:50%2525",
    ]
    assert token not in str(call.metadata)
    assert not call.values("authorization")


async def test_a_key_is_still_taken(client: httpx.AsyncClient) -> None:
    alice = "alice-key-0123456789"
    assert (await ask(client, alice)).status_code == 200
    assert (await client.get("/api/threads", headers={"x-api-key": alice})).status_code == 200


def attacks(server: TokenServer) -> dict[str, str]:
    now = int(time.time())
    token = server.token()
    head, payload, signature = token.split(".")
    stranger = SigningKey("first")
    return {
        "expired": server.token(exp=now - 3600),
        "not yet valid": server.token(nbf=now + 3600),
        "for ever": server.token(exp=None),
        "another audience": server.token(aud="another"),
        "no audience": server.token(aud=None),
        "another issuer": server.token(iss="https://issuer.example"),
        "no issuer": server.token(iss=None),
        "alg none": server.token(header={"alg": "none"}, sign=lambda _: b""),
        "alg none, with kid dropped": server.token(header={"alg": "none", "kid": None}, sign=lambda _: b""),
        "HS256 with the public key": server.token(
            header={"alg": "HS256"}, sign=server.signing.sign_with_public_key_as_secret
        ),
        "unknown kid": server.token(header={"kid": "unknown"}),
        "a stranger's key": server.token(sign=stranger.sign),
        "a stranger's key in the header": server.token(header={"jwk": stranger.jwk}, sign=stranger.sign),
        "no signature": f"{head}.{payload}.",
        "another payload": f"{head}.{base64url(base64.urlsafe_b64decode(payload + '==') + b' ')}.{signature}",
        "an extension that must be understood": server.token(header={"crit": ["exp"], "exp": now + 600}),
        "not a token": "a.b.c",
        "empty parts": "..",
    }


async def test_no_other_token_is_taken(upstream: Any, client: httpx.AsyncClient, server: TokenServer) -> None:
    upstream.calls.clear()
    for name, token in attacks(server).items():
        response = await ask(client, token)
        assert response.status_code == 401, name
        status = response.json()
        assert (status["code"], status["details"][0]["reason"]) == (16, "TOKEN_INVALID"), name
        assert token not in response.text
    assert upstream.calls == []


async def test_a_token_and_a_key_together_are_refused(
    upstream: Any, client: httpx.AsyncClient, server: TokenServer
) -> None:
    upstream.calls.clear()
    headers = {"authorization": f"Bearer {server.token()}", "x-api-key": "alice-key-0123456789"}

    assert (await client.post("/api/answer", json={}, headers=headers)).status_code == 401
    assert upstream.calls == []


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"scope": None}, "SCOPE_MISSING"),
        ({"scope": "openid search"}, "SCOPE_MISSING"),
        ({"scope": ["admin"]}, "SCOPE_MISSING"),
        ({"scope": "chat,admin"}, "SCOPE_MISSING"),
        ({"sub": None}, "CALLER_UNKNOWN"),
        ({"sub": ""}, "CALLER_UNKNOWN"),
    ],
)
async def test_a_token_that_does_not_say_enough_is_refused(
    upstream: Any, client: httpx.AsyncClient, server: TokenServer, claims: dict[str, Any], reason: str
) -> None:
    upstream.calls.clear()
    response = await ask(client, server.token(**claims))

    assert response.status_code == 403
    assert response.json()["details"][0]["reason"] == reason
    assert upstream.calls == []


async def test_a_token_without_the_first_claim_is_refused_whatever_groups_it_has(
    upstream: Any, launch: Any, server: TokenServer
) -> None:
    claims = [{"claim": "email", "prefix": "user:"}, {"claim": "groups", "prefix": "group:"}]
    own = issuer(server, principals=claims)
    upstream.calls.clear()
    async with launch(jwt_issuers=[own]) as gateway, gateway.client(None) as client:
        await gateway.becomes(200)
        await asks(client, server.token(email="alice@example.com"), 200)
        upstream.calls.clear()
        refused = await ask(client, server.token())

    assert refused.status_code == 403
    assert refused.json()["details"][0]["reason"] == "CALLER_UNKNOWN"
    assert upstream.calls == []


async def test_a_key_added_or_withdrawn_is_followed(upstream: Any, launch: Any, server: TokenServer) -> None:
    first = server.signing
    async with launch(jwt_issuers=[issuer(server)]) as gateway, gateway.client(None) as client:
        await gateway.becomes(200)
        old = server.token()
        await asks(client, old, 200)
        try:
            server.signing = SigningKey("second")
            new = server.token()
            assert (await ask(client, new)).status_code == 401

            server.published = [first.jwk, server.signing.jwk]
            await asks(client, new, 200)
            assert (await ask(client, old)).status_code == 200

            server.published = [server.signing.jwk]
            await asks(client, server.token(), 200)
            server.signing, second = first, server.signing
            await asks(client, server.token(jti="another"), 401)
            server.signing = second
        finally:
            server.signing, server.published = first, [first.jwk]


async def test_a_file_gives_keys_too(upstream: Any, launch: Any, server: TokenServer, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": server.published}))
    own = issuer(
        server,
        jwks_url=None,
        jwks_file=str(file),
        principals=[{"claim": "realm_access.roles", "prefix": "role:"}],
        scope_claim="https://groundline.example/scopes",
        scopes=["chat"],
        client_claim="azp",
    )
    async with launch(jwt_issuers=[own]) as gateway, gateway.client(None) as client:
        await gateway.becomes(200)
        claims: dict[str, Any] = {
            "azp": "web",
            "realm_access": {"roles": ["reader", 5, "writer"]},
            "https://groundline.example/scopes": ["search"],
        }
        responses = [
            await ask(client, server.token(**claims)),
            await ask(client, server.token(**claims), "/api/search"),
            await ask(client, server.token(**claims), "/api/collections"),
        ]

    assert [response.status_code for response in responses] == [200, 200, 403]
    assert upstream.calls[0].values("x-groundline-principals") == ["role:reader,role:writer"]
    assert '"client":"web"' in gateway.log.read_text()


async def test_a_token_is_for_the_port_for_grpc_too(
    upstream: Any, launch: Any, server: TokenServer, unused: int
) -> None:
    async with (
        launch(jwt_issuers=[issuer(server)], grpc_port=unused) as gateway,
        grpc.aio.insecure_channel(f"127.0.0.1:{unused}") as channel,
    ):
        await gateway.becomes(200)
        answer = CoordinatorServiceStub(channel).Answer
        right, forged = server.token(), server.token(sign=SigningKey("first").sign)
        await answer(
            coordinator_service_pb2.AnswerRequest(), metadata=(("authorization", f"Bearer {right}"),)
        )
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await answer(
                coordinator_service_pb2.AnswerRequest(), metadata=(("authorization", f"Bearer {forged}"),)
            )

    (call,) = upstream.calls
    assert call.values("x-groundline-principals") == ["user:alice,group:staff"]
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert str(refused.value.details()).startswith("the token is not taken: ")


async def test_a_file_of_keys_is_followed(
    upstream: Any, server: TokenServer, unused: int, tmp_path: Path
) -> None:
    first, second = server.signing, SigningKey("second")
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": [first.jwk]}))
    issuers = json.dumps([issuer(server, jwks_url=None, jwks_file=str(file))])
    settings = {"GROUNDLINE_GATEWAY_JWT_ISSUERS": issuers}
    async with gateway_program(upstream, unused, tmp_path, settings) as client:
        old = server.token()
        await comes_to_ask(client, old, 200)
        try:
            server.signing = second
            new = server.token()
            assert (await ask(client, new)).status_code == 401
            # Half of it is there: what was known goes on to be.
            file.write_text('{"keys": [')
            await asyncio.sleep(0.5)
            assert (await ask(client, old)).status_code == 200
            file.write_text(json.dumps({"keys": [second.jwk]}))
            await comes_to_ask(client, new, 200)
            assert (await ask(client, old)).status_code == 401
            file.write_text('{"keys": []}')
            await comes_to_ask(client, new, 401)
        finally:
            server.signing = first


async def comes_to_ask(client: httpx.AsyncClient, token: str, status: int) -> None:
    """Ask until the gateway is there and the status is this one."""
    async with asyncio.timeout(60):
        while True:
            with suppress(httpx.TransportError):
                if (await ask(client, token)).status_code == status:
                    return
            await asyncio.sleep(0.1)


async def test_tokens_of_two_issuers_are_told_apart(
    upstream: Any, launch: Any, server: TokenServer, other: TokenServer
) -> None:
    second = issuer(other, principals=[{"claim": "sub", "prefix": "partner:"}])
    async with launch(jwt_issuers=[issuer(server), second]) as gateway, gateway.client(None) as client:
        await gateway.becomes(200)
        await asks(client, server.token(groups=None), 200)
        await asks(client, other.token(), 200)
        mixed = await ask(client, other.token(iss=server.url))

    assert {call.values("x-groundline-principals")[0] for call in upstream.calls} == {
        "user:alice",
        "partner:alice",
    }
    assert mixed.status_code == 401


@pytest.mark.parametrize("gone", [{"published": []}, {"status": 503}])
async def test_the_last_keys_of_an_issuer_that_no_longer_gives_any_are_soon_refused(
    upstream: Any, launch: Any, server: TokenServer, other: TokenServer, gone: dict[str, Any]
) -> None:
    issuers = [issuer(server), issuer(other)]
    async with launch(jwt_issuers=issuers) as gateway, gateway.client(None) as client:
        await gateway.becomes(200)
        token = other.token()
        await asks(client, token, 200)
        vars(other).update(gone)
        await asks(client, token, 401)
        refused = await ask(client, token)
        of_another_issuer = await ask(client, server.token())
        vars(other).update(published=[other.signing.jwk], status=200)
        await asks(client, token, 200)

    status = refused.json()
    assert (refused.status_code, status["details"][0]["reason"]) == (401, "TOKEN_INVALID")
    assert status["message"] == "the token is not taken: Jwks remote fetch is failed"
    assert of_another_issuer.status_code == 200
