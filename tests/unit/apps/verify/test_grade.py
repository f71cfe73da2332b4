"""Grades of made-up jobs on made-up machines."""

from dataclasses import replace

import pytest

from numawise.apps.verify.grade import grade
from numawise.apps.verify.leaks import policy_of
from numawise.apps.verify.sources import Seen, Stranger
from numawise.host.numamaps import DEFAULT, PageRange, Pages
from numawise.host.nvml import COMPUTES, OPENED, GpuUse
from numawise.host.placed import NO_NUMA, Placed, ProcessThread
from numawise.machine.hardware import Gpu, Hardware, Host, MemoryNode
from numawise.machine.hardware import Thread as Cpu
from numawise.render.verify import job_data, numa_table
from numawise.render.words import percent
from numawise.results.finding import Severity
from numawise.results.verification import (
    ALIGNED,
    NOT_ALIGNED,
    NOT_KNOWN,
    SPILLED,
    CheckedJob,
    JobGrant,
    Verdict,
)
from numawise.sets import bits_of, format_ids, ids_of, parse_ids

MIB, GIB = 1 << 20, 1 << 30
FAR = {0: ((0, 10), (1, 21)), 1: ((0, 21), (1, 10))}


def machine(nodes: str = "0-7 8-15", gpus: str = "0 1", **host: object) -> Hardware:
    """CPUs of each NUMA node; the node of each GPU, GPU*n* being at 0000:n0:00.0."""
    found = tuple(
        MemoryNode(at, parse_ids(text), memory=64 * GIB, distances=FAR.get(at, ()))
        for at, text in enumerate(nodes.split())
    )
    threads = tuple(Cpu(cpu, numa=node.id) for node in found for cpu in ids_of(node.cpus))
    cards = tuple(
        Gpu(f"GPU{i}", uuid=f"GPU-{i}", address=f"0000:{i}0:00.0", numa=(int(numa),))
        for i, numa in enumerate(gpus.split())
    )
    return Hardware(threads=threads, numa=found, gpus=cards, host=Host(**host))  # type: ignore[arg-type]


def process(
    threads: str = "0-7", memory: str = "anonymous 0=100", *, pid: int = 40, mems: str = "0-1", **more: object
) -> Placed:  # fmt: skip
    """Masks of its threads; parts such as ``anonymous 0=100 1=5 bind:0 /file#key``, sizes in MiB, ``;`` between."""
    parts = []
    for text in memory.split(";") if memory else ():
        kind, *words = text.split()
        sizes = tuple((int(w.split("=")[0]), int(w.split("=")[1]) * MIB) for w in words if w[0].isdigit())
        named = [w for w in words if w.startswith("/")]
        file, _, key = (named[0] if named else "").partition("#")
        policy = " ".join(w for w in words if not w[0].isdigit() and w[0] != "/") or DEFAULT
        parts.append(PageRange(kind, policy, file, key, sizes))
    return Placed(
        pid,
        "job",
        start=1000,
        threads=tuple(
            ProcessThread(pid + at, f"t{at}", parse_ids(cpus), next(ids_of(parse_ids(cpus))), start=1000 + at)
            for at, cpus in enumerate(threads.split())
        ),
        mems=parse_ids(mems),
        pages=Pages(tuple(parts)),
        **more,  # type: ignore[arg-type]
    )


def uses(text: str) -> tuple[GpuUse, ...]:
    """``40:1 41:0?``: process and number of its GPU, ``?`` when it has only opened it."""
    found = []
    for word in text.split():
        pid, _, number = word.rstrip("?").partition(":")
        found.append(GpuUse(int(pid), f"0000:{number}0:00.0", OPENED if word.endswith("?") else COMPUTES))
    return tuple(found)


def hold(cpus: str = "0-7", mems: str = "0", gpus: str = "", **more: object) -> JobGrant:
    addresses = frozenset(f"0000:{number}0:00.0" for number in gpus.split())
    return JobGrant(parse_ids(cpus), parse_ids(mems), addresses, **more)  # type: ignore[arg-type]


