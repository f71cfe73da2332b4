"""A placement in other programs' words: each text, and where possible the judgement of the program itself."""

import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from numawise.apps.launch.capacity import capacity_of
from numawise.apps.launch.flags import FORMATS, PlacedJob, placed_job, texts
from numawise.apps.launch.held import placement_of
from numawise.codec.document import read_documents
from numawise.codec.workload import decode_pods
from numawise.errors import HostError
from numawise.machine.hardware import AMD, GPU, NVIDIA, Gpu, Hardware, PciDevice
from numawise.machine.synthetic import synthetic
from numawise.request.defaults import defaulted
from numawise.request.model import GUARANTEED
from numawise.results.placement import Grant, Hold, MemoryPart, Nic, Owner, Placement
from numawise.sets import parse_ids

GIB = 1 << 30
SERVER = synthetic("2s 2n 8c 2t 4gpu")
SERVER = replace(SERVER, gpus=tuple(replace(gpu, uuid=f"GPU-{i}") for i, gpu in enumerate(SERVER.gpus)))


def own(cpus: str = "1-2,9-10", *, memory: int = 64 * GIB, gpus: int = 2, **rest: object) -> PlacedJob:
    bits = parse_ids(cpus)
    placement = Placement(Grant(cpus=bits), bits, 1, memory, SERVER.gpus[:gpus], policy="restricted")
    return placed_job(replace(placement, **rest), SERVER)  # type: ignore[arg-type]


def spilling(policy: str, **rest: object) -> PlacedJob:
    """Memory that may come from other nodes, too."""
    bits = parse_ids("1-2,9-10")
    placement = Placement(Grant(cpus=bits, memory_policy=policy), bits, 1)  # type: ignore[arg-type]
    return placed_job(replace(placement, **rest), SERVER)  # type: ignore[arg-type]


@pytest.mark.parametrize(("policy", "mems", "unit", "slurm"), [
    ("preferred",  1, ["NUMAPolicy=preferred", "NUMAMask=0"],    "--mem-bind=prefer,mask_mem:0x1"),
    ("preferred",  3, ["NUMAPolicy=local"],                      "--mem-bind=prefer,mask_mem:0x3"),
    ("interleave", 3, ["NUMAPolicy=interleave", "NUMAMask=0-1"], ""),
    ("bind",       1, ["NUMAPolicy=bind", "NUMAMask=0"],         "--mem-bind=mask_mem:0x1"),
])  # fmt: skip
def test_memory_policies_in_other_words(policy: str, mems: int, unit: list[str], slurm: str) -> None:
    asked = spilling(policy, mems=mems)
    lines = text("systemd", asked).splitlines()
    assert [line for line in lines if line.startswith(("NUMAPolicy", "NUMAMask=0"))] == unit
    assert any("AllowedMemoryNodes" in line for line in lines) == (policy == "bind")
    assert [word for word in command("slurm", asked) if "mem-bind" in word] == [slurm] * bool(slurm)
    assert any("interleave" in remark for remark in FORMATS["slurm"](asked).remarks) == (not slurm)


def pool(limit: int = 1500, **rest: object) -> PlacedJob:
    placement = Placement(Grant(cpu_limit=limit, near=1), parse_ids("0-3,8-11"), 1)
    return placed_job(replace(placement, **rest), SERVER)  # type: ignore[arg-type]


def text(name: str, asked: PlacedJob) -> str:
    return str(FORMATS[name](asked))


def words_of(lines: str) -> list[str]:
    """A command as a shell reads it, over several lines."""
    return shlex.split(lines.replace("\\\n", ""))


def command(name: str, asked: PlacedJob) -> list[str]:
    """The command of a text."""
    found = text(name, asked)
    return words_of(found[found.index({"slurm": "srun"}.get(name, name)) :])


