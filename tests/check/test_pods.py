"""Pods: their class, their shape on a machine, and what they do to their own placement."""

from pathlib import Path

import pytest

from numawise.apps.check.lint import lint
from numawise.results.finding import Severity
from tests.check.examples import inside, write
from tests.check.folder import HEAD, STATIC, check, codes, named, one, pod

GPU = "nvidia.com/gpu"
FIXED = f'{{limits: {{cpu: "8", memory: 32Gi, {GPU}: "1"}}}}'
ALIGNED = f"{STATIC}topologyManagerPolicy: single-numa-node\n"
BOTH = f"{ALIGNED}memoryManagerPolicy: Static\nreservedMemory: [{{numaNode: 0, limits: {{memory: 100Mi}}}}]\n"
MACHINE = "= 2s 16c 2t 4gpu 128g"


def limits(cpu: str = "", memory: str = "", gpu: str = "", **more: str) -> str:
    given = {"cpu": cpu, "memory": memory, GPU: gpu, **more}
    told = ", ".join(f'{name}: "{value}"' for name, value in given.items() if value)
    return f"{{limits: {{{told}}}}}"


# fmt: off
@pytest.mark.parametrize(("resources", "spec", "expected"), [
    pytest.param(limits("8", "32Gi", "1"),                                                      "", set(),      id="Guaranteed"),
    pytest.param(limits("8", "32Gi"),                                                           "", set(),      id="without GPU"),
    pytest.param(f'{{requests: {{cpu: "4"}}, limits: {{cpu: "8", memory: 32Gi, {GPU}: "1"}}}}', "", {"NW410"},  id="request below limit"),
    pytest.param(f'{{requests: {{cpu: "8", memory: 8Gi}}, limits: {{{GPU}: "1"}}}}',            "", {"NW410"},  id="no limits"),
    pytest.param(limits("3500m", "32Gi", "1"),                                                  "", {"NW412"},  id="fraction"),
    pytest.param(limits("500m", "1Gi"),                                                         "", set(),      id="a small helper"),
    pytest.param(limits("1500m", "1Gi"),                                                        "", {"NW412"},  id="a large fraction"),
    pytest.param(limits("", "32Gi", "1"),                                                       "", {"NW430"},  id="GPU without CPU"),
    pytest.param(limits("8", "", "1"),                                                          "", {"NW431"},  id="GPU without memory"),
    pytest.param(limits("", "", "1"),                                                           "", {"NW430", "NW431"}, id="GPU alone"),
    pytest.param('{requests: {cpu: "4", memory: 8Gi}, limits: {memory: 8Gi}}',                  "", {"NW415"},  id="whole CPUs, Burstable"),
    pytest.param("{requests: {cpu: 100m}}",                                                     "", set(),      id="an ordinary pod"),
    pytest.param("",                                                                            "", set(),      id="nothing asked for"),
    pytest.param(limits("8", "32Gi", "2"),                                                      "", {"NW435"},  id="two GPUs, no shared memory"),
    pytest.param(limits("8", "32Gi", "2"),                                                      "hostIPC: true", set(), id="shared memory of the host"),
    pytest.param(limits("8", "32Gi", "5"),                                                      "hostIPC: true", {"NW422"}, id="five GPUs"),
    pytest.param(limits("8", "32Gi", "8"),                                                      "hostIPC: true", set(), id="eight GPUs"),
    pytest.param(FIXED,                                                                         "initContainers: [{name: i, image: i}]", {"NW411"}, id="a bare init container"),
    pytest.param(FIXED, "initContainers: [{name: s, image: s, restartPolicy: Always, resources: {requests: {cpu: 100m}}}]", {"NW411"}, id="a bare sidecar"),
    pytest.param(FIXED, "initContainers: [{name: i, image: i, resources: {limits: {cpu: 100m, memory: 1Gi}}}]", set(), id="an init container with limits"),
    pytest.param(FIXED, 'initContainers: [{name: i, image: i, resources: {limits: {cpu: "16", memory: 1Gi}}}]', {"NW424"}, id="a greedy init container"),
    pytest.param(FIXED,                                                                         "nodeName: node7", {"NW434"}, id="past the scheduler"),
    pytest.param(FIXED,                                                                         "resourceClaims: [{name: g, resourceClaimName: g}]", {"NW433"}, id="a claim"),
])
def test_manifests_alone(resources: str, spec: str, expected: set[str], tmp_path: Path) -> None:
    assert codes(check(tmp_path, {"pod.yaml": pod(resources, spec=spec)})) == expected


