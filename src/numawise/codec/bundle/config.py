"""A kubelet's configuration without addresses, certificates and whatever else does not affect placement.

Rules kept here:

1. Fields of ``PRIVATE`` go; ``SECRET`` ones go even when names are kept.  Numbers and booleans always stay.
2. A text stays when it is an amount, a duration, a list of CPUs or a word of such configurations.  Of a path
   those parts stay that installers use.  Any other text becomes ``x``, which no kubelet takes either.
3. A field, gate or flag that no release knows stays by its name when it is one of them misspelt, because
   that is a finding; any other such name becomes a word, and a text in it goes.
4. Flags that set a field are judged like the field; of the others a few stay (``OWN_FLAGS``), the rest is
   named and nothing more.
"""

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from numawise.codec.bundle.allowed import is_like, is_resource, is_scalar, version_text, words
from numawise.codec.bundle.manifest import Names
from numawise.codec.kubelet.fields import ByName, Many, Shape, Struct, configuration_of
from numawise.codec.kubelet.flags import Flag, known_flags
from numawise.machine.hardware import Gpu, Hardware, Matrix, PciDevice, Remark
from numawise.rules.gates import gates_of
from numawise.rules.options import CPU_MATURITY, TOPOLOGY_MATURITY
from numawise.rules.versions import NEWEST, OLDEST, Version
from numawise.values import replace

SECRET = frozenset({"staticPodURLHeader", "staticPodURL"})
PRIVATE = SECRET | frozenset({
    "address", "healthzBindAddress", "clusterDNS", "clusterDomain", "providerID", "podCIDR", "tlsCertFile",
    "tlsPrivateKeyFile", "clientCAFile", "registerWithTaints", "preloadedImagesVerificationAllowlist",
    "endpoint", "resolvConf", "tlsCipherSuites", "allowedUnsafeSysctls", "defaultPodSysctls", "vmodule",
})  # fmt: skip
OWN_FLAGS = frozenset({
    "cgroup-root", "cloud-provider", "container-runtime", "container-runtime-endpoint", "feature-gates",
    "runtime-cgroups", "v", "root-dir", "experimental-allocatable-ignore-eviction", "register-node",
    "really-crash-for-testing", "seccomp-default", "config", "config-dir",
})  # fmt: skip
TAKEN_OUT = "x"
MOST_MISSPELT = 100
"""Unknown names that are compared with known ones; that takes time."""
SIGNS, PIECES = frozenset("=,<;:"), re.compile(r"([=,<;:])")
KINDS = ("apiVersion", "kind")


