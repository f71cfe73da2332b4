"""Manifests to pods: what is read, what the API server would refuse, and how workloads expand."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from numawise.codec.allocated import quantity
from numawise.codec.document import Document, read_documents, read_file
from numawise.codec.pod import pod_from, unique_uids
from numawise.codec.workload import decode_pods
from numawise.errors import InputError
from numawise.quantity import Quantity
from numawise.request.constraints import PodConstraints
from numawise.request.defaults import RawContainer, RawPod, defaulted
from numawise.request.model import Role

SHARED = Path(__file__).parents[4] / "shared"
TRACES = SHARED / "traces"
MANIFESTS = SHARED / "data" / "gpu-pods"
GRAMMAR = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
LIMIT_MISSING = "Required value: Limit must be set for non overcommitable resources"
TEMPLATE = "template: {spec: {containers: [{name: a}]}}"


def pods(text: str) -> tuple[RawPod, ...]:
    return tuple(pod for document in read_documents(text, "p.yaml") for pod in decode_pods(document))


def names(text: str) -> str:
    """The pods' uids, or the complaint."""
    try:
        return " ".join(pod.uid for pod in pods(text))
    except InputError as error:
        return str(error)


def complaint(text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        pods(text)
    assert "\n" not in str(caught.value)
    return caught.value


def amounts(text: str) -> dict[str, Quantity]:
    """``cpu=2 memory=1Gi``."""
    pairs = (each.split("=") for each in text.split())
    return {name: Quantity.parse(amount) for name, amount in pairs}


POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, uid: "1234", labels: {app: web}}
spec:
  nodeSelector: {a: b}
  initContainers:
  - {name: prepare, image: x, resources: {requests: {cpu: 1}}}
  - {name: proxy, restartPolicy: Always}
  - {name: retry, restartPolicy: OnFailure}
  containers:
  - name: app
    command: [run]
    resources:
      requests: {cpu: 0.5, memory: 1e9}
      limits: {cpu: 2, memory: 1073741824, nvidia.com/gpu: 1, ephemeral-storage: 1Gi}
      claims: []
  resources: {limits: {cpu: 4}}
