import pytest

from numawise.rules.gates import ALPHA, BETA, DEPRECATED, GATES, NEEDS, STABLE, Gate, listed, resolve_gates


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
NEEDED = "{} is enabled, but depends on features that are disabled: [{}]"


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
                 NEEDED.format("PodLevelResourceManagers", "PodLevelResources"), id="needs one that is off"),
    pytest.param("-PodLevelResources",
                 NEEDED.format("InPlacePodLevelResourcesVerticalScaling", "PodLevelResources"), id="needed by a default"),
    pytest.param("+WorkloadAwarePreemption",
                 NEEDED.format("WorkloadAwarePreemption", "GangScheduling"), id="needs an alpha gate"),
    pytest.param("-AllBeta +InPlacePodLevelResourcesVerticalScaling",
                 NEEDED.format("InPlacePodLevelResourcesVerticalScaling", "NodeDeclaredFeatures PodLevelResources"),
                 id="needs two"),
    pytest.param("-AllBeta +PodLevelResourceManagers +StorageVersionAPI",
                 f"[{NEEDED.format('PodLevelResourceManagers', 'PodLevelResources')}, "
                 f"{NEEDED.format('StorageVersionAPI', 'APIServerIdentity')}]", id="two in need, by name"),
])
def test_refused(given: str, message: str) -> None:
    assert resolve_gates(gates(given)) == message
# fmt: on


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
