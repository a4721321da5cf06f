"""Failures as jsonb, which documents and items share."""

from collections.abc import Mapping
from typing import Any

from groundline_ingestor.domain import IngestionFailure, IngestionState

__all__ = ["failure_json", "read_failure"]


def failure_json(failure: IngestionFailure | None) -> dict[str, str] | None:
    if failure is None:
        return None
    return {"stage": failure.stage, "reason": failure.reason, "message": failure.message}


def read_failure(stored: Mapping[str, Any] | None) -> IngestionFailure | None:
    if stored is None:
        return None
    return IngestionFailure(IngestionState(stored["stage"]), stored["reason"], stored["message"])
