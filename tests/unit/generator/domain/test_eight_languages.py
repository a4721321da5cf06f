"""Languages that answers and refusals speak."""

import pytest
from groundline_generator.domain.refusals import reads_like_refusal, refusal
from groundline_language import guess_language
from groundline_language.terms import content_terms

QUESTIONS = {
    "dutch": ["Wat is de inhoud van de watertank?", "Wie heeft het contract ondertekend?"],
    "english": ["Who signed the contract?", "Is gas flammable?", "Did the Panthers surrender?"],
    "french": ["Quelle est la capacité du réservoir d’eau ?", "Où se trouve l'entrepôt ?"],
    "german": ["Wer hat den Vertrag unterschrieben?", "Wer gewann den Super Bowl?"],
    "italian": ["Qual è la capacità del serbatoio dell'acqua?", "Quanti giorni di ferie ci sono all’anno?"],
    "polish": ["Jaka jest pojemność zbiornika na wodę?", "Kto podpisał umowę?"],
    "portuguese": ["Qual é a capacidade do depósito de água?", "Quantos dias de férias há por ano?"],
    "spanish": ["¿Cuál es la capacidad del depósito?", "¿Quién firmó el contrato?"],
}
WORDINGS = {
    "dutch": [
        "De documenten bevatten geen informatie over de garantie.",
        "Op basis van deze bronnen kan ik dat niet beantwoorden.",
    ],
    "french": [
        "Les passages fournis ne contiennent pas cette information.",
        "Je ne peux pas répondre à cette question à partir des documents.",
        "Aucune information à ce sujet n'est donnée.",
    ],
    "italian": [
        "I documenti non contengono informazioni sulla garanzia.",
        "Non posso rispondere a questa domanda.",
    ],
    "polish": [
        "Dokumenty nie zawierają informacji o gwarancji.",
        "Nie mogę odpowiedzieć na to pytanie na podstawie podanych fragmentów.",
    ],
    "portuguese": [
        "Os documentos não mencionam a garantia.",
        "Não posso responder a esta pergunta com os trechos fornecidos.",
    ],
    "spanish": [
        "Los documentos no mencionan la garantía.",
        "No puedo responder a esta pregunta con la información disponible.",
    ],
}


def each(texts: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(language, text) for language, some in texts.items() for text in some]


@pytest.mark.parametrize(("language", "question"), each(QUESTIONS))
def test_a_question_is_known_by_its_function_words(language: str, question: str) -> None:
    assert guess_language(question) == language


@pytest.mark.parametrize("text", ["", "DN-4 maxRetryCount", "for x in a: y = z * w + e + o", "東京の天気"])
def test_what_has_no_words_of_a_language_is_none(text: str) -> None:
    assert guess_language(text) in (None, "english")


@pytest.mark.parametrize(("language", "question"), each(QUESTIONS))
def test_a_question_is_refused_in_its_language_and_the_sentence_is_known_as_a_refusal(
    language: str, question: str
) -> None:
    sentence = refusal(question)
    assert guess_language(sentence) == language
    assert reads_like_refusal(sentence, cited=False)


@pytest.mark.parametrize(("language", "wording"), each(WORDINGS))
def test_how_models_word_a_refusal_is_known_in_each_language(language: str, wording: str) -> None:
    assert reads_like_refusal(wording, cited=False)


@pytest.mark.parametrize(
    "answer",
    [
        "La garantie dure deux ans et ne couvre pas les joints.",
        "La garantía dura dos años y no cubre las juntas.",
        "La garanzia dura due anni e non copre le guarnizioni.",
        "De garantie duurt twee jaar en dekt de afdichtingen niet.",
        "Gwarancja trwa dwa lata i nie obejmuje uszczelek.",
        "A garantia dura dois anos e não cobre as juntas.",
    ],
)
def test_an_answer_that_denies_something_is_no_refusal(answer: str) -> None:
    assert not reads_like_refusal(answer, cited=False)


def test_words_that_lost_a_vowel_before_another_are_those_that_follow() -> None:
    assert content_terms("l'eau du réservoir", "french") == content_terms("eau réservoir", "french")
    assert content_terms("dell’acqua", "italian") == content_terms("acqua", "italian")
