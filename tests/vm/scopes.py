"""A real systemd in the guest, as process 1 of namespaces of its own, and checks of its scopes."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from numawise.host import confine
from numawise.sets import format_ids
from tests.jobs import Job, as_user
from tests.vm.confining import MIB, refusal_of, stays_on_its_place
from tests.vm.guest import CGROUP, USER, Guest

INSIDE = "NUMAWISE_UNDER_SYSTEMD"
SYSTEMD = "/lib/systemd/systemd"
NEEDED = (SYSTEMD, "/usr/bin/dbus-daemon", "/usr/bin/busctl", "/usr/bin/nsenter", "/usr/bin/unshare")
PATIENCE = 60.0
TARGET = "numawise-test.target"
UNITS = {
    TARGET: "[Unit]\nDefaultDependencies=no\nRequires=dbus.socket dbus.service\n",
    "dbus.socket.d/bare.conf": "[Unit]\nDefaultDependencies=no\n",
    "dbus.service.d/bare.conf": "[Unit]\nDefaultDependencies=no\n",
    "user-runtime-dir@.service": (
        "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nRemainAfterExit=yes\n"
        "ExecStart=/bin/sh -c 'mkdir -p /run/user/%i && chmod 700 /run/user/%i && chown %i:%i /run/user/%i'\n"
    ),
    "user@.service.d/bare.conf": (
        "[Unit]\nDefaultDependencies=no\n[Service]\nPAMName=\nEnvironment=XDG_RUNTIME_DIR=/run/user/%i\n"
    ),
}
START = """
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/systemd/system /run/lock /run/dbus
cp -r {units}/. /run/systemd/system/
echo 0123456789abcdef0123456789abcdef > /run/machine-id
export container=numa-vm
exec {systemd} --system --unit={target} --log-target=null
"""


def under_systemd(argv: list[str]) -> int:
    """Start systemd, and run a command under it; the command's exit code."""
    missing = [path for path in NEEDED if not Path(path).exists()]
    if missing:
        sys.stdout.write(json.dumps(["systemd", "skip", f"{missing[0]} is not installed", 0]) + "\n")
        return 0
    units = Path("/tmp/numawise-units")
    for name, text in UNITS.items():
        (units / name).parent.mkdir(parents=True, exist_ok=True)
        (units / name).write_text(text)
    script = START.format(units=units, systemd=SYSTEMD, target=TARGET)
    first = subprocess.Popen(
        ["unshare", "-m", "-p", "-f", "sh", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    pid = _await_bus(first)
    try:
        enter = ["nsenter", "-t", pid, "-p", "-m", f"--wd={Path.cwd()}", *argv]
        return subprocess.run(enter, env={**os.environ, INSIDE: "1"}, check=False).returncode
    finally:
        os.kill(int(pid), 9)
        first.wait()


def _await_bus(first: subprocess.Popen[bytes]) -> str:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text().split()
        if found and Path(f"/proc/{found[0]}/root/run/dbus/system_bus_socket").exists():
            return found[0]
        if first.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError("systemd did not come up")


def control(*words: str) -> str:
    done = subprocess.run(["systemctl", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def root_scope(guest: Guest) -> str:
    assert confine.choose() == confine.SYSTEMD
    return "; ".join(stays_on_its_place(confine.SYSTEMD, place) for place in guest.places())


def limits(guest: Guest) -> str:
    place = guest.far()
    with Job() as job:
        plan = job.bind(
            confine.SYSTEMD, "limited", cpus=place.cpus, mems=place.mems, memory=48 * MIB, cpu_limit=1500
        )
        job.start(plan.itself, mebibytes=1, threads=0, children=0)
        told = control(
            "show", "-p", "MemoryMax,CPUQuotaPerSecUSec,AllowedCPUs,Slice", "numawise-limited.scope"
        )
        assert "MemoryMax=50331648" in told
        assert "CPUQuotaPerSecUSec=1.500000s" in told, told
        assert not job.tell("fill 64"), "it got more than its limit"
        job.reap()
    end = time.monotonic() + PATIENCE
    while Path(f"{CGROUP}{plan.group}").exists() and time.monotonic() < end:
        time.sleep(0.1)
    assert not Path(f"{CGROUP}{plan.group}").exists(), "the empty scope stayed"
    assert not confine.populated(confine.SYSTEMD, plan.group)
    return " ".join(told.split())


def pool(guest: Guest) -> str:
    few, many = guest.cpus[0], guest.all_cpus
    with Job() as job:
        plan = job.bind(confine.SYSTEMD, "pool", cpus=many)
        job.start(plan.itself, mebibytes=1, threads=3, children=1)
        told = []
        for cpus in (few, many, many & ~few):
            confine.change_cpus(confine.SYSTEMD, plan.group, (), cpus)
            job.tell("thread")
            assert job.masks() == {cpus}, job.masks()
            told.append(format_ids(cpus))
        return " → ".join(told)


def reload(guest: Guest) -> str:
    """A reload of systemd leaves the job on its CPUs, also on those it was given later."""
    place = guest.far()
    with Job() as job:
        plan = job.bind(confine.SYSTEMD, "reloaded", cpus=guest.cpus[0], mems=place.mems)
        job.start(plan.itself)
        control("daemon-reload")
        assert job.masks() == {guest.cpus[0]}
        confine.change_cpus(confine.SYSTEMD, plan.group, (), place.cpus)
        control("daemon-reload")
        assert job.masks() == {place.cpus}
        return format_ids(place.cpus)


def isolated(guest: Guest) -> str:
    cpus = guest.far().cpus
    with Job() as job:
        plan = job.bind(confine.SYSTEMD, "alone", cpus=cpus, mems=guest.with_memory, isolate="root")
        job.start(plan.itself)
        assert job.masks() == {cpus}
        assert confine.prove(os.getpid())[0] == guest.all_cpus & ~cpus
        control("daemon-reload")
        assert (CGROUP / plan.group.strip("/") / "cpuset.cpus.partition").read_text() == "root\n"
    end = time.monotonic() + PATIENCE
    while confine.prove(os.getpid())[0] != guest.all_cpus and time.monotonic() < end:
        time.sleep(0.1)
    assert confine.prove(os.getpid())[0] == guest.all_cpus
    return plan.group


def not_behind_its_back(_: Guest) -> str:
    return refusal_of(lambda: confine.choose("cgroup"))


def start_user(delegate: str) -> None:
    """The user's own systemd, with these controllers."""
    drop_in = Path("/run/systemd/system/user@.service.d/delegate.conf")
    drop_in.write_text(f"[Service]\nDelegate=\nDelegate={delegate}\n")
    control("daemon-reload")
    control("restart", f"user@{USER}.service")
    os.environ["XDG_RUNTIME_DIR"] = f"/run/user/{USER}"
    os.environ.pop("DBUS_SESSION_BUS_ADDRESS", None)
    end = time.monotonic() + PATIENCE
    while not Path(f"/run/user/{USER}/bus").exists() and time.monotonic() < end:
        time.sleep(0.1)


def user_without_cpuset(_: Guest) -> str:
    """What most distributions delegate does not suffice, and it is said so instead of being tried in vain."""
    start_user("memory pids")

    def look() -> str:
        assert confine.choose() == confine.AFFINITY
        return refusal_of(lambda: confine.choose("systemd"))

    return str(as_user(USER, look))


def user_scope(guest: Guest) -> str:
    start_user("cpu cpuset memory pids")

    def look() -> str:
        assert confine.choose() == confine.SYSTEMD, confine.modes()
        return "; ".join(stays_on_its_place(confine.SYSTEMD, place) for place in guest.places())

    return str(as_user(USER, look))


def user_scope_changed_by_root(guest: Guest) -> str:
    """Whoever has the whole machine's pool to look after can change what belongs to a user, and nobody else."""
    few, many = guest.cpus[0], guest.all_cpus
    wake, stop = os.pipe()
    told, tell = os.pipe()

    def run() -> str:
        os.close(stop)
        with Job() as job:
            plan = job.bind(confine.SYSTEMD, "theirs", cpus=many)
            job.start(plan.itself)
            os.write(tell, plan.group.encode())
            os.read(wake, 1)
            return format_ids(next(iter(job.masks())))

    def look() -> None:
        group = os.read(told, 4096).decode()
        other = refusal_of(
            lambda: as_user(USER + 1, lambda: confine.change_cpus(confine.SYSTEMD, group, (), few))
        )
        assert other
        confine.change_cpus(confine.SYSTEMD, group, (), few)
        os.close(stop)

    watcher = threading.Thread(target=look)
    watcher.start()
    found = str(as_user(USER, run))
    watcher.join()
    assert found == format_ids(few), found
    return found
