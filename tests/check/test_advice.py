"""Amounts that ``check`` advises are those that ``plan pod`` writes; job systems are read as what they are."""

import re
from pathlib import Path

import pytest
import yaml

from numawise.apps.plan.manifest import PodAmounts, Share, fixed
from numawise.results.finding import Severity
from tests.check.folder import check, codes, one

GPU = "nvidia.com/gpu"
BELOW = f"requests: {{cpu: 2, memory: 6Gi}}, limits: {{cpu: 8, memory: 20Gi, {GPU}: 1}}"


@pytest.mark.parametrize(("containers", "inits", "code"), [
    pytest.param([BELOW],                                                             [],  "NW410", id="both below their limits"),
    pytest.param([f"requests: {{cpu: 1500m, memory: 8Gi}}, limits: {{{GPU}: 2}}"],    [],  "NW410", id="no limits, a fraction"),
    pytest.param([f"limits: {{cpu: 4, memory: 1Gi, {GPU}: 1}}", "requests: {cpu: 100m}, limits: {cpu: 500m, memory: 1Gi}"], [], "NW411", id="beside it"),
    pytest.param([f"limits: {{cpu: 4, memory: 1Gi, {GPU}: 1}}"],                      [""], "NW411", id="a bare init container"),
    pytest.param(["requests: {cpu: 4, memory: 1Gi}, limits: {memory: 3Gi}"],          [],  "NW415", id="without devices"),
])  # fmt: skip
def test_check_advises_what_plan_pod_writes(
    containers: list[str], inits: list[str], code: str, tmp_path: Path
) -> None:
    def listed(resources: list[str], word: str) -> list[dict[str, object]]:
        values = [yaml.safe_load(f"{{{text}}}") for text in resources]
        return [{"name": f"{word}{i}", "image": "x", "resources": one} for i, one in enumerate(values)]

    spec = {"containers": listed(containers, "app"), "initContainers": listed(inits, "init")}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}
    report = check(tmp_path, {"pod.yaml": yaml.safe_dump(manifest)})
    finding = one(report, code)
    advised = re.match(r"requests and limits of (\w+): (\{.*?\})", finding.fix)
    assert advised
    fixed(spec, PodAmounts(), Share())
    (planned,) = (c for c in [*spec["initContainers"], *spec["containers"]] if c["name"] == advised[1])
    written = {name: value for name, value in planned["resources"]["limits"].items() if name != GPU}
    assert yaml.safe_load(advised[2]) == written
    assert {n: v for n, v in planned["resources"]["requests"].items() if n != GPU} == written


def test_memory_is_never_cut_to_the_request(tmp_path: Path) -> None:
    text = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec: {{containers: [{{name: vllm, image: x, resources: {{{BELOW}}}}}]}}\n"
    fix = one(check(tmp_path, {"pod.yaml": text}), "NW410").fix
    assert 'vllm: {cpu: "2", memory: 20Gi}' in fix
    assert "memory: its limit, instead of 6Gi: with less it could be killed" in fix
    assert "cpu: instead of up to 8: CPUs of its own cannot be exceeded" in fix


# --- job systems ----------------------------------------------------------------------------

POD = f"{{containers: [{{name: main, image: x, resources: {{limits: {{cpu: 3500m, memory: 1Gi, {GPU}: 1}}}}}}]}}"
ONE = f"{{name: main, image: x, resources: {{limits: {{cpu: 3500m, memory: 1Gi, {GPU}: 1}}}}}}"
BARE = ONE.replace("name: main, ", "")


