"""Pods made ready for alignment: what is changed, what is left alone, and what comes of it on a machine."""

from typing import Any

import pytest
import yaml

from numawise.apps.plan.manifest import PodAmounts, pod_templates
from numawise.apps.plan.pod import NewPod, new_manifest, plan_pods, stage_for
from numawise.apps.plan.proof import ProofStage
from numawise.codec.document import Document, read_documents
from numawise.codec.workload import decode_pods
from numawise.errors import InputError
from numawise.node.node import SimulatedNode, boot
from numawise.request.defaults import defaulted
from numawise.request.model import GUARANTEED
from numawise.results.plan import INFERENCE, TRAINING, PodPlan
from numawise.rules.versions import NEWEST, Version
from tests.unit.nodes import GIB, at_work, machine, pod

GPU = "nvidia.com/gpu"
SERVER = machine("2s 2n 64c 2t 8gpu 1tb")


def stage(version: Version = NEWEST, goal: str = TRAINING, **config: Any) -> ProofStage:
    return stage_for(SERVER, version, config or None, goal, {})


def container(
    requests: dict[str, Any] | None = None, limits: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    resources = {
        side: found for side, found in (("requests", requests), ("limits", limits)) if found is not None
    }
    return {"name": "main", "image": "x", "resources": resources, **more}


def manifest(*containers: dict[str, Any], kind: str = "Pod", **spec: Any) -> dict[str, Any]:
    inner = {"containers": list(containers), **spec}
    if kind == "Pod":
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": inner}
    template = {"metadata": {"labels": {"app": "p"}}, "spec": inner}
    selector = {"matchLabels": {"app": "p"}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "p"},
        "spec": {"selector": selector, "template": template},
    }


def planned(
    found: dict[str, Any], on: ProofStage | None = None, goal: str | None = None, **wish: Any
) -> PodPlan:
    return plan_pods([(found, "p.yaml")], PodAmounts(**wish), on, goal)


def only(plan: PodPlan) -> dict[str, Any]:
    return next(pod_templates(plan.manifests[0], "")).spec


def told(plan: PodPlan) -> str:
    return "\n".join(change.text for change in plan.pods[0].changes)


def amounts(spec: dict[str, Any], at: int = 0) -> dict[str, Any]:
    resources = spec["containers"][at]["resources"]
    assert resources["requests"] == resources["limits"]
    found: dict[str, Any] = resources["limits"]
    return found


# --- amounts -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("requests", "limits", "expected"), [
    pytest.param({"cpu": "16", "memory": "64Gi", GPU: 1}, {"cpu": "32", "memory": "128Gi", GPU: 1}, {"cpu": "16", "memory": "128Gi", GPU: 1}, id="the document's training pod"),
    pytest.param({"cpu": "8", "memory": "32Gi", GPU: 1},  {"cpu": "8", "memory": "32Gi", GPU: 1},   {"cpu": "8", "memory": "32Gi", GPU: 1},   id="in order"),
    pytest.param({"cpu": "7500m", "memory": "32Gi"},      {GPU: 1},                                 {"cpu": "8", "memory": "32Gi", GPU: 1},   id="a fraction of a CPU"),
    pytest.param(None, {"cpu": "7", "memory": "1.5Gi", GPU: 2},                                     {"cpu": "8", "memory": "1536Mi", GPU: 2}, id="half a core"),
    pytest.param(None, {"cpu": 4, "memory": "8Gi"},                                                 {"cpu": "4", "memory": "8Gi"},            id="no GPU"),
    pytest.param(None, {GPU: 2},                                                                    {"cpu": "28", "memory": "252Gi", GPU: 2}, id="the share of two GPUs"),
])  # fmt: skip
def test_amounts(
    requests: dict[str, Any] | None, limits: dict[str, Any] | None, expected: dict[str, Any]
) -> None:
    plan = planned(manifest(container(requests, limits)), stage())
    assert {name: str(value) for name, value in amounts(only(plan)).items()} == {
        n: str(v) for n, v in expected.items()
    }
    (raw,) = decode_pods(Document(plan.manifests[0]))
    assert defaulted(raw).qos == GUARANTEED
    assert defaulted(raw).containers[0].whole_cpus == int(expected["cpu"])
    assert plan.good