# fmt: off
@pytest.mark.parametrize(("name", "asked", "expected"), [
    pytest.param("numactl", own(),                "numactl --physcpubind=1-2,9-10 --membind=0 COMMAND",     id="numactl"),
    pytest.param("numactl", own(mems=0b1101),     "numactl --physcpubind=1-2,9-10 --membind=0,2-3 COMMAND", id="numactl, several nodes"),
    pytest.param("numactl", own(mems=0),          "numactl --physcpubind=1-2,9-10 COMMAND",                 id="numactl, any node"),
    pytest.param("numactl", spilling("preferred"),         "numactl --physcpubind=1-2,9-10 --preferred=0 COMMAND",        id="numactl, preferred"),
    pytest.param("numactl", spilling("preferred", mems=3), "numactl --physcpubind=1-2,9-10 --preferred-many=0-1 COMMAND", id="numactl, several preferred"),
    pytest.param("numactl", spilling("interleave", mems=3), "numactl --physcpubind=1-2,9-10 --interleave=0-1 COMMAND",    id="numactl, interleaved"),
    pytest.param("numactl", pool(),               "numactl --physcpubind=0-3,8-11 --membind=0 COMMAND",     id="numactl, shared pool"),
    pytest.param("taskset", own(),                "taskset --cpu-list 1-2,9-10 COMMAND",                    id="taskset"),
])
def test_commands(name: str, asked: PlacedJob, expected: str) -> None:
    assert text(name, asked) == expected + "\n"
    assert FORMATS[name](asked).argv == tuple(shlex.split(expected))


@pytest.mark.parametrize(("name", "asked", "words"), [
    pytest.param("numactl",    own(),                 ["memory is not kept", "--format env"],   id="numactl has no limit, no GPUs"),
    pytest.param("taskset",    own(memory=0, gpus=0), ["not bound to NUMA node 0"],             id="taskset binds no memory"),
    pytest.param("numactl",    own(memory=0, gpus=0), [],                                       id="nothing left out"),
    pytest.param("taskset",    pool(),                ["not bound", "shared pool changes"],     id="the shared pool changes"),
    pytest.param("kubernetes", own(memory=0),         ["without memory the pod is not"],        id="Guaranteed needs memory"),
    pytest.param("kubernetes", pool(0),               ["without cpu and memory"],               id="nothing to ask for"),
    pytest.param("kubernetes", pool(memory=GIB),      ["kubelet's shared pool"],                id="a fraction"),
])
def test_what_is_left_out_is_said(name: str, asked: PlacedJob, words: list[str]) -> None:
    remarks = FORMATS[name](asked).remarks
    assert len(remarks) == len(words)
    for word, remark in zip(words, remarks, strict=True):
        assert word in remark
# fmt: on


def test_docker_and_podman() -> None:
    assert command("docker", own())[:7] == [
        "docker",
        "run",
        "--gpus",
        '"device=GPU-0,GPU-1"',
        "--cpuset-cpus=1-2,9-10",
        "--cpuset-mems=0",
        "--memory=64g",
    ]
    assert command("docker", own())[-1] == "IMAGE"
    assert command("podman", own())[2:6] == [
        "--device",
        "nvidia.com/gpu=GPU-0",
        "--device",
        "nvidia.com/gpu=GPU-1",
    ]
    assert "--cpus=1.5" in command("docker", pool())
    assert not [word for word in command("docker", own()) if "NUMAWISE" in word]


def test_systemd() -> None:
    lines = text("systemd", own()).splitlines()
    unit = lines[lines.index("[Service]") : lines.index("")]
    assert unit[:9] == [
        "[Service]",
        "AllowedCPUs=",
        "AllowedCPUs=1-2,9-10",
        "AllowedMemoryNodes=",
        "AllowedMemoryNodes=0",
        f"MemoryMax={64 * GIB}",
        "CPUAffinity=",
        "CPUAffinity=1-2,9-10",
        "NUMAPolicy=bind",
    ]
    assert 'Environment="OMP_PLACES={1,9},{2,10}"' in unit
    assert 'Environment="CUDA_VISIBLE_DEVICES=GPU-0,GPU-1"' in unit
    assert "CPUQuota=150%" in text("systemd", pool())
    words = words_of("\n".join(lines[lines.index("systemd-run \\") :]))
    assert words[:3] == ["systemd-run", "--scope", "--property=AllowedCPUs=1-2,9-10"]
    assert "--setenv=OMP_PLACES={1,9},{2,10}" in words
    assert words[-2:] == ["--", "COMMAND"]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
