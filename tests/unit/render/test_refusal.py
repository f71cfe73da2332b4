"""What a node lacks, in words that are the same for nodes with the same reason."""

import pytest

from numawise.cluster.asking import Asker, members_of
from numawise.engine.predicates import Insufficient
from numawise.explain.case import case_of
from numawise.explain.explain import explain
from numawise.render.cluster import refusal_group
from numawise.render.refusal import lacking_text, short_text
from tests.unit.cluster.nodes import GPU, gpu_pod, kubelet, put


@pytest.mark.parametrize(("load", "pod", "config", "text"), [
    ((3, 3),    (2, "1"),  {}, f"no NUMA node has 2 {GPU} free"),
    ((3, 3),    (8, "1"),  {}, f"no NUMA node has 8 {GPU} even when idle"),
    ((2, 3),    (4, "1"),  {}, f"no NUMA node has 4 {GPU} free"),
    ((),        (8, "1"),  {}, f"no NUMA node has 8 {GPU} even when idle"),
    ((),        (1, "9"),  {}, "no NUMA node has 9 CPUs even when idle"),
    ((),        (1, "99"), {}, "no NUMA node has 99 CPUs even when idle"),
    ((),        (1, "15500m"), {}, "it has too little CPU even when idle"),
    ((4,),      (1, "8"),  {"topologyManagerPolicy": "restricted"},
     "the NUMA nodes that restricted allows do not have 8 CPUs even when idle"),
])  # fmt: skip
def test_words(load: tuple[int, ...], pod: tuple[int, str], config: dict[str, str], text: str) -> None:
    members = members_of([(["n"], kubelet(**config))])
    for number, gpus in enumerate(load):
        put(Asker(members), members[0], gpu_pod(f"p{number}", gpus))
    explanation = explain(case_of(members[0].node, gpu_pod("w", *pod)), suggest=False)
    assert lacking_text(explanation) == text
    assert refusal_group(explanation).endswith(text)


def test_sums_that_the_kubelet_refuses_for() -> None:
    members = members_of([(["n"], kubelet())])
    put(Asker(members), members[0], gpu_pod("p", 0, "9500m"))
    explanation = explain(case_of(members[0].node, gpu_pod("w", 0, "5500m")), suggest=False)
    assert explanation.reason == "OutOfcpu"
    assert lacking_text(explanation) == "it has less than 5500m CPUs left, by sums"


@pytest.mark.parametrize(("short", "text"), [
    (Insufficient("cpu", 1000, 0, 500),              "it has less than 1 CPU left, by sums"),
    (Insufficient("cpu", 1500, 0, 500),              "it has less than 1500m CPUs left, by sums"),
    (Insufficient("memory", 1 << 30, 0, 5),          "it has less than 1 GiB of memory left, by sums"),
    (Insufficient(GPU, 2, 7, 8),                     f"it has fewer than 2 {GPU} left"),
    (Insufficient(GPU, 2, 0, 0),                     f"it has no {GPU}"),
    (Insufficient("pods", 1, 110, 110),              "it has as many pods as it takes"),
])  # fmt: skip
def test_sums(short: Insufficient, text: str) -> None:
    assert short_text(short) == text
