"""The commands agree with each other: what one takes, all take, and say the same about what is bad.

Each table below lists the forms of one part of a node (machine, kubelet configuration, state files, pods); each
form is tried with every command that has the part.
"""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from numawise.apps.scheduler.questions import Questions
from numawise.apps.scheduler.refusals import Refusals
from numawise.cluster.live import LiveCluster
from numawise.cluster.live_places import LivePlaces
from numawise.codec.extender import ExtenderArgs
from numawise.codec.hardware.encode import hardware_data
from numawise.codec.output import to_json, to_yaml
from numawise.codec.pod import pod_from
from numawise.inputs.machine import machine_data, read_machine
from numawise.node.node import Files, boot
from numawise.rules.check import Refusal
from tests import needs
from tests.cli.run import Ran, numawise
from tests.nodetree import grow_node, pod_list
from tests.unit.cluster.live_objects import api_node, published
from tests.unit.inputs.test_bundle import make
from tests.unit.inputs.test_machine import LSCPU, NUMACTL, topology
from tests.unit.inputs.test_workloads import OBJECTS, OTHERS

Run = Callable[..., Ran]
MACHINE = "2s 2n 4c 2gpu"
FIELDS = "cpuManagerPolicy: static\ntopologyManagerPolicy: restricted\nreservedSystemCPUs: '0'\n"
HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
FLAGS = "--cpu-manager-policy=static --topology-manager-policy=restricted --reserved-cpus=0"
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - {name: main, image: x, resources: {limits: {cpu: 1, memory: 1Gi}}}
"""
STATE = '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'


def indented(text: str, by: int) -> str:
    return "".join(f"{' ' * by}{line}\n" for line in text.splitlines())


CONFIGS = {
    "plain.yaml": HEAD + FIELDS,
    "fragment.yaml": FIELDS,
    "configz.json": json.dumps(
        {
            "kubeletconfig": {
                "cpuManagerPolicy": "static",
                "topologyManagerPolicy": "restricted",
                "reservedSystemCPUs": "0",
            }
        }
    ),
    "openshift.yaml": "apiVersion: machineconfiguration.openshift.io/v1\nkind: KubeletConfig\nmetadata: {name: k}\n"
    f"spec:\n  kubeletConfig:\n{indented(FIELDS, 4)}",
    "kubeadm.yaml": "apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\n---\n" + HEAD + FIELDS,
    "join.yaml": "apiVersion: kubeadm.k8s.io/v1beta3\nkind: JoinConfiguration\nnodeRegistration:\n  kubeletExtraArgs:\n"
    "    cpu-manager-policy: static\n    topology-manager-policy: restricted\n    reserved-cpus: '0'\n",
    "kind.yaml": "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nkubeadmConfigPatches:\n- |\n"
    f"{indented(HEAD + FIELDS, 2)}",
    "k3s.yaml": "kubelet-arg:\n- cpu-manager-policy=static\n- topology-manager-policy=restricted\n- reserved-cpus=0\n",
    "talos.yaml": f"machine:\n  kubelet:\n    extraConfig:\n{indented(FIELDS, 6)}",
    "eks.yaml": "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n    config:\n"
    f"{indented(FIELDS, 6)}",
    "eksctl.yaml": "apiVersion: eksctl.io/v1alpha5\nkind: ClusterConfig\nnodeGroups:\n- name: g\n  kubeletExtraConfig:\n"
    f"{indented(FIELDS, 4)}",
    "kops.yaml": "apiVersion: kops.k8s.io/v1alpha2\nkind: InstanceGroup\nspec:\n  kubelet:\n"
    f"{indented(FIELDS, 4)}",
    "karpenter.yaml": "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nspec:\n  userData: |\n"
    "    apiVersion: node.eks.aws/v1alpha1\n    kind: NodeConfig\n    spec:\n      kubelet:\n        config:\n"
    f"{indented(FIELDS, 10)}",
    "bottlerocket.toml": '[settings.kubernetes]\ncpu-manager-policy = "static"\n'
    'topology-manager-policy = "restricted"\nreserved-cpus = "0"\n',
    "bootstrap.sh": f"#!/bin/bash\n/etc/eks/bootstrap.sh it --kubelet-extra-args '{FLAGS}'\n",
    "capi.yaml": "kind: KubeadmConfigTemplate\nspec:\n  template:\n    spec:\n      joinConfiguration:\n"
    "        nodeRegistration:\n          kubeletExtraArgs:\n          - {name: cpu-manager-policy, value: static}\n"
    "          - {name: topology-manager-policy, value: restricted}\n          - {name: reserved-cpus, value: '0'}\n",
    "microshift.yaml": f"kubelet:\n{indented(FIELDS, 2)}",
    "configmap.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kubelet-config}\ndata:\n  kubelet: |\n"
    f"{indented(HEAD + FIELDS, 4)}",
}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every form of everything; what a test adds, it writes anew."""
    tmp_path = tmp_path_factory.mktemp("forms")
    given = read_machine(MACHINE)
    for name, text in {
        "machine.yaml": to_yaml(machine_data(given.hardware)),
        "hardware.json": to_json(hardware_data(given.hardware)),
        "nrt.yaml": to_yaml(topology()),
        "lscpu.txt": LSCPU,
        "numactl.txt": NUMACTL,
        "folder/machine.yaml": to_yaml(machine_data(given.hardware)),
        "drop/10.conf": f"{HEAD}topologyManagerPolicy: restricted\n",
        "base.yaml": f"{HEAD}cpuManagerPolicy: static\nreservedSystemCPUs: '0'\n",
        "kubelet.env": f"KUBELET_ARGS={FLAGS}\n",
        "kubelet.service": f"[Service]\nExecStart=/usr/bin/kubelet {FLAGS}\n",
        "state/cpu_manager_state": STATE,
        "pod.yaml": POD,
        "pods/a.yaml": POD,
        "pods/deep/b.json": json.dumps(
            {"kind": "Pod", "metadata": {"name": "q"}, "spec": OBJECTS["Pod"]["spec"]}
        ),
        **CONFIGS,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    root = grow_node(tmp_path / "root")
    (tmp_path / "pods.json").write_text(pod_list("dabc"))
    (tmp_path / "node.tar.gz").write_bytes(make(root, pods=(str(tmp_path / "pods.json"),), kube="1.36").data)
    return tmp_path


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """That folder, with the test in it."""
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return lambda *words: numawise(capsys, *words)


def taken(ran: Ran, *what: object) -> None:
    """A command understood its input: it said yes or no."""
    assert ran.status in (0, 1), (what, ran.err)
    assert "Traceback" not in ran.err


# --- machines -------------------------------------------------------------------------------

MACHINES = [
    ["8gpu-server"], [MACHINE], ["machine.yaml"], ["./machine.yaml"], ["hardware.json"], ["nrt.yaml"], ["lscpu.txt"],
    ["lscpu.txt", "numactl.txt"], ["folder"], ["root"], ["node.tar.gz"], pytest.param(["this"], marks=[needs.SYS, needs.PROC]),
]  # fmt: skip
WITH_MACHINE = {
    "simulate": ["simulate", "--kubelet-config", "none.yaml", "pod.yaml"],
    "compare": ["simulate", "--kubelet-config", "none.yaml", "--compare", "none.yaml", "pod.yaml"],
    "compare-kube": ["simulate", "--kubelet-config", "none.yaml", "--compare-kube", "1.34,1.36", "pod.yaml"],
    "why": ["why", "--kubelet-config", "none.yaml", "pod.yaml"],
    "check": ["check", "pod.yaml"],
    "plan kubelet": ["plan", "kubelet"],
    "plan pod": ["plan", "pod", "pod.yaml"],
    "plan switch": ["plan", "switch", "none.yaml", "none.yaml"],
    "state show": ["state", "show", "state"],
    "state verify": ["state", "verify", "state"],
    "run": ["run", "--dry-run", "--cpus", "1"],
    "docker": ["docker", "--dry-run", "--cpus", "1"],
    "flags": ["flags", "--cpus", "1"],
}


@pytest.mark.parametrize("command", WITH_MACHINE)
@pytest.mark.parametrize("words", MACHINES, ids=" ".join)
def test_every_machine_in_every_command(command: str, words: list[str], here: Path, run: Run) -> None:
    (here / "none.yaml").write_text(HEAD)
    arguments = [*WITH_MACHINE[command]]
    for word in words:
        arguments += ["--machine", word]
    if command in ("run", "docker"):
        arguments += ["--", "run", "image"] if command == "docker" else ["--", "true"]
    ran = run(*arguments)
    if words == ["this"] and command in ("plan kubelet", "plan pod"):
        assert "is neither" not in ran.err  # this machine may be too small to plan for
        return
    taken(ran, command, words)


@pytest.mark.parametrize("words", MACHINES, ids=" ".join)
def test_every_machine_as_a_node_of_many(words: list[str], here: Path, run: Run) -> None:
    if len(words) > 1:
        pytest.skip("a node of many is named by one word")
    (word,) = words
    (here / "none.yaml").write_text(HEAD)
    config = [] if word == "node.tar.gz" else ["--kubelet-config", "none.yaml"]
    taken(run("simulate", *config, "--nodes", word, "pod.yaml"))


@pytest.mark.parametrize("words", MACHINES, ids=" ".join)
def test_show_draws_every_machine(words: list[str], here: Path, run: Run) -> None:
    taken(run("show", *words))
    assert here


@pytest.mark.parametrize("command", WITH_MACHINE)
@pytest.mark.parametrize(("word", "said"), [
    ("dgx-h10",     "'dgx-h10' is neither a file, a folder nor a machine of the catalogue; did you mean 'dgx-h100'?"),
    ("state",       "state: has neither sys nor proc nor machine.yaml"),
    ("plain.yaml",  "plain.yaml"),
])  # fmt: skip
def test_a_bad_machine_is_the_same_everywhere(
    command: str, word: str, said: str, here: Path, run: Run
) -> None:
    (here / "none.yaml").write_text(HEAD)
    more = {"docker": ["--", "run", "image"], "run": ["--", "true"]}.get(command, [])
    ran = run(*WITH_MACHINE[command], "--machine", word, *more)
    assert ran.status == 2, ran
    assert said in ran.err


# --- configurations -------------------------------------------------------------------------

EVERY_CONFIG = {
    **{name: ["--kubelet-config", name] for name in CONFIGS},
    "drop-ins": ["--kubelet-config", "base.yaml", "--config-dir", "drop"],
    "flags": ["--kubelet-flags", FLAGS],
    "variables": ["--kubelet-flags", "kubelet.env"],
    "unit": ["--kubelet-flags", "kubelet.service"],
}
WITH_CONFIG = {
    "simulate": ["simulate", "pod.yaml", "--machine", MACHINE],
    "nodes": ["simulate", "pod.yaml", "--nodes", f"{MACHINE}:2"],
    "why": ["why", "pod.yaml", "--machine", MACHINE],
    "check": ["check", "pod.yaml", "--machine", MACHINE],
    "plan pod": ["plan", "pod", "pod.yaml", "--machine", MACHINE],
    "state verify": ["state", "verify", "state", "--machine", MACHINE],
    "state show": ["state", "show", "state", "--machine", MACHINE],
}


@pytest.mark.parametrize("command", WITH_CONFIG)
@pytest.mark.parametrize("form", EVERY_CONFIG)
def test_every_configuration_in_every_command(command: str, form: str, here: Path, run: Run) -> None:
    taken(run(*WITH_CONFIG[command], *EVERY_CONFIG[form]), command, form)
    assert here


@pytest.mark.parametrize("form", EVERY_CONFIG)
def test_every_form_gives_the_same_configuration(form: str, here: Path, run: Run) -> None:
    """A pod of both GPUs is refused by restricted alone; its CPUs are its own by static alone."""
    text = POD.replace("cpu: 1,", "cpu: 2, nvidia.com/gpu: 1,")
    (here / "two.yaml").write_text(text)
    ran = run("simulate", "--machine", MACHINE, *EVERY_CONFIG[form], "-o", "json", "two.yaml")
    (pod,) = json.loads(ran.out)["pods"]
    (container,) = pod["containers"]
    assert (pod["verdict"], container["cpus"], container["exclusive"]) == ("admitted", "2-3", True)


@pytest.mark.parametrize("command", [name for name in WITH_CONFIG if name != "check"])
@pytest.mark.parametrize(("text", "said"), [
    (HEAD + "cpuManagerPolicyy: static\n",   'bad.yaml:3: cpuManagerPolicyy: unknown field "cpuManagerPolicyy"; did you mean "cpuManagerPolicy"?'),
    (HEAD + "cpuManagerPolicy: [1]\n",       "bad.yaml:3: failed to decode: json: cannot unmarshal array"),
    ("a: {\n",                               "bad.yaml:1: is not valid YAML"),
    ("kind: Service\n",                      "bad.yaml:1: has no kubelet configuration in it"),
])  # fmt: skip
def test_a_bad_configuration_is_the_same_everywhere(
    command: str, text: str, said: str, here: Path, run: Run
) -> None:
    (here / "bad.yaml").write_text(text)
    ran = run(*WITH_CONFIG[command], "--kubelet-config", "bad.yaml")
    assert ran.status == 2, ran
    assert said in ran.err
    ran = run(*WITH_CONFIG[command], "--kubelet-flags", "--no-such-flag=1")
    assert ran.status == 2, ran
    assert (
        "--kubelet-flags:1: --no-such-flag: failed to parse kubelet flag: unknown flag: --no-such-flag"
        in ran.err
    )


# --- state files ----------------------------------------------------------------------------

STATES = [["state"], ["state/cpu_manager_state"], ["node.tar.gz"]]
WITH_STATE = {
    "simulate": ["simulate", "pod.yaml", "--machine", "node.tar.gz", "--kubelet-config", "node.tar.gz"],
    "why": ["why", "pod.yaml", "--machine", "node.tar.gz", "--kubelet-config", "node.tar.gz"],
    "check": ["check", "--machine", "node.tar.gz"],
    "plan switch": ["plan", "switch", "node.tar.gz", "plain.yaml"],
    "plan pod": ["plan", "pod", "pod.yaml", "--machine", "node.tar.gz", "--kubelet-config", "node.tar.gz"],
}


@pytest.mark.parametrize("command", [*WITH_STATE, "state show", "state verify"])
@pytest.mark.parametrize("words", STATES, ids=" ".join)
def test_every_state_in_every_command(command: str, words: list[str], here: Path, run: Run) -> None:
    if command.startswith("state"):
        taken(run(*command.split(), *words))
        return
    arguments = [*WITH_STATE[command]]
    for word in words:
        arguments += ["--state", word]
    ran = run(*arguments)
    refused = "would not start (cpu-manager-start)" in ran.err and words != ["node.tar.gz"]
    assert refused or ran.status in (0, 1), ran.err
    assert here


# --- pods -----------------------------------------------------------------------------------

WITH_PODS = {
    "simulate": ["simulate", "--machine", "8gpu-server", "--kubelet-config", "plain.yaml"],
    "nodes": ["simulate", "--nodes", "8gpu-server:2", "--kubelet-config", "plain.yaml"],
    "compare-kube": [
        "simulate", "--machine", "8gpu-server", "--kubelet-config", "plain.yaml", "--compare-kube", "1.34,1.36",
    ],
    "why": ["why", "--machine", "8gpu-server", "--kubelet-config", "plain.yaml"],
    "check": ["check", "--machine", "8gpu-server", "--kubelet-config", "plain.yaml"],
    "plan pod": ["plan", "pod", "--machine", "8gpu-server", "--kubelet-config", "plain.yaml"],
    "plan switch": ["plan", "switch", "plain.yaml", "plain.yaml", "--machine", "8gpu-server"],
}  # fmt: skip


@pytest.mark.parametrize("command", WITH_PODS)
@pytest.mark.parametrize("kind", [*OBJECTS, *OTHERS])
def test_every_kind_in_every_command(command: str, kind: str, here: Path, run: Run) -> None:
    (here / "object.json").write_text(json.dumps((OBJECTS | OTHERS)[kind]))
    taken(run(*WITH_PODS[command], "object.json"), command, kind)


@pytest.mark.parametrize("command", WITH_PODS)
def test_folders_in_every_command(command: str, here: Path, run: Run) -> None:
    taken(run(*WITH_PODS[command], "pods"), command)
    assert here


@pytest.mark.parametrize("command", [name for name in WITH_PODS if name != "check"])
@pytest.mark.parametrize(("text", "said"), [
    ("kind: Pdo\nmetadata: {name: a}\n",      'bad.yaml:1: kind: objects of kind "Pdo" have no pod template'),
    ("kind: Gateway\nmetadata: {name: a}\n",  'bad.yaml:1: kind: objects of kind "Gateway" have no pod template'),
    ("kind: Service\nmetadata: {name: a}\n",  "bad.yaml: has no pods"),
])  # fmt: skip
def test_bad_pods_are_the_same_everywhere(command: str, text: str, said: str, here: Path, run: Run) -> None:
    (here / "bad.yaml").write_text(text)
    ran = run(*WITH_PODS[command], "bad.yaml")
    assert ran.status == 2, ran
    assert said in ran.err


def listed(name: str, node: str = "", phase: str = "Running") -> dict[str, object]:
    return {
        "kind": "Pod",
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {**OBJECTS["Pod"]["spec"], **({"nodeName": node} if node else {})},
        "status": {"phase": phase},
    }


@pytest.mark.parametrize("command", [name for name in WITH_PODS if name not in ("plan pod", "nodes")])
def test_what_a_cluster_lists(command: str, here: Path, run: Run) -> None:
    """Pods that have ended and pods of other nodes are left out, and that is said."""
    items = [
        listed("a", "n1"),
        listed("b", "n2"),
        listed("c", "n1", "Succeeded"),
        listed("d", phase="Pending"),
    ]
    (here / "list.json").write_text(json.dumps({"kind": "List", "items": items}))
    ran = run(*WITH_PODS[command], "--node-name", "n1", "list.json")
    taken(ran, command)
    assert "numawise: pods: 1 that has ended and 1 of other nodes than n1 are left out\n" in ran.err
    ran = run(*WITH_PODS[command], "list.json")
    assert "numawise: pods: 1 that has ended is left out\n" in ran.err
    assert "they are of 2 nodes (n1, n2), and all of them are taken; --node-name names one\n" in ran.err


def test_names_of_a_bundle(here: Path, run: Run) -> None:
    """Where a bundle is given, its pods can be named."""
    names = json.loads(run("simulate", "--bundle", "node.tar.gz", "-o", "json", "pod.yaml").out)
    assert names
    name = json.loads(run("state", "show", "node.tar.gz", "-o", "json").out)["holders"][0]["pod"]
    for command in (["simulate"], ["why"], ["check"]):
        taken(run(*command, "--bundle", "node.tar.gz", name.rpartition("/")[2]), command)
    assert here


def test_standard_input_is_read_once(here: Path, run: Run) -> None:
    for command in ("simulate", "why", "check"):
        ran = run(command, "--machine", "-", "--kubelet-config", "plain.yaml", "-")
        assert (ran.status, "standard input (-) can be read only once" in ran.err) == (2, True)
    assert here


# --- refusals -------------------------------------------------------------------------------

TWO_HALVES = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "cpuManagerPolicy": "static",
    "reservedSystemCPUs": "0",
}


