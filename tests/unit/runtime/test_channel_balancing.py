"""Which replicas a channel's calls go to."""

from typing import Any

import pytest
from groundline.v1 import retriever_service_pb2
from groundline_runtime.channels import service_config

RETRIEVER = retriever_service_pb2.DESCRIPTOR.services_by_name["RetrieverService"]


def balancing(target: str) -> dict[str, Any]:
    [found] = service_config(RETRIEVER, target)["loadBalancingConfig"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    "target",
    [
        "10.0.0.1:50051,10.0.0.2:50051",
        "retriever:50051",
        "dns:///retriever:50051",
        "ipv4:10.0.0.1:1,10.0.0.2:1",
    ],
)
def test_where_there_may_be_several_replicas_one_that_fails_gets_no_calls(target: str) -> None:
    assert "outlier_detection_experimental" in balancing(target)


@pytest.mark.parametrize("target", ["127.0.0.1:50051", "[::1]:50051"])
def test_nobody_looks_for_a_failing_replica_among_one(target: str) -> None:
    assert balancing(target) == {"round_robin": {}}
