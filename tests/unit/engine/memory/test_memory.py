"""Memory: hints, allocation, groups of NUMA nodes, use again after init containers, release."""

from dataclasses import replace

import pytest

from numawise.engine.draft import Draft
from numawise.engine.failure import Crash, Failure
from numawise.engine.hint import HintList, HintRule
from numawise.engine.lifecycle import remove, start_containers
from numawise.engine.memory.allocate import allocate, collect, release
from numawise.engine.memory.hints import container_hints, family, pod_hints
from numawise.engine.memory.manager import MemoryManager
from numawise.engine.memory.tables import empty_tables
from numawise.engine.provider import Admission
from numawise.engine.state import Block, MemoryState, NodeState, NumaMemory
from numawise.engine.trace import Defect, MemoryGranted, Note, Step, ignore
from numawise.machine.model import Machine, Numa
from numawise.request.model import PodRequest
from numawise.rules.model import Rules
from numawise.sets import format_ids
from tests.unit.build import GI, MI, even, hint, machine, pod, shown

DEFAULT = (
    "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"
)
NOT_DEFAULT = "[memorymanager] failed to find the default preferred hint"
EXTEND = "[memorymanager] failed to find NUMA nodes to extend the current topology hint"
NOT_EXTENDED = "[memorymanager] failed to find the extended preferred hint"
GROUP = "[memorymanager] preferred hint violates NUMA node allocation"
INEXACT = "[memorymanager] failed to represent quantity as int64"


def memory_machine(*sizes: int, pages: int | None = None) -> Machine:
    return machine(
        even(len(sizes), len(sizes), len(sizes)), sizes, hugepages=None if pages is None else {"1Gi": pages}
    )


class Books:
    """A Memory Manager and what it remembers; requests are like ``1Gi`` or ``memory=1Gi hugepages-1Gi=1Gi``."""

    def __init__(self, hardware: Machine, *reserved: int, managed: bool = False) -> None:
        kept = {i: {"memory": size} for i, size in enumerate(reserved) if size}
        self.machine = hardware
        self.rules = Rules(memory_static=True, reserved_memory=kept, pod_level_managers=managed)
        self.state = NodeState(memory=MemoryState(empty_tables(hardware, self.rules)))

    def admission(self, wanted: PodRequest, draft: Draft | None = None, note: Note = ignore) -> Admission:
        return Admission(self.machine, self.rules, draft or Draft(self.state), wanted, note)

    def wanted(self, text: str) -> PodRequest:
        return pod("p", f"c cpu=1 {text if '=' in text else f'memory={text}'}")

    def hints(self, text: str) -> dict[str, str] | None:
        """The container's hints by resource; {}: no wish because it fits nowhere."""
        wanted = self.wanted(text)
        answer = container_hints(self.admission(wanted), wanted.containers[0])
        return answer if answer is None else {name: shown(found) for name, found in answer.items()}

    def give(self, uid: str, text: str, affinity: str) -> str:
        """Allocate for a pod of one container; the kubelet's complaint, or the block's NUMA nodes."""
        self.steps: list[Step] = []
        draft = Draft(self.state)
        wanted = replace(self.wanted(text), uid=uid)
        failure = allocate(
            self.admission(wanted, draft, self.steps.append), wanted.containers[0], hint(affinity)
        )
        if isinstance(failure, Failure):
            assert draft.freeze().memory == self.state.memory  # a failed allocation changes nothing
            return failure.error
        self.state = draft.freeze()
        return format_ids(self.state.memory.assignments[uid]["c"][0].numa)

    def give_all(self, wanted: PodRequest, affinity: str) -> None:
        """Allocate for all containers of a pod."""
        draft = Draft(self.state)
        for container in wanted.containers:
            assert allocate(self.admission(wanted, draft), container, hint(affinity)) is None
        self.state = draft.freeze()

    def take_back(self, uid: str) -> None:
        draft = Draft(self.state)
        for container in tuple(draft.memory.rows[uid]):
            release(draft.memory, uid, container)
        self.state = draft.freeze()

    def node(self, numa: int, kind: str = "memory") -> tuple[int, int, int, str]:
        """Assignments, reserved, free and cells, as the specification writes them."""
        found: NumaMemory = self.state.memory.numa[numa]
        table = found.tables[kind]
        return found.users, table.reserved, table.free, format_ids(found.cells)

    def blocks(self, uid: str) -> dict[str, int]:
        """Sizes of the memory blocks in Gi, by container."""
        return {
            name: sum(block.size for block in blocks) // GI
            for name, blocks in self.state.memory.assignments[uid].items()
        }


