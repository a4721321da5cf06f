"""Pure rules on texts: sentences, windows around what matters, and questions and claims made false."""

import calendar
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

_SENTENCE_END: Final = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[A-Z0-9ÄÖÜ])|\n+")
_WORD: Final = re.compile(r"\w+")
_NUMBER: Final = re.compile(r"(?<![\w.,-])\d[\d,.]*\d(?![\w-])|(?<![\w.,-])\d(?![\w.,-]*\d)(?![\w-])")
_NAME: Final = re.compile(r"(?<=[a-zäöüß,;:\d] )[A-ZÄÖÜ][\w’'-]+(?: [A-ZÄÖÜ][\w’'-]+)*")
_AUXILIARY: Final = re.compile(
    r"\b(is|was|are|were|can|could|will|would|must|should|may|might|has|have|had|did|does|do)\b(?! not\b|n't)"
)
_NOT: Final = re.compile(
    r"\b(is|was|are|were|can|could|will|would|must|should|may|has|have|had|did|does|do) not\b"
)
_COUNTS: Final = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_OPPOSITES: Final = re.findall(
    r"(\w+)/(\w+)",
    """before/after more/less first/last increased/decreased increase/decrease northern/southern north/south
    eastern/western east/west above/below minimum/maximum largest/smallest highest/lowest higher/lower
    open/closed always/never all/none most/few early/late older/younger won/lost began/ended inside/outside
    left/right earlier/later male/female larger/smaller winter/summer on/off same/different""",
)
_OPPOSITE: Final = {**dict(_OPPOSITES), **{second: first for first, second in _OPPOSITES}}
_TURNABLE: Final = re.compile(rf"\b({'|'.join(sorted(_OPPOSITE))})\b")
_COUNT: Final = re.compile(rf"\b({'|'.join(_COUNTS)})\b")
_MONTHS: Final = tuple(month for month in calendar.month_name if month)
_MONTH: Final = re.compile(rf"\b({'|'.join(_MONTHS)})\b")


@dataclass(frozen=True, slots=True)
class Window:
    """Sentences in a row of a passage."""

    text: str
    start: int
    """Offset in the passage, in characters."""


@dataclass(frozen=True, slots=True)
class Change:
    """A text made false, and by which rule."""

    text: str
    rule: str


type _Rule = Callable[[str, str, random.Random], Change | None]


def words(text: str) -> frozenset[str]:
    """Return the lower-cased words of three letters and more, and numbers."""
    return frozenset(word for word in _WORD.findall(text.lower()) if len(word) > 2 or word.isdigit())


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Return where each sentence begins and ends, without the blanks between."""
    spans, start = [], 0
    for end in _SENTENCE_END.finditer(text):
        spans.append((start, end.start()))
        start = end.end()
    spans.append((start, len(text.rstrip())))
    return [(first, last) for first, last in spans if last - first > 1]


def window(passage: str, kept: tuple[int, int], size: int, rng: random.Random) -> Window:
    """Return the sentences around `kept`, offsets in the passage, of some `size` characters; they grow at
    random to both sides, so that a place in the window tells nothing."""
    spans = sentence_spans(passage)
    inside = [place for place, (start, end) in enumerate(spans) if start < kept[1] and end > kept[0]]
    if not inside:
        start = max(0, kept[0] - size // 2)
        return Window(passage[start : max(kept[1], start + size)], start)
    first, last = inside[0], inside[-1]
    while True:
        open_sides = [
            side
            for side, place in ((-1, first - 1), (1, last + 1))
            if 0 <= place < len(spans)
            and max(spans[last][1], spans[place][1]) - min(spans[first][0], spans[place][0]) <= size
        ]
        if not open_sides:
            break
        if rng.choice(open_sides) < 0:
            first -= 1
        else:
            last += 1
    start, end = min(spans[first][0], kept[0]), max(spans[last][1], kept[1])
    return Window(passage[start:end], start)


def windows(passage: str, characters: int = 620) -> list[str]:
    """Cut a passage into runs of sentences of at most `characters`, which overlap by a sentence."""
    spans = sentence_spans(passage)
    found: list[str] = []
    first = 0
    while first < len(spans):
        last = first
        while last + 1 < len(spans) and spans[last + 1][1] - spans[first][0] <= characters:
            last += 1
        found.append(passage[spans[first][0] : spans[last][1]])
        if last + 1 == len(spans):
            break
        first = max(first + 1, last)
    return found or [passage]


def nearest(text: str, passage: str, forbidden: Sequence[str] = ()) -> tuple[int, int] | None:
    """Return the sentence with the most of the text's words that holds none of the forbidden texts."""
    wanted = words(text)
    best, found = -1.0, None
    for start, end in sentence_spans(passage):
        sentence = passage[start:end]
        if any(answer.lower() in sentence.lower() for answer in forbidden):
            continue
        score = len(wanted & words(sentence)) / (len(wanted) + 1)
        if score > best:
            best, found = score, (start, end)
    return found


