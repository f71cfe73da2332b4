"""``numawise agent --device-plugin`` and a kubelet that speaks the real protocol, in good weather and bad."""

import asyncio
import contextlib
import re
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from grpclib.client import UnaryUnaryMethod
from grpclib.exceptions import GRPCError

from numawise.kube.podresources import held_devices
from tests.kube.agents import FAKES, GPU, NIC, Agent, agent
from tests.kube.kubelet import SERVICE, Kubelet, pairs
from tests.kube.test_podresources import kubelet as pod_resources
from tests.kube.test_podresources import messages
from tests.waiting import PATIENCE

SOCKET = "numawise-example.com_gpu.sock"


@contextlib.asynccontextmanager
async def kubelet_of(folder: Path):  # type: ignore[no-untyped-def] # noqa: ANN201
    kubelet = Kubelet(folder / "device-plugins")
    await kubelet.start()
    try:
        yield kubelet
    finally:
        await kubelet.stop()


def test_devices_are_offered_preferred_and_given(folder: Path, fakes: Path) -> None:
    async def scenario(running: Agent) -> None:
        async with kubelet_of(folder) as kubelet:
            gpus, nics = await kubelet.knows(GPU), await kubelet.knows(NIC)
            assert gpus.endpoint == SOCKET
            assert gpus.options == {2: [1]}
            assert gpus.devices["gpu0"] == ("Healthy", (0,))  # node 0 is a node
            assert gpus.devices["gpu7"] == ("Healthy", (1,))
            assert nics.devices == {"nic0": ("Healthy", None)}
            everything = tuple(gpus.devices)
            assert await kubelet.prefer(GPU, everything, 2, must=("gpu5",)) == ["gpu4", "gpu5"]
            assert await kubelet.prefer(GPU, ("gpu0", "gpu4", "gpu6", "gpu7"), 3) == ["gpu4", "gpu6", "gpu7"]
            assert await kubelet.prefer(GPU, ("gpu0", "stranger"), 2) == []  # left to the kubelet, no error
            first, second = await kubelet.allocate(GPU, ("gpu4", "gpu5"), ("gpu0",))
            assert pairs(first, 1) == {"EXAMPLE_COM_GPU": "gpu4,gpu5"}
            assert pairs(second, 1) == {"EXAMPLE_COM_GPU": "gpu0"}
            with pytest.raises(GRPCError, match="has no device 'gpu9'"):
                await kubelet.allocate(GPU, ("gpu9",))
            assert await kubelet.call(GPU, "PreStartContainer", b"") == {}
            assert await kubelet.call(GPU, "GetDevicePluginOptions", b"") == {2: [1]}
            with pytest.raises(GRPCError, match="the request cannot be read"):
                await kubelet.call(GPU, "Allocate", b"\x0a\xff")
            assert stat.S_IMODE((kubelet.folder / SOCKET).stat().st_mode) == 0o600
        assert running.process.poll() is None

    with agent(folder, "--fake", str(fakes)) as running:
        asyncio.run(scenario(running))
    calls = [line["devices"] for line in running.said("given to a container")]
    assert calls == ["gpu4,gpu5", "gpu0"]


def test_a_kubelet_that_comes_late_and_is_restarted(folder: Path, fakes: Path) -> None:
    async def scenario(running: Agent) -> None:
        kubelet = Kubelet(folder / "device-plugins")
        await kubelet.until(lambda: running.said("waiting for the kubelet's socket"), "the agent waits")
        assert running.page("/readyz") == (
            503,
            "example.com/gpu: no kubelet watches it\nexample.com/nic: no kubelet watches it\n",
        )
        await kubelet.start()
        for times in (1, 2, 3):
            before = await kubelet.knows(GPU)
            await kubelet.knows(NIC)
            assert len(before.devices) == 8
            # One that was answered while the kubelet ended is made again.
            assert kubelet.registrations.count(GPU) >= times
            await kubelet.restart()
        await kubelet.knows(GPU)
        await kubelet.knows(NIC)
        await kubelet.until(lambda: running.page("/readyz") == (200, "ok\n"), "the agent is ready")
        await kubelet.stop()

    with agent(folder, "--fake", str(fakes)) as running:
        asyncio.run(scenario(running))
        assert running.process.poll() is None


def test_a_kubelet_that_stops_watching(folder: Path, fakes: Path) -> None:
    async def scenario() -> None:
        async with kubelet_of(folder) as kubelet:
            await kubelet.knows(GPU)
            await kubelet.forget(GPU)
            await kubelet.knows(GPU)
            kubelet.watches = False
            await kubelet.forget(NIC)
            await kubelet.until(lambda: NIC in kubelet.resources, "it registers")
            kubelet.watches = True
            await kubelet.knows(NIC)

    with agent(folder, "--fake", str(fakes)):
        asyncio.run(scenario())


