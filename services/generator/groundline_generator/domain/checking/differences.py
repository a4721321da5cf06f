"""Differences of a claim from a sentence that is nearly the same: numbers, names, opposites, negation.

The rules read no meaning: they see what stands in one of the two alone, and in whose place it stands.
"""

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from difflib import SequenceMatcher
from importlib.resources import files
from itertools import chain, combinations, permutations, product
from typing import Final, NamedTuple

from groundline.v1 import error_pb2
from groundline_language.concepts import alike, is_known_whole
from groundline_language.terms import content_terms

from groundline_generator.domain.checking.values import TITLES, values
from groundline_generator.domain.checking.wording import Token, WordedText, folded, is_negation, is_same_name
from groundline_generator.domain.signs import COUNTED, UNITS, Quantity, designation_form, quantities

_MAX_CHANGED: Final = 3
"""Maximum words in whose place others stand, if they are no names; more are another sentence."""

_VERBATIM: Final = 0.85
"""Share of a claim's other terms from which a German noun in another's place is more than a synonym.

German writes every noun with a capital, so a name is not told from one."""


_PARTS: Final = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d_]+")


_NAMES: Final = re.compile(
    r"(?<![\w'’-])[A-ZÄÖÜ][\w'’-]*(?:(?: |(?<=\b[A-Z])\. |(?<=\b[A-Z]\w)\. )[A-ZÄÖÜ][\w'’-]*)*"
)
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_RELATIONS: Final[Mapping[str, str]] = tomllib.loads(
    (files("groundline_generator.domain.checking") / "relations.toml").read_text(encoding="utf-8")
)
_ARTICLES, _PASSIVE, _BY, _HAVE, _IS = (
    frozenset(_RELATIONS[key].split()) for key in ("articles", "passive", "by", "have", "is")
)
_APART, _BETWEEN, _MUTUAL = (
    re.compile(_RELATIONS[key], re.IGNORECASE | re.VERBOSE) for key in ("apart", "between", "mutual")
)
_FOLLOWING: Final = 3
"""Number of terms behind two names among which a German verb is looked for."""


class Deviation(NamedTuple):
    """A difference: its kind, the claim's words, and those of the sentence."""

    reason: error_pb2.ErrorReason.ValueType
    claimed: str
    said: str = ""
    contradicts: bool = True
    """Whether the sentence says otherwise; if not, it only lacks the claim's words."""


class _Change(NamedTuple):
    """Words of a claim in the place of others; either may be none."""

    ours: Sequence[Token]
    theirs: Sequence[Token]

    @property
    def is_of_few_words(self) -> bool:
        """Whether it is short enough for one thing in the place of another; names may be longer."""
        is_name = all(token.text[0].isupper() for token in (*self.ours, *self.theirs))
        return is_name or max(len(self.ours), len(self.theirs)) <= _MAX_CHANGED


def difference(claim: WordedText, sentence: WordedText, around: WordedText) -> Deviation | None:
    """Return the first thing that a claim has otherwise than a sentence that is nearly the same; None if they
    agree. `around` is what else may bear the claim out: title, headings, the sentences beside it."""
    told = told_otherwise(claim, sentence)
    changes = _changes(claim.tokens, sentence.tokens, told)
    return (
        _date(claim, sentence, around)
        or _number(claim, sentence, around, told)
        or _designation(claim, sentence, around)
        or _denial(claim, sentence, changes)
        or _replacement(claim, sentence, around, changes)
        or _swap(claim, sentence, changes)
        or _exchange(claim, sentence)
        or _name(claim, sentence, around, told)
    )


def _changes(claim: Sequence[Token], sentence: Sequence[Token], told: Set[str]) -> Sequence[_Change]:
    matcher = SequenceMatcher(
        None, [token.folded for token in claim], [token.folded for token in sentence], autojunk=False
    )
    return [
        change
        for kind, start, end, other_start, other_end in matcher.get_opcodes()
        if kind != "equal"
        and (change := _Change(claim[start:end], sentence[other_start:other_end])).is_of_few_words
        and told.isdisjoint(token.folded for token in change.ours)
    ]