@pytest.mark.parametrize(("config", "resources", "expected"), [
    pytest.param(HEAD,    limits("", "", "1"),            {"NW430", "NW431", "NW432"},  id="nothing is managed: no word about the class"),
    pytest.param(STATIC,  limits("8", "32Gi", "1"),       {"NW132", "NW432"},           id="no topology policy"),
    pytest.param(ALIGNED, limits("8", "32Gi", "1"),       {"NW131"},                    id="as it should be"),
    pytest.param(BOTH,    limits("8", "32Gi", "1"),       set(),                        id="memory too"),
])
def test_for_a_kubelet(config: str, resources: str, expected: set[str], tmp_path: Path) -> None:
    assert codes(check(tmp_path, {"kubelet.yaml": config, "pod.yaml": pod(resources)})) == expected


@pytest.mark.parametrize(("policy", "scope", "resources", "code"), [
    # on 2 NUMA nodes with 8 cores of 2 threads, 2 GPUs and 64Gi each; CPU 0 is reserved
    pytest.param("single-numa-node", "container", limits("14", "8Gi", "1"),   "",      id="fits"),
    pytest.param("single-numa-node", "container", limits("18", "8Gi", "1"),   "NW420", id="more CPUs than a NUMA node has"),
    pytest.param("single-numa-node", "container", limits("4", "80Gi", "1"),   "NW420", id="more memory"),
    pytest.param("single-numa-node", "container", limits("4", "8Gi", "3"),    "NW420", id="more GPUs"),
    pytest.param("restricted",       "container", limits("4", "8Gi", "3"),    "NW420", id="GPUs need two, CPUs one"),
    pytest.param("restricted",       "container", limits("18", "80Gi", "3"),  "",      id="all need two"),
    pytest.param("best-effort",      "container", limits("4", "8Gi", "3"),    "NW421", id="admitted, not aligned"),
    pytest.param("none",             "container", limits("4", "8Gi", "3"),    "NW421", id="nobody looks"),
    pytest.param("best-effort",      "container", limits("4", "8Gi", "1"),    "",      id="aligned"),
    pytest.param("best-effort",      "container", limits("40", "8Gi", "1"),   "NW420", id="more CPUs than there are"),
])
def test_on_a_machine(policy: str, scope: str, resources: str, code: str, tmp_path: Path) -> None:
    config = BOTH.replace("single-numa-node", policy) + f"topologyManagerScope: {scope}\n"
    report = check(tmp_path, {"kubelet.yaml": config, "machine.yaml": MACHINE, "pod.yaml": pod(resources)})
    assert codes(report) & {"NW420", "NW421"} == ({code} if code else set())


def test_what_a_refused_pod_is_told(tmp_path: Path) -> None:
    files = {"kubelet.yaml": ALIGNED, "machine.yaml": MACHINE, "pod.yaml": pod(limits("17", "8Gi", "1"))}
    found = one(check(tmp_path, files), "NW420")
    assert found.message == "Pod train: TopologyAffinityError: Resources cannot be allocated with Topology locality"
    assert "17 CPUs are asked for" in found.why
    assert "admitted under best-effort" in found.why
    assert "16" in found.fix


