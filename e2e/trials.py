# ruff: noqa: T201 - it prints what came out
"""Virtual nodes on a real control plane, scheduled by four schedulers: ``python -m e2e.trials [TRIAL…]``.

    mixed       1,000 pods of many shapes on 200 nodes of many kinds: refusals by scheduler, delays, losses, faults
    fleet       a trace of CI runners in compressed time: refusals and waiting by scheduler
    owners      runaway StatefulSets, Deployments and Jobs, without and with the healer
    throughput  pods a second beside an extender that says yes to all, at 500 and 5,000 nodes
    install     kustomize, Helm and numawise manifest; every program with exactly its rights, and refused all others
    node        one real kubelet in a virtual machine with two NUMA nodes (ten minutes; needs numa-vm)

Needs root (a network of its own), Go and Debian's package tools.  The first run builds Kubernetes, scheduler-plugins and the
kubelet's managers: twenty minutes of computing on two cores.  Nothing leaves the loopback.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.vm.__main__ import DEFAULT, ROOT

from e2e import fleet, healing, mixed, throughput
from e2e.build import RELEASE, CannotBuild, matching_scheduler, programs
from e2e.cluster import Api, ControlPlane
from e2e.judged import managers_program
from e2e.mixed import MixedRun
from e2e.schedulers import LEAST, MOST, OURS, PLUGINS, SCHEDULERS
from e2e.settings import Settings

INSIDE = "NUMAWISE_OWN_NETWORK"
SHARED_TRACE = ROOT.parent / "shared/data/fleet/runners.jsonl"
USUAL = ("mixed", "fleet", "owners", "throughput", "install")
MIXED = (
    MixedRun("least", LEAST),
    MixedRun("most", MOST),
    MixedRun("plugins", PLUGINS),
    MixedRun("ours", OURS),
    MixedRun("delay-1", OURS, delay=1),
    MixedRun("delay-5", OURS, delay=5),
    MixedRun("loss", OURS, delay=1, loss=0.3),
    MixedRun("pass", OURS, unpublished="pass", size=0.3),
    MixedRun("foreign", OURS, foreign=0.05, size=0.3),
    MixedRun("killed", OURS, kill=True, size=0.3),
    MixedRun("server", OURS, restart_server=True, size=0.3),
    MixedRun("two", OURS, schedulers=2, size=0.3),
    MixedRun("malicious", OURS, malicious=True, size=0.3),
)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m e2e.trials",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "trials", nargs="*", help=f"which ({', '.join((*USUAL, 'node'))}); none: all but node"
    )
    home = os.environ.get("NUMAWISE_CLUSTER") or str(Path.home() / ".cache/numawise-cluster")
    parser.add_argument("--programs", default=home, help="where programs are kept (NUMAWISE_CLUSTER)")
    parser.add_argument("--out", default="e2e-cluster", help="where figures and logs go (%(default)s)")
    parser.add_argument("--only", nargs="*", default=[], help="these runs of a trial, by name")
    parser.add_argument("--seed", type=int, default=1, help="(%(default)s)")
    parser.add_argument("--nodes", type=int, default=200, help="of mixed (%(default)s)")
    parser.add_argument("--pods", type=int, default=1000, help="of mixed and throughput (%(default)s)")
    parser.add_argument("--trace", help="of fleet: JSON lines (made up by the seed when there is none)")
    parser.add_argument("--factor", type=float, default=120, help="of fleet: so much faster (%(default)s)")
    parser.add_argument("--sizes", type=int, nargs="*", default=[500, 5000], help="nodes of throughput")
    parser.add_argument("--vm", default=os.environ.get("NUMAWISE_VM") or str(DEFAULT), help="numa-vm")
    chosen = parser.parse_args()
    chosen.trials = chosen.trials or list(USUAL)
    for name in chosen.trials:
        if name not in (*USUAL, "node"):
            parser.error(f"{name} is no trial; take {', '.join((*USUAL, 'node'))}")
    if chosen.trace and not Path(chosen.trace).is_file():
        parser.error(f"--trace: there is no file {chosen.trace}")
    if os.geteuid() != 0:
        parser.error("it needs a network of its own; run it as root")
    return chosen


def main() -> int:
    chosen = arguments()
    cache = Path(chosen.programs).resolve()
    try:
        place, matching = programs(cache, RELEASE), matching_scheduler(cache)
        managers_program(cache, RELEASE)
    except CannotBuild as problem:
        print(problem, file=sys.stderr)
        return 2
    if os.environ.get(INSIDE) is None:
        command = ["unshare", "-n", sys.executable, "-m", "e2e.trials", *sys.argv[1:]]
        os.chdir(ROOT)
        os.execvpe(command[0], command, {**os.environ, INSIDE: "1"})
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is ended on the way out
    out = Path(chosen.out).resolve()
    out.mkdir(parents=True, exist_ok=True)
    trace = chosen.trace or (SHARED_TRACE if SHARED_TRACE.is_file() else None)
    with tempfile.TemporaryDirectory(prefix="numawise-trials-") as scratch:
        settings = Settings(
            programs=place,
            cache=cache,
            scratch=Path(scratch),
            out=out,
            matching=matching,
            seed=chosen.seed,
            nodes=chosen.nodes,
            pods=chosen.pods,
            trace=Path(trace) if trace else None,
            factor=chosen.factor,
            only=tuple(chosen.only),
            sizes=tuple(chosen.sizes),
        )
        wrong = [name for name in chosen.trials if not TRIALS[name](settings)]
    print(f"\nfigures: {out}; not as it should be: {', '.join(wrong) or 'nothing'}")
    return int(bool(wrong))


def each(
    settings: Settings, trial: str, runs: Sequence[tuple[str, Callable[[], dict[str, Any]]]]
) -> list[dict[str, Any]]:
    """Run after run; what one left is kept, and a run that broke is said."""
    file, results = settings.out / f"{trial}.json", []
    names = [name for name, _ in runs]
    if settings.only and not set(settings.only) & set(names):
        sys.exit(f"{trial} has no run {', '.join(settings.only)}; it has {', '.join(names)}")
    for name, run in runs:
        if settings.only and name not in settings.only:
            continue
        print(f"{time.strftime('%H:%M:%S')} {trial}: {name}", flush=True)
        try:
            result = {"name": name, **run()}
        except Exception as problem:  # noqa: BLE001 - the others are still run
            traceback.print_exc()
            result = {"name": name, "broke": repr(problem)}
        for log in settings.scratch.glob("*/*.log"):
            target = settings.out / trial / log.parent.name
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(log, target)
        for folder in settings.scratch.iterdir():
            shutil.rmtree(folder, ignore_errors=True)
        results.append(result)
        kept = json.loads(file.read_text()) if file.exists() else []
        kept = [one for one in kept if one["name"] != name] + [result]
        file.write_text(json.dumps(kept, indent=1) + "\n")
    return results


def mixed_trial(settings: Settings) -> bool:
    """Right when ours was refused nothing but where its extender was away, or somebody else bound pods."""
    runs = [(run.name, lambda run=run: mixed.mixed_run(settings, run)) for run in MIXED]
    results = each(settings, "mixed", runs)
    whole = [result for result in results if "broke" not in result]
    print(mixed.table(whole))
    for result in whole:
        for words in (*result["refused_examples"][:3], *result["waiting_examples"][:3]):
            print(f"    {result['name']}: {words}")
        for words in result["replayed"]["differences"][:3]:
            print(f"    {result['name']}: {words}")
    ours = [result for result in whole if result["scheduler"] == OURS]
    return len(whole) == len(results) and all(map(mixed.is_right, ours))


def fleet_trial(settings: Settings) -> bool:
    """Right when ours was refused nothing."""
    runs = [(kind, lambda kind=kind: fleet.fleet_run(settings, kind)) for kind in SCHEDULERS]
    results = each(settings, "fleet", runs)
    whole = [result for result in results if "broke" not in result]
    offline = fleet.simulated(settings)
    (settings.out / "fleet-simulated.json").write_text(json.dumps(offline, indent=1) + "\n")
    print(fleet.table(whole), fleet.simulated_table(offline), sep="\n\n")
    ours = [result for result in whole if result["scheduler"] == OURS]
    return len(whole) == len(results) and all(result["refusals"] == 0 for result in ours)


def throughput_trial(settings: Settings) -> bool:
    """Right when ours is at most a fifth slower."""
    runs = [(str(size), lambda size=size: throughput.measured(settings, size)) for size in settings.sizes]
    results = each(settings, "throughput", runs)
    print(throughput.table([result for result in results if "broke" not in result]))
    return all(result.get("ratio", 0) >= throughput.GOAL for result in results)


def owners_trial(settings: Settings) -> bool:
    """Right when the healer breaks the loops, says why, and the pods run once there is room."""
    folder = settings.scratch / "owners"
    folder.mkdir()
    with ControlPlane(settings.programs, folder):
        tallies = healing.runaway_owners(Api("127.0.0.1"), folder)
    for path in (*folder.glob("*.log"), folder / "audit.jsonl"):
        (settings.out / "owners").mkdir(exist_ok=True)
        shutil.copy(path, settings.out / "owners")
    (settings.out / "owners.json").write_text(
        json.dumps([asdict(tally) for tally in tallies], indent=1) + "\n"
    )
    wrong = healing.problems(tallies, folder)
    print(healing.report(tallies), *wrong, sep="\n")
    return not wrong


def install_trial(settings: Settings) -> bool:
    """What is installed, and what it may do."""
    from e2e import installing  # noqa: PLC0415 - it builds Helm

    return installing.trial(settings)


def node_trial(settings: Settings) -> bool:
    """One real kubelet among virtual nodes."""
    from e2e import real_node  # noqa: PLC0415 - it needs a virtual machine

    return bool(real_node.trial(settings))


TRIALS: dict[str, Callable[[Settings], bool]] = {
    "mixed": mixed_trial,
    "fleet": fleet_trial,
    "owners": owners_trial,
    "throughput": throughput_trial,
    "install": install_trial,
    "node": node_trial,
}

if __name__ == "__main__":
    sys.exit(main())
