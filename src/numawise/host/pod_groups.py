"""Control groups of pods on this host: where they are, which container is which, and what they may use.

Rules kept here:

1. A pod's group is named after its uid, wherever it lies: ``kubepods/burstable/pod<uid>`` (driver cgroupfs),
   ``kubepods-burstable-pod<uid>.slice`` (driver systemd, ``_`` for ``-``), below any folder, because kubelets
   run inside containers, too.  Containers are the groups directly below it whose name has an id: ``<id>``,
   ``cri-containerd-<id>.scope``, ``crio-<id>.scope``, ``docker-<id>.scope``.  A runtime whose driver is not
   the kubelet's makes one group ``<slice>:cri-containerd:<id>`` elsewhere; it counts all the same.  crun puts
   processes into a group ``container`` below that, which is the one that binds them.
2. The cpuset and the memory controller may have trees of their own (version 1); paths in both are equal.
3. Which container of a pod an id is, only the kubelet knows; its links in ``/var/log/containers`` say it
   without any rights at the API server: ``POD_NAMESPACE_CONTAINER-ID.log`` to a folder that names the uid.
4. What ends while it is read is left out, never an error.  What is not there is ``None``.
5. Finding groups is dear, reading them is not: folders are listed again only where something may be new.
   A container that has ended keeps its link: what was sought ``SOUGHT`` times is sought rarely from then on.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from numawise.host.files import Tree
from numawise.values import dataclass, field

ROOT = Path("/")
TOP = "sys/fs/cgroup"
LINKS = "var/log/containers"
MOST_FOLDERS, DEEPEST = 20_000, 12
SOUGHT, SELDOM = 3, 30
UID = r"(?P<uid>[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})"
POD = re.compile(rf"(?:.*-)?pod{UID}(?:\.slice)?", re.ASCII)
CONTAINER = re.compile(r"(?P<runtime>[a-z-]*?)-?(?P<id>[0-9a-f]{64})(?:\.scope)?", re.ASCII)
ELSEWHERE = re.compile(
    rf"(?:.*-)?pod{UID}(?:\.slice)?:(?P<runtime>[a-z-]+):(?P<id>[0-9a-f]{{64}})(?:\.scope)?", re.ASCII
)
INNER = "container"
MONITORS = ("crio-conmon", "libpod-conmon", "conmon")
"""Groups of programs that watch containers, beside those of the containers."""
NAME = r"[a-z0-9][-a-z0-9.]{0,252}"
LINK = re.compile(
    rf"(?P<pod>{NAME})_(?P<namespace>{NAME})_(?P<container>{NAME})-(?P<id>[0-9a-f]{{64}})\.log", re.ASCII
)
ANON, FILE, SHMEM = "anon", "file", "shmem"
COUNT = re.compile(r"N([0-9]{1,5})=([0-9]{1,18})", re.ASCII)
PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class GroupTrees:
    """Where control groups are mounted below a root."""

    version: int
    cpuset: str
    """The cpuset controller's tree, relative to the root."""
    memory: str
    prefix: str = "cpuset."
    """Of the cpuset files; '' on old mounts."""

    @property
    def effective(self) -> tuple[str, str]:
        """Names of the files with the CPUs and the NUMA nodes that count."""
        if self.version == 1:
            return f"{self.prefix}effective_cpus", f"{self.prefix}effective_mems"
        return "cpuset.cpus.effective", "cpuset.mems.effective"

    @property
    def written(self) -> tuple[str, str]:
        """Names of the files that are written."""
        return f"{self.prefix}cpus", f"{self.prefix}mems"


@dataclass(frozen=True, slots=True)
class ContainerGroup:
    """The control group of one container."""

    uid: str
    """Of its pod, with ``-``."""
    id: str
    path: str
    """Below the top of its tree."""
    runtime: str = ""
    """What its name begins with, as ``cri-containerd``; '' for the driver cgroupfs."""

    @property
    def by_systemd(self) -> bool:
        """Whether systemd made it, and may set its cpuset again."""
        return self.path.endswith(".scope")


@dataclass(frozen=True, slots=True)
class GroupCpuset:
    """What a group may use; sets are packed, None is not known."""

    cpus: int | None
    """What counts."""
    mems: int | None
    written_cpus: int | None = None
    """What was written; 0: nothing, the group above decides."""
    written_mems: int | None = None


@dataclass(frozen=True, slots=True)
class GroupPages:
    """Where the memory of a group lies: NUMA id → bytes."""

    own: tuple[tuple[int, int], ...] = ()
    """Anonymous memory, with shared memory of its processes."""
    file: tuple[tuple[int, int], ...] = ()
    """The page cache."""
    huge: tuple[tuple[int, int], ...] = ()
    """Huge pages of hugetlbfs."""


@dataclass(frozen=True, slots=True)
class ContainerName:
    """Whose container an id is (rule 3)."""

    uid: str
    namespace: str
    pod: str
    container: str


