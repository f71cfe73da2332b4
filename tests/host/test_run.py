"""``numawise run`` on this kernel: binding, ending, signals, the shared pool, refusals."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests import needs
from tests.host.launching import Host, allowed
from tests.waiting import PATIENCE

from numawise.host.confine import allowed as allowed_here
from numawise.host.confine import modes
from numawise.sets import ids_of, parse_ids

pytestmark = needs.PROC
CPUS = len(os.sched_getaffinity(0))
MEMS = allowed_here()[1]
MASK = "grep -h Cpus_allowed_list /proc/self/status | cut -f2"
OPEN = {"affinity", *(mode.name.split()[0] for mode in modes() if not mode.problem)}
several = pytest.mark.skipif(CPUS < 2, reason="needs two CPUs")


@pytest.mark.parametrize("mode", ["cgroup", "systemd", "affinity"])
def test_a_job_has_its_cpus_and_nothing_stays(host: Host, mode: str) -> None:
    if mode not in OPEN:
        pytest.skip(f"this host does not let us use {mode}")
    done = host.run("run", "--mode", mode, "--cpus", "1", "--", "sh", "-c", MASK)
    assert done.returncode == 0, done.stderr
    assert len(list(ids_of(parse_ids(done.stdout.strip())))) == 1
    assert f"CPUs {done.stdout.strip()}" in done.stderr
    assert f"kept by {mode}" in done.stderr
    assert host.holds() == []


@pytest.mark.parametrize("mode", ["cgroup", "affinity"])
@pytest.mark.parametrize(
    ("policy", "expected"), [("bind", "bind:0"), ("interleave", "interleave:0"), ("preferred", "default")]
)
def test_the_memory_policy_of_a_job(host: Host, mode: str, policy: str, expected: str) -> None:
    """On a machine with one NUMA node to prefer it is nothing, and a control group binds without a policy."""
    if not Path("/proc/self/numa_maps").exists():
        pytest.skip("this kernel does not tell where pages lie")
    if MEMS != 1:
        pytest.skip("this machine has several NUMA nodes")
    if mode not in OPEN:
        pytest.skip(f"this host does not let us use {mode}")
    words = ("--mode", mode, "--cpus", "1", "--memory-policy", policy)
    done = host.run("run", "-q", *words, "--", "head", "-1", "/proc/self/numa_maps")
    bound_by_group = mode == "cgroup" and policy == "bind"
    assert done.stdout.split()[1] == ("default" if bound_by_group else expected), done


def test_a_memory_limit_that_cannot_be_meant(host: Host) -> None:
    done = host.run("run", "--memory", "64", "--", "true")
    assert done.returncode == 2
    assert "--memory: '64' is 64 bytes" in done.stderr
    assert "64g?" in done.stderr
    assert not host.ledger.exists()


GREEDY = f"{sys.executable} -c 'bytearray(256 << 20)'"


@pytest.mark.parametrize(("script", "status", "who"), [
    pytest.param(f"exec {GREEDY}",   -signal.SIGKILL, "job ({id}) was ended by the kernel's OOM killer", id="the job itself"),
    pytest.param(f"{GREEDY}; exit 3", 3, "the kernel's OOM killer ended 1 process of job ({id})",        id="one of its processes"),
    pytest.param("kill -KILL $$",    -signal.SIGKILL, "",                                                id="another's SIGKILL"),
])  # fmt: skip
def test_the_oom_killer_is_named(host: Host, script: str, status: int, who: str) -> None:
    if "cgroup" not in OPEN:
        pytest.skip("this host does not let us use control groups")
    words = ("--mode", "cgroup", "--memory", "64m", "--name", "job")
    done = host.run("run", *words, "--", "sh", "-c", script)
    if "memory limit is not enforced" in done.stderr:
        pytest.skip("this host has no memory controller for us")
    assert done.returncode == status, done
    found = [line for line in done.stderr.splitlines() if "OOM killer" in line]
    hold = done.stderr.partition("job (")[2].partition(")")[0]
    advice = "it needed more than its limit of 64 MiB; give it more, such as --memory 128m"
    assert found == [f"numawise: {who.format(id=hold)}: {advice}"] * bool(who)
    assert host.holds() == []


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("exit 0", 0),
        ("exit 3", 3),
        ("exit 255", 255),
        ("kill -TERM $$", -signal.SIGTERM),
        ("kill -KILL $$", -signal.SIGKILL),
    ],
)
def test_it_ends_as_the_job_ended(host: Host, script: str, status: int) -> None:
    assert host.run("run", "-q", "--", "sh", "-c", script).returncode == status
    assert host.holds() == []


def test_streams_pass_through(host: Host) -> None:
    done = host.run("run", "-q", "--", "sh", "-c", "cat; echo two >&2", input="one\n")
    assert (done.stdout, done.stderr) == ("one\n", "two\n")


@needs.TERMINALS
def test_a_terminal_passes_through(host: Host) -> None:
    ours, theirs = pty.openpty()
    done = subprocess.run(
        host.argv("run", "-q", "--", "sh", "-c", "test -t 0 && test -t 1"),
        stdin=theirs, stdout=theirs, stderr=theirs, env=host.environment, check=False,
    )  # fmt: skip
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 0


def test_the_environment_of_a_job(host: Host) -> None:
    done = host.run(
        "run", "-q", "--cpus", "1", "--name", "x", "--", "env", environment={"OMP_NUM_THREADS": "7", "A": "b"}
    )
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert found["NUMAWISE_NAME"] == "x"
    assert found["NUMAWISE_CPUS"] == found["GOMP_CPU_AFFINITY"]
    assert found["OMP_NUM_THREADS"] == "7"
    assert found["A"] == "b"
    assert found["NUMAWISE_MODE"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP])
def test_signals_are_passed_on(host: Host, number: signal.Signals) -> None:
    name = number.name.removeprefix("SIG")
    script = f"trap 'echo got; exit 9' {name}; echo ready; while :; do sleep 0.1; done"
    started = host.start("run", "-q", "--", "bash", "-c", script)
    assert started.stdout
    assert started.stdout.readline() == "ready\n"
    started.send_signal(number)
    out, _ = started.communicate(timeout=PATIENCE)
    assert out == "got\n"
    assert started.returncode == 9


def test_a_job_outlives_numawise_and_keeps_its_hold(host: Host) -> None:
    started = host.start("run", "-q", "--cpus", "1", "--name", "long", "--", "sleep", "3600")
    job = host.hold("long")
    started.kill()
    started.wait()
    assert host.hold("long")["pid"] == job["pid"]
    os.kill(job["pid"], signal.SIGKILL)
    host.until(lambda: host.holds() == [], "the dead still hold")


def test_what_a_job_leaves_behind_keeps_the_hold(host: Host) -> None:
    done = host.run(
        "run", "-q", "--cpus", "1", "--name", "parent", "--", "sh", "-c", "sleep 3600 >&- 2>&- <&- & echo $!"
    )
    child = int(done.stdout)
    assert [one["name"] for one in host.holds()] == ["parent"]
    os.kill(child, signal.SIGKILL)
    host.until(lambda: host.holds() == [], "the dead still hold")


@several
@pytest.mark.parametrize("mode", ["cgroup", "affinity"])
def test_the_shared_pool_shrinks_and_grows(host: Host, mode: str) -> None:
    if mode not in OPEN:
        pytest.skip(f"this host does not let us use {mode}")
    host.start("run", "-q", "--mode", mode, "--cpus", "0.5", "--name", "shared", "--", "sleep", "3600")
    pid = host.hold("shared")["pid"]
    every = allowed(pid)
    assert len(list(ids_of(parse_ids(every)))) == CPUS
    owner = host.start(
        "run", "-q", "--mode", mode, "--cpus", str(CPUS - 1), "--name", "own", "--", "sleep", "3600"
    )
    own = host.hold("own")["cpus"]
    host.until(lambda: allowed(pid) != every, "the pool did not shrink")
    assert not parse_ids(allowed(pid)) & parse_ids(own)
    owner.send_signal(signal.SIGTERM)
    owner.wait()
    host.until(lambda: allowed(pid) == every, "the pool did not grow")


def test_no_room_tells_who_holds_what(host: Host) -> None:
    host.start("run", "-q", "--cpus", str(CPUS), "--name", "big", "--", "sleep", "3600")
    host.hold("big")
    done = host.run("run", "--cpus", "1", "--", "true")
    assert done.returncode == 1
    assert "no room: 1 CPU asked for, 0 free" in done.stderr
    assert "big (" in done.stderr


def test_waiting_ends_with_room_or_time(host: Host) -> None:
    big = host.start("run", "-q", "--cpus", str(CPUS), "--name", "big", "--", "sleep", "3600")
    host.hold("big")
    assert host.run("run", "--wait=0.2", "--cpus", "1", "--", "true").returncode == 1
    waiter = host.start("run", "--wait", "--cpus", "1", "--", "echo", "now")
    assert waiter.stderr
    assert "waiting: 1 CPU asked for" in waiter.stderr.readline()
    host.until(lambda: "waiting: " in host.run("ps").stdout, "nobody in line")
    big.send_signal(signal.SIGTERM)
    out, _ = waiter.communicate(timeout=PATIENCE)
    assert out == "now\n"
    assert host.holds() == []


@pytest.mark.parametrize(("words", "status", "complaint"), [
    pytest.param(("--cpus", "9999", "--", "true"),       2, "9999 CPUs asked for",          id="more than the machine has"),
    pytest.param(("--gpu-ids", "77", "--", "true"),      2, "--gpu-ids",                    id="a GPU that is not there"),
    pytest.param(("--cpus", "x", "--", "true"),          2, "--cpus: 'x'",                  id="no number"),
    pytest.param(("--cpus", "1", "true"),                2, "write -- before the command",  id="-- forgotten"),
    pytest.param(("--cpus", "1", "--"),                  2, "no command",                   id="no command"),
    pytest.param((),                                     2, "no command",                   id="nothing at all"),
    pytest.param(("--", "no-such-command"),            127, "command not found",            id="not found"),
    pytest.param(("--", "/etc/passwd"),                126, "cannot be executed",           id="not executable"),
    pytest.param(("--", "/"),                          126, "is a folder",                  id="a folder"),
    pytest.param(("--wait=soon", "--", "true"),          2, "--wait: 'soon'",               id="no seconds"),
    pytest.param(("--policy", "strict", "--", "true"),   2, "--policy",                     id="no policy"),
    pytest.param(("--isolate", "--", "true"),            2, "--isolate",                    id="isolation of nothing"),
    pytest.param(("--machine", "x", "--", "true"),       2, "--dry-run",                    id="another machine"),
])  # fmt: skip
def test_refused(host: Host, words: tuple[str, ...], status: int, complaint: str) -> None:
    done = host.run("run", *words)
    assert done.returncode == status, done.stderr
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
    assert not host.ledger.exists() or host.holds() == []


def test_a_script_without_interpreter_leaves_nothing(host: Host, tmp_path: Path) -> None:
    script = tmp_path / "job"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    done = host.run("run", "--cpus", "1", "--", str(script))
    assert done.returncode == 127
    assert host.holds() == []


def test_dry_run_holds_nothing(host: Host) -> None:
    done = host.run("run", "--cpus", "1", "--dry-run", "-o", "json", "--", "true")
    assert '"kind": "Placement"' in done.stdout
    assert host.holds() == []


def test_release(host: Host) -> None:
    host.start("run", "-q", "--cpus", "1", "--name", "job", "--", "sleep", "3600")
    pid = host.hold("job")["pid"]
    refused = host.run("release", "job")
    assert refused.returncode == 1
    assert "--kill" in refused.stderr
    assert host.run("release", "--kill", "job").returncode == 0
    host.until(lambda: not Path(f"/proc/{pid}/status").exists(), "the job lives")
    assert host.holds() == []
    unknown = host.run("release", "job")
    assert unknown.returncode == 2
    assert "'job' is not a hold" in unknown.stderr


def test_names_are_unique(host: Host) -> None:
    host.start("run", "-q", "--name", "job", "--", "sleep", "3600")
    host.hold("job")
    done = host.run("run", "--name", "job", "--", "true")
    assert done.returncode == 2
    assert "--name" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_another_user_cannot_release(host: Host, tmp_path: Path) -> None:
    host.start("run", "-q", "--cpus", "1", "--name", "job", "--", "sleep", "3600")
    host.hold("job")
    tmp_path.chmod(0o755)
    host.ledger.chmod(0o1777)
    try:
        done = host.run("release", "--force", "job", user=65534, cwd="/")
    except PermissionError:
        pytest.skip("the interpreter lies where others cannot reach it")
    assert done.returncode == 4
    assert "root" in done.stderr
    assert [one["name"] for one in host.holds()] == ["job"]


def test_from_python(host: Host) -> None:
    code = """
