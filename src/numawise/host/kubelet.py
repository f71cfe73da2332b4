"""A kubelet on this host: which process it is, whether one works on a directory, and where its settings are.

Rules kept here:

1. The node's kubelet is a process that is called so, with a program that is called so, that runs as root or
   as us, in our mount and process namespaces and in no container's control group.  Whatever else is called
   kubelet was brought by somebody: neither its command line nor its files are believed.  What may not be
   looked at does not count.
2. A kubelet listens on sockets below its directory.  Somebody who takes a connection there is proof enough
   that one works on it, whatever the program is called; a socket that nobody listens on is left over.
3. Nothing is executed to learn something about a kubelet.
"""

import os
import re
import shlex
import socket
import stat
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path

from numawise.host.processes import DEAD, Process, processes, uid_of
from numawise.values import dataclass

ROOT = Path("/")
DEFAULT_DIRECTORY = Path("/var/lib/kubelet")
SOCKETS = ("device-plugins/kubelet.sock", "pod-resources/kubelet.sock")
PROGRAMS = ("kubelet", "kubelite", "hyperkube", "k3s-server", "k3s-agent", "k3s", "rke2", "microshift", "k0s")
"""Names of processes, as the kernel cuts them to fifteen characters, and of their programs."""
OWN = ("kubelet", "hyperkube")
FLAG = "--root-dir"
SOCKET_PATIENCE = 0.5
"""Seconds to wait for a connection; a listening socket takes it at once."""
NAMESPACES = {"mnt": "mount", "pid": "process"}
CONTAINER = re.compile(
    r"kubepods.*|(docker|cri-containerd|containerd|nerdctl|crio|libpod|podman|buildkit|lxc|machine)[-_.:].+"
    r"|docker|containerd|podman|buildkit|lxc|[0-9a-f]{64}.*",
    re.ASCII,
)
"""Control groups in which runtimes keep containers and pods."""
DELETED = " (deleted)"


def ignore(_: str) -> None:
    """Nobody wants to know."""


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


def node_kubelets(root: Path = ROOT, note: Callable[[str], None] = ignore) -> tuple[Running, ...]:
    """The node's kubelets that run (rule 1), those of their own program first.

    ``root``: where another host's root is; its first process stands for it.  ``note``: called with a
    sentence about every other process of such a name.
    """
    kubelets: list[Running] = []
    for process in processes(root):
        if process.name not in PROGRAMS or process.state in DEAD:
            continue
        if why_not := _stranger(process, root):
            note(f"process {process.pid} is called {process.name}, but was passed over: {why_not}")
        elif words := _words(process.pid, root):
            kubelets.append(Running(process.pid, process.name, words))
    return tuple(sorted(kubelets, key=lambda kubelet: (kubelet.embedded, kubelet.pid)))


def _stranger(process: Process, root: Path) -> str:
    """Why a process is not the node's kubelet; '' when it is (rule 1)."""
    proc, live = root / "proc", root == ROOT
    reference, own = proc / ("self" if live else "1"), proc / str(process.pid)
    for name, what in NAMESPACES.items():
        ours, theirs = _link(reference / "ns" / name), _link(own / "ns" / name)
        if not ours or not theirs:
            return "it may not be looked at; run as root"
        if ours != theirs:
            return f"it is in another {what} namespace, as in a container"
    around, groups = _groups(reference), _groups(own)
    if around and not groups:
        return "it may not be looked at; run as root"
    if any(_in_container(group, around.get(tree, "/")) for tree, group in groups.items()):
        return "it is in the control group of a container"
    program = _link(own / "exe").removesuffix(DELETED).rpartition("/")[2]
    if program not in PROGRAMS:
        return "its program is called otherwise"
    if uid_of(process.pid, root) not in ((0, os.geteuid()) if live else (0,)):
        return "it does not run as root"
    return ""


def _groups(process: Path) -> dict[str, str]:
    """Tree of control groups → the group that the process is in; empty when unknown."""
    try:
        lines = (process / "cgroup").read_text(errors="replace").splitlines()
    except OSError:
        return {}
    return {":".join(line.split(":", 2)[:2]): line.split(":", 2)[-1] for line in lines}


def _in_container(group: str, ours: str) -> bool:
    """Whether a control group belongs to a container that we are not in ourselves."""
    around = takewhile(lambda pair: pair[0] == pair[1], zip(group.split("/"), ours.split("/"), strict=False))
    return any(CONTAINER.fullmatch(part) for part in group.split("/")[len(list(around)) :])


def _link(path: Path) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115 - as text
    except OSError:
        return ""


def kubelet_on(directory: Path, root: Path = ROOT) -> str:
    """What shows that a kubelet works on the directory, in words; '' when nothing does."""
    for name in SOCKETS:
        path = directory / name
        if _listens(path):
            return f"a process listens on {path}"
    wanted = os.path.realpath(directory)
    for kubelet in node_kubelets(root):
        if os.path.realpath(kubelet.directory) == wanted:
            return f"{kubelet.name} runs on it (process {kubelet.pid})"
    return ""


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
# 4. The version is read out of the program's file, which is never executed: Go's linker puts the version that
#    a build was given between zero bytes.  More than one such text that could be it is none.


