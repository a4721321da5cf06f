"""A small model that reads, in the process of the generator."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from groundline_runtime.errors import FailedPreconditionError, InternalError

from groundline_generator.domain.checking.readings import ClaimReader, Reading
from groundline_generator.domain.quoting.extraction import Answerability


class SmallModel(NamedTuple):
    """Abilities of a small model; None if it lacks one, or if there is no model."""

    answerability: Answerability | None = None
    claims: ClaimReader | None = None


def load_reader(folder: Path | None) -> SmallModel:
    """Return the abilities of the model in a folder, if one is named: of one that `training/` wrote both, of
    another's claims alone.

    Raises FailedPreconditionError (MODEL_NOT_LOADED) if the folder holds no reader, or a damaged one, or if
    readers are not installed.
    """
    if folder is None:
        return SmallModel()
    try:
        from groundline_reader import Reader, ReaderError, open_reader
    except ModuleNotFoundError as error:
        raise _not_loaded(f"{error.name} is not installed: install groundline-generator[reader]") from error
    try:
        model = open_reader(folder)
    except ReaderError as error:
        raise _not_loaded(str(error)) from error

    def answerable(question: str, texts: Sequence[str]) -> Sequence[float]:
        assert isinstance(model, Reader)
        return [reading.answerable for reading in model.read([(question, text) for text in texts])]

    def claims(pairs: Sequence[tuple[str, str]]) -> Sequence[Reading]:
        try:
            return model.read_claims(pairs)
        except Exception as error:  # of onnxruntime and tokenizers, which have no common class
            raise InternalError("MODEL_OUTPUT_INVALID", "the small model failed") from error

    return SmallModel(answerable if isinstance(model, Reader) else None, claims)


def _not_loaded(problem: str) -> FailedPreconditionError:
    return FailedPreconditionError("MODEL_NOT_LOADED", f"GROUNDLINE_GENERATOR_READER_DIRECTORY: {problem}")