@pytest.mark.parametrize("asked", [own(), pool(), own(mems=0b1101), own("1", memory=0, gpus=0)])
def test_systemd_takes_the_unit(asked: PlacedJob, tmp_path: Path) -> None:
    unit = tmp_path / "job.service"
    unit.write_text("[Service]\nExecStart=/bin/true\nCPUAffinity=0\n")
    folder = tmp_path / "job.service.d"
    folder.mkdir()
    odd = replace(asked, environment=(*asked.environment, ("ODD", 'a "b" c\\d 50% {x}')))
    (folder / "numawise.conf").write_text(text("systemd", odd).split("\n\n")[0] + "\n")
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert "numawise.conf" not in done.stderr


def test_systemd_escapes_values() -> None:
    odd = replace(own(), environment=(("ODD", 'a "b" c\\d 50%'),))
    assert 'Environment="ODD=a \\"b\\" c\\\\d 50%%"' in text("systemd", odd)


# fmt: off
@pytest.mark.parametrize(("asked", "request_lines"), [
    pytest.param(own(),               ["--cpus-per-task=4", "--mem=64G", "--gres=gpu:2", "--gres-flags=enforce-binding"], id="whole cores"),
    pytest.param(own("1-4", gpus=0),  ["--cpus-per-task=4", "--mem=64G", "--hint=nomultithread"],                         id="a thread of each core"),
    pytest.param(own(memory=GIB + 1, gpus=0), ["--cpus-per-task=4", "--mem=1025M"],                                       id="odd size, rounded up"),
    pytest.param(pool(1500),          ["--cpus-per-task=2"],                                                              id="a fraction, rounded up"),
    pytest.param(pool(0),             ["--cpus-per-task=1"],                                                              id="no number"),
])
def test_a_request_for_slurm(asked: PlacedJob, request_lines: list[str]) -> None:
    found = [line.removeprefix("#SBATCH ") for line in text("slurm", asked).splitlines() if line.startswith("#SBATCH ")]
    assert found == ["--nodes=1", "--ntasks=1", *request_lines]
# fmt: on


def test_the_same_cpus_in_slurm() -> None:
    words = command("slurm", own())
    assert words[:2] == ["srun", "--exclusive"]
    assert "--cpu-bind=mask_cpu:0x606" in words
    assert "--mem-bind=mask_mem:0x1" in words
    assert not [word for word in command("slurm", own("1-4")) if word.startswith("--hint")], (
        "--cpu-bind excludes it"
    )
    assert "srun" not in text("slurm", pool()), "CPUs of the shared pool are nobody's"


# fmt: off
@pytest.mark.parametrize(("asked", "amounts"), [
    pytest.param(own(),                     {"cpu": "4", "memory": "64Gi", "nvidia.com/gpu": "2"},  id="whole CPUs and GPUs"),
    pytest.param(own(memory=1000, gpus=0),  {"cpu": "4", "memory": "1000"},                         id="odd bytes"),
    pytest.param(pool(memory=512 << 20),    {"cpu": "1500m", "memory": "512Mi"},                    id="a fraction"),
])
def test_kubernetes(asked: PlacedJob, amounts: dict[str, str]) -> None:
    found = yaml.safe_load(text("kubernetes", asked))["resources"]
    assert found == {"requests": amounts, "limits": amounts}
    container = {"name": "job", "image": "x", "resources": found}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "job"}, "spec": {"containers": [container]}}
    (document,) = read_documents(yaml.safe_dump(pod).encode(), "pod.yaml")
    (raw,) = decode_pods(document)
    assert defaulted(raw).qos == GUARANTEED
# fmt: on


def test_kubernetes_names_what_it_needs() -> None:
    assert text("kubernetes", own()).splitlines()[-1] == (
        "# the kubelet needs cpuManagerPolicy: static, memoryManagerPolicy: Static, topologyManagerPolicy: restricted"
    )


