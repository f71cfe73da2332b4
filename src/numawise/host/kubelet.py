"""A kubelet on this host: whether one works on a directory right now, and where its settings are.

Rules kept here:

1. A kubelet listens on sockets below its directory.  Somebody who takes a connection there is proof enough,
   whatever the program is called; a socket that nobody listens on is left over.
2. A process that is called like a kubelet, or like a program with one inside, counts when its ``--root-dir``
   is the directory.
3. What may not be looked at proves nothing.
"""

import os
import re
import shlex
import socket
import stat
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from numawise.host.processes import DEAD, processes, uid_of
from numawise.values import dataclass

ROOT = Path("/")
DEFAULT_DIRECTORY = Path("/var/lib/kubelet")
SOCKETS = ("device-plugins/kubelet.sock", "pod-resources/kubelet.sock")
PROGRAMS = ("kubelet", "kubelite", "hyperkube", "k3s-server", "k3s-agent", "k3s", "rke2", "microshift", "k0s")
"""Names of processes, as the kernel cuts them to fifteen characters."""
FLAG = "--root-dir"
SOCKET_PATIENCE = 0.5
"""Seconds to wait for a connection; a listening socket takes it at once."""


def kubelet_on(directory: Path, root: Path = ROOT) -> str:
    """What shows that a kubelet works on the directory, in words; '' when nothing does."""
    return next(_evidence(directory, root), "")


def _evidence(directory: Path, root: Path) -> Iterator[str]:
    for name in SOCKETS:
        path = directory / name
        if _listens(path):
            yield f"a process listens on {path}"
    wanted = _real(directory)
    for process in processes(root):
        if process.name in PROGRAMS and process.state not in DEAD:
            words = _command(process.pid, root)
            if _real(root_directory(words)) == wanted:
                yield f"{process.name} runs on it (process {process.pid})"


def root_directory(words: Sequence[str]) -> Path:
    """The directory that a kubelet with this command line works on."""
    found = DEFAULT_DIRECTORY
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name not in (FLAG, FLAG[1:]):
            continue
        if equals:
            found = Path(value)
        elif at + 1 < len(words):
            found = Path(words[at + 1])
    return found


def _listens(path: Path) -> bool:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as attempt:
            attempt.settimeout(SOCKET_PATIENCE)
            attempt.connect(os.fspath(path))
    except (TimeoutError, BlockingIOError):
        return True  # its queue is full: there is a listener
    except (OSError, ValueError):
        return False
    return True


def _command(pid: int, root: Path) -> list[str]:
    try:
        raw = (root / f"proc/{pid}/cmdline").read_bytes()
    except OSError:
        return []
    return [part.decode(errors="replace") for part in raw.split(b"\0")]


def _real(path: Path) -> str:
    return os.path.realpath(path)


# --------------------------------------------------------------------------------------------------
# Where a kubelet's settings are on a host: the running process first, then the places that installers use.
#
# Rules kept here:
#
# 1. A running kubelet is believed: its command line names the file, the drop-in directory and its own folder,
#    as seen from its own root and working directory.
# 2. Some programs embed a kubelet; what they pass on to it is reported as far as their command line shows
#    it.
# 3. Without a kubelet that runs, the files of the usual installers are looked at, flags of systemd units and
#    environment files included.  What is not there stays unmentioned.
# 4. A program is asked for its version only when root, or whoever asks, runs it: the name alone proves
#    nothing.


