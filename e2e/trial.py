"""The run of ``make e2e-node``: each pod is predicted from the published object alone, then comes to the real kubelet.

For every step: wait until the object shows what was before; predict; let it happen; compare; record.  Where a
prediction fails, it is made once more from the node's own files: when that one is right, what was published is wrong,
else the engine is.
"""

import contextlib
import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.recorded.outcomes import predicted, seen, uid_of
from tests.recorded.published import healthy, live_uids, node_of, policy_of, publication

from e2e.build import RELEASE
from e2e.cluster import NODE, Api, wait_for
from e2e.hand import Hand, Look
from e2e.node import CONFIG, FAKES, HOME, KUBECONFIG, MANIFESTS
from e2e.pods import DEVICES, FLAGS, fakes, pod
from e2e.published import Follower, Published
from e2e.scenario import FIRST, HUGE_PAGES, SECOND, STEPS, Add, Delete, End, Kill, Restart, Sick, Step, Switch
from e2e.switching import plan_words
from numawise.codec.document import Document
from numawise.codec.node import node_from
from numawise.codec.workload import decode_pods
from numawise.inputs.spec import NodePods, NodeSpec, read_node, start_node

PREEMPTED = ("DisruptionTarget", "TerminationByKubelet")
SOURCE = "kubernetes.io/config.source"
"""The annotation by which the kubelet knows where a pod comes from."""
PODS = "/api/v1/namespaces/default/pods"
PATIENCE = 900
OVER = ("Failed", "Succeeded")
CPU, NUMA = "sys/devices/system/cpu", "sys/devices/system/node"
HARDWARE = (
    *(f"{CPU}/{name}" for name in ("online", "possible", "cpu*/topology/*_id", "cpu*/topology/*_list")),
    f"{CPU}/cpu*/cache/index*/[!u]*",
    *(f"{NUMA}/{name}" for name in ("online", "has_*", "node*/cpulist", "node*/meminfo", "node*/distance")),
    f"{NUMA}/node*/hugepages/*/nr_hugepages",
    "proc/meminfo",
    "proc/version",
)
"""What of the guest's files shows its hardware."""
DUTIES = ("--export", "--watch", "--kubeconfig", str(KUBECONFIG), "--node", NODE)


@dataclass
class Row:
    """What became of one step."""

    number: int
    what: str
    predicted: str = ""
    real: str = ""
    differences: list[str] = field(default_factory=list)
    blame: str = ""
    published_after: float | None = None
    """Seconds from the state file to the object."""

    def line(self) -> str:
        equal = ("no" if self.differences else "yes") if self.predicted else ""
        after = f"{self.published_after:.2f} s" if self.published_after is not None else ""
        return f"{self.number:3} {self.what:44} {self.predicted:26} {self.real:26} {equal:6} {after}".rstrip()


