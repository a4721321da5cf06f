"""Regular expressions of `$regex`: a closed subset of RE2's syntax, written anew for PostgreSQL.

What PostgreSQL's engine offers beside it can take exponential time (back references) or depends on the
database's locale (classes of letters, case). Of this subset it makes an automaton without either: the time is
linear in the text, the size of the automaton is bounded by MAX_STEPS, and the meaning is the same everywhere.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

MAX_PATTERN_CHARACTERS: Final = 256

MAX_STEPS: Final = 512
"""Maximum characters and classes of an expression, those that are repeated counted as often as they may have
to occur."""

MAX_GROUPS: Final = 8
"""Maximum depth of groups."""

MAX_REPETITIONS: Final = 100
_MAX_RANGE_WITHOUT_CASE: Final = 1000
"""Maximum characters in a range where case does not matter: each is looked at."""

_IGNORE_CASE: Final = "(?i)"
_DIGITS: Final = "0-9"
_WORD: Final = "0-9A-Za-z_"
_SPACE: Final = r"\t\n\f\r "
_CLASSES: Final = {
    "d": f"[{_DIGITS}]",
    "D": f"[^{_DIGITS}]",
    "w": f"[{_WORD}]",
    "W": f"[^{_WORD}]",
    "s": f"[{_SPACE}]",
    "S": f"[^{_SPACE}]",
}
_CLASS_RANGES: Final[dict[str, Sequence[tuple[str, str]]]] = {
    "d": [("0", "9")],
    "w": [("0", "9"), ("A", "Z"), ("a", "z"), ("_", "_")],
    "s": [("\t", "\n"), ("\f", "\r"), (" ", " ")],
}
_CONTROLS: Final = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}


class PatternError(Exception):
    """The expression is not in the subset; the text says what is wrong."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A parsed piece: PostgreSQL's form, its number of steps, and whether the empty string matches it at the
    beginning and at the end of each text."""

    text: str
    steps: int
    holds_at_start: bool = False
    holds_at_end: bool = False


def sql_pattern(pattern: str) -> str:
    """Return the expression as PostgreSQL's `~` takes it under the collation "C".

    Raises PatternError, also for one that every text matches.
    """
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise PatternError(f"has more than {MAX_PATTERN_CHARACTERS} characters")
    ignores_case = pattern.startswith(_IGNORE_CASE)
    part = _Parser(pattern, len(_IGNORE_CASE) if ignores_case else 0, ignores_case).whole()
    if part.holds_at_start or part.holds_at_end:
        raise PatternError("matches every text; use $exists")
    return part.text


class _Parser:
    def __init__(self, pattern: str, start: int, ignores_case: bool) -> None:
        self._pattern = pattern
        self._at = start
        self._ignores_case = ignores_case

    def whole(self) -> _Part:
        part = self._alternatives(0)
        if self._at < len(self._pattern):
            raise PatternError("has a ) without its (")
        return part

    def _alternatives(self, depth: int) -> _Part:
        parts = [self._sequence(depth)]
        while self._taken("|"):
            parts.append(self._sequence(depth))
        return _checked(
            _Part(
                "|".join(part.text for part in parts),
                sum(part.steps for part in parts),
                any(part.holds_at_start for part in parts),
                any(part.holds_at_end for part in parts),
            )
        )

    def _sequence(self, depth: int) -> _Part:
        parts = []
        while self._at < len(self._pattern) and self._pattern[self._at] not in "|)":
            parts.append(self._repeated(self._piece(depth)))
        # PostgreSQL has no empty alternative beside others.
        return _Part(
            "".join(part.text for part in parts) or "(?:)",
            sum(part.steps for part in parts),
            all(part.holds_at_start for part in parts),
            all(part.holds_at_end for part in parts),
        )

    def _piece(self, depth: int) -> _Part:
        character = self._next()
        match character:
            case "(":
                return self._group(depth + 1)
            case "[":
                return _Part(self._class(), 1)
            case ".":
                return _Part(r"[^\n]", 1)
            case "^" | "$":
                return _Part(character, 1, character == "^", character == "$")
            case "\\":
                return _Part(self._escaped(), 1)
            case "*" | "+" | "?" | "{":
                raise PatternError(f"has a {character} that repeats nothing; write \\{character} for itself")
        return _Part(self._literal(character), 1)

    def _group(self, depth: int) -> _Part:
        if depth > MAX_GROUPS:
            raise PatternError(f"has groups nested deeper than {MAX_GROUPS} levels")
        if self._taken("?") and not self._taken(":"):
            raise PatternError("may have groups as ( and (?: only, and (?i) at its beginning")
        part = self._alternatives(depth)
        if not self._taken(")"):
            raise PatternError("has a ( without its )")
        return replace(part, text=f"(?:{part.text})")

    def _repeated(self, part: _Part) -> _Part:
        counted = self._quantifier()
        if counted is None:
            return part
        if part.text in ("^", "$"):
            raise PatternError(f"repeats {part.text}")
        text, least, most = counted
        # The longest or the shortest match: whether there is one is the same.
        self._taken("?")
        if self._pattern[self._at : self._at + 1] in ("*", "+", "?", "{"):
            raise PatternError("repeats a repetition; put the inner one in a group")
        return _checked(
            _Part(
                f"{part.text}{text}",
                part.steps * most,
                part.holds_at_start or least == 0,
                part.holds_at_end or least == 0,
            )
        )

    def _quantifier(self) -> tuple[str, int, int] | None:
        """Take a quantifier; return it, its least number, and how often its part counts."""
        for sign, least in (("*", 0), ("+", 1), ("?", 0)):
            if self._taken(sign):
                return sign, least, 1
        if not self._taken("{"):
            return None
        inner, closing, _ = self._pattern[self._at :].partition("}")
        low, comma, high = inner.partition(",")
        numbers = [low, *([high] if high else [])]
        if not closing or not all(each.isascii() and each.isdigit() and len(each) <= 3 for each in numbers):
            raise PatternError("must have {n}, {n,} or {n,m} after {; write \\{ for itself")
        least, most = int(numbers[0]), int(numbers[-1])
        if not least <= most <= MAX_REPETITIONS:
            raise PatternError(f"must repeat from n to m times in {{n,m}}, up to {MAX_REPETITIONS}")
        self._at += len(inner) + 1
        return f"{{{least}{f',{most}' if high else comma}}}", least, max(most + (bool(comma) and not high), 1)

    def _escaped(self) -> str:
        character = self._next()
        return _CLASSES.get(character) or self._literal(self._meant(character))

    def _meant(self, character: str) -> str:
        """Return the character that stands behind a backslash."""
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character.isascii() and not character.isalnum():
            return character
        raise PatternError(f"has \\{character}; there are \\d \\D \\w \\W \\s \\S \\n \\r \\t \\f and signs")

    def _class(self) -> str:
        opening = "[^" if self._taken("^") else "["
        ranges: list[tuple[str, str]] = []
        while not ranges or not self._taken("]"):
            ranges += self._range()
        if self._ignores_case:
            ranges = list(dict.fromkeys(each for low, high in ranges for each in _in_both_cases(low, high)))
        found = (
            _in_class(low) if low == high else f"{_in_class(low)}-{_in_class(high)}" for low, high in ranges
        )
        return f"{opening}{''.join(found)}]"

    def _range(self) -> Sequence[tuple[str, str]]:
        low = self._next()
        if low == "[":
            raise PatternError("has a [ in a class; write \\[ for itself")
        if low == "\\":
            escaped = self._next()
            if escaped in _CLASS_RANGES:
                return _CLASS_RANGES[escaped]
            if escaped in _CLASSES:
                raise PatternError(f"has \\{escaped} in a class; use [^…]")
            low = self._meant(escaped)
        if self._pattern[self._at : self._at + 1] != "-" or self._pattern[self._at + 1 : self._at + 2] == "]":
            return [(low, low)]
        self._next()
        high = self._next()
        if high == "[":
            raise PatternError("has a [ in a class; write \\[ for itself")
        if high == "\\":
            high = self._meant(self._next())
        if high < low:
            raise PatternError(f"has the range {low}-{high}, which ends before it begins")
        return [(low, high)]

    def _literal(self, character: str) -> str:
        cases = _cases(character) if self._ignores_case else {character}
        if len(cases) == 1:
            return _escaped_character(character)
        return f"[{''.join(map(_in_class, sorted(cases)))}]"

    def _next(self) -> str:
        if self._at == len(self._pattern):
            raise PatternError("ends too early")
        self._at += 1
        return self._pattern[self._at - 1]

    def _taken(self, character: str) -> bool:
        """Tell whether this character comes next, and pass it then."""
        if self._pattern[self._at : self._at + 1] != character:
            return False
        self._at += 1
        return True


def _checked(part: _Part) -> _Part:
    if part.steps > MAX_STEPS:
        raise PatternError(f"has more than {MAX_STEPS} steps, repetitions counted")
    return part


def _cases(character: str) -> set[str]:
    """Return a character in both cases, as far as these are one character each."""
    return {character, *(each for each in (character.lower(), character.upper()) if len(each) == 1)}


def _in_both_cases(low: str, high: str) -> Iterable[tuple[str, str]]:
    if ord(high) - ord(low) >= _MAX_RANGE_WITHOUT_CASE:
        raise PatternError(f"has a range of more than {_MAX_RANGE_WITHOUT_CASE} characters with (?i)")
    yield low, high
    for point in range(ord(low), ord(high) + 1):
        yield from ((each, each) for each in _cases(chr(point)) if not low <= each <= high)


def _escaped_character(character: str) -> str:
    is_sign = character.isascii() and character.isprintable() and not character.isalnum()
    return f"\\{character}" if is_sign else character


# A backslash before a sign means that sign in PostgreSQL's classes, too.
_in_class: Final = _escaped_character
