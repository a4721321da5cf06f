"""Sentences that are about what the sentence before them names."""

import re
from typing import Final

_REFERS_BACK: Final = re.compile(
    r"(?:he|she|it|they|his|her|its|their|this|these|that|those|there|then"
    r"|er|sie|es|sein|seine[nrms]?|ihre?[nrms]?|dies|diese[nrms]?|dort|dabei|damit|dadurch|danach|daraufhin)\b",
    re.IGNORECASE,
)


def refers_back(sentence: str) -> bool:
    """Tell whether a sentence, in English or German, begins with a word that points back."""
    return _REFERS_BACK.match(sentence) is not None
