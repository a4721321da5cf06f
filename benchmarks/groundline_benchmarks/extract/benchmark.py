"""Measurement of the readers on documents whose contents are known."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean

import psutil
from groundline_extraction.documents import GivenDocument
from groundline_extraction.extractor import DocumentExtractor
from groundline_extraction.ocr import find_ocr_data
from groundline_extraction.readers.common import NO_HINTS, ReaderLimits
from groundline_extraction.readers.pdf import reader as pdf
from groundline_extraction.sandbox import Sandbox

from groundline_benchmarks.extract.documents import documents, large_pdf
from groundline_benchmarks.extract.scoring import Reading, Scores, score
from groundline_benchmarks.measuring.goals import Goal
from groundline_benchmarks.measuring.running import Report


@dataclass(frozen=True, slots=True)
class Extracted:
    """Result for one document; seconds as its sender waits, without the start of a process."""

    name: str
    format: str
    is_ruled: bool | None
    seconds: float
    scores: Scores


@dataclass(frozen=True, slots=True)
class ExtractFigures:
    """Results for all documents. pages_per_second: of text PDFs, by the time of one core. memory: peak of the
    process that reads, in MB."""

    extracted: Sequence[Extracted]
    pages_per_second: float
    memory: float

    def goals(self) -> list[Goal]:
        """Return the goals of files that were not scanned."""
        born = [one for one in self.extracted if one.format != "scan"]
        ruled = [one.scores.cells for one in born if one.is_ruled is not False]
        unruled = [one.scores.cells for one in born if one.is_ruled is False]
        return [
            Goal("words found", mean(one.scores.recall for one in born), 0.99, is_minimum=True),
            Goal("words that are there", mean(one.scores.precision for one in born), 0.99, is_minimum=True),
            Goal("cells of tables with lines or marks", _mean(ruled), 0.95, is_minimum=True),
            Goal("cells of tables without lines", _mean(unruled), 0.85, is_minimum=True),
            Goal("order of words", mean(one.scores.order for one in born), 0.97, is_minimum=True),
            Goal("headings", _mean(one.scores.headings for one in born), 0.9, is_minimum=True),
            Goal("pages", _mean(one.scores.pages for one in born), 1.0, is_minimum=True),
            Goal("pages of text PDFs a second and core", self.pages_per_second, 50, is_minimum=True),
        ]


def measure_extraction(seed: int, pages: int, report: Report, *, with_scans: bool = True) -> ExtractFigures:
    """Read each document as an ingestor does, in a confined process, and a long one for its speed.

    Scans need tesseract's language data; without it they are left out.
    """
    ocr_data = find_ocr_data(None)
    extracted = []
    with Sandbox(ReaderLimits(ocr_data=ocr_data), processes=1) as sandbox:
        extractor = DocumentExtractor(sandbox)
        extractor.extract(GivenDocument(b"<p>The process starts.</p>", uri="a.html"))
        for document in documents(seed, with_scans=with_scans and bool(ocr_data)):
            report(document.name)
            begun = time.perf_counter()
            found = extractor.extract(GivenDocument(document.content, uri=document.uri))
            seconds = time.perf_counter() - begun
            reading = Reading(found.text, [heading.title for heading in found.headings])
            scores = score(document, reading)
            extracted.append(Extracted(document.name, document.format, document.is_ruled, seconds, scores))
        memory = max(map(_most_memory, psutil.Process().children()), default=0.0)
    report(f"a PDF of {pages} pages")
    large = large_pdf(seed, pages)
    begun = time.process_time()
    pdf.read(large.content, NO_HINTS, ReaderLimits())
    return ExtractFigures(extracted, pages / (time.process_time() - begun), memory)


def _mean(values: Iterable[float | None]) -> float:
    return mean(value for value in values if value is not None)


def _most_memory(process: psutil.Process) -> float:
    """Return the peak memory since the process was started, in MB."""
    with open(f"/proc/{process.pid}/status") as status:
        lines = dict(line.split(":", 1) for line in status)
    return int(lines["VmHWM"].split()[0]) / 1024
