"""Does every machine get a configuration that starts? ``python -m tests.plan [DIR]`` plans for all below DIR.

Reads the machines of every recorded set (sysfs trees, hwloc XML, nvidia-smi and ROCm matrices, NCCL topologies,
lscpu and numactl prints, kubelet machine files), plans a configuration for each goal and several releases, and
lets the simulated kubelet start with it.  Then the file is read again as a person would have it, and the
linter must find no error.

Exit status: 0 all is well, 1 something is not, 2 nothing to look at.
"""

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from numawise.apps.check.lint import lint
from numawise.apps.plan.kubelet import plan_kubelet
from numawise.codec.document import read_documents
from numawise.codec.hardware.assume import assumed
from numawise.codec.kubelet.config import unknown_fields
from numawise.codec.machine import decode_machine, encode_machine
from numawise.errors import NumawiseError
from numawise.host.discover import read_hardware
from numawise.inputs.machine import discover
from numawise.machine.catalog import CATALOG, machine_named
from numawise.machine.hardware import Hardware, hardware_of
from numawise.machine.kubelet_view import kubelet_view
from numawise.machine.model import Machine
from numawise.node.node import Files, boot
from numawise.render.plan import kubelet_plan_data, kubelet_plan_yaml
from numawise.results.finding import Severity
from numawise.results.plan import GOALS, PlanGoal
from numawise.rules.check import Refusal
from numawise.rules.versions import NEWEST, Version, shown
from tests.check.folder import named
from tests.machines.sysfs import unpacked

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared" / "data"
VERSIONS: tuple[Version, ...] = ((1, 20), (1, 21), (1, 24), (1, 27), (1, 31), (1, 33), (1, 36), NEWEST)
TEXTS = ("hwloc-xml", "nvidia-topo", "rocm-topo", "nccl-topo", "lscpu", "numactl")
SHOWN = 12


@dataclass(frozen=True, slots=True)
class Given:
    """A machine to plan for."""

    name: str
    machine: Machine
    hardware: Hardware


@dataclass(slots=True)
class Tally:
    """What came of many machines."""

    machines: int = 0
    not_known: int = 0
    plans: int = 0
    choices: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        self.machines += other.machines
        self.not_known += other.not_known
        self.plans += other.plans
        self.choices += other.choices
        self.problems += other.problems


# --- machines ------------------------------------------------------------------------------------


def sources(folder: Path) -> Iterator[tuple[str, Path]]:
    """Every recorded machine below a folder: its kind and where it lies."""
    for golden in sorted(folder.glob("**/golden.json")):
        if "tree" in json.loads(golden.read_text()):
            yield "sysfs", golden.parent
    for path in sorted(folder.glob("**/*.xml")):
        if path.name != "hwloc.xml":
            yield "text", path
    for kind in TEXTS:
        for path in sorted(folder.glob(f"**/{kind}/*.txt")):
            yield "text", path
    for path in sorted(folder.glob("**/machine.yaml")):
        yield "machine", path


def hardware_from(kind: str, path: Path) -> Hardware | Machine:
    if kind == "machine":
        return decode_machine(read_documents(path.read_bytes(), str(path))[0])
    if kind == "sysfs":
        with unpacked(path, json.loads((path / "golden.json").read_text())) as root:
            return read_hardware(root)
    return discover(None, (str(path),), assume=True)


def machine_from(kind: str, path: Path) -> Given | None:
    """The machine as a kubelet would see it; None where too little is known for that."""
    name = f"{path.parent.name}/{path.name}"
    try:
        found = hardware_from(kind, path)
    except NumawiseError:
        return None
    if isinstance(found, Machine):
        return Given(name, found, hardware_of(found, name))
    seen = kubelet_view(found)
    if isinstance(seen, tuple):
        seen = kubelet_view(assumed(found))
    return Given(name, seen, found) if isinstance(seen, Machine) else None