@pytest.mark.parametrize(("resources", "machine", "code"), [
    pytest.param(limits("4", "1Gi", "1"),                                  MACHINE,                       "",      id="offered"),
    pytest.param(limits("4", "1Gi", **{"nvidia.com/gpus": "1"}),           MACHINE,                       "NW429", id="misspelt"),
    pytest.param(limits("4", "1Gi", **{"amd.com/gpu": "1"}),               "= 2s 16c",                    "",      id="no devices are known"),
    pytest.param(limits("4", "1Gi", **{"hugepages-1Gi": "2Gi"}),           "= 2s 16c hugepages=1Gi:1",    "",      id="just enough pages"),
    pytest.param(limits("4", "1Gi", **{"hugepages-1Gi": "3Gi"}),           "= 2s 16c hugepages=1Gi:1",    "NW427", id="too few pages"),
    pytest.param(limits("4", "1Gi", **{"hugepages-2Mi": "2Mi"}),           "= 2s 16c hugepages=1Gi:1",    "NW427", id="another size"),
    pytest.param(limits("4", "1Gi", "3"),                                  "= 2s 16c 4gpu",               "NW422", id="three of two and two"),
    pytest.param(limits("4", "1Gi", "4"),                                  "= 2s 16c 4gpu",               "",      id="all four"),
    pytest.param(limits("4", "1Gi", "3"),                                  "= 2s 16c 8gpu",               "",      id="three of four"),
])
def test_what_the_machine_has(resources: str, machine: str, code: str, tmp_path: Path) -> None:
    report = check(tmp_path, {"machine.yaml": machine, "pod.yaml": pod(resources, spec="hostIPC: true")})
    assert codes(report) & {"NW422", "NW427", "NW429"} == ({code} if code else set())


def env(name: str, value: str) -> str:
    return f'env: [{{name: {name}, value: "{value}"}}]'


