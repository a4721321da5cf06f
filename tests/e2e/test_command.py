"""The `groundline` command, as a person at a terminal, or a script, uses it."""

import json
from pathlib import Path
from typing import Final

from groundline_tests.suite import EXAMPLES, Stack

QUESTION: Final = json.loads((EXAMPLES / "questions.json").read_text())["questions"][0]


async def test_ask_prints_the_answer_and_its_sources(stack: Stack) -> None:
    done = await stack.command("ask", QUESTION["question"])

    assert done.code == 0, done.err
    assert QUESTION["fragment"] in done.out
    assert QUESTION["uri"] in done.out


async def test_ask_as_json_is_one_object(stack: Stack) -> None:
    done = await stack.command("ask", QUESTION["question"], "--json")

    assert done.code == 0, done.err
    assert QUESTION["fragment"] in json.loads(done.out)["answer"]


async def test_search_prints_ranked_passages(stack: Stack) -> None:
    done = await stack.command("search", QUESTION["question"], "--collection", "examples", "--json")

    assert done.code == 0, done.err
    assert json.loads(done.out)["passages"]


async def test_search_explains_a_weighted_and_diversified_order(stack: Stack) -> None:
    done = await stack.command(
        "search", QUESTION["question"], "--collection", "examples", "--top-k", "3", "--strategy", "weighted",
        "--weight", "keyword=0.3", "--mmr-lambda", "0.8", "--explain",
    )  # fmt: skip
    assert done.code == 0, done.err
    heading = done.out.splitlines()[0]
    for column in ("BM25", "COSINE", "FUSED ×0.4", "VECTOR ×0.4", "KEYWORD ×0.3", "RELEVANCE ×0.8"):
        assert column in heading
    assert "cut" in done.out.splitlines()


async def test_ingesting_again_changes_nothing(stack: Stack, tmp_path: Path) -> None:
    (tmp_path / "note.md").write_text("# Zorblax\n\nThe zorblax valve opens at 41 degrees.\n")
    first = await stack.command("ingest", str(tmp_path), "--collection", "notes", "--json")
    again = await stack.command("ingest", str(tmp_path), "--collection", "notes", "--json")

    assert first.code == again.code == 0, first.err + again.err
    found = await stack.command("search", "zorblax valve", "--collection", "notes", "--json")
    assert len(json.loads(found.out)["passages"]) == 1
    assert (await stack.command("delete", "notes", "--yes")).code == 0


async def test_a_file_that_cannot_be_read_is_named_and_the_others_go_on(stack: Stack, tmp_path: Path) -> None:
    (tmp_path / "good.md").write_text("# Good\n\nQuibbleflux costs 12 euros.\n")
    (tmp_path / "latin.md").write_bytes(b"# Caf\xe9\n\nIn an encoding that is told by its text.")
    (tmp_path / "broken.json").write_text('{"valve": ')
    done = await stack.command("ingest", str(tmp_path), "--collection", "mixed")

    assert done.code == 4
    assert "broken.json" in done.err
    assert "latin.md" not in done.err
    found = await stack.command("search", "quibbleflux", "--collection", "mixed", "--json")
    assert "Quibbleflux" in json.loads(found.out)["passages"][0]["chunk"]["text"]
    assert (await stack.command("delete", "mixed", "--yes")).code == 0


async def test_a_wrong_key_is_one_clear_line(stack: Stack) -> None:
    done = await stack.command("ask", "Hello?", "--api-key", "wrong")

    assert done.code == 1
    assert "key" in done.err.lower()
    assert "Traceback" not in done.err


async def test_a_file_too_large_for_a_message_is_sent_as_a_stream(stack: Stack, tmp_path: Path) -> None:
    padding = " " * 99 + "\n"  # so that it is large, and yet quickly embedded
    text = (
        f"# Snorflewick\n\nThe snorflewick turns left.\n{padding * 180_000}\nThen the vumplet turns right.\n"
    )
    (tmp_path / "large.md").write_text(text)
    done = await stack.command("ingest", str(tmp_path), "--collection", "large", "--json")

    assert done.code == 0, done.err
    for word in ("snorflewick", "vumplet"):
        found = await stack.command("search", word, "--collection", "large", "--json")
        assert word in json.dumps(json.loads(found.out)["passages"][0]).lower()
    assert (await stack.command("delete", "large", "--yes")).code == 0


async def test_answers_are_as_good_as_they_were(stack: Stack) -> None:
    questions = EXAMPLES.parent / "evaluation/examples"
    done = await stack.command(
        "eval", str(questions), "--collection", "examples", "--answers", "--modes", "hybrid",
        "--baseline", str(questions / "expected.json"), "--max-drop", "0.02",
    )  # fmt: skip
    assert done.code == 0, done.out + done.err
    assert "degraded" not in done.err
    assert "passed over" not in done.err
    assert "80 questions of the baseline" in done.out


def write_set(directory: Path) -> None:
    """Write the paragraphs of the examples, and their questions, as an evaluation set."""
    questions = json.loads((EXAMPLES / "questions.json").read_text())["questions"]
    rows, judged = [], []
    for file in sorted(EXAMPLES.glob("*/*.md")):
        for number, text in enumerate(file.read_text().split("\n\n")):
            uri = file.relative_to(EXAMPLES).as_posix()
            rows.append({"id": f"{uri}-{number}", "title": "", "text": text})
            judged += [
                f"{of}\t{uri}-{number}\t1"
                for of, one in enumerate(questions)
                if one["uri"] == uri and one["fragment"] in text
            ]
    queries = [{"id": str(number), "text": one["question"]} for number, one in enumerate(questions)]
    for name, found in (("corpus", rows), ("queries", queries)):
        (directory / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in found))
    (directory / "qrels.tsv").write_text("\n".join(["query_id\tdoc_id\trelevance", *judged]))


async def test_an_evaluation_measures_its_set_and_not_what_is_beside_it(stack: Stack, tmp_path: Path) -> None:
    write_set(tmp_path)
    asked = ("eval", str(tmp_path), "--modes", "keyword,semantic,hybrid", "--json")
    alone = await stack.command(*asked)
    assert alone.code == 0, alone.err
    # Seven of the questions are about them.
    beside = await stack.command("ingest", str(EXAMPLES / "handbook"), "--collection", "neighbour")
    assert beside.code == 0, beside.err
    again = await stack.command(*asked)
    assert again.code == 0, again.err

    assert json.loads(again.out) == json.loads(alone.out)
    assert (await stack.command("delete", "neighbour", "--yes")).code == 0
