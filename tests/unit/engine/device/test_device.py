"""Devices: hints, the choice by affinity, what is used again, health, and the plugin's say."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from numawise.engine.device.allocate import split
from numawise.engine.device.hints import container_hints, family, pod_hints
from numawise.engine.device.manager import allocate, allocated_by, collect
from numawise.engine.draft import Draft
from numawise.engine.failure import Failure
from numawise.engine.lifecycle import devices_changed, plugins_spoke
from numawise.engine.provider import Admission
from numawise.engine.state import DeviceGrant, NodeState, Plugin
from numawise.engine.trace import DevicesChosen, Step
from numawise.machine.model import DevicePlugin, Machine
from numawise.machine.preference import LinkedGpus, LowestIds, Preference, SharedDevices
from numawise.rules.behaviour import Behaviour
from numawise.rules.model import Rules
from numawise.sets import parse_ids
from tests.unit.build import devices_of, even, machine, pod, shown

RULES = Rules()
NAME = "x/d"
FIVE = "d1@0 d2@0 d3@1 d4@1 d5"  # two on each NUMA node, one without topology


class Manager:
    """A Device Manager with one plugin, and what it remembers."""

    def __init__(
        self,
        devices: str,
        *,
        nodes: int = 2,
        preference: Preference | None = None,
        refuses_several: bool = False,
        rules: Rules = RULES,
    ) -> None:
        self.machine: Machine = machine(even(nodes, nodes, nodes))
        self.rules = rules
        plugin = DevicePlugin(NAME, devices_of(devices), preference, refuses_several)
        self.state = plugins_spoke(NodeState(), [plugin])

    def hold(self, uid: str, container: str, ids: str) -> None:
        """Record devices as held."""
        grant = DeviceGrant(((0, tuple(ids.split())),))
        draft = Draft(self.state)
        draft.devices.grant(uid, container, NAME, grant)
        self.state = draft.freeze()

    def hints(self, count: int, *, reuse: str = "", container: str = "c") -> str | None:
        wanted = pod("p", f"{container} {NAME}={count}")
        draft = Draft(self.state)
        draft.devices.reusable = {"p": {NAME: frozenset(reuse.split())}}
        answer = container_hints(Admission(self.machine, self.rules, draft, wanted), wanted.containers[0])
        assert answer is not None
        return shown(answer[NAME])

    def give(
        self,
        count: int,
        affinity: str | None,
        *,
        reuse: str = "",
        pick: Iterable[str] | None = None,
        running: bool = False,
        container: str = "c",
    ) -> str:
        """Allocate for one container: the ids it has, or the kubelet's complaint."""
        self.steps: list[Step] = []
        wanted = pod("p", f"{container} {NAME}={count}")
        draft = Draft(self.state)
        draft.devices.reusable = {"p": {NAME: frozenset(reuse.split())}}
        if running:
            draft.ready, draft.running = False, frozenset({("p", container)})
        mask = None if affinity is None else parse_ids(affinity)
        admission = Admission(self.machine, self.rules, draft, wanted, self.steps.append, lambda *_: pick)
        failure = allocate(admission, wanted.containers[0], mask)
        if isinstance(failure, Failure):
            return failure.error
        self.state = draft.freeze()
        grant = self.state.devices.grants.get("p", {}).get(container, {}).get(NAME)
        return " ".join(sorted(grant.ids)) if grant else ""

    @property
    def open_to(self) -> str:
        """What the choice was free between."""
        (step,) = self.steps
        assert isinstance(step, DevicesChosen)
        assert step.free is bool(step.open_to)
        return " ".join(step.open_to)


# --- hints ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("devices", "taken", "count", "expected"), [
    pytest.param("G0@0 G1@1 G2@1",    "",      1, "0! 1! 0-1",  id="one, all free"),
    pytest.param("G0@0 G1@1 G2@1",    "",      2, "1! 0-1",     id="two, all free"),
    pytest.param("G0@0 G1@1 G2@1",    "G2",    2, "0-1",        id="two, one of the pair taken: not preferred"),
    pytest.param("G0@0 G1@1 G2@1",    "",      3, "0-1!",       id="all"),
    pytest.param("G0@0 G1@1 G2@1",    "",      4, "",           id="more than there are"),
    pytest.param("G0@0 G1@1 G2@1",    "G0 G1", 2, "",           id="more than are free"),
    pytest.param("a@0 b@0 c d",       "",      3, "",           id="devices without topology never help"),
    pytest.param("a@0 b@0 c d",       "",      2, "0!",         id="hints range over nodes with devices"),
    pytest.param("c d",               "",      1, None,         id="no topology at all: no wish"),
    pytest.param("c@ d@",             "",      1, None,         id="empty topology: no wish"),
    pytest.param("a@0,1 b@1",         "",      2, "1! 0-1",     id="a device on two nodes counts for each"),
    pytest.param("!a@0 b@1",          "",      1, "1! 0-1",     id="an unhealthy one widens the nodes"),
    pytest.param("!a@0 !b@0 c@1 d@0", "",      2, "0-1",        id="width counts unhealthy ones too"),
    pytest.param("a@0 b@7",           "",      1, "0!",         id="nodes that do not exist are dropped"),
    pytest.param("a@7",               "",      1, "",           id="only such nodes: all nodes, none of which helps"),
    pytest.param("a@0 b@1",           "",      0, "0! 1! 0-1",  id="zero devices still give hints"),
])  # fmt: skip
def test_hints(devices: str, taken: str, count: int, expected: str | None) -> None:
    manager = Manager(devices)
    if taken:
        manager.hold("other", "c", taken)
    assert manager.hints(count) == expected