@pytest.mark.parametrize(("container", "gpus", "expected"), [
    pytest.param(env("CUDA_VISIBLE_DEVICES", "0"),            "1", {"NW501": "sees anyway"},      id="the only one"),
    pytest.param(env("CUDA_VISIBLE_DEVICES", "0,1"),          "2", {"NW501": "sees anyway"},      id="both"),
    pytest.param(env("CUDA_VISIBLE_DEVICES", "0"),            "2", {"NW501": "leaves 1 of the 2"}, id="one of two"),
    pytest.param(env("CUDA_VISIBLE_DEVICES", "3"),            "1", {"NW501": "no 3"},             id="one that is not there"),
    pytest.param(env("CUDA_VISIBLE_DEVICES", "GPU-77a702db"), "1", {"NW501": "names one card"},   id="a certain card"),
    pytest.param(env("CUDA_VISIBLE_DEVICES", "-1"),           "1", {"NW501": "hides"},            id="hidden"),
    pytest.param(env("CUDA_VISIBLE_DEVICES", "0"),            "",  {"NW501": "no GPU is asked for"}, id="none asked for"),
    pytest.param(env("CUDA_VISIBLE_DEVICES", "-1"),           "",  {},                            id="none, and none asked for"),
    pytest.param(env("CUDA_VISIBLE_DEVICES", "$(RANK)"),      "2", {},                            id="not known"),
    pytest.param(env("ROCR_VISIBLE_DEVICES", "5"),            "1", {"NW501": "no 5"},             id="AMD"),
    pytest.param(env("NVIDIA_VISIBLE_DEVICES", "all"),        "1", {"NW502": "overrides"},        id="all"),
    pytest.param(env("NVIDIA_VISIBLE_DEVICES", "none"),       "1", {"NW502": "hides"},            id="none"),
    pytest.param(env("NVIDIA_VISIBLE_DEVICES", "all"),        "",  {"NW508": "without asking"},   id="all without asking"),
    pytest.param(env("NVIDIA_VISIBLE_DEVICES", "void"),       "",  {},                            id="none without asking"),
    pytest.param(env("GOMP_CPU_AFFINITY", "0-7 64-71"),       "1", {"NW503": "16 CPUs are named"}, id="too many CPUs"),
    pytest.param(env("GOMP_CPU_AFFINITY", "0-7"),             "1", {"NW503": "decided when it starts"}, id="as many, but which"),
    pytest.param(env("GOMP_CPU_AFFINITY", "0-14:2"),          "1", {"NW503": "decided when it starts"}, id="with a step"),
    pytest.param(env("KMP_AFFINITY", "granularity=fine,compact"), "1", {},                        id="relative"),
    pytest.param(env("KMP_AFFINITY", "explicit,proclist=[0,1,2]"), "1", {"NW503": "decided"},     id="explicit"),
    pytest.param(env("OMP_PLACES", "cores"),                  "1", {},                            id="places by name"),
    pytest.param(env("OMP_PLACES", "{0:4},{4:8}"),            "1", {"NW503": "12 CPUs"},          id="places by number"),
    pytest.param(env("OMP_NUM_THREADS", "8"),                 "1", {},                            id="as many threads as CPUs"),
    pytest.param(env("OMP_NUM_THREADS", "9"),                 "1", {"NW504": "OMP_NUM_THREADS=9"}, id="one more"),
    pytest.param(env("OMP_NUM_THREADS", "16,2"),              "1", {"NW504": "16,2"},             id="nested"),
    pytest.param(env("MKL_NUM_THREADS", "64"),                "1", {"NW504": "MKL"},              id="another library"),
    pytest.param("command: [numactl, --cpunodebind=0, python]", "1", {"NW505": "numactl --cpunodebind=0"}, id="numactl"),
    pytest.param("command: [/usr/bin/numactl, -N, '0', python]", "1", {"NW505": "numactl -N 0"},  id="by path"),
    pytest.param("command: [sh, -c, 'cd /x && taskset -c 0-3 ./a']", "1", {"NW505": "taskset -c 0-3"}, id="in a script"),
    pytest.param("command: [numactl]\nargs: ['-N', '0', ./a]", "1", {"NW505": "numactl -N 0"},    id="in two parts"),
    pytest.param("args: [mpirun, --bind-to, core, ./a]",      "1", {},                            id="a launcher among its own"),
    pytest.param("command: [sh, -c, 'taskset -p $$; numactl --hardware; ./a']", "1", {},        id="only looks"),
    pytest.param("args: [mpirun, --bind-to, none, ./a]",      "1", {},                            id="a launcher that does not"),
    pytest.param("args: [python, numactl.py]",                "1", {},                            id="a name that is alike"),
    pytest.param("command: [sh, -c, 'CUDA_VISIBLE_DEVICES=3 python a.py']", "1", {"NW501": "no 3"}, id="set in a script"),
    pytest.param("command: [sh, -c, 'export OMP_NUM_THREADS=32; python a.py']", "1", {"NW504": "32"}, id="exported in a script"),
    pytest.param("securityContext: {privileged: true}",       "1", {"NW506": "privileged"},       id="privileged"),
    pytest.param("securityContext: {privileged: true}",       "",  {},                            id="privileged without devices"),
    pytest.param("env: [{name: CUDA_VISIBLE_DEVICES, valueFrom: {fieldRef: {fieldPath: x}}}]", "1", {}, id="from elsewhere"),
])
def test_environment(container: str, gpus: str, expected: dict[str, str], tmp_path: Path) -> None:
    text = pod(limits("8", "32Gi", gpus), container, "hostIPC: true")
    report = check(tmp_path, {"pod.yaml": text})
    assert codes(report) == set(expected)
    for code, words in expected.items():
        assert words in one(report, code).message


@pytest.mark.parametrize(("value", "words"), [
    pytest.param("0-3",   "CPU 0 is reserved",        id="reserved ones"),
    pytest.param("40-43", "has no CPUs 40-43",         id="none of the machine"),
    pytest.param("1-4",   "decided when it starts",    id="possible ones"),
])
def test_cpu_lists_on_a_machine(value: str, words: str, tmp_path: Path) -> None:
    text = pod(limits("4", "8Gi"), env("GOMP_CPU_AFFINITY", value))
    report = check(tmp_path, {"kubelet.yaml": ALIGNED, "machine.yaml": MACHINE, "pod.yaml": text})
    assert words in one(report, "NW503").message


