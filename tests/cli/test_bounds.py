"""Files that are made to exhaust memory or time: an ordinary sentence, within 1 GiB, and never a traceback.

No test here looks at a clock: what would run without end is killed by a limit of CPU time, which fails the test.
"""

import gzip
import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY, SECONDS = 1 << 30, 120
MIB = 1 << 20
NODE = ("--machine", "2s 2n 8c 2gpu", "--kubelet-config")
KUBELET = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: "{}"
"""
POD = "{{kind: {}, metadata: {{name: a}}, spec: {}}}"
SPEC = "{containers: [{name: c, image: i}]}"


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


def attacked(*words: str, stdin: str = "/dev/null") -> tuple[int, str]:
    """Exit status, and all that was printed, of a command that may use so much memory and CPU time."""
    command = [sys.executable, "-m", "numawise", *words]
    with Path(stdin).open("rb") as source:
        done = subprocess.run(
            command,
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            preexec_fn=limited,
        )
    return done.returncode, done.stdout


def written(path: Path, *parts: str) -> str:
    path.write_text("".join(parts))
    return str(path)


def refused(expected: str, *words: str, stdin: str = "/dev/null") -> None:
    status, text = attacked(*words, stdin=stdin)
    assert status in (1, 2), text[-500:]
    assert expected in text
    assert len(text) < 3000


@pytest.mark.parametrize(("head", "unit", "count", "tail", "expected"), [
    pytest.param("[",             "[],",    4_000_000, "0]",         "holds more than 3,000,000 values",    id="lists in a list"),
    pytest.param("",              "{}\n",   2_000_000, "",           "holds more than 100,000 documents",   id="objects in a row"),
    pytest.param('{"a":',         "[",      5000,      "]" * 5000,   "is nested more than 500 levels deep", id="deep"),
    pytest.param("",              "a: 1\n", 1_000_000, "",           'the key "a" appears twice',           id="repeated keys"),
    pytest.param('{"kind": "List", "items": [', "{},", 300_000, "{}]}", "lists more than 100,000 objects", id="listed objects"),
    pytest.param("",  "%TAG !a! x\n", 200_000, "---\na: 1\n",       "has more than 100 %TAG directives",   id="tag directives"),
])  # fmt: skip
def test_documents(head: str, unit: str, count: int, tail: str, expected: str, tmp_path: Path) -> None:
    path = written(tmp_path / "pods", head, unit * count, tail)
    kubelet = written(tmp_path / "k.yaml", KUBELET.format("0"))
    refused(expected, "simulate", *NODE, kubelet, path)
    status, text = attacked("check", path)
    assert status in (1, 2), text[-500:]


def test_objects_that_fill_a_file(tmp_path: Path) -> None:
    refused(
        "holds more than 3,000,000 values",
        "check",
        written(tmp_path / "a.json", "[", "{}," * (20 * MIB), "{}]"),
    )


def test_one_wide_character_in_a_long_text(tmp_path: Path) -> None:
    path = written(tmp_path / "a.json", '{"kind": "Pod", "x": "\U0001f600', "x" * (50 * MIB), '"}')
    refused("name or generateName is required", "check", path)


def test_comments_with_codes_that_do_not_exist(tmp_path: Path) -> None:
    pod = "kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c}]}\n"
    path = written(tmp_path / "a.yaml", pod, "# numawise: ignore NW998 NW999\n" * 200_000)
    status, text = attacked("check", path)
    assert (status, text.count("there is no code")) == (0, 100)


@pytest.mark.parametrize("cpus", ["0-4000000000", "0,9000000000", "0-65535," * 150_000 + "1"])
def test_reserved_cpus(cpus: str, tmp_path: Path) -> None:
    kubelet = written(tmp_path / "k.yaml", KUBELET.format(cpus))
    status, text = attacked("check", "--machine", "2s 2n 8c", "--kubelet-config", kubelet)
    assert status == 1
    assert "is not a subset of online-cpus: 0-7" in text
    status, text = attacked("simulate", *NODE, kubelet, written(tmp_path / "p.yaml", POD.format("Pod", SPEC)))
    assert status == 2
    assert "is not a subset of online-cpus" in text


@pytest.mark.parametrize(("kind", "spec"), [
    ("Deployment",      f"{{replicas: 100001, template: {{spec: {SPEC}}}}}"),
    ("JobSet",          f"{{replicatedJobs: [{{replicas: 100000, template: {{spec: {{parallelism: 100000, template: {{spec: {SPEC}}}}}}}}}]}}"),
    ("LeaderWorkerSet", f"{{replicas: 100000, leaderWorkerTemplate: {{size: 100000, workerTemplate: {{spec: {SPEC}}}}}}}"),
    ("RayCluster",      f"{{headGroupSpec: {{template: {{spec: {SPEC}}}}}, workerGroupSpecs: [{{replicas: 100000, numOfHosts: 100000, template: {{spec: {SPEC}}}}}]}}"),
])  # fmt: skip
def test_replicas(kind: str, spec: str, tmp_path: Path) -> None:
    kubelet = written(tmp_path / "k.yaml", KUBELET.format("0"))
    for command in ("simulate", "why"):
        path = written(tmp_path / "p.yaml", POD.format(kind, spec))
        refused("100,000" if kind != "Deployment" else "from 0 to 100000", command, *NODE, kubelet, path)


def test_many_workloads_of_many_pods(tmp_path: Path) -> None:
    one = POD.format("Deployment", f"{{replicas: 90000, template: {{spec: {SPEC}}}}}") + "\n---\n"
    path = written(tmp_path / "p.yaml", one * 1000)
    refused("90,000 pods of it make more than 100,000 in all", "plan", "pod", path)


def test_a_step_that_makes_copies_of_many(tmp_path: Path) -> None:
    kubelet = written(tmp_path / "k.yaml", KUBELET.format("0"))
    pods = written(
        tmp_path / "p.yaml", POD.format("Deployment", f"{{replicas: 5000, template: {{spec: {SPEC}}}}}")
    )
    steps = written(tmp_path / "s.yaml", "- add: {file: p.yaml, count: 100000}")
    refused("must be an integer from 1 to 20, not 100000", "simulate", *NODE, kubelet, "--steps", steps)
    steps = written(tmp_path / "s.yaml", "- add: p.yaml\n" * 1000)
    refused("more than 100,000 pods have come", "simulate", *NODE, kubelet, "--steps", steps, pods)
    steps = written(tmp_path / "s.yaml", f"- {{after: {'9' * 400}s, add: p.yaml}}")
    refused("is not a time", "simulate", *NODE, kubelet, "--steps", steps)


def test_more_gpus_than_can_be_counted(tmp_path: Path) -> None:
    env = '[{name: CUDA_VISIBLE_DEVICES, value: "0"}, {name: OMP_PLACES, value: "{0:' + "9" * 5000 + '}"}]'
    limits = '{nvidia.com/gpu: "9000000000000000"}'
    spec = f"{{containers: [{{name: c, image: i, env: {env}, resources: {{limits: {limits}}}}}]}}"
    status, text = attacked("check", written(tmp_path / "p.yaml", POD.format("Pod", spec)))
    assert status in (0, 1)
    assert "leaves 8999999999999999 of the 9000000000000000 GPUs unused" in text


# --- traces, state files --------------------------------------------------------------------


def test_a_log_without_end() -> None:
    refused("/dev/zero: 64 MiB have no line end", "why", "--log", "/dev/zero")
    refused("-: 64 MiB have no line end", "why", "--log", "-", stdin="/dev/zero")


def test_a_trace_line_without_end(tmp_path: Path) -> None:
    refused("/dev/zero:1: is longer than 16 MiB", "replay", "/dev/zero")
    refused("<stdin>:1: is longer than 16 MiB", "replay", "-", stdin="/dev/zero")
    bomb = tmp_path / "t.jsonl.gz"
    bomb.write_bytes(gzip.compress(b"x" * (200 * MIB)))
    refused("t.jsonl.gz:1: is longer than 16 MiB", "replay", str(bomb))
    objects = '{"scenario": {"id": 1, "machine": {}, "a": [' + "{}," * (5 * MIB) + "{}]}}"
    refused("is missing or empty", "replay", written(tmp_path / "t.jsonl", objects))


def states() -> Iterator[tuple[str, str, str]]:
    wide = {f"u{i}": {"c": "0-65535"} for i in range(5000)}
    many = {f"u{i}": {"c": "1"} for i in range(20_000)}
    content = {"policyName": "static", "defaultCpuSet": "0", "checksum": 1}
    yield "cpu_manager_state", json.dumps({**content, "entries": many}), "lists 40,000 pods and containers"
    yield "cpu_manager_state", json.dumps({**content, "entries": wide}), "reach more than 268,435,456 ids"
    pods = {name: {"cpuSet": cpus["c"]} for name, cpus in wide.items()}
    yield "cpu_manager_state", json.dumps({**content, "podEntries": pods}), "reach more than 4,194,304 ids"
    yield "cpu_manager_state", json.dumps({**content, "x": "x" * 17 * MIB}), "is larger than 16 MiB"


@pytest.mark.parametrize(
    ("name", "text", "expected"), list(states()), ids=["many", "entries", "pods", "size"]
)
def test_state_files(name: str, text: str, expected: str, tmp_path: Path) -> None:
    path = written(tmp_path / name, text)
    for command in (("state", "verify"), ("check", "--state")):
        status, said = attacked(*command, path)
        assert status in (1, 2)
        assert expected in said


# --- searches -------------------------------------------------------------------------------

NEAR = """\
topologyManagerPolicy: best-effort
topologyManagerPolicyOptions: {max-allowable-numa-nodes: "32", prefer-closest-numa-nodes: "true"}
"""
EVEN = """\
topologyManagerPolicy: best-effort
topologyManagerPolicyOptions: {max-allowable-numa-nodes: "32"}
cpuManagerPolicyOptions: {distribute-cpus-across-numa: "true"}
"""
ENDED = "not known: the search among sets of NUMA nodes was ended after 500,000 steps"


def many_numas(options: str, cpus: int, folder: Path) -> tuple[str, ...]:
    kubelet = written(folder / "k.yaml", KUBELET.format("0"), options)
    spec = f'{{containers: [{{name: c, image: i, resources: {{limits: {{cpu: "{cpus}", memory: 1Gi}}}}}}]}}'
    path = written(folder / "p.yaml", POD.format("Pod", spec))
    return "--machine", "4s 32n 256c", "--kubelet-config", kubelet, path


def test_half_of_many_numa_nodes(tmp_path: Path) -> None:
    """The nearest of 600 million sets of 16 nodes: two whole sockets."""
    words = many_numas(NEAR, 128, tmp_path)
    for command in ("simulate", "why", "check"):
        status, text = attacked(command, *words)
        assert status == 0
        assert ENDED not in text
    assert "64-191" in attacked("simulate", *words)[1]


def test_an_even_choice_among_many_numa_nodes(tmp_path: Path) -> None:
    """All sets of 25 to 32 nodes carry the remainder equally well: the kubelet compares millions."""
    words = many_numas(EVEN, 249, tmp_path)
    for command in ("simulate", "why", "check"):
        status, text = attacked(command, *words)
        assert status == 0
        assert ENDED not in text
    assert "1-214,216-222,224-230,232-238,240-246,248-254" in attacked("simulate", *words)[1]
