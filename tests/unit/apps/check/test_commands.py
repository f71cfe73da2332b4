"""Commands that bind by number, and those that only look."""

import pytest

from numawise.apps.check.commands import bindings


@pytest.mark.parametrize(("words", "expected"), [
    # by number
    (["numactl", "--cpunodebind=0", "--membind=0", "python"],    ["numactl --cpunodebind=0 --membind=0"]),
    (["/usr/bin/numactl", "-N", "0", "-m", "0", "x"],            ["numactl -N 0 -m 0"]),
    (["numactl", "-C0-3", "x"],                                  ["numactl -C0-3"]),
    (["numactl", "--interleave=all", "x"],                       ["numactl --interleave=all"]),
    (["sh", "-c", "cd /x && taskset -c 0-3 ./a"],                ["taskset -c 0-3"]),
    (["bash", "-c", "exec taskset 0xff ./a; echo done"],         ["taskset 0xff"]),
    (["sh", "-c", "taskset -p 3 $$; ./a"],                       ["taskset -p 3"]),
    (["sh", "-c", "taskset -acp 0,2 1234"],                      ["taskset -acp 0,2"]),
    (["sh", "-c", "taskset --all-tasks --cpu-list --pid 1 77"],  ["taskset --all-tasks --cpu-list --pid 1"]),
    (["mpirun", "-np", "2", "numactl", "-N1", "./a"],            ["numactl -N1"]),
    (["sh", "-c", "numactl \\\n  --membind 1 \\\n  ./a"],        ["numactl --membind 1"]),
    (["hwloc-bind", "node:0", "--", "./a"],                      ["hwloc-bind node:0"]),
    (["likwid-pin", "-c", "0-3", "./a"],                         ["likwid-pin -c 0-3"]),
    (["cset", "proc", "--exec", "-s", "x", "--", "./a"],         ["cset proc --exec -s"]),
    (["srun", "--cpu_bind=map_cpu:0,1", "./a"],                  ["--cpu-bind map_cpu:0,1"]),
    (["python", "-m", "server", "--numa-node", "0"],             ["--numa-node 0"]),
    # only looks
    (["sh", "-c", "taskset -p $$"],                              []),
    (["sh", "-c", "taskset -cp $$; taskset -pc 1"],              []),
    (["sh", "-c", "taskset -ap $(pgrep python)"],                []),
    (["sh", "-c", "taskset --cpu-list --pid 1"],                 []),
    (["taskset", "-p", "1"],                                     []),
    (["taskset", "--help"],                                      []),
    (["sh", "-c", "numactl --hardware; numactl -H; numactl -s"], []),
    (["sh", "-c", "echo $(numactl --show | grep cpubind)"],      []),
    (["sh", "-c", "lscpu | grep NUMA; nproc; numastat -p 1"],    []),
    (["hwloc-bind", "--get", "--pid", "1"],                      []),
    (["cset", "set", "-l"],                                      []),
    (["likwid-pin", "-p"],                                       []),
    (["sh", "-c", "apt-get install -y numactl util-linux"],      []),
    (["sh", "-c", "which numactl || command -v taskset"],        []),
    (["sh", "-c", "# taskset -c 0 ./a\n./a"],                    []),
    (["python", "numactl.py"],                                   []),
    # not known, or relative to what is allowed
    (["sh", "-c", "taskset -c $CPUS ./a"],                       []),
    (["sh", "-c", "taskset -c $(cat /sys/fs/cgroup/cpuset.cpus.effective) ./a"], []),
    (["numactl", "--cpunodebind=all", "x"],                      []),
    (["numactl", "-C", "+0-3", "x"],                             []),
    (["numactl", "--localalloc", "x"],                           []),
    (["mpirun", "--bind-to", "none", "-map-by", "slot", "./a"],  []),
])  # fmt: skip
def test_what_binds_by_number(words: list[str], expected: list[str]) -> None:
    assert [one.text for one in bindings(words)] == expected


def test_launchers_choose_among_what_is_allowed() -> None:
    (one,) = bindings(["mpirun", "--bind-to", "core", "./a"])
    assert one.relative
    assert one.text == "--bind-to core"


def test_a_quotation_that_does_not_end_is_no_obstacle() -> None:
    assert [one.text for one in bindings(["sh", "-c", "echo 'a; taskset -c 1 ./b\nx"])] == ["taskset -c 1"]