def told_otherwise(claim: WordedText, sentence: WordedText) -> set[str]:
    """Return the words of a claim's numbers that the sentence has, too, if in another unit or form: two weeks
    are 14 days, 9 p.m. is 21:00."""
    told = [
        each.shown.casefold()
        for each in values(claim.text)
        if any(map(each.is_told_by, values(sentence.text)))
    ]
    shown = {word.strip("€$£.,") for each in told for word in (*each.split(), *_PARTS.findall(each))}
    return shown - sentence.counts.keys()


def _date(claim: WordedText, sentence: WordedText, around: WordedText) -> Deviation | None:
    """Find a date in the place of another."""
    ours, theirs = ([each for each in values(one.text) if each.kind == "date"] for one in (claim, sentence))
    said = [each for each in theirs if not any(one.is_told_by(each) for one in ours)]
    for one in ours if said else ():
        # In a report of 22 May 2007 "in October" may be October 2007.
        month = one.shown.split()[0].casefold() if one.unit == "month" else ""
        is_told = month in sentence.counts or month in around.counts
        if (
            not is_told
            and all(map(one.differs, theirs))
            and not any(map(one.is_told_by, values(around.text)))
        ):
            contradicts = (one.unit == "month") == (said[0].unit == "month")
            return Deviation(error_pb2.NUMBER_NOT_SUPPORTED, one.shown, said[0].shown, contradicts)
    return None


def _number(claim: WordedText, sentence: WordedText, around: WordedText, told: Set[str]) -> Deviation | None:
    """Find a number or unit that the sentence does not have."""
    lacking = None
    for quantity in claim.quantities:
        same = [one for one in sentence.quantities if one.is_of_value(quantity)]
        if same and not any(quantity.is_of_unit(one) for one in same):
            return Deviation(error_pb2.NUMBER_NOT_SUPPORTED, quantity.shown, same[0].shown)
        is_told = quantity.shown.split()[0].strip("€$£").casefold() in told
        if same or is_told or any(one.is_of_value(quantity) for one in around.quantities):
            continue
        if instead := _in_place_of(quantity, claim, sentence):
            return Deviation(error_pb2.NUMBER_NOT_SUPPORTED, quantity.shown, instead.shown)
        # A count in words may sum up what a passage enumerates.
        if quantity.shown not in COUNTED:
            lacking = lacking or Deviation(error_pb2.NUMBER_NOT_SUPPORTED, quantity.shown, contradicts=False)
    return lacking


def _in_place_of(quantity: Quantity, claim: WordedText, sentence: WordedText) -> Quantity | None:
    """Return a number of the same unit that the sentence alone has."""
    return next(
        (
            one
            for one in sentence.quantities
            if one.unit == quantity.unit
            and (one.shown in COUNTED) == (quantity.shown in COUNTED)
            and not any(one.is_of_value(each) for each in claim.quantities)
        ),
        None,
    )


def _designation(claim: WordedText, sentence: WordedText, around: WordedText) -> Deviation | None:
    """Find a designation that the passage does not have, or that stands in the place of another of its
    form."""
    lacking = None
    for key, shown in claim.designations.items():
        if key in sentence.designations:
            continue
        for other, said in sentence.designations.items():
            if other not in claim.designations and designation_form(other) == designation_form(key):
                return Deviation(error_pb2.NAME_NOT_SUPPORTED, shown, said)
        if key not in around.designations:
            lacking = lacking or Deviation(error_pb2.NAME_NOT_SUPPORTED, shown, contradicts=False)
    return lacking


def _name(claim: WordedText, sentence: WordedText, around: WordedText, told: Set[str]) -> Deviation | None:
    """Find a name that the passage does not have."""
    names = (name for name in claim.names if name.casefold() not in UNITS and name.casefold() not in told)
    found = (name for name in names if not sentence.has_name(name) and not around.has_name(name))
    missing = next(found, None)
    return Deviation(error_pb2.NAME_NOT_SUPPORTED, missing, contradicts=False) if missing else None