import os, numawise
before = os.sched_getaffinity(0)
with numawise.hold(cpus=1, name="block") as held:
    assert os.sched_getaffinity(0) == set(held.cpus), held
    assert os.environ["NUMAWISE_NAME"] == "block"
    try:
        with numawise.hold(cpus=len(before)):
            raise SystemExit("granted twice")
    except numawise.NoRoomError as error:
        print(error)
assert os.sched_getaffinity(0) == before
assert "NUMAWISE_NAME" not in os.environ
"""
    done = subprocess.run(
        [*host.argv()[:1], "-c", code], env=host.environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "asked for" in done.stdout
    assert host.holds() == []


def test_the_memory_policy_of_a_hold_from_python(host: Host) -> None:
    """It is that of the block, and afterwards what it was before."""
    if not Path("/proc/self/numa_maps").exists() or MEMS != 1:
        pytest.skip("this kernel does not tell where pages lie, or there are several NUMA nodes")
    code = """
import numawise
from numawise.host.mempolicy import read_mempolicy
before = read_mempolicy()
with numawise.hold(cpus=1, memory_policy="interleave") as held:
    assert held.memory_policy == "interleave", held
    assert str(read_mempolicy()) == "interleave:0", read_mempolicy()
assert read_mempolicy() == before
with numawise.hold(cpus=1) as held:
    assert held.memory_policy == "preferred", held
