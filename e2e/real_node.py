# ruff: noqa: T201 - it prints what came out
"""One real kubelet in a virtual machine, our agent on it, and the stock scheduler with our extender choosing.

Each pod comes without a node.  One that ours sends there must run.  Of one that ours holds back, a copy that is bound by
hand shows what the kubelet says: it must be refused.  When a pod is deleted, the one that waited for its place must run.
"""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.recorded.published import live_uids, policy_of, publication
from tests.vm.__main__ import DEFAULT, ROOT

from e2e.__main__ import MACHINE
from e2e.cluster import KUBELET_PORT, PUBLISHED, Api, wait_for
from e2e.hand import PORT as HAND_PORT
from e2e.hand import PUBLISHED as HAND
from e2e.hand import Hand
from e2e.pods import burstable, guaranteed, pod, pod_spec
from e2e.published import Follower
from e2e.scenario import FIRST, HUGE_PAGES
from e2e.schedulers import OURS
from e2e.settings import Settings
from e2e.trial import DUTIES
from e2e.world import PODS, World

PATIENCE = 600
HELD_FOR = 8.0


@dataclass(frozen=True)
class Come:
    """A pod comes; ``refused``: the kubelet does not let it in at this point."""

    name: str
    container: dict[str, Any]
    refused: bool = False


@dataclass(frozen=True)
class Go:
    """A pod is deleted; then another, which waited, runs."""

    name: str
    then: str


STEPS: tuple[Come | Go, ...] = (
    Come("first", guaranteed("c", "2", "100Mi", gpu=1)),
    Come("odd", guaranteed("c", "3", "50Mi"), refused=True),
    Come("wide", guaranteed("c", "4", "200Mi")),
    Come("halves", guaranteed("c", "4", "100Mi"), refused=True),
    Come("three-gpus", guaranteed("c", "2", "50Mi", gpu=3), refused=True),
    Come("large", guaranteed("c", "2", "1300Mi"), refused=True),
    Come("shared", burstable("c", "300m", "50Mi")),
    Go("first", then="halves"),
    Come("late", guaranteed("c", "2", "100Mi", gpu=2), refused=True),
    Go("shared", then="late"),
)
"""10 CPUs are to be had: 4 on one NUMA node, 6 on the other; two GPUs on each.  What comes late is kept away by sums, which
the scheduler itself looks at."""


def trial(settings: Settings) -> bool:
    """Right when every pod came out as the engine said."""
    out = settings.out / "real-node"
    out.mkdir(parents=True, exist_ok=True)
    vm = os.environ.get("NUMAWISE_VM") or str(DEFAULT)
    with World(settings.programs, None, settings.scratch / "real-node") as world:
        guest = (sys.executable, "-m", "e2e.guest", str(settings.programs), str(out), "node")
        ports = ("--publish", f"{PUBLISHED}:{KUBELET_PORT}", "--publish", f"{HAND}:{HAND_PORT}")
        options = (*MACHINE, "--net", *ports, "--rw", str(out), "--timeout", "3600")
        with (out / "machine.log").open("wb") as log:
            machine = subprocess.Popen(
                [vm, *options, "--", *guest], cwd=ROOT, stdout=log, stdin=subprocess.DEVNULL
            )
        try:
            rows = _run(world, machine, out)
        finally:
            machine.terminate()
            machine.wait()
    (out / "rows.json").write_text(json.dumps(rows, indent=1) + "\n")
    for row in rows:
        print(f"{row['pod']:12} {row['said']:24} {row['real']:24} {'yes' if row['equal'] else 'no'}")
    return all(row["equal"] for row in rows)


def _run(world: World, machine: "subprocess.Popen[bytes]", out: Path) -> list[dict[str, Any]]:
    api, hand, follower = Api("127.0.0.1"), Hand(), Follower(world.api)
    wait_for("the guest", PATIENCE, lambda: machine.poll() is not None or hand.ask("hello") is None)
    hand.ask("start", config=FIRST, duties=DUTIES, huge_pages=HUGE_PAGES)

    def settled() -> None:
        """What is published has the pods that live."""
        living = {
            one["metadata"]["uid"]
            for one in api.pods()
            if one["status"].get("phase") not in ("Failed", "Succeeded")
        }
        follower.wait(
            "the pods that live",
            lambda found: (
                live_uids(found) == living and bool(policy_of(found)) and not publication(found).missing
            ),
        )

    settled()
    world.extender("--unpublished", "hold")
    world.scheduler(OURS)
    rows = []
    for step in STEPS:
        settled()
        if isinstance(step, Come):
            rows.append(_come(api, step))
        else:
            begin = time.monotonic()
            api.ask("DELETE", f"{PODS}/{step.name}")
            wait_for(f"{step.then} to run", PATIENCE, lambda name=step.then: _phase(api, name) == "Running")
            took = time.monotonic() - begin
            words = f"runs {took:.0f} s after"
            rows.append({"pod": step.then, "said": f"{step.name} goes", "real": words, "equal": True})
        print(rows[-1], flush=True)
    (out / "extender.txt").write_text((world.plane.folder / "extender.log").read_text(errors="replace"))
    hand.ask("end")
    return rows


def _come(api: Api, step: Come) -> dict[str, Any]:
    manifest = _free(pod(step.name, pod_spec(step.container)))
    status, answer = api.ask("POST", PODS, manifest)
    assert status == 201, answer
    if not step.refused:
        real = wait_for(f"an end of {step.name}", PATIENCE, lambda: _settled_phase(api, step.name))
        return {"pod": step.name, "said": "let in", "real": real, "equal": real == "Running"}
    wait_for(f"a word on {step.name}", PATIENCE, lambda: _unschedulable(api, step.name))
    time.sleep(HELD_FOR)
    held = not api.ask("GET", f"{PODS}/{step.name}")[1]["spec"].get("nodeName")
    words = _unschedulable(api, step.name)
    copy = pod(f"{step.name}-by-hand", pod_spec(step.container))
    status, answer = api.ask("POST", PODS, copy)
    assert status == 201, answer
    wait_for("its end", PATIENCE, lambda: _settled_phase(api, f"{step.name}-by-hand"))
    real = api.ask("GET", f"{PODS}/{step.name}-by-hand")[1]["status"].get("reason", "")
    api.ask("DELETE", f"{PODS}/{step.name}-by-hand?gracePeriodSeconds=0")
    wait_for("its removal", PATIENCE, lambda: api.ask("GET", f"{PODS}/{step.name}-by-hand")[0] == 404)
    # The extender names the reason that the kubelet then gives; of sums the scheduler speaks itself.
    by_sums = real.startswith("OutOf") and "Insufficient" in words
    equal = held and (f" {real}," in words or by_sums)
    return {
        "pod": step.name,
        "said": "held back" if held else "sent",
        "real": real,
        "equal": equal,
        "why": words,
    }


def _free(manifest: dict[str, Any]) -> dict[str, Any]:
    """The same pod, without a node."""
    manifest["spec"].pop("nodeName")
    return manifest


def _phase(api: Api, name: str) -> str:
    return str(api.ask("GET", f"{PODS}/{name}")[1].get("status", {}).get("phase", ""))


def _settled_phase(api: Api, name: str) -> str:
    phase = _phase(api, name)
    return phase if phase in ("Running", "Failed", "Succeeded") else ""


def _unschedulable(api: Api, name: str) -> str:
    for condition in api.ask("GET", f"{PODS}/{name}")[1].get("status", {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message", ""))
    return ""
