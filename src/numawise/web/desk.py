"""What the handlers of calls work with: the node that is served, nodes that requests name, and the news.

Rules kept here:

1. A node that a request names is read once and kept while it is asked about; the same content is the same
   node.
2. The node that is served is read anew when its files have changed.
3. Nothing that a client names is looked up in the file system of this host.
4. What is dropped takes the place of the same part of the node that is served.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from numawise.apps.bundle.gather import collect
from numawise.apps.launch.host_box import HostBox
from numawise.apps.overview.sources import SourceCluster
from numawise.apps.simulate.playing import ScenarioPlayer
from numawise.codec.document import read_documents
from numawise.codec.infile import read_raw
from numawise.codec.web.body import to_bytes
from numawise.codec.web.given import FileGiven, NodeGiven
from numawise.errors import InputError
from numawise.inputs.gathered import NodeSources
from numawise.inputs.machine import THIS, MachineInput
from numawise.inputs.recognise import recognised
from numawise.inputs.spec import NodeInput, NodeSpec, read_node
from numawise.service.log import ServiceLog
from numawise.values import dataclass, replace
from numawise.web.clusters import Clusters
from numawise.web.dropped import DroppedFiles, KeptFiles, machine_given
from numawise.web.news import News

MOST_NODES = 24
NODE = "$.node"
SERVED = "served-"
MAP, BOX, CLUSTER = "map", "box", "cluster"
"""What the page shows and what may change."""


@dataclass(frozen=True, slots=True)
class Served:
    """What the server was started for."""

    spec: NodeSpec | None = None
    """The node; None: none was named, and there is none on this host."""
    kubelet: NodeSources | None = None
    """Where the kubelet of this host is looked at, whenever its files have changed; the node is then that."""
    named: bool = False
    """The node was named; otherwise it is this host, or none."""
    host: bool = True
    """This host's jobs are shown."""
    this: bool = True
    """Requests may name this host's machine."""
    cluster: bool = False
    """A cluster's nodes are shown."""


@dataclass(slots=True)
class _Kept:
    node: NodeInput
    files: tuple[KeptFiles, ...] = ()
    """What it was read from, which it may still read."""


class Desk:
    """One server's desk; handlers in several threads share it."""

    def __init__(
        self,
        served: Served,
        log: ServiceLog,
        *,
        allow_changes: bool = False,
        cluster: SourceCluster | None = None,
    ) -> None:
        self.served, self.log, self.allow_changes = served, log, allow_changes
        self.clusters = Clusters(cluster)
        self.news = News()
        self.box = HostBox()
        self.dropped = DroppedFiles()
        self.player = ScenarioPlayer()
        self._lock = threading.RLock()
        self._nodes: OrderedDict[str, _Kept] = OrderedDict()
        self._turn = 0
        """How often the node that is served has changed."""

    def close(self) -> None:
        """Leave nothing behind."""
        self._nodes.clear()
        self.box.close()
        self.dropped.close()

    def changed(self, *what: str) -> None:
        """Tell every page that something has changed, and forget what was read of it."""
        if MAP in what:
            with self._lock:
                self._turn += 1
                for key in [key for key in self._nodes if key.startswith(SERVED)]:
                    del self._nodes[key]
        self.news.changed(*what)

    def files(
        self, files: Sequence[FileGiven], field: str = "$.files"
    ) -> AbstractContextManager[tuple[str, ...]]:
        """Paths of dropped files, for readers that take paths."""
        return self.dropped.paths(files, field)

    def node(self, given: NodeGiven, field: str = NODE) -> NodeInput:
        """The node that a request means (rules 1 and 2)."""
        key = (SERVED if given.served else "") + hashlib.sha256(to_bytes(given)).hexdigest()
        return self._once(key, lambda: self._read(given, field))

    def served_node(self) -> NodeInput:
        """The node that is served."""
        return self.node(NodeGiven(served=True))

    def machine(self, given: NodeGiven, field: str = NODE) -> MachineInput:
        """The machine alone, for those who ask for no kubelet."""
        return self.node(given, field).named_machine

    def machine_named(self, text: str, field: str) -> MachineInput:
        """A machine by its name or description (rule 3)."""
        if text == THIS and not self.served.this:
            advice = "name another machine, or drop files"
            raise InputError("this server shows nothing of its host", field=field, advice=advice)
        return machine_given(text, field)

    def _once(self, key: str, read: Callable[[], _Kept]) -> NodeInput:
        with self._lock:
            kept = self._nodes.get(key)
            if kept is not None:
                self._nodes.move_to_end(key)
                return kept.node
            turn = self._turn
        kept = read()
        with self._lock:
            if key.startswith(SERVED) and turn != self._turn:  # it may be what was there before
                return kept.node
            self._nodes[key] = kept
            while len(self._nodes) > MOST_NODES:
                self._nodes.popitem(last=False)
        return kept.node

    def _read(self, given: NodeGiven, field: str) -> _Kept:
        spec, gathered = NodeSpec(), None
        if given.served:
            if self.served.spec is None:
                raise InputError(
                    "no node is served here", field=f"{field}.served", advice="name a machine, or drop files"
                )
            spec, gathered = self.served.spec, self._gathered()
            if gathered is not None:
                spec = replace(spec, bundle=gathered.paths[0])
        if given.machine:
            spec = replace(spec, machine=self.machine_named(given.machine, f"{field}.machine"))
        if given.release:
            spec = replace(spec, kube=given.release)
        if given.match_devices:
            spec = replace(spec, match_devices=True)
        files = list(given.files)
        if given.config:  # the text is a file, so that messages have its lines
            spec = replace(spec, kubelet_config=(), config_dir="", kubelet_flags="")
            files.append(FileGiven(name="kubelet.yaml", text=given.config))
        kept = self.dropped.keep(files, f"{field}.files") if files else None
        if kept is not None:
            spec = _without(spec, recognised(NodeSpec(), kept.paths).node)
            known = recognised(spec, kept.paths)
            if known.unclear:
                raise InputError(known.unclear[0], field=f"{field}.files", advice="drop one of them")
            for path in known.pods:
                read_documents(*read_raw(path))  # what cannot be read at all is said first
                raise InputError(
                    "is no part of a node",
                    file=path,
                    advice="drop a machine, a configuration, state files or a bundle",
                )
            spec = known.node
            if isinstance(spec.kubelet_config, tuple) and len(spec.kubelet_config) > 1:
                both = " and ".join(map(str, spec.kubelet_config[:2]))
                what = f"{both} are kubelet configurations, and a node has one"
                raise InputError(what, field=f"{field}.files", advice="drop one of them")
        return _Kept(read_node(spec), tuple(one for one in (kept, gathered) if one is not None))

    def _gathered(self) -> KeptFiles | None:
        """This host as ``numawise bundle`` collects it, names and all."""
        if self.served.kubelet is None:
            return None
        bundle = collect(replace(self.served.kubelet, keep_names=True))
        return self.dropped.keep_bytes([("this-host.tar.gz", bundle.data)])


def _without(spec: NodeSpec, dropped: NodeSpec) -> NodeSpec:
    """A node without those parts that dropped files have: they take their place (rule 4)."""
    if dropped.kubelet_config or dropped.kubelet_flags:
        spec = replace(spec, kubelet_config=(), config_dir="", kubelet_flags="")
    if dropped.state:
        spec = replace(spec, state=NodeSpec().state)
    return spec


def check_simulated(node: NodeInput) -> NodeInput:
    """The node, of which all is known that it takes to ask its kubelet; what is missing is said."""
    _ = node.machine, node.configuration
    return node
