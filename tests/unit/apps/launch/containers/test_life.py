"""Which container holds are still claimed, with a client that answers, or does not."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from numawise.apps.launch.containers.life import (
    ended,
    engine_labels,
    engine_of,
    first_process,
    move_container,
    owned_by,
    unheld,
)
from numawise.host.containers import Container, Engine, Silent
from numawise.host.processes import boot_id, start_time
from numawise.results.placement import Grant, Hold, Owner
from tests import needs

pytestmark = needs.PROC
NAMESPACE = Path("/proc/self/ns/pid").stat().st_ino if Path("/proc/self").exists() else 0
DEAD = 1 << 22  # above every process number
US = os.geteuid()
HERE = Engine("docker", ("--host", "unix:///a b"), US)


def hold(
    name: str = "h1",
    *,
    container: str = "",
    pid: int = 0,
    verb: str = "run",
    engine: Engine = HERE,
    **owner: object,
) -> Hold:
    start = (start_time(pid) or 1) if pid else 0
    fields = {"uid": US, "user": "me", "boot": boot_id(), "pid": pid, "start": start, "namespace": NAMESPACE}
    who = Owner(**{**fields, "engine": engine.name, "container": container, **owner})  # type: ignore[arg-type]
    return Hold(name, name, who, Grant(), labels=engine_labels(engine, verb))


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A client that knows containers ``c1`` (running, of hold h1) and ``c2`` (created, of hold h2)."""
    states = [("c1", "h1", "running", 7), ("c2", "h2", "created", 0)]
    answer = json.dumps(
        [
            {"Id": c, "State": {"Status": s, "Pid": p}, "Config": {"Labels": {"numawise.hold": h}}}
            for c, h, s, p in states
        ]
    )
    client = tmp_path / "docker"
    body = f'echo "$@" >> {tmp_path}/asked\ncase "$*" in *ps*) printf "c1\\nc2\\n";; *inspect*) echo \'{answer}\';; esac'
    client.write_text(f"#!/bin/sh\n{body}\n")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path / "asked"


# fmt: off
@pytest.mark.parametrize(("one", "gone"), [
    pytest.param(hold("h1", container="c1"),                          False, id="running"),
    pytest.param(hold("h1", container="c9"),                          True,  id="removed"),
    pytest.param(hold("h2", container="c2"),                          True,  id="run failed to start it"),
    pytest.param(hold("h2", container="c2", verb="create"),           False, id="to be started later"),
    pytest.param(hold("h1", pid=DEAD),                                False, id="by label, its client gone"),
    pytest.param(hold("h9", pid=DEAD),                                True,  id="never made"),
    pytest.param(hold("h9", pid=DEAD, namespace=1),                   False, id="its client cannot be seen from here"),
    pytest.param(hold("h9", container="c9", namespace=1),             True,  id="the engine is seen from everywhere"),
    pytest.param(hold("h1", container="c1", boot="earlier"),          False, id="started again after a boot"),
    pytest.param(hold("h9", container="c9", boot="earlier"),          True,  id="not started again after a boot"),
    pytest.param(hold("h9", pid=os.getpid(), boot="earlier"),         True,  id="a process number of an earlier boot"),
])
def test_ended(engine: Path, one: Hold, gone: bool) -> None:  # noqa: FBT001 - a column
    assert ended([one], US) == ((one,) if gone else (), ())
    assert engine.read_text().startswith("--host unix:///a b ps --all --no-trunc --quiet --filter label=numawise.hold\n")
# fmt: on


def test_a_living_process_spares_the_question(engine: Path) -> None:
    client = hold("h9", pid=os.getpid())
    first = replace(
        hold("h9", container="c9"), labels=(("first-process", f"{os.getpid()}:{start_time(os.getpid())}"),)
    )
    assert ended([client, first], US) == ((), ())
    assert not engine.exists()


def test_one_question_for_all_holds_of_an_engine(engine: Path) -> None:
    ended([hold(f"h{i}", container=f"c{i}") for i in range(20)], US)
    assert len(engine.read_text().splitlines()) == 2


def test_silence_frees_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ended([hold("h1", container="c1"), hold("h2", container="c2")], US) == (
        (),
        ("docker does not answer, so these stay held: h1, h2 (docker: No such file or directory)",),
    )
    assert unheld(HERE, ()) == Silent("docker: No such file or directory")


@pytest.mark.parametrize(
    "engine", [HERE, Engine("podman", ("--root", "/r", "--runtime=x"), US), Engine("nerdctl", (), US)]
)
def test_a_hold_remembers_its_engine(engine: Engine) -> None:
    assert engine_of(hold(engine=engine), US) == engine


SYSTEM = Engine("docker", ("--host", "unix:///var/run/docker.sock"))
EVIL = (
    ("--root", "/r", "--runtime=/tmp/evil"),
    ("--host", "unix:///tmp/evil.sock"),
    ("--config", "/tmp/evil"),
)


@pytest.mark.parametrize("engine", [SYSTEM, Engine("docker")])
def test_anybody_asks_the_daemon_of_the_system_with_words_of_our_own(engine: Engine) -> None:
    one = hold(engine=engine, uid=51001)
    assert [engine_of(one, uid) for uid in (51002, 0, 51001)] == [SYSTEM] * 3


@pytest.mark.parametrize("options", EVIL)
@pytest.mark.parametrize("name", ["docker", "podman", "nerdctl"])
def test_words_of_another_user_are_used_by_that_user_alone(name: str, options: tuple[str, ...]) -> None:
    """Root asks as that user, whomever a label names; others do not ask at all."""
    one = hold(engine=Engine(name, options), uid=51001)
    forged = replace(one, labels=(*one.labels, ("engine-user", "0")))
    for uid in (0, 51001):
        assert engine_of(forged, uid) == Engine(name, options, 51001)
    refused = engine_of(forged, 51002)
    assert isinstance(refused, Silent)
    assert "or root can ask it" in refused.reason


def test_what_is_changed_is_changed_with_the_rights_of_its_author() -> None:
    """Whoever wrote down somebody else's container has to be allowed to change it."""
    one = hold(engine=SYSTEM, uid=51001)
    assert engine_of(one, 0, to_change=True) == Engine("docker", SYSTEM.options, 51001)
    assert isinstance(engine_of(one, 51002, to_change=True), Silent)


def test_words_that_make_no_sense() -> None:
    assert isinstance(engine_of(replace(hold(), labels=(("engine-options", "'"),)), US), Silent)


def test_owned_by() -> None:
    one = hold(pid=DEAD)
    both = owned_by(one, Container("c" * 64, pid=os.getpid()), client=True)
    assert (both.owner.container, both.owner.pid, both.mode) == ("c" * 64, DEAD, "docker")
    assert first_process(both) == (0, 0), "this process is in no container of that id"
    alone = owned_by(both, Container("c" * 64))
    assert (alone.owner.pid, alone.owner.start) == (0, 0)
    assert engine_of(alone, US) == HERE


def test_unheld(engine: Path) -> None:
    found = unheld(HERE, [hold("h2")])
    assert not isinstance(found, Silent)
    assert [one.id for one in found] == ["c1"]
    assert unheld(HERE, [hold("h1")]) == ()
    assert engine.exists()


def test_moving_a_container(engine: Path) -> None:
    assert move_container(hold(container="c1"), 0b1100, US) == ""
    assert engine.read_text() == "--host unix:///a b update --cpuset-cpus=2-3 c1\n"


def test_a_container_that_cannot_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert move_container(hold(container="c1"), 1, US).startswith(
        "h1 stays on its CPUs, though the shared pool has changed: "
    )
