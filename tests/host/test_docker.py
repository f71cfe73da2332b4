"""Real containers: a docker daemon of the test's own, a local image, and what the kernel says about them.

Needs root, ``dockerd``, a docker client and a static busybox; podman is tried, too, where it is installed.
"""

import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests import needs
from tests.waiting import PATIENCE, until

from numawise.apps.launch.containers.life import FIRST, OPTIONS, ended, engine_of, unheld
from numawise.apps.launch.run import capacity_here, open_holdings
from numawise.host.containers import container_pids
from numawise.host.processes import allowed_of
from numawise.host.settings import HostSettings
from numawise.results.placement import Hold
from numawise.sets import format_ids, parse_ids

IMAGE = "box:1"
TOOLS = ("sh", "cat", "sleep", "true", "grep", "test", "echo", "kill")
DAEMON = ("--iptables=false", "--bridge=none", "--ip-forward=false", "--ip-masq=false")
NEEDED = [tool for tool in ("dockerd", "docker", "busybox") if shutil.which(tool) is None]
ALLOWED = "Cpus_allowed_list:"

pytestmark = [
    needs.PROC,
    pytest.mark.skipif(os.geteuid() != 0, reason="a docker daemon needs root"),
    pytest.mark.skipif(bool(NEEDED), reason=f"not installed: {', '.join(NEEDED)}"),
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two containers need two CPUs"),
]


