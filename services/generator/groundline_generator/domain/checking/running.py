"""Answers of language models while they are written: each sentence is checked when the next has begun."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from groundline.v1 import chat_pb2, error_pb2, verification_pb2
from groundline.v1 import generator_service_pb2 as pb

from groundline_generator.domain.checking.citations import CitedAnswer, CitedClaim
from groundline_generator.domain.checking.differences import Deviation
from groundline_generator.domain.checking.validation import Defect, defect_of, shortened
from groundline_generator.domain.checking.verdicts import verdict_on
from groundline_generator.domain.markers import MarkerFilter
from groundline_generator.domain.refusals import refusal
from groundline_generator.domain.segments import Kind

type Change = chat_pb2.UnsupportedSentence | chat_pb2.AnswerCorrection

_ENDED: Final = re.compile(r"[.!?…。！？\n\]][^\w]*\w")
"""Pattern of an ended sentence: a terminator, marker or end of line, and the first word of the next."""

_LONG_PARAGRAPH: Final = 1_000
"""Characters of a paragraph above which its checked lines are not read again."""

_FENCE: Final = re.compile(r"^\s{0,3}(?:```|~~~)", re.MULTILINE)
_MARKERS_BEHIND: Final = re.compile(r"(?:[ \t]*\[\d{1,4}\])*")
_ONLY_A_BULLET: Final = re.compile(r"[ \t]*(?:>[ \t]?)*(?:(?:[-*+•]|\d{1,3}[.)])[ \t]+)?")
_SPACES: Final = re.compile(r"[ \t]*")
_LINE_END: Final = re.compile(r"[ \t]*(?:\n|$)")
_BLANK_LINES: Final = re.compile(r"(?:[ \t]*\n)*")


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A sentence that was taken back, or several side by side, with their markers."""

    sentence: str
    deviations: Sequence[Deviation]
    """Differences of its passages from it."""
    place: int
    """Offset in the answer at which it stood."""
    before: str
    """White space or the bullet of a list that was taken back with it."""
    after: str
    """The same, behind it."""


class RunningAnswer:
    """An answer as its client has it, text by text and change by change.

    Sentences that cite a passage are compared with what they cite. A sentence that is refuted is taken out,
    one that is only not borne out is marked; code is left alone.
    """

    def __init__(self, passages: Mapping[int, pb.NumberedPassage]) -> None:
        self.text = ""
        self.contradictions: list[Contradiction] = []
        self._passages = CitedAnswer("", passages)
        self._scanned = 0
        """Offset from which the end of a sentence is looked for."""
        self._begin = 0
        """Offset from which the text is read: a paragraph, or a line of a long one, begins there."""
        self._checked = 0
        """End of the last sentence that was checked."""
        self._settled = 0

    @property
    def settled(self) -> int:
        """Offset up to which nothing will change any more: the end of the last sentence before a
        contradiction."""
        return self._settled if self.contradictions else self._checked

    def append(self, text: str) -> bool:
        """Append a text; tell whether a sentence may have ended with it."""
        self.text += text
        found = None
        for found in _ENDED.finditer(self.text, self._scanned):
            self._scanned = found.end() - 1
        return found is not None

    def check(self, *, is_complete: bool = False) -> Sequence[Change]:
        """Check the sentences that have ended since; of a complete answer the last one, too."""
        answer = self._passages.with_text(self.text[self._begin :])
        moved_by, changes = self._begin, list[Change]()
        for claim in answer.claims if is_complete else answer.claims[:-1]:
            start, end = claim.start + moved_by, claim.end + moved_by
            if start < self._checked:
                continue
            found = defect_of(answer, claim) if claim.kind is not Kind.CODE and answer.cites(claim) else None
            if found is not None and found.contradicts and _is_refuted(answer, claim):
                taken_back = self._take_back(start, end, found)
                moved_by -= taken_back.end_offset - taken_back.start_offset
                changes.append(taken_back)
                continue
            self._checked = end
            if found is not None:
                changes.append(
                    chat_pb2.UnsupportedSentence(start_offset=start, end_offset=end, issue=found.issue)
                )
        self._scanned = max(self._scanned, self._checked)
        self._leave_out_what_is_checked()
        return changes

    def correct(
        self, sentences: Sequence[str]
    ) -> tuple[Sequence[chat_pb2.AnswerCorrection], Sequence[chat_pb2.ValidationIssue]]:
        """Put a sentence in the place of each that was taken back, unless its passages do not bear it out
        either; return the changes, and what became of each sentence."""
        moved_by, corrections, issues = 0, list[chat_pb2.AnswerCorrection](), list[chat_pb2.ValidationIssue]()
        for index, taken_back in enumerate(self.contradictions):
            sentence = self._borne_out(sentences[index]) if index < len(sentences) else ""
            issue = _outcome(taken_back, is_corrected=bool(sentence))
            issues.append(issue)
            if sentence:
                place = taken_back.place + moved_by
                put_in = f"{taken_back.before}{sentence}{taken_back.after}"
                moved_by += len(put_in)
                corrections.append(self._change(place, place, put_in, issue))
        self.contradictions.clear()
        return corrections, issues

    def refuse(self, query: str) -> chat_pb2.AnswerCorrection | None:
        """Put a refusal behind an answer of which no sentence is left; None if one is."""
        if self._passages.with_text(self.text).claims:
            return None
        reason, message = error_pb2.NO_SUPPORTING_PASSAGE, "all that was said was taken back"
        issue = chat_pb2.ValidationIssue(reason=reason, message=message)
        space = "\n\n" if self.text.strip() else ""
        return self._change(len(self.text), len(self.text), f"{space}{refusal(query)}", issue)

    def _take_back(self, claim_start: int, claim_end: int, found: Defect) -> chat_pb2.AnswerCorrection:
        """Take a sentence out of the text, with its markers; together with the one before it if that has left
        nothing between them."""
        assert found.deviation is not None
        marked = _MARKERS_BEHIND.match(self.text, claim_end)
        end = marked.end() if marked else claim_end
        first, last = _with_surroundings(self.text, claim_start, end)
        sentence, deviations, bullet = self.text[claim_start:end], [found.deviation], ""
        if not self.contradictions:
            self._settled = self._checked
        elif (previous := self.contradictions[-1]).place == claim_start and "\n" not in previous.after:
            self.contradictions.pop()
            sentence, bullet = f"{previous.sentence}{previous.after}{sentence}", previous.before
            deviations = [*previous.deviations, *deviations]
        if self.contradictions:
            first = max(first, self.contradictions[-1].place)
        before, after = self.text[first:claim_start] + bullet, self.text[end:last]
        self.contradictions.append(Contradiction(sentence, deviations, first, before, after))
        self._checked = first
        self._scanned = max(self._scanned - (last - first), first)
        return self._change(first, last, "", found.issue)

    def _change(
        self, start: int, end: int, text: str, issue: chat_pb2.ValidationIssue
    ) -> chat_pb2.AnswerCorrection:
        self.text = self.text[:start] + text + self.text[end:]
        return chat_pb2.AnswerCorrection(start_offset=start, end_offset=end, text=text, issue=issue)

    def _borne_out(self, sentence: str) -> str:
        """Return a sentence on one line with the markers of known passages; "" if they do not bear it out."""
        markers = MarkerFilter(frozenset(self._passages.passages))
        text = " ".join((markers.feed(sentence) + markers.finish()).split())
        answer = self._passages.with_text(text)
        return text if answer.claims and not any(defect_of(answer, one) for one in answer.claims) else ""

    def _leave_out_what_is_checked(self) -> None:
        """Leave out checked paragraphs, and lines of a long one: a check then takes no longer at the end of a
        long answer."""
        is_long = self._checked - self._begin > _LONG_PARAGRAPH
        ended = self.text.rfind("\n" if is_long else "\n\n", self._begin, self._checked)
        if ended >= 0 and not len(_FENCE.findall(self.text, self._begin, ended)) % 2:
            self._begin = ended + 1


