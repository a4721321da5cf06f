"""Data that the reader is trained and measured on: texts made false, windows that hold answers."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
from groundline_training.evaluate import area, cases, refused
from groundline_training.prepare import balanced, claims, falsified, questions
from groundline_training.texts import change_subject, falsify, sentence_spans, window, windows

PASSAGE = (
    "The mill was built in 1874 by Anna Weber. It was not used after the flood. Its owner moved to Kiel with "
    "three sons. The harbour of Kiel has 12 berths, more than Lübeck had in 1901. Ships arrive every morning."
)


def random_(seed: int = 1) -> random.Random:
    return random.Random(seed)


@pytest.mark.parametrize(
    ("sentence", "rule", "possible"),
    [
        ("It cost 4 marks.", "number", {f"It cost {digit} marks." for digit in "012356789"}),
        ("It was not used.", "negation", {"It was used."}),
        ("It was used.", "negation", {"It was not used.", "It was never used."}),
        ("It came before noon.", "opposite", {"It came after noon."}),
        (
            "He moved to Hamburg.",
            "name",
            {f"He moved to {name}." for name in ("Kiel", "Anna Weber", "Lübeck")},
        ),
    ],
)
def test_a_sentence_is_made_false_by_one_change(sentence: str, rule: str, possible: set[str]) -> None:
    made = {falsify(sentence, PASSAGE, random_(seed)) for seed in range(60)}
    assert {change.rule for change in made if change} == {rule}
    assert {change.text for change in made if change} <= possible


def test_what_no_rule_fits_is_left_out() -> None:
    assert falsify("Ships arrive every morning.", "", random_()) is None
    assert change_subject("why?", PASSAGE, random_()) is None


def test_a_window_holds_the_answer_in_whole_sentences_and_tells_nothing_by_its_place() -> None:
    start = PASSAGE.index("three sons")
    places = set()
    for seed in range(40):
        shown = window(PASSAGE, (start, start + 10), 120, random_(seed))
        assert PASSAGE[shown.start :].startswith(shown.text)
        assert "three sons" in shown.text
        assert len(shown.text) <= 120
        places.add(start - shown.start)
    assert len(places) > 1


def test_windows_hold_every_sentence_of_a_long_passage() -> None:
    cut = windows(PASSAGE, 100)
    assert all(any(PASSAGE[slice(*span)] in each for each in cut) for span in sentence_spans(PASSAGE))
    assert max(map(len, cut)) <= 100


def write_set(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    with gzip.open(folder / f"{name}.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(row)}\n" for row in rows)


def test_no_passage_of_a_held_out_question_is_trained_on_and_spans_are_the_answers(tmp_path: Path) -> None:
    passages = [PASSAGE.replace("1874", str(1500 + place)) for place in range(60)]
    rows = [
        {
            "question": f"When was mill {place} built?",
            "passage": passage,
            "answerable": True,
            "answers": [{"text": str(1500 + place), "start": passage.index(str(1500 + place))}],
        }
        for place, passage in enumerate(passages)
    ]
    write_set(tmp_path, "squad2_train_part", rows)
    held = {row["question"]: str(row["passage"]) for row in rows[::7]}
    made = list(questions(tmp_path, "squad2_train_part", frozenset(held.values()), random_()))
    assert {example.text for example in made if example.held_out} >= set(held)
    years = {passage.split()[5] for passage in held.values()}
    for example in made:
        assert example.held_out or not years & set(example.passage.split())
        if example.span is not None:
            assert example.passage[slice(*example.span)] == str(1500 + int(example.text.split()[3]))
        elif example.source.endswith(("rest", "article")):
            assert example.answerable is False


def test_labels_of_a_set_weigh_the_same_and_a_claim_is_on_one_side(tmp_path: Path) -> None:
    rows = [
        {"claim": f"Claim {place // 2}.", "passage": f"Passage {place}.", "label": label}
        for place, label in enumerate(["supports", "supports", "refutes", "unrelated"] * 30)
    ]
    write_set(tmp_path, "check_covid", rows)
    made = balanced(list(claims(tmp_path, "check_covid", frozenset(), random_())))
    weights = {
        label: sum(example.weight for example in made if example.label == label)
        for label in ("supports", "refutes", "unrelated")
    }
    assert max(weights.values()) == pytest.approx(min(weights.values()))
    sides = {(example.text, example.held_out) for example in made}
    assert len(sides) == len({text for text, _ in sides})


def test_a_sentence_is_as_often_supported_as_refuted() -> None:
    made = list(falsified([(PASSAGE, False)], 40, random_()))
    labels = [example.label for example in made]
    assert labels.count("supports") == labels.count("refutes")
    for example in made:
        if example.label == "supports":
            assert example.text in example.passage
        else:
            assert example.text not in example.passage


def test_area_and_refusals_are_what_their_definitions_say() -> None:
    assert area([3, 2], [1, 2]) == pytest.approx(3.5 / 4)
    assert refused([0.9, 0.8, 0.7, 0.1], [0.05, 0.5, 0.75, 0.95], answered=0.75) == 0.5


def test_a_question_is_asked_with_and_without_its_passage_and_an_unanswerable_one_once(
    tmp_path: Path,
) -> None:
    texts = {"a": "The mill stands in Kiel.", "b": "The bridge stands in Lübeck."}
    asked = [
        {"id": "1", "text": "Where is the mill?", "answer": "Kiel"},
        {"id": "2", "text": "Who built the mill?", "answer": "", "answerable": False},
    ]
    (tmp_path / "corpus.jsonl").write_text(
        "\n".join(json.dumps({"id": name, "title": "", "text": text}) for name, text in texts.items())
    )
    (tmp_path / "queries.jsonl").write_text("\n".join(map(json.dumps, asked)))
    (tmp_path / "qrels.tsv").write_text("query_id\tdoc_id\trelevance\n1\ta\t1\n2\ta\t1\n")
    found = [
        (case.question, [text for _, text in case.passages], case.answerable) for case in cases(tmp_path)
    ]
    assert found == [
        ("Where is the mill?", [texts["a"], texts["b"]], True),
        ("Where is the mill?", [texts["b"]], False),
        ("Who built the mill?", [texts["a"], texts["b"]], False),
    ]