@pytest.mark.parametrize(("reuse", "count", "expected"), [
    ("a",   2, "0! 0-1"),     # must hold the node of a
    ("a c", 2, "0-1"),
    ("e",   2, "0! 1! 0-1"),  # no topology: passed over
    ("f",   1, ""),           # an empty list of nodes lies in no mask
])  # fmt: skip
def test_hints_hold_what_is_used_again(reuse: str, count: int, expected: str) -> None:
    manager = Manager("a@0 b@0 b2@0 c@1 d@1 d2@1 e f@")
    manager.hold("p", "i", reuse)
    assert manager.hints(count, reuse=reuse) == expected


@pytest.mark.parametrize(("count", "expected"), [(2, "0! 0-1"), (1, ""), (3, "")])
def test_hints_of_what_is_held(count: int, expected: str) -> None:
    manager = Manager("a@0 b@0 c@1 d@1")
    manager.hold("p", "c", "a b")
    assert manager.hints(count) == expected


def test_pod_hints_count_the_most_at_once() -> None:
    manager = Manager("a@0 b@1 c@1")
    wanted = pod("p", f"init i {NAME}=1", f"a {NAME}=1", f"b {NAME}=1", "c nobody/knows=1")
    answer = pod_hints(Admission(manager.machine, RULES, Draft(manager.state), wanted))
    assert answer is not None
    assert {name: shown(found) for name, found in answer.items()} == {NAME: "1! 0-1"}
    manager.hold("p", "a", "b")
    manager.hold("p", "b", "c")
    answer = pod_hints(Admission(manager.machine, RULES, Draft(manager.state), wanted))
    assert answer is not None
    assert shown(answer[NAME]) == "1! 0-1"


def test_resources_without_a_plugin_are_nobodys_business() -> None:
    manager = Manager("a@0")
    wanted = pod("p", "c other/thing=5 cpu=1")
    draft = Draft(manager.state)
    assert container_hints(Admission(manager.machine, RULES, draft, wanted), wanted.containers[0]) == {}
    assert allocate(Admission(manager.machine, RULES, draft, wanted), wanted.containers[0], None) is None


def test_since_1_36_hints_range_over_nodes_with_devices() -> None:
    """Four nodes, devices on node 0 only."""
    assert Manager("a@0", nodes=4).hints(1) == "0!"
    before = Rules(behaviour=Behaviour(device_hints_over_hosting_nodes=False))
    assert Manager("a@0", nodes=4, rules=before).hints(1) == "0! 0-1 0,2 0,3 0-2 0-1,3 0,2-3 0-3"


def test_hints_over_64_nodes_end() -> None:
    wide = machine(even(64, 64, 64))
    by_id = {device.id: device for device in devices_of(" ".join(f"d{i:02}@{i}" for i in range(64)))}
    found = family(wide, RULES, Plugin(by_id, frozenset(by_id)), by_id, (), 5)
    assert found.narrowest == 5


# --- allocation: the table of the specification --------------------------------------------------


@pytest.mark.parametrize(("devices", "reuse", "count", "affinity", "expected", "open_to"), [
    pytest.param(FIVE, "",   1, "1",  "d3",             "d3 d4",          id="one of the aligned"),
    pytest.param(FIVE, "",   2, "1",  "d3 d4",          "",               id="all of the aligned"),
    pytest.param(FIVE, "",   3, "1",  "d1 d3 d4",       "d1 d2",          id="then one of the unaligned"),
    pytest.param(FIVE, "",   5, "1",  "d1 d2 d3 d4 d5", "",               id="then those without topology"),
    pytest.param(FIVE, "",   1, None, "d1",             "d1 d2 d3 d4 d5", id="no affinity: any"),
    pytest.param(FIVE, "d3", 2, "0",  "d1 d3",          "d1 d2",          id="what is used again ignores the affinity"),
    pytest.param("!d1@0 d2@0 d3@1 d4@1 d5", "", 2, "0", "d2 d3", "d3 d4", id="an unhealthy one is not available"),
    pytest.param("a@0,1 b@0",     "",   1, "1",  "a",   "",               id="a device on two nodes is aligned by either"),
    pytest.param("a b c",         "",   2, "0",  "a b", "a b c",          id="no topology at all: any"),
    pytest.param(FIVE, "d1 d2",  1, "1",  "d1",         "d1 d2",          id="one of what is used again"),
    pytest.param(FIVE, "",   0, "1",  "",               None,             id="none asked"),
])  # fmt: skip
def test_allocation(
    devices: str, reuse: str, count: int, affinity: str | None, expected: str, open_to: str | None
) -> None:
    manager = Manager(devices)
    if reuse:
        manager.hold("p", "i", reuse)
    assert manager.give(count, affinity, reuse=reuse) == expected
    assert manager.steps == [] if open_to is None else manager.open_to == open_to


