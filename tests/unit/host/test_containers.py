"""Engines asked through their clients: a client that prints what the real ones print, or nothing, or never ends."""

import json
import os
from pathlib import Path

import pytest

from numawise.errors import HostError, InputError
from numawise.host import containers as subject
from numawise.host.containers import (
    Container,
    Engine,
    Silent,
    cdi_devices,
    change_cpus,
    inspect,
    is_podman,
    keeps_hold,
    labelled,
    locate,
    variables_in,
)

HERE = Engine("docker")


def client(folder: Path, body: str, name: str = "docker") -> Path:
    """A client of that name which does what a shell script says."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


# fmt: off
@pytest.mark.parametrize(("state", "restart", "by_run", "by_create"), [
    pytest.param("running",    "no",             True,  True,  id="running"),
    pytest.param("paused",     "no",             True,  True,  id="paused"),
    pytest.param("restarting", "on-failure",     True,  True,  id="between two tries"),
    pytest.param("removing",   "no",             True,  True,  id="not gone yet"),
    pytest.param("exited",     "no",             False, False, id="ended"),
    pytest.param("stopped",    "",               False, False, id="ended, in podman's word"),
    pytest.param("dead",       "no",             False, False, id="dead"),
    pytest.param("exited",     "on-failure",     False, False, id="ended for good"),
    pytest.param("exited",     "unless-stopped", False, False, id="stopped by hand"),
    pytest.param("exited",     "always",         True,  True,  id="comes back with its engine"),
    pytest.param("created",    "no",             False, True,  id="made, and never started"),
    pytest.param("created",    "always",         False, True,  id="made, failed to start"),
    pytest.param("unknown",    "no",             True,  True,  id="unknown is not dead"),
    pytest.param("",           "",               True,  True,  id="not told"),
])
def test_claims(state: str, restart: str, by_run: bool, by_create: bool) -> None:  # noqa: FBT001 - columns
    container = Container("c", state=state, restart=restart)
    assert (keeps_hold(container, made_only=False), keeps_hold(container, made_only=True)) == (by_run, by_create)
# fmt: on


def test_a_container_that_is_not_there_has_no_claim() -> None:
    assert not keeps_hold(None, made_only=True)


def told(container: str, hold: str, **state: object) -> dict[str, object]:
    """The part of an answer that counts."""
    return {
        "Id": container,
        "Name": f"/{hold}-name",
        "State": {"Status": "running", "Pid": 7, **state},
        "HostConfig": {"RestartPolicy": {"Name": "no", "MaximumRetryCount": 0}},
        "Config": {"Labels": {"numawise.hold": hold}},
    }


def test_labelled(bin_folder: Path) -> None:
    answer = json.dumps([told("aa", "h1"), told("bb", "h2", Status="Exited", Pid=0, OOMKilled=True)])
    client(
        bin_folder, f"case \"$*\" in *ps*) printf 'aa\\nbb\\n';; *inspect\\ aa\\ bb) echo '{answer}';; esac"
    )
    assert labelled(HERE) == {
        "aa": Container("aa", "h1", "h1-name", "running", 7, "no"),
        "bb": Container("bb", "h2", "h2-name", "exited", 0, "no", oom_killed=True),
    }


def test_no_containers_at_all(bin_folder: Path) -> None:
    client(bin_folder, "exit 0")
    assert labelled(HERE) == {}


def test_nerdctl_tells_the_restart_policy_in_a_label(bin_folder: Path) -> None:
    data = told("aa", "h1") | {"HostConfig": {}}
    data["Config"] = {"Labels": {"numawise.hold": "h1", "containerd.io/restart.policy": "on-failure:3"}}
    client(bin_folder, f"case \"$*\" in *ps*) echo aa;; *) echo '{json.dumps([data])}';; esac", "nerdctl")
    found = labelled(Engine("nerdctl", ("--namespace", "x")))
    assert not isinstance(found, Silent)
    assert found["aa"].restart == "on-failure"


# fmt: off
@pytest.mark.parametrize(("body", "reason"), [
    pytest.param("echo 'Cannot connect to the Docker daemon at unix:///x.' >&2; exit 1", "Cannot connect", id="daemon down"),
    pytest.param("exit 3",                                            "docker ps ended with 3",       id="without a word"),
    pytest.param("case $1 in ps) echo aa;; *) echo '[]'; echo 'Cannot connect' >&2; exit 1;; esac", "Cannot connect", id="down between two questions"),
    pytest.param("case $1 in ps) echo aa;; *) echo '[]';; esac",      "left out containers",          id="left out"),
    pytest.param("case $1 in ps) echo aa;; *) echo 'no json';; esac", "did not answer with a list",     id="no JSON"),
    pytest.param("case $1 in ps) echo aa;; *) echo '{}';; esac",      "did not answer with a list",     id="no list"),
    pytest.param("case $1 in ps) echo aa;; *) echo '[{}]';; esac",    "did not answer with a list",     id="no id"),
])
def test_an_engine_that_does_not_answer_is_silent(bin_folder: Path, body: str, reason: str) -> None:
    client(bin_folder, body)
    found = labelled(HERE)
    assert isinstance(found, Silent)
    assert reason in found.reason
# fmt: on


def test_a_client_that_never_ends(bin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client(bin_folder, "exec sleep 60")
    monkeypatch.setattr(subject, "PATIENCE", 0.05)
    assert isinstance(labelled(HERE), Silent)


def test_a_client_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert labelled(HERE) == Silent("docker: No such file or directory")


def test_gone_is_told_from_silent(bin_folder: Path) -> None:
    answer = json.dumps([told("aa", "h1")])
    client(bin_folder, f"echo '{answer}'; echo 'Error: No such container: bb' >&2; exit 1")
    found = inspect(HERE, ("aa", "bb"))
    assert not isinstance(found, Silent)
    assert list(found) == ["aa"]


def test_containers_of_another_user_are_not_asked_for(bin_folder: Path) -> None:
    client(bin_folder, "echo aa", "podman")
    stranger = 65533  # nobody of that number is known
    assert isinstance(labelled(Engine("podman", (), stranger)), Silent)


def test_changing_cpus(bin_folder: Path, tmp_path: Path) -> None:
    client(bin_folder, f'echo "$@" > {tmp_path}/said')
    change_cpus(Engine("docker", ("--host", "unix:///s")), "abc", 0b1110)
    assert (tmp_path / "said").read_text() == "--host unix:///s update --cpuset-cpus=1-3 abc\n"
    client(bin_folder, "echo 'is not running' >&2; exit 1")
    with pytest.raises(HostError, match="docker did not change the CPUs of container abc: is not running"):
        change_cpus(HERE, "abc", 1)


# fmt: off
@pytest.mark.parametrize(("name", "options", "words", "environment", "expected"), [
    pytest.param("docker", {}, "", {},                                   Engine("docker", ("--host", "unix:///var/run/docker.sock")), id="docker"),
    pytest.param("docker", {"host": "unix:///s"}, "-H unix:///s", {"DOCKER_HOST": "unix:///t"}, Engine("docker", ("--host", "unix:///s")), id="docker -H"),
    pytest.param("docker", {}, "", {"DOCKER_HOST": "unix:///t"},         Engine("docker", ("--host", "unix:///t")), id="DOCKER_HOST"),
    pytest.param("docker", {}, "", {"DOCKER_CONTEXT": "default"},        Engine("docker", ("--host", "unix:///var/run/docker.sock")), id="the default context"),
    pytest.param("docker", {"host": "tcp://127.0.0.1:2375"}, "-H tcp://127.0.0.1:2375", {}, Engine("docker", ("-H", "tcp://127.0.0.1:2375"), 5), id="loopback"),
    pytest.param("podman", {"root": "/r"}, "--root /r", {},              Engine("podman", ("--root", "/r"), 5), id="podman"),
    pytest.param("podman", {}, "", {"CONTAINER_HOST": "unix:///p"},      Engine("podman", ("--url", "unix:///p"), 5), id="CONTAINER_HOST"),
    pytest.param("nerdctl", {}, "", {"CONTAINERD_NAMESPACE": "k8s.io"},  Engine("nerdctl", ("--namespace", "k8s.io"), 5), id="a namespace"),
    pytest.param("nerdctl", {"namespace": "x"}, "-n x", {"CONTAINERD_NAMESPACE": "k8s.io", "CONTAINERD_ADDRESS": "/a"}, Engine("nerdctl", ("-n", "x", "--address", "/a"), 5), id="the option wins"),
])
def test_locate(name: str, options: dict[str, str], words: str, environment: dict[str, str], expected: Engine) -> None:
    assert locate(name, options, tuple(words.split()), environment, uid=5) == expected


@pytest.mark.parametrize(("name", "options", "environment", "told"), [
    pytest.param("docker", {"host": "ssh://box"}, {},                    "ssh://box is not on this machine", id="ssh"),
    pytest.param("docker", {}, {"DOCKER_HOST": "tcp://10.0.0.1:2375"},   "tcp://10.0.0.1:2375 is not on this machine", id="tcp"),
    pytest.param("docker", {"host": "unix:///home/u/.docker/desktop/docker.sock"}, {}, "is Docker Desktop", id="desktop"),
    pytest.param("podman", {"connection": "vm"}, {},                     "podman's connection vm leads to another machine", id="connection"),
    pytest.param("podman", {"host": "ssh://u@box/run/podman.sock"}, {},  "is not on this machine", id="podman over ssh"),
])
def test_engines_elsewhere_are_refused(name: str, options: dict[str, str], environment: dict[str, str], told: str) -> None:
    with pytest.raises(InputError) as error:
        locate(name, options, (), environment, uid=5)
    assert told in str(error.value)
# fmt: on


def test_contexts(bin_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"currentContext": "mine"}')
    client(bin_folder, 'case "$*" in *mine) echo unix:///m;; *) echo no such context >&2; exit 1;; esac')
    here = {"DOCKER_CONFIG": str(tmp_path)}
    assert locate("docker", {}, (), here) == Engine("docker", ("--host", "unix:///m"))
    with pytest.raises(InputError, match=r"docker's context other is not known \(no such context\)"):
        locate("docker", {"context": "other"}, (), here)


def test_podman_in_disguise(tmp_path: Path) -> None:
    script = client(tmp_path / "a", 'exec /usr/bin/podman "$@"')
    real = client(tmp_path / "b", "exit 0", "podman")
    link = tmp_path / "docker"
    link.symlink_to(real)
    other = client(tmp_path / "c", "exec /opt/docker/docker")
    assert [is_podman(str(path)) for path in (script, link, other, tmp_path / "none")] == [
        True,
        True,
        False,
        False,
    ]


def test_cdi_files(tmp_path: Path) -> None:
    for folder in ("etc/cdi", "var/run/cdi"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "etc/cdi/nvidia.yaml").write_text(
        "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- name: '0'\n  containerEdits: {}\n- name: GPU-1\n"
    )
    (tmp_path / "etc/cdi/broken.yaml").write_text("kind: [")
    (tmp_path / "etc/cdi/notes.txt").write_text("kind: x/y")
    (tmp_path / "var/run/cdi/more.json").write_text(
        '{"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu", "devices": [{"name": "all"}]}'
    )
    (tmp_path / "var/run/cdi/amd.json").write_text('{"kind": "amd.com/gpu", "devices": [{"name": "0"}]}')
    assert cdi_devices(tmp_path) == {"nvidia.com/gpu": {"0", "GPU-1", "all"}, "amd.com/gpu": {"0"}}
    assert cdi_devices(tmp_path / "none") == {}


def test_variables_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "env").write_text("# comment\nA=b\n  C=d=e\n\nONLY_NAME\n")
    assert variables_in(str(tmp_path / "env")) == ("A", "C", "ONLY_NAME")
    assert variables_in(str(tmp_path / "none")) == ()
