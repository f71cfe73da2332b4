"""Fingerprints that other programs computed for the same pods."""

import pytest

from numawise.codec.fingerprint import ALL, EXCLUSIVE, fingerprint, listed_fingerprint
from numawise.codec.podresources import ListedContainer, ListedPod
from numawise.engine.state import Block

FIVE = (("ns1", "n1"), ("ns1", "n2"), ("ns2", "n1"), ("ns3", "n1"), ("ns3", "n2"))


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        # published by the module's own status example, and by resource-topology-exporter for one pod
        pytest.param(FIVE, "pfp0v001b92008c14168b3a6", id="five pods"),
        pytest.param(FIVE[::-1], "pfp0v001b92008c14168b3a6", id="in any order"),
        pytest.param((("default", "test-pod-0"),), "pfp0v001fe53c4dbd2c5f4a0", id="one pod"),
        pytest.param((), "pfp0v001ef46db3751d8e999", id="XXH64 of nothing"),
    ],
)
def test_fingerprint(pods: tuple[tuple[str, str], ...], expected: str) -> None:
    assert fingerprint(pods) == expected


def test_pods_without_anything_of_their_own_do_not_count_where_that_is_asked() -> None:
    shares = ListedPod("ns1", "n1", {"c": ListedContainer()})
    owns = [
        ListedPod("ns1", "n2", {"c": ListedContainer(cpus=3)}),
        ListedPod("ns2", "n1", {"c": ListedContainer(devices={"x/gpu": frozenset({"g"})})}),
        ListedPod(
            "ns3", "n1", {"c": ListedContainer(), "d": ListedContainer(memory=(Block(1, "memory", 5),))}
        ),
    ]
    assert listed_fingerprint([shares, *owns], EXCLUSIVE) == listed_fingerprint(owns, ALL)
    assert listed_fingerprint([shares, *owns]) != listed_fingerprint(owns)
