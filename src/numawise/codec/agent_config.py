"""What ``numawise agent`` offers, as its own configuration says it.

Rules kept here:

1. A file with ``agent: v1`` is a configuration of the agent; any other one is of NVIDIA's device plugin
   (``codec.agent_nvidia``).
2. A resource of our own is found by PCI functions, by paths, or by NVIDIA's driver: one of the three.
3. Every mistake has file, line, field and value.
"""

import re
from collections.abc import Mapping, Sequence

from numawise.codec.agent_nvidia import nvidia_config
from numawise.codec.agent_values import (
    IGNORED_XIDS,
    AgentConfig,
    AnswerForm,
    PciMatch,
    ResourceRule,
    variable_of,
)
from numawise.codec.document import Document, Part, shown
from numawise.codec.nvidia_forms import PluginSource
from numawise.codec.nvidia_plugin import PluginReading
from numawise.values import replace

VERSION_FIELD, VERSION = "agent", "v1"
TOP = (VERSION_FIELD, "resources", "health")
RESOURCE = ("name", "pci", "paths", "nvidia", "replicas", "answer")
SOURCES = ("pci", "paths", "nvidia")
MATCH = ("vendor", "device", "class", "driver")
ANSWER = ("env", "cdi", "nodes")
RESOURCE_NAME = re.compile(
    r"(?=.{1,317}$)[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
RESERVED = ("kubernetes.io", "k8s.io")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
CDI_KIND = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9_-]*")
HEX = re.compile(r"(?:0x)?([0-9a-fA-F]{1,6})")
MOST_REPLICAS, LARGEST_XID = 10_000, 1 << 20


def is_agent_config(documents: Sequence[Document]) -> bool:
    """Whether a file is a configuration of the agent (rule 1)."""
    return any(isinstance(one.value, Mapping) and VERSION_FIELD in one.value for one in documents)


def agent_config(documents: Sequence[Document]) -> AgentConfig:
    """The configuration in a file that has ``agent: v1``."""
    if len(documents) > 1:
        raise documents[1].error((), "is a second document", "keep one configuration in a file")
    part = documents[0].root
    part.mapping(TOP, "a configuration of the agent")
    if part.at(VERSION_FIELD).value != VERSION:
        raise part.at(VERSION_FIELD).error(
            f"unknown version: {shown(part.at(VERSION_FIELD).value)}", f"write {VERSION}"
        )
    rules: list[ResourceRule] = []
    remarks: list[str] = []
    for entry in part.at("resources").items("a list of resources"):
        rule, said = _rule(entry)
        if rule.name in (other.name for other in rules):
            raise entry.at("name").error(
                f"{shown(rule.name)} is listed twice", "give each resource one entry"
            )
        rules.append(rule)
        remarks += said
    if not rules:
        raise part.at("resources").error(
            "is empty", "list at least one resource with name and pci, paths or nvidia"
        )
    health = part.at("health")
    health.mapping(("ignoredXids",))
    ignored = health.at("ignoredXids")
    xids: tuple[int, ...] = IGNORED_XIDS
    if ignored.value is not None:
        xids = tuple(item.integer(1, LARGEST_XID) for item in ignored.items("a list of numbers"))
    return AgentConfig(tuple(rules), frozenset(xids), tuple(remarks))


