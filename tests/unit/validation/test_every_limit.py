"""Values on and beyond every limit of every request, against the limits that the contract states."""

from importlib import import_module
from pathlib import Path

import pytest
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import MethodDescriptor
from groundline_tests.limit_cases import limit_cases, smallest
from groundline_validation import violations_of

PROTOS = Path(__file__).resolve().parents[3] / "protos/groundline/v1"


def methods() -> list[MethodDescriptor]:
    """Of all services."""
    found: list[MethodDescriptor] = []
    for path in sorted(PROTOS.glob("*_service.proto")):
        import_module(f"groundline.v1.{path.stem}_pb2")
        file = descriptor_pool.Default().FindFileByName(f"groundline/v1/{path.name}")
        for service in file.services_by_name.values():
            found.extend(service.methods)
    return found


@pytest.mark.parametrize("method", methods(), ids=lambda method: method.full_name)
def test_a_request_is_refused_for_the_field_that_is_beyond_its_limit_and_for_no_other(
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