def test_what_is_in_order_is_not_touched() -> None:
    found = manifest(
        container(
            None,
            {"cpu": "8", "memory": "32Gi"},
            args=["a: b", "yes"],
            env=[{"name": "NCCL_DEBUG", "value": "INFO"}],
        ),
        nodeSelector={"gpu": "true"},
        tolerations=[{"operator": "Exists"}],
    )
    plan = planned(found, stage())
    assert told(plan) == "cpu: 8, request and limit must be the same\nmemory: 32Gi"
    spec, before = only(plan), found["spec"]
    assert spec["nodeSelector"] == before["nodeSelector"]
    assert spec["containers"][0]["args"] == ["a: b", "yes"]
    assert spec["containers"][0]["env"] == before["containers"][0]["env"]
    assert "volumes" not in spec


def test_every_container_counts_for_the_class() -> None:
    found = manifest(
        container(None, {"cpu": "4", "memory": "8Gi", GPU: 1}),
        {"name": "logs", "image": "y"},
        {
            "name": "proxy",
            "image": "y",
            "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "500m", "memory": "64Mi"}},
        },
        initContainers=[
            {"name": "fetch", "image": "z", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}
        ],
    )
    plan = planned(found, stage())
    spec = only(plan)
    assert amounts(spec, 1) == {"cpu": "100m", "memory": "128Mi"}
    assert amounts(spec, 2) == {"cpu": "500m", "memory": "64Mi"}
    assert spec["initContainers"][0]["resources"]["limits"] == {"cpu": "2", "memory": "1Gi"}
    (raw,) = decode_pods(Document(plan.manifests[0]))
    assert defaulted(raw).qos == GUARANTEED
    assert "assumed" in told(plan)
    assert plan.good


def test_flags_come_before_the_manifest() -> None:
    plan = planned(
        manifest(container(None, {"cpu": "4", "memory": "8Gi", GPU: 1})),
        stage(),
        cpus=6,
        memory=16 * GIB,
        gpus=2,
    )
    assert amounts(only(plan)) == {"cpu": "6", "memory": "16Gi", GPU: 2}


def test_a_limit_that_does_not_fit_gives_way_to_the_request() -> None:
    """600Gi are more than one NUMA node has; 100Gi were asked for."""
    plan = planned(manifest(container({"memory": "100Gi"}, {"cpu": "4", "memory": "600Gi", GPU: 1})), stage())
    assert amounts(only(plan))["memory"] == "100Gi"
    assert "the request: the limit does not fit" in told(plan)
    assert plan.good


def test_resources_of_the_whole_pod_are_in_the_way() -> None:
    found = manifest(
        container(None, {"cpu": "4", "memory": "8Gi", GPU: 1}),
        resources={"limits": {"cpu": "8", "memory": "16Gi"}},
    )
    plan = planned(found, stage())
    assert "resources" not in only(plan)
    assert "no container gets CPUs of its own" in told(plan)