def codes(verdict: Verdict) -> str:
    """Findings by code: leaks plain, unknowns with ``?``, notes in brackets."""
    forms = {Severity.ERROR: "{}", Severity.WARNING: "{}?", Severity.INFO: "({})"}
    return " ".join(forms[finding.severity].format(finding.code) for finding in verdict.findings)


# --- with a grant -------------------------------------------------------------------------------


@pytest.mark.parametrize(("found", "wanted", "expected"), [
    pytest.param(process("0-7 0-7"),                  hold(),          "",                          id="aligned"),
    pytest.param(process("0 1 2 3 4 5 6 7"),          hold(),          "",                          id="a CPU each"),
    pytest.param(process("0-3"),                      hold(),          "(cpus-unused)",             id="narrower than the hold"),
    pytest.param(process("0-3"),                      hold(alone=False), "",                        id="narrower than the pool"),
    pytest.param(process("0-7 0-15"),                 hold(),          "threads-elsewhere",         id="a stray thread"),
    pytest.param(process("8-15"),                     hold(),          "threads-elsewhere (cpus-unused)", id="on the other node"),
    pytest.param(process("0-7,99"),                   hold(),          "",                          id="a CPU that is not online"),
    pytest.param(process(memory="anonymous 0=98 1=2"), hold(),         "",                          id="98 % local"),
    pytest.param(process(memory="anonymous 0=97 1=3"), hold(),         "memory-remote",             id="97 % local"),
    pytest.param(process(memory="anonymous 0=97 1=3"), hold(mems="0-1"), "",                        id="both nodes granted"),
    pytest.param(process(memory="anonymous 0=100;file 1=900 /model"), hold(), "(file-pages-remote)", id="page cache elsewhere"),
    pytest.param(process(memory="anonymous 0=100;file 1=9 /lib"), hold(), "",                       id="libraries elsewhere"),
    pytest.param(process(memory="anonymous 0=100;driver 1=900 /dev/nvidiactl"), hold(), "",         id="memory of a driver elsewhere"),
    pytest.param(process(memory="anonymous 0=10;shared 1=90 /dev/shm/x"), hold(), "memory-remote",  id="shared memory elsewhere"),
    pytest.param(process(memory="anonymous 0=10;huge 1=90"), hold(),   "memory-remote",             id="huge pages elsewhere"),
    pytest.param(process(memory=""),                  hold(),          "",                          id="no memory yet"),
    pytest.param(process(swapped=5 * MIB),            hold(),          "(swapped)",                 id="swapped"),
])  # fmt: skip
def test_a_hold(found: Placed, wanted: JobGrant, expected: str) -> None:
    bound = replace(found, mems=wanted.mems)
    verdict = grade(machine(), Seen((bound,)), wanted)
    assert codes(verdict) == expected
    leaks = [word for word in expected.split() if not word.startswith("(")]
    assert verdict.aligned is (not leaks)


@pytest.mark.parametrize(("memory", "policy", "expected"), [
    pytest.param("anonymous 0=60 1=40 prefer:0",  "preferred",  "memory-spilled",   id="spilled"),
    pytest.param("anonymous 1=100 prefer:0",      "preferred",  "memory-spilled",   id="all of it"),
    pytest.param("anonymous 1=100",               "preferred",  "memory-spilled",   id="all of it, and no policy any more"),
    pytest.param("anonymous 0=97 1=3 prefer:0",   "preferred",  "memory-spilled",   id="97 % local"),
    pytest.param("anonymous 0=98 1=2 prefer:0",   "preferred",  "",                 id="98 % local"),
    pytest.param("shared 1=90 /dev/shm/x;anonymous 0=10 prefer:0", "preferred", "memory-spilled", id="shared memory"),
    pytest.param("anonymous 0=10 prefer:0;file 1=9 /lib;driver 1=90 /dev/nvidiactl", "preferred", "", id="libraries and drivers"),
    pytest.param("",                              "preferred",  "",                 id="no memory yet"),
    pytest.param("anonymous 0=99 1=1 prefer:0",   "preferred",  "",                 id="hardly any"),
    pytest.param("anonymous 0=60 1=40 prefer:0",  "bind",       "memory-remote",    id="not with memory that is bound"),
    pytest.param("anonymous 0=60 1=40 bind:1",    "preferred",  "memory-remote",    id="put there by the program"),
    pytest.param("anonymous 0=60 1=40",           "interleave", "memory-spilled",   id="beyond the nodes it is interleaved over"),
])  # fmt: skip
def test_memory_that_may_spill(memory: str, policy: str, expected: str) -> None:
    verdict = grade(machine(), Seen((process(memory=memory, mems="0"),)), hold(memory_policy=policy))
    assert codes(verdict) == expected
    assert verdict.grade == {"memory-spilled": SPILLED, "memory-remote": NOT_ALIGNED, "": ALIGNED}[expected]
    assert verdict.aligned is (expected == "")


