"""Confidence of answers by the calibration of their collection."""

from itertools import pairwise

from groundline.v1 import chat_pb2, collection_pb2


def calibrate(validation: chat_pb2.Validation, calibration: collection_pb2.Calibration) -> None:
    """Map the confidence of an answer, and keep what it was before."""
    validation.raw_confidence = validation.confidence
    validation.confidence = _probability(calibration, validation.confidence)


def _probability(calibration: collection_pb2.Calibration, confidence: float) -> float:
    """Return the probability of being right: straight between the points of the map, level beyond them. A
    map without points changes nothing."""
    points = calibration.points
    if not points:
        return confidence
    for before, point in pairwise(points):
        if before.confidence <= confidence <= point.confidence:
            share = (confidence - before.confidence) / (point.confidence - before.confidence)
            return before.probability + share * (point.probability - before.probability)
    return points[0 if confidence < points[0].confidence else -1].probability