def two_nodes() -> Books:
    """Nodes 0 and 1, 2Gi each, 512Mi reserved each."""
    return Books(memory_machine(2 * GI, 2 * GI), 512 * MI, 512 * MI)


# --- the books of an empty machine ---------------------------------------------------------------


def test_huge_pages_are_taken_off_the_memory() -> None:
    books = Books(Machine(even(1, 1, 1), (Numa(0, 8 * GI, (("2Mi", 0), ("1Gi", 2))),)), GI)
    tables = books.state.memory.numa[0].tables
    assert (tables["memory"].total, tables["memory"].allocatable) == (8589934592, 5368709120)
    assert (tables["hugepages-1Gi"].total, tables["hugepages-1Gi"].free) == (2147483648, 2147483648)
    assert (tables["hugepages-2Mi"].total, tables["hugepages-2Mi"].free) == (0, 0)


def test_reserving_too_much_wraps_around() -> None:
    books = Books(memory_machine(1 * GI, 1 * GI), 2 * GI)
    assert books.node(0)[2] == 2**64 - GI
    assert books.node(1)[2] == GI
    assert books.hints("1Gi") == {"memory": "0! 1!"}  # together they wrap around to nothing


# --- examples A to E -----------------------------------------------------------------------------


@pytest.mark.parametrize(("wanted", "expected"), [
    ("1Gi",     {"memory": "0! 1! 0-1"}),
    ("2Gi",     {"memory": "0-1!"}),
    ("1536Mi",  {"memory": "0! 1! 0-1"}),  # all of a node
    ("3Gi",     {"memory": "0-1!"}),
    ("3073Mi",  {}),                       # nowhere
])  # fmt: skip
def test_example_a(wanted: str, expected: dict[str, str]) -> None:
    assert two_nodes().hints(wanted) == expected


def test_example_a_with_a_node_in_use() -> None:
    books = two_nodes()
    assert books.give("p1", "1Gi", "0!") == "0"
    assert books.hints("2Gi") == {}  # node 0 serves single requests
    assert books.hints("600Mi") == {"memory": "1!"}  # 512Mi are left on node 0
    assert books.hints("1Gi") == {"memory": "1!"}
    assert books.hints("512Mi") == {"memory": "0! 1!"}  # fmt: skip


def test_example_b() -> None:
    books = two_nodes()
    assert books.give("p1", "2Gi", "0-1!") == "0-1"
    assert books.node(0) == (1, 1610612736, 0, "0-1")
    assert books.node(1) == (1, 536870912, 1073741824, "0-1")
    assert books.hints("512Mi") == {"memory": "0-1"}  # not preferred: one node would do when idle
    assert books.give("p2", "512Mi", "0-1") == "0-1"
    books.take_back("p1")
    assert books.node(0) == (1, 0, 1610612736, "0-1")
    assert books.node(1) == (1, 536870912, 1073741824, "0-1")


