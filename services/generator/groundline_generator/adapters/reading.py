"""A small model that reads, in the process of the generator."""

from collections.abc import Sequence
from pathlib import Path

from groundline_runtime.errors import FailedPreconditionError

from groundline_generator.domain.quoting.extraction import Answerability

__all__ = ["load_reader"]


def load_reader(folder: Path | None) -> Answerability | None:
    """Return the reader in a folder that `training/` wrote, if one is named.

    Its weights are loaded at the first reading. Raises FailedPreconditionError (MODEL_NOT_LOADED) if the
    folder holds no reader, or a damaged one, or if readers are not installed.
    """
    if folder is None:
        return None
    try:
        from groundline_reader import Reader, ReaderError
    except ModuleNotFoundError as error:
        raise _not_loaded(f"{error.name} is not installed: install groundline-generator[reader]") from error
    try:
        reader = Reader(folder)
    except ReaderError as error:
        raise _not_loaded(str(error)) from error

    def answerable(question: str, texts: Sequence[str]) -> Sequence[float]:
        return [reading.answerable for reading in reader.read([(question, text) for text in texts])]

    return answerable


def _not_loaded(problem: str) -> FailedPreconditionError:
    return FailedPreconditionError("MODEL_NOT_LOADED", f"GROUNDLINE_GENERATOR_READER_DIRECTORY: {problem}")