def _denial(claim: WordedText, sentence: WordedText, changes: Sequence[_Change]) -> Deviation | None:
    """Find what one of the two denies, and the other says."""
    if _negations(claim) == _negations(sentence):
        return None
    for ours, theirs in changes:
        word, other = _negation_at_end(ours), _negation_at_end(theirs)
        if bool(word) != bool(other):
            return Deviation(error_pb2.CONTRADICTED_SENTENCE, word, other)
    word = denied_alone(claim, sentence)
    other = "" if word else denied_alone(sentence, claim)
    return Deviation(error_pb2.CONTRADICTED_SENTENCE, word, other) if word or other else None


def _negations(text: WordedText) -> int:
    return sum(is_negation(token.text) for token in text.tokens)


def _negation_at_end(tokens: Sequence[Token]) -> str:
    """Return the negation that words end with: what it denies stands in both texts."""
    return tokens[-1].text if tokens and is_negation(tokens[-1].text) else ""


def denied_alone(denying: WordedText, saying: WordedText) -> str:
    """Return the word by which a text denies what the other says; else ""."""
    others = frozenset[str]().union(*(denial.terms for denial in saying.denials))
    for denial in denying.denials:
        shared = denial.terms & saying.terms
        if shared and shared.isdisjoint(others):
            return denial.word
    return ""


def _replacement(
    claim: WordedText, sentence: WordedText, around: WordedText, changes: Sequence[_Change]
) -> Deviation | None:
    """Find words of the claim in the place of others: a number, the opposite, or another name."""
    for ours, theirs in changes:
        new = [one for one in ours if claim.counts[one.folded] > sentence.counts[one.folded]]
        gone = [one for one in theirs if sentence.counts[one.folded] > claim.counts[one.folded]]
        parts, instead = _unlike(new, gone)
        found = _other_number(parts, instead) or _opposite(parts, instead)
        if found is not None:
            return found
        is_pure = len(new) == len(ours) and len(gone) == len(theirs)
        if _are_other_names(new, gone, claim.language, around, is_pure=is_pure):
            if claim.language == "english":
                return Deviation(error_pb2.NAME_NOT_SUPPORTED, _shown(new), _shown(gone))
            rest = claim.terms - frozenset(content_terms(_shown(new), claim.language))
            if is_pure and rest and len(rest & sentence.terms) / len(rest) >= _VERBATIM:
                return Deviation(error_pb2.NAME_NOT_SUPPORTED, _shown(new), _shown(gone), contradicts=False)
    return None


def _swap(claim: WordedText, sentence: WordedText, changes: Sequence[_Change]) -> Deviation | None:
    """Find two numbers that stand in each other's place: "9 for adults and 18 for children"."""
    pairs = [
        (ours[0], theirs[0])
        for ours, theirs in changes
        if len(ours) == len(theirs) == 1 and ours[0].is_number and theirs[0].is_number
    ]
    swapped = {(theirs.folded, ours.folded) for ours, theirs in pairs}
    for ours, theirs in pairs:
        if (ours.folded, theirs.folded) in swapped and not _are_equal(ours.text, theirs.text):
            return Deviation(error_pb2.NUMBER_NOT_SUPPORTED, ours.text, theirs.text)
    return None


class _Named(NamedTuple):
    """A name with its words as they are compared, and where it stands."""

    shown: str
    words: frozenset[str]
    start: int
    end: int
    is_possessive: bool

    def is_one_with(self, other: "_Named") -> bool:
        return self.words <= other.words or other.words <= self.words


class _Relation(NamedTuple):
    """Statement about two names: *buy* of Acme and Bolt in "Bolt was bought by Acme"."""

    key: Sequence[str]
    first: _Named
    second: _Named

    def is_as(self, other: "_Relation") -> bool:
        return self.first.is_one_with(other.first) and self.second.is_one_with(other.second)