@pytest.mark.parametrize(("found", "words"), [
    pytest.param(manifest(container(None, {GPU: 1})),                          "--cpus",        id="no CPUs, no machine"),
    pytest.param(manifest(container(None, {"cpu": 1, GPU: 1})),                "--memory",      id="no memory, no machine"),
    pytest.param({"kind": "Service", "apiVersion": "v1", "metadata": {"name": "s"}}, "has no pods", id="no pods"),
    pytest.param({"kind": "RayJob", "apiVersion": "ray.io/v1", "metadata": {"name": "s"}}, "RayJob", id="another kind"),
    pytest.param(manifest(container(None, {"cpu": "x"})),                      "is not a quantity", id="no quantity"),
    pytest.param(manifest(container(None, {"cpu": 1, "memory": "1Gi", GPU: 1}), volumes="none"), "cannot|can", id="odd volumes"),
])  # fmt: skip
def test_what_cannot_be_planned(found: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        planned(found)


# --- variables, shared memory, probes ------------------------------------------------------------


def test_variables_that_fight_the_pinning_go() -> None:
    env = [
        {"name": "CUDA_VISIBLE_DEVICES", "value": "0"},
        {"name": "GOMP_CPU_AFFINITY", "value": "0-31 64-95"},
        {"name": "OMP_PLACES", "value": "cores"},
        {"name": "OMP_NUM_THREADS", "value": "64"},
        {"name": "NCCL_DEBUG", "value": "INFO"},
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]
    plan = planned(manifest(container(None, {"cpu": "16", "memory": "8Gi", GPU: 1}, env=env)), stage())
    kept = {one["name"]: one.get("value") for one in only(plan)["containers"][0]["env"]}
    assert kept == {"OMP_PLACES": "cores", "OMP_NUM_THREADS": "16", "NCCL_DEBUG": "INFO", "POD": None}
    assert "CUDA_VISIBLE_DEVICES=0 removed" in told(plan)
    assert "OMP_NUM_THREADS=16 instead of 64" in told(plan)


def with_shm(empty: dict[str, Any]) -> dict[str, Any]:
    mounts = [{"name": "s", "mountPath": "/dev/shm/"}]
    return manifest(
        container(None, {"cpu": "4", "memory": "16Gi", GPU: 1}, volumeMounts=mounts),
        volumes=[{"name": "s", **empty}],
    )


@pytest.mark.parametrize(("found", "wish", "expected"), [
    pytest.param(manifest(container(None, {"cpu": "4", "memory": "16Gi", GPU: 1})),  {},                {"medium": "Memory", "sizeLimit": "4Gi"}, id="a quarter of the memory"),
    pytest.param(manifest(container(None, {"cpu": "4", "memory": "256Gi", GPU: 2})), {},                {"medium": "Memory", "sizeLimit": "16Gi"}, id="8Gi for each GPU"),
    pytest.param(manifest(container(None, {"cpu": "4", "memory": "16Gi", GPU: 1})),  {"shm": 2 * GIB},  {"medium": "Memory", "sizeLimit": "2Gi"}, id="as asked for"),
    pytest.param(manifest(container(None, {"cpu": "4", "memory": "16Gi", GPU: 1})),  {"shm": 0},        None, id="none, as asked for"),
    pytest.param(manifest(container(None, {"cpu": "4", "memory": "300Mi", GPU: 1})), {},                {"medium": "Memory", "sizeLimit": "150Mi"}, id="half of little memory"),
    pytest.param(manifest(container(None, {"cpu": "4", "memory": "60Mi", GPU: 1})),  {},                None, id="memory for none"),
    pytest.param(manifest(container(None, {"cpu": "4", "memory": "16Gi"})),          {},                None, id="none without a GPU"),
    pytest.param(with_shm({"emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}),   {},                {"medium": "Memory", "sizeLimit": "8Gi"}, id="in order"),
    pytest.param(with_shm({"emptyDir": {"medium": "Memory"}}),                       {},                {"medium": "Memory", "sizeLimit": "8Gi"}, id="without a limit"),
    pytest.param(with_shm({"emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}}),  {},                {"medium": "Memory", "sizeLimit": "8Gi"}, id="more than the memory"),
    pytest.param(with_shm({"emptyDir": {"sizeLimit": "4Gi"}}),                       {},                {"sizeLimit": "4Gi", "medium": "Memory"}, id="on the disk"),
])  # fmt: skip
def test_shared_memory(found: dict[str, Any], wish: dict[str, Any], expected: dict[str, Any] | None) -> None:
    spec = only(planned(found, stage(), **wish))
    mounts = {
        one["mountPath"].rstrip("/"): one["name"] for one in spec["containers"][0].get("volumeMounts", ())
    }
    volumes = {one["name"]: one.get("emptyDir") for one in spec.get("volumes", ())}
    assert volumes.get(mounts.get("/dev/shm")) == expected


def test_shared_memory_counts_against_the_memory() -> None:
    with pytest.raises(InputError, match="--shm"):
        planned(manifest(container(None, {"cpu": "4", "memory": "16Gi", GPU: 1})), shm=16 * GIB)


def test_a_service_gets_probes() -> None:
    found = manifest(
        container(None, {"cpu": "8", "memory": "32Gi", GPU: 1}, ports=[{"containerPort": 8080}]),
        kind="Deployment",
    )
    first = only(planned(found, stage()))["containers"][0]
    assert {name for name in first if name.endswith("Probe")} == {
        "startupProbe",
        "readinessProbe",
        "livenessProbe",
    }
    assert first["readinessProbe"]["tcpSocket"] == {"port": 8080}
    second = only(planned(found, stage(), health="/ready"))["containers"][0]
    assert second["livenessProbe"]["httpGet"] == {"path": "/ready", "port": 8080}
    assert "volumeMounts" not in first


def test_probes_that_are_written_stay() -> None:
    probes = {
        "livenessProbe": {"httpGet": {"path": "/health", "port": 80}, "initialDelaySeconds": 30},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 80}},
    }
    found = manifest(
        container(None, {"cpu": "8", "memory": "32Gi"}, ports=[{"containerPort": 80}], **probes),
        kind="Deployment",
    )
    first = only(planned(found, stage()))["containers"][0]
    assert {name: first[name] for name in first if name.endswith("Probe")} == probes


# --- new pods and proofs -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpus", "aligned", "numa"), [(1, True, {0}), (2, True, {0}), (4, True, {0}), (8, True, {0, 1})]
)
def test_the_share_of_so_many_gpus_is_aligned(gpus: int, aligned: bool, numa: set[int]) -> None:  # noqa: FBT001
    new = new_manifest(NewPod("t", "x", TRAINING, PodAmounts(gpus=gpus)), GPU)
    plan = planned(new, stage(), gpus=gpus)
    proof = plan.pods[0].proof
    assert proof is not None
    assert (proof.admitted, proof.aligned) == (True, aligned)
    assert proof.alignment is not None
    assert set(proof.alignment.numa) == numa
    assert proof.fits == 8 // gpus
    assert bool(proof.crosses) == (gpus > 4)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"topologyManagerPolicy": "best-effort", "cpuManagerPolicy": "static", "reservedSystemCPUs": "0,64"},
    ],
)
def test_five_gpus_cross(config: dict[str, Any]) -> None:
    """48 CPUs fit one NUMA node and five GPUs do not: restricted refuses, best-effort lets it in unaligned."""
    found = manifest(container(None, {"cpu": "48", "memory": "192Gi", GPU: 5}))
    plan = planned(found, stage(**config))
    proof = plan.pods[0].proof
    assert proof is not None
    assert proof.admitted == bool(config)
    assert not proof.aligned
    assert not plan.good
    assert proof.crosses == "5 nvidia.com/gpu cross NUMA nodes, because none of them has more than 4"
    assert any(line.startswith("4 nvidia.com/gpu, ") for line in proof.instead)


def test_what_is_told_to_do_instead_is_admitted() -> None:
    found = manifest(container(None, {"cpu": "48", "memory": "192Gi", GPU: 5}))
    proof = planned(found, stage()).pods[0].proof
    assert proof is not None
    assert len(proof.instead) == 3
    for line in proof.instead:
        count, _, cpus, _, _, memory = line.partition(":")[0].replace(",", "").split()
        other = manifest(container(None, {"cpu": cpus, "memory": memory, GPU: int(count)}))
        again = planned(other, stage()).pods[0].proof
        assert again is not None
        assert again.admitted
        assert again.aligned


@pytest.mark.parametrize(("scope", "init", "beside", "crosses"), [
    pytest.param("pod",       "40", None,   False, id="an init container ends before the others start"),
    pytest.param("pod",       None, "500m", False, id="a container in the shared pool needs no CPUs of a NUMA node"),
    pytest.param("pod",       None, "40",   True,  id="containers that run together"),
    pytest.param("container", None, "40",   False, id="each container for itself"),
])  # fmt: skip
def test_what_crosses_is_what_a_pod_has_at_one_time(
    scope: str,
    init: str | None,
    beside: str | None,
    crosses: bool,  # noqa: FBT001
) -> None:
    """A NUMA node has 62 CPUs to give; nothing is said to cross that the same answer shows on one."""
    on = stage(**{**stage().config, "topologyManagerScope": scope, "cpuManagerPolicyOptions": {}})
    main = container(None, {"cpu": "40", "memory": "8Gi"})
    more = {"name": "more", "image": "x"}
    spec = {}
    if init:
        spec["initContainers"] = [{**more, "resources": {"limits": {"cpu": init, "memory": "8Gi"}}}]
    others = [{**more, "resources": {"limits": {"cpu": beside, "memory": "1Gi"}}}] if beside else []
    proof = planned(manifest(main, *others, **spec), on).pods[0].proof
    assert proof is not None
    assert (proof.admitted, proof.aligned, bool(proof.crosses)) == (not crosses, not crosses, crosses)
    rows = proof.alignment.resources if proof.alignment else ()
    assert all(len(row.numa) == 1 for row in rows if row.cpus)


def test_what_is_taken_is_taken() -> None:
    node = at_work(*(pod(f"p{i}", 14, "100Gi", 1) for i in range(7)), on=SERVER, kubelet=stage().config)
    busy = stage_for(SERVER, NEWEST, stage().config, TRAINING, node.files.texts)
    found = manifest(container(None, {"cpu": "4", "memory": "8Gi", GPU: 2}))
    assert not planned(found, busy).good
    proof = planned(manifest(container(None, {"cpu": "4", "memory": "8Gi", GPU: 1})), busy).pods[0].proof
    assert proof is not None
    assert (proof.admitted, proof.fits) == (True, 1)


def test_a_service_out_of_flags() -> None:
    wish = PodAmounts(gpus=1, cpus=8, memory=32 * GIB, port=8080, health="/health")
    new = new_manifest(NewPod("chat", "x", INFERENCE, wish, ("python", "serve.py"), "team", 3), GPU)
    plan = plan_pods([(new, "")], wish, stage(goal=INFERENCE), INFERENCE)
    document = plan.manifests[0]
    assert (document["kind"], document["metadata"]) == ("Deployment", {"name": "chat", "namespace": "team"})
    assert document["spec"]["replicas"] == 3
    assert len(decode_pods(Document(document))) == 3
    assert only(plan)["containers"][0]["command"] == ["python", "serve.py"]
    assert plan.good


@pytest.mark.parametrize("version", [(1, 20), (1, 27), (1, 31), NEWEST])
def test_every_release(version: Version) -> None:
    plan = planned(manifest(container(None, {GPU: 4})), stage(version))
    assert plan.good
    assert isinstance(
        boot(SERVER, stage(version).config, stage(version).node().files, version=version), SimulatedNode
    )


def test_other_objects_pass_unchanged() -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s"},
        "spec": {"ports": [{"port": 80}]},
    }
    both = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [service, manifest(container(None, {"cpu": "4", "memory": "8Gi"}))],
    }
    plan = plan_pods([(service, "a"), (both, "b")], PodAmounts(), stage())
    assert plan.manifests[0] == service
    assert plan.manifests[1]["items"][0] == service
    assert [one.name for one in plan.pods] == ["p"]


