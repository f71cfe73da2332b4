"""The configuration of NVIDIA's device plugin (``version: v1``): what it means, and what is wrong with it.

Rules kept here (those of k8s-device-plugin v0.20):

1. Fields of structs are found in any case of letters, as Go finds them; those of ``sharing`` and
   ``resources``, which read themselves, only as they are written.  A field that nobody knows is ignored there
   without a word, and reported here.
2. ``null`` is as if a field were not there, but for ``timeSlicing``, which then lacks its resources.
3. What the plugin refuses, it refuses to start with: it stops at the first, here all are reported.
4. ``resources``, ``rename`` and ``devices`` are checked and then ignored.
5. Beside ``mps``, ``timeSlicing`` does nothing.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from numawise.codec.document import Part, field_name, shown
from numawise.codec.edits import renamed
from numawise.errors import meant, quoted
from numawise.gpus.nvidia_plugin import (
    GPU_NAME,
    MIG_PREFIX,
    MIG_STRATEGIES,
    MIXED,
    MPS,
    TIME_SLICING,
    PluginConfig,
    Replicas,
)
from numawise.machine.preference import DISTRIBUTED, PACKED
from numawise.results.correction import Correction
from numawise.results.finding import Finding, Place, Severity, found
from numawise.rules.eviction import Duration

VERSION = "v1"
SECTIONS = ("version", "flags", "resources", "sharing", "imex")
DEVICE_LISTS = ("envvar", "volume-mounts", "cdi-annotations", "cdi-cri")
CHOICES: Mapping[str, tuple[str, ...]] = {
    "migStrategy": MIG_STRATEGIES,
    "deviceDiscoveryStrategy": ("auto", "nvml", "tegra"),
    "deviceIDStrategy": ("uuid", "index"),
    "sharedDevicesAllocationPolicy": (DISTRIBUTED, PACKED),
}
TEXT, TRUTH, CHOICE, LISTS, TIME, STRUCT = "text", "truth", "choice", "lists", "time", "struct"
PLUGIN_FIELDS: Mapping[str, str] = {
    "passDeviceSpecs": TRUTH, "deviceListStrategy": LISTS, "deviceIDStrategy": CHOICE,
    "cdiAnnotationPrefix": TEXT, "nvidiaCTKPath": TEXT, "containerDriverRoot": TEXT,
    "sharedDevicesAllocationPolicy": CHOICE,
}  # fmt: skip
GFD_FIELDS: Mapping[str, str] = {
    "oneshot": TRUTH, "noTimestamp": TRUTH, "sleepInterval": TIME, "outputFile": TEXT,
    "machineTypeFile": TEXT,
}  # fmt: skip
FLAG_FIELDS: Mapping[str, str] = {
    "migStrategy": CHOICE, "failOnInitError": TRUTH, "mpsRoot": TEXT, "nvidiaDriverRoot": TEXT,
    "nvidiaDevRoot": TEXT, "gdrcopyEnabled": TRUTH, "gdsEnabled": TRUTH, "mofedEnabled": TRUTH,
    "useNodeFeatureAPI": TRUTH, "deviceDiscoveryStrategy": CHOICE, "plugin": STRUCT, "gfd": STRUCT,
}  # fmt: skip
SHARING_FIELDS = ("renameByDefault", "failRequestsGreaterThanOne", "resources")
SHARED_FIELDS = ("name", "rename", "devices", "replicas")
GONE = {
    "driverRootCtrPath": "it is called containerDriverRoot since v0.14",
    "cdiEnabled": "since v0.14 deviceListStrategy cdi-annotations or cdi-cri switches CDI on",
    "strategy": "it was removed before v0.11; resources[].replicas is all there is to say",
}
"""Fields that the plugin had once."""
NEW = {"sharedDevicesAllocationPolicy": "v0.20"}
LONGEST_NAME = 63
SHARED_SUFFIX = ".shared"
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
HEX_GROUPS = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
DEVICE = re.compile(
    rf"[0-9]+|[0-9]+:[0-9]+|GPU-{HEX_GROUPS}|MIG-{HEX_GROUPS}|MIG-GPU-{HEX_GROUPS}/[0-9]+/[0-9]+"
)


class PluginReading:
    """One configuration: its values, and what there is to say about them."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.findings: list[Finding] = []
        self.flags: dict[str, object] = {}
        self.config = self._config()

    @property
    def refusals(self) -> tuple[Finding, ...]:
        """Why the plugin would not start."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.ERROR)

    # --- what is reported ---------------------------------------------------------------------

    def report(
        self,
        code: str,
        part: Part,
        message: str,
        *,
        why: str = "",
        fix: str = "",
        ways: Sequence[Correction | None] = (),
    ) -> None:
        """Report something about a part; ``ways``: to mend it."""
        place = Place(part.document.file, part.document.line(part.steps), field_name(part.steps))
        self.findings.append(found(code, place, message, why=why, fix=fix, corrections=ways))

    def refuse(self, part: Part, message: str, fix: str = "") -> None:
        """Report what the plugin does not start with."""
        self.report("NW701", part, message, fix=fix)

    def ignored(self, part: Part, message: str, fix: str = "") -> None:
        """Report what the plugin does not act on."""
        self.report("NW703", part, message, fix=fix)

    # --- structs ------------------------------------------------------------------------------

    def members(
        self, part: Part, known: Collection[str], *, exact: bool = False
    ) -> Iterator[tuple[str, Part]]:
        """The known members of a mapping that have a value; unknown ones are reported (rule 1)."""
        if part.value is None:
            return
        if not isinstance(part.value, Mapping):
            self.refuse(part, f"must be a mapping, not {shown(part.value)}")
            return
        spellings = {name if exact else name.lower(): name for name in known}
        members: dict[str, Part] = {}
        for key, value in sorted(part.value.items()):  # of several spellings the last counts, as there
            name = spellings.get(key if exact else key.lower())
            if name is None:
                self.unknown(part.at(key), key, known)
            elif value is not None or exact:
                if name in members:
                    self.ignored(members[name], f"{quoted(key)} is the same field, and counts")
                members[name] = part.at(key)
        yield from members.items()

    def unknown(self, part: Part, key: str, known: Collection[str]) -> None:
        """Report a field that the plugin does not know."""
        if key in GONE:
            self.report("NW702", part, f"{quoted(key)} is no longer a field", fix=GONE[key])
            return
        near = meant(key, known) or next((name for name in known if name.lower() == key.lower()), "")
        elsewhere = "" if near else next((path for path in _paths() if path.rsplit(".", 1)[-1] == key), "")
        fix = f"did you mean {quoted(near)}?" if near else ""
        if elsewhere:
            fix = f"{quoted(key)} belongs to {elsewhere.rpartition('.')[0] or 'the top of the file'}"
        ways = [renamed(part, near)] if near else []
        self.report("NW702", part, f"unknown field {quoted(key)}", fix=fix, ways=ways)

    def _config(self) -> PluginConfig:
        sections = dict(self.members(self.part, SECTIONS))
        if "version" in sections:
            version = sections["version"].value
            if version not in ("", VERSION):
                self.refuse(sections["version"], f"unknown version: {shown(version)}", f"write {VERSION}")
        if "flags" in sections:
            self._flags(sections["flags"], FLAG_FIELDS)
        if "resources" in sections:
            self._resources(sections["resources"])
        if "imex" in sections:
            self._imex(sections["imex"])
        sharing = self._sharing(sections["sharing"]) if "sharing" in sections else PluginConfig()
        strategies = self.flags.get("deviceListStrategy", ("envvar",))
        mig = str(self.flags.get("migStrategy", MIG_STRATEGIES[0]))
        if sharing.sharing == MPS and mig == MIXED:
            self.refuse(
                sections["sharing"].at("mps"),
                "using --mig-strategy=mixed is not supported with MPS",
                "set flags.migStrategy to none, or share by timeSlicing",
            )
        self._sharable(sections.get("sharing"), sharing, mig)
        return PluginConfig(
            mig_strategy=mig,
            sharing=sharing.sharing,
            replicas=sharing.replicas,
            refuses_several=sharing.refuses_several,
            policy=str(self.flags.get("sharedDevicesAllocationPolicy", DISTRIBUTED)),
            pass_device_specs=bool(self.flags.get("passDeviceSpecs", False)),
            strategies=strategies if isinstance(strategies, tuple) else (),
        )

    def _flags(self, part: Part, fields: Mapping[str, str]) -> None:
        for name, member in self.members(part, fields):
            kind, value = fields[name], member.value
            if kind == STRUCT:
                self._flags(member, PLUGIN_FIELDS if name == "plugin" else GFD_FIELDS)
            elif kind == TRUTH:
                if isinstance(value, bool):
                    self.flags[name] = value
                else:
                    fix = "write it without quotes" if value in ("true", "false") else ""
                    self.refuse(member, f"must be true or false, not {shown(value)}", fix)
            elif kind == LISTS:
                self._device_lists(member)
            elif kind == TIME:
                self._time(member)
            elif not isinstance(value, str):
                self.refuse(member, f"must be text, not {shown(value)}", "put it in quotes")
            elif kind == CHOICE and value not in CHOICES[name]:
                self.refuse(member, f"unknown value {shown(value)}", one_of(value, CHOICES[name]))
            else:
                self.flags[name] = value

    def _device_lists(self, part: Part) -> None:
        given = part.value if isinstance(part.value, list) else [part.value]
        items = [item for item in given if isinstance(item, str)]
        if len(items) < len(given):
            self.refuse(part, f"must be text or a list of texts, not {shown(part.value)}")
            return
        for item in items:
            if item not in DEVICE_LISTS:
                fix = "write several as a list" if "," in item else one_of(item, DEVICE_LISTS)
                self.refuse(part, f"invalid strategy {shown(item)}", fix)
                return
        self.flags["deviceListStrategy"] = tuple(items)

    def _time(self, part: Part) -> None:
        fix = "write a number with a unit, such as 60s"
        if isinstance(part.value, str):
            try:
                Duration.parse("0" if part.value == "infinite" else part.value)
            except ValueError as problem:
                self.refuse(part, str(problem), fix)
        elif isinstance(part.value, bool) or not isinstance(part.value, int | float):
            self.refuse(part, f"{shown(part.value)} is not a duration", fix)

    def _imex(self, part: Part) -> None:
        for name, member in self.members(part, ("channelIDs", "required")):
            if name == "required":
                if not isinstance(member.value, bool):
                    self.refuse(member, f"must be true or false, not {shown(member.value)}")
            elif member.value not in ([], [0]) or any(isinstance(one, bool) for one in member.value):
                self.refuse(member, f"channelIDs must be [] or [0], not {shown(member.value)}")

    # --- what reads itself --------------------------------------------------------------------

    def _resources(self, part: Part) -> None:
        for _, listed in self.members(part, ("gpus", "mig")):
            if not isinstance(listed.value, list):
                self.refuse(listed, f"must be a list, not {shown(listed.value)}")
                continue
            for entry in listed.items():
                fields = dict(self.members(entry, ("pattern", "name"), exact=True))
                for name in ("pattern", "name"):
                    if name not in fields and isinstance(entry.value, Mapping):
                        self.refuse(entry, f"resources must have a {quoted(name)} field set")
                if "name" in fields:
                    self._name(fields["name"])
            if listed.value:
                self.ignored(listed, "the plugin does not yet act on resources, and ignores them")

    def _name(self, part: Part) -> str:
        """A resource name, with NVIDIA's domain; '' when it is refused."""
        if not isinstance(part.value, str):
            self.refuse(part, f"must be text, not {shown(part.value)}")
            return ""
        prefix = GPU_NAME.partition("/")[0] + "/"
        name = part.value if part.value.startswith(prefix) else prefix + part.value
        if len(name) > LONGEST_NAME:
            self.refuse(part, f"{shown(name)} is longer than {LONGEST_NAME} characters")
            return ""
        if not NAME.fullmatch(name.removeprefix(prefix)):
            self.refuse(part, f"{shown(name)} is not a resource name", f"write it like {GPU_NAME}")
            return ""
        return name

    def _sharing(self, part: Part) -> PluginConfig:
        ways: dict[str, PluginConfig] = {}
        places: dict[str, Part] = {}
        if not isinstance(part.value, Mapping):
            self.refuse(part, f"must be a mapping, not {shown(part.value)}")
            return PluginConfig()
        spellings = {"timeslicing": TIME_SLICING, "mps": MPS}
        for key, value in part.value.items():
            way = spellings.get(key.lower())
            if way is None:
                self.unknown(part.at(key), key, ("timeSlicing", "mps"))
            elif value is not None or way == TIME_SLICING:
                ways[way], places[way] = self._way(part.at(key), way), part.at(key)
        if MPS in ways and TIME_SLICING in ways:
            self.ignored(places[TIME_SLICING], "timeSlicing does nothing beside mps", "keep one of the two")
        return ways.get(MPS) or ways.get(TIME_SLICING) or PluginConfig()

    def _way(self, part: Part, way: str) -> PluginConfig:
        members = dict(self.members(part, SHARING_FIELDS, exact=True))
        rename, several = (self._truth(members.get(name)) for name in SHARING_FIELDS[:2])
        listed = members.get("resources")
        if listed is None or not listed.value:
            if part.value is None or isinstance(part.value, Mapping):
                self.refuse(listed or part, "no resources specified", "list the resources that are shared")
            return PluginConfig(sharing=way)
        if not isinstance(listed.value, list):
            self.refuse(listed, f"must be a list, not {shown(listed.value)}")
            return PluginConfig(sharing=way)
        entries: dict[str, Replicas] = {}
        for entry in listed.items():
            replicas = self._entry(entry, rename=bool(rename))
            if replicas is not None and replicas.resource in entries:
                self.ignored(entry, f"{replicas.resource} is listed twice; the greater number counts")
                replicas = max(replicas, entries[replicas.resource], key=lambda one: one.count)
            if replicas is not None:
                entries[replicas.resource] = replicas
        refuses = bool(several) or (way == MPS and several is None)
        return PluginConfig(sharing=way, replicas=tuple(entries.values()), refuses_several=refuses)

    def _truth(self, part: Part | None) -> bool | None:
        if part is None or part.value is None:
            return None
        if isinstance(part.value, bool):
            return part.value
        fix = "write it without quotes" if part.value in ("true", "false") else ""
        self.refuse(part, f"must be true or false, not {shown(part.value)}", fix)
        return None

    def _entry(self, part: Part, *, rename: bool) -> Replicas | None:
        if not isinstance(part.value, Mapping):
            self.refuse(part, f"must be a mapping with name and replicas, not {shown(part.value)}")
            return None
        fields = dict(self.members(part, SHARED_FIELDS, exact=True))
        name = self._name(fields["name"]) if "name" in fields else ""
        count = fields["replicas"].value if "replicas" in fields else None
        if "name" not in fields:
            self.refuse(part, "no resource name specified", f"add name: {GPU_NAME}")
        if "replicas" not in fields:
            self.refuse(part, "no replicas specified", "say how often each device is offered: replicas: 4")
        elif not isinstance(count, int) or isinstance(count, bool):
            self.refuse(fields["replicas"], f"must be a whole number, not {shown(count)}")
            count = None
        elif count < 2:
            self.refuse(
                fields["replicas"],
                f"number of replicas must be >= 2, not {count}",
                "leave the resource out of sharing, or share it between 2 and more",
            )
            count = None
        shared_name = name + SHARED_SUFFIX
        if "rename" in fields:
            other = self._name(fields["rename"])
            if other and other != (shared_name if rename else name):
                self.ignored(
                    fields["rename"],
                    "the plugin does not yet act on rename; the resource is "
                    f"{shared_name if rename else name}",
                    "" if rename else f"renameByDefault: true makes it {shared_name}",
                )
        if "devices" in fields and self._devices(fields["devices"]):
            self.ignored(fields["devices"], "the plugin does not yet act on devices; all of them are shared")
        if not name or not isinstance(count, int):
            return None
        return Replicas(name, count, shared_name if rename else name)

    def _devices(self, part: Part) -> bool:
        """Whether the devices are others than all of them."""
        value = part.value
        if isinstance(value, str):
            if value != "all":
                self.refuse(part, f"the only text for devices is 'all', not {shown(value)}")
        elif isinstance(value, int) and not isinstance(value, bool):
            if value > 0:
                return True
            self.refuse(part, f"a count of devices must be > 0, not {value}")
        elif isinstance(value, list):
            wrong = [one for one in value if isinstance(one, bool) or not DEVICE.fullmatch(str(one))]
            if not wrong:
                return True
            self.refuse(part, f"{shown(wrong[0])} is neither an index nor a UUID of a device")
        else:
            self.refuse(part, f"must be 'all', a count or a list, not {shown(value)}")
        return False

    def _sharable(self, part: Part | None, sharing: PluginConfig, mig: str) -> None:
        """Report resources that the plugin never offers under its MIG strategy."""
        for replicas in sharing.replicas if part is not None else ():
            if replicas.resource == GPU_NAME or (
                replicas.resource.startswith(MIG_PREFIX) and mig == MIXED and sharing.sharing != MPS
            ):
                continue
            if replicas.resource.startswith(MIG_PREFIX):
                message = f"under migStrategy {mig} there is no {replicas.resource}, so it is not shared"
                fix = "set flags.migStrategy to mixed" if sharing.sharing != MPS else f"share {GPU_NAME}"
            else:
                message = f"the plugin offers no {replicas.resource}, so nothing is shared by this entry"
                near = meant(replicas.resource, (GPU_NAME,))
                fix = f"did you mean {quoted(near)}?" if near else f"share {GPU_NAME} or {MIG_PREFIX}…"
            assert part is not None
            self.ignored(_entry_of(part, replicas.resource), message, fix)