def test_where_memory_has_spilled_to() -> None:
    verdict = grade(
        machine(),
        Seen((process(memory="anonymous 0=60 1=40 prefer:0", mems="0-1"),)),
        hold(memory_policy="preferred"),
    )
    assert verdict.sentence == (
        "spilled: 60 % of 100 MiB lies on NUMA 0, the rest on NUMA 1, as its policy allows"
    )
    assert verdict.findings[0].fix.endswith("to move what is there: migratepages 40 1 0")
    data = job_data(CheckedJob("", verdict, wanted=hold(memory_policy="preferred")))
    assert (data["verdict"], data["aligned"], data["memory"]["share"]) == ("spilled", False, 0.6)


@pytest.mark.parametrize(("nodes", "granted", "memory", "expected"), [
    pytest.param("0-7",      "0",   "anonymous 0=100",       ALIGNED,     id="one NUMA node"),
    pytest.param("0-7 8-15", "0-1", "anonymous 0=9 1=91",    ALIGNED,     id="interleaved over what was granted"),
    pytest.param("0-7 8-15", "",    "anonymous 1=100",       NOT_ALIGNED, id="no memory granted: that of its CPUs counts"),
    pytest.param("0-7 8-15", "",    "anonymous 0=100",       ALIGNED,     id="no memory granted, and it is near"),
])  # fmt: skip
def test_what_has_not_spilled(nodes: str, granted: str, memory: str, expected: str) -> None:
    wanted = hold(mems=granted, memory_policy="interleave" if granted == "0-1" else "preferred")
    assert grade(machine(nodes, gpus=""), Seen((process(memory=memory),)), wanted).grade == expected


def test_spilled_memory_of_several_processes_counts_together() -> None:
    large = process(memory="anonymous 0=990 prefer:0", mems="0")
    for size, expected in ((9, ALIGNED), (90, SPILLED)):
        small = process(memory=f"anonymous 1={size} prefer:0", mems="0", pid=41)
        verdict = grade(machine(), Seen((large, small)), hold(memory_policy="preferred"))
        assert verdict.grade == expected


def test_the_worst_wins_over_spilled_memory() -> None:
    astray = process("0-15", "anonymous 1=100 prefer:0", mems="0")
    verdict = grade(machine(), Seen((astray,)), hold(memory_policy="preferred"))
    assert verdict.grade == NOT_ALIGNED
    assert verdict.sentence == (
        "not aligned: 1 thread may run outside CPUs 0-7; 0 % of 100 MiB lies on NUMA 0, the rest on NUMA 1, "
        "as its policy allows"
    )


@pytest.mark.parametrize("policy", ["bind", "preferred"])
@pytest.mark.parametrize(("unread", "known"), [(100, True), (4900, False)])
def test_pages_that_may_not_be_read_may_all_be_local(policy: str, unread: int, known: bool) -> None:  # noqa: FBT001
    hidden = process(pid=41, mems="0")
    hidden = replace(
        hidden, pages=None, pages_problem="its pages cannot be read", sizes=(("anonymous", unread * MIB),)
    )
    far = process(memory="anonymous 1=100 prefer:0", mems="0")
    verdict = grade(machine(), Seen((far, hidden)), hold(memory_policy=policy))
    worst = {"bind": NOT_ALIGNED, "preferred": SPILLED}[policy]
    assert verdict.grade == (worst if known else NOT_KNOWN)


