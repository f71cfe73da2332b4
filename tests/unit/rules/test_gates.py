import itertools

import pytest

from numawise.datafile import data_lines
from numawise.rules import gates as subject
from numawise.rules.gates import (
    ALPHA,
    BETA,
    DEPRECATED,
    GATES,
    NEEDS,
    STABLE,
    Gate,
    gates_of,
    listed,
    needs_of,
    resolve_gates,
)
from numawise.rules.versions import NEWEST, OLDEST

RELEASES = [(1, number) for number in range(OLDEST[1], NEWEST[1] + 1)]


def gates(text: str) -> dict[str, bool]:
    """``+PodLevelResources -AllBeta``: switched on, switched off."""
    return {word[1:]: word[0] == "+" for word in text.split()}


# fmt: off
@pytest.mark.parametrize(("name", "gate"), [
    ("AllAlpha",                           Gate(ALPHA, default=False)),
    ("AllBeta",                            Gate(BETA, default=False)),
    ("CPUManagerPolicyAlphaOptions",       Gate(ALPHA, default=False)),
    ("CPUManagerPolicyBetaOptions",        Gate(BETA, default=True)),
    ("CPUManagerPolicyOptions",            Gate(STABLE, default=True, locked=True)),
    ("TopologyManagerPolicyAlphaOptions",  Gate(ALPHA, default=False)),
    ("TopologyManagerPolicyBetaOptions",   Gate(BETA, default=True)),
    ("TopologyManagerPolicyOptions",       Gate(STABLE, default=True, locked=True)),
    ("PodLevelResources",                  Gate(BETA, default=True)),
    ("PodLevelResourceManagers",           Gate(ALPHA, default=False)),
    ("SidecarContainers",                  Gate(STABLE, default=True, locked=True)),
    ("InPlacePodVerticalScaling",          Gate(STABLE, default=True, locked=True)),
    ("DisableCPUQuotaWithExclusiveCPUs",   Gate(DEPRECATED, default=True)),
    ("ResourceHealthStatus",               Gate(BETA, default=True)),
    ("WindowsCPUAndMemoryAffinity",        Gate(ALPHA, default=False)),
    ("CustomCPUCFSQuotaPeriod",            Gate(STABLE, default=True)),
    ("GitRepoVolumeDriver",                Gate(DEPRECATED, default=False, locked=True)),
    ("LoggingAlphaOptions",                Gate(ALPHA, default=False)),
])
def test_known_gates(name: str, gate: Gate) -> None:
    assert GATES[name] == gate


@pytest.mark.parametrize("name", ["CPUManager", "MemoryManager", "TopologyManager", "DevicePlugins"])
def test_removed_gates_are_not_recognised(name: str) -> None:
    assert resolve_gates({name: True}) == f"unrecognized feature gate: {name}"


@pytest.mark.parametrize(("given", "on", "off"), [
    pytest.param("",                          "PodLevelResources",            "PodLevelResourceManagers",      id="defaults"),
    pytest.param("+PodLevelResourceManagers", "PodLevelResourceManagers",     "AllAlpha",                      id="one switched on"),
    pytest.param("+CPUManagerPolicyOptions",  "CPUManagerPolicyOptions",      "CPUManagerPolicyAlphaOptions",  id="locked, but so it is"),
    pytest.param("+AllAlpha",                 "CPUManagerPolicyAlphaOptions", "ClusterTrustBundle",            id="all alpha"),
    pytest.param("+AllAlpha -EventedPLEG",    "MemoryQoS",                    "EventedPLEG",                   id="a name beats the whole stage"),
    pytest.param("-AllBeta",                  "CustomCPUCFSQuotaPeriod",      "CPUManagerPolicyBetaOptions",   id="no beta; stable ones stay"),
    pytest.param("+AllBeta",                  "ClusterTrustBundle",           "CPUManagerPolicyAlphaOptions",  id="all beta"),
    pytest.param("-AllBeta +ContextualLogging", "ContextualLogging",          "PodLevelResources",             id="a name beats no beta"),
])
def test_settled(given: str, on: str, off: str) -> None:
    found = resolve_gates(gates(given))
    assert not isinstance(found, str)
    assert (found[on], found[off]) == (True, False)