def test_kubelets_that_refuse_or_speak_nonsense(folder: Path, fakes: Path) -> None:
    place = folder / "device-plugins" / "kubelet.sock"

    def nonsense() -> socket.socket:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(place))
        listener.listen()
        return listener

    async def scenario(running: Agent) -> None:
        kubelet = Kubelet(folder / "device-plugins")
        for words in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0" * 9, b""):
            listener = nonsense()
            connection, _ = await asyncio.to_thread(listener.accept)
            connection.sendall(words)
            connection.close()
            listener.close()
            place.unlink()
        await kubelet.until(lambda: running.said("not registered"), "it says so")
        kubelet.refusal = "unsupported version"
        await kubelet.start()
        await kubelet.until(lambda: running.said("unsupported version"), "it says why")
        kubelet.refusal = ""
        assert len((await kubelet.knows(GPU)).devices) == 8
        await kubelet.stop()

    with agent(folder, "--fake", str(fakes)) as running:
        asyncio.run(scenario(running))
        assert running.process.poll() is None


def test_a_kubelet_that_takes_the_call_and_says_nothing(folder: Path, fakes: Path) -> None:
    place = folder / "device-plugins" / "kubelet.sock"

    async def scenario(running: Agent) -> None:
        kubelet = Kubelet(folder / "device-plugins")
        with socket.socket(socket.AF_UNIX) as silent:
            silent.bind(str(place))
            silent.listen()
            connection, _ = await asyncio.to_thread(silent.accept)
            with connection:
                assert await asyncio.to_thread(running.page, "/healthz") == (200, "ok\n")  # it does not hang
        await kubelet.start()
        assert len((await kubelet.knows(GPU)).devices) == 8
        await kubelet.knows(NIC)
        await kubelet.stop()

    with agent(folder, "--fake", str(fakes)) as running:
        asyncio.run(scenario(running))


def test_a_peer_that_does_not_read_keeps_nobody_else_waiting(folder: Path, fakes: Path) -> None:
    async def scenario() -> None:
        async with kubelet_of(folder) as kubelet:
            await kubelet.knows(GPU)
            preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"
            lazy = [socket.socket(socket.AF_UNIX) for _ in range(20)]
            try:
                for each in lazy:
                    each.connect(str(kubelet.folder / SOCKET))
                    each.sendall(preface)
                (given,) = await kubelet.allocate(GPU, ("gpu1",))
                assert pairs(given, 1) == {"EXAMPLE_COM_GPU": "gpu1"}
            finally:
                for each in lazy:
                    each.close()

    with agent(folder, "--fake", str(fakes)):
        asyncio.run(scenario())


def test_a_device_dies_and_comes_back(folder: Path, fakes: Path) -> None:
    def write(text: str) -> None:
        new = fakes.with_suffix(".new")
        new.write_text(text)
        new.rename(fakes)

    async def scenario(running: Agent) -> None:
        async with kubelet_of(folder) as kubelet:
            watched, nics = await kubelet.knows(GPU), await kubelet.knows(NIC)
            write(FAKES + "  health: Unhealthy\n")
            await kubelet.until(lambda: nics.devices["nic0"][0] == "Unhealthy", "it is streamed")
            write("- resource: [half a fi")
            await kubelet.until(lambda: running.said("everything stays as it was"), "it says so")
            assert nics.devices["nic0"][0] == "Unhealthy"
            write(FAKES)
            await kubelet.until(lambda: nics.devices["nic0"][0] == "Healthy", "it is streamed, too")
            assert nics.updates == 3
            assert watched.updates == 1
            page = running.page("/metrics")[1]
            assert 'health_changes_total{resource="example.com/nic",to="bad"} 1\n' in page

    with agent(folder, "--fake", str(fakes)) as running:
        asyncio.run(scenario(running))


