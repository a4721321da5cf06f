"""Values on and beyond every limit of every request, against the limits that the contract states."""

import pytest
from google.protobuf.descriptor import MethodDescriptor
from groundline_tests.limit_cases import limit_cases, methods, smallest
from groundline_validation import violations_of


@pytest.mark.parametrize("method", methods(), ids=lambda method: method.full_name)
def test_a_request_is_refused_for_the_field_beyond_its_limit_alone(
    method: MethodDescriptor,
) -> None:
    base = smallest(method.input_type)
    assert [violation.field for violation in violations_of(base)] == []
    for case in limit_cases(base):
        wrong = [violation.field for violation in violations_of(case.request)]
        if case.is_right:
            assert wrong == [], case.concept
        else:
            assert wrong, case.concept
            assert all(field.startswith(case.field) for field in wrong), (case.concept, wrong)
