"""What an agent is put through: killed among calls, kubelets that vanish, a thousand pods, duties that hang."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from grpclib.client import Channel, UnaryStreamMethod
from grpclib.const import Status
from grpclib.exceptions import GRPCError, StreamTerminatedError

from numawise.apps.agent import device_watch as watching
from numawise.apps.agent import plugin as staying
from numawise.apps.agent.health import FIRST_WAIT as HEALTHY_AGAIN
from numawise.apps.agent.run import AGENT
from numawise.kube.grpc import Method, serve
from numawise.service.pages import page
from tests.kube.agents import GPU, NIC, Agent, agent
from tests.kube.kubelet import Bytes, Kubelet, pairs

RECOVERED = 5.0
"""Seconds after the end of a cause."""


def test_every_wait_is_shorter_than_a_recovery_may_take() -> None:
    """A kubelet that is back is looked for, or asked again, in time; so is a device, the first time it fell."""
    assert staying.TICK + staying.LONGEST_WAIT <= RECOVERED
    assert watching.TICK + HEALTHY_AGAIN <= RECOVERED


def test_killed_among_many_allocations(folder: Path, fakes: Path) -> None:
    """Each is answered or fails, and is made again; nothing is lost, nothing answered otherwise than before."""

    async def scenario(running: Agent) -> None:
        kubelet = Kubelet(folder / "device-plugins")
        await kubelet.start()
        ids = [f"gpu{number}" for number in range(8)]
        answers: dict[str, set[str]] = {name: set() for name in ids}

        async def allocate(name: str) -> bool:
            try:
                (given,) = await kubelet.allocate(GPU, (name,))
            except (GRPCError, StreamTerminatedError, OSError, AttributeError):  # cut off in any place
                return False
            answers[name].add(pairs(given, 1)["EXAMPLE_COM_GPU"])
            return True

        for turns in range(4):
            watched = await kubelet.knows(GPU)
            calls = [asyncio.create_task(allocate(name)) for name in ids * 4]
            for _ in range(turns * 3):  # a moment later each time
                await asyncio.sleep(0)
            running.kill()
            await asyncio.wait(calls)
            await kubelet.until(lambda watched=watched: not watched.watching, "the stream has ended")  # type: ignore[misc]
            assert (kubelet.folder / "numawise-example.com_gpu.sock").is_socket()  # left behind
            running.process = running.started()
            await kubelet.until(
                lambda watched=watched: kubelet.resources[GPU] is not watched,  # type: ignore[misc]
                "it registered again",
            )
            again = await kubelet.knows(GPU)
            assert {health for health, _ in again.devices.values()} == {"Healthy"}
            assert len(again.devices) == 8
            for name in ids:
                assert await allocate(name)
        assert answers == {name: {name} for name in ids}
        await kubelet.stop()

    with agent(folder, "--fake", str(fakes)) as running:
        asyncio.run(scenario(running))


def test_the_kubelets_socket_vanishes_and_returns(folder: Path, fakes: Path) -> None:
    async def scenario(running: Agent) -> None:
        kubelet = Kubelet(folder / "device-plugins")
        await kubelet.start()
        await kubelet.knows(GPU)
        await kubelet.knows(NIC)
        for _ in range(2):
            times = len(running.said("waiting for the kubelet's socket"))
            (kubelet.folder / "kubelet.sock").unlink()
            await kubelet.until(
                lambda times=times: len(running.said("waiting for the kubelet's socket")) > times,  # type: ignore[misc]
                "it is said",
            )
            assert (await asyncio.to_thread(running.page, "/readyz"))[0] == 503
            assert (await asyncio.to_thread(running.page, "/healthz"))[0] == 200  # a restart would not help
            await kubelet.restart()
            await kubelet.knows(GPU)
            await kubelet.knows(NIC)
        await kubelet.until(lambda: running.page("/readyz") == (200, "ok\n"), "it is ready again")
        await kubelet.stop()

    with agent(folder, "--fake", str(fakes)) as running:
        asyncio.run(scenario(running))


def test_the_whole_folder_vanishes_and_returns(folder: Path, fakes: Path) -> None:
    place = folder / "device-plugins"

    async def scenario(running: Agent) -> None:
        await Kubelet(place).until(lambda: running.said("waiting for the kubelet's socket"), "it waits")
        for path in place.iterdir():
            path.unlink()
        place.rmdir()
        place.mkdir()
        kubelet = Kubelet(place)
        await kubelet.start()
        assert len((await kubelet.knows(GPU)).devices) == 8
        await kubelet.stop()

    with agent(folder, "--fake", str(fakes)) as running:
        asyncio.run(scenario(running))
        assert running.process.poll() is None


def test_a_thousand_pods(folder: Path, fakes: Path) -> None:
    async def scenario(running: Agent) -> None:
        kubelet = Kubelet(folder / "device-plugins")
        await kubelet.start()
        watched = await kubelet.knows(GPU)
        everything = tuple(watched.devices)
        for pod in range(1000):
            ids = await kubelet.prefer(GPU, everything, 1 + pod % 4)
            (given,) = await kubelet.allocate(GPU, tuple(ids))
            assert pairs(given, 1)["EXAMPLE_COM_GPU"] == ",".join(ids)
        assert kubelet.resources[GPU] is watched
        assert watched.updates == 1
        metrics = (await asyncio.to_thread(running.page, "/metrics"))[1]
        assert 'calls_total{resource="example.com/gpu",method="Allocate",outcome="ok"} 1000\n' in metrics
        await kubelet.stop()

    with agent(folder, "--fake", str(fakes)) as running:
        asyncio.run(scenario(running))


class Hanging:
    """A duty of which one loop does not turn any more, and that is not ready."""

    name = "publication"

    def missing(self) -> tuple[str, ...]:
        return ("publication: the API server does not answer",)

    def stuck(self) -> tuple[str, ...]:
        return ("reading the kubelet: has not gone on for 62 seconds",)


def test_the_pages_name_what_hangs_and_what_is_missing() -> None:
    def body(path: str) -> str:
        head, _, text = page(f"GET {path} HTTP/1.1", AGENT, [Hanging()]).decode().partition("\r\n\r\n")  # type: ignore[list-item]
        return head.split("\r\n")[0].split(" ", 1)[1] + ": " + text

    assert body("/healthz") == (
        "503 Service Unavailable: reading the kubelet: has not gone on for 62 seconds\n"
    )
    assert body("/readyz") == "503 Service Unavailable: publication: the API server does not answer\n"


def test_a_connection_that_outlives_its_server_is_refused(folder: Path) -> None:
    """Nobody would end a call that is begun after the close."""

    async def forever(_: bytes) -> AsyncGenerator[bytes]:
        while True:
            yield b""
            await asyncio.sleep(0)

    async def scenario() -> None:
        path = str(folder / "one.sock")
        serving = await serve(path, [Method("/x/Watch", streams=forever)])
        channel = Channel(path=path, codec=Bytes())  # type: ignore[arg-type]
        watch = UnaryStreamMethod(channel, "/x/Watch", bytes, bytes)
        async with watch.open() as first:
            await first.send_message(b"", end=True)
            assert await first.recv_message() == b""
            await serving.close()
            await first.cancel()
        with pytest.raises(GRPCError) as refused:
            await watch(b"")
        assert (refused.value.status, refused.value.message) == (Status.UNAVAILABLE, "the server stops")
        channel.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("form", ["text", "json"])
def test_both_forms_of_the_log_say_the_same(folder: Path, fakes: Path, form: str) -> None:
    log = folder / "log"

    async def scenario(running: Agent) -> None:
        kubelet = Kubelet(folder / "device-plugins")
        await kubelet.start()
        await kubelet.until(lambda: b"registered" in log.read_bytes(), "it registers")
        await asyncio.to_thread(running.end)
        with contextlib.suppress(GRPCError):
            await kubelet.stop()

    with agent(folder, "--fake", str(fakes), "--log", form) as running:
        asyncio.run(scenario(running))
    lines = log.read_text().splitlines()
    assert any("stopping" in line for line in lines)
    assert all(line.startswith("{") == (form == "json") for line in lines), log.read_text()
    assert any("registered" in line and "example.com/gpu" in line for line in lines)