def test_lines_that_make_no_sense_leave_it_unknown() -> None:
    found = process()
    assert found.pages
    garbled = replace(found, pages=replace(found.pages, garbled=2))
    verdict = grade(machine(), Seen((garbled,)), hold())
    assert (verdict.grade, codes(verdict)) == (NOT_KNOWN, "memory-garbled? (memory-unbound)")
    only = grade(machine("0-7", gpus=""), Seen((garbled,)), hold())
    assert (only.grade, codes(only)) == (ALIGNED, "(memory-garbled)")


@pytest.mark.parametrize(("mems", "memory", "loose"), [
    ("0",   "anonymous 0=9",        False),
    ("0-1", "anonymous 0=9",        True),
    ("0-1", "anonymous 0=9 bind:0", False),
    ("0-1", "anonymous 0=9 local",  True),
    ("0-1", "anonymous 0=9 prefer:0", False),
])  # fmt: skip
def test_memory_that_nothing_binds(mems: str, memory: str, loose: bool) -> None:  # noqa: FBT001
    verdict = grade(machine(), Seen((process(memory=memory, mems=mems),)), hold())
    assert codes(verdict) == ("(memory-unbound)" if loose else "")
    assert verdict.aligned


@pytest.mark.parametrize(("using", "granted", "foreign", "expected"), [
    pytest.param("40:0",       "0",   "",  "",                     id="its own"),
    pytest.param("40:0 40:1",  "0 1", "",  "gpu-far",              id="granted, and far"),
    pytest.param("40:0 40:2",  "0",   "",  "gpu-not-held",         id="near, and not granted"),
    pytest.param("40:0 40:2",  "0",   "2", "gpu-of-another",       id="another's"),
    pytest.param("40:1",       "",    "1", "gpu-far gpu-of-another", id="far and another's"),
    pytest.param("",           "0",   "",  "",                     id="not used yet"),
])  # fmt: skip
@pytest.mark.parametrize("how", ["computes", "opened, and nothing lists"])
def test_gpus_of_a_hold(using: str, granted: str, foreign: str, expected: str, how: str) -> None:
    computes = how == "computes"
    given = uses(using if computes else " ".join(f"{word}?" for word in using.split()))
    others = {f"0000:{number}0:00.0": "hold c2345" for number in foreign.split()}
    seen = Seen((process(mems="0"),), given, listed=computes, foreign=others)
    assert codes(grade(machine(gpus="0 1 0"), seen, hold(gpus=granted))) == expected


def test_gpus_that_are_only_looked_at() -> None:
    """A monitor opens all device files; where the driver lists processes, that means nothing."""
    seen = Seen((process(mems="0"),), uses("40:0 40:1? 40:2?"), listed=True)
    verdict = grade(machine(gpus="0 1 0"), seen, hold(gpus="0"))
    assert codes(verdict) == ""
    assert [(gpu.name, gpu.how, gpu.used) for gpu in verdict.gpus] == [
        ("GPU0", "computes", True),
        ("GPU1", "opened", False),
        ("GPU2", "opened", False),
    ]
    assert verdict.sentence.endswith("GPU0 on NUMA 0")


def test_surroundings() -> None:
    busy = (Stranger(70, 71, "stress", 3, 0.934), Stranger(80, 80, "cc1", 4, 0.5, "hold c2345 (build)"))
    seen = Seen((process(mems="0"),), strangers=busy, overlaps=((0b1100, "hold d2345 (other)"),))
    verdict = grade(machine(numa_balancing=True), seen, hold())
    assert codes(verdict) == "cpus-granted-twice (cpus-shared) (numa-balancing)"
    assert verdict.sentence == "not aligned: CPUs 2-3 granted to hold d2345 (other), too"
    assert verdict.findings[1].why.split("; ") == [
        "stress (70/71): 93.4 % of CPU 3",
        "cc1 (80) of hold c2345 (build): 50 % of CPU 4",
    ]


