import pytest

from numawise.rules.gates import resolve_gates
from numawise.rules.model import CpuOptions
from numawise.rules.options import (
    ACROSS_CORES,
    ACROSS_NUMA,
    BY_SOCKET,
    BY_UNCORE,
    CLOSEST,
    CPU_FIELDS,
    CPU_MATURITY,
    FULL_CORES,
    MOST_NUMA,
    STRICT,
    TOPOLOGY_MATURITY,
    Maturity,
    TopologyOptions,
    cpu_options,
    maturity,
    topology_options,
    ungated,
)

UNKNOWN = "unknown CPU Manager Policy option"
CPU_LEVEL = 'CPU Manager Policy {}-level Options not enabled, but option "{}" provided'
TOPOLOGY_LEVEL = 'opology {}anager {}olicy {}-level {}ptions not enabled, but option "{}" provided'


def gates(version: tuple[int, int], text: str = "") -> dict[str, bool]:
    found = resolve_gates({word[1:]: word[0] == "+" for word in text.split()}, version)
    assert not isinstance(found, str), found
    return dict(found)


def minor(number: int) -> tuple[int, int]:
    return 1, number


# fmt: off
@pytest.mark.parametrize(("option", "levels"), [
    # the level in                 1.21 1.22 1.23 1.25 1.26 1.28 1.31 1.32 1.33 1.34 1.35 1.36 1.37
    pytest.param(FULL_CORES,      "-    A    B    B    B    B    B    B    S    S    S    S    S", id=FULL_CORES),
    pytest.param(ACROSS_NUMA,     "-    -    A    A    A    A    A    A    B    B    B    B    B", id=ACROSS_NUMA),
    pytest.param(BY_SOCKET,       "-    -    -    A    A    A    A    A    A    A    A    A    A", id=BY_SOCKET),
    pytest.param(ACROSS_CORES,    "-    -    -    -    -    -    A    A    A    A    A    A    A", id=ACROSS_CORES),
    pytest.param(STRICT,          "-    -    -    -    -    -    -    A    B    B    S    S    S", id=STRICT),
    pytest.param(BY_UNCORE,       "-    -    -    -    -    -    -    A    A    B    B    S    S", id=BY_UNCORE),
    pytest.param(CLOSEST,         "-    -    -    -    A    B    B    S    S    S    S    S    S", id=CLOSEST),
    pytest.param(MOST_NUMA,       "-    -    -    -    -    -    B    B    B    B    S    S    S", id=MOST_NUMA),
])
def test_levels(option: str, levels: str) -> None:
    history = {**CPU_MATURITY, **TOPOLOGY_MATURITY}[option]
    found = [maturity(history, minor(n)) for n in (21, 22, 23, 25, 26, 28, 31, 32, 33, 34, 35, 36, 37)]
    assert [level.value[0] if level else "-" for level in found] == levels.split()


@pytest.mark.parametrize(("number", "given", "switched", "message"), [
    (22, {FULL_CORES: "true"},   "",                                None),
    (22, {"full-pcpus": "true"}, "",                                'unsupported cpumanager option: "full-pcpus" (true)'),
    (23, {"full-pcpus": "true"}, "",                                f'{UNKNOWN}: "full-pcpus"'),
    (23, {FULL_CORES: "true"},   "",                                None),
    (23, {FULL_CORES: "true"},   "-CPUManagerPolicyBetaOptions",    CPU_LEVEL.format("Beta", FULL_CORES)),
    (31, {ACROSS_NUMA: "true"},  "-CPUManagerPolicyBetaOptions",    CPU_LEVEL.format("Alpha", ACROSS_NUMA)),
    (31, {ACROSS_NUMA: "true"},  "+CPUManagerPolicyAlphaOptions",   None),
    (33, {ACROSS_NUMA: "true"},  "-CPUManagerPolicyBetaOptions",    CPU_LEVEL.format("Beta", ACROSS_NUMA)),
    (33, {FULL_CORES: "true"},   "-CPUManagerPolicyBetaOptions",    None),
    (31, {STRICT: "true"},       "+CPUManagerPolicyAlphaOptions",   f'{UNKNOWN}: "{STRICT}"'),
    (32, {STRICT: "true"},       "",                                CPU_LEVEL.format("Alpha", STRICT)),
    (34, {STRICT: "true"},       "",                                None),
    (35, {STRICT: "true"},       "-CPUManagerPolicyBetaOptions",    None),
    (36, {BY_UNCORE: "x"},       "",                                f'bad value for option "{BY_UNCORE}": strconv.ParseBool: parsing "x": invalid syntax'),
])
def test_cpu_options(number: int, given: dict[str, str], switched: str, message: str | None) -> None:
    found = cpu_options(given, gates(minor(number), switched), minor(number))
    (name,) = given
    assert found == (message or CpuOptions(**{CPU_FIELDS[name]: True}))