def _rule(part: Part) -> tuple[ResourceRule, tuple[str, ...]]:
    members = part.mapping(RESOURCE, "a resource with name and pci, paths or nvidia")
    name = resource_name(part.at("name"))
    sources = [one for one in SOURCES if one in members]
    if len(sources) != 1:
        given = " and ".join(sources) if sources else "none"
        raise part.error(
            f"needs one of pci, paths and nvidia, and has {given}", "say once where its devices are found"
        )
    replicas = part.at("replicas").integer(1, MOST_REPLICAS) if "replicas" in members else 1
    answer = _answer(part.at("answer"), name)
    if "pci" in members:
        return ResourceRule(name, answer, pci=_match(part.at("pci")), replicas=replicas), ()
    if "paths" in members:
        paths = tuple(_absolute(item) for item in part.at("paths").items("a list of paths"))
        if not paths:
            raise part.at("paths").error("is empty", "list at least one path, such as /dev/kvm")
        if part.at("answer", "nodes").value is None:
            answer = replace(answer, own_nodes=True)
        return ResourceRule(name, answer, paths=paths, replicas=replicas), ()
    if "replicas" in members:
        raise part.at("replicas").error(
            "belongs to pci and paths", "share GPUs by nvidia.sharing.timeSlicing"
        )
    value = part.at("nvidia")
    value.mapping(what="a configuration of NVIDIA's device plugin, or {}")
    config = nvidia_config(PluginSource({"": PluginReading(value)}), "")
    rule = config.resources[0]
    if part.at("answer").value is not None:
        rule = replace(rule, answer=replace(answer, ids=rule.answer.ids, dev_root=rule.answer.dev_root))
    return replace(rule, name=name), config.remarks


def resource_name(part: Part) -> str:
    """The name of an extended resource."""
    text = part.text()
    if not RESOURCE_NAME.fullmatch(text):
        raise part.error(
            f"{shown(text)} is not the name of a resource", "write DOMAIN/NAME, such as example.com/nic"
        )
    domain = text.partition("/")[0]
    if any(domain == word or domain.endswith(f".{word}") for word in RESERVED):
        raise part.error(f"{shown(text)} is in a domain of Kubernetes itself", "use a domain of your own")
    return text


def _match(part: Part) -> PciMatch:
    members = part.mapping(MATCH, "what the PCI functions have: vendor, device, class, driver")
    if not members:
        raise part.error("matches every PCI function", "give vendor, device, class or driver")
    devices = part.at("device")
    several = devices.items() if isinstance(devices.value, list) else [devices] if "device" in members else []
    driver = part.at("driver").text() if "driver" in members else ""
    return PciMatch(
        vendor=int(_hex(part.at("vendor"), 4), 16) if "vendor" in members else None,
        devices=tuple(int(_hex(one, 4), 16) for one in several),
        class_digits=_hex(part.at("class"), 6) if "class" in members else "",
        driver=driver,
    )


def _hex(part: Part, most: int) -> str:
    """Hexadecimal digits; what YAML takes for a number is not what was meant."""
    if isinstance(part.value, int) and not isinstance(part.value, bool):
        raise part.error(
            f"must be hexadecimal digits in quotes, not the number {part.value}", 'write it like "10de"'
        )
    text = part.text()
    digits = HEX.fullmatch(text)
    if digits is None or len(digits[1]) > most:
        raise part.error(
            f"must be up to {most} hexadecimal digits, not {shown(text)}", 'write it like "10de"'
        )
    return digits[1].lower()


def _absolute(part: Part) -> str:
    text = part.text()
    if not text.startswith("/") or "\0" in text or "/../" in f"{text}/":
        raise part.error(f"must be an absolute path, not {shown(text)}", "write it like /dev/kvm")
    return text


def _answer(part: Part, name: str) -> AnswerForm:
    members = part.mapping(ANSWER, "how a container is told: env, cdi, nodes")
    env = variable_of(name) if not members else ""
    if "env" in members:
        env = variable_name(part.at("env"))
    kind = ""
    if "cdi" in members:
        kind = part.at("cdi").text()
        if not CDI_KIND.fullmatch(kind):
            raise part.at("cdi").error(
                f"{shown(kind)} is not a CDI kind", "write VENDOR/CLASS, such as example.com/nic"
            )
    own = False
    nodes: tuple[str, ...] = ()
    if "nodes" in members:
        value = part.at("nodes")
        if isinstance(value.value, bool):
            own = value.value
        else:
            own, nodes = (
                True,
                tuple(_absolute(item) for item in value.items("true, false or a list of paths")),
            )
    return AnswerForm(env=env, cdi_kind=kind, own_nodes=own, nodes=nodes)


def variable_name(part: Part) -> str:
    """The name of a variable."""
    text = part.text()
    if not VARIABLE.fullmatch(text):
        raise part.error(f"{shown(text)} is not the name of a variable", "use letters, digits and _")
    return text
