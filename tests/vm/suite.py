"""Run every check in the guest, and tell each outcome as a line of JSON.

    python -m tests.vm.suite KIND [NAME…]

KIND is ``v2``, ``v1`` or ``systemd``: what keeps jobs on this machine.  To add a check, write a function that takes a
``Guest`` and returns what it saw (it raises when that is wrong, and ``Skip`` where the machine cannot show it),
and add a line to ``CHECKS``.
"""

import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from tests.vm import boxes, confining, inside, memory, running, scopes, units, verifying, watching, where
from tests.vm.guest import Guest, Skip, read_guest

V2, V1, SYSTEMD = "v2", "v1", "systemd"


@dataclass(frozen=True, slots=True)
class Check:
    """Something that must hold in the guest."""

    name: str
    function: Callable[[Guest], str]
    kinds: tuple[str, ...] = (V2, V1)


# fmt: off
CHECKS = (
    Check("job keeps to CPUs and nodes in a control group", confining.cgroup_places),
    Check("job keeps to CPUs and nodes by affinity",        confining.affinity_places),
    Check("the same without any rights",                    confining.affinity_places_unprivileged),
    Check("memory limit",                                   confining.memory_limit),
    Check("CPU limit",                                      confining.cpu_limit),
    Check("shared pool shrinks and grows, control group",   confining.pool_changes),
    Check("shared pool shrinks and grows, affinity",        confining.pool_changes_by_affinity),
    Check("inherited mask and policy are dropped",          confining.inherited_binding),
    Check("failed binding is undone",                       confining.failed_binding_is_undone),
    Check("left-over groups are found",                     confining.stale_groups),
    Check("pages on and to every node",                     confining.moving_pages),
    Check("isolated CPUs",                                  confining.isolation, (V2,)),
    Check("isolation that cannot be",                       confining.impossible_isolation, (V2,)),
    Check("no escape from a memory limit",                  confining.no_escape, (V2,)),
    Check("delegated subtree of a user",                    confining.delegated_subtree, (V2,)),
    Check("in the namespaces of a container",               confining.container, (V2,)),
    Check("a node without memory",                          confining.memory_of_a_node_without, (V2, V1)),
    Check("run: where it was put",                          running.runs_where_it_was_put),
    Check("run: within taskset and numactl",                running.keeps_within_what_it_was_started_with),
    Check("bind: beside a job that holds CPUs and GPUs",    running.ranks_beside_a_job),
    Check("run: without rights",                            running.runs_without_rights),
    Check("run: GPUs and their node",                       running.gpus_and_their_node),
    Check("run: named NUMA nodes",                          where.named_nodes),
    Check("run: named CPUs",                                where.named_cpus),
    Check("run: a whole NUMA node",                         where.whole_node),
    Check("run: isolated CPUs",                             running.nobody_else_on_isolated_cpus, (V2,)),
    Check("run: the best way there is",                     running.mode_of_choice, (V2, V1, SYSTEMD)),
    Check("devices refused to a job",                       inside.devices_refused, (V2, V1, SYSTEMD)),
    Check("run: fenced GPUs",                               inside.fenced_run, (V2, V1, SYSTEMD)),
    Check("exec: inside of a job",                          inside.entered, (V2, V1, SYSTEMD)),
    Check("memory: spills to another node",                 memory.spills),
    Check("memory: moved to another node",                  memory.moved_away),
    Check("memory: bound to a node that is too small",      memory.bound_and_told),
    Check("memory: more than the limit",                    memory.limit_and_told),
    Check("memory: placed by what is there",                memory.placed_by_what_is_there),
    Check("memory: bookings are kept",                      memory.bookings_are_kept),
    Check("memory: the estimate",                           memory.estimate),
    Check("run: steps of a job",                            inside.steps, (V2, V1, SYSTEMD)),
    Check("verify: bound well",                             verifying.bound_well),
    Check("verify: memory bound elsewhere",                 verifying.misplaced),
    Check("verify: on CPUs of another job",                 verifying.on_foreign_cpus),
    Check("verify: memory bound late",                      verifying.bound_late),
    Check("verify: memory interleaved",                     verifying.interleaved),
    Check("verify: nothing bound",                          verifying.unbound),
    Check("verify: a stray thread",                         verifying.stray_thread),
    Check("verify: huge pages and shared memory",           verifying.huge_and_shared),
    Check("verify: without rights",                         verifying.without_rights),
    Check("verify: CPUs without memory",                    verifying.a_node_without_memory),
    Check("verify: memory without CPUs",                    verifying.memory_without_cpus),
    Check("verify: figures of every node",                  verifying.figures),
    Check("watch: pages on a foreign node",                 watching.remote_pages),
    Check("watch: cpusets changed and written back",        watching.cpusets),
    Check("watch: a cpuset after a reload of systemd",      watching.reloaded, (SYSTEMD,)),
    Check("scope of root",                                  scopes.root_scope, (SYSTEMD,)),
    Check("scope with limits",                              scopes.limits, (SYSTEMD,)),
    Check("scope in a changing pool",                       scopes.pool, (SYSTEMD,)),
    Check("scope outlives a reload",                        scopes.reload, (SYSTEMD,)),
    Check("scope with isolated CPUs",                       scopes.isolated, (SYSTEMD,)),
    Check("no writing past systemd",                        scopes.not_behind_its_back, (SYSTEMD,)),
    Check("setup: a box under systemd",                     boxes.set_up, (SYSTEMD,)),
    Check("user without a cpuset of its own",               scopes.user_without_cpuset, (SYSTEMD,)),
    Check("scope of a user",                                scopes.user_scope, (SYSTEMD,)),
    Check("template unit: runs and stops",                  units.runs_and_stops, (SYSTEMD,)),
    Check("template unit: a job that does not stop",        units.stubborn_jobs_are_ended, (SYSTEMD,)),
    Check("scope of a user, changed by root",               scopes.user_scope_changed_by_root, (SYSTEMD,)),
)
# fmt: on


def main(kind: str, *names: str) -> int:
    os.chmod("/root", 0o711)  # noqa: PTH101 - other users may run an interpreter that lives there
    guest = read_guest()
    failed = False
    for check in CHECKS:
        if kind not in check.kinds or (names and not any(name in check.name for name in names)):
            continue
        start = time.monotonic()
        try:
            outcome, said = "ok", check.function(guest)
        except Skip as reason:
            outcome, said = "skip", str(reason)
        except Exception:  # noqa: BLE001 - whatever it is, the other checks go on
            outcome, said = "failed", traceback.format_exc()
            failed = True
        took = time.monotonic() - start
        sys.stdout.write(json.dumps([check.name, outcome, said, round(took, 1)]) + "\n")
        sys.stdout.flush()
    return int(failed)


if __name__ == "__main__":
    if sys.argv[1] == SYSTEMD and os.environ.get(scopes.INSIDE) is None:
        sys.exit(scopes.under_systemd([sys.executable, "-m", "tests.vm.suite", *sys.argv[1:]]))
    sys.exit(main(*sys.argv[1:]))