with numawise.hold(cpus=1, policy="restricted") as held:
    assert held.memory_policy == "bind", held
"""
    argv = [*host.argv()[:1], "-c", code]
    done = subprocess.run(argv, env=host.environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_holds_of_one_user(host: Host) -> None:
    host.start("run", "-q", "--name", "job", "--", "sleep", "3600")
    user = host.hold("job")["user"]
    assert "job" in host.run("ps", "--user", user).stdout
    done = host.run("ps", "--user", "no-such-user")
    assert done.returncode == 2
    assert "--user: there is no user 'no-such-user'" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small disk")
def test_a_full_disk_holds_nothing(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", disk], check=False)
    if mounted.returncode:
        pytest.skip("nothing can be mounted here")
    try:
        host = Host(disk, NUMAWISE_RESERVED_CPUS="none")
        assert host.run("run", "-q", "--", "true").returncode == 0
        (disk / "filler").write_bytes(b"x" * (1 << 17))
        with (disk / "rest").open("wb", buffering=0) as rest:
            try:
                while rest.write(b"x" * 512):
                    pass
            except OSError:
                pass
        done = host.run("run", "--cpus", "1", "--", "true")
        assert done.returncode in (0, 4), done.stderr
        assert "Traceback" not in done.stderr
        (disk / "filler").unlink()
        assert host.holds() == []
        assert host.run("run", "-q", "--cpus", str(CPUS), "--", "true").returncode == 0
    finally:
        subprocess.run(["umount", disk], check=True)


# --------------------------------------------------------------------------------------------------
# What goes wrong around a job, or looks as if it did.


def script(folder: Path, content: bytes) -> str:
    file = folder / "job"
    file.write_bytes(content)
    file.chmod(0o755)
    return str(file)


@pytest.mark.parametrize(
    "command", [("run", "-q", "--mode", "affinity"), ("bind", "--local-rank", "0", "--local-size", "1")]
)
def test_a_script_without_an_interpreter_is_the_shells(
    host: Host, tmp_path: Path, command: tuple[str, ...]
) -> None:
    done = host.run(*command, "--", script(tmp_path, b'echo "$0: $1"\nexit 7\n'), "one word")
    assert (done.returncode, done.stdout) == (7, f"{tmp_path}/job: one word\n"), done


@pytest.mark.parametrize(
    "command", [("run", "-q", "--mode", "affinity"), ("bind", "--local-rank", "0", "--local-size", "1")]
)
def test_a_program_for_another_processor_is_not(host: Host, tmp_path: Path, command: tuple[str, ...]) -> None:
    done = host.run(*command, "--", script(tmp_path, b"\x7fELF\x02\x01\x01\0echo it ran\n"))
    assert (done.returncode, done.stdout) == (126, ""), done
    assert "Exec format error" in done.stderr


@pytest.mark.parametrize(
    ("ends", "status", "said"),
    [("exit 0", 0, "with status 0"), ("exit 3", 3, "with status 3"), ("kill -9 $$", -9, "by signal 9")],
)
def test_the_status_of_the_job_stands_when_the_ledger_fails(
    host: Host, tmp_path: Path, ends: str, status: int, said: str
) -> None:
    ledger = host.environment["NUMAWISE_LEDGER"]
    done = host.run(
        "run",
        "-q",
        "--mode",
        "affinity",
        "--cpus",
        "1",
        "--",
        "sh",
        "-c",
        f"mv {ledger} {tmp_path}/gone; {ends}",
    )
    assert done.returncode == status, done
    (line,) = done.stderr.splitlines()
    assert f"the job has ended {said}, but its hold sh (" in line
    Path(tmp_path, "gone").rename(ledger)
    assert host.holds() == []  # the next one who looks passes it over
    assert host.run("run", "-q", "--mode", "affinity", "--cpus", str(CPUS), "--", "true").returncode == 0


def test_a_run_inside_a_hold_says_what_to_do(host: Host) -> None:
    inner = host.argv("run", "--outside", "--mode", "affinity", "--cpus", "1", "--", "true")
    done = host.run("run", "-q", "--mode", "affinity", "--cpus", str(CPUS), "--", *inner)
    assert done.returncode == 1, done
    assert "this runs inside hold" in done.stderr
    assert "leave --outside out to take a part of that" in done.stderr


@pytest.mark.parametrize("option", ["--gpu-ids", "--cpus", "--memory", "--name"])
def test_an_empty_value_is_refused(host: Host, option: str) -> None:
    done = host.run("run", option, "", "--", "true")
    assert done.returncode == 2, done
    assert f"{option}: is empty" in done.stderr


@pytest.mark.parametrize("closed", ["<&-", "<&- >&-", "<&- >&- 2>&-"])
def test_nothing_of_ours_lands_in_closed_streams(host: Host, tmp_path: Path, closed: str) -> None:
    inner = f"ls /proc/$$/fd > {tmp_path}/open"
    outer = f'exec {closed}; {sys.executable} -m numawise run --mode affinity --cpus 1 -- sh -c "$JOB"'
    before = f'exec {closed}; sh -c "$JOB"'
    seen = []
    for text in (before, outer):
        done = subprocess.run(
            ["bash", "-c", text],
            env={**host.environment, "JOB": inner},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done
        seen.append(Path(tmp_path, "open").read_text())
    assert seen[0] == seen[1]


def test_holds_in_threads_end_in_any_order(host: Host) -> None:
    code = """
