"""Checks of ``numawise run`` as a user types it: the job reports where it is, the ledger says where it should be."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from numawise.host import confine, mempolicy
from numawise.sets import format_ids, ids_of, parse_ids
from tests.vm.guest import USER, Guest, Skip
from tests.waiting import until

ENOUGH = 0.98
JOB = """
import json, os, threading, time
block = bytearray(24 << 20)
for at in range(0, len(block), 4096): block[at] = 1
stop = threading.Event()
threads = [threading.Thread(target=stop.wait) for _ in range(3)]
for thread in threads: thread.start()
masks = sorted({line.split()[1] for t in os.listdir("/proc/self/task")
    for line in open(f"/proc/self/task/{t}/status") if line.startswith("Cpus_allowed_list")})
pages = {}
for line in open("/proc/self/numa_maps"):
    if "file=" not in line:
        for word in line.split():
            if word[0] == "N" and "=" in word:
                node, count = word[1:].split("=")
                pages[int(node)] = pages.get(int(node), 0) + int(count)
stop.set()
told = {name: value for name, value in os.environ.items() if name.startswith(("NUMAWISE", "CUDA", "OMP"))}
print(json.dumps({"masks": masks, "pages": pages, "environment": told}))
"""


@contextmanager
def ledger(user: int | None = None) -> Iterator[dict[str, str]]:
    """An environment with a ledger of the check's own."""
    with tempfile.TemporaryDirectory() as folder:
        if user is not None:
            os.chown(folder, user, user)
        yield {**os.environ, "NUMAWISE_LEDGER": f"{folder}/ledger.db", "HOME": folder}


def numawise(
    environment: dict[str, str],
    *words: str,
    user: int | None = None,
    before: Callable[[], object] | None = None,
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "numawise", *words],
        env=environment, user=user, preexec_fn=before, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip


def placed(
    environment: dict[str, str],
    *words: str,
    user: int | None = None,
    before: Callable[[], object] | None = None,
) -> dict[str, object]:
    """Run the job that tells where it is; check it against what it was granted."""
    job = ("--", sys.executable, "-c", JOB)
    done = numawise(environment, "run", "--name", "job", *words, *job, user=user, before=before)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    pages = {int(node): count for node, count in seen["pages"].items()}
    mems = parse_ids(seen["environment"]["NUMAWISE_MEMS"])
    share = sum(count for node, count in pages.items() if mems >> node & 1) / sum(pages.values())
    assert share >= ENOUGH, f"{share:.1%} of {pages} on NUMA {format_ids(mems)}"
    cpus = seen["environment"].get("NUMAWISE_CPUS")
    assert cpus is None or seen["masks"] == [cpus], seen
    assert json.loads(numawise(environment, "ps", "-o", "json", user=user).stdout)["holds"] == []
    return {"cpus": cpus, "masks": seen["masks"], "mems": mems, "share": share, "said": done.stderr}


def runs_where_it_was_put(guest: Guest) -> str:
    """In a control group: one CPU, a node's worth, more than a node."""
    told = []
    node = max(cpus.bit_count() for cpus in guest.cpus)
    with ledger() as environment:
        for count in (1, node, node + 1):
            found = placed(environment, "--mode", "cgroup", "--cpus", str(count))
            assert parse_ids(str(found["cpus"])).bit_count() == count
            told.append(f"{found['cpus']}: {found['share']:.1%}")
    return "; ".join(told)


