"""What is going to be offered, worked out from a configuration and the machine; now, and again later.

Rules kept here:

1. What is offered is a value before anything is done; ``--dry-run`` prints it.
2. At the start everything that is wrong is an error.  Later a driver that does not answer, or MIG instances
   that NVIDIA's plugin would refuse, leave a resource without devices: only what is known to be there is
   offered.
"""

from pathlib import Path

from numawise.apps.agent.offers import ResourceOffer, fake_offers, offers_of
from numawise.codec.agent_config import agent_config, is_agent_config
from numawise.codec.agent_nvidia import nvidia_config
from numawise.codec.agent_values import AgentConfig
from numawise.codec.document import read_documents
from numawise.codec.fake_devices import read_fakes
from numawise.codec.infile import is_there, read_raw
from numawise.codec.nvidia_forms import PluginSource, plugin_source
from numawise.errors import InputError
from numawise.host.discover import has_nvidia, read_live
from numawise.kube.deviceplugin import FOLDER
from numawise.machine.hardware import NVML
from numawise.values import dataclass

HERE = Path("/")


@dataclass(frozen=True, slots=True)
class OfferPlan:
    """What is going to be offered, and where."""

    offers: tuple[ResourceOffer, ...]
    folder: Path
    """Where the kubelet's socket is, and ours will be."""
    root: Path = HERE
    config: str = ""
    fake: str = ""
    """The file of made-up devices, where they are offered."""
    unhealthy: frozenset[tuple[str, str]] = frozenset()
    """Resource and id of made-up devices that are to be bad."""
    ignored_xids: frozenset[int] = frozenset()
    remarks: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    """Paths with wildcards by which devices are found."""
    waits: bool = False
    """There are GPUs of NVIDIA's whose driver does not answer."""

    @property
    def file(self) -> str:
        """The file that says what is offered; '' when there is none."""
        return self.fake or (config_file(self.config)[0] if self.config else "")


def config_file(named: str) -> tuple[str, str]:
    """The file and the name behind ``FILE`` or ``FILE:NAME``."""
    if not is_there(named):
        file, colon, after = named.rpartition(":")
        if colon and is_there(file):
            return file, after
    return named, ""


def read_config(named: str) -> AgentConfig:
    """A configuration by ``FILE`` or ``FILE:NAME``; '': NVIDIA's GPUs, as their plugin offers them."""
    if not named:
        return nvidia_config(PluginSource(), "")
    path, label = config_file(named)
    raw, title = read_raw(path)
    documents = read_documents(raw, title)
    if is_agent_config(documents):
        return agent_config(documents)
    source = plugin_source(documents, certain=True)
    if source is None:
        raise InputError(
            "is neither a configuration of the agent nor one of NVIDIA's device plugin",
            file=title,
            advice="begin one of the agent's with 'agent: v1'",
        )
    return nvidia_config(source, label)


def offer_plan(config: str, fake: str, kubelet_dir: str, root: Path = HERE) -> OfferPlan:
    """What an agent with these settings would offer here."""
    if fake and config:
        raise InputError("--fake and --config are both given", advice="take one of the two")
    return _planned(config, fake, Path(kubelet_dir) / FOLDER, root, lenient=False)


def planned_again(plan: OfferPlan) -> OfferPlan:
    """What the same settings offer now (rule 2)."""
    return _planned(plan.config, plan.fake, plan.folder, plan.root, lenient=True)


def _planned(config: str, fake: str, folder: Path, root: Path, *, lenient: bool) -> OfferPlan:
    if fake:
        devices = read_fakes(fake)
        unhealthy = frozenset((one.resource, one.id) for one in devices if not one.healthy)
        return OfferPlan(fake_offers(devices), folder, root, fake=fake, unhealthy=unhealthy)
    wanted = read_config(config)
    hardware = read_live(None if root == HERE else root)
    offers = offers_of(wanted.resources, hardware, root, lenient=lenient)
    silent = has_nvidia(hardware) and any(remark.place == NVML for remark in hardware.remarks)
    return OfferPlan(
        offers,
        folder,
        root,
        config,
        ignored_xids=wanted.ignored_xids,
        remarks=(*wanted.remarks, *(remark for offer in offers for remark in offer.remarks)),
        patterns=tuple(pattern for rule in wanted.resources for pattern in rule.paths),
        waits=silent and any(rule.nvidia is not None for rule in wanted.resources),
    )
