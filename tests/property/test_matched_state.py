"""Nothing that state files record disappears: each entry is matched with the machine, or named by the command.

``LAWS=3 pytest tests/property/test_matched_state.py`` tries more than 2,000 combinations of state, machine and
command.
"""

import io
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import numawise
from numawise.cli.main import main
from numawise.codec.machine import encode_machine
from numawise.codec.output import to_json
from numawise.errors import InputError, KubeletRefused
from numawise.machine.model import Machine
from numawise.node.node import SimulatedNode
from numawise.sets import parse_ids
from numawise.values import replace
from tests.property.strategies import laws
from tests.unit.nodes import CONFIG, at_work, machine, pod, written

GPU, NIC = "nvidia.com/gpu", "example.com/nic"
POD = """apiVersion: v1
kind: Pod
metadata: {name: next}
spec:
  containers:
  - name: main
    resources: {limits: {cpu: 1, memory: 1Gi, nvidia.com/gpu: 1}}
"""
MACHINES = (
    "2s 2n 8c 2t 4gpu 64g",
    "2s 2n 8c 2t 4gpu 64g",
    "2s 2n 8c 2t 2gpu 64g",
    "2s 4n 8c 2t 4gpu 64g",
    "2s 2n 12c 2t 4gpu 64g",
)
STYLES = {
    "names": "GPU{0}",
    "uuids": "GPU-{0:08x}-aaaa-bbbb-cccc-0123456789ab",
    "others": "GPU-{0:08x}-dddd-eeee-ffff-0123456789ab",
}
COMMANDS = (
    "simulate", "simulate json", "why", "why json", "check", "verify", "verify json", "show", "show json",
    "plan switch", "plan pod", "fleet", "capacity", "python",
)  # fmt: skip
NAMED = {
    "devices": re.compile(r"(\d+) \S+ devices? of the checkpoint"),
    "pods": re.compile(r"(\d+) recorded pods? no longer"),
    "claims": re.compile(r"(\d+) claims? of dra_manager_state"),
    "cpus": re.compile(r"CPUs? ([\d,-]+) of cpu_manager_state"),
    "memory": re.compile(r"\S+ of (NUMA [^;]*?) in memory_manager_state"),
}
KINDS = {"cpu_manager_state": "cpus", "memory_manager_state": "memory", "dra_manager_state": "claims"}


def renamed(before: Machine, style: str, nics: int, *, first: int = 0) -> Machine:
    """The machine with its GPUs called otherwise, and NICs of another plugin on its first NUMA node."""
    plugins = []
    for plugin in before.plugins:
        devices = [
            replace(device, id=STYLES[style].format(at + first)) for at, device in enumerate(plugin.devices)
        ]
        plugins.append(replace(plugin, devices=tuple(devices), preference=None))
    more = replace(before.plugins[0], resource=NIC, preference=None, devices=tuple(
        replace(before.plugins[0].devices[0], id=f"nic{at}") for at in range(nics)
    ))  # fmt: skip
    return replace(before, plugins=(*plugins, more) if nics else tuple(plugins))


class Combination:
    """State files of one node beside the machine of another, or of the same."""

    def __init__(
        self, node: SimulatedNode, beside: Machine, gone: tuple[str, ...], claims: int, *, match: bool
    ) -> None:
        self.node, self.beside, self.gone, self.claims, self.match = node, beside, gone, claims, match

    def __repr__(self) -> str:
        """Short: how it differs shows what is named."""
        return f"Combination(expected={self.expected()}, match={self.match})"

    def expected(self) -> dict[str, int]:
        """How many entries the machine does not have, counted from the node that wrote them."""
        state, own = self.node.state, self.node.machine
        there = {(plugin.resource, one.id) for plugin in self.beside.plugins for one in plugin.devices}
        recorded = {(plugin.resource, one.id) for plugin in own.plugins for one in plugin.devices}
        recorded = recorded if state.devices.saved is not None else set()
        numas = {numa.id for numa in self.beside.numa}
        return {
            "devices": len(recorded - there),
            "cpus": (own.layout.all & ~self.beside.layout.all).bit_count(),
            "memory": sum(
                1
                for numa, tables in state.memory.numa.items()
                for table in tables.tables.values()
                if table.total and numa not in numas
            ),
            "pods": len(self.gone),
            "claims": self.claims,
        }

    def dropped(self) -> bool:
        """Whether GPUs are held that nobody can tell from those of the machine."""
        grants = self.node.state.devices.allocated.get(GPU, frozenset())
        there = {one.id for plugin in self.beside.plugins for one in plugin.devices if plugin.resource == GPU}
        recorded = {
            one.id for plugin in self.node.machine.plugins for one in plugin.devices if plugin.resource == GPU
        }
        return bool(grants - there) and not recorded & there