LOCKED = "cannot set feature gate {} to false, feature is locked to true"
DEPENDS = "{} is enabled, but depends on features that are disabled: [{}]"
NEEDED_ONE = DEPENDS.format("PodLevelResourceManagers", "PodLevelResources")


@pytest.mark.parametrize(("given", "message"), [
    pytest.param("+CPUManagerPolicyMagic", "unrecognized feature gate: CPUManagerPolicyMagic", id="unknown"),
    pytest.param("-Zebra -Ape",            "unrecognized feature gate: Ape",                   id="the first unknown ends it"),
    pytest.param("+cpuManagerPolicyOptions", "unrecognized feature gate: cpuManagerPolicyOptions", id="case matters"),
    pytest.param("-TopologyManagerPolicyOptions", LOCKED.format("TopologyManagerPolicyOptions"), id="locked"),
    pytest.param("+GitRepoVolumeDriver", "cannot set feature gate GitRepoVolumeDriver to true, feature is locked to false",
                 id="locked to off"),
    pytest.param("-SidecarContainers -ImageVolume",
                 f"[{LOCKED.format('ImageVolume')}, {LOCKED.format('SidecarContainers')}]", id="two locked, by name"),
    pytest.param("-ImageVolume +Zebra",
                 f"[{LOCKED.format('ImageVolume')}, unrecognized feature gate: Zebra]", id="locked, then unknown"),
    pytest.param("+PodLevelResourceManagers -PodLevelResources -InPlacePodLevelResourcesVerticalScaling",
                 DEPENDS.format("PodLevelResourceManagers", "PodLevelResources"), id="needs one that is off"),
    pytest.param("-PodLevelResources",
                 DEPENDS.format("InPlacePodLevelResourcesVerticalScaling", "PodLevelResources"), id="needed by a default"),
    pytest.param("+WorkloadAwarePreemption",
                 DEPENDS.format("WorkloadAwarePreemption", "GangScheduling"), id="needs an alpha gate"),
    pytest.param("-AllBeta +InPlacePodLevelResourcesVerticalScaling",
                 DEPENDS.format("InPlacePodLevelResourcesVerticalScaling", "NodeDeclaredFeatures PodLevelResources"),
                 id="needs two"),
    pytest.param("-AllBeta +PodLevelResourceManagers +StorageVersionAPI",
                 f"[{DEPENDS.format('PodLevelResourceManagers', 'PodLevelResources')}, "
                 f"{DEPENDS.format('StorageVersionAPI', 'APIServerIdentity')}]", id="two in need, by name"),
])
def test_refused(given: str, message: str) -> None:
    assert resolve_gates(gates(given)) == message


@pytest.mark.parametrize(("name", "number", "gate"), [
    ("CPUManager",                        20, Gate(BETA, default=True)),
    ("CPUManager",                        25, Gate(BETA, default=True)),
    ("CPUManager",                        26, Gate(STABLE, default=True, locked=True)),
    ("CPUManager",                        33, None),
    ("MemoryManager",                     20, None),
    ("MemoryManager",                     21, Gate(ALPHA, default=False)),
    ("MemoryManager",                     31, Gate(BETA, default=True)),
    ("MemoryManager",                     35, Gate(STABLE, default=True, locked=True)),
    ("TopologyManager",                   26, Gate(BETA, default=True)),
    ("TopologyManager",                   29, None),
    ("TopologyManagerPolicyOptions",      27, Gate(ALPHA, default=False)),
    ("TopologyManagerPolicyOptions",      35, Gate(STABLE, default=True)),
    ("TopologyManagerPolicyBetaOptions",  27, Gate(BETA, default=False)),
    ("PodLevelResources",                 31, None),
    ("PodLevelResources",                 33, Gate(ALPHA, default=False)),
    ("PodLevelResourceManagers",          37, Gate(BETA, default=False)),
    ("SidecarContainers",                 37, None),
])
def test_gates_of_other_releases(name: str, number: int, gate: Gate | None) -> None:
    assert gates_of((1, number)).get(name) == gate