LARGEST_FILE = 16 << 20
PATIENCE = 10
"""Seconds for a program to print its version."""
CONFIGS = (
    "var/lib/kubelet/config.yaml",
    "etc/kubernetes/kubelet-config.yaml",
    "etc/kubernetes/kubelet/kubelet-config.json",
    "etc/kubernetes/kubelet/config.json",
    "etc/kubernetes/kubelet.yaml",
    "home/kubernetes/kubelet-config.yaml",
    "etc/default/kubeletconfig.json",
    "etc/kubernetes/kubelet.conf",
)
"""kubeadm, kubespray, EKS (two), Talos, GKE, AKS, OpenShift; with kubeadm the last one is something else."""
DROP_INS = (
    "etc/kubernetes/kubelet/config.json.d",
    "etc/openshift/kubelet.conf.d",
    "var/lib/rancher/k3s/agent/etc/kubelet.conf.d",
    "var/lib/rancher/rke2/agent/etc/kubelet.conf.d",
)
FLAG_FILES = (
    "usr/lib/systemd/system/kubelet.service",
    "lib/systemd/system/kubelet.service",
    "etc/systemd/system/kubelet.service",
    "usr/lib/systemd/system/kubelet.service.d/*.conf",
    "etc/systemd/system/kubelet.service.d/*.conf",
    "var/lib/kubelet/kubeadm-flags.env",
    "etc/default/kubelet",
    "etc/sysconfig/kubelet",
    "etc/kubernetes/kubelet.env",
    "var/snap/microk8s/current/args/kubelet",
)
OWN = ("kubelet", "hyperkube")
PASSED_ON, ARGUMENTS_FILE = "--kubelet-arg", "--kubelet-args-file"
VERSION = re.compile(r"v\d+\.\d+\.\d+\S*", re.ASCII)
POD_FOLDER = re.compile(r"([a-z0-9.-]+)_([a-z0-9.-]+)_([0-9a-f-]{16,64})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Running:
    """A process that is, or has inside, a kubelet."""

    pid: int
    name: str
    words: tuple[str, ...]
    """Its command line."""

    @property
    def embedded(self) -> bool:
        """True when the kubelet is inside another program."""
        return self.name not in OWN

    @property
    def directory(self) -> Path:
        """The folder that it keeps its state in."""
        return root_directory(self.words)


@dataclass(frozen=True, slots=True)
class HostFile:
    """A file's content, or why it cannot be had."""

    path: str
    """From the root of the host on."""
    data: bytes = b""
    problem: str = ""


def running_kubelets(root: Path = ROOT) -> tuple[Running, ...]:
    """The kubelets that run: those of their own program first, and those of root before others."""
    found = [
        Running(process.pid, process.name, _words(process.pid, root))
        for process in processes(root)
        if process.name in PROGRAMS and process.state not in DEAD
    ]
    order = {one.pid: (one.embedded, uid_of(one.pid, root) not in (0, None), one.pid) for one in found}
    return tuple(sorted((one for one in found if one.words), key=lambda one: order[one.pid]))


def command_line(kubelet: Running, root: Path = ROOT) -> str:
    """The arguments that reach the kubelet, as text (rule 2); '' when they cannot be seen."""
    words = list(kubelet.words[1:])
    if not kubelet.embedded:
        return shlex.join(words)
    passed: list[str] = []
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        value = value if equals else words[at + 1] if at + 1 < len(words) else ""
        if name == PASSED_ON:
            passed.append(shlex.quote(f"--{value.lstrip('-')}"))
        elif name == ARGUMENTS_FILE:
            found = read_seen(value, kubelet, root)
            passed.append(found.data.decode(errors="replace"))
    return " ".join(passed)


def read_seen(path: str, kubelet: Running | None, root: Path = ROOT) -> HostFile:
    """A file by the path that a kubelet knows it by (rule 1)."""
    for place in _seen(path, kubelet, root):
        if os.path.lexists(place):
            return read_whole(place, path)
    return HostFile(path, problem="does not exist")


def folder_seen(path: str, kubelet: Running | None, root: Path = ROOT) -> Path | None:
    """Likewise a folder; None when there is none."""
    return next((place for place in _seen(path, kubelet, root) if place.is_dir()), None)


def read_whole(place: Path, path: str = "") -> HostFile:
    """The content of a plain file; ``path``: what to call it."""
    name = path or str(place)
    try:
        with os.fdopen(os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                return HostFile(name, problem="is not a regular file")
            data = stream.read(LARGEST_FILE + 1)
    except PermissionError:
        return HostFile(name, problem="may not be read; run as root")
    except OSError as problem:
        return HostFile(name, problem=f"cannot be read: {problem.strerror}")
    if len(data) > LARGEST_FILE:
        return HostFile(name, problem=f"is larger than {LARGEST_FILE >> 20} MiB")
    return HostFile(name, data)


def files_in(folder: Path) -> Iterator[Path]:
    """Files in the kubelet's order: by name, folders where their name comes."""
    try:
        entries = sorted(folder.iterdir(), key=lambda one: one.name.encode(errors="surrogateescape"))
    except OSError:
        return
    for entry in entries:
        if entry.is_dir():
            yield from files_in(entry)
        else:
            yield entry


def installed_configs(root: Path = ROOT) -> Iterator[HostFile]:
    """Configurations where installers put them (rule 3)."""
    for place in CONFIGS:
        if (root / place).is_file():
            yield read_whole(root / place, f"/{place}")


def installed_flags(root: Path = ROOT) -> Iterator[HostFile]:
    """Files that set flags of a kubelet (rule 3)."""
    seen: set[str] = set()
    for pattern in FLAG_FILES:
        for place in sorted(root.glob(pattern)):
            real = os.path.realpath(place)
            if place.is_file() and real not in seen:
                seen.add(real)
                yield read_whole(place, f"/{place.relative_to(root)}")


def installed_drop_ins(root: Path = ROOT) -> Path | None:
    """The drop-in directory that an installer made, if there is one."""
    return next((root / place for place in DROP_INS if (root / place).is_dir()), None)


def reported_version(kubelet: Running | None) -> str:
    """What a kubelet on this host says its version is; '' when it does not, or may not be asked (rule 4)."""
    program = "kubelet"
    if kubelet is not None:
        owner = uid_of(kubelet.pid)
        if owner not in (0, os.geteuid()):
            return ""
        program = f"/proc/{kubelet.pid}/exe"
    try:
        done = subprocess.run(  # noqa: S603 - the program that runs already, or the one on the path
            [program, "--version"],
            capture_output=True,
            timeout=PATIENCE,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    found = VERSION.search(done.stdout.decode(errors="replace"))
    return found[0] if found else ""


def pod_folders(folder: Path) -> dict[str, tuple[str, str]]:
    """Uid → namespace and name, as the folders of the containers' logs are called."""
    try:
        names = [entry.name for entry in folder.iterdir()]
    except OSError:
        return {}
    matched = (POD_FOLDER.fullmatch(name) for name in sorted(names))
    return {found[3]: (found[1], found[2]) for found in matched if found}


def _words(pid: int, root: Path) -> tuple[str, ...]:
    try:
        raw = (root / f"proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ()
    return tuple(part.decode(errors="replace") for part in raw.rstrip(b"\0").split(b"\0"))


def _seen(path: str, kubelet: Running | None, root: Path) -> Sequence[Path]:
    plain = path.lstrip("/")
    if kubelet is None:
        return (root / plain,)
    own = root / f"proc/{kubelet.pid}"
    if path.startswith("/"):
        return (own / "root" / plain, root / plain)
    return (own / "cwd" / plain, root / plain)
