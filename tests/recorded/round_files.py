"""A round of a real kubelet as files: unpacked for a test, or packed out of what a run left.

A round is a folder with ``before.tar.gz`` (a bundle made before the first pod), ``configz.json``, ``node.json``,
``result.json`` (what became of each pod), ``podresources-NN.json`` and ``state-NN/`` after each step, and the
manifests of the pods: ``pod-NAME.json``, or ``pods.json`` with those that are left at the end.

    python -m tests.recorded.round_files FOLDER tests/recorded/rounds/NAME.tar.gz
"""

import io
import json
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WHOLE = ("before.tar.gz", "after.tar.gz", "configz.json", "node.json", "result.json")
STATE = ("cpu_manager_state", "memory_manager_state", "kubelet_internal_checkpoint", "allocated_pods_state")
KEPT = ("apiVersion", "kind", "metadata", "spec")
PREFIX = "Pod was rejected: "
"""What the status of a pod has before the message that the kubelet's own code gave."""


@dataclass(frozen=True)
class Step:
    """One pod that came, or one that was deleted."""

    number: int
    pod: str
    uid: str
    """'' for one that was deleted."""
    admitted: bool
    reason: str
    message: str
    cpus: dict[str, str]
    """Container → exclusive CPUs, as the state file after the step has them."""


@dataclass(frozen=True)
class Round:
    """The files of a round."""

    folder: Path
    manifests: dict[str, dict[str, Any]]
    steps: tuple[Step, ...]

    def manifest(self, step: Step) -> dict[str, Any]:
        """The pod of a step as it came."""
        pod = {name: value for name, value in self.manifests[step.pod].items() if name in KEPT}
        return {**pod, "metadata": {"name": step.pod, "namespace": "default", "uid": step.uid}}

    def pod_resources(self, step: int) -> Path:
        """What PodResources answered after a step; 0: before the first."""
        name = f"podresources-{step:02}.json" if step else "podresources-0.json"
        return self.folder / name

    def state(self, step: int) -> Path:
        """The state files after a step."""
        return self.folder / f"state-{step:02}"


def read_round(folder: Path, more: Path | None = None) -> Round:
    """A round in a folder; ``more``: where manifests are that it lacks."""
    manifests: dict[str, dict[str, Any]] = {}
    for place in (more, folder):
        for path in sorted(place.glob("pod-*.json")) if place is not None else ():
            manifests[path.stem.removeprefix("pod-")] = json.loads(path.read_text())
    if (folder / "pods.json").is_file():
        for pod in json.loads((folder / "pods.json").read_text())["items"]:
            manifests.setdefault(pod["metadata"]["name"], pod)
    steps = tuple(_step(folder, raw) for raw in json.loads((folder / "result.json").read_text()))
    return Round(folder, manifests, steps)


def _step(folder: Path, raw: dict[str, Any]) -> Step:
    uid = raw.get("uid") or ""
    entries = (
        json.loads((folder / f"state-{raw['step']:02}/cpu_manager_state").read_text()).get("entries") or {}
    )
    return Step(
        raw["step"],
        raw["pod"],
        uid if raw["op"] == "add" else "",
        raw.get("phase") == "Running",
        raw.get("reason") or "",
        (raw.get("message") or "").removeprefix(PREFIX),
        entries.get(uid, {}) if raw.get("phase") == "Running" else {},
    )


def unpacked(archive: Path, folder: Path) -> Round:
    """A round out of its archive."""
    with tarfile.open(archive) as packed:
        # Python before 3.11.4 has no filters
        packed.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        packed.extractall(folder)
    return read_round(folder)


def pack(recorded: Round, archive: Path) -> None:
    """Write what the tests need of a round."""
    members: dict[str, bytes] = {}
    for name in WHOLE:
        if (recorded.folder / name).is_file():
            members[name] = (recorded.folder / name).read_bytes()
    for number in range(len(recorded.steps) + 1):
        path = recorded.pod_resources(number)
        members[path.name] = json.dumps(json.loads(path.read_text())).encode()
        for name in STATE if number else ():
            if (recorded.state(number) / name).is_file():
                members[f"state-{number:02}/{name}"] = (recorded.state(number) / name).read_bytes()
    for step in recorded.steps:
        if step.uid:
            members[f"pod-{step.pod}.json"] = json.dumps(recorded.manifest(step)).encode()
    with tarfile.open(archive, "w:gz", compresslevel=9) as packed:
        for name, content in sorted(members.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            packed.addfile(entry, io.BytesIO(content))


if __name__ == "__main__":
    source = Path(sys.argv[1])
    pack(read_round(source, Path(sys.argv[3]) if len(sys.argv) > 3 else None), Path(sys.argv[2]))