import os, sys, threading, numawise
threading.excepthook = lambda failed: (sys.excepthook(*failed[:3]), sys.stderr.flush(), os._exit(1))
before, variables = os.sched_getaffinity(0), dict(os.environ)
first_in, second_in, first_out = (threading.Event() for _ in range(3))
seen = {}
def first():
    with numawise.hold(cpus=1):
        first_in.set()
        second_in.wait()
    first_out.set()
def second():
    first_in.wait()
    with numawise.hold(cpus=1) as held:
        seen["both"] = os.sched_getaffinity(0)
        second_in.set()
        first_out.wait()
        seen["own"] = os.sched_getaffinity(0) == set(held.cpus)
        seen["hold"] = os.environ["NUMAWISE_HOLD"] == held.id
threads = [threading.Thread(target=run) for run in (first, second)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(seen["both"]) == 2 and seen["own"] and seen["hold"], seen
assert os.sched_getaffinity(0) == before
assert dict(os.environ) == variables
"""
    if CPUS < 2:
        pytest.skip("needs two CPUs")
    python(host, code)


def test_a_hold_leaves_the_programs_own_variables_alone(host: Host) -> None:
    code = """
import os, numawise
os.environ["GONE"] = "1"
os.environ.pop("OMP_NUM_THREADS", None)
with numawise.hold(cpus=1) as held:
    os.environ["NEW"] = "x"
    os.environ["OMP_NUM_THREADS"] = "5"
    del os.environ["GONE"]
assert os.environ["NEW"] == "x"
assert os.environ["OMP_NUM_THREADS"] == "5"
assert "GONE" not in os.environ
assert "NUMAWISE_HOLD" not in os.environ
"""
    python(host, code)


def python(host: Host, code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=host.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
