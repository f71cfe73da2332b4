"""Node objects and what pods demand of nodes: what is read, and what is refused at which line."""

from pathlib import Path

import pytest

from numawise.codec.document import Document, read_documents
from numawise.codec.node import node_from, node_object, read_node_file
from numawise.codec.pod import pod_from
from numawise.codec.workload import decode_pods
from numawise.errors import InputError
from numawise.machine.description import Taint
from numawise.request.constraints import DAEMONS_TOLERATE, HostPort, NodeRequirement, Toleration
from numawise.request.defaults import RawPod, defaulted

NODE = """\
apiVersion: v1
kind: Node
metadata:
  name: worker-7
  labels: {zone: a, gen: 3}
spec:
  unschedulable: true
  taints:
  - {key: gpu, value: h100, effect: NoExecute, timeAdded: "2024-01-01T00:00:00Z"}
status:
  allocatable: {cpu: 7500m, memory: 30Gi, pods: "110", ephemeral-storage: "1000", nvidia.com/gpu: "8"}
  conditions:
  - {type: MemoryPressure, status: "True"}
  - {type: DiskPressure, status: "False"}
  - {type: Ready, status: "False", message: node is shutting down}
  features: {supplementalGroupsPolicy: true}
  nodeInfo: {kernelVersion: 5.15.0-91-generic}
"""


def node(text: str):  # noqa: ANN201 - a description, or an error
    (document,) = read_documents(text, "node.yaml")
    return node_object(document.root)


def test_a_node() -> None:
    found = node(NODE)
    assert (found.name, found.labels) == ("worker-7", {"zone": "a", "gen": "3"})
    assert found.taints == (Taint("gpu", "NoExecute", "h100"),)
    assert (found.unschedulable, found.pressures, found.shutting_down) == (True, ("MemoryPressure",), True)
    assert found.allocatable["cpu"] == 7500
    assert found.allocatable["memory"] == 30 << 30
    assert (found.strict_groups, found.kernel) == (True, "5.15.0-91-generic")


@pytest.mark.parametrize(("old", "new", "line", "words"), [
    ("kind: Node",            "kind: Pod",            2,  '"Pod" is not a Node'),
    ("effect: NoExecute",     "effect: Never",        9,  'unknown effect "Never"'),
    ("effect: NoExecute",     "effects: NoExecute",   9,  "effect: is missing"),
    ("{key: gpu, ",           "{",                    9,  "key: is missing"),
    ("memory: 30Gi",          "memory: 30Gx",         11, '"30Gx" is not a quantity'),
    ("labels: {zone: a, gen: 3}", "labels: [zone]",   5,  "must be a mapping of labels"),
])  # fmt: skip
def test_what_is_wrong_with_a_node(old: str, new: str, line: int, words: str) -> None:
    with pytest.raises(InputError) as caught:
        node(NODE.replace(old, new))
    assert caught.value.line == line
    assert words in str(caught.value)


def test_a_list_of_nodes_needs_a_name(tmp_path: Path) -> None:
    items = [{"kind": "Node", "metadata": {"name": name}} for name in ("a", "b")]
    path = tmp_path / "nodes.json"
    path.write_text(str({"kind": "List", "items": items}).replace("'", '"'))
    assert read_node_file(str(path), "b").name == "b"
    with pytest.raises(InputError, match="holds several nodes"):
        read_node_file(str(path))
    with pytest.raises(InputError, match="has no node 'c'"):
        read_node_file(str(path), "c")


def test_what_an_api_server_returned() -> None:
    assert node_from({"metadata": {"name": "n1", "labels": None}, "spec": {}, "status": None}).name == "n1"


# --- pods -------------------------------------------------------------------------------------

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: p
  labels: {kubernetes.io/os: linux}
  annotations: {kubernetes.io/config.source: file}