def falsify(sentence: str, others: str, rng: random.Random) -> Change | None:
    """Change one number, name, negation or opposite of a sentence, so that it says something else.

    Names, and half of the numbers, come from `others`. Returns None if no rule fits.
    """
    return _changed(sentence, others, [_number, _name, _negation, _opposite, _count], rng)


def change_subject(question: str, others: str, rng: random.Random) -> Change | None:
    """Ask for another name or number of `others`, or the opposite; None if no rule fits."""
    return _changed(question, others, [_name, _number, _opposite], rng)


def _changed(text: str, others: str, rules: list[_Rule], rng: random.Random) -> Change | None:
    for rule in rng.sample(rules, len(rules)):
        changed = rule(text, others, rng)
        if changed is not None and changed.text.lower() != text.lower():
            return changed
    return None


def _replaced(text: str, found: re.Match[str], new: str, rule: str) -> Change:
    return Change(text[: found.start()] + new + text[found.end() :], rule)


def _number(text: str, others: str, rng: random.Random) -> Change | None:
    found = [*_NUMBER.finditer(text), *_MONTH.finditer(text)]
    if not found:
        return None
    chosen = rng.choice(found)
    old = chosen.group()
    if old in _MONTHS:
        return _replaced(text, chosen, rng.choice([month for month in _MONTHS if month != old]), "number")
    alike = [
        number
        for number in {match.group() for match in _NUMBER.finditer(others)}
        if number != old and len(number) == len(old) and number not in text
    ]
    if alike and rng.random() < 0.5:
        return _replaced(text, chosen, rng.choice(sorted(alike)), "number")
    digits = [place for place, sign in enumerate(old) if sign.isdigit()]
    place = digits[-1] if len(old) == 4 and old.isdigit() and rng.random() < 0.5 else rng.choice(digits)
    low = 1 if place == digits[0] and len(digits) > 1 else 0
    digit = rng.choice([sign for sign in "0123456789"[low:] if sign != old[place]])
    return _replaced(text, chosen, old[:place] + digit + old[place + 1 :], "number")


def _name(text: str, others: str, rng: random.Random) -> Change | None:
    found = [match for match in _NAME.finditer(text) if match.group() not in _MONTHS]
    if not found:
        return None
    chosen = rng.choice(found)
    old = words(chosen.group())
    names = sorted(
        {name for match in _NAME.finditer(others) if not old & words(name := match.group())} - set(_MONTHS)
    )
    names = [
        name for name in names if name not in text and abs(name.count(" ") - chosen.group().count(" ")) < 2
    ]
    return _replaced(text, chosen, rng.choice(names), "name") if names else None


def _negation(text: str, others: str, rng: random.Random) -> Change | None:
    del others
    negated = list(_NOT.finditer(text))
    if negated:
        chosen = rng.choice(negated)
        return _replaced(text, chosen, chosen.group(1), "negation")
    found = list(_AUXILIARY.finditer(text))
    if not found:
        return None
    chosen = rng.choice(found)
    return _replaced(text, chosen, f"{chosen.group()} {rng.choice(['not', 'not', 'never'])}", "negation")


def _opposite(text: str, others: str, rng: random.Random) -> Change | None:
    del others
    found = list(_TURNABLE.finditer(text))
    if not found:
        return None
    chosen = rng.choice(found)
    return _replaced(text, chosen, _OPPOSITE[chosen.group()], "opposite")


def _count(text: str, others: str, rng: random.Random) -> Change | None:
    del others
    found = list(_COUNT.finditer(text))
    if not found:
        return None
    chosen = rng.choice(found)
    return _replaced(
        text, chosen, rng.choice([count for count in _COUNTS if count != chosen.group()]), "number"
    )
