"""Files whose every text carries escapes, through every command that reads them: nothing steers the terminal.

Each text and each key of a good document is made hostile in turn.  A command may read it, or refuse it in one
sentence; what it prints has no control character but for the newline and the styles of our own tables.
"""

import io
import json
import re
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import yaml

from numawise.cli.main import main
from tests.cli.run import EXAMPLES

HOSTILE = "x\x1b[31;1m\x1b]0;t\x07\x9b2J\r\u202e\u2066\x7f\ny"
OWN_STYLE = re.compile(r"\x1b\[(?:0|1|2|3[1-6]|4[1-6]|1;3[1-6])m")
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
SERVER = EXAMPLES / "3gpu-server"
POD, CONFIG = SERVER / "pods/07-2gpu-3cpu/a-2gpu-3cpu.yaml", SERVER / "kubelet.yaml"
Place = tuple[str | int, ...]


class Screen(io.StringIO):
    """A terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def texts(value: object, place: Place = ()) -> Iterator[tuple[Place, bool]]:
    """Where the texts and keys of a document are; of alike members of a list, the first."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*place, key), True
            yield from texts(inner, (*place, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value[:1]):
            yield from texts(inner, (*place, number))
    elif isinstance(value, str):
        yield place, False


def hostile(value: Any, place: Place, *, key: bool) -> Any:
    """The document with one text, or one key, made hostile."""
    if not place:
        return f"{value}{HOSTILE}"
    first, *rest = place
    if isinstance(value, list):
        return [hostile(v, tuple(rest), key=key) if i == first else v for i, v in enumerate(value)]
    if key and not rest:
        return {f"{k}{HOSTILE}" if k == first else k: v for k, v in value.items()}
    return {k: hostile(v, tuple(rest), key=key) if k == first else v for k, v in value.items()}


def judge(arguments: list[str], *, screen: bool) -> None:
    out, err = (Screen(), Screen()) if screen else (io.StringIO(), io.StringIO())
    with redirect_stdout(out), redirect_stderr(err):
        status = main(arguments)
    printed = OWN_STYLE.sub("", out.getvalue()) if screen else out.getvalue()
    said = err.getvalue()
    assert status in range(6), (arguments, said)
    assert not CONTROL.search(printed), (arguments, printed)
    assert not CONTROL.search(said), (arguments, said)
    assert all(
        line.startswith(("numawise: ", "Usage: ", "Try ", "Error: ", "\n")) or not line
        for line in said.splitlines()
    ), said


def made(document: str) -> Any:
    """A good document of each kind."""
    match document:
        case "pod":
            return yaml.safe_load(POD.read_text())
        case "config":
            return yaml.safe_load(CONFIG.read_text())
        case "machine":
            return yaml.safe_load((SERVER / "machine.yaml").read_text())
        case "hardware":
            out = io.StringIO()
            with redirect_stdout(out):
                main(["show", "1s 2n 4c 1gpu 1nic", "-o", "json"])
            hardware = json.loads(out.getvalue())
            for gpu in hardware["gpu_devices"]:
                gpu["uuid"] = "GPU-0a0b0c0d-0000-1111-2222-333344445555"
            return hardware
        case "steps":
            return yaml.safe_load((EXAMPLES / "8gpu-server/day.yaml").read_text())
        case "nodes":
            return [
                {"name": "a", "machine": str(SERVER / "machine.yaml"), "kubelet": str(CONFIG), "count": 2}
            ]
        case "cpu_manager_state" | "memory_manager_state":
            return json.loads(next((EXAMPLES / "8gpu-server/state").rglob(document)).read_text())
    raise AssertionError(document)


NODE = ["--machine", str(SERVER / "machine.yaml"), "--kubelet-config", str(CONFIG)]
READERS = {
    "pod": [["simulate", *NODE, "FILE"], ["why", *NODE, "FILE"], ["check", "FILE"], ["plan", "pod", "FILE"],
            ["simulate", *NODE, "FILE", "-o", "yaml"]],
    "config": [["check", "--kubelet-config", "FILE"],
               ["simulate", *NODE[:2], "--kubelet-config", "FILE", str(POD)],
               ["plan", "switch", str(CONFIG), "FILE", *NODE[:2]]],
    "machine": [["simulate", "--machine", "FILE", *NODE[2:], str(POD)], ["show", "FILE"], ["discover", "--from", "FILE"],
                ["why", "--machine", "FILE", *NODE[2:], str(POD)]],
    "hardware": [["show", "FILE"], ["show", "FILE", "--advice", "-o", "html"], ["show", "FILE", "-o", "svg"], ["discover", "--from", "FILE"],
                 ["flags", "--machine", "FILE", "--gpus", "1", "--format", "all"],
                 ["docker", "--print", "--machine", "FILE", "--gpus", "1", "--", "run", "image"],
                 ["run", "--dry-run", "--machine", "FILE", "--gpus", "1", "--", "true"],
                 ["bind", "--dry-run", "--local-size", "2"],
                 ["plan", "kubelet", "--machine", "FILE"]],
    "steps": [["simulate", *NODE, "--steps", "FILE"]],
    "nodes": [["simulate", "--nodes", "FILE", str(POD)]],
    "cpu_manager_state": [["state", "show", "FILE"], ["state", "verify", "FILE"], ["check", "--state", "FILE"]],
    "memory_manager_state": [["state", "show", "FILE"], ["state", "verify", "FILE"], ["check", "--state", "FILE"]],
}  # fmt: skip


@pytest.mark.parametrize("screen", [False, True], ids=["pipe", "terminal"])
@pytest.mark.parametrize("kind", READERS)
def test_hostile_texts(kind: str, screen: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NUMAWISE_LEDGER", str(tmp_path / "ledger"))
    document = made(kind)
    name = kind if "state" in kind else f"{kind}.json"
    for number, (place, key) in enumerate(texts(document)):
        folder = tmp_path / str(number)
        folder.mkdir()
        file = folder / name
        file.write_text(json.dumps(hostile(document, place, key=key)))
        for arguments in READERS[kind]:
            judge([word.replace("FILE", str(file)) for word in arguments], screen=screen)


PRINTS = {
    "nvidia-smi -L": f"GPU 0: NVIDIA A100{HOSTILE}-SXM4 (UUID: GPU-0a0b0c0d-0000-1111-2222-333344445555)\n",
    "lspci": f"17:00.0 3D controller: NVIDIA{HOSTILE} Corporation GA100 [A100]\n",
    "hwloc": '<?xml version="1.0"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n<topology version="2.0"><object type="Machine" os_index="0" '
    'cpuset="0x1" nodeset="0x1" name="a\u202eb\x9b"><info name="HostName" value="\u202e\x9bh"/><object type="NUMANode" '
    'os_index="0" cpuset="0x1" nodeset="0x1" local_memory="1024"/><object type="PU" os_index="0" cpuset="0x1" nodeset="0x1"/></object></topology>',
    "topo": "\tGPU0\tNIC\x9b0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tPIX\u202e\t0-3\t0\n\nNIC Legend:\n\n  NIC0: mlx\u202e5_0\x9b\n",
}  # fmt: skip


@pytest.mark.parametrize("screen", [False, True], ids=["pipe", "terminal"])
@pytest.mark.parametrize("kind", PRINTS)
def test_hostile_prints(kind: str, screen: bool, tmp_path: Path) -> None:  # noqa: FBT001
    file = tmp_path / "print.txt"
    file.write_text(PRINTS[kind], newline="")
    for arguments in (
        ["show", "--from", str(file)],
        ["discover", "--from", str(file), "-o", "text"],
        ["discover", "--from", str(file)],
    ):
        judge(arguments, screen=screen)


@pytest.mark.parametrize("screen", [False, True], ids=["pipe", "terminal"])
def test_a_hostile_log(screen: bool, tmp_path: Path) -> None:  # noqa: FBT001
    log = (EXAMPLES / "incident-server/kubelet.log").read_bytes().decode()
    for number, line in enumerate(log.splitlines()):
        for word in set(re.findall(r'[\w.-]+(?=")', line)):
            file = tmp_path / "kubelet.log"
            hostile_line = HOSTILE.replace("\n", "")
            file.write_text(log.replace(f'{word}"', f'{word}{hostile_line}"'), newline="")
            judge(["why", "--log", str(file)], screen=screen)
        if number > 12:
            break


@pytest.mark.parametrize("screen", [False, True], ids=["pipe", "terminal"])
def test_hostile_names_of_files(screen: bool, tmp_path: Path) -> None:  # noqa: FBT001
    folder = tmp_path / HOSTILE
    folder.mkdir()
    (folder / "bad.yaml").write_text("a: [")
    for name in ("machine.yaml", "pod.yaml", "kubelet.yaml"):
        source = {"machine.yaml": SERVER / name, "pod.yaml": POD, "kubelet.yaml": CONFIG}[name]
        (folder / name).write_text(source.read_text())
    node = ["--machine", str(folder / "machine.yaml"), "--kubelet-config", str(folder / "kubelet.yaml")]
    for arguments in (
        ["simulate", *node, str(folder / "pod.yaml")],
        ["simulate", *node, str(folder / "bad.yaml")],
        ["check", *node, str(folder)],
        ["check", *node, str(folder), "-o", "github"],
        ["show", str(folder)],
        ["state", "show", str(folder)],
        ["why", *node, "--log", str(folder / "bad.yaml")],
        ["replay", str(folder / "bad.yaml")],
        ["bundle", "show", str(folder)],
        ["simulate", "--nodes", str(folder), str(folder / "pod.yaml")],
    ):
        judge(arguments, screen=screen)
