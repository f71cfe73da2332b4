"""The command that starts a container: what is put in, and what the user is told."""

import shlex
from dataclasses import replace

import pytest

from numawise.apps.launch.containers.command import read_command
from numawise.apps.launch.containers.setup import ContainerGpuSetup, Shell, compose, size
from numawise.apps.launch.environment import job_environment
from numawise.errors import HostError
from numawise.machine.catalog import machine_named
from numawise.machine.hardware import AMD, GPU, INTEL, NVIDIA, Gpu, Hardware, PciDevice
from numawise.results.placement import DOCKER, NERDCTL, PODMAN, Grant, Placement
from numawise.sets import parse_ids

GI = 1 << 30
BARE = Hardware()
SERVER = Hardware(gpus=tuple(Gpu(f"GPU{i}", maker=NVIDIA) for i in range(8)))
WITH_IDS = Hardware(gpus=tuple(Gpu(f"GPU{i}", f"GPU-{i:08x}-0000", maker=NVIDIA) for i in range(8)))


def placed(
    cpus: str = "", mems: str = "", gpus: str = "", on: Hardware = SERVER, **more: object
) -> Placement:
    bits = parse_ids(cpus)
    chosen = tuple(on.gpus[int(part)] for part in gpus.split(",") if part)
    fields = {"grant": Grant(), "cpus": bits, "mems": parse_ids(mems), "gpus": chosen, **more}
    return Placement(**fields)  # type: ignore[arg-type]


def command(
    text: str, placement: Placement, hardware: Hardware = SERVER, engine: str = DOCKER, **more: object
) -> Shell:
    given = read_command(engine, tuple(shlex.split(text)))
    return compose(given, placement, hardware, **more)  # type: ignore[arg-type]


def added(
    text: str, placement: Placement, hardware: Hardware = SERVER, engine: str = DOCKER, **more: object
) -> str:
    """What was put in between the verb and the user's own words."""
    shell = command(text, placement, hardware, engine, **more)
    own = shlex.split(text)
    verb = own.index("run") + 1
    assert shell.argv[0] == engine
    assert list(shell.argv[1 : verb + 1]) == own[:verb]
    rest = own[verb:]
    assert list(shell.argv[-len(rest) :]) == rest
    return shlex.join(shell.argv[verb + 1 : -len(rest)])