def keeps_within_what_it_was_started_with(guest: Guest) -> str:
    """``taskset`` and ``numactl --membind`` outside: CPUs and memory stay there, together or crosswise."""
    if len(guest.cpus) < 2 or not guest.cpus[1] or guest.with_memory & 3 != 3:
        raise Skip("needs two NUMA nodes with CPUs and memory")
    told = []
    wishes = (
        ("cgroup", "--cpus", "1"),
        ("affinity",),
        ("cgroup", "--memory", "32m"),
        ("affinity", "--cpus", "1"),
    )
    for (at, mems), (mode, *words) in zip(((1, 2), (1, 1), (1, 0), (0, 2)), wishes, strict=True):

        def outside(at: int = at, mems: int = mems) -> None:
            os.sched_setaffinity(0, set(ids_of(guest.cpus[at])))
            if mems:
                mempolicy.bind_memory(mems)

        with ledger() as environment:
            found = placed(environment, "--mode", mode, *words, before=outside)
        (mask,) = found["masks"]  # type: ignore[misc]
        assert not parse_ids(mask) & ~guest.cpus[at], (words, found)
        assert not mems or found["mems"] == mems, (words, found)
        assert "kept within what this was started with: CPUs" in str(found["said"]), found
        told.append(f"CPUs {mask}, NUMA {format_ids(int(str(found['mems'])))}")
    with ledger() as environment:
        whole = guest.all_cpus.bit_count()
        wish = ("--cpus", str(whole // 2 + 1))
        refused = numawise(environment, "run", *wish, "--", "true", before=outside)
        assert refused.returncode == 2, refused
        assert "--ignore-affinity" in refused.stderr, refused
        placed(environment, *wish, "--ignore-affinity", before=outside)
    return "; ".join(told)


def ranks_beside_a_job(guest: Guest) -> str:
    """``bind`` while another job holds CPUs and, where there are some, a GPU of the first node."""
    with ledger() as environment:
        dry = numawise(environment, "run", "--gpus", "1", "--dry-run", "--", "true")
        gpu = () if "no usable GPU was found" in dry.stderr else ("--gpu-ids", "0")
        words = ("run", "-q", "--cpus", "2", *gpu, "--name", "other", "--", "sleep", "1000")
        with subprocess.Popen([sys.executable, "-m", "numawise", *words], env=environment):
            held: list[dict[str, str]] = []

            def is_there() -> bool:
                held[:] = json.loads(numawise(environment, "ps", "-o", "json").stdout)["holds"]
                return bool(held)

            until(is_there, "the hold of the other job")
            theirs = parse_ids(held[0]["cpus"])
            size = ("--local-size", str(len(guest.cpus)))
            shown = json.loads(numawise(environment, "bind", "--dry-run", *size, "-o", "json").stdout)
            strict = numawise(environment, "bind", "--strict", *size, "--local-rank", "0", "--", "true")
            numawise(environment, "release", "--kill", "other")
        ranks = [parse_ids(rank["cpus"]) for rank in shown["ranks"]]
        assert all(cpus and not cpus & theirs for cpus in ranks), shown
        assert gpu or sum(ranks) == guest.all_cpus & ~theirs, shown
        said = " ".join(shown["remarks"])
        assert f"{format_ids(theirs)} by root (other, " in said, shown
        assert ("GPU0 is held by root (other, " in said) == bool(gpu), shown
        assert strict.returncode == (1 if gpu else 0), strict
    return f"CPUs {format_ids(theirs)} left out; {len(gpu) // 2} GPU named"


def runs_without_rights(guest: Guest) -> str:
    """The same as an unprivileged user, by affinity."""
    told = []
    with ledger(USER) as environment:
        for count in (1, max(cpus.bit_count() for cpus in guest.cpus)):
            found = placed(environment, "--cpus", str(count), user=USER)
            assert "kept by affinity" in str(found["said"])
            told.append(f"{found['cpus']}: {found['share']:.1%}")
    return "; ".join(told)


def gpus_and_their_node(guest: Guest) -> str:
    """Two GPUs come from one switch, and CPUs and memory from its node."""
    with ledger() as environment:
        words = ("--gpus", "2", "--cpus", "2", "--dry-run", "-o", "json", "--", "true")
        done = numawise(environment, "run", *words)
        if "no usable GPU was found" in done.stderr:
            raise Skip("no GPUs")
        preview = json.loads(done.stdout)
        addresses = [gpu["address"] for gpu in preview["gpus"]]
        bridges = {
            str(Path(f"/sys/bus/pci/devices/{address}").resolve().parent.parent) for address in addresses
        }
        nodes = {int(Path(f"/sys/bus/pci/devices/{address}/numa_node").read_text()) for address in addresses}
        assert len(addresses) == 2
        assert len(bridges) == 1, f"GPUs {addresses} hang below {bridges}"
        assert parse_ids(preview["mems"]) == sum(1 << node for node in nodes), preview
        assert all(
            any(guest.cpus[node] >> cpu & 1 for node in nodes) for cpu in ids_of(parse_ids(preview["cpus"]))
        )
        found = placed(environment, "--gpus", "2", "--cpus", "2")
        return f"GPUs {' '.join(addresses)}, CPUs {found['cpus']}, {found['share']:.1%}"


def nobody_else_on_isolated_cpus(guest: Guest) -> str:  # noqa: ARG001 - the shape of a check
    """``--isolate``: others, root included, are kept off the CPUs while the job runs."""
    with ledger() as environment:
        script = "cat /proc/1/status | grep Cpus_allowed_list; sleep 1"
        done = numawise(environment, "run", "--isolate", "--cpus", "1", "--", "sh", "-c", script)
        assert done.returncode == 0, done.stderr
        others = parse_ids(done.stdout.split()[1])
        own = parse_ids(done.stderr.split("CPUs ")[1].split(",")[0])
        assert own.bit_count() == 1
        assert not others & own, done.stdout + done.stderr
        return f"job on {format_ids(own)}, others on {format_ids(others)}"


def mode_of_choice(guest: Guest) -> str:  # noqa: ARG001 - the shape of a check
    """Root gets the best way this machine has, and is told which."""
    with ledger() as environment:
        said = str(placed(environment, "--cpus", "1")["said"])
        assert f"kept by {confine.choose()}" in said, said
        return said.rpartition("kept by ")[2].strip()