@pytest.mark.parametrize(("version", "kind", "spec", "more"), [
    ("batch.volcano.sh/v1alpha1",   "Job",          f"{{minAvailable: 1, plugins: {{svc: []}}, tasks: [{{replicas: 2, name: w, topologyPolicy: best-effort, template: {{spec: {POD}}}}}]}}", set()),
    ("batch.volcano.sh/v1alpha1",   "CronJob",      f"{{jobTemplate: {{spec: {{tasks: [{{template: {{spec: {POD}}}}}]}}}}}}", set()),
    ("flow.volcano.sh/v1alpha1",    "JobTemplate",  f"{{tasks: [{{template: {{spec: {POD}}}}}]}}", set()),
    ("kubeflow.org/v1",             "PyTorchJob",   f"{{pytorchReplicaSpecs: {{Worker: {{template: {{spec: {POD}}}}}}}}}", set()),
    ("kubeflow.org/v2beta1",        "MPIJob",       f"{{slotsPerWorker: 1, mpiReplicaSpecs: {{Worker: {{template: {{spec: {POD}}}}}}}}}", set()),
    ("ray.io/v1",                   "RayJob",       f"{{rayClusterSpec: {{headGroupSpec: {{template: {{spec: {POD}}}}}}}}}", set()),
    ("jobset.x-k8s.io/v1alpha2",    "JobSet",       f"{{replicatedJobs: [{{name: a, template: {{spec: {{template: {{spec: {POD}}}}}}}}}]}}", set()),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", f"{{leaderWorkerTemplate: {{size: 2, workerTemplate: {{spec: {POD}}}}}}}", set()),
    ("argoproj.io/v1alpha1",        "Rollout",      f"{{template: {{spec: {POD}}}}}", set()),
    ("argoproj.io/v1alpha1",        "Workflow",     f"{{entrypoint: a, templates: [{{name: a, dag: {{tasks: []}}}}, {{name: b, container: {BARE}}}]}}", {"NW414"}),
    ("argoproj.io/v1alpha1",        "CronWorkflow", f"{{schedule: x, workflowSpec: {{templates: [{{name: b, script: {{source: print(1), image: x, resources: {{limits: {{cpu: 3500m, memory: 1Gi, {GPU}: 1}}}}}}}}]}}}}", {"NW414"}),
    ("argoproj.io/v1alpha1",        "WorkflowTemplate", f"{{templates: [{{name: b, containerSet: {{volumeMounts: [], containers: [{ONE[:-1]}, dependencies: [x]}}]}}}}]}}", {"NW414"}),
    ("serving.knative.dev/v1",      "Service",      f"{{template: {{spec: {{containerConcurrency: 1, containers: [{BARE}]}}}}}}", {"NW414"}),
    ("example.com/v1",              "Anything",     f"{{deeply: [{{hidden: {{template: {{spec: {POD}}}}}}}]}}", set()),
])  # fmt: skip
def test_pods_of_job_systems_are_judged(
    version: str, kind: str, spec: str, more: set[str], tmp_path: Path
) -> None:
    text = f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: train}}\nspec: {spec}\n"
    report = check(tmp_path, {"pod.yaml": text})
    assert codes(report) == {"NW412", *more}
    assert one(report, "NW412").message.startswith("container ")


def test_a_job_with_tasks_is_volcanos_though_it_does_not_say(tmp_path: Path) -> None:
    text = f"kind: Job\nmetadata: {{name: a}}\nspec: {{tasks: [{{template: {{spec: {POD}}}}}]}}\n"
    assert codes(check(tmp_path, {"pod.yaml": text})) == {"NW412"}


@pytest.mark.parametrize(
    "spec", ["{workloadRef: {kind: Deployment, name: x}}", "{templateResolvedFromRef: true}"]
)
def test_pods_that_are_described_elsewhere_are_no_error(spec: str, tmp_path: Path) -> None:
    text = f"apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {{name: a}}\nspec: {spec}\n"
    finding = one(check(tmp_path, {"pod.yaml": text}), "NW403")
    assert finding.severity is Severity.INFO
    assert finding.message == "kind Rollout: no pod template inside"


def test_a_field_that_pods_do_not_have_does_not_hide_the_rest(tmp_path: Path) -> None:
    spec = f"{{tasks: [{{template: {{spec: {{priorityClass: high, {POD[1:]}}}}}]}}"
    text = f"apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {{name: a}}\nspec: {spec}\n"
    report = check(tmp_path, {"pod.yaml": text})
    assert codes(report) == {"NW401", "NW412"}
    finding = one(report, "NW401")
    assert finding.severity is Severity.WARNING
    assert 'unknown field "priorityClass"' in finding.message
    assert finding.why == "The pods have no such field: the schema of Job refuses it or drops it."