def group_trees(root: Path = ROOT) -> GroupTrees | None:
    """The trees below a root; None where the cpuset controller is nowhere."""
    tree = Tree(root)
    if "cpuset" in (tree.text(f"{TOP}/cgroup.controllers") or "").split():
        return GroupTrees(2, TOP, TOP)
    for name in sorted(tree.names(TOP)):
        folder = f"{TOP}/{name}"
        if "cpuset" not in name.split(","):
            continue
        if tree.has(f"{folder}/cpuset.cpus"):
            return GroupTrees(1, folder, f"{TOP}/memory")
        if tree.has(f"{folder}/cpus"):
            return GroupTrees(1, folder, f"{TOP}/memory", "")
    return None


@dataclass(slots=True)
class PodGroups:
    """The containers' groups of a host, found once and kept up to date (rule 5)."""

    trees: GroupTrees
    root: Path = ROOT
    _bases: dict[str, None] = field(default_factory=dict)
    """Folders in which pods' groups, or containers of rule 1's last kind, were found."""
    _pods: dict[str, str] = field(default_factory=dict)
    """Uid → path."""
    _containers: dict[str, ContainerGroup] = field(default_factory=dict)
    """By id."""
    _sought: dict[str, int] = field(default_factory=dict)
    """Id → how often it was not found."""

    def find(self, wanted: Iterable[tuple[str, str]]) -> dict[str, ContainerGroup]:
        """The groups of containers, given as uid and id; those that are not there are left out."""
        asked = list(wanted)
        kept = {id_: group for _, id_ in asked if (group := self._containers.get(id_)) and self._is(group)}
        self._containers = dict(kept)
        times = {id_: self._sought.get(id_, 0) for _, id_ in asked if id_ not in kept}
        due = {id_ for id_, often in times.items() if often < SOUGHT or often % SELDOM == 0}
        for seek in (self._in_known_pods, self._in_known_bases, self._everywhere):
            missing = [(uid, id_) for uid, id_ in asked if id_ in due and id_ not in kept]
            if not missing:
                break
            seek(missing)
            kept |= {id_: self._containers[id_] for _, id_ in missing if id_ in self._containers}
        self._sought = {id_: often + 1 for id_, often in times.items() if id_ not in kept}
        return kept

    def all(self) -> tuple[ContainerGroup, ...]:
        """Every container's group, looked for everywhere; sandboxes, which have ids too, are among them."""
        self._walk()
        for uid, path in self._pods.items():
            self._list_pod(uid, path)
        return tuple(sorted(self._containers.values(), key=lambda group: group.path))

    def _is(self, group: ContainerGroup) -> bool:
        return os.path.isdir(self._place(group.path))  # noqa: PTH112 - rule 5

    def _place(self, path: str) -> str:
        return os.path.join(self.root, self.trees.cpuset, path)  # noqa: PTH118 - rule 5

    def _in_known_pods(self, missing: Iterable[tuple[str, str]]) -> None:
        for uid in dict.fromkeys(uid for uid, _ in missing):
            if uid in self._pods:
                self._list_pod(uid, self._pods[uid])

    def _in_known_bases(self, missing: Iterable[tuple[str, str]]) -> None:
        for base in self._bases:
            for name in _folders(self._place(base)):
                self._recognised(base, name)
        self._in_known_pods(missing)

    def _everywhere(self, missing: Iterable[tuple[str, str]]) -> None:
        self._walk()
        self._in_known_pods(missing)

    def _walk(self) -> None:
        """Look through the whole tree, nearest to the top first, into no pod."""
        level, seen = [""], 0
        self._bases.clear()
        self._pods.clear()
        for _ in range(DEEPEST):
            below = []
            for path in level:
                seen += 1
                if seen > MOST_FOLDERS:
                    return
                for name in _folders(self._place(path)):
                    if not self._recognised(path, name):
                        below.append(f"{path}/{name}".lstrip("/"))
            level = below

    def _recognised(self, base: str, name: str) -> bool:
        path = f"{base}/{name}".lstrip("/")
        if pod := POD.fullmatch(name):
            self._bases[base] = None
            self._pods.setdefault(_uid(pod["uid"]), path)
            return True
        if lone := ELSEWHERE.fullmatch(name):
            self._bases[base] = None
            group = ContainerGroup(_uid(lone["uid"]), lone["id"], path, lone["runtime"])
            self._containers.setdefault(group.id, group)
            return True
        return False

    def _list_pod(self, uid: str, path: str) -> None:
        for name in _folders(self._place(path)):
            container = CONTAINER.fullmatch(name)
            if container and container["runtime"] not in MONITORS:
                group = ContainerGroup(uid, container["id"], f"{path}/{name}", container["runtime"])
                self._containers[group.id] = group

    def cpuset(self, group: ContainerGroup, expected: tuple[int, int] | None = None) -> GroupCpuset:
        """What a group may use, and what was written into it.

        ``expected``: CPUs and NUMA nodes (0: any); where they count, what was written is not read.
        """
        tree = Tree(self.root)
        place = f"{self.trees.cpuset}/{self._binding(group)}"
        cpus, mems = (tree.ids(f"{place}/{name}") for name in self.trees.effective)
        if expected is not None and cpus is not None and mems is not None:
            wanted_cpus, wanted_mems = expected
            if wanted_cpus in (0, cpus) and wanted_mems in (0, mems):
                return GroupCpuset(cpus, mems)
        written_cpus, written_mems = (tree.ids(f"{place}/{name}") for name in self.trees.written)
        if self.trees.version == 1:  # kernels before 3.17 have no effective ones
            cpus = written_cpus if cpus is None else cpus
            mems = written_mems if mems is None else mems
        return GroupCpuset(cpus, mems, written_cpus, written_mems)

    def pages(self, group: ContainerGroup) -> GroupPages | None:
        """Where the memory of a group lies; None: the kernel does not say."""
        tree = Tree(self.root)
        place = f"{self.trees.memory}/{group.path}"
        text = tree.text(f"{place}/memory.numa_stat")
        if text is None:
            return None
        rows = _numa_rows(text)
        huge: dict[int, int] = {}
        for name in tree.names(place) if self.trees.version == 2 else ():
            if name.startswith("hugetlb.") and name.endswith(".numa_stat"):
                for numa, size in _numa_rows(tree.text(f"{place}/{name}") or "").get("total", {}).items():
                    huge[numa] = huge.get(numa, 0) + size
        if self.trees.version == 1:
            own, file = (
                {numa: count * PAGE_SIZE for numa, count in rows.get(name, {}).items()}
                for name in ("hierarchical_anon", "hierarchical_file")
            )
            return GroupPages(_sorted(own), _sorted(file))
        shared = rows.get(SHMEM, {})  # counted as file pages by the kernel
        own = {numa: size + shared.get(numa, 0) for numa, size in rows.get(ANON, {}).items()}
        file = {numa: max(0, size - shared.get(numa, 0)) for numa, size in rows.get(FILE, {}).items()}
        return GroupPages(_sorted(own), _sorted(file), _sorted(huge))

    def members(self, group: ContainerGroup) -> tuple[int, ...]:
        """Processes of a group and of those below it."""
        pids: set[int] = set()
        left = [self._place(group.path)]
        while left and len(pids) < MOST_FOLDERS:
            folder = left.pop()
            text = Tree(folder).text("cgroup.procs") or ""
            pids.update(int(word) for word in text.split() if word.isascii() and word.isdecimal())
            left += [f"{folder}/{name}" for name in _folders(folder)]
        return tuple(sorted(pids))

    def written_file(self, group: ContainerGroup, *, mems: bool = False) -> str:
        """The file that is written to change what a group may use."""
        return f"{self._place(self._binding(group))}/{self.trees.written[mems]}"

    def _binding(self, group: ContainerGroup) -> str:
        """The path of the group that has the container's processes (rule 1)."""
        inner = f"{group.path}/{INNER}"
        return inner if os.path.isdir(self._place(inner)) else group.path  # noqa: PTH112 - rule 5