def test_sentences() -> None:
    many = process("2-9 " * 12, "anonymous 0=3270 1=7", mems="0")
    wanted = hold("2-9", gpus="0")
    verdict = grade(machine("0-15 16-31"), Seen((many,), uses("40:0"), listed=True), wanted)
    assert verdict.sentence == (
        "aligned: 12 threads on CPUs 2-9 (NUMA 0), 99.7 % of 3.2 GiB on NUMA 0, GPU0 on NUMA 0"
    )
    astray = process("2-9 0-31", "anonymous 0=2048 1=1024", mems="0")
    verdict = grade(machine("0-15 16-31"), Seen((astray,), uses("40:1"), listed=True), wanted)
    assert verdict.sentence == (
        "not aligned: 1 of 2 threads may run outside CPUs 2-9; 33.4 % of 3 GiB lies on NUMA 1; "
        "GPU1 is on NUMA 1 and the job on NUMA 0; GPU1 is not part of the hold"
    )


# --- why ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("threads", "more", "wanted", "why"), [
    pytest.param("0-15 0-15", {}, hold(), "t0 (40), t1 (40/41): CPUs 0-15; its process was never bound", id="never"),
    pytest.param("8-9", {}, hold(), "t0 (40): CPUs 8-9; its process is bound elsewhere", id="elsewhere"),
    pytest.param("0-7 0-15", {}, hold(),
                 "t1 (40/41): CPUs 0-15; its process is bound: it was started before that, or moved itself", id="moved"),
    pytest.param("0-7 0-15", {}, hold(since=5000.0),
                 "t1 (40/41): CPUs 0-15; it was started before the hold, and binding its process did not reach it",
                 id="older than the hold"),
    pytest.param("0-7 0-15", {}, hold(since=1010.0),
                 "t1 (40/41): CPUs 0-15; its process is bound: it was started before that, or moved itself",
                 id="younger than the hold"),
    pytest.param("0-15", {"groups": ("/elsewhere",)}, hold(group="/sys/fs/cgroup/numawise/b2345"),
                 "t0 (40): CPUs 0-15; its process is not in the hold's control group", id="outside"),
    pytest.param("0-15", {"groups": ("/numawise/b2345",)}, hold(group="/sys/fs/cgroup/numawise/b2345"),
                 "t0 (40): CPUs 0-15; its process was never bound", id="inside"),
    pytest.param("0-15 " * 7, {}, hold(),
                 "t0 (40), t1 (40/41), t2 (40/42), t3 (40/43) and 3 more: CPUs 0-15; its process was never bound",
                 id="many"),
])  # fmt: skip
def test_why_threads_stray(threads: str, more: dict[str, object], wanted: JobGrant, why: str) -> None:
    seen = Seen((process(threads, mems="0", **more),), boot=1001.0)  # type: ignore[arg-type]
    (finding,) = [one for one in grade(machine(), seen, wanted).findings if one.code == "threads-elsewhere"]
    assert finding.why == why


@pytest.mark.parametrize(("memory", "mems", "why"), [
    ("anonymous 1=50",                 "0",   "made before its control group kept it off NUMA 1, or moved there later"),
    ("anonymous 1=50 bind:0",          "0-1", "made before its memory was bound to NUMA 0, or moved there later"),
    ("anonymous 1=50 bind=static:0",   "0-1", "made before its memory was bound to NUMA 0, or moved there later"),
    ("anonymous 1=50 bind:1",          "0-1", "put there by the program itself (policy bind:1)"),
    ("anonymous 1=50 prefer:1",        "0-1", "put there by the program itself (policy prefer:1)"),
    ("anonymous 1=50 prefer (many):0", "0-1", "NUMA 0 is only preferred, or became so later, or the pages were moved"),
    ("anonymous 1=50 interleave:0-1",  "0-1", "spread by the program itself (policy interleave:0-1)"),
    ("anonymous 1=50 weighted interleave:0-1", "0-1", "spread by the program itself (policy weighted interleave:0-1)"),
    ("shared 1=50 /dev/shm/x",         "0",   "shared memory lies where it was first touched, by whichever process"),
    ("anonymous 1=50",                 "0-1", "nothing binds its memory: the thread that first touched it ran elsewhere, memory was short, or the pages were moved later"),
])  # fmt: skip
def test_why_memory_is_remote(memory: str, mems: str, why: str) -> None:
    verdict = grade(machine(), Seen((process(memory=memory, mems=mems),)), hold())
    (remote,) = verdict.amounts.remote
    assert (remote.numa, remote.size, remote.reason) == (1, 50 * MIB, why)


