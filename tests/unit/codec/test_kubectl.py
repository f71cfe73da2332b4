"""What kubectl prints about pods and events, read back; the prints are kubectl's own, of pods of a recorded run."""

import pytest

from numawise.codec.document import Document
from numawise.codec.kubectl import is_kubectl_text, kubectl_documents
from numawise.codec.workload import decode_pods, pod_documents
from numawise.errors import InputError
from numawise.quantity import Quantity
from numawise.request.model import Role

DESCRIBED = """\
Name:             initd
Namespace:        team-a
Priority:         0
Service Account:  default
Node:             numa-vm/10.0.0.7
Start Time:       Sun, 15 Nov 2026 12:04:17 +0100
Labels:           app=train
                  tier=gpu
Annotations:      kubernetes.io/config.source: api
Status:           Failed
Reason:           OutOfcpu
Message:          Pod was rejected: Node didn't have enough resource: cpu, requested: 2000, used: 8600, capacity: 10000
IP:
IPs:              <none>
Controlled By:    StatefulSet/initd
Init Containers:
  i:
    Image:      local.test/pause:1
    Port:       <none>
    Host Port:  <none>
    Command:
      /bin/true
      --limits: cpu
    Limits:
      cpu:     2
      memory:  60Mi
    Requests:
      cpu:        2
      memory:     60Mi
    Environment:  <none>
    Mounts:       <none>
Containers:
  m:
    Image:      local.test/pause:1
    Port:       8080/TCP
    Host Port:  8080/TCP
    Limits:
      cpu:             2
      memory:          60Mi
      nvidia.com/gpu:  1
    Requests:
      cpu:             2
      memory:          60Mi
      nvidia.com/gpu:  1
    Environment:
      CPU:  2
    Mounts:
      /var/run/secrets from token (ro)
Conditions:
  Type           Status
  PodScheduled   True
Volumes:          <none>
QoS Class:        Guaranteed
Node-Selectors:   zone=a
                  disk=ssd
Tolerations:      node.kubernetes.io/not-ready:NoExecute op=Exists for 300s
                  dedicated=gpu:NoSchedule
Events:
  Type     Reason     Age                From               Message
  ----     ------     ----               ----               -------
  Normal   Scheduled  17h                default-scheduler  Successfully assigned team-a/initd to numa-vm
  Warning  OutOfcpu   10m (x3 over 17h)  kubelet, numa-vm   Node didn't have enough resource: cpu, requested: 2000, used: 8600, capacity: 10000
"""
LISTED = """\
LAST SEEN           TYPE      REASON                  OBJECT         MESSAGE
17h                 Normal    Starting                Node/numa-vm   Starting kubelet.
17h (x3 over 17h)   Normal    NodeHasSufficientPID    Node/numa-vm   Node numa-vm status is now: NodeHasSufficientPID
17h                 Warning   TopologyAffinityError   Pod/smt        Resources cannot be allocated with Topology locality
"""


def read(text: str) -> tuple[Document, ...]:
    assert is_kubectl_text(text.encode())
    return kubectl_documents(text.encode(), "pasted")


def events(text: str) -> list[dict[str, object]]:
    (document,) = (one for one in read(text) if one.value["kind"] == "EventList")  # type: ignore[index]
    return document.value["items"]  # type: ignore[index,no-any-return]


def test_a_description_is_a_pod() -> None:
    document, _ = read(DESCRIBED)
    (pod,) = decode_pods(document)
    assert (pod.namespace, pod.name, pod.owner, pod.qos) == (
        "team-a",
        "initd",
        "StatefulSet initd",
        "Guaranteed",
    )
    assert [(one.name, one.role) for one in pod.containers] == [("i", Role.INIT), ("m", Role.APP)]
    two, some = Quantity.parse("2"), Quantity.parse("60Mi")
    assert pod.containers[0].limits == pod.containers[0].requests == {"cpu": two, "memory": some}
    assert pod.containers[1].limits["nvidia.com/gpu"] == Quantity.parse("1")
    constraints = pod.constraints
    assert (constraints.node_name, constraints.node_selector) == ("numa-vm", {"zone": "a", "disk": "ssd"})
    assert [(one.key, one.operator, one.value, one.effect) for one in constraints.tolerations] == [
        ("node.kubernetes.io/not-ready", "Exists", "", "NoExecute"),
        ("dedicated", "Equal", "gpu", "NoSchedule"),
    ]
    status = document.value["status"]  # type: ignore[index]
    assert (status["phase"], status["reason"]) == ("Failed", "OutOfcpu")
    assert status["message"].endswith("capacity: 10000")
    assert status["startTime"] == "2026-11-15T11:04:17Z"


def test_events_of_a_description() -> None:
    assert [(one["reason"], one.get("count"), one["source"]) for one in events(DESCRIBED)] == [
        ("Scheduled", None, {"component": "default-scheduler", "host": ""}),
        ("OutOfcpu", 3, {"component": "kubelet", "host": "numa-vm"}),
    ]


