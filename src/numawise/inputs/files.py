"""Where a simulated kubelet comes from: files that people have, read into values."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from numawise.codec.bundle.archive import is_bundle
from numawise.codec.checkpoint import CPU_FILE, DEVICE_FILE, MEMORY_FILE
from numawise.codec.document import Document, read_file
from numawise.codec.kubelet.config import decode_kubelet_config, unknown_fields
from numawise.codec.kubelet.fields import configuration_of, field_since
from numawise.codec.pod import decode_pods, unique_uids
from numawise.errors import InputError, suggestion
from numawise.node.node import Files
from numawise.request.defaults import RawPod
from numawise.rules.check import Refusal
from numawise.rules.model import KubeletConfig
from numawise.rules.versions import REFERENCE, Profile, Version, profile_of, shown

if TYPE_CHECKING:
    from numawise.inputs.bundle import Bundle

UNKNOWN = re.compile(r'unknown field "(.*)"')
FIELD = re.compile(r"Go struct field KubeletConfiguration\.([\w.]+)")
QUOTE = "the value must be text: put it in quotes"
PLACES = {
    CPU_FILE: (CPU_FILE,),
    MEMORY_FILE: (MEMORY_FILE,),
    DEVICE_FILE: (f"device-plugins/{DEVICE_FILE}", DEVICE_FILE),
}
LARGEST_STATE = 64 << 20


def load_profile(text: str, field: str = "--kube") -> Profile:
    """Read a Kubernetes version; its profile, or the nearest older one with a remark."""
    try:
        return profile_of(text)
    except ValueError as error:
        raise InputError(str(error), field=field) from None


def load_kubelet_config(path: str, version: Version = REFERENCE) -> KubeletConfig:
    """Read a KubeletConfiguration; what the kubelet would pass over with a warning is refused here."""
    file = load_config_file(path)
    refuse_unknown(file, (version,))
    return config_of(file, version)


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A KubeletConfiguration as it is written, not yet read by any release."""

    path: str
    document: Document
    value: Mapping[str, object]


def load_config_file(path: str) -> ConfigFile:
    """Read a file that holds one KubeletConfiguration, or that of a bundle."""
    if is_bundle(path):
        return _opened(path).config_file()
    document = _only(read_file(path), "KubeletConfiguration")
    if not isinstance(document.value, Mapping):
        raise document.error((), "must be a KubeletConfiguration, that is, a mapping")
    return ConfigFile(path, document, cast("Mapping[str, object]", document.value))


def config_of(file: ConfigFile, version: Version) -> KubeletConfig:
    """A configuration as one release reads it."""
    config = decode_kubelet_config(file.value, version)
    if isinstance(config, Refusal):
        named = FIELD.search(config.message)
        advice = (
            QUOTE if " into Go struct field " in config.message and "of type string" in config.message else ""
        )
        line = file.document.line(_steps(named[1]) if named else ())
        raise InputError(config.message, file=file.path, line=line, advice=advice)
    return config


def refuse_unknown(file: ConfigFile, versions: Sequence[Version]) -> None:
    """Refuse a field that none of the releases has: most likely it is misspelt."""
    passed_over = [unknown_fields(file.value, version) for version in versions]
    for told in passed_over[0]:
        if not all(told in others for others in passed_over):
            continue
        found = UNKNOWN.fullmatch(told)
        name = found[1] if found else told
        raise file.document.error(
            _steps(name), f'unknown field "{name}"', _unknown_advice(name, versions[-1])
        )


def _unknown_advice(name: str, version: Version) -> str:
    ignored = "remove it; the kubelet would ignore it with a warning"
    since = field_since(name)
    if since is not None:
        return f"{shown(version)} does not have it, {shown(since)} is the first; {ignored}"
    return suggestion(name, tuple(configuration_of(version).fields)) or ignored


def _steps(name: str) -> tuple[str | int, ...]:
    """A field name such as ``reservedMemory[0].limit`` as steps."""
    return tuple(int(i) if i else key for key, i in re.findall(r"([^.\[\]]+)|\[(\d+)\]", name))


def load_pods(paths: Iterable[str]) -> tuple[RawPod, ...]:
    """Read the pods of all files, in order."""
    pods: list[RawPod] = []
    for path in paths:
        found = [pod for document in read_file(path) for pod in decode_pods(document)]
        if not found:
            raise InputError(
                "has no pods", file=path, advice="give a Pod, Deployment, StatefulSet, Job or List"
            )
        pods += found
    return unique_uids(pods)


def load_state(directory: str) -> Files:
    """Read the state files that a kubelet left in a directory, such as /var/lib/kubelet, or of a bundle."""
    if is_bundle(directory):
        return _opened(directory).files()
    folder = Path(directory)
    if not folder.is_dir():
        what = "is not a directory" if folder.exists() else "does not exist"
        raise InputError(
            what, file=directory, advice="give the folder with cpu_manager_state, as in /var/lib/kubelet"
        )
    files = Files()
    for name, places in PLACES.items():
        for place in places:
            path = folder / place
            if path.is_file():
                files.texts[name] = _state_text(path)
                break
    if not files.texts:
        raise InputError("has no kubelet state files", file=directory, advice=f"expected {', '.join(PLACES)}")
    return files


def _state_text(path: Path) -> str:
    try:
        if path.stat().st_size > LARGEST_STATE:
            raise InputError("is too large for a kubelet state file", file=str(path))
        return path.read_bytes().decode("utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=str(path)) from error


def _opened(path: str) -> "Bundle":
    from numawise.inputs.bundle import open_bundle  # noqa: PLC0415 - it reads with this module

    return open_bundle(path)


def _only(documents: tuple[Document, ...], what: str) -> Document:
    if len(documents) != 1:
        message = f"holds {len(documents)} documents, and one {what} is wanted"
        raise InputError(message, file=documents[0].file, line=documents[1].line(()))
    return documents[0]
