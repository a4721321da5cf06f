"""Sets in the making: the three files of an evaluation set, which grow with each decision."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from groundline_cli.evaluation.sets import DatasetError


@dataclass(slots=True)
class DraftedSet:
    """A folder whose questions a person accepts one by one. What was decided is not asked again."""

    directory: Path
    decided: set[str] = field(default_factory=set)
    """Ids of the drafts that were accepted or rejected."""

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        for path in (self._queries, self._rejected):
            if path.exists():
                try:
                    lines = path.read_text(encoding="utf-8").splitlines()
                    self.decided |= {json.loads(line)["id"] for line in lines if line.strip()}
                except (OSError, ValueError, KeyError, TypeError) as error:
                    raise DatasetError(f"{path}: not a set's ({type(error).__name__})") from error

    def write_corpus(self, documents: Iterable[tuple[str, str, str]]) -> None:
        """Write id, title and text of the documents, in place of those of an earlier time."""
        with (self.directory / "corpus.jsonl").open("w", encoding="utf-8") as file:
            for document_id, title, text in documents:
                file.write(_line({"id": document_id, "title": title, "text": text}))

    def accept(
        self,
        draft_id: str,
        question: str,
        *,
        uris: Sequence[str],
        answers: Sequence[str] = (),
        passage: str = "",
    ) -> None:
        """Keep a question with the documents that hold its answer; without any, it cannot be answered."""
        judgements = self.directory / "qrels.tsv"
        # The judgements first: without them the question would be one that cannot be answered.
        with judgements.open("a", encoding="utf-8") as file:
            if not judgements.stat().st_size:
                file.write("query_id\tdoc_id\trelevance\n")
            for uri in uris:
                file.write(f"{draft_id}\t{uri}\t1\n")
        row: dict[str, Any] = {"id": draft_id, "text": question}
        if answers:
            row["answers"] = list(answers)
        if passage:
            row["passage"] = passage
        if not uris:
            row["answerable"] = False
        self._add(self._queries, row)

    def reject(self, draft_id: str, question: str) -> None:
        """Remember that a draft is not wanted."""
        self._add(self._rejected, {"id": draft_id, "text": question})

    @property
    def _queries(self) -> Path:
        return self.directory / "queries.jsonl"

    @property
    def _rejected(self) -> Path:
        return self.directory / "rejected.jsonl"

    def _add(self, path: Path, row: dict[str, Any]) -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write(_line(row))
        self.decided.add(row["id"])


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"
