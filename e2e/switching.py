"""The switch script on a real node: the kubelet, systemd, kubectl, the eviction of pods, all of them real."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster import wait_for
from e2e.node import (
    BASE,
    CONFIG,
    HOME,
    KUBECONFIG,
    KUBELET,
    NODE,
    STATIC,
    Node,
    runs,
)
from e2e.pods import guaranteed, pod_spec

REPLICAS = 2
NEW = {**STATIC, "topologyManagerPolicy": "single-numa-node"}
LABELS = {"app": "work"}


def plan_words(new: Path, script: Path) -> tuple[str, ...]:
    """The command that writes a script for this node."""
    plan = (
        sys.executable,
        "-m",
        "numawise",
        "plan",
        "switch",
        str(CONFIG),
        str(new),
        "--state",
        str(KUBELET),
    )
    return (*plan, "--machine", "this", "--node", NODE, "--kube", "1.36.4", "--script", str(script))


class Trial:
    """A node with pods of a Deployment on it, and a script for it."""

    def __init__(self, node: Node, folder: Path) -> None:
        self.node, self.folder = node, folder
        self.script = HOME / "switch.sh"
        self.number = 0

    def begin(self) -> None:
        """A node whose managers do nothing yet, with pods of a Deployment."""
        self.node.start(BASE)
        template = {"metadata": {"labels": LABELS}, "spec": pod_spec(guaranteed("c", "2", "100Mi", gpu=1))}
        status, answer = self.node.api.ask(
            "POST",
            "/apis/apps/v1/namespaces/default/deployments",
            {
                "metadata": {"name": "work"},
                "spec": {"replicas": REPLICAS, "selector": {"matchLabels": LABELS}, "template": template},
            },
        )
        assert status == 201, answer
        self.running()
        new = HOME / "new.yaml"
        new.write_text(json.dumps(NEW))
        done = runs(*plan_words(new, self.script))
        (self.folder / "plan.txt").write_text(done.stdout + done.stderr)
        assert done.returncode == 0, done.stdout + done.stderr

    def running(self) -> set[str]:
        """The uids of the Deployment's pods once all of them run."""

        def found() -> set[str] | None:
            up = {
                one["metadata"]["uid"]
                for one in self.node.api.pods()
                if one["status"].get("phase") == "Running" and not one["metadata"].get("deletionTimestamp")
            }
            return up if len(up) == REPLICAS else None

        uids: set[str] = wait_for("the pods", 900, found)
        return uids

    def run(self, *words: str, config: Path | None = None) -> tuple[int, str]:
        """Run the script; its exit status, and what it said."""
        path = f"{self.node.programs}:/usr/sbin:/usr/bin:/sbin:/bin"
        environment = {"PATH": path, "KUBECONFIG": str(KUBECONFIG), "HOME": "/root"}
        environment |= {"CONFIG": str(config)} if config is not None else {}
        done = runs("sh", str(self.script), *words, env=environment)
        self.number += 1
        said = done.stdout + done.stderr
        (self.folder / f"{self.number:02}-{'-'.join(words) or 'all'}.txt").write_text(
            f"{done.returncode}\n{said}"
        )
        return done.returncode, said

    def policies(self) -> tuple[str, str]:
        """What the state files name."""
        names = ("cpu_manager_state", "memory_manager_state")
        cpu, memory = (json.loads((KUBELET / name).read_text())["policyName"] for name in names)
        return cpu, memory

    def cordoned(self) -> bool:
        """Whether the node is kept free of pods."""
        node: dict[str, Any] = self.node.api.node()
        return bool(node["spec"].get("unschedulable"))

    def pinned(self) -> int:
        """How many pods have CPUs of their own."""
        return len(json.loads((KUBELET / "cpu_manager_state").read_text()).get("entries") or {})


def trial(node: Node, folder: Path) -> Iterator[tuple[str, bool, str]]:
    """Every way the script is meant to be used: name, whether it came out right, and what it said."""
    on = Trial(node, folder)
    on.begin()
    before = CONFIG.read_bytes()
    first = on.running()
    yield "before: no policy", on.policies() == ("none", "None") and not on.pinned(), str(on.policies())

    code, said = on.run("--dry-run")
    same = CONFIG.read_bytes() == before and on.running() == first and not on.cordoned()
    yield "--dry-run changes nothing", code == 0 and same, said

    other = HOME / "other.yaml"
    other.write_bytes(before + b"\n")
    code, said = on.run(config=other)
    same = on.running() == first and not on.cordoned() and on.policies() == ("none", "None")
    yield "another node's configuration is refused", code == 1 and "planned for" in said and same, said

    code, said = on.run("--rollback")
    yield (
        "nothing to bring back yet",
        code == 1 and "nothing to bring back" in said and not on.cordoned(),
        said,
    )

    code, said = on.run()
    second = on.running()
    right = code == 0 and on.policies() == ("static", "Static") and not on.cordoned() and not first & second
    yield "switched, with pods", right and "every new field" in said and on.pinned() == REPLICAS, said

    kept = yaml.safe_load(CONFIG.read_text())
    lost = [name for name in json.loads(before) if name not in kept]
    yield "fields of the node stay", not lost and kept["cpuManagerPolicy"] == "static", str(lost)

    code, said = on.run()
    yield "a second run does nothing", code == 0 and "already" in said and on.running() == second, said
    code, said = on.run("drain")
    yield "nor does its drain", code == 0 and "already" in said and on.running() == second, said

    code, said = on.run("--rollback")
    third = on.running()
    right = code == 0 and on.policies() == ("none", "None") and CONFIG.read_bytes() == before
    yield "rolled back, with pods", right and not on.cordoned() and not second & third, said

    outcomes = [on.run(part) for part in ("drain", "switch", "uncordon")]
    said = "\n".join(text for _, text in outcomes)
    on.running()
    right = all(code == 0 for code, _ in outcomes) and on.policies() == ("static", "Static")
    yield "part by part", right and not on.cordoned() and on.pinned() == REPLICAS, said

    outcomes = [on.run("--rollback", part) for part in ("drain", "switch", "uncordon")]
    said = "\n".join(text for _, text in outcomes)
    on.running()
    right = all(code == 0 for code, _ in outcomes) and on.policies() == ("none", "None")
    yield "and back part by part", right and not on.cordoned() and CONFIG.read_bytes() == before, said
