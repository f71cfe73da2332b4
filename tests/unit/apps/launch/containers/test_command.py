"""Command lines of docker, podman and nerdctl taken apart, against what the real clients make of them."""

import re
import shlex
import shutil
import subprocess

import pytest

from numawise.apps.launch.containers.command import ContainerCommand, read_command, refuse_conflicts
from numawise.apps.launch.containers.options import GLOBAL, RUN
from numawise.errors import InputError
from numawise.results.placement import DOCKER, ENGINES, NERDCTL, PODMAN

OPTION = re.compile(r"^\s+(?:-(\w), |    )--([a-z0-9-]+)(?: ([^\s]+))?(?:  .*|$)", re.MULTILINE)


def read(text: str, engine: str = DOCKER) -> ContainerCommand:
    return read_command(engine, tuple(shlex.split(text)))


def words(given: ContainerCommand) -> list[str]:
    """The parts, put together again."""
    before = [word for option in given.before for word in option.words]
    options = [word for option in given.options for word in option.words]
    image = [given.image] if given.image else []
    return [*before, *given.verb, *options, *given.ends, *image, *given.command]


# fmt: off
@pytest.mark.parametrize(("text", "image", "detached", "name"), [
    pytest.param("run box",                                    "box", False, "",   id="bare"),
    pytest.param("run -d --name x --shm-size=16g -v /d:/d -e A=b box:1 python t.py -d", "box:1", True, "x", id="usual"),
    pytest.param("run -dit --name=x box sh -c 'echo -d'",      "box", True,  "x",  id="cluster"),
    pytest.param("run -it --rm box",                           "box", False, "",   id="terminal"),
    pytest.param("run -p8080:80 -d box",                       "box", True,  "",   id="value in the word"),
    pytest.param("run -p 8080:80 -itd box",                    "box", True,  "",   id="value apart"),
    pytest.param("run -itp 8080:80 --name n box",              "box", False, "n",  id="cluster with a value apart"),
    pytest.param("run -ie=A=b -e=C=d box",                     "box", False, "",   id="value after ="),
    pytest.param("run --detach=false box",                     "box", False, "",   id="no, said so"),
    pytest.param("run -d --detach=0 box",                      "box", False, "",   id="the last one counts"),
    pytest.param("run -d=true box",                            "box", True,  "",   id="short with ="),
    pytest.param("run --name one --name two box",              "box", False, "two", id="twice"),
    pytest.param("run --name -d box",                          "box", False, "-d", id="a value that looks like an option"),
    pytest.param("run -- box -d",                              "box", False, "",   id="end of options"),
    pytest.param("run --brand-new=x -d box",                   "box", True,  "",   id="unknown with ="),
    pytest.param("create --name c box",                        "box", True,  "c",  id="create"),
    pytest.param("container run -d box",                       "box", True,  "",   id="container run"),
    pytest.param("--context x -H unix:///s -D run -d box",     "box", True,  "",   id="global options"),
    pytest.param("-l debug --tls run box",                     "box", False, "",   id="short global with a value"),
    pytest.param("run -c 512 -l a=b -m 1g -u 0 -w /x -h me -a stdout box", "box", False, "", id="all short ones"),
])
def test_read(text: str, image: str, detached: bool, name: str) -> None:  # noqa: FBT001 - a column
    given = read(text)
    assert (given.image, given.detached, given.value("name")) == (image, detached, name)
    assert words(given) == shlex.split(text)


@pytest.mark.parametrize(("engine", "text", "image"), [
    pytest.param(PODMAN,  "--root /r --runtime runc run --replace --pod p box",      "box", id="podman"),
    pytest.param(PODMAN,  "run --log-level debug --tls-verify=false box",            "box", id="podman: global ones after run"),
    pytest.param(PODMAN,  "-c vm run -c 5 box",                                      "box", id="podman: a letter with two meanings"),
    pytest.param(NERDCTL, "-n k8s.io run -n other --net none --rootfs /r",           "/r",  id="nerdctl"),
    pytest.param(NERDCTL, "--debug-full run --ipfs-address a --umask 022 box",       "box", id="nerdctl's own"),
])
def test_read_other_engines(engine: str, text: str, image: str) -> None:
    given = read(text, engine)
    assert given.image == image
    assert words(given) == shlex.split(text)


def test_the_engine_itself_may_be_repeated() -> None:
    assert read("docker run box") == read("run box")


