"""A kubelet's configuration without addresses, certificates and whatever else does not affect placement.

Rules kept here:

1. Fields of ``PRIVATE`` go; ``SECRET`` ones go even when names are kept.  Numbers and booleans always stay.
2. A field that no release knows stays by its name, because a misspelt field is a finding; a text in it goes.
3. Flags that set a field are judged like the field; of the others a few stay (``OWN_FLAGS``), the rest is
   named and nothing more.
"""

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from numawise.codec.bundle.manifest import Names
from numawise.codec.kubelet.fields import configuration_of
from numawise.codec.kubelet.flags import Flag, known_flags
from numawise.machine.hardware import Gpu, Hardware, Matrix, PciDevice, Remark
from numawise.rules.versions import NEWEST, OLDEST, Version
from numawise.values import replace

SECRET = frozenset({"staticPodURLHeader", "staticPodURL"})
PRIVATE = SECRET | frozenset({
    "address", "healthzBindAddress", "clusterDNS", "clusterDomain", "providerID", "podCIDR", "tlsCertFile",
    "tlsPrivateKeyFile", "clientCAFile", "registerWithTaints", "preloadedImagesVerificationAllowlist",
    "endpoint", "resolvConf",
})  # fmt: skip
OWN_FLAGS = frozenset({
    "cgroup-root", "cloud-provider", "container-runtime", "container-runtime-endpoint", "feature-gates",
    "runtime-cgroups", "v", "root-dir", "experimental-allocatable-ignore-eviction", "register-node",
    "really-crash-for-testing", "seccomp-default", "config", "config-dir",
})  # fmt: skip
TAKEN_OUT = "x"
KINDS = ("apiVersion", "kind")


def reduced_config(value: Mapping[str, Any], *, keep: bool = False) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What is kept of a configuration, and which fields were taken out; ``keep``: names stay."""
    known = _fields()
    gone: list[str] = []
    found: dict[str, Any] = {}
    for name, item in value.items():
        if name in (SECRET if keep else PRIVATE):
            gone.append(name)
        elif name in KINDS or name in known:
            found[name] = _kept(item, SECRET if keep else PRIVATE, gone, name)
        else:
            found[name] = _nameless(item)
    return found, tuple(dict.fromkeys(gone))


def reduced_flags(flags: Iterable[Flag], *, keep: bool = False) -> tuple[str, tuple[str, ...]]:
    """Flags as text, a line each, and the names of those whose value was taken out."""
    fields = _flag_fields()
    private = SECRET if keep else PRIVATE
    lines: list[str] = []
    gone: list[str] = []
    for flag in flags:
        if not flag.name:
            continue
        steps = fields.get(flag.name)
        open_to_all = not private.intersection(steps) if steps else flag.name in OWN_FLAGS
        if flag.name in ("config", "config-dir") and not keep:
            open_to_all = False
        if flag.value is None:
            lines.append(f"--{flag.name}")
        elif open_to_all:
            lines.append(f"--{flag.name}={shlex.quote(flag.value)}")
        else:
            gone.append(f"--{flag.name}")
            if steps is None and flag.name not in _known_names():
                lines.append(f"--{flag.name}={TAKEN_OUT}")
    return "".join(f"{line}\n" for line in lines), tuple(dict.fromkeys(gone))


def _kept(value: Any, private: frozenset[str], gone: list[str], place: str) -> Any:  # noqa: ANN401 - as it is written
    if isinstance(value, Mapping):
        found = {}
        for name, item in value.items():
            if name in private:
                gone.append(f"{place}.{name}")
            else:
                found[name] = _kept(item, private, gone, f"{place}.{name}")
        return found
    if isinstance(value, list):
        return [_kept(item, private, gone, place) for item in value]
    return value


def _nameless(value: Any) -> Any:  # noqa: ANN401
    """Something under a name that nobody knows (rule 2)."""
    if value is None or isinstance(value, bool | int | float):
        return value
    return {} if isinstance(value, Mapping) else [] if isinstance(value, list) else TAKEN_OUT


def _versions() -> Iterable[Version]:
    return ((1, minor) for minor in range(OLDEST[1], NEWEST[1] + 1))


def _fields() -> frozenset[str]:
    return frozenset(name for version in _versions() for name in configuration_of(version).fields)


def _flag_fields() -> dict[str, tuple[str, ...]]:
    """Flag → the field that it sets, in any release."""
    return {
        name: flag.field
        for version in _versions()
        for name, flag in known_flags(version).items()
        if flag.field
    }


def _known_names() -> frozenset[str]:
    return frozenset(name for version in _versions() for name in known_flags(version))


# --------------------------------------------------------------------------------------------------
# Hardware without what identifies one machine: UUIDs, addresses in names, host names.


USUAL = re.compile(
    r"(eth|eno|ens|enp|enP|ib|ibp|ibs|roce|rocep|bnxt_re|hfi1_|efa_|rdmap|hns_|qedr|cxgb4_|erdma_|mana_|irdma"
    r"|mlx[0-9]_|nvme|sd|vd|xvd|card|renderD|controlD|wlan|wlp|usb|accel|mlx|NIC|GPU)[0-9a-z]*",
    re.ASCII,
)
"""What the kernel and its tools call devices; any other name was given by a person, or is an address."""


def without_identity(hardware: Hardware, names: Names) -> Hardware:
    """The same hardware with names replaced; as it is where names are kept."""
    if names.key is None:
        return hardware
    return replace(
        hardware,
        name="",
        pci=tuple(_device(device, names) for device in hardware.pci),
        gpus=tuple(_gpu(gpu, names) for gpu in hardware.gpus),
        matrix=_matrix(hardware.matrix, names) if hardware.matrix else None,
        remarks=tuple(
            Remark(one.kind, names.cleaned(one.place), names.cleaned(one.text)) for one in hardware.remarks
        ),
    )


def identities(hardware: Hardware) -> tuple[str, ...]:
    """Texts that hold the UUIDs of devices."""
    return tuple(gpu.uuid for gpu in hardware.gpus)


def _gpu(gpu: Gpu, names: Names) -> Gpu:
    return replace(gpu, uuid=names.device(gpu.uuid))


def _device(device: PciDevice, names: Names) -> PciDevice:
    return replace(device, names=tuple(_usual(name, names) for name in device.names))


def _matrix(matrix: Matrix, names: Names) -> Matrix:
    nic_names = {short: _usual(name, names) for short, name in matrix.nic_names.items()}
    return replace(matrix, nic_names=nic_names)


def _usual(name: str, names: Names) -> str:
    return name if USUAL.fullmatch(name) else names.name("device", name)
