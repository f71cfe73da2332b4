"""What of a container's command line becomes part of the request, and which engine it speaks to."""

import os
import shlex
from pathlib import Path

import pytest

from numawise.apps.launch.containers.command import read_command
from numawise.apps.launch.containers.run import (
    ContainerJob,
    ContainerStart,
    container_request,
    engine_for,
    gpu_setup_of,
    image_name,
)
from numawise.apps.launch.request import JobRequest
from numawise.errors import InputError
from numawise.host.containers import Engine
from numawise.results.placement import Grant, Hold, Owner, Placement

GI = 1 << 30


def job(
    words: str, request: JobRequest | None = None, engine: str = "docker", **environment: str
) -> ContainerJob:
    given = read_command(engine, tuple(shlex.split(words)))
    return ContainerJob(given, request or JobRequest(), environment=environment)


# fmt: off
@pytest.mark.parametrize(("words", "asked", "memory", "name"), [
    pytest.param("run box",                      JobRequest(),                0,       "",     id="nothing"),
    pytest.param("run -m 2g --name serve box",   JobRequest(),                2 * GI,  "serve", id="the engine's own"),
    pytest.param("run --memory=1536m box",       JobRequest(),                3 * GI // 2, "", id="MiB"),
    pytest.param("run -m 0 box",                 JobRequest(),                0,       "",     id="no limit"),
    pytest.param("run --name serve box",         JobRequest(name="mine"),     0,       "mine", id="numawise's name wins"),
    pytest.param(f"run --name {'x' * 99} box",   JobRequest(),                0,       "",     id="too long for a hold"),
])
def test_request(words: str, asked: JobRequest, memory: int, name: str) -> None:
    found = container_request(job(words).given, asked, {})
    assert (found.memory, found.name) == (memory, name)


@pytest.mark.parametrize(("image", "expected"), [
    pytest.param("box", "box", id="bare"),
    pytest.param("registry:5000/team/trainer:latest", "trainer", id="all of it"),
    pytest.param("trainer@sha256:abc", "trainer", id="digest"),
    pytest.param("/root/fs/", "container", id="a folder"),
])
def test_image_name(image: str, expected: str) -> None:
    assert image_name(image) == expected
# fmt: on


def test_a_hold_keeps_what_was_asked_beside_its_engine(tmp_path: Path) -> None:
    """What others are placed by: the NUMA nodes it named, whether it has them alone."""
    asked = job("run --rm box")
    start = ContainerStart(asked, Engine("docker"), gpu_setup_of(asked), tmp_path / "id", print)
    labels = (("numa", "1"), ("exclusive", "numa"))
    hold = Hold("aaaaa", "box", Owner(0, "root", "boot", pid=2), Grant(), labels=labels)
    planned = start.planned(hold, Placement(hold.grant, 0, 0), 2)
    assert planned.labels[:2] == labels
    assert len(planned.labels) > 2
    assert planned.owner.engine == "docker"


def test_memory_that_is_no_size() -> None:
    with pytest.raises(InputError, match="docker run --memory: 'much' is not a size"):
        container_request(job("run -m much box").given, JobRequest(), {})


def test_podman_that_answers_to_the_name_of_docker(tmp_path: Path) -> None:
    client = tmp_path / "docker"
    client.write_text('#!/bin/sh\nexec /usr/bin/podman "$@"\n')
    client.chmod(0o755)
    disguised = job("--root /r run box", JobRequest(gpus=1), "podman", PATH=str(tmp_path))
    assert engine_for(disguised) == Engine("podman", ("--root", "/r"), os.geteuid())
    disguised = job("run box", JobRequest(gpus=1), PATH=str(tmp_path))
    assert engine_for(disguised) == Engine("docker", (), os.geteuid())
    assert gpu_setup_of(disguised).cdi
    client.write_text("#!/bin/sh\n")
    assert engine_for(disguised) == Engine("docker", ("--host", "unix:///var/run/docker.sock"))
    assert not gpu_setup_of(disguised).cdi