def test_example_c() -> None:
    """4Gi nodes, 512Mi reserved; init containers of 2Gi and 1Gi, then apps of 1Gi and 2Gi."""
    books = Books(memory_machine(4 * GI, 4 * GI), 512 * MI, 512 * MI)
    wanted = pod(
        "p",
        "init i1 cpu=1 memory=2Gi",
        "init i2 cpu=1 memory=1Gi",
        "c1 cpu=1 memory=1Gi",
        "c2 cpu=1 memory=2Gi",
    )
    draft = Draft(books.state)
    seen = []
    for container in wanted.containers:
        assert allocate(books.admission(wanted, draft), container, hint("0!")) is None
        books.state = draft.freeze()
        seen.append((books.node(0)[1] // GI, books.blocks("p")))
    assert seen == [
        (2, {"i1": 2}),
        (2, {"i1": 1, "i2": 1}),
        (2, {"i1": 0, "i2": 1, "c1": 1}),
        (3, {"i1": 0, "i2": 0, "c1": 1, "c2": 2}),
    ]
    assert books.node(0)[0] == 4


@pytest.mark.parametrize(("wanted", "expected"), [
    ("memory=1Gi hugepages-1Gi=1Gi", "0! 1! 0-1"),
    ("memory=1Gi hugepages-1Gi=3Gi", "0-1!"),
    ("memory=7Gi hugepages-1Gi=1Gi", "0-1!"),      # 6Gi of memory a node
    ("memory=1Gi hugepages-1Gi=5Gi", None),
])  # fmt: skip
def test_example_d(wanted: str, expected: str | None) -> None:
    books = Books(memory_machine(8 * GI, 8 * GI, pages=2))
    both = {} if expected is None else {"hugepages-1Gi": expected, "memory": expected}
    assert books.hints(wanted) == both


def test_run_e() -> None:
    """Four nodes of 2Gi, 512Mi reserved on node 0; 3Gi with the hint {2} is widened to {0,2}."""
    books = Books(memory_machine(*[2 * GI] * 4), 512 * MI)
    assert books.hints("3Gi") == {
        "memory": "0-1! 0,2! 0,3! 1-2! 1,3! 2-3! 0-2 0-1,3 0,2-3 1-3 0-3",
    }
    assert books.give("p", "3Gi", "2!") == "0,2"
    assert books.node(0) == (1, 1610612736, 0, "0,2")
    assert books.node(2) == (1, 1610612736, 536870912, "0,2")
    assert books.node(1) == (0, 0, 2147483648, "1")
    assert MemoryGranted("c", 0b101, (("memory", 3 * GI),), extended=True) in books.steps


# --- the runs of the appendix --------------------------------------------------------------------


def test_run_a() -> None:
    books = two_nodes()
    idle = (0, 0, 1610612736)
    used = [(1, 1073741824, 536870912, "0"), (*idle, "1")]
    for uid, size, affinity, outcome in (
        ("p1", "1Gi", "0!",   "0"),
        ("p2", "2Gi", "0-1!", GROUP),
        ("p5", "3Gi", "0-1!", EXTEND),
        ("p3", "1Gi", "0-1",  GROUP),
    ):  # fmt: skip
        assert books.give(uid, size, affinity) == outcome
        assert [books.node(0), books.node(1)] == used
    books.take_back("p1")
    assert [books.node(0), books.node(1)] == [(*idle, "0"), (*idle, "1")]


def test_run_b() -> None:
    books = two_nodes()
    assert books.give("p1", "2Gi", "*!") == "0-1"  # its own best hint
    assert [books.node(0), books.node(1)] == [(1, 1610612736, 0, "0-1"), (1, 536870912, 1073741824, "0-1")]
    assert books.give("p2", "512Mi", "0-1!") == "0-1"
    assert [books.node(0), books.node(1)] == [(2, 1610612736, 0, "0-1"), (2, 1073741824, 536870912, "0-1")]
    assert books.give("p3", "600Mi", "1") == EXTEND
    books.take_back("p1")
    assert [books.node(0), books.node(1)] == [(1, 0, 1610612736, "0-1"), (1, 536870912, 1073741824, "0-1")]
    books.take_back("p2")
    assert [books.node(0), books.node(1)] == [(0, 0, 1610612736, "0"), (0, 0, 1610612736, "1")]


def test_run_b2_a_single_node_inside_a_group_corrupts_it() -> None:
    books = two_nodes()
    assert books.give("p1", "2Gi", "0-1!") == "0-1"
    assert books.give("p2", "512Mi", "1") == "1"
    assert books.node(0) == (1, 1610612736, 0, "0-1")
    assert books.node(1) == (2, 1073741824, 536870912, "1")
    assert Defect("single-node-in-group", "c") in books.steps


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("before", "wanted", "affinity", "outcome"), [
    pytest.param("",      "4Gi",   "*",    DEFAULT,      id="fits nowhere"),
    pytest.param("",      "4Gi",   "0-1!", EXTEND,       id="fits nowhere, given nodes"),
    pytest.param("group", "512Mi", "*!",   NOT_DEFAULT,  id="its best hint is not preferred"),
    pytest.param("group", "512Mi", "*",    "0-1",        id="which is fine when nobody demands it"),
    pytest.param("group", "512Mi", "0!",   NOT_EXTENDED, id="node 0 is full, and only the group is left"),
    pytest.param("one",   "512Mi", "0-1!", GROUP,        id="node 0 is used alone"),
    pytest.param("one",   "1Gi",   "0!",   EXTEND,       id="node 0 has too little and cannot join"),
    pytest.param("",      "1.5Gi", "0!",   INEXACT,      id="a fraction, as a static pod may write it"),
])  # fmt: skip
def test_refusals(before: str, wanted: str, affinity: str, outcome: str) -> None:
    books = two_nodes()
    if before:
        books.give("other", *{"group": ("2Gi", "0-1!"), "one": ("1Gi", "0!")}[before])
    assert books.give("p", wanted, affinity) == outcome


def test_before_1_32_groups_were_broken() -> None:
    books = two_nodes()
    books.rules = replace(books.rules, behaviour=replace(books.rules.behaviour, memory_keeps_groups=False))
    books.give("other", "1Gi", "0!")
    assert books.give("p", "512Mi", "0-1!") == "0-1"


def test_huge_pages_alone_find_no_default() -> None:
    """The kubelet looks for its best hint under the name memory, and there is none."""
    books = Books(memory_machine(4 * GI, pages=2))
    draft = Draft(books.state)
    wanted = pod("p", "c cpu=1 hugepages-1Gi=1Gi", qos="Guaranteed")
    failure = allocate(books.admission(wanted, draft), wanted.containers[0], hint("*"))
    assert isinstance(failure, Failure)
    assert failure.error == DEFAULT


def test_a_huge_page_size_that_is_not_there_crashes_the_kubelet() -> None:
    books = two_nodes()
    with pytest.raises(Crash):
        books.hints("memory=1Gi hugepages-2Mi=2Mi")


def test_inexact_memory_gives_no_hints() -> None:
    assert two_nodes().hints("1.5Gi") is None


@pytest.mark.parametrize("containers", [["c cpu=1 memory=1Gi..2Gi"], ["c cpu=1"], ["c"]])
def test_only_guaranteed_pods_take_part(containers: list[str]) -> None:
    books = two_nodes()
    wanted = pod("p", *containers)
    draft = Draft(books.state)
    assert container_hints(books.admission(wanted, draft), wanted.containers[0]) is None
    assert pod_hints(books.admission(wanted, draft)) is None
    assert allocate(books.admission(wanted, draft), wanted.containers[0], hint("0!")) is None
    assert draft.freeze().memory == books.state.memory


# --- what is held already ------------------------------------------------------------------------


@pytest.mark.parametrize(("again", "expected"), [
    ("1Gi",                           {"memory": "0!"}),
    ("512Mi",                         None),   # another size: no wish, though it is not what it has
    ("memory=1Gi hugepages-1Gi=1Gi",  None),
])  # fmt: skip
def test_hints_of_what_is_held(again: str, expected: dict[str, str] | None) -> None:
    books = Books(memory_machine(4 * GI, 4 * GI, pages=1))
    books.give("p", "1Gi", "0!")
    assert books.hints(again) == expected


def test_held_memory_is_not_given_twice() -> None:
    books = two_nodes()
    books.give("p", "1Gi", "0!")
    before = books.state.memory
    assert books.give("p", "1Gi", "1!") == "0"
    assert books.state.memory == before


def test_after_a_restart_pods_of_several_containers_give_no_pod_hints() -> None:
    books = two_nodes()
    wanted = pod("p", "a cpu=1 memory=512Mi", "b cpu=1 memory=512Mi")
    assert {k: shown(f) for k, f in (pod_hints(books.admission(wanted)) or {}).items()} == {
        "memory": "0! 1! 0-1"
    }
    books.give_all(wanted, "0!")
    assert pod_hints(books.admission(wanted)) is None


@pytest.mark.parametrize(("containers", "expected"), [
    (["a cpu=1 memory=1Gi", "b cpu=1 memory=1Gi"],              "0-1!"),
    (["init i cpu=1 memory=2Gi", "a cpu=1 memory=1Gi"],         "0-1!"),
    (["init i cpu=1 memory=1Gi", "a cpu=1 memory=1Gi"],         "0! 1! 0-1"),
])  # fmt: skip
def test_pod_hints_count_the_most_at_once(containers: list[str], expected: str) -> None:
    books = two_nodes()
    answer = pod_hints(books.admission(pod("p", *containers)))
    assert answer is not None
    assert shown(answer["memory"]) == expected


# --- init containers, sidecars, release ----------------------------------------------------------


def test_sidecars_keep_what_they_have() -> None:
    books = two_nodes()
    books.give_all(pod("p", "sidecar s cpu=1 memory=512Mi", "a cpu=1 memory=512Mi"), "0!")
    assert books.node(0)[1] == 1024 * MI


def test_what_is_used_again_counts_for_the_same_nodes_only() -> None:
    books = two_nodes()
    wanted = pod("p", "init i cpu=1 memory=1Gi", "a cpu=1 memory=1Gi")
    draft = Draft(books.state)
    allocate(books.admission(wanted, draft), wanted.containers[0], hint("0!"))
    allocate(books.admission(wanted, draft), wanted.containers[1], hint("1!"))
    books.state = draft.freeze()
    assert (books.node(0)[1], books.node(1)[1]) == (GI, GI)
    assert books.blocks("p") == {"i": 1, "a": 1}


def test_finished_init_containers_give_back_when_the_next_container_starts() -> None:
    books = two_nodes()
    wanted = pod("p", "init i cpu=1 memory=1Gi", "a cpu=1 memory=512Mi")
    books.give_all(wanted, "0!")
    assert books.node(0)[:2] == (2, 1024 * MI)
    books.state, started = start_containers(books.machine, books.rules, books.state, wanted, {})
    assert books.node(0)[:2] == (1, 512 * MI)
    assert [one.mems for one in started] == [1, 1]
    assert list(books.state.memory.assignments["p"]) == ["a"]


def test_pods_that_are_gone_are_collected() -> None:
    books = two_nodes()
    wanted = books.wanted("1Gi")
    books.give("p", "1Gi", "0!")
    books.state = remove(replace(books.state, active={"p": wanted}), "p")
    assert books.node(0)[0] == 1  # nothing is freed when it goes
    draft = Draft(books.state)
    collect(draft)
    books.state = draft.freeze()
    assert books.node(0) == (0, 0, 1610612736, "0")
    assert not books.state.departed


def test_nothing_is_collected_before_all_pods_are_heard_of() -> None:
    books = two_nodes()
    books.give("p", "1Gi", "0!")
    draft = Draft(replace(books.state, departed=frozenset({"p"}), ready=False))
    collect(draft)
    assert draft.freeze().memory == books.state.memory


# --- pod-level resources -------------------------------------------------------------------------


def test_a_pods_memory_is_divided_among_its_containers() -> None:
    """Pod 4Gi, a has 1Gi of its own, b shares the rest."""
    books = Books(memory_machine(8 * GI, 8 * GI), GI, managed=True)
    wanted = pod("p", "a cpu=1 memory=1Gi", "b", level="cpu=2..2 memory=4Gi..4Gi")
    draft = Draft(books.state)
    assert MemoryManager().allocate_pod(books.admission(wanted, draft), hint("0!")) is None
    books.state = draft.freeze()
    assert books.blocks("p") == {"a": 1, "b": 3}
    assert books.state.memory.pods == {"p": (Block(1, "memory", 4 * GI),)}
    assert books.node(0)[:2] == (1, 4 * GI)
    draft = Draft(books.state)
    release(draft.memory, "p", "a")
    assert draft.memory.numa[0].users == 1  # the pod's memory goes back with its last container
    release(draft.memory, "p", "b")
    assert draft.memory.numa[0].users == 0
    assert not draft.memory.pods.rows


@pytest.mark.parametrize(("containers", "error"), [
    (["a cpu=1 memory=4Gi", "b"],
     "pod rejected, sum of exclusive container memory requests equals pod budget, leaving no memory for shared containers"),
    (["sidecar s cpu=1 memory=4Gi", "init i", "a cpu=1 memory=4Gi"],
     "pod rejected, pod has shared init containers but no memory available for them"),
])  # fmt: skip
def test_an_empty_shared_part_is_refused(containers: list[str], error: str) -> None:
    books = Books(memory_machine(8 * GI, 8 * GI), GI, managed=True)
    wanted = pod("p", *containers, level="cpu=2..2 memory=4Gi..4Gi")
    draft = Draft(books.state)
    assert MemoryManager().allocate_pod(books.admission(wanted, draft), hint("0!")) == Failure(
        error, "EmptyPodSharedPoolError"
    )
    answer = pod_hints(books.admission(wanted, draft))
    assert answer is not None
    assert shown(answer["memory"]) == ""


# --- how hints are told --------------------------------------------------------------------------


def test_many_nodes_are_told_by_rule_and_wrapped_sums_one_by_one() -> None:
    wide = Books(memory_machine(*[GI] * 40))
    assert isinstance(family(wide.state.memory.numa, {}, (("memory", 3 * GI),)), HintRule)
    wrapped = Books(memory_machine(GI, GI), 2 * GI)
    assert isinstance(family(wrapped.state.memory.numa, {}, (("memory", GI),)), HintList)
    too_wide = Books(memory_machine(*[GI] * 40), 2 * GI)
    with pytest.raises(Crash):
        family(too_wide.state.memory.numa, {}, (("memory", GI),))