@pytest.mark.parametrize("dress", [
    pytest.param(lambda text: text,                                                              id="as printed"),
    pytest.param(lambda text: "$ kubectl describe pod initd -n team-a\n" + text + "$ \n",        id="with prompts"),
    pytest.param(lambda text: "".join(f"> {line}\n" for line in text.splitlines()),              id="quoted"),
    pytest.param(lambda text: "".join(f"    {line}\n" for line in text.splitlines()),            id="indented"),
    pytest.param(lambda text: f"Here it is:\n```console\n{text}```\nPlease help.\n",             id="in Markdown"),
    pytest.param(lambda text: text.replace("\n", "\r\n"),                                        id="from Windows"),
    pytest.param(lambda text: text.replace("Failed", "\x1b[31mFailed\x1b[0m"),                   id="in colour"),
])  # fmt: skip
def test_texts_as_people_paste_them(dress: object) -> None:
    document = read(dress(DESCRIBED))[0]  # type: ignore[operator]
    (pod,) = decode_pods(document)
    assert [len(one.limits) for one in pod.containers] == [2, 3]
    assert document.value["status"]["phase"] == "Failed"  # type: ignore[index]


def test_several_descriptions() -> None:
    documents = read(f"{DESCRIBED}\n\n{DESCRIBED.replace('initd', 'other')}")
    assert [one.value["kind"] for one in documents] == ["Pod", "Pod", "EventList"]  # type: ignore[index]
    assert len(events(f"{DESCRIBED}\n\n{DESCRIBED}")) == 4


def test_sidecars_run_beside_the_others() -> None:
    state = "    State:      Running\n"
    text = DESCRIBED.replace("    Command:\n", f"{state}    Command:\n", 1)
    (pod,) = decode_pods(read(text)[0])
    assert pod.containers[0].role is Role.INIT
    text = text.replace("    Port:       8080/TCP\n", f"    Port:       8080/TCP\n{state}", 1)
    (pod,) = decode_pods(read(text)[0])
    assert pod.containers[0].role is Role.SIDECAR


def test_resources_of_the_pod_itself() -> None:
    own = "Resources:\n  Limits:\n    cpu:  4\n  Requests:\n    cpu:  4\nInit Containers:\n"
    (pod,) = decode_pods(read(DESCRIBED.replace("Init Containers:\n", own, 1))[0])
    assert pod.requests == pod.limits == {"cpu": Quantity.parse("4")}


def test_a_list_of_events() -> None:
    found = events(LISTED)
    assert [(one["involvedObject"]["kind"], one["reason"], one["age"]) for one in found] == [  # type: ignore[index]
        ("Node", "Starting", "17h"),
        ("Node", "NodeHasSufficientPID", "17h (x3 over 17h)"),
        ("Pod", "TopologyAffinityError", "17h"),
    ]
    assert found[2]["message"] == "Resources cannot be allocated with Topology locality"


@pytest.mark.parametrize(("text", "expected"), [
    pytest.param("NAMESPACE   LAST SEEN   TYPE      REASON     OBJECT    MESSAGE\nml          5m          Warning   OutOfcpu   pod/x-1   Node didn't\n",
                 ("ml", "x-1", "OutOfcpu", "Node didn't"), id="of all namespaces"),
    pytest.param("LAST SEEN   TYPE      REASON     OBJECT    SUBOBJECT   SOURCE           MESSAGE       FIRST SEEN   COUNT   NAME\n"
                 "5m          Warning   OutOfcpu   pod/x-1               kubelet, node7   Node didn't   17h          2       x-1.17\n",
                 ("default", "x-1", "OutOfcpu", "Node didn't"), id="wide, with an empty cell"),
    pytest.param("5m   Warning   OutOfcpu   pod/x-1   Node didn't\n",             ("default", "x-1", "OutOfcpu", "Node didn't"), id="without a header"),
    pytest.param("ml   5m   Warning   OutOfcpu   pod/x-1   Node didn't\n",        ("ml", "x-1", "OutOfcpu", "Node didn't"), id="of all namespaces, without a header"),
    pytest.param("  Warning  OutOfcpu  5m   kubelet  Node didn't\n",              ("default", "", "OutOfcpu", "Node didn't"), id="a row of a description"),
    pytest.param("Events:\n  Type     Reason                   Age   From     Message\n  ----     ------                   ----  ----     -------\n"
                 "  Warning  Topology Affinity Error  5m    kubelet  Resources cannot\n", ("default", "", "Topology Affinity Error", "Resources cannot"), id="the end of a description"),
])  # fmt: skip
def test_forms_of_events(text: str, expected: tuple[str, str, str, str]) -> None:
    (event,) = events(text)
    involved = event["involvedObject"]
    assert isinstance(involved, dict)
    assert (involved["namespace"], involved["name"], event["reason"], event["message"]) == expected


@pytest.mark.parametrize("text", [
    "apiVersion: v1\nkind: Pod\nmetadata:\n  name: x\n",
    '{"Name: x\\nNamespace: y": 1}',
    "Name: x\n",
    "# Warning  Do not use this  in production  please\nkind: Pod\n",
    "description: |\n  Normal  text\n",
    "kind: ConfigMap\ndata:\n  text: |\n    Name:  x\n    Namespace:  y\n",
    "Warning  Read  this  first\n",
])  # fmt: skip
def test_other_texts(text: str) -> None:
    assert not is_kubectl_text(text.encode())


def test_a_description_of_something_else() -> None:
    text = "Name:         web\nNamespace:    default\nReplicas:     3 desired\nPod Template:\n  Containers:\n   c:\n"
    with pytest.raises(InputError, match="describes something else than a pod"):
        pod_documents(text.encode(), "web.txt")