def test_files_that_lie_elsewhere_are_named() -> None:
    memory = "anonymous 0=9;file 1=700 /a#1;file 1=40 /b#2;file 1=300 /c#3;file 1=500 /d#4"
    (finding,) = grade(machine(), Seen((process(memory=memory, mems="0"),)), hold()).findings
    assert finding.message == "1.5 GiB of file pages lie on NUMA 1"
    assert finding.why == (
        "NUMA 1: /a (700 MiB), /d (500 MiB), /c (300 MiB), put there by their first reader"
    )


def test_a_full_node_is_told() -> None:
    seen = Seen((process(memory="anonymous 0=50 1=50"),), free={0: 100 * MIB, 1: 30 * GIB})
    (finding,) = [one for one in grade(machine(), seen, hold()).findings if one.code == "memory-remote"]
    assert finding.why.split("; ")[-1] == "NUMA 0 is nearly full now: 100 MiB of 64 GiB free"
    assert "migratepages 40 1 0" in finding.fix


# --- without a grant ------------------------------------------------------------------------------


@pytest.mark.parametrize(("found", "using", "expected"), [
    pytest.param(process("0-7 0-7"),                              "",     "",                  id="bound to a node"),
    pytest.param(process("3"),                                    "",     "",                  id="bound to a CPU"),
    pytest.param(process("0-7", "anonymous 0=50 1=50"),           "",     "memory-remote",     id="half of it elsewhere"),
    pytest.param(process("0-15 0-15"),                            "",     "unbound",           id="nothing bound"),
    pytest.param(process("0-7 0-15"),                             "",     "threads-elsewhere", id="a stray thread"),
    pytest.param(process("0-7 8-15", "anonymous 0=50 1=50"),      "",     "(spans-all)",       id="threads on both nodes"),
    pytest.param(process("0-7 8-15 0-15"),                        "",     "(spans-all)",       id="all nodes are its own"),
    pytest.param(process("1-15", "anonymous 0=50 1=50"),          "",     "(spans-all)",       id="all but one CPU"),
    pytest.param(process("0-7"),                                  "40:0", "",                  id="near GPU"),
    pytest.param(process("0-7"),                                  "40:1", "gpu-far",           id="far GPU"),
    pytest.param(process("0-7"),                                  "40:0 40:1", "gpu-far",      id="one of two is far"),
    pytest.param(process("0-15", "anonymous 0=100"),              "40:1", "unbound memory-remote", id="it belongs to its GPU"),
    pytest.param(process("0-15", "anonymous 1=100"),              "40:1", "unbound",           id="memory at its GPU"),
])  # fmt: skip
def test_a_bare_process(found: Placed, using: str, expected: str) -> None:
    assert codes(grade(machine(), Seen((found,), uses(using), listed=True))) == expected


def test_isolated_cpus_are_nobody_s() -> None:
    assert codes(grade(machine(isolated=parse_ids("6-7")), Seen((process("0-5,8-15"),)))) == "unbound"


