"""Whose owner is dead."""

from dataclasses import replace

import pytest

from numawise.ledger.reap import dead, left_line
from numawise.results.placement import Hold, Owner
from tests.unit.ledger.make import hold, owner, waiter

HERE, EARLIER = "boot-2", "boot-1"
OURS, OTHER = 11, 12
PROCESSES = {(100, 5), (200, 6)}
BUSY_GROUPS = {"/numawise/busy"}
CONTAINERS = {("docker", "f00")}


def alive(one: Hold) -> bool:
    """A host with two processes, one control group in use and one container."""
    owner = one.owner
    if owner.container:
        return (owner.engine, owner.container) in CONTAINERS
    return (owner.pid, owner.start) in PROCESSES or one.group in BUSY_GROUPS


def who(text: str) -> Owner:
    """``here 100@5 docker:f00 other``: boot, process and start time, engine and container, pid namespace."""
    boot, process, engine, space = (*text.split(), "-", "-")[:4]
    pid, start = (int(number) for number in process.split("@"))
    engine, _, container = engine.strip("-").partition(":")
    return owner(
        boot={"here": HERE, "earlier": EARLIER}[boot],
        pid=pid,
        start=start,
        engine=engine,
        container=container,
        namespace={"ours": OURS, "other": OTHER, "-": 0}[space],
    )


@pytest.mark.parametrize(("text", "group", "lives"), [
    pytest.param("here    100@5",              "",               "yes", id="runs"),
    pytest.param("here    300@5",              "",               "no",  id="has ended"),
    pytest.param("here    100@6",              "",               "no",  id="the number is another's now"),
    pytest.param("here    300@5",              "/numawise/busy", "yes", id="left something running"),
    pytest.param("here    300@5",              "/numawise/idle", "no",  id="left nothing running"),
    pytest.param("earlier 100@5",              "",               "no",  id="of an earlier boot, number and time alike"),
    pytest.param("earlier 300@5",              "/numawise/busy", "no",  id="of an earlier boot, the group's name alike"),
    pytest.param("here    0@0   docker:f00",   "",               "yes", id="container runs"),
    pytest.param("earlier 0@0   docker:f00",   "",               "yes", id="container was started again after a reboot"),
    pytest.param("here    0@0   podman:f00",   "",               "no",  id="another engine's container"),
    pytest.param("earlier 0@0   docker:bad",   "",               "no",  id="container did not survive"),
    pytest.param("here    100@5 docker",       "",               "yes", id="container is being made"),
    pytest.param("here    300@5 docker",       "",               "no",  id="container was never made"),
    pytest.param("earlier 100@5 docker",       "",               "no",  id="container was being made before the reboot"),
    pytest.param("here    300@5 -     other",  "",               "yes", id="cannot be seen from here"),
    pytest.param("earlier 300@5 -     other",  "",               "no",  id="could not be seen, but the boot is over"),
    pytest.param("here    300@5 -     ours",   "",               "no",  id="can be seen, and has ended"),
])  # fmt: skip
def test_dead(text: str, group: str, lives: str) -> None:
    one = hold("k", "0", owner=who(text), group=group)
    assert dead([one], HERE, alive, OURS) == {"yes": (), "no": (one,)}[lives]


def test_a_boot_that_is_not_known_condemns_nobody() -> None:
    runs, ended = (hold(str(pid), owner=owner(boot=EARLIER, pid=pid, start=5)) for pid in (100, 300))
    assert dead([runs, ended], "", alive) == (ended,)


def test_a_namespace_that_is_not_known_is_not_judged_by() -> None:
    one = hold("k", owner=owner(boot=HERE, pid=300, namespace=OTHER))
    assert dead([one], HERE, alive) == (one,)


def test_left_line() -> None:
    texts = ["here 100@5", "here 300@5", "earlier 100@5", "here 300@5 - other"]
    line = [replace(waiter(text), owner=who(text)) for text in texts]
    gone = left_line(line, HERE, lambda one: (one.pid, one.start) in PROCESSES, OURS)
    assert [one.id for one in gone] == texts[1:3]