def test_a_running_container_is_left_alone_when_the_kubelet_restarts() -> None:
    manager = Manager(FIVE)
    assert manager.give(1, "1", running=True) == ""
    assert manager.steps == []


def test_a_free_choice_can_be_made_from_outside() -> None:
    assert Manager(FIVE).give(1, "1", pick=["d4"]) == "d4"
    assert Manager(FIVE).give(3, "1", pick=["d2"]) == "d2 d3 d4"
    assert Manager(FIVE).give(1, "1", pick=["d1"]) == "d3"  # was not on offer


# --- the plugin's say ----------------------------------------------------------------------------


@pytest.mark.parametrize(("devices", "count", "affinity", "expected", "open_to"), [
    ("a@0 b@0 c@0",     2, "0", "a b", ""),   # asked among the aligned
    ("a@0 b@0 x@1",     2, "0", "a b", ""),   # not asked: the aligned cover the need
    ("a@1 x@0 y@1",     2, "0", "a x", ""),   # x is taken, then asked with x included
    ("b@0 x@1 y@1 z",   2, "0", "b x", ""),
])  # fmt: skip
def test_preferred_allocation(devices: str, count: int, affinity: str, expected: str, open_to: str) -> None:
    manager = Manager(devices, preference=LowestIds())
    assert manager.give(count, affinity) == expected
    assert manager.open_to == open_to


PAIRS = LinkedGpus(tuple("abcd"), ((0, 50, 20, 20), (50, 0, 20, 20), (20, 20, 0, 50), (20, 20, 50, 0)))


@pytest.mark.parametrize(("taken", "count", "expected", "open_to"), [
    ("",  2, "a b", "a b c d"),  # or c and d
    ("a", 2, "c d", ""),
    ("b", 1, "a",   "a c d"),
])  # fmt: skip
def test_linked_gpus_are_preferred(taken: str, count: int, expected: str, open_to: str) -> None:
    manager = Manager("a@0 b@0 c@0 d@0", preference=PAIRS)
    manager.hold("other", "c", taken)
    assert manager.give(count, "0") == expected
    assert manager.open_to == open_to


def test_a_plugin_that_crashes_fails_the_allocation() -> None:
    """What was taken before it was asked is lost until the next collection."""
    links = tuple(tuple(0 if i == j else 600 if {i, j} == {3, 4} else 10 for j in range(5)) for i in range(5))
    manager = Manager("a@0 b@0 c@0 d@0 e@0", preference=LinkedGpus(tuple("abcde"), links))
    assert manager.give(3, "0") == (
        "device plugin GetPreferredAllocation rpc failed with err: "
        "rpc error: code = Unavailable desc = error reading from server: EOF"
    )


def test_a_plugin_may_refuse_several() -> None:
    several = Manager("a::0@0 a::1@0 b::0@0 b::1@0", preference=SharedDevices(), refuses_several=True)
    assert several.give(2, "0") == (
        'rpc error: code = Unknown desc = invalid allocation request for "x/d": invalid request: '
        "maximum request size for shared resources is 1; found 2"
    )
    assert not several.state.devices.allocated.get(NAME)
    assert several.give(1, "0") == "a::0"


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("devices", "taken", "count", "error"), [
    ("a@0 b@0",   "",  3, "requested number of devices unavailable for x/d. Requested: 3, Available: 2"),
    ("a@0 b@0",   "a", 2, "requested number of devices unavailable for x/d. Requested: 2, Available: 1"),
    ("!a@0 !b@0", "",  1, "no healthy devices present; cannot allocate unhealthy devices x/d"),
    ("!a@0 b@0",  "",  2, "requested number of devices unavailable for x/d. Requested: 2, Available: 1"),
])  # fmt: skip
def test_too_few(devices: str, taken: str, count: int, error: str) -> None:
    manager = Manager(devices)
    if taken:
        manager.hold("other", "c", taken)
    assert manager.give(count, "0") == error