class Trial:
    """One run."""

    def __init__(self, api: Api, hand: Hand, folder: Path, programs: Path) -> None:
        self.api, self.hand, self.folder, self.programs = api, hand, folder, programs
        self.follower = Follower(api)
        self.sick: tuple[str, ...] = ()
        self.configuration = ""
        """The kubelet's file."""
        self.policy = FIRST["topologyManagerPolicy"]

    # --- the state of things ------------------------------------------------------------------

    def pods(self) -> list[dict[str, Any]]:
        return self.api.pods()

    def living(self) -> set[str]:
        return {uid_of(one) for one in self.pods() if _lives(one)}

    def ready(self) -> None:
        """The kubelet is up, and has the devices that are healthy."""

        def up() -> bool:
            status = self.api.node().get("status", {})
            amounts = status.get("allocatable", {})
            healthy = {name: len(set(ids) - set(self.sick)) for name, ids in DEVICES.items()}
            return any(
                c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", ())
            ) and all(amounts.get(name) == str(count) for name, count in healthy.items())

        wait_for("a ready node", PATIENCE, up)

    def settled(self) -> None:
        """The kubelet knows its pods and devices again, and the agent is ready."""

        def known() -> bool:
            look, names = self.hand.look(), {one["metadata"]["name"] for one in self.pods() if _lives(one)}
            listed = {one["name"] for one in look.answers.get("List", {}).get("podResources", ())}
            offered = {
                name
                for one in look.answers.get("Allocatable", {}).get("devices", ())
                for name in one["deviceIds"]
            }
            devices = {name for ids in DEVICES.values() for name in ids if name not in self.sick}
            return names <= listed and offered == devices and self.hand.ask("page", path="/readyz") == 200

        wait_for("a kubelet and an agent that have settled", PATIENCE, known)
        self.ready()

    def agent(self) -> str:
        """The agent's process."""
        return self.hand.run("systemctl", "show", "--property=MainPID", "--value", "agent")[1].strip()

    def newest(self) -> Published:
        """The object, once it is complete and shows the pods and devices of now."""
        living = self.living()
        well = {
            (resource, name) for resource, ids in DEVICES.items() for name in ids if name not in self.sick
        }
        return self.follower.wait(
            f"pods {sorted(living)} and healthy devices {sorted(well)}",
            lambda found: (
                live_uids(found) == living
                and healthy(found) == well
                and policy_of(found) == self.policy
                and not publication(found).missing
            ),
        )

    # --- steps --------------------------------------------------------------------------------

    def run(self) -> Iterator[Row]:
        self.hand.ask("start", config=FIRST, duties=DUTIES, huge_pages=HUGE_PAGES)
        self.ready()
        self._files_once()
        for number, step in enumerate(STEPS, 1):
            match step:
                case Add():
                    yield self._add(number, step)
                    continue
                case Delete():
                    self._delete(step.names)
                case End():
                    self._end(step.name)
                case Sick():
                    self.sick = step.names
                    self.hand.ask("write", path=str(FAKES), text=json.dumps(fakes(self.sick)))
                    self.ready()
                case Restart():
                    self._must("systemctl", "restart", "kubelet")
                    self.settled()
                case Kill():
                    before = self.agent()
                    self._must("systemctl", "kill", "--signal=KILL", "agent")
                    wait_for(
                        "another agent", PATIENCE, lambda before=before: self.agent() not in ("0", before)
                    )
                    self.settled()
                case Switch():
                    self._switch(number, step)
            self.newest()
            yield Row(number, self._words(step))
            self._record(number, {"do": self._words(step)}, self.hand.look())

    def _add(self, number: int, step: Add) -> Row:
        kind = " (static)" if step.static else " (with the Node object)" if step.labels else ""
        row = Row(number, f"{step.name}{kind}")
        before = self.newest()
        manifest = pod(step.name, step.spec)
        manifest["metadata"]["uid"] = str(uuid.uuid4())
        if step.static:
            manifest["metadata"]["annotations"] = {SOURCE: "file"}
        held = self._held(self.hand.look())
        alive = {uid_of(one): one["metadata"]["name"] for one in self.pods()}
        own = node_of(before.object)
        if step.labels:
            own.describe(node_from(held["node"]))
        mine, ending = predicted(own, manifest)
        typed = self._typed(before.object, manifest, held["node"] if step.labels else None)
        name = self._create(step)
        found = wait_for(f"a verdict on {name}", PATIENCE, lambda: self._judged(name))
        look = self.hand.look()
        theirs = seen(found, look.files, look.answers)
        row.predicted, row.real = mine.reason or "admitted", theirs.reason or "admitted"
        row.differences = mine.differences(theirs)
        victims = {alive[uid] for uid in ending}
        if (ended := self._ended(victims, set(alive.values()))) != victims:
            row.differences.append(f"preempted: predicted {victims}, really {ended}")
        if typed != (mine.reason, mine.message, dict(mine.cpus)):
            row.differences.append(f"the command simulate: {typed}")
        if step.reason != theirs.reason:
            row.what += f" [the list says {step.reason or 'admitted'}]"
        if row.differences:
            again, _ = predicted(self._by_files(number, held), manifest)
            row.blame = "what was published" if not again.differences(theirs) else "engine"
        if theirs.cpus:
            uid = uid_of(found)
            written = look.written["cpu_manager_state"]
            self.newest()
            shown = self.follower.first(written, lambda one: uid in live_uids(one))
            row.published_after = round(shown.at - written, 2) if shown else None
        self._record(
            number,
            {
                "do": "add",
                "object": before.object,
                "before": held,
                "labels": step.labels,
                "pod": _bare(found),
                "status": {
                    name: found["status"].get(name) for name in ("phase", "reason", "message", "qosClass")
                },
                "predicted": asdict(mine),
                "published_after": row.published_after,
            },
            look,
        )
        return row

    def _ended(self, victims: set[str], before: set[str]) -> set[str]:
        """Which pods were ended for a critical one; their status comes some time after its own.

        The condition says it.  Reason and phase do not: containers that end well make the pod one that succeeded.
        """

        def now() -> set[str]:
            ended = {
                one["metadata"]["name"]
                for one in self.pods()
                for condition in one["status"].get("conditions") or ()
                if (condition["type"], condition.get("reason")) == PREEMPTED
            }
            return ended & before

        with contextlib.suppress(TimeoutError):
            wait_for("the end of preempted pods", 120, lambda: now() >= victims)
        return now()

    def _typed(
        self, found: dict[str, Any], manifest: dict[str, Any], node: dict[str, Any] | None
    ) -> tuple[str, str, dict[str, str]]:
        """What ``numawise simulate`` says of the same object and pod: reason, message and exclusive CPUs."""
        words = []
        for option, value in (("--machine", found), ("--node-object", node), ("", manifest)):
            path = self.folder / f"typed{option}.json"
            path.write_text(json.dumps(value))
            words += [word for word in (option, str(path)) if word] if value is not None else []
        command = [sys.executable, "-m", "numawise", "simulate", *words, "-o", "json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1):
            return "", done.stderr, {}
        (said,) = json.loads(done.stdout)["pods"]
        cpus = {one["name"]: one["cpus"] for one in said["containers"] if one.get("exclusive")}
        return said.get("reason", ""), said.get("message", ""), dict(sorted(cpus.items()))

    def _create(self, step: Add) -> str:
        """Let a pod come; the name by which the API server knows it."""
        manifest = pod(step.name, step.spec)
        if step.static:
            self.hand.ask("write", path=str(MANIFESTS / f"{step.name}.yaml"), text=json.dumps(manifest))
            return f"{step.name}-{NODE}"
        status, created = self.api.ask("POST", PODS, manifest)
        assert status == 201, created
        return step.name

    def _judged(self, name: str) -> dict[str, Any] | None:
        """A pod that was refused, or that runs: with its containers what init containers had is given back."""
        code, found = self.api.ask("GET", f"{PODS}/{name}")
        return found if code == 200 and found["status"].get("phase") in ("Running", "Failed") else None

    def _delete(self, names: tuple[str, ...]) -> None:
        for name in names:
            self.api.ask("DELETE", f"{PODS}/{name}")
        for name in names:
            wait_for(
                f"the end of {name}",
                PATIENCE,
                lambda name=name: self.api.ask("GET", f"{PODS}/{name}")[0] == 404,
            )

    def _end(self, name: str) -> None:
        self.hand.ask("write", path=f"{FLAGS}/{name}", text="")
        wait_for(
            f"the success of {name}",
            PATIENCE,
            lambda: self.api.ask("GET", f"{PODS}/{name}")[1]["status"]["phase"] == "Succeeded",
        )

    def _switch(self, number: int, step: Switch) -> None:
        static = [one["metadata"]["name"] for one in self.pods() if uid_of(one) != one["metadata"]["uid"]]
        for name in static:
            self.hand.ask("remove", path=str(MANIFESTS / f"{name.removesuffix(f'-{NODE}')}.yaml"))
        self._delete(
            tuple(one["metadata"]["name"] for one in self.pods() if one["metadata"]["name"] not in static)
        )
        for name in static:
            wait_for(
                f"the end of {name}",
                PATIENCE,
                lambda name=name: self.api.ask("GET", f"{PODS}/{name}")[0] == 404,
            )
        script, new = HOME / "switch.sh", HOME / "new.yaml"
        if step.new is not None:
            self.hand.ask("write", path=str(new), text=json.dumps(step.new))
            code, said = self.hand.run(*plan_words(new, script))
            (self.folder / f"plan-{number:02}.txt").write_text(f"{code}\n{said}")
            assert code in (0, 1), said  # 1: pods that are recorded would be refused
        path = f"{self.programs}:/usr/sbin:/usr/bin:/sbin:/bin"
        code, said = self.hand.run(
            "sh", str(script), *step.words, PATH=path, KUBECONFIG=str(KUBECONFIG), HOME="/root"
        )
        (self.folder / f"switch-{number:02}.txt").write_text(f"{code}\n{said}")
        assert code == 0, said
        self.policy = SECOND["topologyManagerPolicy"] if step.new else FIRST["topologyManagerPolicy"]
        self.settled()
        self._files_once()

    def _must(self, *words: str) -> None:
        code, said = self.hand.run(*words)
        assert code == 0, said

    # --- what is kept -------------------------------------------------------------------------

    def _files_once(self) -> None:
        """What does not change from pod to pod: the configuration, and a bundle with the hardware."""
        code, configz = self.api.ask("GET", f"/api/v1/nodes/{NODE}/proxy/configz")
        assert code == 200, configz
        (self.folder / "configz.json").write_text(json.dumps(configz))
        (self.configuration,) = self.hand.ask("tree", globs=[str(CONFIG).lstrip("/")]).values()
        tree = self.hand.ask("tree", globs=HARDWARE)
        first = {"hardware": tree, "devices": fakes(), "kubernetes": RELEASE}
        (self.folder / "first.json").write_text(json.dumps(first))
        bundle = self.folder / "bundle.tar.gz"
        if not bundle.exists():
            self._must(
                sys.executable, "-m", "numawise", "bundle", "-o", str(bundle), "--keep-names", "--kubeconfig", str(KUBECONFIG), "--node", NODE
            )  # fmt: skip

    def _by_files(self, number: int, held: dict[str, Any]) -> Any:
        """The node by its own files, as ``simulate`` reads them."""
        place = self.folder / f"before-{number:02}"
        place.mkdir()
        for name, text in held["files"].items():
            (place / name).write_text(text)
        answers = place / "podresources.json"
        answers.write_text(json.dumps(held["answers"]))
        given = read_node(
            NodeSpec(
                bundle=str(self.folder / "bundle.tar.gz"),
                kubelet_config=(str(self.folder / "configz.json"),),
                state=(str(place),),
                pod_resources=str(answers),
                node_object=held["node"],
            )
        )
        living = filter(_lives, held["pods"])
        pods = tuple(raw for one in living for raw in decode_pods(Document(one)))
        return start_node(replace(given, listed=NodePods(pods, complete=True)))

    def _held(self, look: Look) -> dict[str, Any]:
        """Everything that an exporter could see."""
        node = self.api.node()
        node["metadata"].pop("managedFields", None)
        pods = [_bare(one) | {"status": {"phase": one["status"].get("phase")}} for one in self.pods()]
        return {"files": look.files, "answers": look.answers, "pods": pods, "node": node}

    def _record(self, number: int, what: dict[str, Any], look: Look) -> None:
        whole = {"step": number, "configuration": self.configuration, **what, "after": self._held(look)}
        (self.folder / f"step-{number:02}.json").write_text(json.dumps(whole))

    @staticmethod
    def _words(step: Step) -> str:
        match step:
            case Delete():
                return f"deleted: {', '.join(step.names)}"
            case End():
                return f"ended with success: {step.name}"
            case Sick():
                return f"unhealthy: {', '.join(step.names) or 'none'}"
            case Restart():
                return "the kubelet restarted"
            case Kill():
                return "the agent killed"
            case Switch():
                return (
                    "switched back"
                    if step.words
                    else f"switched to {(step.new or {})['topologyManagerPolicy']}"
                )
        return step.name


def _lives(one: dict[str, Any]) -> bool:
    return one["status"].get("phase") not in OVER


def _bare(found: dict[str, Any]) -> dict[str, Any]:
    """A pod without what only the API server needs."""
    metadata = {
        key: value
        for key, value in found["metadata"].items()
        if key in ("name", "namespace", "uid", "annotations", "deletionTimestamp")
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": found["spec"]}


def report(rows: list[Row]) -> str:
    """A table, and what differs below it."""
    lines = [f"{'':3} {'STEP':44} {'PREDICTED':26} {'THE KUBELET':26} {'EQUAL':6} PUBLISHED AFTER"]
    lines += [row.line() for row in rows]
    for row in rows:
        for words in row.differences:
            lines.append(f"{row.number:3} {row.what}: {words} ({row.blame})")
    tried = [row for row in rows if row.predicted]
    equal = sum(not row.differences for row in tried)
    lines.append(f"{equal} of {len(tried)} predictions equal")
    waits = sorted(row.published_after for row in rows if row.published_after is not None)
    if waits:
        lines.append(
            f"published after {waits[0]:.2f} s to {waits[-1]:.2f} s, half of them within {waits[len(waits) // 2]:.2f} s"
        )
    return "\n".join(lines)
