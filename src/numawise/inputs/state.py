"""State files and what they are compared with, out of a directory, a bundle, and files beside it.

Rules kept here:

1. A bundle has everything at once; what is named beside it takes the place of its part.
2. What a bundle has not is simply not compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from numawise.codec.bundle import manifest as parts
from numawise.codec.checkpoint.look import look
from numawise.errors import InputError
from numawise.inputs.bundle import Bundle, is_bundle, open_bundle
from numawise.inputs.files import load_kubelet_config, load_profile
from numawise.inputs.machine import read_machine
from numawise.machine.hardware import Hardware
from numawise.node.state.folder import Against, Live, LivePod, StateFile, StateFolder, load_folder, load_live
from numawise.rules.versions import DEFAULT, Profile


@dataclass(frozen=True, slots=True)
class Loaded:
    """State files, what they are compared with, and the hardware where that is known."""

    folder: StateFolder
    against: Against
    hardware: Hardware | None = None
    remark: str = ""


def load(
    directory: str,
    *,
    bundle: str | None = None,
    machine: str | None = None,
    kubelet_config: str | None = None,
    pods: Sequence[str] = (),
    kube: str | None = None,
    field: str = "--kube",
) -> Loaded:
    """Read all that was named; ``directory`` may be a bundle, too."""
    if sum(path == "-" for path in (machine, kubelet_config, *pods)) > 1:
        raise InputError("standard input (-) can be read only once", advice="save one of them to a file")
    if bundle is None and is_bundle(directory):
        bundle = directory
    found = open_bundle(bundle) if bundle is not None else None
    profile = _profile(found, kube, field)
    given = read_machine(machine) if machine is not None else None
    seen = hardware = config = live = None
    if given is not None:
        seen, hardware = given.machine, given.hardware
    elif found is not None and parts.MACHINE in found.members:
        seen, hardware = found.machine(), found.hardware()
    if kubelet_config is not None:
        config = load_kubelet_config(kubelet_config, profile.version)
    elif found is not None and parts.CONFIG in found.members:
        config = found.config(profile.version)
    if pods:
        live = load_live(pods)
    elif found is not None and parts.PODS in found.members:
        live = live_of(found)
    folder = load_folder(directory) if found is None else folder_of(found)
    return Loaded(folder, Against(seen, config, live, profile.version), hardware, profile.remark)


def _profile(bundle: Bundle | None, kube: str | None, field: str) -> Profile:
    if kube is not None:
        return load_profile(kube, field)
    return bundle.profile() if bundle is not None else Profile(DEFAULT)


def folder_of(bundle: Bundle) -> StateFolder:
    """The state files of a bundle."""
    if not bundle.texts:
        why = bundle.manifest.why_not("state") or "they were not collected"
        raise InputError(f"has no state files: {why}", file=bundle.path)
    place = Path(bundle.path)
    files = tuple(
        StateFile(name, place / parts.STATE / name, text.encode(), look(name, text))
        for name, text in bundle.texts.items()
    )
    return StateFolder(place, files)


def live_of(bundle: Bundle) -> Live:
    """The pods of a bundle that the kubelet let in."""
    refused = {pod.uid for pod in bundle.refused()}
    return {
        pod.uid: LivePod(pod, (pod.uid,), running=True) for pod in bundle.pods() if pod.uid not in refused
    }
