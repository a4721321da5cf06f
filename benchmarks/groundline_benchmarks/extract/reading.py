"""Measurement of the readers on real files."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from groundline.v1 import error_pb2
from groundline_extraction.documents import FileContent, GivenDocument, IngestionError
from groundline_extraction.extractor import DocumentExtractor
from groundline_extraction.members import FoundMember, MemberSpool
from groundline_extraction.ocr import find_ocr_data
from groundline_extraction.readers.common import ReaderLimits
from groundline_extraction.sandbox import Sandbox

from groundline_benchmarks.extract.expectations import Check, Found, check
from groundline_benchmarks.extract.fetching import is_there
from groundline_benchmarks.extract.real import Manifest, RealFile
from groundline_benchmarks.measuring.running import MeasurementError, Report


@dataclass(frozen=True, slots=True)
class RealReading:
    """Result for one file; failure: why it was not read, or ""."""

    name: str
    format: str
    failure: str
    checks: Sequence[Check]

    @property
    def met(self) -> int:
        return sum(one.is_met for one in self.checks)


@dataclass(frozen=True, slots=True)
class RealFigures:
    """Results for all files, and the files that are not in the folder."""

    readings: Sequence[RealReading]
    missing: Sequence[str]

    def by_format(self) -> list[tuple[str, int, int, int]]:
        """Return for each format, and for all, the number of files, and of their expectations those that are
        met and all."""
        formats = sorted({one.format for one in self.readings})
        groups = [(name, [one for one in self.readings if one.format == name]) for name in formats]
        groups.append(("all", list(self.readings)))
        return [
            (name, len(group), sum(one.met for one in group), sum(len(one.checks) for one in group))
            for name, group in groups
        ]


def measure_real_files(manifest: Manifest, folder: Path, report: Report) -> RealFigures:
    """Read each file of the folder as an ingestor does, in a confined process. Raises MeasurementError."""
    there = [one for one in manifest.files if is_there(one, folder)]
    if not there:
        raise MeasurementError(f"{folder} holds none of the real files; --fetch brings them")
    missing = [f"{one.package}: {one.path}" for one in manifest.files if one not in there]
    with Sandbox(ReaderLimits(ocr_data=find_ocr_data(None)), processes=1) as sandbox:
        extractor = DocumentExtractor(sandbox)
        readings = []
        for file in there:
            report(file.uri)
            found = _read(file, file.place(folder).read_bytes(), extractor)
            checks = check(file.expected, found)
            readings.append(RealReading(file.uri, file.format, found.refused, checks))
    return RealFigures(readings, missing)


def _read(file: RealFile, content: bytes, extractor: DocumentExtractor) -> Found:
    with closing(MemberSpool(None)) as members:
        given = GivenDocument(content, uri=file.uri, mime_type=file.mime_type)
        try:
            segments = list(extractor.read(given, members=members).segments)
        except IngestionError as error:
            return Found(refused=error_pb2.ErrorReason.Name(error.failure.reason))
        texts = {one.path: _text(one, extractor) for one in members.found}
        headings = [heading.title for segment in segments for heading in segment.headings]
        return Found("".join(segment.text for segment in segments), headings, texts)


def _text(member: FoundMember, extractor: DocumentExtractor) -> str:
    content = member.content
    if isinstance(content, FileContent):
        content = b"".join(content.parts(content.size))
    try:
        return extractor.extract(GivenDocument(content, uri=member.path, mime_type=member.mime_type)).text
    except IngestionError:
        return ""