status: {phase: Running, qosClass: Burstable}
"""


def test_a_pod() -> None:
    (pod,) = pods(POD)
    assert pod == RawPod(
        uid="1234",
        name="web",
        namespace="shop",
        qos="Burstable",
        containers=(
            RawContainer("prepare", Role.INIT, amounts("cpu=1")),
            RawContainer("proxy", Role.SIDECAR),
            RawContainer("retry", Role.INIT),
            RawContainer(
                "app",
                Role.APP,
                amounts("cpu=0.5 memory=1000000000"),
                amounts("cpu=2 memory=1073741824 nvidia.com/gpu=1 ephemeral-storage=1Gi"),
            ),
        ),
        requests={},
        limits=amounts("cpu=4"),
        constraints=PodConstraints(node_selector={"a": "b"}),
    )


@pytest.mark.parametrize(("text", "expected"), [
    pytest.param("kind: Pod\nmetadata: {name: x}\nspec: {containers: [{name: a}]}",    "default/x",     id="pod"),
    pytest.param("kind: Pod\nmetadata: {generateName: x-}\nspec: {containers: [{name: a}]}", "default/x-0", id="generated"),
    pytest.param("spec: {containers: [{name: a}]}",                                    "default/pod",   id="fragment"),
    pytest.param(f"kind: Deployment\nmetadata: {{name: d, namespace: s}}\nspec: {{replicas: 2, {TEMPLATE}}}", "s/d-0 s/d-1", id="deployment"),
    pytest.param(f"kind: ReplicaSet\nmetadata: {{name: d}}\nspec: {{{TEMPLATE}}}",     "default/d-0",   id="one by default"),
    pytest.param(f"kind: ReplicaSet\nmetadata: {{name: d}}\nspec: {{replicas: 0, {TEMPLATE}}}", "",     id="none"),
    pytest.param(f"kind: ReplicationController\nmetadata: {{name: d}}\nspec: {{{TEMPLATE}}}", "default/d-0", id="rc"),
    pytest.param(f"kind: StatefulSet\nmetadata: {{name: d}}\nspec: {{replicas: 2, ordinals: {{start: 5}}, {TEMPLATE}}}", "default/d-5 default/d-6", id="stateful set"),
    pytest.param(f"kind: DaemonSet\nmetadata: {{name: d}}\nspec: {{{TEMPLATE}}}",      "default/d-0",   id="daemon set"),
    pytest.param(f"kind: Job\nmetadata: {{name: d}}\nspec: {{parallelism: 2, {TEMPLATE}}}", "default/d-0 default/d-1", id="job"),
    pytest.param(f"kind: Job\nmetadata: {{name: d}}\nspec: {{parallelism: 9, completions: 1, {TEMPLATE}}}", "default/d-0", id="completions"),
    pytest.param(f"kind: CronJob\nmetadata: {{name: d}}\nspec: {{jobTemplate: {{spec: {{parallelism: 2, {TEMPLATE}}}}}}}", "default/d-0 default/d-1", id="cron job"),
    pytest.param(f"kind: PodTemplate\nmetadata: {{name: d}}\n{TEMPLATE}",              "default/d-0",   id="pod template"),
    pytest.param("kind: Service\napiVersion: v1",                                      "",              id="no pods"),
    pytest.param("kind: Role\napiVersion: rbac.authorization.k8s.io/v1",               "",              id="no pods either"),
    pytest.param("kind: List\nitems: []",                                              "",              id="empty list"),
    pytest.param("kind: PodList\nitems: [{metadata: {name: x}, spec: {containers: [{name: a}]}}]", "default/x", id="pod list"),
    pytest.param(f"kind: List\nitems: [{{kind: List, items: [{{kind: Job, metadata: {{name: j}}, spec: {{{TEMPLATE}}}}}]}}, {{kind: Secret}}, {{spec: {{containers: [{{name: a}}]}}}}]", "default/j-0 default/pod", id="list of lists"),
])  # fmt: skip
def test_objects_become_pods(text: str, expected: str) -> None:
    assert names(text) == expected


SUPPORTED = "supported are Pod, Deployment, StatefulSet, Job, List, and any object with pod templates"


@pytest.mark.parametrize(("text", "expected"), [
    ("apiVersion: ray.io/v1\nkind: RayCluster",    f'p.yaml:2: kind: objects of kind "RayCluster" have no pod template; {SUPPORTED}'),
    ("kind: Deploymnet",                           f'p.yaml:1: kind: objects of kind "Deploymnet" are not known; did you mean "Deployment"? {SUPPORTED}'),
    ("kind: Service\napiVersion: serving.knative.dev/v1", f'p.yaml:1: kind: objects of kind "Service" have no pod template; {SUPPORTED}'),
    ("cpus: []",                                   f"p.yaml:1: kind: is missing; give a Kubernetes object; {SUPPORTED}"),
    ("kind: 5",                                    "p.yaml:1: kind: must be text, not 5; put it in quotes"),
    ("- 5",                                        "p.yaml:1: must be a Kubernetes object, not a list"),
    ("kind: Pod\nspce: {}",                        'p.yaml:2: spce: unknown field "spce"; did you mean "spec"?'),
    ("kind: Pod\nspec: {}",                        "p.yaml:1: metadata.name: Required value: name or generateName is required; give the object a name"),
    ("kind: Pod\nmetadata: {nam: x}",              'p.yaml:2: metadata.nam: unknown field "nam"; did you mean "name"?'),
    ("kind: Pod\nmetadata: {name: no}",            "p.yaml:2: metadata.name: must be text, not false; put it in quotes"),
    ("kind: Job\nmetadata: {name: x}\nspec: {}",   "p.yaml:3: spec.template: Required value; give the workload a pod template"),
    ("kind: Job\nmetadata: {name: x}\nspec: 5",    "p.yaml:3: spec: must be a mapping, not 5"),
    (f"kind: ReplicaSet\nmetadata: {{name: x}}\nspec: {{replica: 3, {TEMPLATE}}}",   'p.yaml:3: spec.replica: unknown field "replica"; did you mean "replicas"?'),
    (f"kind: ReplicaSet\nmetadata: {{name: x}}\nspec: {{replicas: -3, {TEMPLATE}}}", "p.yaml:3: spec.replicas: must be an integer from 0 to 100000, not -3"),
    ("kind: Job\nmetadata: {name: x}\nspec:\n  template:\n    spec:\n      container: []", 'p.yaml:6: spec.template.spec.container: unknown field "container"; did you mean "containers"?'),
    ("kind: List\nitems:\n- kind: Pod\n- kind: Nothing", "p.yaml:3: items[0].metadata.name: Required value: name or generateName is required; give the object a name"),
    ("spec: {containers: [{name: a}]}\nstatus: {qosClass: best}", 'p.yaml:2: status.qosClass: must be Guaranteed, Burstable or BestEffort, not "best"'),
])  # fmt: skip
def test_objects_that_are_refused(text: str, expected: str) -> None:
    assert str(complaint(text)) == expected


@pytest.mark.parametrize(("spec", "field", "expected"), [
    ("containers: []",                                    "containers",                     "Required value"),
    ("containers: {name: a}",                             "containers",                     "must be a list of containers, not a mapping"),
    ("containers: [a]",                                   "containers[0]",                  "must be a container: a mapping with name and resources"),
    ("containers: [{image: a}]",                          "containers[0].name",             "Required value"),
    ("containers: [{name: yes}]",                         "containers[0].name",             "must be text, not true"),
    ("containers: [{name: A}]",                           "containers[0].name",             'Invalid value: "A": a lowercase RFC 1123 label must consist of'),
    ("containers: [{name: a.b}]",                         "containers[0].name",             'Invalid value: "a.b": must not contain dots'),
    (f"containers: [{{name: {'a' * 64}}}]",               "containers[0].name",             f'Invalid value: "{"a" * 64}": must be no more than 63 characters'),
    ("containers: [{name: a}, {name: a}]",                "containers[1].name",             'Duplicate value: "a"'),
    ("{containers: [{name: a}], initContainers: [{name: a}]}", "initContainers[0].name",    'Duplicate value: "a"'),
    ("containers: [{name: a, resource: {}}]",             "containers[0].resource",         'unknown field "resource"; did you mean "resources"?'),
    ("containers: [{name: a, limits: {}}]",               "containers[0].limits",           'unknown field "limits"; move limits into resources'),
    ("{containers: [{name: a}], initContainers: [{name: b, restartPolicy: always}]}", "initContainers[0].restartPolicy",
     'Unsupported value: "always": supported values: "Always", "Never", "OnFailure"'),
    ("{containers: [{name: a}], resources: {limits: {nvidia.com/gpu: 1}}}", "resources.limits[nvidia.com/gpu]",
     'Unsupported value: "nvidia.com/gpu": supported values: "cpu", "hugepages-", "memory"'),
    ("{containers: [{name: a}], resources: {requests: {cpu: 2}, limits: {cpu: 1}}}", "resources.requests[cpu]",
     'Invalid value: "2": must be less than or equal to cpu limit of 1'),
    ("{containers: [{name: a, resources: {requests: {cpu: 2}}}, {name: b, resources: {requests: {cpu: 1500m}}}], resources: {requests: {cpu: 3}}}",
     "resources.requests[cpu]", 'Invalid value: "3": must be greater than or equal to aggregate container requests of 3500m'),
    ("{containers: [{name: a, resources: {requests: {cpu: 1}, limits: {cpu: 3}}}], resources: {limits: {cpu: 2}}}",
     "containers[0].resources.limits[cpu]", 'Invalid value: "3": must be less than or equal to pod limits of 2'),
    ("{containers: [{name: a, resources: {limits: {cpu: 1, hugepages-2Mi: 4Mi}}}, {name: b, resources: {limits: {cpu: 1, hugepages-2Mi: 4Mi}}}], resources: {limits: {cpu: 2, hugepages-2Mi: 6Mi}}}",
     "resources.requests[hugepages-2Mi]", 'Invalid value: "6Mi": must be greater than or equal to aggregate container requests of 8Mi'),
])  # fmt: skip
def test_specs_that_are_refused(spec: str, field: str, expected: str) -> None:
    error = complaint(f"kind: Pod\nmetadata: {{name: x}}\nspec:\n  {spec}")
    assert error.field == f"spec.{field}"
    assert error.line == 4
    assert f"{error.message}; {error.advice}".startswith(expected)


@pytest.mark.parametrize(("resources", "field", "expected"), [
    ("limits: {cpu: -1}",                              "limits[cpu]",              'Invalid value: "-1": must be greater than or equal to 0'),
    ("limits: {cpu: 2 cores}",                         "limits[cpu]",              f'"2 cores" is not a quantity: {GRAMMAR}; write it like 500m, 2 or 8Gi'),
    ("limits: {memory: 1mi}",                          "limits[memory]",           '"1mi" is not a quantity: unable to parse quantity\'s suffix'),
    ("limits: {cpu: yes}",                             "limits[cpu]",              f"true is not a quantity: {GRAMMAR}"),
    ("limits: {cpu: [1]}",                             "limits[cpu]",              f"a list is not a quantity: {GRAMMAR}"),
    ("limits: [cpu]",                                  "limits",                   "must be a mapping from resources to quantities, not a list"),
    ("limit: {cpu: 1}",                                "limit",                    'unknown field "limit"; did you mean "limits"?'),
    ("Requests: {cpu: 1}",                             "Requests",                 'unknown field "Requests"; did you mean "requests"?'),
    ("cpu: 1",                                         "cpu",                      'unknown field "cpu"; move it into requests or limits'),
    ("nvidia.com/gpu: 1",                              "[nvidia.com/gpu]",         'unknown field "nvidia.com/gpu"; move it into requests or limits'),
    ("{requests: {cpu: 4}, limits: {cpu: 2}}",         "requests[cpu]",            'Invalid value: "4": must be less than or equal to cpu limit of 2; lower the request'),
    ("{requests: {cpu: 1.0001}, limits: {cpu: 1}}",    "requests[cpu]",            'Invalid value: "1001m": must be less than or equal to cpu limit of 1'),
    ("requests: {nvidia.com/gpu: 1}",                  "requests[nvidia.com/gpu]", f"{LIMIT_MISSING}; set the limit of nvidia.com/gpu to 1 too"),
    ("{requests: {x/gpu: 1}, limits: {x/gpu: 2}}",     "requests[x/gpu]",          'Invalid value: "1": must be equal to x/gpu limit of 2'),
    ("limits: {nvidia.com/gpu: 1.5}",                  "limits[nvidia.com/gpu]",   'Invalid value: "1500m": must be an integer'),
    ("limits: {gpu: 1}",                               "limits[gpu]",              'Invalid value: "gpu": must be a standard resource type or fully qualified; name devices like nvidia.com/gpu'),
    ("limits: {storage: 1}",                           "limits[storage]",          'Invalid value: "storage": must be a standard resource for containers; name devices like nvidia.com/gpu'),
    ("limits: {a/b/c: 1}",                             "limits[a/b/c]",            'Invalid value: "a/b/c": a valid label key must consist of alphanumeric characters'),
    ("limits: {memroy: 1}",                            "limits[memroy]",           'Invalid value: "memroy": must be a standard resource type or fully qualified; did you mean "memory"?'),
    ("limits: {requests.x.io/gpu: 1}",                 "limits[requests.x.io/gpu]", 'Invalid value: "requests.x.io/gpu": doesn\'t follow extended resource name standard'),
    ("limits: {x.io/a b: 1}",                          "limits[x.io/a b]",         'Invalid value: "x.io/a b": name part must consist of alphanumeric characters'),
    ("limits: {X/gpu: 1}",                             "limits[X/gpu]",            'Invalid value: "X/gpu": prefix part a lowercase RFC 1123 subdomain must consist of'),
    ("limits: {hugepages-2Mi: 4Mi}",                   "",                         "Forbidden: HugePages require cpu or memory"),
    ("limits: {cpu: 1, hugepages-2Mi: 3Mi}",           "limits[hugepages-2Mi]",    'Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi'),
    ("limits: {cpu: 1, hugepages-big: 4Mi}",           "limits[hugepages-big]",    'Invalid value: "4Mi": 4Mi is not positive integer multiple of hugepages-big'),
    ("requests: {cpu: 1, hugepages-2Mi: 4Mi}",         "requests[hugepages-2Mi]",  LIMIT_MISSING),
    ("{requests: {cpu: 1, hugepages-2Mi: 4Mi}, limits: {hugepages-2Mi: 8Mi}}", "requests[hugepages-2Mi]", 'Invalid value: "4Mi": must be equal to hugepages-2Mi limit of 8Mi'),
])  # fmt: skip
def test_resources_that_are_refused(resources: str, field: str, expected: str) -> None:
    head = "kind: Pod\nmetadata: {name: x}\nspec:\n  containers:\n  - name: a\n    resources:\n      "
    error = complaint(head + resources)
    inside = f".{field}" if field and field[0] != "[" else field
    assert error.field == f"spec.containers[0].resources{inside}"
    assert error.line == (7 if field else 6)
    assert f"{error.message}; {error.advice}".startswith(expected)


@pytest.mark.parametrize(("resources", "requests", "limits"), [
    pytest.param("",                                    "",                    "",                           id="nothing"),
    pytest.param("{requests: null, limits: {}}",        "",                    "",                           id="empty"),
    pytest.param("limits: {cpu: null}",                 "",                    "cpu=0",                      id="null is 0"),
    pytest.param("limits: {cpu: ' 2 '}",                "",                    "cpu=2",                      id="blanks around"),
    pytest.param("limits: {cpu: 2.0}",                  "",                    "cpu=2",                      id="2.0 is 2"),
    pytest.param("limits: {cpu: '2.0'}",                "",                    "cpu=2.0",                    id="as text it is not"),
    pytest.param("limits: {cpu: 0x10, memory: 1e21}",   "",                    "cpu=16 memory=1e+21",        id="numbers"),
    pytest.param("{requests: {cpu: 1}, limits: {cpu: 999.5m}}", "cpu=1",       "cpu=999.5m",                 id="equal when rounded"),
    pytest.param("requests: {x.kubernetes.io/cpu: 1.5}", "x.kubernetes.io/cpu=1.5", "",                      id="native with a domain"),
    pytest.param("limits: {cpu: 1, hugepages-2Mi: 4Mi, hugepages-1Gi: 0}", "", "cpu=1 hugepages-2Mi=4Mi hugepages-1Gi=0", id="huge pages"),
])  # fmt: skip
def test_resources_that_are_read(resources: str, requests: str, limits: str) -> None:
    (pod,) = pods(f"spec:\n  containers:\n  - name: a\n    resources:\n      {resources}")
    assert (pod.containers[0].requests, pod.containers[0].limits) == (amounts(requests), amounts(limits))


SUBDOMAIN_WORDS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"
)
LABEL_WORDS = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'"


@pytest.mark.parametrize("kind", ["Pod", "Deployment", "RayCluster", "Anything"])
@pytest.mark.parametrize(("metadata", "field", "expected"), [
    (r'{name: "a\e[31mb"}',                       "name",         f'Invalid value: "a\\x1b[31mb": {SUBDOMAIN_WORDS}'),
    (r'{name: "a\nb"}',                           "name",         f'Invalid value: "a\\nb": {SUBDOMAIN_WORDS}'),
    ("{name: Upper}",                             "name",         f'Invalid value: "Upper": {SUBDOMAIN_WORDS}'),
    ("{name: -a}",                                "name",         f'Invalid value: "-a": {SUBDOMAIN_WORDS}'),
    (f"{{name: {'a' * 254}}}",                    "name",         f'Invalid value: "{"a" * 90}…{"a" * 15}" (254 characters): must be no more than 253 bytes'),
    ("{generateName: a_b-}",                      "generateName", f'Invalid value: "a_b-": {SUBDOMAIN_WORDS}'),
    (r'{name: a, namespace: "\u202eb"}',          "namespace",    f'Invalid value: "\\u202eb": {LABEL_WORDS}'),
    ("{name: a, namespace: a.b}",                 "namespace",    f'Invalid value: "a.b": {LABEL_WORDS}'),
    (f"{{name: a, namespace: {'a' * 64}}}",       "namespace",    f'Invalid value: "{"a" * 64}": must be no more than 63 bytes'),
])  # fmt: skip
def test_names_that_are_refused(kind: str, metadata: str, field: str, expected: str) -> None:
    spec = "{containers: [{name: a, image: i}]}"
    outer = {"Pod": spec, "RayCluster": f"{{headGroupSpec: {{template: {{spec: {spec}}}}}}}"}
    error = complaint(
        f"kind: {kind}\nmetadata: {metadata}\nspec: {outer.get(kind, f'{{template: {{spec: {spec}}}}}')}"
    )
    assert (error.field, error.line) == (f"metadata.{field}", 2)
    assert error.message.startswith(expected)
    assert error.message.isprintable()


@pytest.mark.parametrize("metadata", [
    f"{{name: {'a' * 253}}}", "{name: a.b-c.0}", "{generateName: web-}", f"{{name: '0', namespace: {'n' * 63}}}",
])  # fmt: skip
def test_names_that_are_taken(metadata: str) -> None:
    assert len(pods(f"metadata: {metadata}\nspec: {{containers: [{{name: a}}]}}")) == 1


def test_pod_level_resources_may_be_empty() -> None:
    (pod,) = pods("spec: {resources: {}, containers: [{name: a}]}")
    assert (pod.requests, pod.limits) == ({}, {})
    (pod,) = pods("spec: {resources: null, containers: [{name: a}]}")
    assert (pod.requests, pod.limits) == (None, None)


def test_quantity_refuses_like_the_api_server() -> None:
    with pytest.raises(ValueError, match="quantities must match the regular expression"):
        quantity({})


def test_uids_become_unique() -> None:
    given = [RawPod(uid, uid, ()) for uid in ("a", "b", "a", "a#2", "a")]
    assert [pod.uid for pod in unique_uids(given)] == ["a", "b", "a#2", "a#2#2", "a#3"]
    assert [pod.name for pod in unique_uids(given)] == ["a", "b", "a", "a#2", "a"]


@pytest.mark.parametrize("value", [
    None, 5, [], {}, {"metadata": {}}, {"metadata": {"name": "x"}, "spec": {"containers": 5}},
    {"metadata": {"name": "x"}, "spec": {"containers": [{}]}},
    {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": "x"}}}]}},
])  # fmt: skip
def test_pod_from_refuses_nonsense(value: Any) -> None:
    with pytest.raises(InputError):
        pod_from(value)


@pytest.mark.skipif(not TRACES.is_dir(), reason="no recorded traces at ../shared/traces")
def test_recorded_pods_read_the_same_both_ways() -> None:
    seen = 0
    for path in sorted(TRACES.glob("*.jsonl*")):
        raw = path.read_bytes()
        for line in (gzip.decompress(raw) if path.suffix == ".gz" else raw).splitlines():
            recorded = json.loads(line)
            scenario, results = recorded["scenario"], recorded["result"].get("steps", [])
            for i, step in enumerate(scenario["steps"]):
                if "add" in step:
                    pod = pod_from(step["add"])
                    assert decode_pods(Document(step["add"])) == (pod,), scenario["id"]
                    if i < len(results) and "qos" in results[i]:
                        assert defaulted(pod).qos == results[i]["qos"], scenario["id"]
                    seen += 1
    assert seen > 1000


@pytest.mark.skipif(not MANIFESTS.is_dir(), reason="no manifests at ../shared/data/gpu-pods")
def test_manifests_of_others() -> None:
    read = 0
    for path in sorted(MANIFESTS.glob("*.yaml")):
        golden = json.loads(path.with_suffix(".json").read_text())["golden"]
        for document in read_file(path):
            expected = [case for case in golden if case["document"] == document.index]
            if expected and expected[0]["object"] in ("RayCluster", "RayService"):
                try:
                    assert decode_pods(document)
                except InputError as problem:
                    assert "$" in problem.message  # noqa: PT017 - a count that a script fills in
                continue
            found = decode_pods(document)
            assert bool(found) == bool(expected), path
            for pod, case in zip(found[:1], expected, strict=True):
                request = defaulted(pod)
                assert request.qos == case["qos_class"], path
                assert [c.name for c in request.containers] == [c["name"] for c in case["containers"]], path
                for container, wanted in zip(request.containers, case["containers"], strict=True):
                    for side in ("requests", "limits"):
                        mine = {name: amount.nano for name, amount in getattr(container, side).items()}
                        assert mine == {
                            name: quantity(amount).nano for name, amount in wanted[side].items()
                        }, path
                    assert container.whole_cpus == (wanted["integral_cpus"] or 0), path
                read += 1
    assert read
