"""What the documentation says of releases is made from the code: ``python tests/docs/test_versions.py`` writes it."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path

from numawise.codec.kubelet.fields import ADDED
from numawise.rules.behaviour import WAYS, Behaviour, behaviour_of
from numawise.rules.gates import Gate, gates_of, needs_of
from numawise.rules.options import CPU_MATURITY, TOPOLOGY_MATURITY, History, Maturity
from numawise.rules.versions import CONFIGURATION_WAYS, NEWEST, OLDEST, REFERENCE, Manners, Way, manners_of
from numawise.rules.versions import shown as told

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE, FIDELITY = DOCS / "reference" / "versions.md", DOCS / "fidelity.md"
BEGIN, END = "<!-- made by tests/docs/test_versions.py -->\n", "<!-- end of what is made -->\n"
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
{oldest} to {newest}; {reference} is the reference. A newer version is treated as {newest}, with a remark; an older one is
refused. Recordings of real managers exist for 1.20, 1.27, 1.31 and 1.34 to 1.37; the other releases follow from the
same tables, see [Fidelity](../fidelity.md). Each release stands for its last patch. [What an upgrade
changes](../how-to/upgrade-a-node.md) for given pods is computed from these rows.
"""
LIMITS = """## Not reproduced

- Up to 1.21 a comparison of cores contradicts itself, so that which CPUs are taken hangs on Go's sort; it is the sort of
  Go 1.19 and later that is followed here, which the recordings were built with, not that of Go 1.15. Where even the
  order of a Go map comes in, the finding `socket-order-by-chance` says so.
- Up to 1.21, which NUMA node counts of a device on several hangs on the order of a Go map, too; here it is the likeliest.
- Up to 1.22, a configuration that cannot be decoded is refused at the same stage, but in the words of 1.23 and
  later; the older decoder named byte offsets.
- 1.22 and 1.23 print a wrong `memoryThrottlingFactor` as an address in memory; here it is the number.
- What `cmd/kubelet` itself checks before the managers are built has the words of 1.27 and later in all releases:
  older ones left out `--kube-reserved value failed to parse` and the like. 1.20 and 1.21 refused reserved CPUs
  beyond the number of CPUs with `Invalid cpuset`; the recordings do not, and neither does this.
- An unknown topology option while `TopologyManagerPolicyOptions` is off is refused by its name, as recorded;
  `cmd/kubelet` would complain of the gate first, as it does of known options here.
- An empty map of policy options counts as none, also where their gate is off.
- From 1.37 on the API server also fills in pod-level limits of CPU and memory where every container has one (gate
  `PodLevelResourcesFixDefaulting`); here, as before 1.37, only those of huge pages are filled in.
"""


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def behaviours(ways: Iterable[Way]) -> str:
    return table(("Name", "What holds", "In"), [(f"`{way.name}`", way.says, way.span) for way in ways])


def columns(ways: Iterable[Way]) -> str:
    """The profiles as a table: a column a release."""
    head = ("", *(told(version) for version in RELEASES))
    rows = [(f"`{way.name}`", *("●" if way.holds(version) else "" for version in RELEASES)) for way in ways]
    return table(head, rows)


def fidelity_part() -> str:
    """The rows of the fidelity table that are about behaviours."""
    rows = [(f"`{way.name}`: {way.says}", way.span, "same") for way in WAYS]
    return table(("Behaviour", "Holds", "Status"), rows)


def with_part(page_text: str, part: str) -> str:
    """A page with the part between the two marks made anew."""
    before, _, rest = page_text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{part}\n{END}{after}"


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
        behaviours(WAYS),
        "The same as columns, one a release:\n",
        columns(WAYS),
        "## Configurations\n",
        behaviours(CONFIGURATION_WAYS),
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


def test_the_fidelity_table_is_up_to_date() -> None:
    text = FIDELITY.read_text(encoding="utf-8")
    assert text == with_part(text, fidelity_part())


def test_every_behaviour_has_its_row() -> None:
    assert [way.name for way in WAYS] == [field.name for field in fields(Behaviour)]
    assert [way.name for way in CONFIGURATION_WAYS] == [field.name for field in fields(Manners)]
    for way in (*WAYS, *CONFIGURATION_WAYS):
        assert way.says.endswith(".")
        assert len({way.holds(version) for version in RELEASES}) == 2, f"{way.name} tells no releases apart"


def test_defaults_are_those_of_the_reference() -> None:
    assert behaviour_of() == Behaviour()
    assert manners_of() == Manners()


def test_the_page_on_upgrades_shows_real_output(tmp_path: Path) -> None:
    text = (DOCS / "how-to" / "upgrade-a-node.md").read_text(encoding="utf-8")
    kubelet, pod = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (session,) = re.findall(r"```console\n\$ (numawise.*?)```", text, re.DOTALL)
    command, _, output = session.partition("\n")
    machine = DOCS.parent / "examples" / "3gpu-server" / "machine.yaml"
    (tmp_path / "machine.yaml").write_bytes(machine.read_bytes())
    (tmp_path / "kubelet.yaml").write_text(kubelet)
    (tmp_path / "pod.yaml").write_text(pod)
    words = [sys.executable, "-m", *shlex.split(command)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == (output, "", 1)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    FIDELITY.write_text(with_part(FIDELITY.read_text(encoding="utf-8"), fidelity_part()), encoding="utf-8")