def options(text: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """A command as a set of options, CPU and NUMA lists by their members, and image and command in order."""
    given = read_command(DOCKER, tuple(shlex.split(text.replace("\\\n", " "))[1:]))
    found = set()
    for option in given.options:
        value = option.value
        if option.name in ("cpuset-cpus", "cpuset-mems"):
            value = hex(parse_ids(value or ""))
        found.add(f"{option.name}={value}")
    return frozenset(found), (given.image, *given.command)


# The four examples of the document this began with, as they are printed there.
ONE_GPU = r"""docker run -d \
  --name ai-training-gpu0 \
  --gpus '"device=0"' \
  --cpuset-cpus="0-31,64-95" \
  --cpuset-mems="0" \
  --shm-size=16g \
  -v /data:/data \
  my-training-image:latest \
  python train.py --gpu 0"""
FOUR_GPUS = r"""docker run -d \
  --name ai-training-4gpu \
  --gpus '"device=0,1,2,3"' \
  --cpuset-cpus="0-31,64-95" \
  --cpuset-mems="0" \
  --shm-size=32g \
  -v /data:/data \
  -e CUDA_VISIBLE_DEVICES=0,1,2,3 \
  my-training-image:latest \
  torchrun --nproc_per_node=4 train.py"""
INFERENCE = r"""docker run -d \
  --name ai-inference-gpu0 \
  --gpus '"device=0"' \
  --cpuset-cpus="0-7,64-71" \
  --cpuset-mems="0" \
  --memory="32g" \
  --memory-reservation="28g" \
  -p 8080:8080 \
  -v /models:/models \
  my-inference-image:latest \
  python serve.py --gpu 0 --port 8080"""
FIVE_GPUS = r"""docker run -d \
  --name ai-training-5gpu \
  --gpus '"device=0,1,2,3,4"' \
  --cpuset-cpus="0-63,64-127" \
  --cpuset-mems="0,1" \
  --shm-size=48g \
  -v /data:/data \
  -e CUDA_VISIBLE_DEVICES=0,1,2,3,4 \
  -e OMP_NUM_THREADS=64 \
  my-training-image:latest \
  torchrun --nproc_per_node=5 train.py"""

TRAIN = "-v /data:/data my-training-image:latest"


# fmt: off
@pytest.mark.parametrize(("text", "placement", "printed"), [
    pytest.param(
        "run -d --name ai-training-gpu0 --shm-size=16g -v /data:/data my-training-image:latest python train.py --gpu 0",
        placed("0-31,64-95", "0", "0"), ONE_GPU, id="one GPU"),
    pytest.param(
        "run -d --name ai-training-4gpu --shm-size=32g -v /data:/data -e CUDA_VISIBLE_DEVICES=0,1,2,3 "
        "my-training-image:latest torchrun --nproc_per_node=4 train.py",
        placed("0-31,64-95", "0", "0,1,2,3"), FOUR_GPUS, id="four GPUs of one node"),
    pytest.param(
        "run -d --name ai-inference-gpu0 --memory-reservation=28g -p 8080:8080 -v /models:/models "
        "my-inference-image:latest python serve.py --gpu 0 --port 8080",
        placed("0-7,64-71", "0", "0", grant=Grant(cpus=parse_ids("0-7,64-71")), memory=32 * GI), INFERENCE,
        id="inference on eight cores"),
    pytest.param(
        "run -d --name ai-inference-gpu0 --memory=32g --memory-reservation=28g -p 8080:8080 -v /models:/models "
        "my-inference-image:latest python serve.py --gpu 0 --port 8080",
        placed("0-7,64-71", "0", "0", memory=32 * GI), INFERENCE, id="with the engine's own --memory"),
    pytest.param(
        "run -d --name ai-training-5gpu --shm-size=48g -v /data:/data -e CUDA_VISIBLE_DEVICES=0,1,2,3,4 "
        "-e OMP_NUM_THREADS=64 my-training-image:latest torchrun --nproc_per_node=5 train.py",
        placed("0-127", "0-1", "0,1,2,3,4"), FIVE_GPUS, id="five GPUs across nodes"),
])
def test_the_examples_of_the_document(text: str, placement: Placement, printed: str) -> None:
    environment = job_environment(placement, "", "", SERVER)
    without_threads = tuple(pair for pair in environment if not pair[0].startswith(("OMP_", "GOMP_")))
    shell = command(text, replace(placement, environment=without_threads))
    assert options(str(shell)) == options(printed)
    assert not shell.remarks


def test_printed_one_option_a_line() -> None:
    text = "-H unix:///s run -dit --name 'a b' -v /data:/data -e A=b box:1 sh -c 'echo $HOME'"
    assert str(command(text, placed("0-3", "0", "1"))).splitlines() == [
        "docker -H unix:///s run \\",
        "  --gpus '\"device=1\"' \\",
        "  --cpuset-cpus=0-3 \\",
        "  --cpuset-mems=0 \\",
        "  -dit \\",
        "  --name 'a b' \\",
        "  -v /data:/data \\",
        "  -e A=b \\",
        "  box:1 \\",
        "  sh -c 'echo $HOME'",
    ]


@pytest.mark.parametrize(("engine", "hardware", "gpus", "gpu_setup", "expected"), [
    pytest.param(DOCKER,  SERVER,   "2",   ContainerGpuSetup(), """--gpus '"device=2"'""",                                   id="by index"),
    pytest.param(DOCKER,  WITH_IDS, "1,0", ContainerGpuSetup(), """--gpus '"device=GPU-00000001-0000,GPU-00000000-0000"'""", id="by UUID, in order"),
    pytest.param(NERDCTL, WITH_IDS, "1",   ContainerGpuSetup(), """--gpus '"device=GPU-00000001-0000"'""",                   id="nerdctl"),
    pytest.param(PODMAN,  WITH_IDS, "1,2", ContainerGpuSetup(), "--device nvidia.com/gpu=GPU-00000001-0000 --device nvidia.com/gpu=GPU-00000002-0000", id="podman"),
    pytest.param(PODMAN,  SERVER,   "7",   ContainerGpuSetup(), "--device nvidia.com/gpu=7",                                 id="podman by index"),
    pytest.param(DOCKER,  WITH_IDS, "1",   ContainerGpuSetup(cdi=True), "--device nvidia.com/gpu=GPU-00000001-0000",         id="docker by CDI"),
    pytest.param(DOCKER,  WITH_IDS, "1",   ContainerGpuSetup(True, {"nvidia.com/gpu": {"0", "1", "all"}}), "--device nvidia.com/gpu=1", id="CDI that knows indices only"),
    pytest.param(DOCKER,  WITH_IDS, "1",   ContainerGpuSetup(True, {"nvidia.com/gpu": {"1", "GPU-00000001-0000"}}), "--device nvidia.com/gpu=GPU-00000001-0000", id="CDI that knows both"),
])
def test_nvidia(engine: str, hardware: Hardware, gpus: str, gpu_setup: ContainerGpuSetup, expected: str) -> None:
    assert added("run -d box", placed(gpus=gpus, on=hardware), hardware, engine, gpu_setup=gpu_setup) == expected


def card(at: int, vendor: int, *names: str, model: str = "", parent: str = "") -> tuple[Gpu, PciDevice]:
    address = f"0000:{at:02x}:00.0"
    gpu = Gpu(f"GPU{at}", address=address, model=model, parent=parent, maker=vendor)
    return gpu, PciDevice(address, vendor, kind=GPU, names=names)


def cards(*found: tuple[Gpu, PciDevice]) -> Hardware:
    return Hardware(gpus=tuple(gpu for gpu, _ in found), pci=tuple(device for _, device in found))


RADEON = cards(card(3, AMD, "card1", "renderD128"), card(4, AMD, "card2", "renderD129"))
MAX = cards(card(3, INTEL, "card1", "renderD128"))
ONE_GROUP = ContainerGpuSetup(groups=lambda _: "109")
TWO_GROUPS = ContainerGpuSetup(groups=lambda file: "44" if file == "/dev/kfd" else "109")


@pytest.mark.parametrize(("hardware", "gpus", "gpu_setup", "expected"), [
    pytest.param(RADEON, "1",   TWO_GROUPS, "--device /dev/kfd --device /dev/dri/renderD129 --group-add 44 --group-add 109", id="AMD"),
    pytest.param(RADEON, "0,1", ONE_GROUP,  "--device /dev/kfd --device /dev/dri/renderD128 --device /dev/dri/renderD129 --group-add 109", id="two of AMD"),
    pytest.param(RADEON, "0",   ContainerGpuSetup(),     "--device /dev/kfd --device /dev/dri/renderD128 --group-add video --group-add render", id="files not here"),
    pytest.param(RADEON, "0",   ContainerGpuSetup(groups=lambda _: "0"), "--device /dev/kfd --device /dev/dri/renderD128", id="files of root"),
    pytest.param(RADEON, "1",   ContainerGpuSetup(cdi=True), "--device amd.com/gpu=1", id="AMD by CDI"),
    pytest.param(MAX,    "0",   ONE_GROUP,  "--device /dev/dri/renderD128 --group-add 109", id="Intel"),
])
def test_amd_and_intel(hardware: Hardware, gpus: str, gpu_setup: ContainerGpuSetup, expected: str) -> None:
    assert added("run -d box", placed(gpus=gpus, on=hardware), hardware, gpu_setup=gpu_setup) == expected


@pytest.mark.parametrize(("hardware", "gpu_setup", "told"), [
    pytest.param(cards(card(3, AMD, "card1")), ContainerGpuSetup(), "GPU3 has no render node in /dev/dri", id="no render node"),
    pytest.param(SERVER, ContainerGpuSetup(True, {"nvidia.com/gpu": {"GPU-x"}}), "no CDI file of this host describes nvidia.com/gpu=0; write the files again with 'nvidia-ctk", id="stale CDI"),
])
def test_gpus_that_cannot_be_given(hardware: Hardware, gpu_setup: ContainerGpuSetup, told: str) -> None:
    with pytest.raises(HostError) as error:
        added("run box", placed(gpus="0", on=hardware), hardware, gpu_setup=gpu_setup)
    assert told in str(error.value)


def test_mig_instances() -> None:
    whole = Gpu("GPU1", "GPU-1", "0000:04:00.0", maker=NVIDIA)
    parts = [Gpu(f"GPU1:{i}", f"MIG-{i}", "0000:04:00.0", parent="GPU1", maker=NVIDIA) for i in range(2)]
    unnamed = replace(parts[0], uuid="")
    machine = Hardware(gpus=(Gpu("GPU0", "GPU-0", "0000:03:00.0", maker=NVIDIA), whole, *parts))
    assert added("run box", Placement(Grant(), 0, 0, gpus=(parts[1],)), machine) == "--gpus '\"device=MIG-1\"'"
    assert added("run box", Placement(Grant(), 0, 0, gpus=(unnamed,)), machine) == "--gpus '\"device=1:0\"'"


@pytest.mark.parametrize(("amount", "expected"), [
    pytest.param(32 * GI, "32g", id="GiB"), pytest.param(1536 << 20, "1536m", id="MiB"),
    pytest.param(3 << 10, "3k", id="KiB"),  pytest.param(1001, "1001b", id="bytes"),
])
def test_size(amount: int, expected: str) -> None:
    assert size(amount) == expected


VARIABLES = (
    ("CUDA_VISIBLE_DEVICES", "GPU-1,GPU-2"), ("NVIDIA_VISIBLE_DEVICES", "GPU-1,GPU-2"), ("OMP_NUM_THREADS", "4"),
    ("OMP_PLACES", "{0}"), ("GOMP_CPU_AFFINITY", "0"), ("OMP_PROC_BIND", "false"), ("NUMAWISE_HOLD", "k3x9"),
)


@pytest.mark.parametrize(("given", "variables", "hold", "expected"), [
    pytest.param("",                    VARIABLES, "k3x9", "CUDA_VISIBLE_DEVICES OMP_NUM_THREADS OMP_PLACES GOMP_CPU_AFFINITY OMP_PROC_BIND NUMAWISE_HOLD", id="all that hold inside"),
    pytest.param("",                    VARIABLES, "",     "CUDA_VISIBLE_DEVICES OMP_NUM_THREADS OMP_PLACES GOMP_CPU_AFFINITY OMP_PROC_BIND", id="without a hold"),
    pytest.param("-e OMP_NUM_THREADS=1", VARIABLES, "",    "CUDA_VISIBLE_DEVICES OMP_PLACES GOMP_CPU_AFFINITY OMP_PROC_BIND", id="the user's own"),
    pytest.param("-e OMP_PLACES=cores", VARIABLES, "",     "CUDA_VISIBLE_DEVICES OMP_NUM_THREADS", id="the user places threads"),
    pytest.param("-e CUDA_VISIBLE_DEVICES=0", VARIABLES[:2], "", "", id="the user chooses GPUs"),
    pytest.param("", (("CUDA_VISIBLE_DEVICES", "0,1"), ("CUDA_DEVICE_ORDER", "PCI_BUS_ID"), ("ROCR_VISIBLE_DEVICES", "1"), ("ZE_AFFINITY_MASK", "1")), "", "", id="indices mean others inside"),
    pytest.param("", (("CUDA_VISIBLE_DEVICES", ""), ("NVIDIA_VISIBLE_DEVICES", "void")), "", "CUDA_VISIBLE_DEVICES NVIDIA_VISIBLE_DEVICES", id="hidden GPUs stay hidden"),
])
def test_variables(given: str, variables: tuple[tuple[str, str], ...], hold: str, expected: str) -> None:
    found = added(f"run {given} box", placed(environment=variables), hold=hold).removesuffix(f"--label=numawise.hold={hold}")
    words = shlex.split(found)
    assert words[::2] == ["-e"] * (len(words) // 2)
    assert [word.partition("=")[0] for word in words[1::2]] == expected.split()


def test_variables_of_a_file_and_none_at_all() -> None:
    placement = placed(environment=VARIABLES[:1])
    assert added("run --env-file f box", placement, file_variables=("CUDA_VISIBLE_DEVICES",)) == ""
    assert added("run box", placement, variables=False) == ""


@pytest.mark.parametrize(("text", "more", "expected"), [
    pytest.param("run box",              {"hold": "k3x9", "cidfile": "/t/cid"}, "--label=numawise.hold=k3x9 --cidfile=/t/cid", id="for a hold"),
    pytest.param("run --cidfile c box",  {"hold": "k3x9", "cidfile": "/t/cid"}, "--label=numawise.hold=k3x9",                  id="the user's own file"),
])
def test_the_hold(text: str, more: dict[str, str], expected: str) -> None:
    assert added(text, placed(), **more) == expected


def test_a_fraction_of_a_cpu_is_a_limit() -> None:
    assert added("run box", placed("0-3", grant=Grant(cpu_limit=1500))) == "--cpuset-cpus=0-3 --cpus=1.5"


@pytest.mark.parametrize(("text", "placement", "hardware", "told"), [
    pytest.param("run -e CUDA_VISIBLE_DEVICES=0,1 box",        placed(gpus="4,5"), SERVER, [], id="counted inside"),
    pytest.param("run -e CUDA_VISIBLE_DEVICES=4,5 box",        placed(gpus="4,5"), SERVER, ["CUDA_VISIBLE_DEVICES=4,5 names GPU 4, but inside the container the granted GPUs are 0-1: write 0,1 or leave it out"], id="counted outside"),
    pytest.param("run -e CUDA_VISIBLE_DEVICES=0 box",          placed(gpus="4,5"), SERVER, ["CUDA_VISIBLE_DEVICES=0 uses 1 of the 2 GPUs granted"], id="fewer"),
    pytest.param("run -e CUDA_VISIBLE_DEVICES= box",           placed(gpus="4"),   SERVER, ["CUDA_VISIBLE_DEVICES='' hides GPUs that were granted: leave it out"], id="hidden"),
    pytest.param("run -e CUDA_VISIBLE_DEVICES=0 box",          placed(),           SERVER, ["CUDA_VISIBLE_DEVICES=0 is set, but no GPUs were asked for: give numawise --gpus or --gpu-ids"], id="none asked for"),
    pytest.param("run -e CUDA_VISIBLE_DEVICES=GPU-00000001 box", placed(gpus="1", on=WITH_IDS), WITH_IDS, [], id="by UUID"),
    pytest.param("run -e CUDA_VISIBLE_DEVICES=GPU-00000002 box", placed(gpus="1", on=WITH_IDS), WITH_IDS, ["CUDA_VISIBLE_DEVICES=GPU-00000002 names GPU-00000002, which is not among the GPUs granted: leave it out"], id="another UUID"),
    pytest.param("run --privileged box",                       placed(gpus="1"),   SERVER, ["--privileged shows all GPUs of this machine to the container, not only those it was granted"], id="privileged"),
    pytest.param("run --privileged box",                       placed(),           SERVER, [], id="privileged without GPUs"),
    pytest.param("run --device /dev/dri/card0 box",            placed(),           SERVER, ["the GPUs of --device /dev/dri/card0 are not recorded; others may be granted them"], id="past numawise"),
])
def test_remarks(text: str, placement: Placement, hardware: Hardware, told: list[str]) -> None:
    assert list(command(text, placement, hardware).remarks) == told
# fmt: on


def test_podman_without_cdi_files_is_told() -> None:
    assert "no CDI files were found" in command("run box", placed(gpus="1"), engine=PODMAN).remarks[0]
    known = ContainerGpuSetup(cdi_devices={"nvidia.com/gpu": {"1"}})
    assert command("run box", placed(gpus="1"), engine=PODMAN, gpu_setup=known).remarks == ()


def test_a_server_from_the_catalogue() -> None:
    """Its GPUs have PCI addresses and no UUIDs: numbers along the bus."""
    server = machine_named("dgx-h100")
    words = added("run box", Placement(Grant(), 0, 0, gpus=server.gpus[2:4]), server)
    assert words == "--gpus '\"device=2,3\"'"


def test_makers_are_told_apart() -> None:
    mixed = cards(card(3, NVIDIA), card(4, AMD, "renderD128"))
    words = added("run box", Placement(Grant(), 0, 0, gpus=mixed.gpus), mixed, gpu_setup=ONE_GROUP)
    assert words == "--gpus '\"device=0\"' --device /dev/kfd --device /dev/dri/renderD128 --group-add 109"