def reduced_config(value: Mapping[str, Any], names: Names) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What is kept of a configuration, and which fields were taken out."""
    reduction = _Reduction(names)
    found: dict[str, Any] = {}
    for name, item in value.items():
        if name in reduction.private:
            reduction.gone.append(name)
        elif name in KINDS or name in _fields():
            found[name] = reduction.kept(item, name)
        else:
            found[reduction.known(name, "field", _fields())] = reduction.nameless(item)
    return found, tuple(dict.fromkeys(reduction.gone))


def reduced_flags(flags: Iterable[Flag], names: Names) -> tuple[str, tuple[str, ...]]:
    """Flags as text, a line each, and the names of those whose value was taken out."""
    fields, reduction = _flag_fields(), _Reduction(names)
    lines: list[str] = []
    for flag in flags:
        if not flag.name:
            continue
        steps = fields.get(flag.name)
        is_open = not reduction.private.intersection(steps) if steps else flag.name in OWN_FLAGS
        if flag.name in ("config", "config-dir") and not reduction.keeps:
            is_open = False
        shown = reduction.known(flag.name, "flag", _known_names())
        if flag.value is None:
            lines.append(f"--{shown}")
        elif is_open:
            lines.append(f"--{shown}={shlex.quote(reduction.flag_value(flag.value))}")
        else:
            reduction.gone.append(f"--{shown}")
            if steps is None and flag.name not in _known_names():
                lines.append(f"--{shown}={TAKEN_OUT}")
    return "".join(f"{line}\n" for line in lines), tuple(dict.fromkeys(reduction.gone))


class _Reduction:
    """What is kept, and what was taken out so far."""

    def __init__(self, names: Names) -> None:
        self.names, self.keeps = names, names.key is None
        self.private = SECRET if self.keeps else PRIVATE
        self.gone: list[str] = []
        self.unknown = 0

    def kept(self, value: object, place: str) -> object:
        """A value in a known field (rule 2)."""
        if isinstance(value, Mapping):
            found = {}
            for name, item in value.items():
                shown = self.known(str(name), "key", _keys())
                if name in self.private:
                    self.gone.append(f"{place}.{shown}")
                else:
                    found[shown] = self.kept(item, f"{place}.{shown}")
            return found
        if isinstance(value, list):
            return [self.kept(item, place) for item in value]
        return self.text(value) if isinstance(value, str) else self.nameless(value)

    def nameless(self, value: object) -> object:
        """Something under a name that nobody knows (rule 3)."""
        if value is None or isinstance(value, bool | int | float):
            return value
        return {} if isinstance(value, Mapping) else [] if isinstance(value, list) else TAKEN_OUT

    def text(self, text: str) -> str:
        """A text (rule 2)."""
        if self.keeps or is_scalar(text) or text in _keys():
            return text
        if "/" in text or text.endswith((".slice", ".service")):
            return self.names.path(text)
        return TAKEN_OUT

    def flag_value(self, text: str) -> str:
        """Likewise the value of a flag, which may be a list or a map."""
        if "/" in text:
            return self.text(text)
        return "".join(piece if piece in SIGNS else self.text(piece) for piece in PIECES.split(text))

    def known(self, name: str, kind: str, known: Collection[str]) -> str:
        """A name (rule 3)."""
        if self.keeps or name in known or ("/" not in name and is_resource(name)):
            return name
        self.unknown += 1
        is_misspelt = self.unknown <= MOST_MISSPELT and is_like(name, known)
        return name if is_misspelt else self.names.name(kind, name)


@cache
def _keys() -> frozenset[str]:
    """Words of configurations: values, keys, gates, options, and the fields within fields."""
    gates = (name for version in _versions() for name in gates_of(version))
    shapes = (field.shape for version in _versions() for field in configuration_of(version).fields.values())
    inner = (name for shape in shapes for name in _names_in(shape))
    return words("config").union(gates, CPU_MATURITY, TOPOLOGY_MATURITY, inner)


def _names_in(shape: Shape) -> Iterator[str]:
    if isinstance(shape, Many | ByName):
        yield from _names_in(shape.item)
    elif isinstance(shape, Struct):
        for name, field in shape.fields.items():
            yield name
            yield from _names_in(field.shape)


def _versions() -> Iterable[Version]:
    return ((1, minor) for minor in range(OLDEST[1], NEWEST[1] + 1))


@cache
def _fields() -> frozenset[str]:
    return frozenset(name for version in _versions() for name in configuration_of(version).fields)


@cache
def _flag_fields() -> dict[str, tuple[str, ...]]:
    """Flag → the field that it sets, in any release."""
    return {
        name: flag.field
        for version in _versions()
        for name, flag in known_flags(version).items()
        if flag.field
    }


@cache
def _known_names() -> frozenset[str]:
    return frozenset(name for version in _versions() for name in known_flags(version))


# --------------------------------------------------------------------------------------------------
# Hardware without what identifies one machine: UUIDs, addresses in names, host names.


USUAL = re.compile(
    r"(eth|ib|roce|usb|wlan|bnxt_re|hfi1_|efa_|hns_|qedr|cxgb4_|erdma_|mana_|irdma|mlx[45]_|nvme|card|renderD|controlD"
    r"|accel|NIC|GPU|rdma)[0-9]{1,4}(n[0-9]{1,3})?(p[0-9]{1,3})?"
    r"|(en|ib|wl|roce|rdma)(o[0-9]{1,5}|s[0-9]{1,5}|(P[0-9]{1,5})?p[0-9]{1,3}s[0-9]{1,3})"
    r"(f[0-9]{1,3})?(n?p[0-9]{1,3})?(d[0-9]{1,3})?(v[0-9]{1,3})?(np[0-9]{1,3})?"
    r"|(sd|vd|xvd)[a-z]{1,3}",
    re.ASCII,
)
"""What the kernel and its tools call devices; any other name was given by a person, or is an address."""
QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|['\"].*", re.DOTALL)
MODEL = re.compile(r"[^\w .,()/+\[\]-]", re.ASCII)
LONGEST_MODEL = 80


def without_identity(hardware: Hardware, names: Names) -> Hardware:
    """The same hardware with names replaced; as it is where names are kept."""
    if names.key is None:
        return hardware
    host = hardware.host
    if host is not None:
        host = replace(host, cgroup=names.path(host.cgroup), kernel=version_text(host.kernel))
    return replace(
        hardware,
        name="",
        pci=tuple(_device(device, names) for device in hardware.pci),
        gpus=tuple(_gpu(gpu, names) for gpu in hardware.gpus),
        matrix=_matrix(hardware.matrix, names) if hardware.matrix else None,
        host=host,
        remarks=tuple(
            Remark(one.kind, names.path(one.place), without_quotes(one.text, names))
            for one in hardware.remarks
        ),
    )


def without_quotes(text: str, names: Names) -> str:
    """A sentence of ours without what it quotes, nor any UUID."""
    return names.uuids(QUOTED.sub("…", text)) if names.key is not None else text


def identities(hardware: Hardware) -> tuple[str, ...]:
    """The ids of devices."""
    return tuple(gpu.uuid for gpu in hardware.gpus if gpu.uuid)


def _gpu(gpu: Gpu, names: Names) -> Gpu:
    return replace(gpu, uuid=names.device(gpu.uuid), model=_model(gpu.model))


def _device(device: PciDevice, names: Names) -> PciDevice:
    driver = device.driver if device.driver in words("driver") else names.name("driver", device.driver)
    own = tuple(_usual(name, names) for name in device.names)
    return replace(device, names=own, driver=driver, model=_model(device.model))


def _model(text: str) -> str:
    return MODEL.sub("", text)[:LONGEST_MODEL]


def _matrix(matrix: Matrix, names: Names) -> Matrix:
    nic_names = {short: _usual(name, names) for short, name in matrix.nic_names.items()}
    return replace(matrix, nic_names=nic_names)


def _usual(name: str, names: Names) -> str:
    return name if USUAL.fullmatch(name) else names.name("device", name)
