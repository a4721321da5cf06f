"""Make examples of the public sets: which rows are taken, what is added by rule, and what is held out."""

import argparse
import gzip
import hashlib
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from groundline_training.examples import Example, write_lines
from groundline_training.texts import change_subject, falsify, nearest, sentence_spans, window, words

type Row = Mapping[str, Any]

QUESTIONS: Final = {
    "squad2_train_part": 1.0,
    "covidqa": 1.0,
    "qed_nq_dev": 1.0,
    "fairytaleqa_train": 0.3,
    "selqa_dev": 1.0,
    "mlqa_de_dev": 0.3,
}
"""Share of the rows of each set of questions that a pass takes."""
CLAIMS: Final = {
    "fever_symmetric_dev": 1.0,
    "fever_passages_val": 0.4,
    "fool_me_twice_dev": 1.0,
    "check_covid": 1.0,
    "cad_nli": 0.2,
    "mnli_dev_matched": 0.25,
    "conjnli_adv_train": 0.1,
    "contractnli_dev": 0.5,
    "wice_dev": 0.7,
    "infotabs_train": 0.04,
}
HELD_OUT: Final = {"fool_me_twice_dev": 0.2, "check_covid": 0.2, "contractnli_dev": 0.0}
"""Share of claims that are held out, if it is not `HELD_OUT_ELSE`."""
HELD_OUT_ELSE: Final = 0.08
"""Share of passages that are held out, and of claims by default."""
HELD_OUT_ARTICLES: Final = (range(220, 280), range(641, 693))
"""Articles that are held out whole, "iPod" and "Solar energy": places of their paragraphs among the passages
of `squad2_train_part`. A removed paragraph leaves some 50 of the same subject."""
SUBJECTS_CHANGED: Final = 0.5
NEGATIVES: Final = {"article": 0.6, "rest": 0.5}
"""Shares of the answered questions from which each kind of negative is made."""
HUMAN_WEIGHT: Final = 2.0
"""Weight of the few questions that people wrote to be unanswerable."""


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    """Read a set."""
    with gzip.open(folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def is_held_out(name: str, key: str) -> bool:
    """Say whether what has this key is held out, the same in every run."""
    share = HELD_OUT.get(name, HELD_OUT_ELSE)
    return int.from_bytes(hashlib.sha256(f"{name}\n{key}".encode()).digest()[:4]) < share * 2**32


def passages_of(found: Sequence[Row]) -> list[str]:
    """Return the passages of a set once each, in its order."""
    return list(dict.fromkeys(row["passage"] for row in found))


def held_articles(folder: Path) -> list[str]:
    """Return the paragraphs of the articles that are held out whole."""
    passages = passages_of(rows(folder, "squad2_train_part"))
    return [passages[place] for article in HELD_OUT_ARTICLES for place in article]


def held_passages(folder: Path) -> frozenset[str]:
    """Return all passages that are held out: nothing of them is trained on, neither as answer nor as negative
    nor by their sentences."""
    every = (passage for name in (*QUESTIONS, *CLAIMS) for passage in passages_of(rows(folder, name)))
    return frozenset(passage for passage in every if is_held_out("passages", passage)).union(
        held_articles(folder)
    )


def size(rng: random.Random) -> int:
    """Draw the size of a window in characters: most are short, which is cheap, and some are long."""
    return rng.choice((200, 300, 400, 500, 500, 620))


def questions(folder: Path, name: str, apart: frozenset[str], rng: random.Random) -> Iterator[Example]:
    """Yield a set's questions with windows that answer and windows that do not."""
    found = rows(folder, name)
    gold = {row["question"]: row["passage"] for row in found if row["answerable"]}
    articles = _articles(found)
    for row in found:
        passage, question = row["passage"], row["question"]
        held = gold.get(question, passage) in apart
        if not held and (passage in apart or rng.random() > QUESTIONS[name]):
            continue
        if row["answerable"]:
            article = [text for text in articles[passage] if held or text not in apart]
            yield from _answered(row, name, article, held, rng)
            continue
        place = nearest(question, passage)
        if place is not None:
            human = not row.get("derived")
            yield Example(
                question,
                window(passage, place, size(rng), rng).text,
                f"{name}:{'human' if human else 'neighbour'}",
                answerable=False,
                weight=HUMAN_WEIGHT if human else 1.0,
                held_out=held,
            )


def _answered(
    row: Row, name: str, article: Sequence[str], held: bool, rng: random.Random
) -> Iterator[Example]:
    """Yield a question with its answer, and negatives by rule: the question with another subject, the rest of
    the paragraph, and the likeliest other paragraph of the article."""
    passage, question = row["passage"], row["question"]
    answer = rng.choice(row["answers"]) if not held else row["answers"][0]
    start, end = answer["start"], answer["start"] + len(answer["text"])
    shown = window(passage, (start, end), size(rng), rng)
    yield Example(
        question,
        shown.text,
        f"{name}:answered",
        answerable=True,
        span=(start - shown.start, end - shown.start),
        held_out=held,
    )
    answers = [each["text"] for each in row["answers"]]
    others = " ".join([shown.text, *rng.sample(article, min(2, len(article)))])
    changed = change_subject(question, others, rng)
    if changed is not None and rng.random() < SUBJECTS_CHANGED:
        yield Example(changed.text, shown.text, f"{name}:{changed.rule}", answerable=False, held_out=held)
    near = max(article, key=lambda text: len(words(question) & words(text)), default="")
    rest = max(_without(passage, start, end), key=len, default="")
    for kind, text in (("article", near), ("rest", rest)):
        place = nearest(question, text, answers) if len(text) > 120 else None
        if place is not None and rng.random() < NEGATIVES[kind]:
            text = window(text, place, size(rng), rng).text
            if not any(each.lower() in text.lower() for each in answers):
                yield Example(question, text, f"{name}:{kind}", answerable=False, held_out=held)


def _without(passage: str, start: int, end: int) -> list[str]:
    """Return what stands before and after the sentences of an answer."""
    inside = [span for span in sentence_spans(passage) if span[0] < end and span[1] > start]
    if not inside:
        return []
    return [passage[: inside[0][0]].rstrip(), passage[inside[-1][1] :].lstrip()]


def _articles(found: Sequence[Row], near: int = 12) -> Mapping[str, Sequence[str]]:
    """Return for each passage those that stand near it in the set, mostly of the same article."""
    passages = passages_of(found)
    return {
        passage: [*passages[max(0, place - near) : place], *passages[place + 1 : place + near]]
        for place, passage in enumerate(passages)
    }


def claims(folder: Path, name: str, apart: frozenset[str], rng: random.Random) -> Iterator[Example]:
    """Yield a set's claims with windows of their passages, and some with a window of another passage.

    Other claims about a passage that is held out, or of which a claim is, are left out.
    """
    found = rows(folder, name)
    apart |= {row["passage"] for row in found if is_held_out(name, row["claim"])}
    passages = [row["passage"] for row in found if row["passage"] not in apart]
    for row in found:
        claim, passage = row["claim"], row["passage"]
        held = is_held_out(name, claim)
        if not held and (passage in apart or rng.random() > CLAIMS[name]):
            continue
        label = row["label"]
        text = passage
        if len(passage) > 620:
            place = nearest(claim, passage)
            text = window(passage, place, 620, rng).text if place else passage[:620]
            title, dot, rest = passage.partition(". ")
            if name == "fever_passages_val" and dot and rest and not text.startswith(title):
                text = f"{title}. {text}"
        yield Example(claim, text, f"{name}:{label}", label=label, held_out=held)
        if name.startswith("fever") and rng.random() < 0.35 and not held:
            other = max(
                rng.sample(passages, 40), key=lambda one: len(words(claim) & words(one)) * (one != passage)
            )
            place = nearest(claim, other)
            if place and other != passage:
                near = window(other, place, size(rng), rng).text
                yield Example(claim, near, f"{name}:other", label="unrelated")


def falsified(passages: Sequence[tuple[str, bool]], number: int, rng: random.Random) -> Iterator[Example]:
    """Yield sentences of the passages as claims: as they stand, made false, and beside other sentences.

    Each sentence comes as often supported as not, so that the claim alone tells nothing.
    """
    made = 0
    while made < number:
        passage, held = rng.choice(passages)
        spans = [span for span in sentence_spans(passage) if 40 <= span[1] - span[0] <= 260]
        if not spans:
            continue
        start, end = rng.choice(spans)
        sentence = passage[start:end]
        shown = window(passage, (start, end), size(rng), rng)
        changed = falsify(sentence, shown.text if rng.random() < 0.6 else passage, rng)
        if changed is None:
            continue
        made += 1
        yield Example(sentence, shown.text, "made:verbatim", label="supports", held_out=held)
        yield Example(changed.text, shown.text, f"made:{changed.rule}", label="refutes", held_out=held)
        if rng.random() < 0.5:  # the passage says the false thing, and the claim is the true one
            turned = shown.text.replace(sentence, changed.text)
            yield Example(changed.text, turned, "made:turned", label="supports", held_out=held)
            yield Example(sentence, turned, f"made:{changed.rule}", label="refutes", held_out=held)
        rest = max(_without(passage, start, end), key=len, default="")
        place = nearest(sentence, rest) if len(rest) > 80 else None
        if place is not None:
            text, claim = window(rest, place, size(rng), rng).text, rng.choice((sentence, changed.text))
            yield Example(claim, text, "made:neighbour", label="unrelated", held_out=held)


def balanced(examples: Sequence[Example]) -> list[Example]:
    """Weigh the examples of each set so that its labels weigh the same together."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for example in examples:
        if example.label is not None:
            counts[example.source.partition(":")[0]][example.label] += 1
    weighed = []
    for example in examples:
        count = counts[example.source.partition(":")[0]]
        if example.label is not None:
            fair = sum(count.values()) / len(count) / count[example.label]
            example = Example(**{**_fields(example), "weight": min(fair, 3.0)})
        weighed.append(example)
    return weighed


def _fields(example: Example) -> dict[str, Any]:
    return {name: getattr(example, name) for name in Example.__slots__}


def make(folder: Path, seed: int) -> list[Example]:
    """Return all examples of one pass, those of the rules drawn anew by each seed."""
    rng = random.Random(seed)  # noqa: S311 - a draw that can be repeated
    apart = held_passages(folder)
    made = [example for name in QUESTIONS for example in questions(folder, name, apart, rng)]
    made += [example for name in CLAIMS for example in claims(folder, name, apart, rng)]
    sources = ("squad2_train_part", "qed_nq_dev", "covidqa")
    passages = [
        (passage, passage in apart) for name in sources for passage in passages_of(rows(folder, name))
    ]
    made += falsified(passages, 1600, rng)
    return balanced(made)


def write_questions(folder: Path, output: Path) -> None:
    """Write the articles that are held out whole, and the questions to them, as a set to search in."""
    places = {passage: str(place) for place, passage in enumerate(held_articles(folder))}
    asked = [
        row
        for row in rows(folder, "squad2_train_part")
        if not row.get("derived") and row["passage"] in places
    ]
    output.mkdir(parents=True, exist_ok=True)
    corpus = [{"id": place, "title": "", "text": passage} for passage, place in places.items()]
    queries = [
        {
            "id": row["id"],
            "text": row["question"],
            "answer": row["answers"][0]["text"] if row["answerable"] else "",
            "answerable": row["answerable"],
        }
        for row in asked
    ]
    for file, lines in (("corpus.jsonl", corpus), ("queries.jsonl", queries)):
        (output / file).write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    judged = [f"{row['id']}\t{places[row['passage']]}\t1\n" for row in asked]
    (output / "qrels.tsv").write_text("query_id\tdoc_id\trelevance\n" + "".join(judged), encoding="utf-8")


def main() -> None:
    """Write train.jsonl, validation.jsonl and the folder questions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public sets (*.jsonl.gz)")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    made = make(options.data, options.seed)
    write_questions(options.data, options.output / "questions")
    held = [example for example in made if example.held_out]
    trained = [example for example in made if not example.held_out]
    write_lines(held, options.output / "validation.jsonl")
    write_lines(trained, options.output / "train.jsonl")
    print(f"{len(trained)} examples, {len(held)} held out")
    counts = Counter(example.source for example in trained)
    print("".join(f"  {source:40} {count}\n" for source, count in sorted(counts.items())), end="")


if __name__ == "__main__":
    main()
