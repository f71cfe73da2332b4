# ruff: noqa: T201 - it prints what came out
"""A real kubelet in a virtual machine with two NUMA nodes: what comes of pods, compared with what was predicted.

    python -m e2e node
    python -m e2e --programs DIR switch
    python -m e2e --programs DIR --out DIR single-pcpus

Needs root (a network of its own), Go, Debian's package tools and numa-vm.  The first run builds Kubernetes: ten minutes
of computing on two cores.  Nothing leaves the loopback.
"""

import argparse
import compileall
import json
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

from tests.vm.__main__ import DEFAULT, ROOT

from e2e.build import RELEASE, CannotBuild, programs
from e2e.cluster import KUBELET_PORT, PUBLISHED, Api, ControlPlane, wait_for
from e2e.hand import PORT as HAND_PORT
from e2e.hand import PUBLISHED as HAND
from e2e.hand import Hand
from e2e.rounds import ROUNDS
from e2e.trial import Row, Trial, report

INSIDE = "NUMAWISE_OWN_NETWORK"
MACHINE = ("--sockets", "2", "--cores", "3", "--threads", "2", "--nodes", "2", "--node-mem", "1536M")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m e2e",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=("build", "node", "switch", "watch", *ROUNDS))
    home = os.environ.get("NUMAWISE_CLUSTER") or str(Path.home() / ".cache/numawise-cluster")
    parser.add_argument("--programs", default=home, help="where programs are kept (NUMAWISE_CLUSTER)")
    parser.add_argument("--release", default=RELEASE, help=f"of Kubernetes ({RELEASE})")
    parser.add_argument("--out", help="where logs and recordings go; a folder that is thrown away otherwise")
    parser.add_argument(
        "--vm", default=os.environ.get("NUMAWISE_VM") or str(DEFAULT), help="the program numa-vm"
    )
    parser.add_argument("--timeout", default="7200", help="seconds for the machine (7200)")
    chosen = parser.parse_args()
    if os.geteuid() != 0:
        parser.error("it needs a network of its own; run it as root")
    if shutil.which(chosen.vm) is None:
        parser.error(f"{chosen.vm} cannot be run; say where numa-vm is with --vm or NUMAWISE_VM")
    return chosen


def main() -> int:
    chosen = arguments()
    try:
        place = programs(Path(chosen.programs).resolve(), chosen.release)
    except CannotBuild as problem:
        print(problem, file=sys.stderr)
        return 2
    if chosen.what == "build":
        print(place)
        return 0
    if os.environ.get(INSIDE) is None:
        command = ["unshare", "-n", sys.executable, "-m", "e2e", *sys.argv[1:]]
        os.chdir(ROOT)
        os.execvpe(command[0], command, {**os.environ, INSIDE: "1"})
    for folder in ("src", "tests", "e2e"):
        compileall.compile_dir(str(ROOT / folder), quiet=2)
    with tempfile.TemporaryDirectory(prefix="numawise-cluster-") as scratch:
        out = Path(chosen.out or scratch).resolve()
        out.mkdir(parents=True, exist_ok=True)
        with ControlPlane(place, Path(scratch)) as plane:
            code = boot(chosen, place, out)
            for log in Path(scratch).glob("*.log") if chosen.out else ():
                shutil.copy(log, out)
            assert all(child.poll() is None for child in plane.children), "part of the control plane ended"
        return code


def boot(chosen: argparse.Namespace, place: Path, out: Path) -> int:
    """Run the guest's part, and print what it says."""
    guest = (sys.executable, "-m", "e2e.guest", str(place), str(out), chosen.what)
    network = ("--net", "--publish", f"{PUBLISHED}:{KUBELET_PORT}", "--publish", f"{HAND}:{HAND_PORT}")
    options = (*MACHINE, *network, "--rw", str(out), "--timeout", chosen.timeout)
    machine = subprocess.Popen(
        [chosen.vm, *options, "--", *guest],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    if chosen.what == "node":
        return direct(machine, place, out)
    assert machine.stdout is not None
    for line in machine.stdout:
        try:
            found = json.loads(line)
        except ValueError:
            print(line, end="", flush=True)
            continue
        if isinstance(found, list):
            name, outcome, said = found
            print(f"{outcome:7} {name}", flush=True)
            if outcome != "ok":
                print("".join(f"        {row}\n" for row in said.splitlines()), flush=True)
        else:
            print(
                f"{found['step']:3} {found['op']} {found['pod']}: {found.get('reason') or found.get('phase')}",
                flush=True,
            )
    return machine.wait()


def direct(machine: "subprocess.Popen[str]", place: Path, out: Path) -> int:
    """Say from here what happens in the guest; 1 when anything came out otherwise than predicted."""
    folder = out / "node"
    folder.mkdir(exist_ok=True)
    hand, rows = Hand(), list[Row]()
    failed = False
    try:
        wait_for("the guest", 600, lambda: machine.poll() is not None or hand.ask("hello") is None)
        for row in Trial(Api("127.0.0.1"), hand, folder, place).run():
            rows.append(row)
            print(row.line(), *(f"        {words}" for words in row.differences), sep="\n", flush=True)
        hand.ask("end")
    except Exception:  # noqa: BLE001 - what is known so far is still reported
        traceback.print_exc()
        failed = True
        machine.terminate()
    machine.wait()
    text = report(rows)
    (folder / "report.txt").write_text(f"{text}\n")
    print(text)
    return int(failed or any(row.differences for row in rows))


if __name__ == "__main__":
    sys.exit(main())