def catalogue() -> Iterator[Given]:
    for name in CATALOG:
        hardware = machine_named(name)
        seen = kubelet_view(hardware)
        assert isinstance(seen, Machine)
        yield Given(name, seen, hardware)


# --- judging -------------------------------------------------------------------------------------


def problem_with(given: Given, wish: PlanGoal) -> tuple[str, str]:
    """What is wrong with the plan for a machine, and the policies that were chosen."""
    plan = plan_kubelet(given.machine, wish, given.hardware)
    text = kubelet_plan_yaml(plan, given.hardware)
    document = read_documents(text, "kubelet.yaml")[0]
    assert isinstance(document.value, dict)
    config = document.value
    chosen = f"{config['cpuManagerPolicy']}/{config['topologyManagerPolicy']}/{config.get('memoryManagerPolicy', '-')}"
    if config != kubelet_plan_data(plan, given.hardware)["configuration"]:
        return "the YAML is not what the plan says", chosen
    ignored = unknown_fields(config, wish.version)
    if ignored:
        return ignored[0], chosen
    node = boot(given.machine, config, Files(), version=wish.version)
    if isinstance(node, Refusal):
        return f"does not start ({node.stage}): {node.message}", chosen
    if "refused" in plan.trial:
        return plan.trial, chosen
    return next(iter(lint_errors(text, given, wish.version)), ""), chosen


def without_odd_distances(machine: Machine) -> Machine:
    """A machine file has a distance for each NUMA node; a machine with nodes that are not there has more."""
    if all(len(numa.distances) in (0, len(machine.numa)) for numa in machine.numa):
        return machine
    return replace(machine, numa=tuple(replace(numa, distances=()) for numa in machine.numa))


def lint_errors(text: str, given: Given, version: Version) -> tuple[str, ...]:
    """What the linter calls an error in a configuration."""
    with tempfile.TemporaryDirectory(prefix="numawise-") as scratch:
        config, machine = Path(scratch, "kubelet.yaml"), Path(scratch, "machine.json")
        config.write_text(text)
        machine.write_text(json.dumps(encode_machine(without_odd_distances(given.machine))))
        report = lint(**named(configs=(str(config),), machines=(str(machine),), version=version))
    return tuple(f"{one.code}: {one.message}" for one in report.findings if one.severity is Severity.ERROR)


def judged(source: tuple[str, Path]) -> Tally:
    given = machine_from(*source)
    if given is None:
        return Tally(not_known=1)
    return judged_machine(given)


def judged_machine(given: Given, versions: Sequence[Version] = VERSIONS) -> Tally:
    tally = Tally(machines=1)
    for version in versions:
        for goal in GOALS:
            tally.plans += 1
            where = f"{given.name} {goal} {shown(version)}"
            try:
                problem, chosen = problem_with(given, PlanGoal(goal, version))
            except NumawiseError as error:
                problem, chosen = str(error), "no plan"
            tally.choices[chosen] += 1
            if problem:
                tally.problems.append(f"{where}: {problem}")
    return tally


def main(arguments: Sequence[str]) -> int:
    """Plan for all machines."""
    parser = argparse.ArgumentParser(prog="python -m tests.plan", description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", default=[str(SHARED), str(ROOT / "examples")])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    found = [source for folder in options.folders for source in sources(Path(folder))]
    if not found:
        sys.stderr.write(f"no machines in {', '.join(options.folders)}\n")
        return 2
    total = Tally()
    for given in catalogue():
        total.add(judged_machine(given))
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        for one in pool.imap_unordered(judged, found, chunksize=4):
            total.add(one)
    _print(f"{total.machines} machines, {total.not_known} of which too little is known")
    for chosen, count in total.choices.most_common():
        _print(f"  {count:6}  {chosen}")
    for problem in total.problems[:SHOWN]:
        _print(f"  ! {problem}")
    _print(f"{total.plans} plans, {len(total.problems)} with a problem")
    return 1 if total.problems else 0


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