def moved(
    mark: chat_pb2.UnsupportedSentence, corrections: Sequence[chat_pb2.AnswerCorrection]
) -> chat_pb2.UnsupportedSentence:
    """Return a mark where it stands after corrections that do not overlap it."""
    start, end = mark.start_offset, mark.end_offset
    for each in corrections:
        if each.end_offset <= start:
            by = len(each.text) - (each.end_offset - each.start_offset)
            start, end = start + by, end + by
    return chat_pb2.UnsupportedSentence(start_offset=start, end_offset=end, issue=mark.issue)


def _is_refuted(answer: CitedAnswer, claim: CitedClaim) -> bool:
    """Tell whether the verdict on a sentence is that what it cites refutes it: a wrong mark costs a look, a
    sentence wrongly taken back is lost."""
    cited = [answer.passages[number] for number in claim.numbers if number in answer.passages]
    return verdict_on(pb.Claim(text=claim.text), cited).verdict == verification_pb2.VERDICT_REFUTED


def _with_surroundings(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span to take back for a sentence: with the white space behind it, or before it at the end of
    the text; a line that has nothing else goes whole, and so does a paragraph."""
    line = text.rfind("\n", 0, start) + 1
    line_end = _LINE_END.match(text, end)
    if line_end is not None and _ONLY_A_BULLET.fullmatch(text, line, start):
        last = line_end.end()
        if last < len(text):
            is_paragraph = line == 0 or text[:line].endswith("\n\n")
            blank = _BLANK_LINES.match(text, last) if is_paragraph else None
            return line, blank.end() if blank else last
        start, end = line, last
    elif spaces := _SPACES.match(text, end):
        end = spaces.end()
    return (len(text[:start].rstrip()), end) if end == len(text) else (start, end)


def _outcome(taken_back: Contradiction, *, is_corrected: bool) -> chat_pb2.ValidationIssue:
    what = taken_back.deviations[0].claimed or taken_back.deviations[0].said
    message = f'its sources do not bear out "{what}": {shortened(taken_back.sentence)}'
    return chat_pb2.ValidationIssue(
        reason=error_pb2.SENTENCE_CORRECTED if is_corrected else error_pb2.SENTENCE_WITHDRAWN,
        message=f"{'corrected' if is_corrected else 'taken back'}, {message}",
    )
