"""Methods of the contract as HTTP requests."""

import json
import re
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import quote

from groundline_client.errors import UnsendableError
from groundline_client.json_form import JsonObject

__all__ = ["HttpRequest", "Rpc"]

_PARAMETER: Final = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A path, its query parameters, and the body if there is one."""

    path: str
    parameters: dict[str, str | list[str]]
    body: bytes | None


@dataclass(frozen=True, slots=True)
class Rpc[Response]:
    """A method of the contract, and its address at the gateway."""

    verb: Literal["DELETE", "GET", "PATCH", "POST"]
    path: str
    """Path with the names of the request's fields in braces."""
    response: type[Response]
    member: str = ""
    """Member of the answer that holds the response, or a page's entries; "" if the answer is the response."""
    is_upload: bool = False
    """Whether the body is a file, so that the other fields are query parameters."""
    is_idempotent: bool = True
    """Whether repeating the request has no further effect, by the contract's idempotency_level."""

    def http_request(self, request: JsonObject) -> HttpRequest:
        """Build the HTTP request from the request's JSON form. Raises UnsendableError."""
        rest = dict(request)

        def segment(parameter: re.Match[str]) -> str:
            head, *others = parameter[1].split("_")
            name = head + "".join(map(str.capitalize, others))
            value = str(rest.pop(name, ""))
            if not value:
                # Without it the address would be another method's.
                raise UnsendableError(f"{name} is empty")
            return quote(value, safe="")

        try:
            path = _PARAMETER.sub(segment, self.path)
            text = json.dumps(rest, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        except UnicodeEncodeError as error:
            around = error.object[max(error.start - 30, 0) : error.end + 30]
            raise UnsendableError(f"{around!a} is not Unicode text") from error
        except (ValueError, RecursionError) as error:
            raise error if isinstance(error, UnsendableError) else UnsendableError(str(error)) from error
        if self.verb in ("PATCH", "POST") and not self.is_upload:
            return HttpRequest(path, {}, text)
        return HttpRequest(path, {name: _parameter(value) for name, value in rest.items()}, None)


def _parameter(value: Any) -> str | list[str]:
    if isinstance(value, list):
        return [str(one) for one in value]
    return str(value).lower() if isinstance(value, bool) else str(value)