@pytest.mark.parametrize(("text", "told"), [
    pytest.param("",                        "no docker command is given",            id="nothing"),
    pytest.param("container",               "no docker command is given",            id="half of it"),
    pytest.param("--debug",                 "no docker command is given",            id="options only"),
    pytest.param("--version",               "run 'docker --version' without",        id="not ours"),
    pytest.param("exec -it x sh",           "docker exec cannot be placed; what exec starts", id="exec"),
    pytest.param("compose up",              "docker compose cannot be placed; give each service", id="compose"),
    pytest.param("my-image:latest python",  "docker my-image:latest cannot be placed; write: numawise docker … -- run", id="run forgotten"),
    pytest.param("run",                     "docker run names no image",             id="no image"),
    pytest.param("run -d --name",           "--name needs a value",                  id="no value"),
    pytest.param("run -p",                  "-p needs a value",                      id="no value, short"),
    pytest.param("run --rm=maybe box",      "--rm=maybe is neither true nor false",  id="no truth value"),
    pytest.param("run -d=x box",            "-d=x is neither true nor false",        id="no truth value, short"),
    pytest.param("run --brand-new x box",   "--brand-new is not an option of docker that numawise knows, so it cannot find the image; write --brand-new=VALUE, or --brand-new=true", id="unknown"),
    pytest.param("run -dX box",             "-X in -dX is not an option of docker",      id="unknown letter"),
    pytest.param("--root /x run box",       "--root is not an option of docker that numawise knows before run or create", id="unknown before run"),
])
def test_refusals(text: str, told: str) -> None:
    with pytest.raises(InputError) as error:
        read(text)
    assert told in str(error.value)


@pytest.mark.parametrize(("options", "told"), [
    pytest.param("--cpuset-cpus 0-3",            "--cpuset-cpus 0-3 is for numawise to decide; leave it out", id="CPUs"),
    pytest.param("--cpuset-mems=0",              "--cpuset-mems 0 is for numawise to decide",                 id="memory nodes"),
    pytest.param("--gpus all",                   "--gpus all is for numawise to decide; leave it out; give --gpus N or --gpu-ids LIST to numawise", id="GPUs"),
    pytest.param("--cpus 4",                     "--cpus 4 is for numawise to decide; give --cpus to numawise, before --", id="quota"),
    pytest.param("--cpu-quota=50000",            "--cpu-quota 50000 is for numawise to decide",               id="quota by microseconds"),
    pytest.param("-m 1g",                        "-m 1g is for numawise to decide; give the amount once",     id="memory twice"),
    pytest.param("--device nvidia.com/gpu=all",  "--device nvidia.com/gpu=all is for numawise to decide",     id="CDI"),
    pytest.param("--device=/dev/nvidia0",        "--device /dev/nvidia0 is for numawise to decide",           id="device file"),
    pytest.param("--device /dev/dri:/dev/dri",   "--device /dev/dri:/dev/dri is for numawise to decide",      id="render nodes"),
    pytest.param("-e NVIDIA_VISIBLE_DEVICES=all", "-e NVIDIA_VISIBLE_DEVICES=all chooses GPUs without numawise", id="variable"),
    pytest.param("-e NVIDIA_VISIBLE_DEVICES",    "-e NVIDIA_VISIBLE_DEVICES=2 chooses GPUs without numawise",    id="variable of the client"),
    pytest.param("-l numawise.hold=x",           "-l numawise.hold=x is for numawise to decide",              id="our label"),
])
def test_conflicts(options: str, told: str) -> None:
    given = read(f"run {options} box --cpus 3")
    with pytest.raises(InputError) as error:
        refuse_conflicts(given, memory=True, gpus=True, inherited={"NVIDIA_VISIBLE_DEVICES": "2"})
    assert str(error.value).startswith("docker")
    assert told in str(error.value)


@pytest.mark.parametrize("text", [
    pytest.param("run -m 1g --memory-reservation 1g box",         id="memory for the engine alone"),
    pytest.param("run --device /dev/dri box",                     id="render nodes, no GPUs asked for"),
    pytest.param("run --device /dev/fuse --device vendor.com/net=0 box", id="other devices"),
    pytest.param("run -e NVIDIA_VISIBLE_DEVICES=void box",        id="hidden GPUs"),
    pytest.param("run -e CUDA_VISIBLE_DEVICES=0,1 -c 512 box",    id="within the container"),
    pytest.param("run box --gpus all --cpuset-cpus 0",            id="the command's own"),
])
def test_no_conflict(text: str) -> None:
    refuse_conflicts(read(text), memory=False, gpus=False, inherited={})
# fmt: on


def test_cgroup_settings_conflict() -> None:
    with pytest.raises(InputError, match=r"cpuset\.cpus=1 is for numawise to decide"):
        refuse_conflicts(
            read("run --cgroup-conf cpuset.cpus=1 box", PODMAN), memory=False, gpus=False, inherited={}
        )


def test_variables() -> None:
    given = read("run -e A=b --env C -e D= -eE=f=g -e GONE box")
    assert given.environment({"C": "c", "A": "other"}) == {"A": "b", "C": "c", "D": "", "E": "f=g"}


@pytest.mark.parametrize("engine", ENGINES)
def test_options_as_the_client_lists_them(engine: str) -> None:
    """Every option in the help of the client that is installed here is known, with its letter and kind."""
    if shutil.which(engine) is None:
        pytest.skip(f"{engine} is not installed")
    for verb in (["run"], ["create"], []):
        done = subprocess.run(
            [engine, *verb, "--help"],
            capture_output=True,
            text=True,
            check=True,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin"},
        )
        known = RUN[engine] if verb else GLOBAL[engine]
        listed = OPTION.findall(done.stdout)
        assert len(listed) > (50 if verb else 8)
        for letter, name, kind in listed:
            assert name in (known.valued if kind else known.plain), name
            assert not letter or known.short[letter] == name