@st.composite
def combinations(draw: st.DrawFn) -> Combination:
    """Any."""
    own = renamed(
        machine(draw(st.sampled_from(MACHINES))),
        draw(st.sampled_from(tuple(STYLES))),
        draw(st.integers(0, 2)),
    )
    gpus = len(own.plugins[0].devices)
    pods = [pod("a", gpus=draw(st.integers(0, 2))), pod("b", gpus=draw(st.integers(0, gpus - 2)))]
    node = at_work(*pods[: draw(st.integers(0, 2))], on=own)
    words = draw(st.sampled_from(MACHINES))
    beside = renamed(
        machine(words),
        draw(st.sampled_from(tuple(STYLES))),
        draw(st.integers(0, 2)),
        first=draw(st.sampled_from((0, 0, 1))),
    )
    uids = tuple(node.state.active)
    gone = tuple(draw(st.sets(st.sampled_from(uids)))) if uids else ()
    return Combination(node, beside, gone, draw(st.integers(0, 2)), match=draw(st.integers(0, 3)) == 0)


def write(one: Combination, folder: Path) -> None:
    node = one.node
    written(folder / "state", node.files.texts)
    listed = {
        uid: {"containerResources": {"main": {"requests": {"cpu": "2"}}}}
        for uid in node.state.active
        if uid not in one.gone
    }
    if one.gone:
        data = json.dumps({"entries": listed})
        (folder / "state" / "allocated_pods_state").write_text(json.dumps({"data": data, "checksum": 1}))
    if one.claims:
        claims = [{"ClaimName": f"claim-{at}", "Namespace": "default"} for at in range(one.claims)]
        data = json.dumps({"ClaimInfoStateList": claims})
        (folder / "state" / "dra_manager_state").write_text(json.dumps({"Data": data, "Checksum": 1}))
    (folder / "machine.yaml").write_text(to_json(encode_machine(one.beside)))
    head = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    (folder / "kubelet.yaml").write_text(json.dumps({**head, **CONFIG}))
    (folder / "pod.yaml").write_text(POD)
    node_list = {"nodes": [{"machine": "machine.yaml", "kubelet": "kubelet.yaml", "state": "state"}]}
    (folder / "nodes.yaml").write_text(json.dumps(node_list))


def run(*words: object) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main([str(word) for word in words])
    return status, out.getvalue(), err.getvalue()


def answered(command: str, one: Combination, folder: Path) -> tuple[int, str, str]:
    """Exit code, output and what was said beside it."""
    match = ["--match-devices"] if one.match else []
    config = ("--kubelet-config", folder / "kubelet.yaml")
    node = ["--machine", folder / "machine.yaml", "--state", folder / "state", *match]
    beside = ["--machine", folder / "machine.yaml", *config, *match]
    name, _, form = command.partition(" ")
    data = ["-o", "json"] if form == "json" else []
    match name:
        case "simulate" | "why":
            return run(name, *node, *config, *data, folder / "pod.yaml")
        case "check":
            return run("check", *node, *config, "-o", "json")
        case "verify" | "show":
            return run("state", name, *beside, *data, folder / "state")
        case "plan" if form == "switch":
            return run("plan", form, *node, folder / "kubelet.yaml", folder / "kubelet.yaml")
        case "plan":
            return run("plan", form, *node, *config, "--gpus", 1, "--image", "x")
        case "fleet":
            return run("simulate", "--nodes", folder / "nodes.yaml", *match, "-q", folder / "pod.yaml")
        case "capacity":
            return run(name, "--nodes", folder / "nodes.yaml", *match, "-q", folder / "pod.yaml")
    try:
        kubelet = numawise.Node(
            folder / "machine.yaml", folder / "kubelet.yaml", state=folder / "state", match_devices=one.match
        )
    except KubeletRefused:
        return 2, "", "the kubelet would not start"
    except InputError as problem:
        return 2, "", str(problem)
    admitted = kubelet.admit(folder / "pod.yaml").admitted
    return int(not admitted), "", "\n".join(kubelet.remarks)


