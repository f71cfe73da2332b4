"""What is read once for each kubelet: the machine's hardware, the configuration and the release.

Rules kept here:

1. Another PodResources socket is another kubelet, and so is another version in the Node object; while there
   is no socket, what the last kubelet ran with is what is known.
2. The running kubelet is believed (``configz``), then its files.  A file that was written after its kubelet
   started is not what it runs with.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from numawise.apps.agent.sight_values import (
    NO_CONFIGURATION,
    NO_MACHINE,
    NO_VERSION,
    STALE_CONFIGURATION,
    SightProblem,
)
from numawise.codec.document import Document
from numawise.codec.kubelet import effective
from numawise.codec.kubelet.forms import Found
from numawise.errors import HostError, InputError
from numawise.host.discover import nvidia_uuids, read_live
from numawise.host.files import stamp
from numawise.host.kubelet import program_version
from numawise.inputs.config import ConfigInput
from numawise.inputs.gathered import CONFIG, KubeletParts, NodeSources, Notes
from numawise.inputs.kubelet import kubelet_parts
from numawise.kube.podresources import SOCKET
from numawise.machine.hardware import Hardware
from numawise.rules.versions import DEFAULT, Profile, profile_of
from numawise.values import dataclass

Configz = Callable[[], Mapping[str, Any] | None]


@dataclass(frozen=True, slots=True)
class KubeletSettings:
    """A kubelet's surroundings."""

    key: object
    hardware: Hardware
    uuids: Mapping[str, str]
    configuration: ConfigInput | None
    raw: Mapping[str, Any]
    """The configuration as fields."""
    version: str
    profile: Profile
    problems: tuple[SightProblem, ...]


class SettingsReader:
    """Reads them, and keeps them for as long as they hold (rule 1)."""

    def __init__(self, sources: NodeSources, configz: Configz | None) -> None:
        self.sources, self.configz = sources, configz
        self.socket = Path(sources.kubelet_dir) / SOCKET
        self._known: KubeletSettings | None = None

    def read(self, version: str) -> KubeletSettings:
        """The settings; ``version``: what the Node object says."""
        socket = stamp(self.socket)
        known = self._known
        if known is not None and socket is None:
            return known
        key = (socket, version)
        if known is None or known.key != key:
            known = self._known = self._read(key, version)
        return known

    def forget(self) -> None:
        """Read them again the next time."""
        self._known = None

    def _read(self, key: object, told: str) -> KubeletSettings:
        notes, problems = Notes(), list[SightProblem]()
        sources = self.sources
        hardware, uuids = Hardware(), dict[str, str]()
        try:
            hardware, uuids = read_live(sources.root), nvidia_uuids(sources.top)
        except HostError as problem:
            problems.append(SightProblem(NO_MACHINE, str(problem)))
        parts = KubeletParts()
        try:
            parts = kubelet_parts(sources, notes)
        except InputError as problem:
            problems.append(SightProblem(NO_CONFIGURATION, str(problem)))
        version = sources.kube or told or program_version(parts.running, sources.top)
        profile = Profile(DEFAULT)
        if version:
            try:
                profile = profile_of(version)
            except ValueError as problem:
                problems.append(SightProblem(NO_VERSION, f"the kubelet's version: {problem}"))
        else:
            advice = "let the agent get its Node object, or give --kube VERSION"
            problems.append(SightProblem(NO_VERSION, f"the kubelet's version is not known; {advice}"))
        running = effective.by_kubelet(self.configz() if self.configz is not None else None, profile.version)
        raw = running or parts.together(profile.version)
        if raw is None:
            why = "; ".join(note.said for what, note in notes.absent if what == CONFIG) or "nothing was found"
            advice = "let the agent read the kubelet's files (--kubelet-config FILE), or ask it (--configz)"
            text = f"the kubelet's configuration is not known: {why}; {advice}"
            problems.append(SightProblem(NO_CONFIGURATION, text))
        elif running is None and (late := self._written_later(notes)):
            problems.append(SightProblem(STALE_CONFIGURATION, late))
        config = None
        if raw is not None:
            name = "configz" if running is not None else "the kubelet's configuration"
            config = ConfigInput(name, Found(Document(raw, name).root), tolerant=True)
        return KubeletSettings(key, hardware, uuids, config, raw or {}, version, profile, tuple(problems))

    def _written_later(self, notes: Notes) -> str:
        """A sentence on a file that is younger than the kubelet; '' when none is (rule 2)."""
        started, named = stamp(self.socket), self.sources.kubelet_config
        for note in notes.sources.get(CONFIG, ()):
            path = Path(named) if named else self.sources.top / note.path.lstrip("/")
            written = stamp(path)
            if started is not None and written is not None and written[1] > started[1]:
                what = f"{named or note.path} was changed after the kubelet started"
                advice = "restart the kubelet, or ask it (--configz)"
                return f"{what}, so what it runs with is not known; {advice}"
        return ""
