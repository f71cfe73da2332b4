"""Settings of a kubelet as a form shows them: nothing that the tables have is missing, and nothing else is there."""

import re
from pathlib import Path

import pytest

from numawise.codec.kubelet.fields import configuration_of
from numawise.codec.kubelet.settings import _words, field_names, kubelet_settings
from numawise.engine import start
from numawise.engine.start import MANAGER_GATES
from numawise.results.settings import KubeletSetting
from numawise.rules.gates import WHOLE_STAGE, gates_of
from numawise.rules.options import CPU_MATURITY, TOPOLOGY_MATURITY, cpu_options, maturity, topology_options
from numawise.rules.versions import NEWEST, OLDEST, Version

RELEASES = [(1, minor) for minor in range(OLDEST[1], NEWEST[1] + 1)]


def named(version: Version) -> dict[str, KubeletSetting]:
    return {".".join(one.path): one for one in kubelet_settings(version).settings}


def test_every_setting_has_its_sentence_and_no_sentence_is_left_over() -> None:
    assert set(_words("fields")) == set(field_names())
    assert set(_words("options")) == {*CPU_MATURITY, *TOPOLOGY_MATURITY}
    every = {name for version in RELEASES for name in gates_of(version)}
    assert set(_words("gates")) <= every
    assert set(MANAGER_GATES) <= set(_words("gates"))
    engine = Path(start.__file__).read_text()
    asked = set(re.findall(r'gates\.get\(\s*"(\w+)"', engine))
    assert len(asked) > 10
    assert asked <= set(_words("gates"))
    for version in RELEASES:
        for name, one in named(version).items():
            assert one.words or one.minor, name


@pytest.mark.parametrize("version", RELEASES)
def test_a_release_has_what_its_tables_say(version: Version) -> None:
    found = named(version)
    known = configuration_of(version).fields
    assert {name.split(".")[0] for name in found} <= set(known)
    assert {name for name in field_names() if name.split(".")[0] in known} <= set(found)
    gates = {one.path[1] for one in found.values() if one.path[0] == "featureGates" and len(one.path) > 1}
    assert gates == set(gates_of(version)) - set(WHOLE_STAGE)
    options = {
        one.path[1] for one in found.values() if one.path[0].endswith("PolicyOptions") and len(one.path) > 1
    }
    every = {**CPU_MATURITY, **(TOPOLOGY_MATURITY if "topologyManagerPolicyOptions" in known else {})}
    wanted = {name for name, history in every.items() if maturity(history, version)}
    assert options == wanted


@pytest.mark.parametrize("version", [(1, 23), (1, 30), (1, 36), (1, 37)])
def test_options_are_taken_exactly_with_the_gates_that_are_said(version: Version) -> None:
    for one in kubelet_settings(version).settings:
        if len(one.path) < 2 or not one.path[0].endswith("PolicyOptions"):
            continue
        value = "8" if one.kind == "number" else "true"
        read = cpu_options if one.path[0].startswith("cpu") else topology_options
        gates = dict.fromkeys(one.needs, True)
        assert not isinstance(read({one.path[1]: value}, gates, version), str), one.path
        levels = [name for name in one.needs if "AlphaOptions" in name or "BetaOptions" in name]
        for name in levels:
            assert isinstance(read({one.path[1]: value}, {**gates, name: False}, version), str), name
        for other in one.excludes:
            every = dict.fromkeys(("CPUManagerPolicyAlphaOptions", "CPUManagerPolicyBetaOptions"), True)
            assert isinstance(cpu_options({one.path[1]: "true", other: "true"}, every, version), str)


def test_defaults_and_values() -> None:
    found = named((1, 36))
    assert found["topologyManagerPolicy"].default == "none"
    assert [one.value for one in found["topologyManagerPolicy"].values][-1] == "single-numa-node"
    assert all(one.words for one in found["topologyManagerPolicy"].values)
    assert found["maxPods"].default == "110"
    assert "memory.available 100Mi" in found["evictionHard"].default
    assert found["featureGates.CPUManagerPolicyOptions"].locked
    assert not found["featureGates.CPUManagerPolicyAlphaOptions"].minor
    assert found["cpuManagerPolicyOptions.full-pcpus-only"].quoted
    assert "memoryManagerPolicy" not in named((1, 20))
    assert [one.value for one in named((1, 29))["memorySwap.swapBehavior"].values] == [
        "LimitedSwap",
        "UnlimitedSwap",
    ]
