"""Measure an exported reader: on held-out examples, and on a set of questions that nothing was trained on."""

import argparse
import json
import math
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

from groundline_reader import CLAIM_LABELS, PairReading, Reader

from groundline_training.examples import Example, read_lines
from groundline_training.texts import falsify, sentence_spans, windows, words

PASSAGES: Final = 8
ANSWERED: Final = (0.95, 0.9, 0.85)
"""Shares of the answerable questions that are answered, at which refusals of the others are counted."""


@dataclass(frozen=True, slots=True)
class Case:
    """A question with the passages that a search finds, with or without the one that answers."""

    question: str
    passages: tuple[tuple[str, str], ...]
    """Titles and texts."""
    answer: str
    answerable: bool


def area(positive: Sequence[float], negative: Sequence[float]) -> float:
    """Return the chance that a positive's score is above a negative's (AUC); a tie counts half. NaN if
    one of them is missing."""
    if not positive or not negative:
        return math.nan
    ranked = sorted([(score, 1) for score in positive] + [(score, 0) for score in negative])
    total = 0.0
    place = 0
    while place < len(ranked):
        end = place
        while end < len(ranked) and ranked[end][0] == ranked[place][0]:
            end += 1
        total += sum(kind for _, kind in ranked[place:end]) * (place + end + 1) / 2
        place = end
    return (total - len(positive) * (len(positive) + 1) / 2) / (len(positive) * len(negative))


def refused(positive: Sequence[float], negative: Sequence[float], answered: float) -> float:
    """Return the share of negatives below the line above which `answered` of the positives are."""
    line = sorted(positive, reverse=True)[max(0, math.ceil(answered * len(positive)) - 1)]
    return sum(score < line for score in negative) / len(negative)


def cases(folder: Path) -> list[Case]:
    """Return each question of a set with its passages by BM25: as the set is, and with its own one removed.

    A question that the set says is not answerable is a case as the set is.
    """

    def lines(name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (folder / name).read_text(encoding="utf-8").splitlines()]

    corpus = lines("corpus.jsonl")
    gold = dict(
        line.split("\t")[:2] for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines()[1:]
    )
    texts = [Counter(word for word in _tokens(f"{one['title']} {one['text']}")) for one in corpus]
    average = sum(sum(text.values()) for text in texts) / len(texts)
    known = Counter(word for text in texts for word in text)

    def score(question: str, text: Counter[str]) -> float:
        length = sum(text.values()) / average
        return sum(
            math.log(1 + (len(texts) - known[word] + 0.5) / (known[word] + 0.5))
            * (text[word] * 2.2 / (text[word] + 1.2 * (0.25 + 0.75 * length)))
            for word in set(_tokens(question))
            if text[word]
        )

    found: list[Case] = []
    for query in lines("queries.jsonl"):
        order = sorted(range(len(corpus)), key=lambda place: -score(query["text"], texts[place]))
        kept = [place for place in order if corpus[place]["id"] != gold[query["id"]]]
        answerable = query.get("answerable", True)
        for is_answered, places in ((True, order), (False, kept)) if answerable else ((False, order),):
            shown = tuple((corpus[place]["title"], corpus[place]["text"]) for place in places[:PASSAGES])
            found.append(Case(query["text"], shown, query["answer"], is_answered))
    return found


def _tokens(text: str) -> list[str]:
    return [word[:6] for word in re.findall(r"\w+", text.lower())]


def drawn[Member](members: Sequence[Member], number: int, seed: int = 7) -> Sequence[Member]:
    """Return at most `number` of the members, the same for each sequence of one length."""
    places = random.Random(seed).sample(range(len(members)), min(number, len(members)))  # noqa: S311
    return [members[place] for place in places]


def measure_cases(
    reader: Reader, every: Sequence[Case], confidence: Sequence[float] | None, number: int
) -> dict[str, Any]:
    """Return AUC and refusals over all passages, and the share of best spans with the answer."""
    found = drawn(every, number)
    confidence = confidence and drawn(confidence, number)
    scores: dict[bool, list[float]] = {True: [], False: []}
    right = 0
    for case in found:
        pairs = [(case.question, text) for _, passage in case.passages for text in windows(passage)]
        best = max(reader.read(pairs), key=lambda reading: reading.answerable)
        scores[case.answerable].append(best.answerable)
        right += case.answerable and case.answer.lower() in best.answer.lower()
    figures = {"reader": _ends(scores[True], scores[False])}
    figures["reader"]["span_holds_answer"] = right / len(scores[True])
    if confidence is not None:
        today = [
            [value for value, case in zip(confidence, found, strict=True) if case.answerable is kind]
            for kind in (True, False)
        ]
        figures["confidence"] = _ends(*today)
    return figures


def _ends(positive: Sequence[float], negative: Sequence[float]) -> dict[str, float]:
    found = {"auc": area(positive, negative)}
    return found | {f"refused_at_{answered}": refused(positive, negative, answered) for answered in ANSWERED}