@pytest.mark.parametrize(("text", "expected"), [
    pytest.param("kind: Service\napiVersion: v1\n",                                             {"NW403"},  id="makes no pods"),
    pytest.param("kind: Queue\napiVersion: x/v1\nmetadata: {name: a}\n",                        {"NW403"},  id="unknown"),
    pytest.param("- 1\n",                                                                       {"NW002"},  id="a list"),
    pytest.param("a: [\n",                                                                      {"NW002"},  id="no YAML"),
    pytest.param(STATIC,                                                                        {"NW002"},  id="a configuration"),
    pytest.param("spec: {containers: [{name: a, image: a}]}\n",                                 set(),      id="a pod without kind"),
    pytest.param("kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: A!, image: a}]}\n", {"NW401"}, id="refused by the API server"),
    pytest.param('kind: RayCluster\nspec: {head: {template: {spec: {containers: [{name: a, image: a, resources: {limits: {nvidia.com/gpu: "1"}}}]}}}}\n',
                 {"NW430", "NW431"}, id="a template inside another kind"),
    pytest.param('kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: a, resources: {limits: {cpu: "{{ .Values.cpu }}"}}}]}\n', {"NW402"}, id="a chart"),
])
def test_objects(text: str, expected: set[str], tmp_path: Path) -> None:
    assert codes(check(tmp_path, {"pod.yaml": text})) == expected
# fmt: on


def test_folders_and_charts(tmp_path: Path) -> None:
    chart = "kind: Pod\nspec:\n  {{- with .Values.gpu }}\n  x: {{ . }}\n  {{- end }}\n"
    files = {
        "pods/a.yaml": pod(limits("", "1Gi", "1")),
        "pods/b/c.json": pod(),
        "pods/d.yaml": chart,
        "pods/README": "x: [",
    }
    write(files, tmp_path)
    with inside(tmp_path):
        report = lint(**named(pods=("pods",)))
    assert {(finding.code, finding.file) for finding in report.findings} == {
        ("NW430", "pods/a.yaml"),
        ("NW402", "pods/d.yaml"),
    }


def test_one_bad_object_does_not_hide_the_others(tmp_path: Path) -> None:
    bad = "kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: A!, image: a}]}\n"
    report = check(tmp_path, {"pods.yaml": f"{bad}---\n{pod(limits('', '1Gi', '1'))}"})
    assert codes(report) == {"NW401", "NW430"}
    listed = f"kind: List\nitems:\n- {bad.strip().replace(chr(10), chr(10) + '  ')}\n- kind: Pod\n  metadata: {{name: b}}\n"
    listed += '  spec: {containers: [{name: b, image: b, resources: {limits: {memory: 1Gi, nvidia.com/gpu: "1"}}}]}\n'
    assert codes(check(tmp_path, {"pods.yaml": listed})) == {"NW401", "NW430"}


def test_device_files_and_runtimes(tmp_path: Path) -> None:
    spec = "runtimeClassName: nvidia\nvolumes: [{name: d, hostPath: {path: /dev}}, {name: l, hostPath: {path: /dev/log}}]"
    report = check(tmp_path, {"pod.yaml": pod("", spec=spec)})
    assert codes(report) == {"NW508", "NW509"}
    assert one(report, "NW509").message == "/dev is mounted from the host"


def test_severity_of_claims_hangs_on_the_kubelet(tmp_path: Path) -> None:
    text = pod(FIXED, spec="resourceClaims: [{name: g, resourceClaimName: g}]")
    assert one(check(tmp_path, {"pod.yaml": text}), "NW433").severity is Severity.INFO
    managed = check(tmp_path, {"kubelet.yaml": ALIGNED, "pod.yaml": text})
    assert one(managed, "NW433").severity is Severity.WARNING
    assert "NW433" not in codes(check(tmp_path, {"kubelet.yaml": HEAD, "pod.yaml": text}))