def _exchange(claim: WordedText, sentence: WordedText) -> Deviation | None:
    """Find two names that stand in each other's place: "Acme bought Bolt" for "Bolt bought Acme"."""
    named, others = list(_named(claim)), list(_named(sentence))
    named, others = (
        [one for one in each if any(map(one.is_one_with, rest))]
        for each, rest in ((named, others), (others, named))
    )
    if len(named) < 2 or len(others) < 2:
        return None
    said = list(_relations(sentence, others))
    for ours in _relations(claim, named) if said else ():
        alike = [each for each in said if each.key == ours.key]
        turned = ours._replace(first=ours.second, second=ours.first)
        if any(map(turned.is_as, alike)) and not any(map(ours.is_as, alike)):
            # In German the object may come first.
            is_sure = claim.language == "english"
            return Deviation(error_pb2.NAME_NOT_SUPPORTED, ours.first.shown, ours.second.shown, is_sure)
    return None


def _relations(text: WordedText, named: Sequence[_Named]) -> Iterator[_Relation]:
    """Yield what stands between two names of a sentence, unless it holds from both sides: as it is, and what
    it says in the active or passive voice, or by "of" or a possessive."""
    language = text.language or "english"
    for first, second in combinations(named, 2):
        between, behind = text.text[first.end : second.start], text.text[second.end :]
        is_mutual = _BETWEEN.search(between) or _MUTUAL.search(text.text, first.end)
        if is_mutual or _APART.search(between) or first.is_one_with(second):
            continue
        words = _WORD.findall(between)
        plain = {word for word in map(folded, words) if not content_terms(word, language)} - _ARTICLES
        terms = content_terms(between, language)
        verbs = content_terms(" ".join(word for word in words if word.islower()), language)
        following = content_terms(behind, language)[:_FOLLOWING]
        if not verbs and plain.isdisjoint(_HAVE | _PASSIVE | _IS if terms else _HAVE | _PASSIVE):
            continue
        gap = [folded(word) for word in words]
        yield _Relation((*gap, *(following if not terms else ())), first, second)
        *_, last = ("", *(word for word in gap if word not in _ARTICLES))
        said = [" ".join(terms)] if language == "english" else [*map(_verb, verbs or following)]
        by = plain & _BY if last in _BY else frozenset()
        for verb in said if "," not in between else ():
            if by and plain <= by | _PASSIVE | _HAVE and (language == "english" or plain & _PASSIVE):
                yield _Relation(("", verb), second, first)
            elif plain <= _HAVE and (plain or len(said) == 1):
                yield _Relation(("", verb), first, second)
            elif last == "of" and plain <= {"of"} | _IS:
                yield _Relation(("of", verb), first, second)
            elif last in _IS and plain <= _IS and first.is_possessive:
                yield _Relation(("of", verb), second, first)


def _named(text: WordedText) -> Iterator[_Named]:
    """Yield names, in German without common nouns unless a title is before them."""
    language = text.language or "english"
    for run in _NAMES.finditer(text.text):
        words = [word for word in _WORD.findall(run.group()) if content_terms(word, language)]
        names = [word for word in words if word.casefold() not in TITLES and folded(word) not in _OTHERS]
        if not names or (
            language == "german"
            and len(names) == len(words)
            and all(is_known_whole(term, language) for term in content_terms(" ".join(names), language))
        ):
            continue
        shown = " ".join(names)
        plain = re.sub(r"['’]s$", "", shown)
        yield _Named(plain, frozenset(map(folded, names)), *run.span(), shown != plain)


def _verb(term: str) -> str:
    """Return what forms of a German verb share: "leitet", "geleitet"."""
    return re.sub(r"^ge(?=\w{4})|(?:te[nt]?|e[nt]?|t)$", "", term)