def test_a_resource_that_the_machine_does_not_have() -> None:
    plan = planned(manifest(container(None, {"cpu": "4", "memory": "8Gi", "amd.com/gpu": 1})), stage())
    proof = plan.pods[0].proof
    assert proof is not None
    assert (proof.admitted, proof.aligned, plan.good) == (True, False, False)
    assert ", but without amd.com/gpu: no device plugin offers it on this machine, which has " in proof.text


@pytest.mark.parametrize(
    ("config", "words", "aligned"),
    [
        ({"memoryManagerPolicy": "None", "reservedMemory": []}, "memory is not aligned", True),
        ({"cpuManagerPolicy": "none", "cpuManagerPolicyOptions": {}}, "CPUs are not aligned", False),
    ],
)
def test_what_the_node_does_not_align(config: dict[str, Any], words: str, aligned: bool) -> None:  # noqa: FBT001
    found = manifest(container(None, {"cpu": "4", "memory": "8Gi", GPU: 1}))
    proof = planned(found, stage(**{**stage().config, **config})).pods[0].proof
    assert proof is not None
    assert f"admitted on the node (1.37), but {words}: " in proof.text
    assert proof.aligned is aligned


def test_manifests_read_the_same_again() -> None:
    from numawise.render.plan import pod_plan_text  # noqa: PLC0415

    script = "echo 'a: b'\n\tx\n\n  y  \n"
    found = manifest(
        container(
            None,
            {"cpu": "4", "memory": "8Gi"},
            command=["sh", "-c", script],
            args=["yes", "0x10", "1e3", "", "10%", "a#b", " # c"],
        )
    )
    plan = planned(found, stage())
    text = pod_plan_text(plan)
    assert read_documents(text, "x")[0].value == plan.manifests[0]
    assert yaml.safe_load(text) == plan.manifests[0]
    assert "&id" not in text