def gpus(name: str, count: int, cpu: str = "1") -> dict[str, object]:
    limits = {"cpu": cpu, "memory": "1Gi", "nvidia.com/gpu": str(count)}
    containers = [{"name": "main", "image": "x", "resources": {"limits": limits}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "uid": name},
        "spec": {"containers": containers},
    }


def extender_of(policy: str, held: list[dict[str, object]]) -> Questions:
    """An extender that knows this one node, as it publishes itself."""
    node = boot(
        read_machine("2s 2n 16c 8gpu").machine, {**TWO_HALVES, "topologyManagerPolicy": policy}, Files()
    )
    assert not isinstance(node, Refusal)
    node.plugins_registered(node.machine.plugins)
    view = LiveCluster()
    view.take_node("a", api_node("a"), 0.0)
    view.take_topology("a", published(node, "a"), 0.0)
    for number, pod in enumerate(held):
        bound = {**pod, "spec": {**pod["spec"], "nodeName": "a"}}  # type: ignore[dict-item]
        metadata = {**pod["metadata"], "resourceVersion": str(number + 1)}  # type: ignore[dict-item]
        view.take_pod({**bound, "metadata": metadata}, 0.0)
    questions = Questions(view, threading.RLock(), clock=lambda: 1000.0)
    questions.refusals = Refusals(clock=lambda: 0.0)
    return questions


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted", "single-numa-node"])
@pytest.mark.parametrize(("held", "asks"), [
    ((),     gpus("p", 9)),               # more than there are
    ((),     gpus("p", 5)),               # more than a half has
    ((3, 2), gpus("p", 5)),               # likewise, and too few are left
    ((3, 3), gpus("p", 2)),               # enough, in pieces
    ((4, 1), gpus("p", 4)),               # too few left
    ((4, 4), gpus("p", 1)),               # none left
    ((),     gpus("p", 1, cpu="99")),     # CPUs
    ((2,),   gpus("p", 1, cpu="31500m")), # shared CPUs: by sums
])  # fmt: skip
def test_one_refusal_has_one_name(
    policy: str, held: tuple[int, ...], asks: dict[str, object], tmp_path: Path, run: Run
) -> None:
    """In simulate, why, on one node of many, as a copy, in capacity, and by the extender of the same node."""
    (tmp_path / "k.yaml").write_text(to_yaml({**TWO_HALVES, "topologyManagerPolicy": policy}))
    others = [gpus(f"h{number}", count) for number, count in enumerate(held)]
    (tmp_path / "queue.json").write_text(to_json({"kind": "List", "items": [*others, asks]}))
    (tmp_path / "held.json").write_text(to_json({"kind": "List", "items": others}))
    (tmp_path / "asks.json").write_text(to_json(asks))
    node = ["--machine", "2s 2n 16c 8gpu", "--kubelet-config", str(tmp_path / "k.yaml")]

    def said(*words: object) -> dict[str, Any]:
        ran = run(*map(str, words), "-o", "json")
        assert ran.status in (0, 1), ran.err
        return dict(json.loads(ran.out))

    last = said("simulate", *node, tmp_path / "queue.json")["pods"][-1]
    if last["verdict"] == "admitted":
        return
    reasons = {"simulate": last["reason"]}
    explained = said("why", *node, tmp_path / "queue.json")["pods"][-1]
    reasons["why"] = explained["reason"]
    copies = [tmp_path / "held.json"] if held else []
    (filled,) = said("simulate", *node, *copies, "--fill", tmp_path / "asks.json")["filled"]
    reasons["fill"] = filled["stopped"]["reason"]
    fleet = said("simulate", "--nodes", "2s 2n 16c 8gpu:1", *node[2:], tmp_path / "queue.json")
    (nowhere,) = fleet["pods"][-1]["reasons"]
    reasons["nodes"] = nowhere["reason"]
    questions = extender_of(policy, others)
    places = LivePlaces(questions.view).report([("p", pod_from(asks))], 8, lambda: 1000.0)
    reasons["capacity"] = places.shapes[0].nodes[0].reason
    answer = questions.filter(ExtenderArgs(asks, ("a",)))
    sentence = {**answer.failed, **answer.never}["a"]
    reasons["filter"] = sentence.partition(",")[0].partition(":")[0]
    assert set(reasons.values()) == {last["reason"]}, reasons
    never = explained["outlook"] == "never"
    assert bool(answer.never) is never
    if never:  # with what holds on the idle node
        assert "in use" not in sentence
        assert "in use" not in explained["answer"]