@dataclass(frozen=True, slots=True)
class Ran:
    status: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Host:
    """An engine of the test's own, and a ledger for it."""

    engine: str
    options: tuple[str, ...]
    """Words before the engine's command."""
    flags: tuple[str, ...]
    """Options that every container here needs."""
    ledger: Path
    environment: dict[str, str]

    def ask(self, *words: str) -> str:
        done = subprocess.run(
            [self.engine, *self.options, *words],
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def words(self, flags: str, verb: str, *words: str) -> list[str]:
        own = [self.engine, *flags.split(), "--", *self.options, verb, *self.flags, *words]
        return [sys.executable, "-m", "numawise", *own]

    def start(self, flags: str, verb: str, *words: str, stdin: str = "") -> Ran:
        done = subprocess.run(
            self.words(flags, verb, *words),
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def numawise(self, *words: str) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "numawise", *words],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def begin(self, flags: str, verb: str, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self.words(flags, verb, *words),
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def holds(self) -> tuple[Hold, ...]:
        """Holds that are alive; nothing is reaped."""
        holdings = open_holdings(capacity_here(HostSettings()), {}, HostSettings(ledger=str(self.ledger)))
        with closing(holdings.ledger):
            return holdings.live()

    def reaped(self) -> list[str]:
        holdings = open_holdings(capacity_here(HostSettings()), {}, HostSettings(ledger=str(self.ledger)))
        with closing(holdings.ledger):
            return [hold.name for hold in holdings.reap()]

    def recorded(self) -> tuple[Hold, ...]:
        """All holds of the ledger, dead ones included."""
        holdings = open_holdings(capacity_here(HostSettings()), {}, HostSettings(ledger=str(self.ledger)))
        with closing(holdings.ledger):
            return holdings.ledger.holds()


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of an image: busybox, which must be static."""
    root = tmp_path_factory.mktemp("image")
    (root / "bin").mkdir()
    shutil.copy(shutil.which("busybox") or "", root / "bin/busybox")
    for tool in TOOLS:
        (root / "bin" / tool).symlink_to("busybox")
    (root / "etc").mkdir()
    tar = root.parent / "image.tar"
    subprocess.run(["tar", "-C", root, "-cf", tar, "."], check=True)
    return tar


@pytest.fixture(scope="module")
def docker_socket(image: Path) -> Iterator[str]:
    folder = Path(tempfile.mkdtemp(prefix="nw-docker-"))
    socket = f"unix://{folder}/sock"
    places = {"data-root": "data", "exec-root": "exec", "pidfile": "pid"}
    with (folder / "log").open("wb") as log:
        daemon = subprocess.Popen(
            [
                "dockerd",
                "--host",
                socket,
                *DAEMON,
                *(f"--{name}={folder}/{at}" for name, at in places.items()),
            ],
            stdout=log,
            stderr=log,
        )
    plain = {"PATH": os.environ["PATH"], "DOCKER_HOST": socket}
    try:
        end = time.monotonic() + PATIENCE
        while subprocess.run(["docker", "version"], env=plain, capture_output=True, check=False).returncode:
            if daemon.poll() is not None or time.monotonic() > end:
                pytest.skip(f"dockerd does not start here: {(folder / 'log').read_text()[-300:]}")
            time.sleep(0.05)
        subprocess.run(["docker", "import", image, IMAGE], env=plain, capture_output=True, check=True)
        works = ["docker", "run", "--rm", "--network=none", IMAGE, "true"]
        tried = subprocess.run(works, env=plain, capture_output=True, text=True, check=False)
        if tried.returncode:
            pytest.skip(f"no container starts here: {tried.stderr[-300:]}")
        yield socket
    finally:
        daemon.terminate()
        daemon.wait(PATIENCE)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def docker(docker_socket: str, tmp_path: Path) -> Iterator[Host]:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "DOCKER_HOST": docker_socket,
        "NUMAWISE_LEDGER": str(tmp_path / "ledger.db"),
        "TMPDIR": str(tmp_path),
    }
    host = Host("docker", (), ("--network=none",), tmp_path / "ledger.db", environment)
    yield host
    left = host.ask("ps", "-aq").split()
    if left:
        host.ask("rm", "--force", *left)


def allowed(text: str) -> str:
    return text.split(ALLOWED)[1].split(maxsplit=1)[0]


def test_a_container_runs_on_the_cpus_of_its_hold(docker: Host) -> None:
    ran = docker.start(
        "--cpus 1",
        "run",
        "--rm",
        IMAGE,
        "sh",
        "-c",
        "grep _allowed_list /proc/self/status; echo $NUMAWISE_CPUS",
    )
    assert ran.status == 0, ran
    cpus = ran.out.split()[-1]
    assert allowed(ran.out) == cpus
    assert f"CPUs {cpus}, memory on NUMA 0, kept by docker" in ran.err
    assert docker.recorded() == ()


# fmt: off
@pytest.mark.parametrize(("words", "status"), [
    pytest.param((IMAGE, "sh", "-c", "exit 3"),         3,   id="the container's own"),
    pytest.param((IMAGE, "nothing-like-this"),          127, id="no such command"),
    pytest.param((IMAGE, "/etc"),                       126, id="not executable"),
    pytest.param(("--network=nowhere", IMAGE, "true"),  125, id="not started"),
    pytest.param(("--shm-size=x", IMAGE, "true"),       125, id="refused by the client"),
    pytest.param(("--pull=never", "none:1", "true"),    125, id="no such image"),
])
def test_exit_status_and_nothing_left_held(docker: Host, words: Sequence[str], status: int) -> None:
    assert docker.start("--cpus 1 -q", "run", *words).status == status
    assert docker.recorded() == ()
    assert not list(docker.ledger.parent.glob("numawise-*")), "the folder for the id was left behind"
# fmt: on


def test_standard_input_and_output_pass_through(docker: Host) -> None:
    ran = docker.start("--cpus 1 -q", "run", "--rm", "-i", IMAGE, "cat", stdin="one\ntwo\n")
    assert (ran.status, ran.out) == (0, "one\ntwo\n")


def test_a_terminal_passes_through(docker: Host) -> None:
    ours, theirs = pty.openpty()
    words = docker.words(
        "--cpus 1 -q", "run", "--rm", "-it", IMAGE, "sh", "-c", "test -t 0 && test -t 1 && exit 9"
    )
    with subprocess.Popen(
        words, stdin=theirs, stdout=theirs, stderr=theirs, env=docker.environment
    ) as process:
        os.close(theirs)
        assert process.wait(PATIENCE) == 9
    os.close(ours)


def test_signals_pass_through(docker: Host) -> None:
    script = 'trap "exit 7" TERM; echo ready; while :; do sleep 0.1; done'
    with docker.begin("--cpus 1 -q", "run", "--rm", IMAGE, "sh", "-c", script) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 7
    assert docker.recorded() == ()


@pytest.mark.parametrize(("trap", "seconds", "code"), [("exit 7", "1h", "7"), ("", "1", "137")])
def test_release_asks_a_container_first(docker: Host, trap: str, seconds: str, code: str) -> None:
    script = f"trap '{trap}' TERM; while :; do sleep 0.1; done"
    started = docker.start("--cpus 1", "run", "-d", "--name", "asked", IMAGE, "sh", "-c", script)
    assert started.status == 0, started
    entered = docker.numawise("exec", "asked", "--", "grep", ALLOWED, "/proc/self/status")
    (hold,) = docker.holds()
    assert entered.out.split() == [ALLOWED, format_ids(hold.grant.cpus)], entered
    released = docker.numawise("release", "--term", seconds, "asked")
    assert (released.status, "released" in released.out) == (0, True), released
    assert docker.ask("inspect", "--format", "{{.State.ExitCode}}", "asked") == code
    assert docker.recorded() == ()
    docker.ask("rm", "asked")


def test_a_container_that_needs_more_than_its_limit(docker: Host) -> None:
    script = "x=0123456789abcdef; while :; do x=$x$x; done"
    ran = docker.start("--cpus 1 --memory 32m -q", "run", "--rm", "--name", "big", IMAGE, "sh", "-c", script)
    assert ran.status == 137, ran
    assert docker.recorded() == ()


def test_a_detached_container_keeps_its_hold(docker: Host) -> None:
    ran = docker.start("--cpus 1", "run", "-d", "--name", "first", IMAGE, "sleep", "300")
    assert ran.status == 0, ran
    (hold,) = docker.holds()
    assert (hold.name, hold.kind, hold.mode, hold.owner.engine) == ("first", "container", "docker", "docker")
    assert hold.owner.container == ran.out.strip()
    assert hold.owner.pid == 0
    assert hold.command == ("docker", "run", IMAGE, "sleep", "300")
    (pid,) = container_pids(engine_of(hold, 0), hold.owner.container)
    assert allowed_of(pid) == (hold.grant.cpus, hold.grant.mems)

    second = docker.start("--cpus 1", "run", "-d", "--name", "second", IMAGE, "sleep", "300")
    assert second.status == 0, second
    one, other = docker.holds()
    assert not one.grant.cpus & other.grant.cpus
    full = docker.start(f"--cpus {len(os.sched_getaffinity(0))}", "run", "-d", IMAGE, "sleep", "300")
    assert full.status == 1
    assert f"first ({one.id}) of root, docker {one.owner.container[:12]}" in full.err
    assert len(docker.ask("ps", "-q").split()) == 2

    assert dict(one.labels)["asked"] == '{"cpus": 1000}', one.labels
    docker.ask("rm", "-f", "first")
    docker.ask("kill", "second")
    assert sorted(docker.reaped()) == ["first", "second"]


def test_a_container_that_is_stopped_has_no_claim_and_one_that_comes_back_has(docker: Host) -> None:
    docker.start("--cpus 1", "run", "-d", "--name", "once", IMAGE, "sleep", "300")
    docker.start("--cpus 1", "run", "-d", "--name", "always", "--restart=always", IMAGE, "sleep", "300")
    for name in ("once", "always"):
        docker.ask("stop", "-t", "0", name)
    assert docker.reaped() == ["once"]
    (hold,) = docker.holds()
    assert hold.name == "always"
    assert unheld(engine_of(hold, 0), [hold]) == ()
    docker.ask("start", "once")
    (stray,) = unheld(engine_of(hold, 0), [hold])
    assert stray.name == "once"
    docker.ask("rm", "always")
    assert docker.reaped() == ["always"]


def test_a_container_that_starts_again_keeps_its_hold(docker: Host) -> None:
    ran = docker.start(
        "--cpus 1",
        "run",
        "-d",
        "--name",
        "again",
        "--restart=on-failure",
        IMAGE,
        "sh",
        "-c",
        "sleep 0.2; exit 1",
    )
    assert ran.status == 0, ran
    until(lambda: int(docker.ask("inspect", "-f", "{{.RestartCount}}", "again")), "a restart")
    assert docker.reaped() == []
    docker.ask("rm", "-f", "again")
    assert docker.reaped() == ["again"]


def test_a_container_made_to_be_started_later(docker: Host) -> None:
    ran = docker.start("--cpus 1", "create", "--name", "later", IMAGE, "sleep", "300")
    assert ran.status == 0, ran
    assert docker.reaped() == []
    docker.ask("start", "later")
    (hold,) = docker.holds()
    (pid,) = container_pids(engine_of(hold, 0), "later")
    assert allowed_of(pid) == (hold.grant.cpus, hold.grant.mems)
    docker.ask("rm", "-f", "later")
    assert docker.reaped() == ["later"]


def test_the_users_own_file_for_the_id(docker: Host, tmp_path: Path) -> None:
    words = (f"--cidfile={tmp_path}/id", IMAGE, "sleep", "300")
    assert docker.start("--cpus 1", "run", "-d", *words).status == 0
    (hold,) = docker.holds()
    assert hold.owner.container == (tmp_path / "id").read_text()
    again = docker.start("--cpus 1", "run", "-d", *words)
    assert again.status == 2
    assert f"docker run --cidfile: {tmp_path}/id exists already; remove it" in again.err
    assert len(docker.recorded()) == 1


def test_the_container_outlives_numawise(docker: Host) -> None:
    """Killed without mercy: the container runs on, so its CPUs stay held until it ends."""
    with docker.begin("--cpus 1 -q", "run", "--name", "orphan", IMAGE, "sleep", "300") as process:
        until(lambda: any(hold.owner.container for hold in docker.recorded()), "the id in the ledger")
        (hold,) = docker.recorded()
        assert hold.owner.pid, "the client counts, too"
        process.kill()
        process.wait(PATIENCE)
        assert docker.reaped() == []
        os.kill(hold.owner.pid, signal.SIGKILL)
        until(lambda: allowed_of(hold.owner.pid) is None, "the end of the client")
        assert docker.reaped() == []
        docker.ask("rm", "-f", "orphan")
        assert docker.reaped() == ["orphan"]


def test_a_container_whose_id_was_never_recorded_is_known_by_its_label(docker: Host) -> None:
    """Numawise was killed after the client had made the container, and before it wrote that down."""
    docker.start("--cpus 1", "run", "-d", "--name", "lost", IMAGE, "sleep", "300")
    (hold,) = docker.holds()
    unrecorded = replace(
        hold,
        owner=replace(hold.owner, container="", pid=1 << 22, start=1),
        labels=tuple(label for label in hold.labels if label[0] != FIRST),
    )
    assert ended([unrecorded], 0) == ((), ())
    never_made = replace(unrecorded, id="zzzzz")
    assert ended([never_made], 0) == ((never_made,), ())
    docker.ask("rm", "-f", "lost")
    assert ended([unrecorded], 0) == ((unrecorded,), ())


def test_an_engine_that_does_not_answer_frees_nothing(docker: Host) -> None:
    docker.start("--cpus 1", "run", "-d", "--name", "held", IMAGE, "sleep", "300")
    (hold,) = docker.holds()
    docker.ask("rm", "-f", "held")
    deaf = replace(hold, labels=tuple({**dict(hold.labels), OPTIONS: "--host unix:///nowhere"}.items()))
    gone, silent = ended([deaf, hold], 0)
    assert gone == (hold,)
    assert len(silent) == 1
    assert silent[0].startswith("docker does not answer, so these stay held: held (")


def test_the_shared_pool_shrinks_and_grows_under_a_container(docker: Host) -> None:
    every = format_ids(sum(1 << cpu for cpu in os.sched_getaffinity(0)))
    docker.start("--cpus 0.5", "run", "-d", "--name", "shared", IMAGE, "sleep", "300")
    (hold,) = docker.holds()
    (pid,) = container_pids(engine_of(hold, 0), hold.owner.container)
    assert not hold.grant.cpus
    assert allowed_of(pid) == (parse_ids(every), hold.grant.mems)
    assert docker.ask("inspect", "-f", "{{.HostConfig.NanoCpus}}", "shared") == "500000000"
    docker.start("--cpus 1", "run", "-d", "--name", "own", IMAGE, "sleep", "300")
    own = next(hold for hold in docker.holds() if hold.name == "own")
    assert allowed_of(pid) == (parse_ids(every) & ~own.grant.cpus, hold.grant.mems)
    docker.ask("rm", "-f", "own")
    assert docker.reaped() == ["own"]
    assert allowed_of(pid) == (parse_ids(every), hold.grant.mems)


@pytest.mark.skipif(
    shutil.which("podman") is None or shutil.which("runc") is None, reason="no podman with runc"
)
def test_podman(image: Path, tmp_path: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="nw-podman-"))
    options = tuple(
        word
        for name, at in (("root", "root"), ("runroot", "run"), ("tmpdir", "tmp"))
        for word in (f"--{name}", f"{folder}/{at}")
    )
    options += ("--runtime=runc", "--storage-driver=vfs", "--cgroup-manager=cgroupfs")
    flags = ("--network=none", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "NUMAWISE_LEDGER": str(tmp_path / "ledger.db"),
    }
    host = Host("podman", options, flags, tmp_path / "ledger.db", environment)
    try:
        try:
            host.ask("import", str(image), IMAGE)
            host.ask("run", *flags, "--rm", IMAGE, "true")
        except subprocess.CalledProcessError as problem:
            pytest.skip(f"podman starts no container here: {problem.stderr[-300:]}")
        ran = host.start(
            "--cpus 1",
            "run",
            "--rm",
            IMAGE,
            "sh",
            "-c",
            "grep _allowed_list /proc/self/status; echo $NUMAWISE_CPUS",
        )
        assert ran.status == 0, ran
        assert allowed(ran.out) == ran.out.split()[-1]
        assert host.recorded() == ()
        assert host.start("--cpus 1 -q", "run", "--rm", IMAGE, "nothing-like-this").status == 127
        assert host.start("--cpus 1", "run", "-d", "--name", "pod", IMAGE, "sleep", "300").status == 0
        (hold,) = host.holds()
        (pid,) = container_pids(engine_of(hold, 0), hold.owner.container)
        assert allowed_of(pid) == (hold.grant.cpus, hold.grant.mems)
        host.ask("rm", "-f", "-t", "0", "pod")
        assert host.reaped() == ["pod"]
    finally:
        host.ask("rm", "--all", "--force", "-t", "0")
        shutil.rmtree(folder, ignore_errors=True)
