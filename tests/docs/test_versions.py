"""The page about releases is made from the code: ``python tests/docs/test_versions.py`` writes it."""

import ast
import inspect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from numawise.codec.kubeletfields import ADDED
from numawise.rules import versions
from numawise.rules.gates import Gate, gates_of, needs_of
from numawise.rules.options import CPU_MATURITY, TOPOLOGY_MATURITY, History, Maturity
from numawise.rules.versions import NEWEST, OLDEST, REFERENCE, SINCE, UNTIL, Behaviour, Manners, Version

PAGE = Path(__file__).parent.parent.parent / "docs" / "reference" / "versions.md"
RELEASES = [(1, minor) for minor in range(OLDEST[1], NEWEST[1] + 1)]
MANAGER_GATES = [
    "CPUManager",
    "CPUManagerPolicyOptions",
    "CPUManagerPolicyAlphaOptions",
    "CPUManagerPolicyBetaOptions",
    "TopologyManager",
    "TopologyManagerPolicyOptions",
    "TopologyManagerPolicyAlphaOptions",
    "TopologyManagerPolicyBetaOptions",
    "MemoryManager",
    "DevicePlugins",
    "SidecarContainers",
    "PodLevelResources",
    "PodLevelResourceManagers",
    "InPlacePodVerticalScaling",
    "InPlacePodVerticalScalingExclusiveCPUs",
    "InPlacePodVerticalScalingExclusiveMemory",
    "DisableCPUQuotaWithExclusiveCPUs",
]
INTRO = """# Releases

Made from the code by `python tests/docs/test_versions.py`.

`simulate --kube VERSION` and the field `kubernetes` of a recorded scenario choose the release. Known are
{oldest} to {newest}; {reference} is the reference. Recordings of real managers exist for 1.20, 1.27, 1.31 and
1.34 to 1.37; the configurations of all other releases come from the same tables. Each release stands for its
last patch.
"""
LIMITS = """## Not reproduced

- Up to 1.22, a configuration that cannot be decoded is refused at the same stage, but in the words of 1.23 and
  later; the older decoder told of byte offsets.
- 1.22 and 1.23 print a wrong `memoryThrottlingFactor` as an address in memory; here it is the number.
- What `cmd/kubelet` itself checks before the managers are built has the words of 1.27 and later in all releases:
  older ones left out `--kube-reserved value failed to parse` and the like. 1.20 and 1.21 refused reserved CPUs
  beyond the number of CPUs with `Invalid cpuset`; the recordings do not, and neither does this.
- An unknown topology option while `TopologyManagerPolicyOptions` is off is refused by its name, as recorded;
  `cmd/kubelet` would complain of the gate first, as it does of known options here.
- An empty map of policy options is taken for none, also where their gate is off.
- Managers whose own gate is off (`CPUManager` up to 1.25, `MemoryManager` up to 1.31) decide nothing, but their
  state files are written all the same. `DevicePlugins` is on always.
"""


def told(version: Version) -> str:
    return ".".join(map(str, version))


def holds(name: str) -> str:
    since, until = SINCE.get(name), UNTIL.get(name)
    if since and until:
        return f"{told(since)} to {told(until)}"
    return f"since {told(since)}" if since else f"until {told(until)}" if until else "always"


def described(kind: type) -> Mapping[str, str]:
    """The fields of a dataclass with the text below each."""
    (body,) = (
        node.body
        for node in ast.parse(inspect.getsource(versions)).body
        if isinstance(node, ast.ClassDef) and node.name == kind.__name__
    )
    found = {}
    for field, text in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            assert isinstance(text, ast.Expr)
            assert isinstance(text.value, ast.Constant)
            found[field.target.id] = " ".join(str(text.value.value).split()).replace("``", "`")
    return found


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def behaviours(kind: type) -> str:
    rows = [(f"`{name}`", text, holds(name)) for name, text in described(kind).items()]
    return table(("Name", "What holds", "In"), rows)


def options(manager: str, histories: Mapping[str, History]) -> Iterator[list[str]]:
    for name, history in histories.items():
        levels = {level: told(since) for since, level in history.items()}
        yield [f"`{name}`", manager, *(levels.get(level, "-") for level in Maturity)]


def gate_steps(name: str) -> Iterator[str]:
    before: Gate | None = None
    for version in RELEASES:
        gate = gates_of(version).get(name)
        if gate == before:
            continue
        if gate is None:
            yield f"{told(version)} gone"
        else:
            stage = gate.stage.lower() or "stable"
            yield f"{told(version)} {stage}, {'locked ' * gate.locked}{'on' if gate.default else 'off'}"
        before = gate


def page() -> str:
    fields = [
        (told(part.since), " ".join(f"`{name}`" for name in sorted(part.row)))
        for part in ADDED
        if part.since > OLDEST
    ]
    counts = [(told(v), str(len(gates_of(v))), str(len(needs_of(v)) or "-")) for v in RELEASES]
    gates = [(f"`{name}`", " · ".join(gate_steps(name))) for name in MANAGER_GATES]
    every_option = [*options("CPU", CPU_MATURITY), *options("Topology", TOPOLOGY_MATURITY)]
    parts = [
        INTRO.format(oldest=told(OLDEST), newest=told(NEWEST), reference=told(REFERENCE)),
        "## Decisions\n",
        behaviours(Behaviour),
        "## Configurations\n",
        behaviours(Manners),
        "What validation demands in a release are the rows of `CHECKS` in `rules/validate*.py` that hold in it.\n",
        "## Policy options\n",
        "Alpha and beta options need the gate of their level; an option exists from the first release named.\n",
        table(("Option", "Manager", *(level.value for level in Maturity)), every_option),
        "## Configuration fields\n",
        f"Fields that {told(OLDEST)} did not have, by the release that added them or changed their type.\n",
        table(("Release", "Fields"), fields),
        "## Feature gates\n",
        f"Those that the managers hang on; a step of {told(OLDEST)} may be older. The other gates are known too.\n",
        table(("Gate", "History"), gates),
        table(("Release", "Gates known", "of these with dependencies"), counts),
        LIMITS,
    ]
    return "\n".join(parts)


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_behaviour_has_its_words() -> None:
    for kind in (Behaviour, Manners):
        assert set(described(kind)) == {field.name for field in kind.__dataclass_fields__.values()}


def test_defaults_are_those_of_the_reference() -> None:
    assert versions.behaviour_of() == Behaviour()
    assert versions.manners_of() == Manners()


def test_tables_name_nothing_that_is_not_there() -> None:
    known = {*described(Behaviour), *described(Manners)}
    assert {*SINCE, *UNTIL} <= known


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