@pytest.mark.parametrize(("number", "given", "switched", "message"), [
    (25, {CLOSEST: "true"}, "",                                      f'unknown Topology Manager Policy option: "{CLOSEST}"'),
    (27, {CLOSEST: "true"}, "",                                      "T" + TOPOLOGY_LEVEL.format("M", "P", "Alpha", "O", CLOSEST)),
    (27, {CLOSEST: "true"}, "+TopologyManagerPolicyAlphaOptions",    None),
    (28, {CLOSEST: "true"}, "-TopologyManagerPolicyBetaOptions",     "T" + TOPOLOGY_LEVEL.format("M", "P", "Beta", "O", CLOSEST)),
    (30, {MOST_NUMA: "9"},  "",                                      f'unknown Topology Manager Policy option: "{MOST_NUMA}"'),
    (32, {MOST_NUMA: "9"},  "-TopologyManagerPolicyBetaOptions",     "T" + TOPOLOGY_LEVEL.format("M", "P", "Beta", "O", MOST_NUMA)),
    (33, {MOST_NUMA: "9"},  "-TopologyManagerPolicyBetaOptions",     "t" + TOPOLOGY_LEVEL.format("m", "p", "beta", "o", MOST_NUMA)),
    (35, {MOST_NUMA: "9"},  "-TopologyManagerPolicyBetaOptions",     None),
    (36, {MOST_NUMA: "7"},  "",                                      f'the minimum value of "{MOST_NUMA}" should not be less than 8'),
])
def test_topology_options(number: int, given: dict[str, str], switched: str, message: str | None) -> None:
    found = topology_options(given, gates(minor(number), switched), minor(number))
    assert found == (message or TopologyOptions(CLOSEST in given, 9 if MOST_NUMA in given else 8))


NEEDS_CPU = 'CPU Manager policy options map[full-pcpus-only:true] require feature gates "CPUManager", "CPUManagerPolicyOptions" enabled'
NEEDS_TOPOLOGY = 'topology manager policy options map[prefer-closest-numa-nodes:true] require feature gates {}"TopologyManagerPolicyOptions" enabled'


@pytest.mark.parametrize(("number", "cpu", "topology", "switched", "message"), [
    pytest.param(22, FULL_CORES, "",      "",                              NEEDS_CPU, id="alpha, off by default"),
    pytest.param(22, FULL_CORES, "",      "+CPUManagerPolicyOptions",      "",        id="switched on"),
    pytest.param(22, FULL_CORES, "",      "-CPUManager",                   "",        id="no manager, no question"),
    pytest.param(31, FULL_CORES, CLOSEST, "-CPUManagerPolicyOptions -TopologyManagerPolicyOptions", NEEDS_CPU, id="CPUs first"),
    pytest.param(33, FULL_CORES, "",      "",                              "",        id="locked on"),
    pytest.param(26, "", CLOSEST,         "",                              NEEDS_TOPOLOGY.format('"TopologyManager", '), id="named twice"),
    pytest.param(27, "", CLOSEST,         "",                              NEEDS_TOPOLOGY.format(""), id="named once"),
    pytest.param(27, "", "prefer-close",  "",                              "",        id="the manager refuses unknown names"),
    pytest.param(35, "", CLOSEST,         "-TopologyManagerPolicyOptions", NEEDS_TOPOLOGY.format(""), id="switched off"),
    pytest.param(36, "", CLOSEST,         "",                              "",        id="on for good"),
])
def test_the_gate_for_all_options(number: int, cpu: str, topology: str, switched: str, message: str) -> None:
    options = [{name: "true"} if name else {} for name in (cpu, topology)]
    assert ungated(*options, gates(minor(number), switched), minor(number)) == message
# fmt: on


def test_levels_are_told_in_order() -> None:
    assert [level.value for level in Maturity] == ["Alpha", "Beta", "Stable"]
