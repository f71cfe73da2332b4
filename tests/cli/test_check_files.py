"""``numawise check FILE…``: every file is recognised by what is in it."""

import json
from pathlib import Path

import pytest

import numawise as nw
from tests.check.examples import write
from tests.check.folder import HEAD, STATIC, pod
from tests.cli.run import program

CPUS = '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'
MACHINE = """cpus:
- {cpu: 0, core: 0, socket: 0, numa: 0}
- {cpu: 1, core: 1, socket: 0, numa: 0}
numa:
- {id: 0, memory: 8589934592, distances: [10]}
"""
NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: '2'}}\n"
TOML = '[settings.kubernetes]\ncpu-manager-policy = "static"\n'
LSCPU = """# CPU,Core,Socket,Node
0,0,0,0
1,1,0,0
"""
CARRIED = """apiVersion: machineconfiguration.openshift.io/v1
kind: KubeletConfig
metadata: {name: numa}
spec:
  kubeletConfig: {cpuManagerPolicy: static}
"""
CONFIGZ = json.dumps({"kubeletconfig": {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}})


def looked_at(folder: Path, files: dict[str, str], *words: str) -> tuple[dict[str, int], str]:
    """How much of each kind was looked at, and what was said on standard error."""
    write(files, folder)
    ran = program("check", *(words or files), "-o", "json", cwd=folder)
    counts = json.loads(ran.out)["lookedAt"]
    return {name: count for name, count in counts.items() if count}, ran.err


@pytest.mark.parametrize(("files", "expected"), [
    ({"a": STATIC},                                           {"kubelets": 1}),
    ({"a.json": CONFIGZ},                                     {"kubelets": 1}),
    ({"user-data.toml": TOML},                                {"kubelets": 1}),
    ({"kc.yaml": CARRIED},                                    {"kubelets": 1}),
    ({"kubelet": "KUBELET_ARGS=--cpu-manager-policy=static\n"}, {"kubelets": 1}),
    ({"a.yaml": STATIC, "b.yaml": HEAD},                      {"kubelets": 2}),
    ({"saved.txt": CPUS},                                     {"stateFiles": 1}),
    ({"m.yaml": MACHINE},                                     {"machines": 1}),
    ({"lscpu.txt": LSCPU},                                    {"machines": 1}),
    ({"p.yaml": pod("{}")},                                   {"pods": 1}),
    ({"p.yaml": f"{pod('{}')}---\n{STATIC}"},                 {"kubelets": 1, "pods": 1}),
    ({"k.yaml": STATIC, "m.yaml": MACHINE, "cpu_manager_state": CPUS, "n.yaml": NODE, "p.yaml": pod("{}")},
     {"kubelets": 1, "machines": 1, "stateFiles": 1, "pods": 1}),
])  # fmt: skip
def test_what_a_file_is(files: dict[str, str], expected: dict[str, int], tmp_path: Path) -> None:
    assert looked_at(tmp_path, files)[0] == expected


@pytest.mark.parametrize("text", [STATIC, CARRIED, CONFIGZ, TOML])
def test_the_same_with_and_without_the_option(text: str, tmp_path: Path) -> None:
    write({"k": text}, tmp_path)
    assert program("check", "k", cwd=tmp_path) == program("check", "--kubelet-config", "k", cwd=tmp_path)


def test_a_state_file_belongs_to_the_configuration(tmp_path: Path) -> None:
    write({"k.yaml": STATIC, "cpu_manager_state": CPUS}, tmp_path)
    ran = program("check", "--brief", "--kube", "1.36", "k.yaml", "cpu_manager_state", cwd=tmp_path)
    assert ran.status == 1
    assert "cpu_manager_state:1: error NW301 was written under policy none" in ran.out


def test_a_folder_as_of_a_kubelet(tmp_path: Path) -> None:
    files = {"kubelet/config.yaml": STATIC, "kubelet/cpu_manager_state": CPUS}
    assert looked_at(tmp_path, files, "kubelet")[0] == {"kubelets": 1, "stateFiles": 1}