@pytest.mark.parametrize(("number", "given", "message"), [
    pytest.param(20, "-TopologyManagerPolicyOptions", "unrecognized feature gate: TopologyManagerPolicyOptions", id="not yet there"),
    pytest.param(27, "-TopologyManagerPolicyOptions", None,                                                      id="alpha"),
    pytest.param(35, "-TopologyManagerPolicyOptions", None,                                                      id="stable, not locked"),
    pytest.param(37, "-TopologyManagerPolicyOptions", LOCKED.format("TopologyManagerPolicyOptions"),             id="locked"),
    pytest.param(30, "-CPUManager -ExecProbeTimeout", LOCKED.format("CPUManager"),                               id="only the first of two"),
    pytest.param(31, "-CPUManager -DevicePluginCDIDevices",
                 f"[{LOCKED.format('CPUManager')}, {LOCKED.format('DevicePluginCDIDevices')}]",                  id="both of them"),
    pytest.param(34, "-DynamicResourceAllocation",    None,                                                      id="no dependencies yet"),
    pytest.param(35, "+UserNamespacesHostNetworkSupport -NodeDeclaredFeatures", None,                            id="not dependent yet"),
    pytest.param(36, "+PodLevelResourceManagers -AllBeta", NEEDED_ONE,                                           id="dependent"),
])
def test_refused_by_other_releases(number: int, given: str, message: str | None) -> None:
    found = resolve_gates(gates(given), (1, number))
    assert (found if isinstance(found, str) else None) == message
# fmt: on


@pytest.mark.parametrize("version", RELEASES, ids=str)
def test_every_release_hangs_together(version: tuple[int, int]) -> None:
    known, needs = gates_of(version), needs_of(version)
    assert {*needs, *(name for needed in needs.values() for name in needed)} <= known.keys()
    assert resolve_gates({}, version) == {name: gate.default for name, gate in known.items()}
    assert all(isinstance(resolve_gates({name: gate.default}, version), dict) for name, gate in known.items())


def test_histories_are_well_formed() -> None:
    lines = [line.split() for line in data_lines(subject.__file__, "gates.txt")]
    assert [name for name, *_ in lines] == sorted({name for name, *_ in lines})
    for _, *steps in lines:
        numbers = [int(step[:2]) for step in steps]
        assert numbers == sorted(set(numbers))
        assert OLDEST[1] <= numbers[0] <= numbers[-1] <= NEWEST[1]
        assert all(one[2:] != other[2:] for one, other in itertools.pairwise(steps)), steps
        assert all(not step.endswith("x") for step in steps[:1])


def test_needs_are_in_order() -> None:
    names = [line.split() for line in data_lines(subject.__file__, "gate_needs.txt")]
    assert [name for name, *_ in names] == sorted({name for name, *_ in names})
    assert all(needed == sorted(needed) for _, *needed in names)


def test_the_table_hangs_together() -> None:
    assert len(GATES) == 242
    assert {*NEEDS, *(name for needed in NEEDS.values() for name in needed)} <= GATES.keys()
    assert all(list(needed) == sorted(needed) for needed in NEEDS.values())
    defaults = resolve_gates({})
    assert defaults == {name: gate.default for name, gate in GATES.items()}


def test_listed() -> None:
    assert listed(["one"]) == "one"
    assert listed(["one", "other"]) == "[one, other]"
    assert listed(["one", "one"]) == "one"