LARGEST_FILE = 16 << 20
ABSENT = "does not exist"
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
PASSED_ON, ARGUMENTS_FILE = "--kubelet-arg", "--kubelet-args-file"
INSTALLED = ("usr/bin", "usr/local/bin", "opt/bin", "bin", "home/kubernetes/bin", "usr/libexec/kubernetes")
VERSION = re.compile(rb"\0(v1\.[2-9][0-9]\.[0-9]{1,3}(?:[-+][0-9A-Za-z.+-]{1,40})?)(?=\0)")
"""Releases from 1.20 on; what else a program is made of, such as containerd, has smaller numbers."""
LARGEST_PROGRAM, CHUNK, OVERLAP, MOST_VERSIONS = 512 << 20, 1 << 20, 64, 16
POD_FOLDER = re.compile(r"([a-z0-9.-]+)_([a-z0-9.-]+)_([0-9a-f-]{16,64})", re.ASCII)


@dataclass(frozen=True, slots=True)
class HostFile:
    """A file's content, or why it cannot be had."""

    path: str
    """From the root of the host on."""
    data: bytes = b""
    problem: str = ""


def own_arguments(kubelet: Running) -> tuple[str, ...]:
    """The arguments of a kubelet that is its own program; one program of many is named its part first."""
    program, *words = kubelet.words or ("",)
    if words[:1] == [OWN[0]] and program.rpartition("/")[2] != OWN[0]:
        del words[0]
    return tuple(words)


def passed_arguments(kubelet: Running, root: Path = ROOT) -> str:
    """What a program passes on to the kubelet inside it, as text (rule 2); '' when it cannot be seen."""
    words = list(kubelet.words[1:])
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


def read_seen(
    path: str, kubelet: Running | None, root: Path = ROOT, *, written_by_it: bool = False
) -> HostFile:
    """A file by the path that a kubelet knows it by (rule 1); ``written_by_it``: it is not a link then."""
    file = HostFile(path, problem=ABSENT)
    for place in _seen(path, kubelet, root):
        here = read_whole(place, path, follow=not written_by_it)
        if not here.problem:
            return here
        file = here if file.problem == ABSENT else file
    return file


def folder_seen(path: str, kubelet: Running | None, root: Path = ROOT) -> Path | None:
    """Likewise a folder; None when there is none."""
    return next((place for place in _seen(path, kubelet, root) if os.path.isdir(place)), None)  # noqa: PTH112


def read_whole(place: Path, path: str = "", *, follow: bool = True) -> HostFile:
    """The content of a plain file; ``path``: what to call it, ``follow``: also where its name is a link."""
    name, flags = path or str(place), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        with os.fdopen(os.open(place, flags if follow else flags | os.O_NOFOLLOW), "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                return HostFile(name, problem="is not a regular file")
            data = stream.read(LARGEST_FILE + 1)
    except PermissionError:
        return HostFile(name, problem="may not be read; run as root")
    except (FileNotFoundError, NotADirectoryError):
        return HostFile(name, problem="is a link that leads nowhere" if place.is_symlink() else ABSENT)
    except (OSError, ValueError) as problem:
        if not follow and os.path.islink(place):  # noqa: PTH114 - False for a name that is too long
            return HostFile(name, problem="is a link, which no kubelet makes")
        reason = getattr(problem, "strerror", None) or "its name has a zero byte"
        return HostFile(name, problem=f"cannot be read: {reason}")
    if len(data) > LARGEST_FILE:
        return HostFile(name, problem=f"is larger than {LARGEST_FILE >> 20} MiB")
    return HostFile(name, data)


def files_in(folder: Path) -> Iterator[Path]:
    """Files in the kubelet's order: by name, folders where their name comes."""
    try:
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: os.fsencode(entry.name))
    except OSError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from files_in(Path(entry.path))
        else:
            yield Path(entry.path)


def installed_configs(root: Path = ROOT) -> Iterator[HostFile]:
    """Configurations where installers put them (rule 3)."""
    for place in CONFIGS:
        if os.path.isfile(root / place):  # noqa: PTH113 - False where we may not look
            yield read_whole(root / place, f"/{place}")


def installed_flags(root: Path = ROOT) -> Iterator[HostFile]:
    """Files that set flags of a kubelet (rule 3)."""
    seen: set[str] = set()
    for pattern in FLAG_FILES:
        for place in sorted(root.glob(pattern)):
            real = os.path.realpath(place)
            if os.path.isfile(place) and real not in seen:  # noqa: PTH113
                seen.add(real)
                yield read_whole(place, f"/{place.relative_to(root)}")


def installed_drop_ins(root: Path = ROOT) -> Path | None:
    """The drop-in directory that an installer made, if there is one."""
    return next((root / place for place in DROP_INS if os.path.isdir(root / place)), None)  # noqa: PTH112


def program_version(kubelet: Running | None, root: Path = ROOT) -> str:
    """The version of the kubelet that runs, or of an installed one; '' when it is unknown (rule 4)."""
    if kubelet is None:
        places = [root / folder / "kubelet" for folder in INSTALLED]
    elif root == ROOT:
        places = [Path(f"/proc/{kubelet.pid}/exe")]
    else:
        places = [root / _link(root / f"proc/{kubelet.pid}/exe").removesuffix(DELETED).lstrip("/")]
    return next((version for place in places if (version := _version_in(place))), "")


def _version_in(program: Path) -> str:
    versions: set[str] = set()
    try:
        with os.fdopen(os.open(program, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                return ""
            before = b""
            for _ in range(LARGEST_PROGRAM // CHUNK):
                piece = stream.read(CHUNK)
                if not piece or len(versions) > MOST_VERSIONS:
                    break
                versions.update(text.decode() for text in VERSION.findall(before + piece))
                before = piece[-OVERLAP:]
    except OSError:
        return ""
    own = {version for version in versions if "+" in version} or versions  # v1.36.4+k3s1 beside its tools
    return own.pop() if len(own) == 1 else ""


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