def test_options_win_and_that_is_said(tmp_path: Path) -> None:
    files = {"m.yaml": MACHINE, "other.yaml": MACHINE, "k.yaml": STATIC}
    counts, said = looked_at(tmp_path, files, "--machine", "m.yaml", "other.yaml", "k.yaml")
    assert counts == {"kubelets": 1, "machines": 1}
    assert "other.yaml: a machine, passed over, as --machine names another" in said


def test_of_two_machines_none_is_taken(tmp_path: Path) -> None:
    counts, said = looked_at(tmp_path, {"m.yaml": MACHINE, "n.yaml": MACHINE, "k.yaml": STATIC})
    assert counts == {"kubelets": 1}
    assert "m.yaml and n.yaml are 2 machines: none is taken; --machine names one" in said


UNPLACED = """cpus:
- {cpu: 0, core: 0, socket: 0, numa: 0}
- {cpu: 1, core: 1, socket: 0, numa: 0}
- {cpu: 2, core: 2, socket: 0, numa: 0}
- {cpu: 3, core: 3, socket: 1, numa: 1}
- {cpu: 4, core: 4, socket: 1, numa: 1}
numa:
- {id: 0, memory: 8589934592, distances: [10, 20]}
- {id: 1, memory: 8589934592, distances: [20, 10]}
devices:
  nvidia.com/gpu: {devices: [{id: g0, numa: null, numa_unknown: true}, {id: g1, numa: null, numa_unknown: true}]}
"""
SINGLE = f"{STATIC}topologyManagerPolicy: single-numa-node\n"
TWO = pod('{limits: {cpu: "2", memory: 64Mi, nvidia.com/gpu: "2"}}')


def answers(*numas: int) -> str:
    devices = [
        {"resourceName": "nvidia.com/gpu", "deviceIds": [f"g{i}"], "topology": {"nodes": [{"ID": str(numa)}]}}
        for i, numa in enumerate(numas)
    ]
    return json.dumps({"List": {"podResources": []}, "GetAllocatableResources": {"devices": devices}})


@pytest.mark.parametrize(("numas", "expected"), [
    ((),      ("NW003", "warning", "the NUMA nodes of free nvidia.com/gpu devices are not known")),
    ((0, 1),  ("NW420", "error", "TopologyAffinityError")),
    ((1, 1),  ()),
])  # fmt: skip
def test_what_is_not_known_is_not_refused(
    numas: tuple[int, ...], expected: tuple[str, ...], tmp_path: Path
) -> None:
    files = {"k.yaml": SINGLE, "m.yaml": UNPLACED, "p.yaml": TWO}
    files |= {"answers.json": answers(*numas)} if numas else {}
    write(files, tmp_path)
    lines = program(
        "check", "--brief", "--select", "NW003,NW420,NW237", *files, cwd=tmp_path
    ).out.splitlines()
    assert len(lines) == bool(expected)
    assert all(word in lines[0] for word in expected)
    option = ("--pod-resources", "answers.json") if numas else ()
    ran = program("why", "--machine", "m.yaml", "--kubelet-config", "k.yaml", *option, "p.yaml", cwd=tmp_path)
    verdict = "Not known" if not numas else "Rejected" if expected else "Admitted"
    assert ran.out.splitlines()[1].startswith(verdict)


def test_a_log_says_where_it_is_read(tmp_path: Path) -> None:
    write(
        {"kubelet.log": 'I0101 10:00:00.000000 1 server.go:1] "Kubelet version" v="v1.36.4": x\n'}, tmp_path
    )
    ran = program("check", "kubelet.log", cwd=tmp_path)
    assert ran.status == 1
    assert "numawise why --log FILE" in ran.out


def test_the_api_recognises_files_too(tmp_path: Path) -> None:
    write({"k.yaml": STATIC, "p.yaml": pod("{}")}, tmp_path)
    report = nw.check([tmp_path / "k.yaml", tmp_path / "p.yaml"])
    assert (report.looked_at.kubelets, report.looked_at.pods) == (1, 1)
