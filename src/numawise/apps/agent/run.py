"""The agent from start to stop: what it offers is worked out once, then kept in touch with the kubelet.

Rules kept here:

1. What is offered is a value before anything is done (``AgentPlan``); ``--dry-run`` prints it.
2. SIGTERM and SIGINT end it in order: no more calls, sockets removed, exit status 0.
3. A task that fails by a mistake ends the agent with that error: whoever started it starts it again.
"""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from numawise.apps.agent.log import INFO, WARNING, AgentLog, LibraryLog
from numawise.apps.agent.offers import ResourceOffer, fake_offers, offers_of
from numawise.apps.agent.pages import serve_pages
from numawise.apps.agent.plugin import ResourcePlugin
from numawise.apps.agent.watch import look_first, watch_driver, watch_fakes, watch_presence
from numawise.codec.agent_config import agent_config, is_agent_config
from numawise.codec.agent_nvidia import nvidia_config
from numawise.codec.agent_values import AgentConfig
from numawise.codec.document import read_documents
from numawise.codec.fake_devices import read_fakes
from numawise.codec.infile import is_there, read_raw
from numawise.codec.nvidia_forms import PluginSource, plugin_source
from numawise.errors import InputError
from numawise.host.discover import read_live
from numawise.host.nvml_library import load
from numawise.kube.deviceplugin import FOLDER
from numawise.kube.grpc import needed
from numawise.values import dataclass, field

NVIDIA_SOCKET = "nvidia-gpu.sock"
LONGEST_STOP = 5.0
"""Seconds that tasks have to end."""


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """What an agent is going to do."""

    offers: tuple[ResourceOffer, ...]
    folder: Path
    """Where the kubelet's socket is, and ours will be."""
    root: Path = Path("/")
    fake: str = ""
    """The file of made-up devices, where they are offered."""
    ignored_xids: frozenset[int] = frozenset()
    listen: tuple[str, int] | None = None
    remarks: tuple[str, ...] = field(default=())


def read_config(named: str) -> AgentConfig:
    """A configuration by ``FILE`` or ``FILE:NAME``; '': NVIDIA's GPUs, as their plugin offers them."""
    if not named:
        return nvidia_config(PluginSource(), "")
    path, label = named, ""
    if not is_there(named):
        file, colon, after = named.rpartition(":")
        path, label = (file, after) if colon and is_there(file) else (named, "")
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


def plan_of(
    config: str, fake: str, kubelet_dir: str, listen: tuple[str, int] | None, root: Path = Path("/")
) -> AgentPlan:
    """What an agent with these settings would do here."""
    folder = Path(kubelet_dir) / FOLDER
    if fake:
        if config:
            raise InputError("--fake and --config are both given", advice="take one of the two")
        offers = fake_offers(read_fakes(fake))
        return AgentPlan(offers, folder, root, fake, listen=listen)
    wanted = read_config(config)
    hardware = read_live(None if root == Path("/") else root)
    offers = offers_of(wanted.resources, hardware, root)
    remarks = (*wanted.remarks, *(remark for offer in offers for remark in offer.remarks))
    return AgentPlan(offers, folder, root, "", wanted.ignored_xids, listen, remarks)


def run(plan: AgentPlan, log: AgentLog, *, driver: Callable[[], Any] = load) -> int:
    """Be the agent until a signal ends it."""
    needed()
    handler = LibraryLog(log)
    for name in ("grpclib", "asyncio"):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.propagate = False
    try:
        asyncio.run(_serve(plan, log, driver))
    finally:
        for name in ("grpclib", "asyncio"):
            logging.getLogger(name).removeHandler(handler)
    return 0


async def _serve(plan: AgentPlan, log: AgentLog, driver: Callable[[], Any]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    plugins = [ResourcePlugin(offer, plan.folder, log) for offer in plan.offers]
    for remark in plan.remarks:
        log.say(WARNING, remark)
    _say_neighbours(plan, log)
    pages = await serve_pages(*plan.listen, plugins) if plan.listen else None
    if pages is not None:
        host, port = pages.sockets[0].getsockname()[:2]
        log.say(INFO, "listening", address=f"{host}:{port}")
    tasks: list[asyncio.Task[None]] = []
    try:
        look_first(plugins, plan.root, plan.fake, log)
        for plugin in plugins:
            await plugin.start()
        tasks = [asyncio.create_task(one) for one in _duties(plan, plugins, log, driver)]
        ending = asyncio.create_task(stop.wait())
        await _until(ending, tasks)
        log.say(INFO, "stopping")
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=LONGEST_STOP)
        for plugin in plugins:
            await plugin.stop()
        if pages is not None:
            pages.close()


def _duties(
    plan: AgentPlan, plugins: list[ResourcePlugin], log: AgentLog, driver: Callable[[], Any]
) -> list[Coroutine[Any, Any, None]]:
    duties = [plugin.keep_in_touch() for plugin in plugins]
    duties.append(watch_presence(plugins, plan.root))
    if plan.fake:
        duties.append(watch_fakes(plugins, plan.fake, log))
    else:
        duties.append(watch_driver(plugins, driver, plan.ignored_xids, log))
    return duties


async def _until(ending: "asyncio.Task[Any]", tasks: list["asyncio.Task[None]"]) -> None:
    """Wait for a signal; what fails before is raised (rule 3)."""
    waiting: set[asyncio.Task[Any]] = {ending, *tasks}
    while not ending.done():
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in done - {ending}:
            with contextlib.suppress(asyncio.CancelledError):
                task.result()


def _say_neighbours(plan: AgentPlan, log: AgentLog) -> None:
    """Warn where NVIDIA's own plugin is at the same kubelet: the last one that registers wins."""
    if any(offer.nvidia for offer in plan.offers) and is_there(plan.folder / NVIDIA_SOCKET):
        log.say(
            WARNING,
            "NVIDIA's own device plugin has a socket here; the kubelet listens to whichever registers last",
            socket=str(plan.folder / NVIDIA_SOCKET),
        )
