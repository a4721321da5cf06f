"""How relevant a sentence is, and how likely it holds the answer."""

from groundline.v1 import generator_service_pb2 as pb
from groundline_generator.domain.quoting.extraction import extract
from groundline_tests.generator.messages import numbered

QUESTION = "How long are invoices kept in the archive?"
KEPT = "Invoices are kept in the archive for ten years."
OTHER = "The canteen opens at noon, and the archive smells of soup."
AS_GOOD = "How long an archive of old invoices is kept in order depends on its owner."


def passage(number: int, text: str, similarity: float | None = None) -> pb.NumberedPassage:
    return numbered(number, text, similarity=similarity, similarity_crosses_languages=True)


def likelihood(question: str, *passages: pb.NumberedPassage) -> float:
    found = extract(question, passages, min_relevance=0.2, max_sentences=3)
    assert found.extracts
    return found.likelihood


def test_a_sentence_with_more_terms_of_the_question_is_likelier() -> None:
    more, less = (
        likelihood(QUESTION, passage(1, text), passage(2, OTHER))
        for text in (KEPT, "Invoices are kept for ten years.")
    )
    assert 0.5 < less < more < 1


def test_a_sentence_is_less_likely_if_another_passage_is_more_similar() -> None:
    nearest = likelihood(QUESTION, passage(1, KEPT, 0.7), passage(2, OTHER, 0.3))
    behind = likelihood(QUESTION, passage(1, KEPT, 0.7), passage(2, OTHER, 0.9))
    unknown = likelihood(QUESTION, passage(1, KEPT), passage(2, OTHER))
    assert behind < unknown < nearest


def test_one_passage_alone_is_no_sign() -> None:
    assert likelihood(QUESTION, passage(1, KEPT, 0.9)) == likelihood(QUESTION, passage(1, KEPT, 0.5))


def test_a_term_less_counts_for_less_between_languages() -> None:
    question = "Wie lange werden Rechnungen im Archiv aufbewahrt?"
    own = "Rechnungen im Archiv: zehn Jahre, und dann ist es mit ihnen vorbei."
    foreign = "Invoices in the archive: ten years, and then they are gone for good."
    assert likelihood(question, passage(1, foreign, 0.8)) > likelihood(question, passage(1, own, 0.8))


def relevance(*texts: str, query: str = QUESTION) -> float:
    passages = [passage(number, text) for number, text in enumerate(texts, 1)]
    return extract(query, passages, min_relevance=0.2, max_sentences=3).relevance


def test_a_sentence_far_before_those_of_other_passages_is_more_relevant() -> None:
    assert relevance(KEPT, AS_GOOD) < relevance(KEPT) < relevance(KEPT, OTHER)


def test_a_copy_of_a_sentence_counts_for_less_than_another_as_good() -> None:
    assert relevance(KEPT, AS_GOOD, OTHER) < relevance(KEPT, KEPT, OTHER)


def test_between_languages_other_passages_make_a_sentence_no_less_relevant() -> None:
    question = "Wie lange werden die Rechnungen im Archiv aufbewahrt?"
    assert relevance(KEPT, AS_GOOD, query=question) >= relevance(KEPT, query=question)
