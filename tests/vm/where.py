"""Checks of saying where on real NUMA nodes: what was named is what the job gets, and what others do not."""

import subprocess
import sys
from pathlib import Path

from numawise.sets import format_ids, ids_of, parse_ids
from tests.vm.guest import Guest
from tests.vm.running import ledger, numawise, placed
from tests.waiting import until


def named_nodes(guest: Guest) -> str:
    """A node's shared CPUs, one CPU of it alone, all of it; memory from there each time."""
    told = []
    with ledger() as environment:
        environment["NUMAWISE_RESERVED_CPUS"] = "none"
        for node, cpus in enumerate(guest.cpus):
            if not cpus:
                refused = numawise(environment, "run", "--numa", str(node), "--", "true")
                assert refused.returncode == 2, refused
                assert f"NUMA node {node} has memory, but no CPU to run on" in refused.stderr
                continue
            for words in ((), ("--cpus", "1"), ("--exclusive",)):
                where = placed(environment, "--mode", "cgroup", "--numa", str(node), *words)
                (mask,) = where["masks"]  # type: ignore[misc]
                assert not parse_ids(mask) & ~cpus, (words, where)
                assert where["mems"] == 1 << guest.near(node), where
                assert words == ("--cpus", "1") or parse_ids(mask) == cpus, where
            told.append(f"NUMA {node}: {where['share']:.1%}")
    return "; ".join(told)


def named_cpus(guest: Guest) -> str:
    """The last CPU of each node, all at once."""
    lasts = [1 << cpus.bit_length() - 1 for cpus in guest.cpus if cpus]
    with ledger() as environment:
        where = placed(environment, "--mode", "cgroup", "--cpu-ids", format_ids(sum(lasts)))
    assert where["cpus"] == format_ids(sum(lasts)), where
    return str(where["cpus"])


def whole_node(guest: Guest) -> str:
    """Whoever has a node alone is joined by nobody; the shared pool is elsewhere."""
    node = max(node for node, cpus in enumerate(guest.cpus) if cpus)
    own = guest.cpus[node]
    with ledger() as environment:
        environment["NUMAWISE_RESERVED_CPUS"] = "none"
        root = Path(__file__).parents[2]
        words = ("run", "--exclusive", "--numa", str(node), "--name", "alone", "--", "sleep", "3600")
        holder = subprocess.Popen([sys.executable, "-m", "numawise", *words], env=environment, cwd=root)
        try:
            until(lambda: "alone" in numawise(environment, "ps", "-o", "name").stdout.split(), "no hold")
            for some in (
                ("--cpu-ids", str(next(ids_of(own)))),
                ("--numa", str(node)),
                ("--exclusive", "machine"),
            ):
                refused = numawise(environment, "run", *some, "--", "true")
                assert refused.returncode == 1, refused
                assert "alone (" in refused.stderr, refused
            shared = numawise(environment, "run", "--", "grep", "Cpus_allowed_list", "/proc/self/status")
            assert not parse_ids(shared.stdout.split()[1]) & own, shared
        finally:
            holder.terminate()
            holder.wait()
    return f"CPUs {format_ids(own)}"