def test_kubernetes_by_maker_and_size() -> None:
    part = Gpu("GPU0:1", "MIG-1", model="NVIDIA A100 MIG 1g.5gb", parent="GPU0", maker=NVIDIA)
    plain = own()
    replaced = replace(plain, placement=replace(plain.placement, gpus=(part, SERVER.gpus[1])))
    found = FORMATS["kubernetes"](replaced)
    assert yaml.safe_load(str(found))["resources"]["limits"]["nvidia.com/mig-1g.5gb"] == "1"
    assert "mixed" in found.remarks[0]
    amd = Hardware(
        gpus=(Gpu("GPU0", address="0000:01:00.0", maker=AMD),),
        pci=(PciDevice("0000:01:00.0", vendor=AMD, kind=GPU),),
    )
    bits = parse_ids("0-1")
    asked = placed_job(Placement(Grant(cpus=bits), bits, 1, GIB, amd.gpus), amd)
    assert yaml.safe_load(text("kubernetes", asked))["resources"]["limits"]["amd.com/gpu"] == "1"


def test_other_devices_in_kubernetes() -> None:
    grant = Grant(cpus=1, devices=(("numawise/nvme", ("nvme0",)), ("example.com/fpga", ("f0", "f1"))))
    found = FORMATS["kubernetes"](placed_job(Placement(grant, 1, 1, GIB), SERVER))
    assert yaml.safe_load(str(found))["resources"]["limits"]["example.com/fpga"] == "2"
    assert found.remarks == ("nvme0: ask for it by the name of the cluster's device plugin",)


def test_variables_are_quoted_for_a_shell() -> None:
    lines = text("env", own(nics=(Nic("ib0", "mlx5_0"),)))
    done = subprocess.run(
        ["sh", "-c", lines + 'printf "%s|" "$OMP_PLACES" "$NCCL_IB_HCA" "$CUDA_VISIBLE_DEVICES"'],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "{1,9},{2,10}|=mlx5_0|GPU-0,GPU-1|"
    assert text("env", pool(0)) == "# no variables are needed\n"


def test_one_that_cannot_be_told_does_not_hinder_the_others() -> None:
    amd = Hardware(gpus=(Gpu("GPU0", model="AMD Instinct", maker=AMD),))
    asked = placed_job(Placement(Grant(cpus=1), 1, 1, gpus=amd.gpus), amd)
    found = texts(asked, tuple(FORMATS))
    assert str(found["docker"]).startswith("# GPU0 has no render node")
    assert "physcpubind" in str(found["numactl"])
    with pytest.raises(HostError):
        texts(asked, ("docker",))


def test_every_command_is_one_that_a_shell_can_read() -> None:
    for asked in (own(), pool()):
        for name in FORMATS:
            if name not in ("kubernetes", "systemd"):
                subprocess.run(["sh", "-n"], input=text(name, asked), text=True, check=True)


# fmt: off
@pytest.mark.parametrize(("grant", "cpus"), [
    pytest.param(Grant(cpus=parse_ids("1,9"), mems=1), "1,9",          id="its own"),
    pytest.param(Grant(near=1, mems=1),                "0,2-3,8,10-11", id="what the shared pool has now"),
])
def test_the_placement_of_a_hold(grant: Grant, cpus: str) -> None:
    devices = (("nvidia.com/gpu", ("GPU-2", "GPU-0")), ("numawise/nvme", ("nvme0",)))
    grant = replace(grant, memory=(MemoryPart(1, GIB), MemoryPart(2, GIB)), devices=devices)
    owner = Owner(uid=0, user="root", boot="b")
    other = Hold("x", "other", owner, Grant(cpus=parse_ids("1,9")))
    hold = Hold("h", "train", owner, grant, policy="none")
    found = placement_of(capacity_of(SERVER), (hold, other), hold)
    assert found.cpus == parse_ids(cpus)
    assert (found.memory, found.mems, found.policy) == (2 * GIB, 1, "none")
    assert [gpu.name for gpu in found.gpus] == ["GPU0", "GPU2"]
    variables = dict(placed_job(found, SERVER, hold).environment)
    assert (variables["NUMAWISE_HOLD"], variables["NUMAWISE_NAME"]) == ("h", "train")
# fmt: on