def test_ranks_are_compared_each_with_itself() -> None:
    ranks = (
        process("0-7", "anonymous 0=100", pid=40),
        process("8-15", "anonymous 1=100", pid=50),
    )
    verdict = grade(machine(), Seen(ranks, uses("40:0 50:1"), listed=True))
    assert verdict.sentence == (
        "aligned: 2 threads of 2 processes on CPUs 0-15 (NUMA 0-1), 100 % of 200 MiB on its own NUMA nodes, "
        "GPU0 on NUMA 0, GPU1 on NUMA 1"
    )
    crossed = Seen(ranks, uses("40:1 50:0"), listed=True)
    assert codes(grade(machine(), crossed)) == "gpu-far gpu-far"
    swapped = (ranks[0], replace(ranks[1], pages=ranks[0].pages))
    assert codes(grade(machine(), Seen(swapped))) == "memory-remote"


def test_common_memory_is_counted_once() -> None:
    first = process("0-7", "anonymous 0=10;shared 0=100 /dev/shm/x#00:01:7;file 0=30 /lib#fe:00:1", pid=40)
    second = process(
        "0-7", "anonymous 0=10;shared 0=60 1=50 /dev/shm/x#00:01:7;file 0=30 /lib#fe:00:1", pid=50
    )
    verdict = grade(machine(), Seen((first, second)))
    assert {numa: dict(kinds) for numa, kinds in verdict.amounts.table} == {
        0: {"anonymous": 20 * MIB, "shared": 100 * MIB, "file": 30 * MIB},
        1: {"shared": 50 * MIB},
    }
    assert (verdict.amounts.own, verdict.amounts.local) == (170 * MIB, 120 * MIB)


def test_common_memory_is_local_to_any_who_map_it() -> None:
    ranks = (
        process("0-7", "shared 0=50 1=50 /dev/shm/x#00:01:7", pid=40),
        process("8-15", "shared 0=50 1=50 /dev/shm/x#00:01:7", pid=50),
    )
    assert codes(grade(machine(), Seen(ranks))) == ""


def test_memory_of_its_gpu_is_local() -> None:
    grace = machine(gpus="0")
    grace = replace(
        grace,
        gpus=(replace(grace.gpus[0], own_numa=2),),
        numa=(*grace.numa, MemoryNode(2, memory=96 * GIB, distances=((0, 80), (1, 120), (2, 10)))),
    )
    found = process("0-7", "anonymous 0=50 2=50", mems="0-2")
    assert codes(grade(grace, Seen((found,), uses("40:0"), listed=True))) == ""
    assert codes(grade(grace, Seen((found,)))) == "memory-remote"


# --- what is not known ----------------------------------------------------------------------------


def test_pages_that_may_not_be_read() -> None:
    hidden = replace(process(), pages=None, pages_problem="its pages cannot be read: Permission denied")
    hidden = replace(hidden, sizes=(("anonymous", 300 * MIB), ("file", 20 * MIB)))
    verdict = grade(machine(), Seen((hidden,)), hold())
    assert (verdict.aligned, codes(verdict)) == (None, "memory-unread?")
    assert verdict.sentence == (
        "not known: where 320 MiB of job (40) lie; otherwise 1 thread on CPUs 0-7 (NUMA 0)"
    )
    astray = replace(hidden, threads=process("0-15").threads)
    assert grade(machine(), Seen((astray,)), hold()).aligned is False


def test_one_numa_node_leaves_nothing_unknown() -> None:
    hidden = replace(process("0-3", mems="0"), pages=None, pages_problem=NO_NUMA)
    hidden = replace(hidden, sizes=(("anonymous", 300 * MIB), ("file", 20 * MIB)))
    verdict = grade(machine("0-7", gpus=""), Seen((hidden,)))
    assert verdict.sentence == "aligned: 1 thread on CPUs 0-3 (NUMA 0), 100 % of 300 MiB on NUMA 0"
    assert verdict.amounts.table == ((0, (("anonymous", 300 * MIB), ("file", 20 * MIB))),)


def test_a_machine_without_numa_nodes() -> None:
    hardware = Hardware(threads=tuple(Cpu(cpu) for cpu in range(4)))
    assert grade(hardware, Seen((process("0-3", mems="0"),))).sentence == (
        "aligned: 1 thread on CPUs 0-3, 100 % of 100 MiB on NUMA 0"
    )
    assert codes(grade(hardware, Seen((process("0-3", mems="0"),)), hold("0-1"))) == "threads-elsewhere"