def test_a_changed_request() -> None:
    manager = Manager("a@0 b@0")
    manager.hold("p", "c", "a")
    assert manager.give(2, "0") == 'pod "p" container "c" changed request for resource "x/d" from 1 to 2'
    assert manager.give(1, "0") == "a"


def test_recorded_devices_must_still_be_healthy() -> None:
    manager = Manager("a@0 b@0")
    manager.hold("p", "c", "a")
    manager.state = devices_changed(manager.state, NAME, devices_of("!a@0 b@0"))
    error = "previously allocated devices are no longer healthy; cannot allocate unhealthy devices x/d"
    assert manager.give(1, "0") == error
    manager.rules = Rules(behaviour=Behaviour(checks_recorded_devices=False))
    assert manager.give(1, "0") == "a"  # in older releases nobody looked


def test_a_resource_known_from_the_file_alone() -> None:
    manager = Manager("a@0")
    manager.hold("other", "c", "a")
    manager.state = replace(manager.state, devices=replace(manager.state.devices, plugins={}))
    assert manager.give(1, "0") == "cannot allocate unregistered device x/d"


# --- keeping books -------------------------------------------------------------------------------


def test_devices_are_recorded_by_numa_node() -> None:
    manager = Manager("a@0 b@0,1 c d@")
    manager.give(4, None)
    grant = manager.state.devices.grants["p"]["c"][NAME]
    assert grant.per_numa == ((-1, ("c", "d")), (0, ("a", "b")), (1, ("b",)))
    assert grant.ids == {"a", "b", "c", "d"}


def test_the_file_is_written_when_devices_are_given_and_not_when_they_are_collected() -> None:
    manager = Manager("a@0 b@0")
    assert manager.state.devices.saved is not None
    assert manager.state.devices.saved.registered == {NAME: {"a", "b"}}
    manager.give(1, "0")
    assert list(manager.state.devices.saved.grants) == ["p"]
    draft = Draft(replace(manager.state, departed=frozenset({"p"})))
    collect(draft)
    after = draft.freeze()
    assert not after.devices.grants
    assert not after.devices.allocated
    assert after.devices.saved is not None
    assert list(after.devices.saved.grants) == ["p"]


def test_only_healthy_devices_are_registered() -> None:
    manager = Manager("a@0 !b@0")
    assert manager.state.devices.saved is not None
    assert manager.state.devices.saved.registered == {NAME: {"a"}}


@pytest.mark.parametrize(("containers", "chosen"), [
    (["init i x/d=1", "a x/d=1"],                {"i": "a", "a": "a"}),                  # used again
    (["init i x/d=2", "a x/d=1", "b x/d=1"],     {"i": "a b", "a": "a", "b": "b"}),
    (["sidecar s x/d=1", "a x/d=1"],             {"s": "a", "a": "b"}),                  # goes on running
    (["init i x/d=1", "sidecar s x/d=1", "a x/d=1"], {"i": "a", "s": "a", "a": "b"}),
])  # fmt: skip
def test_what_init_containers_had_is_used_again(containers: list[str], chosen: dict[str, str]) -> None:
    manager = Manager("a@0 b@0 c@0 d@0")
    wanted = pod("p", *containers)
    draft = Draft(manager.state)
    for container in wanted.containers:
        assert allocate(Admission(manager.machine, RULES, draft, wanted), container, 1) is None
    grants = draft.freeze().devices.grants["p"]
    assert {name: " ".join(sorted(found[NAME].ids)) for name, found in grants.items()} == chosen


def test_allocated_by() -> None:
    grants = {
        "p": {"c": {NAME: DeviceGrant(((0, ("a",)), (1, ("a", "b"))))}},
        "q": {"c": {NAME: DeviceGrant(((0, ("c",)),))}},
    }
    assert allocated_by(grants.values()) == {NAME: {"a", "b", "c"}}


@pytest.mark.parametrize(("affinity", "parts"), [
    ("0",   ("d1 d2",       "d3 d4", "d5")),
    ("0-1", ("d1 d2 d3 d4", "",      "d5")),
    (None,  ("",            "",      "d1 d2 d3 d4 d5")),
])  # fmt: skip
def test_split(affinity: str | None, parts: tuple[str, str, str]) -> None:
    plugin = Manager(FIVE).state.devices.plugins[NAME]
    found = split(plugin, plugin.healthy, None if affinity is None else parse_ids(affinity))
    assert tuple(" ".join(sorted(part)) for part in found) == parts


def test_numa_ids_that_no_mask_can_hold_are_other_nodes_all_the_same() -> None:
    plugin = Plugin({one.id: one for one in devices_of("a@0 b@64 c@-2 d@-1 e")})
    near, far, anywhere = split(plugin, frozenset("abcde"), 0b1)
    assert (near, far, anywhere) == (frozenset("a"), frozenset("bc"), frozenset("de"))
