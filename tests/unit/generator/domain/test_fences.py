from groundline_generator.domain.fences import document_nonce, fenced, new_nonce


def test_every_call_has_a_nonce_of_its_own() -> None:
    assert len({new_nonce() for _ in range(100)}) == 100


def test_all_calls_about_a_document_share_one_that_its_text_does_not_tell() -> None:
    nonce = document_nonce("text")
    assert nonce == document_nonce("text") != document_nonce(f"text {nonce}")


def test_an_attribute_cannot_end_before_its_quote() -> None:
    assert fenced("chunk", "5eed", "x", title='a" b\n="c') == (
        "<chunk-5eed title=\"a' b ='c\">\nx\n</chunk-5eed>"
    )