def sizes(kind: str, texts: list[str]) -> int:
    """How many entries the matches of a pattern name."""
    if kind == "cpus":
        return sum(parse_ids(text).bit_count() for text in texts)
    if kind == "memory":
        return sum(text.count("NUMA") + sum(map(int, re.findall(r"and (\d+) more", text))) for text in texts)
    return sum(map(int, texts))


def named(said: str) -> dict[str, int]:
    """How many entries of each kind are named in sentences."""
    return {kind: sizes(kind, pattern.findall(said)) for kind, pattern in NAMED.items()}


def documented(unmatched: list[dict[str, Any]]) -> dict[str, int]:
    """How many entries of each kind are named in a document."""
    found = dict.fromkeys(NAMED, 0)
    for entry in unmatched:
        kind = "pods" if entry["kind"] == "pod" else KINDS.get(entry["source"], "devices")
        found[kind] += len(entry["names"])
    return found


def checked(findings: list[dict[str, Any]], expected: Mapping[str, int]) -> dict[str, int]:
    """What findings name: of CPUs and memory, and of devices that are gone, other codes have the particulars."""
    found = named("\n".join(f"{one['message']};" for one in findings if one["code"] == "NW320"))
    codes = {one["code"] for one in findings}
    for kind, others in (("cpus", {"NW305"}), ("memory", {"NW310", "NW311"})):
        if not found[kind] and codes & others:
            found[kind] = expected[kind]
    every = "\n".join(one["message"] for one in findings)
    if f"{GPU} devices of" not in every and f"{GPU} device of" not in every:
        lost = re.findall(rf"{GPU} (.*) of \S+ is not on the machine", every)
        found["devices"] += len({name for names in lost for name in names.split(", ")})
    return {**found, "pods": expected["pods"]}


def tried(one: Combination, folder: Path) -> Iterator[str]:
    """What breaks the law."""
    expected = one.expected()
    for command in COMMANDS:
        status, out, err = answered(command, one, folder)
        if one.dropped() and status == 0 and not one.match and command not in ("show", "show json"):
            yield f"{command}: yes, beside GPUs that nobody can place"
        if one.match and ("mapped by number" in err or "would not start" in err):
            continue  # these are matched, or there is no answer
        if "would not start" in err and command == "python":
            continue
        found = (
            checked(json.loads(out)["findings"], expected)
            if command == "check" and status < 2
            else named(err)
        )
        if command in ("verify json", "show json", "simulate json", "why json") and status < 2:
            found = documented(json.loads(out).get("unmatched", []))
        if command == "verify" and status < 2:
            continue  # its findings are those of the document
        if found != expected:
            yield f"{command}: named {found}, expected {expected}: {status} {err}"


@given(combinations())
@laws(60)
def test_what_is_read_is_matched_or_named(one: Combination) -> None:
    with TemporaryDirectory() as name:
        write(one, Path(name))
        assert not (problems := list(tried(one, Path(name)))), "\n".join(problems)


@given(st.sampled_from(MACHINES), st.integers(0, 2), st.integers(0, 2), st.integers(1, 4))
@laws(60)
def test_what_is_mapped_by_number_is_answered_as_by_its_ids(
    words: str, one: int, other: int, gpus: int
) -> None:
    own = renamed(machine(words), "uuids", 0)
    wanted = [pod(name, gpus=count) for name, count in (("a", one), ("b", other)) if count]
    node = at_work(*wanted[: len(own.plugins[0].devices) // 2], on=own)
    answers = []
    for style in ("uuids", "names"):
        beside = Combination(node, renamed(machine(words), style, 0), (), 0, match=style == "names")
        with TemporaryDirectory() as name:
            write(beside, Path(name))
            (Path(name) / "pod.yaml").write_text(POD.replace(f"{GPU}: 1", f"{GPU}: {gpus}"))
            status, out, err = answered("simulate json", beside, Path(name))
        assert status < 2, err
        (came,) = json.loads(out)["pods"]
        answers.append((status, came["verdict"], came.get("reason"), came.get("affinity")))
    assert answers[0] == answers[1]