def test_gpus_that_may_not_be_read() -> None:
    seen = Seen((process(mems="0", devices_problem="its open files cannot be read: Permission denied"),))
    verdict = grade(machine(), seen, hold())
    assert (verdict.aligned, codes(verdict)) == (True, "(gpus-unread)")


def test_a_gpu_without_a_place() -> None:
    seen = Seen((process(mems="0"),), (GpuUse(40, "", OPENED, "/dev/nvidia3"),))
    verdict = grade(machine(), seen, hold())
    assert codes(verdict) == "(gpu-unplaced)"
    assert verdict.gpus[0].name == "/dev/nvidia3"


# --- words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("share", "down", "up"), [
    (1.0,     "100 %",  "100 %"),
    (0.99999, "99.9 %", "100 %"),
    (0.98,    "98 %",   "98 %"),
    (0.29,    "29 %",   "29 %"),
    (0.00001, "0 %",    "0.1 %"),
    (0.0,     "0 %",    "0 %"),
])  # fmt: skip
def test_percent(share: float, down: str, up: str) -> None:
    assert (percent(share), percent(share, up=True)) == (down, up)


@pytest.mark.parametrize(("text", "mode", "nodes"), [
    ("default",                  "default",             ""),
    ("bind:0-1,3",               "bind",                "0-1,3"),
    ("bind=static:2",            "bind",                "2"),
    ("prefer (many):1",          "prefer (many)",       "1"),
    ("weighted interleave:0-7",  "weighted interleave", "0-7"),
    ("bind:rubbish",             "bind",                ""),
])  # fmt: skip
def test_policies(text: str, mode: str, nodes: str) -> None:
    found = policy_of(text)
    assert (found[0], format_ids(found[1])) == (mode, nodes)


def test_as_data_and_as_a_table() -> None:
    found = process("0-7", "anonymous 0=100 1=50;file 1=7 /x\x1b[31m;driver 0=2 /dev/nvidiactl")
    verdict = grade(machine(), Seen((found,)), hold())
    columns, rows = numa_table(verdict)
    assert columns == ("NUMA", "ANONYMOUS", "DRIVER", "FILE", "TOTAL", "")
    assert rows == [
        ("0", "100 MiB", "2 MiB", "-", "102 MiB", "local"),
        ("1", "50 MiB", "-", "7 MiB", "57 MiB", "remote"),
    ]
    data = job_data(CheckedJob("process 40 (\x1b[31mjob)", verdict, pid=40, wanted=hold()))
    assert data["label"] == r"process 40 (\x1b[31mjob)"
    assert data["memory"]["share"] == 0.666667
    assert data["memory"]["numa"]["1"] == {"anonymous": 50 * MIB, "file": 7 * MIB}
    assert data["granted"] == {
        "cpus": "0-7",
        "exclusive": True,
        "mems": "0",
        "memoryPolicy": "bind",
        "gpus": [],
    }
    assert [finding["code"] for finding in data["findings"]] == ["memory-remote", "memory-unbound"]
    assert bits_of([0]) == verdict.mems


@pytest.mark.parametrize(
    ("fence", "stands", "severity", "words"),
    [
        ("rules", True, Severity.INFO, "device rules keep it from GPUs of others"),
        ("rules", None, Severity.INFO, "as its hold says; only root can look"),
        ("rules", False, Severity.ERROR, "are gone"),
        ("variables", None, Severity.INFO, "hidden by variables, which the job could change"),
    ],
)
def test_what_fences_its_gpus(fence: str, stands: bool | None, severity: Severity, words: str) -> None:  # noqa: FBT001
    verdict = grade(machine(), Seen((process(mems="0"),), fence=fence, fence_stands=stands), hold())
    (finding,) = verdict.findings
    assert finding.severity is severity
    assert words in finding.message
    assert verdict.aligned is (severity is Severity.INFO)