def test_devices_and_resources_that_come_and_go(folder: Path, fakes: Path) -> None:
    def write(text: str) -> None:
        new = fakes.with_suffix(".new")
        new.write_text(text)
        new.rename(fakes)

    async def scenario(running: Agent) -> None:
        async with kubelet_of(folder) as kubelet:
            gpus = await kubelet.knows(GPU)
            await kubelet.knows(NIC)
            await kubelet.allocate(GPU, ("gpu0",))
            write(
                "- {resource: example.com/gpu, ids: [gpu1, gpu8], numa: 1}\n- {resource: example.com/x, ids: [x0]}\n"
            )
            new = await kubelet.knows("example.com/x")
            assert new.devices == {"x0": ("Healthy", None)}
            await kubelet.until(lambda: len(gpus.devices) == 3, "the others are forgotten")
            assert gpus.devices == {
                "gpu1": ("Healthy", (1,)),
                "gpu8": ("Healthy", (1,)),
                "gpu0": ("Unhealthy", (0,)),  # a container has it
            }
            with pytest.raises(GRPCError, match="has no device 'gpu0'"):
                await kubelet.allocate(GPU, ("gpu0",))
            socket = kubelet.folder / "numawise-example.com_nic.sock"
            await kubelet.until(lambda: not socket.exists(), "its resource is given up")
            await kubelet.until(lambda: running.page("/readyz") == (200, "ok\n"), "and not waited for")
            write(FAKES)
            nic = {"nic0": ("Healthy", None)}
            await kubelet.until(lambda: kubelet.resources[NIC].devices == nic, "it is registered again")
            await kubelet.until(lambda: gpus.devices["gpu0"][0] == "Healthy", "what came back is good again")
            assert kubelet.resources[GPU] is gpus  # all that in one stream

    with agent(folder, "--fake", str(fakes)) as running:
        asyncio.run(scenario(running))


def test_a_device_that_has_gone_is_forgotten_when_no_container_has_it(folder: Path, fakes: Path) -> None:
    """The kubelet's PodResources socket says who has what."""
    (folder / "pod-resources").mkdir()
    other = fakes.with_suffix(".other")
    other.write_text(FAKES.replace("nic0", "nic1"))

    async def scenario(running: Agent) -> None:
        async with kubelet_of(folder) as kubelet:
            nics = await kubelet.knows(NIC)
            await kubelet.allocate(NIC, ("nic0",))
            with pod_resources(folder / "pod-resources/kubelet.sock", messages) as path:
                other.rename(fakes)
                await kubelet.until(lambda: list(nics.devices) == ["nic1"], "the old one is forgotten")
                assert await asyncio.to_thread(held_devices, path) == {"x/gpu": {"g0"}}
        assert running.said("no longer offered")[-1]["devices"] == "nic0"

    with agent(folder, "--fake", str(fakes)) as running:
        asyncio.run(scenario(running))


def test_an_unhealthy_device_is_never_offered_as_a_healthy_one(folder: Path, fakes: Path) -> None:
    fakes.write_text(FAKES + "  health: Unhealthy\n")

    async def scenario() -> None:
        async with kubelet_of(folder) as kubelet:
            nics = await kubelet.knows(NIC)
            assert nics.devices == {"nic0": ("Unhealthy", None)}
            assert nics.updates == 1

    with agent(folder, "--fake", str(fakes)):
        asyncio.run(scenario())


def test_a_path_that_goes_and_returns(folder: Path, tmp_path: Path) -> None:
    tree = tmp_path / "root"
    (tree / "dev/x").mkdir(parents=True)
    for name in ("a0", "a1"):
        (tree / "dev/x" / name).touch()
    config = tmp_path / "agent.yaml"
    config.write_text("agent: v1\nresources:\n- name: example.com/x\n  paths: [/dev/x/a*]\n  replicas: 2\n")

    async def scenario() -> None:
        async with kubelet_of(folder) as kubelet:
            watched = await kubelet.knows("example.com/x")
            assert sorted(watched.devices) == ["x-a0::0", "x-a0::1", "x-a1::0", "x-a1::1"]
            assert sorted(await kubelet.prefer("example.com/x", tuple(watched.devices), 2)) == [
                "x-a0::0",
                "x-a1::0",
            ]
            (given,) = await kubelet.allocate("example.com/x", ("x-a0::0", "x-a0::1"))
            assert pairs(given, 1) == {"EXAMPLE_COM_X": "/dev/x/a0"}
            assert len(given[3]) == 1
            (tree / "dev/x/a1").unlink()
            await kubelet.until(
                lambda: (
                    {one for one, (health, _) in watched.devices.items() if health == "Unhealthy"}
                    == {"x-a1::0", "x-a1::1"}
                ),
                "both replicas are bad",
            )
            (tree / "dev/x/a1").touch()
            await kubelet.until(
                lambda: all(health == "Healthy" for health, _ in watched.devices.values()), "they are back"
            )

    with agent(folder, "--config", str(config), "--root", str(tree)):
        asyncio.run(scenario())


def test_killed_in_the_middle_of_allocate(folder: Path, fakes: Path) -> None:
    async def scenario(running: Agent) -> None:
        async with kubelet_of(folder) as kubelet:
            watched = await kubelet.knows(GPU)
            before = dict(watched.devices)
            method = UnaryUnaryMethod(watched.channel, f"{SERVICE}Allocate", bytes, bytes)
            with contextlib.suppress(Exception):
                async with method.open() as stream:
                    await stream.send_request()
                    await kubelet.call(GPU, "GetDevicePluginOptions", b"")  # it has the first call by now
                    running.kill()
                    await stream.recv_message()
            await kubelet.until(lambda: not watched.watching, "the stream has ended")
            assert (kubelet.folder / SOCKET).is_socket()  # left behind
            running.process = running.started()
            again = await kubelet.knows(GPU)
            await kubelet.until(lambda: kubelet.resources[GPU] is not watched, "it registered again")
            again = await kubelet.knows(GPU)
            assert again.devices == before
            (given,) = await kubelet.allocate(GPU, ("gpu0",))
            assert pairs(given, 1) == {"EXAMPLE_COM_GPU": "gpu0"}

    with agent(folder, "--fake", str(fakes)) as running:
        asyncio.run(scenario(running))