def _entry_of(sharing: Part, resource: str) -> Part:
    """The entry of a shared resource, or the section where it is not found as written."""
    for key in sharing.value if isinstance(sharing.value, Mapping) else ():
        entries = sharing.at(key, "resources")
        for entry in entries.items() if isinstance(entries.value, list) else ():
            name = entry.at("name").value
            if isinstance(name, str) and resource in (name, f"{GPU_NAME.partition('/')[0]}/{name}"):
                return entry.at("name")
    return sharing


def one_of(word: str, known: tuple[str, ...]) -> str:
    """What to write instead of a word that is none of these."""
    near = meant(word, known)
    return f"did you mean {quoted(near)}?" if near else f"write one of {', '.join(known)}"


def _paths() -> tuple[str, ...]:
    """Every field with the way to it."""
    return (
        *(f"flags.{name}" for name in FLAG_FIELDS),
        *(f"flags.plugin.{name}" for name in PLUGIN_FIELDS),
        *(f"flags.gfd.{name}" for name in GFD_FIELDS),
        *(f"sharing.timeSlicing.{name}" for name in SHARING_FIELDS),
        *(f"sharing.timeSlicing.resources[].{name}" for name in SHARED_FIELDS),
        "sharing.timeSlicing",
        "sharing.mps",
    )