def _unlike(ours: Sequence[Token], theirs: Sequence[Token]) -> tuple[Sequence[Token], Sequence[Token]]:
    """Return the words, and the parts of words with hyphens, that only one side has."""
    first, second = ([part for token in each for part in token.parts] for each in (ours, theirs))
    common = {part.folded for part in first} & {part.folded for part in second}
    unlike = ([part for part in each if part.folded not in common] for each in (first, second))
    return next(unlike), next(unlike)


def _other_number(ours: Sequence[Token], theirs: Sequence[Token]) -> Deviation | None:
    for one in ours:
        other = next((each for each in theirs if each.is_number), None) if one.is_number else None
        if other is not None and not _are_equal(one.text, other.text):
            is_name = one.text[0].isalpha() and one.folded not in COUNTED
            reason = error_pb2.NAME_NOT_SUPPORTED if is_name else error_pb2.NUMBER_NOT_SUPPORTED
            return Deviation(reason, one.text, other.text)
    return None


def _are_equal(one: str, other: str) -> bool:
    first, second = next(quantities(one), None), next(quantities(other), None)
    if first is None or second is None:
        return re.findall(r"\d+", one) == re.findall(r"\d+", other)
    return first.is_of_value(second)


def _opposite(ours: Sequence[Token], theirs: Sequence[Token]) -> Deviation | None:
    for one in ours:
        opposites = {*OPPOSITES.get(one.folded, ()), *_OTHERS.get(one.folded, ())}
        if other := next((each for each in theirs if each.folded in opposites), None):
            return Deviation(error_pb2.CONTRADICTED_SENTENCE, one.text, other.text)
    return None


def _opposites(name: str) -> Mapping[str, frozenset[str]]:
    """Return the words that mean the opposite of each word, as they are written and folded."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    text = (files("groundline_generator.domain.checking") / name).read_text(encoding="utf-8")
    for line in text.splitlines():
        for one, other in permutations(map(str.split, line.split("/")), 2):
            for word in chain(one, map(folded, one)):
                found[word].update(other, map(folded, other))
    return {word: frozenset(others) for word, others in found.items()}


OPPOSITES: Final = _opposites("opposites.txt")
"""Words that mean the opposite of a word."""

_OTHERS: Final = _opposites("others.txt")
"""Words of which only one can be true: other days, months, seasons and parts."""


def _are_other_names(
    ours: Sequence[Token],
    theirs: Sequence[Token],
    language: str | None,
    around: WordedText,
    *,
    is_pure: bool,
) -> bool:
    """Tell whether words are a name, and not another form of the name in whose place they stand."""
    named, instead = ([one for one in each if _may_be_name(one, language)] for each in (ours, theirs))
    if not named or not instead:
        return False
    is_alone = is_pure and len(named) == len(ours) and len(instead) == len(theirs)
    if not is_alone and (language != "english" or any(one.is_first for one in (*named, *instead))):
        return False
    if any(
        is_same_name(one.folded, other.folded) or _are_alike(one, other, language)
        for one, other in product(named, instead)
    ):
        return False
    if _are_initials(named, instead) or _are_initials(instead, named):
        return False
    # A first name and a surname that stand side by side elsewhere are one.
    both = {one.folded for one in (*named, *instead)}
    return not any(both <= name for name in around.full_names)


def _are_alike(one: Token, other: Token, language: str | None) -> bool:
    """Tell whether two words may mean the same, as *Heirat* and *Hochzeit* do."""
    others = content_terms(other.text, language)
    return any(not alike(term, language).isdisjoint(others) for term in content_terms(one.text, language))


def _are_initials(short: Sequence[Token], full: Sequence[Token]) -> bool:
    """Tell whether a name is the initials of another, as US is of United States."""
    return len(short) == 1 and short[0].folded == "".join(token.folded[0] for token in full)


def _may_be_name(token: Token, language: str | None) -> bool:
    return (
        token.text[0].isupper()
        and len(token.text) > 1
        and (token.text.isupper() or bool(content_terms(token.text, language)))
    )


def _shown(tokens: Sequence[Token]) -> str:
    return " ".join(token.text for token in tokens)