def measure_validation(reader: Reader, held: Sequence[Example]) -> dict[str, Any]:
    """Return AUC by kind of negative, F1 of the spans' words, and claims told apart, by set."""
    answered: dict[str, list[float]] = defaultdict(list)
    others: dict[str, list[float]] = defaultdict(list)
    claims: dict[str, list[tuple[int, int]]] = defaultdict(list)
    spans: list[float] = []
    readings = reader.read([(example.text, example.passage) for example in held])
    for example, reading in zip(held, readings, strict=True):
        name = example.source.partition(":")[0]
        if example.answerable is not None:
            kept = (answered, name) if example.answerable else (others, example.source)
            kept[0][kept[1]].append(reading.answerable)
        if example.span is not None:
            said, gold = _tokens(reading.answer), _tokens(example.passage[slice(*example.span)])
            common = (Counter(said) & Counter(gold)).total()
            spans.append(2 * common / max(len(said) + len(gold), 1))
        if example.label in CLAIM_LABELS:
            claims[name].append((_likeliest(reading), CLAIM_LABELS.index(example.label)))
    return {
        "answerable_auc": area([*chain(*answered.values())], [*chain(*others.values())]),
        "answerable_auc_by_negative": {
            source: {"number": len(part), "auc": area(answered[source.partition(":")[0]], part)}
            for source, part in sorted(others.items())
        },
        "span_f1": sum(spans) / len(spans),
        "claims": {name: _told(part) for name, part in sorted(claims.items())},
    }


def _likeliest(reading: PairReading) -> int:
    return max(range(3), key=reading.claim.__getitem__)


def _told(pairs: Sequence[tuple[int, int]]) -> dict[str, float]:
    right = sum(said == label for said, label in pairs) / len(pairs)
    largest = max(Counter(label for _, label in pairs).values()) / len(pairs)
    recall = {
        CLAIM_LABELS[kind]: sum(said == kind for said, label in pairs if label == kind) / count
        for kind, count in sorted(Counter(label for _, label in pairs).items())
    }
    return {"number": len(pairs), "right": right, "largest_class": largest, **recall}


def measure_falsified(reader: Reader, folder: Path, seed: int = 7) -> dict[str, Any]:
    """Return the share of sentences of the corpus made false that are not called supported, by rule, and of
    those left as they are, or told of a passage without them, likewise."""
    rng = random.Random(seed)  # noqa: S311 - a draw that can be repeated
    kinds: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for line in (folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines():
        passage = json.loads(line)["text"]
        for start, end in sentence_spans(passage):
            if not 40 <= end - start <= 260:
                continue
            sentence = passage[start:end]
            shown = max(windows(passage), key=lambda text: (sentence in text, len(words(text))))
            kinds["verbatim"].append((sentence, shown))
            if (changed := falsify(sentence, passage, rng)) is not None:
                kinds[changed.rule].append((changed.text, shown))
            rest = f"{passage[:start]} {passage[end:]}".strip()
            if len(rest) > 200:
                kinds["neighbour"].append(
                    (sentence, max(windows(rest), key=lambda one: len(words(sentence) & words(one))))
                )
    figures: dict[str, Any] = {}
    for kind, pairs in sorted(kinds.items()):
        said = [_likeliest(reading) for reading in reader.read(drawn(pairs, 150))]
        figures[kind] = {"number": len(said), "not_supported": sum(label > 0 for label in said) / len(said)}
    return figures


def milliseconds(reader: Reader, tokens: int = 160, runs: int = 10) -> dict[str, float]:
    """Return the processor time of a passage of `tokens` tokens, read alone and with seven others."""
    pair = ("Who wrote the report on the state of the harbour?", "the old stone " * 200)
    found: dict[str, float] = {}
    for count in (1, 8):
        times = []
        for _ in range(runs):
            began = time.process_time()
            reader.run_length(pair, tokens, count)
            times.append((time.process_time() - began) * 1000 / count)
        found[f"batch_{count}"] = min(times)
    return found


def main() -> None:
    """Print the figures, and write them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reader", type=Path, required=True, help="folder that export.py wrote")
    parser.add_argument("--validation", type=Path, help="examples that prepare.py held out")
    parser.add_argument(
        "--questions", type=Path, help="folder with corpus.jsonl, queries.jsonl and qrels.tsv"
    )
    parser.add_argument(
        "--confidence", type=Path, help="JSON list: today's confidence for each case, to compare with"
    )
    parser.add_argument("--examples", type=int, default=10**6, help="maximum, drawn at random")
    parser.add_argument("--cases", type=int, default=10**6, help="maximum, likewise; one takes half a second")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    reader = Reader(options.reader)
    figures: dict[str, Mapping[str, Any]] = {"milliseconds": milliseconds(reader)}
    if options.validation:
        figures["validation"] = measure_validation(
            reader, drawn(read_lines(options.validation), options.examples)
        )
    if options.questions:
        confidence = json.loads(options.confidence.read_text()) if options.confidence else None
        figures["removed"] = measure_cases(reader, cases(options.questions), confidence, options.cases)
        figures["falsified"] = measure_falsified(reader, options.questions)
    text = json.dumps(figures, indent=2, default=float)
    options.output.write_text(f"{text}\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
