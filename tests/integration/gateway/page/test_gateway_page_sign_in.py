"""The page in a browser: signing in at a provider of OpenID Connect."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from groundline_tests.browser import CHROMIUM, Tab
from groundline_tests.gateway.issuer import OpenIdProvider, TokenEndpoint, issuer, serving
from groundline_tests.gateway.page import KEY, full_answer
from groundline_tests.programs import needs_program

pytestmark = needs_program("chromium", found=CHROMIUM is not None)

KEPT = "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])"
AT_PROVIDER = "document.querySelector('#user')"
SIGNED_IN = "document.querySelector('#query')"
ASKED_WHO = "document.querySelector('#use-issuer')"


@pytest.fixture
def provider() -> Iterator[OpenIdProvider]:
    with serving(OpenIdProvider()) as provider:
        yield provider


@pytest.fixture
async def site(launch: Any, provider: OpenIdProvider, module_browser: Tab) -> AsyncIterator[Any]:
    """A gateway whose people sign in at the provider; its tab shows nothing yet."""
    sign_in = {"issuer": provider.url, "client_id": provider.CLIENT, "scopes": ["openid", "offline_access"]}
    trace_url = "https://traces.example/{trace_id}?x=1"
    async with launch(
        jwt_issuers=[issuer(provider)], console_sign_in=sign_in, console_trace_url=trace_url
    ) as gateway:
        await gateway.becomes(200)
        provider.redirect_uri = f"{gateway.url}/"
        await module_browser.open(provider.redirect_uri)
        yield gateway


async def sign_in(tab: Tab) -> None:
    await tab.click("#use-issuer")
    await tab.until(AT_PROVIDER)
    await tab.click("#user")
    await tab.until(SIGNED_IN)


async def test_who_has_signed_in_asks_and_the_token_is_nowhere_but_in_the_page(
    upstream: Any, site: Any, provider: OpenIdProvider, module_browser: Tab
) -> None:
    tab = module_browser
    upstream.on("Chat", full_answer)
    await tab.js("location.hash = '#search?q=keys'")
    await tab.click("#use-issuer")
    await tab.until(AT_PROVIDER)
    (asked,) = provider.queries
    assert asked["scope"] == "openid offline_access"
    assert asked["response_mode"] == "fragment"
    await tab.click("#user")
    await tab.until("document.querySelector('#search-query')")
    assert await tab.js("location.href") == f"{site.url}/#search?q=keys"
    await tab.js("location.hash = '#chat'")
    await tab.ask("How do keys work?")
    await tab.until("document.querySelector('.answer')?.innerText.includes('principals')")

    (call,) = upstream.calls_of("Chat")
    assert call.values("x-groundline-principals") == ["user:alice,group:staff"]
    kept = await tab.js(KEPT)
    assert not [word for word in ("eyJ", "code", "verifier", asked["state"]) if word in kept], kept
    assert tab.complaints == []
    places = {urlsplit(url).netloc for url in tab.requested}
    assert places == {urlsplit(site.url).netloc, urlsplit(provider.url).netloc}
    log = site.log.read_text()
    assert not [word for word in ("eyJ", asked["state"], "code=") if word in log]


async def test_a_page_that_is_loaded_again_signs_in_without_asking_while_the_provider_knows_who(
    site: Any, provider: OpenIdProvider, module_browser: Tab
) -> None:
    tab = module_browser
    await sign_in(tab)
    await tab.visit(f"{site.url}/#documents")
    await tab.until("document.querySelector('#collections')")
    assert provider.queries[-1]["prompt"] == "none"

    provider.sessions.clear()
    await tab.visit(f"{site.url}/#documents")
    await tab.until(ASKED_WHO)
    assert await tab.js("location.href") == f"{site.url}/#documents"
    assert not await tab.js("document.querySelector('.note')")
    assert tab.complaints == []


async def test_a_token_is_renewed_before_it_ends(
    upstream: Any, site: Any, provider: OpenIdProvider, module_browser: Tab
) -> None:
    provider.seconds = 20
    await sign_in(module_browser)
    # Nearer to its end than what is asked with it may take; requests at once wait for one renewal.
    await module_browser.js("location.hash = '#documents'")
    await module_browser.until("document.querySelector('#collections')")
    assert provider.granted[:2] == ["authorization_code", "refresh_token"]
    assert set(provider.granted[1:]) == {"refresh_token"}
    assert provider.refused == []
    assert module_browser.complaints == []


async def test_a_session_that_cannot_be_renewed_ends_and_the_question_stays(
    upstream: Any, site: Any, provider: OpenIdProvider, module_browser: Tab
) -> None:
    tab = module_browser
    provider.renews, provider.gives_ended = False, True
    upstream.on("Chat", full_answer)
    await tab.click("#use-issuer")
    await tab.click("#user")
    await tab.until("document.querySelector('#key-error')")
    assert "Your session has ended" in await tab.text("#key-error")

    provider.gives_ended = False
    await tab.click("#use-issuer")
    await tab.until("document.body?.innerText.includes('no conversations yet')")
    # The provider's key is withdrawn: what was signed with it is refused.
    provider.published, published = [], provider.published
    token = {"authorization": f"Bearer {provider.token()}"}
    async with asyncio.timeout(10), site.client(None) as client:
        while True:
            if (await client.get("/api/threads", headers=token)).status_code == 401:
                break
            await asyncio.sleep(0.02)
    await tab.ask("still here")
    await tab.until(ASKED_WHO)
    provider.published = published
    await tab.click("#use-issuer")
    await tab.until("document.querySelector('#query')?.value === 'still here'")


@pytest.mark.parametrize("attack", ["a link", "another state", "another nonce"])
async def test_what_the_page_has_not_asked_for_signs_nobody_in(
    site: Any, provider: OpenIdProvider, module_browser: Tab, attack: str
) -> None:
    tab = module_browser
    if attack == "a link":
        await tab.visit(f"{site.url}/#state=theirs&code=theirs")
    else:
        await tab.click("#use-issuer")
        await tab.until(AT_PROVIDER)
        if attack == "another nonce":
            provider.nonce = "theirs"
            await tab.click("#user")
        else:
            await tab.visit(f"{site.url}/?state=theirs&code=theirs")
    await tab.until(ASKED_WHO)
    assert await tab.js("location.href") == f"{site.url}/"
    assert provider.granted == (["authorization_code"] if attack == "another nonce" else [])
    assert await tab.js("!document.querySelector('#key-error')") == (attack == "a link")


async def test_what_the_provider_refuses_is_said_and_a_key_is_still_taken(
    site: Any, provider: OpenIdProvider, module_browser: Tab
) -> None:
    tab = module_browser
    provider.error = "access_denied"
    await tab.click("#use-issuer")
    await tab.click("#user")
    await tab.until("document.querySelector('#key-error')")
    assert await tab.text("#key-error") == "Signing in failed: access_denied"
    await tab.click("#sign-in summary")
    await tab.write("#key", KEY)
    await tab.click("#sign-in form button")
    await tab.until(SIGNED_IN)


async def test_signing_out_ends_the_session_at_the_provider_too(
    site: Any, provider: OpenIdProvider, module_browser: Tab
) -> None:
    tab = module_browser
    await sign_in(tab)
    asked = len(provider.queries)
    await tab.click("#sign-out")
    await tab.until(ASKED_WHO)
    assert await asyncio.to_thread(provider.signed_out.wait, 10)
    assert len(provider.revoked) == 1
    await tab.visit(f"{site.url}/")
    await tab.until(ASKED_WHO)
    assert len(provider.queries) == asked


@pytest.mark.parametrize("is_allowed", [False, True])
async def test_tokens_come_from_another_origin_than_the_issuers_if_the_settings_name_it(
    launch: Any, provider: OpenIdProvider, module_browser: Tab, is_allowed: bool
) -> None:
    tab = module_browser
    with serving(TokenEndpoint(provider)) as elsewhere:
        known: dict[str, Any] = {"issuer": provider.url, "client_id": provider.CLIENT}
        known |= {"endpoint_origins": [elsewhere.url]} if is_allowed else {}
        async with launch(jwt_issuers=[issuer(provider)], console_sign_in=known) as gateway:
            await gateway.becomes(200)
            provider.redirect_uri = f"{gateway.url}/"
            await tab.open(provider.redirect_uri)
            if is_allowed:
                await sign_in(tab)
                await tab.click("#sign-out")
                await tab.until(ASKED_WHO)
                assert len(provider.revoked) == 1
            else:
                await tab.click("#use-issuer")
                await tab.until("document.querySelector('#key-error')")
                assert "endpoint_origins" in await tab.text("#key-error")
            assert provider.granted == ["authorization_code"] * is_allowed
            assert tab.complaints == []


async def test_each_new_answer_links_to_its_trace(upstream: Any, site: Any, module_browser: Tab) -> None:
    upstream.on("Chat", full_answer)
    await sign_in(module_browser)
    await module_browser.ask("How do keys work?")
    await module_browser.until("document.querySelector('.trace')")
    assert await module_browser.js("document.querySelector('.trace').href") == "https://traces.example/t0?x=1"


async def test_the_policy_lets_the_page_call_the_issuer_and_nobody_else(launch: Any) -> None:
    known: dict[str, Any] = {
        "issuer": "https://login.example:8443/realms/a",
        "audiences": ["a"],
        "jwks_url": "http://127.0.0.1:9/",
        "principals": [{"claim": "sub"}],
    }
    sign_in = {
        "issuer": known["issuer"],
        "client_id": 'a"<b>',
        "endpoint_origins": ["https://tokens.example"],
    }
    async with launch() as plain, plain.client(None) as client:
        before = (await client.get("/")).headers["content-security-policy"]
    async with (
        launch(jwt_issuers=[known], console_sign_in=sign_in) as gateway,
        gateway.client(None) as client,
    ):
        page, docs = await client.get("/"), await client.get("/docs")

    policy = page.headers["content-security-policy"]
    allowed = "connect-src 'self' https://login.example:8443 https://tokens.example;"
    assert policy == before.replace("connect-src 'self';", allowed)
    assert allowed in policy
    assert "login.example" not in docs.headers["content-security-policy"]
    assert json.dumps(sign_in["client_id"])[1:-1] not in page.text
    assert "a\\&quot;&lt;b&gt;" in page.text