def container_names(
    root: Path = ROOT, known: Mapping[str, ContainerName] | None = None
) -> dict[str, ContainerName]:
    """Id → whose container it is, by the kubelet's links (rule 3); ``known`` are not read again."""
    tree = Tree(root)
    names: dict[str, ContainerName] = {}
    for name in tree.names(LINKS):
        link = LINK.fullmatch(name)
        if link is None:
            continue
        before = known.get(link["id"]) if known else None
        if before is not None:
            names[link["id"]] = before
            continue
        # /var/log/pods/NAMESPACE_POD_UID/CONTAINER/0.log
        parts = (tree.link(f"{LINKS}/{name}") or "").split("/")
        folder = parts[-3] if len(parts) > 2 else ""
        head = f"{link['namespace']}_{link['pod']}_"
        if folder.startswith(head) and (uid := folder[len(head) :]):
            names[link["id"]] = ContainerName(_uid(uid), link["namespace"], link["pod"], link["container"])
    return names


def _uid(text: str) -> str:
    return text.replace("_", "-")


def _folders(path: str) -> Iterator[str]:
    try:
        with os.scandir(path) as entries:
            yield from [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return


def _numa_rows(text: str) -> dict[str, dict[int, int]]:
    """Lines such as ``anon N0=4096 N1=0``, or ``anon=1 N0=1`` in version 1: name → NUMA id → number."""
    rows = {}
    for line in text.splitlines():
        head, _, rest = line.partition(" ")
        rows[head.partition("=")[0]] = {int(numa): int(number) for numa, number in COUNT.findall(rest)}
    return rows


def _sorted(sizes: dict[int, int]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted((numa, size) for numa, size in sizes.items() if size))
