import pytest
from groundline_generator.domain.refusals import reads_like_refusal


@pytest.mark.parametrize(
    "answer",
    [
        "I don't know.",
        "I'm sorry, but I couldn't find any information on that in the documents.",
        "There is no information about the price in the provided passages.",
        "The provided context does not specify the torque.",
        "I do not have enough information to answer this question.",
        "No relevant information was found.",
        "This is not mentioned in the passages.",
        "The answer is not in the documents.",
        "Not specified.",
        "The documents don't say who founded the company.",
        "There's no mention of a warranty.",
        "Based on the passages, it is not possible to determine the date.",
        "It is unclear from the text.",
        "Unfortunately, the sources do not address this.",
        "I am unable to determine the weight.",
        "The weight cannot be determined from the given passages.",
        "Insufficient information was given to answer.",
        "Dazu liegen mir keine Informationen vor.",
        "Das weiß ich leider nicht.",
        "Leider finde ich dazu nichts in den Dokumenten.",
        "Darüber steht in den Unterlagen nichts.",
        "Die Unterlagen machen dazu keine Angaben.",
        "Das geht aus den Passagen nicht hervor.",
        "Der Preis wird nicht erwähnt.",
        "Das lässt sich nicht feststellen.",
    ],
)
def test_a_refusal_in_a_models_own_words_is_one(answer: str) -> None:
    assert reads_like_refusal(answer, cited=False)
    assert not reads_like_refusal(answer, cited=True)


@pytest.mark.parametrize(
    "answer",
    [
        "The device does not include a battery.",
        "Close the valve before you open the lid.",
        "No operator is needed.",
        "Das Gerät enthält keine Batterie.",
        "Die Anlage darf nicht geöffnet werden.",
        "Nothing is as heavy as the DN-6.",
    ],
)
def test_an_answer_that_denies_something_is_none(answer: str) -> None:
    assert not reads_like_refusal(answer, cited=False)