spec:
  nodeName: n7
  nodeSelector: {zone: a, gen: 3}
  os: {name: linux}
  priorityClassName: system-node-critical
  hostNetwork: true
  securityContext: {supplementalGroupsPolicy: Strict, sysctls: [{name: net.core.somaxconn, value: "1"}]}
  tolerations:
  - {key: gpu, operator: Exists, effect: NoExecute, tolerationSeconds: 300}
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchExpressions: [{key: zone, operator: In, values: [a, b]}]
  initContainers:
  - {name: s, restartPolicy: Always, ports: [{containerPort: 90}]}
  - {name: i, ports: [{containerPort: 91}]}
  containers:
  - {name: c, ports: [{containerPort: 80, hostIP: 10.0.0.1, protocol: UDP}, {containerPort: 81, hostPort: 8081}]}
"""


def pods(text: str) -> tuple[RawPod, ...]:
    (document,) = read_documents(text, "pod.yaml")
    return decode_pods(document)


def test_what_a_pod_demands() -> None:
    (pod,) = pods(POD)
    found = pod.constraints
    assert (found.node_name, found.node_selector, found.os, found.os_label) == (
        "n7", {"zone": "a", "gen": "3"}, "linux", "linux",
    )  # fmt: skip
    assert (found.priority, found.static, found.mirror, found.critical) == (2_000_001_000, True, False, True)
    assert found.tolerations == (Toleration("gpu", "Exists", effect="NoExecute"),)
    assert found.node_affinity is not None
    assert found.node_affinity[0].labels == (NodeRequirement("zone", "In", ("a", "b")),)
    assert found.ports == (
        HostPort(90, sidecar=True), HostPort(80, "UDP", "10.0.0.1"), HostPort(8081),
    )  # fmt: skip
    assert (found.strict_groups, found.sysctls) == (True, ("net.core.somaxconn",))
    (document,) = read_documents(POD, "pod.yaml")
    assert pod_from(document.value).constraints == found  # type: ignore[arg-type]


def test_what_others_add() -> None:
    plain = defaulted(pod_from({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}))
    assert {one.key for one in plain.constraints.tolerations} == {
        "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable",
    }  # fmt: skip
    template = {"spec": {"containers": [{"name": "c"}]}}
    (daemon,) = decode_pods(
        Document({"kind": "DaemonSet", "metadata": {"name": "d"}, "spec": {"template": template}})
    )
    assert daemon.constraints.tolerations == DAEMONS_TOLERATE


@pytest.mark.parametrize(("old", "new", "line", "words"), [
    ("operator: In, values: [a, b]", "operator: Is, values: [a]", 20, 'Unsupported value: "Is"'),
    ("operator: In, values: [a, b]", "operator: In",              20, "must be specified when `operator` is 'In'"),
    ("operator: In, values: [a, b]", "operator: Gt, values: [1, 2]", 20, "single value"),
    ("operator: In, values: [a, b]", "operator: Exists, values: [a]", 20, "Forbidden: may not be specified"),
    ("{key: gpu, operator: Exists,", "{operator: Equal,",         15, "operator must be Exists when `key` is empty"),
    ("effect: NoExecute, toler",     "effect: Never, toler",      15, 'Unsupported value: "Never"'),
    ("name: linux}",                 "name: macos}",              10, 'Unsupported value: "macos"'),
    ("hostPort: 8081",               "hostPort: 80810",           25, "must be an integer from 0 to 65535"),
    ("nodeSelector: {zone: a, gen: 3}", "nodeSelector: zone=a",   9,  "must be a mapping of node labels"),
    ("priorityClassName: system-node-critical", "priority: high", 11, "must be an integer"),
    ("supplementalGroupsPolicy: Strict", "supplementalGroupsPolicy: Most", 13, 'Unsupported value: "Most"'),
    ("nodeSelectorTerms:",           "nodeSelectorTerm:",         19, "nodeSelectorTerm"),
])  # fmt: skip
def test_what_is_wrong_with_a_demand(old: str, new: str, line: int, words: str) -> None:
    assert old in POD
    with pytest.raises(InputError) as caught:
        pods(POD.replace(old, new))
    assert words in str(caught.value)
    assert caught.value.line == line
