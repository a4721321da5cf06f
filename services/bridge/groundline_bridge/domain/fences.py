"""Delimiters that no document can write: their tags carry a nonce of the result that they are in."""

import secrets


class Fences:
    """Delimiters of one result."""

    def __init__(self) -> None:
        self._nonce = secrets.token_hex(8)

    def around(self, tag: str, text: str, **attributes: object) -> str:
        """Put a text between `<tag-nonce>` and `</tag-nonce>`."""
        written = "".join(f' {name}="{on_one_line(str(value))}"' for name, value in attributes.items())
        return f"<{tag}-{self._nonce}{written}>\n{text}\n</{tag}-{self._nonce}>"


def on_one_line(text: str) -> str:
    """Return a text without line breaks and double quotes."""
    return " ".join(text.replace('"', "'").split())