def test_the_end_in_good_order(folder: Path, fakes: Path) -> None:
    async def scenario(running: Agent) -> None:
        async with kubelet_of(folder) as kubelet:
            watched = await kubelet.knows(GPU)
            assert await asyncio.to_thread(running.end) == 0
            await kubelet.until(lambda: not watched.watching, "the stream has ended")
            assert not (kubelet.folder / SOCKET).exists()

    with agent(folder, "--fake", str(fakes)) as running:
        asyncio.run(scenario(running))
    assert running.said("stopping")


def test_two_agents(folder: Path, fakes: Path) -> None:
    async def scenario() -> None:
        async with kubelet_of(folder) as kubelet:
            watched = await kubelet.knows(GPU)
            with agent(folder, "--fake", str(fakes)) as other:
                assert await asyncio.to_thread(other.process.wait, PATIENCE) == 3
            assert b"another process serves at" in (folder / "log").read_bytes()
            assert watched.watching
            assert await kubelet.allocate(GPU, ("gpu0",))

    with agent(folder, "--fake", str(fakes)):
        asyncio.run(scenario())


def test_a_strangers_file_is_left_alone(folder: Path, fakes: Path) -> None:
    place = folder / "device-plugins" / SOCKET
    place.write_text("precious")
    command = [sys.executable, "-m", "numawise", "agent", "--device-plugin", "--fake", str(fakes)]
    done = subprocess.run(
        [*command, "--kubelet-dir", str(folder), "--listen", "off"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert f"{place} is not a socket of this user's; remove it, if nobody needs it" in done.stderr
    assert "Traceback" not in done.stderr
    assert place.read_text() == "precious"


def test_pages(folder: Path, fakes: Path) -> None:
    async def scenario(running: Agent) -> None:
        async with kubelet_of(folder) as kubelet:
            await kubelet.knows(GPU)
            await kubelet.knows(NIC)
            await kubelet.allocate(GPU, ("gpu0",))

            def look() -> None:
                assert running.page("/healthz") == (200, "ok\n")
                assert running.page("/readyz?verbose") == (200, "ok\n")
                assert running.page("/") == (404, "there are /healthz, /readyz and /metrics\n")
                assert running.page("/metrics", "POST")[0] == 405
                metrics = running.page("/metrics")[1]
                assert metrics.endswith("# EOF\n")
                assert 'devices{resource="example.com/gpu",numa="0",health="healthy"} 4\n' in metrics
                assert 'devices{resource="example.com/nic",numa="none",health="healthy"} 1\n' in metrics
                assert 'in_touch{resource="example.com/gpu"} 1\n' in metrics
                assert 'calls_total{resource="example.com/gpu",method="Allocate",outcome="ok"} 1\n' in metrics
                for line in metrics.splitlines():
                    assert re.fullmatch(
                        r'# (TYPE|HELP|EOF).*|[a-z_]+(\{([a-z]+="[^"]*",?)+\})? [0-9.]+', line
                    ), line

            await asyncio.to_thread(look)

    with agent(folder, "--fake", str(fakes)) as running:
        asyncio.run(scenario(running))


def test_an_address_that_is_taken(folder: Path, fakes: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with agent(folder, "--fake", str(fakes), "--listen", address) as running:
            assert running.process.wait(PATIENCE) == 3
    assert f"{address} cannot be listened at" in (folder / "log").read_text()


def test_a_thousand_devices(folder: Path, tmp_path: Path) -> None:
    many = tmp_path / "many.yaml"
    names = [f"device-{number:04d}" for number in range(1000)]
    many.write_text(f"- {{resource: example.com/gpu, ids: [{', '.join(names)}], numa: 1}}\n")

    async def scenario() -> None:
        async with kubelet_of(folder) as kubelet:
            watched = await kubelet.knows(GPU)
            assert len(watched.devices) == 1000
            (given,) = await kubelet.allocate(GPU, tuple(names))
            assert pairs(given, 1)["EXAMPLE_COM_GPU"].count(",") == 999
            assert await kubelet.prefer(GPU, tuple(names), 3) == []

    with agent(folder, "--fake", str(many)):
        asyncio.run(scenario())
