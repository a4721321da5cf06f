"""Issuers of JWTs on loopback: one that has keys and gives tokens, and a provider of OpenID Connect."""

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

AUDIENCE: Final = "groundline"
_WHO: Final = (
    '<!doctype html><title>Who?</title><link rel="icon" href="data:,"><a id="user" href="{link}">Alice</a>'
)


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def integer(number: int) -> str:
    return base64url(number.to_bytes((number.bit_length() + 7) // 8, "big"))


class SigningKey:
    """An RSA key of an issuer."""

    def __init__(self, kid: str) -> None:
        self.kid = kid
        self.private = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @property
    def jwk(self) -> dict[str, str]:
        numbers = self.private.public_key().public_numbers()
        key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": self.kid}
        return key | {"n": integer(numbers.n), "e": integer(numbers.e)}

    def sign(self, data: bytes) -> bytes:
        return self.private.sign(data, padding.PKCS1v15(), SHA256())

    def sign_with_public_key_as_secret(self, data: bytes) -> bytes:
        secret = self.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return hmac.new(secret, data, hashlib.sha256).digest()


def respond(
    request: BaseHTTPRequestHandler, status: int, body: Any, headers: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Answer a request with a page, or with anything else as JSON."""
    is_page = isinstance(body, str)
    content = (body if is_page else json.dumps(body)).encode()
    request.send_response(status)
    request.send_header("content-type", "text/html" if is_page else "application/json")
    request.send_header("content-length", str(len(content)))
    for name, value in headers.items():
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(content)


class TokenServer:
    """Publishes its keys, and issues tokens."""

    def __init__(self) -> None:
        self.signing = SigningKey("first")
        self.published = [self.signing.jwk]
        self.status = 200
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.get(self)

            def do_POST(self) -> None:
                server.post(self)

            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def get(self, request: BaseHTTPRequestHandler) -> None:
        is_known = request.path == "/keys"
        respond(request, self.status if is_known else 404, {"keys": self.published})

    def post(self, request: BaseHTTPRequestHandler) -> None:
        respond(request, 404, {})

    def token(self, *, header: dict[str, Any] | None = None, sign: Any = None, **claims: Any) -> str:
        now = int(time.time())
        payload = {"iss": self.url, "aud": AUDIENCE, "sub": "alice", "exp": now + 600, "iat": now}
        payload |= {"groups": ["staff"], "scope": "openid chat search"} | claims
        payload = {name: value for name, value in payload.items() if value is not None}
        head = {"alg": "RS256", "typ": "JWT", "kid": self.signing.kid} | (header or {})
        head = {name: value for name, value in head.items() if value is not None}
        signed = ".".join(base64url(json.dumps(part).encode()) for part in (head, payload))
        return f"{signed}.{base64url((sign or self.signing.sign)(signed.encode()))}"


class OpenIdProvider(TokenServer):
    """A provider with one user and one public client, as the standards have it: a code is good once,
    for whoever has its verifier; a token for renewal is good once."""

    CLIENT: Final = "groundline-console"

    def __init__(self) -> None:
        super().__init__()
        self.redirect_uri = ""
        self.token_url = self.url
        """Where the page asks for tokens and revokes them."""
        self.seconds = 600
        """Time for which a token is said to be good."""
        self.gives_ended = False
        """Whether it is good no more when it is given."""
        self.renews = True
        self.nonce: str | None = None
        """In place of the one that was asked for."""
        self.error = ""
        """In place of a code."""
        self.sessions: set[str] = set()
        self.signed_out = Event()
        self.granted: list[str] = []
        self.refused: list[str] = []
        self.revoked: list[str] = []
        self.queries: list[Mapping[str, str]] = []
        """Parameters of the requests to the authorization endpoint."""
        self._codes: dict[str, Mapping[str, str]] = {}
        self._refreshing: set[str] = set()

    def get(self, request: BaseHTTPRequestHandler) -> None:
        path, query = urlsplit(request.path).path, dict(parse_qsl(urlsplit(request.path).query))
        if path == "/.well-known/openid-configuration":
            respond(request, 200, self._metadata(), self._cors())
        elif path == "/authorize":
            self._authorize(request, query)
        elif path == "/logout":
            self.sessions.clear()
            self.signed_out.set()
            is_known = query["post_logout_redirect_uri"] == self.redirect_uri
            is_known = is_known and query["client_id"] == self.CLIENT
            respond(request, 303 if is_known else 400, {}, {"location": self.redirect_uri})
        else:
            super().get(request)

    def post(self, request: BaseHTTPRequestHandler) -> None:
        given = dict(parse_qsl(request.rfile.read(int(request.headers["content-length"])).decode()))
        if request.path == "/revoke":
            self._refreshing.discard(given["token"])
            self.revoked.append(given["token"])
            respond(request, 200, {}, self._cors())
            return
        asked = self._asked(given)
        if asked is None or given["client_id"] != self.CLIENT:
            self.refused.append(given["grant_type"])
            respond(request, 400, {"error": "invalid_grant"}, self._cors())
            return
        self.granted.append(given["grant_type"])
        refreshing = secrets.token_urlsafe()
        end = int(time.time()) + (-120 if self.gives_ended else self.seconds)
        tokens: dict[str, Any] = {"token_type": "Bearer", "expires_in": self.seconds}
        tokens["access_token"] = self.token(exp=end, jti=secrets.token_urlsafe())
        if "nonce" in asked:
            tokens["id_token"] = self.token(aud=self.CLIENT, nonce=self.nonce or asked["nonce"], scope=None)
        if self.renews:
            tokens["refresh_token"] = refreshing
            self._refreshing.add(refreshing)
        respond(request, 200, tokens, self._cors())

    def _metadata(self) -> Mapping[str, Any]:
        return {
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.token_url}/token",
            "revocation_endpoint": f"{self.token_url}/revoke",
            "end_session_endpoint": f"{self.url}/logout",
            "issuer": self.url,
            "jwks_uri": f"{self.url}/keys",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "subject_types_supported": ["public"],
        }

    def _cors(self) -> Mapping[str, str]:
        return {"access-control-allow-origin": self.redirect_uri.removesuffix("/")}

    def _authorize(self, request: BaseHTTPRequestHandler, query: Mapping[str, str]) -> None:
        """Ask who it is, once, and send them back."""
        self.queries.append(query)
        is_sound = (
            query["redirect_uri"] == self.redirect_uri
            and query["client_id"] == self.CLIENT
            and query["code_challenge_method"] == "S256"
        )
        if not is_sound:
            respond(request, 400, {})
            return
        session = SimpleCookie(request.headers.get("cookie", "")).get("session")
        cookies: dict[str, str] = {}
        if "user" in query:
            self.sessions.add(given := secrets.token_urlsafe())
            cookies["set-cookie"] = f"session={given}; HttpOnly; SameSite=Lax"
        elif session is None or session.value not in self.sessions:
            if query.get("prompt") != "none":
                link = f"/authorize?{urlencode({**query, 'user': 'alice'})}".replace("&", "&amp;")
                respond(request, 200, _WHO.format(link=link))
                return
            self._return(request, query, {"error": "login_required"})
            return
        code = secrets.token_urlsafe()
        self._codes[code] = query
        self._return(request, query, {"error": self.error} if self.error else {"code": code}, cookies)

    def _return(
        self,
        request: BaseHTTPRequestHandler,
        query: Mapping[str, str],
        answer: Mapping[str, str],
        cookies: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        mark = "#" if query.get("response_mode") == "fragment" else "?"
        place = f"{self.redirect_uri}{mark}{urlencode({**answer, 'state': query['state']})}"
        respond(request, 303, {}, {"location": place, **cookies})

    def _asked(self, given: Mapping[str, str]) -> Mapping[str, str] | None:
        """Return what a grant was asked for with; None for one that is not good."""
        if given["grant_type"] == "refresh_token":
            if given["refresh_token"] not in self._refreshing:
                return None
            self._refreshing.discard(given["refresh_token"])
            return {}
        asked = self._codes.pop(given["code"], None)
        challenge = base64url(hashlib.sha256(given["code_verifier"].encode()).digest())
        if (
            asked is None
            or asked["code_challenge"] != challenge
            or given["redirect_uri"] != self.redirect_uri
        ):
            return None
        return asked


class TokenEndpoint(TokenServer):
    """The provider's endpoints for tokens, at an origin of their own."""

    def __init__(self, provider: OpenIdProvider) -> None:
        super().__init__()
        self._provider = provider
        provider.token_url = self.url

    def post(self, request: BaseHTTPRequestHandler) -> None:
        self._provider.post(request)


@contextmanager
def serving[T: TokenServer](server: T) -> Iterator[T]:
    thread = Thread(target=server.http.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.http.shutdown()
        thread.join()
        server.http.server_close()


def issuer(server: TokenServer, **changes: Any) -> dict[str, Any]:
    return {
        "issuer": server.url,
        "audiences": [AUDIENCE],
        "jwks_url": f"{server.url}/keys",
        "jwks_refresh_seconds": 1,
        "principals": [{"claim": "sub", "prefix": "user:"}, {"claim": "groups", "prefix": "group:"}],
    } | changes
