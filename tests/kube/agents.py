"""An agent in a process of its own, for tests with a kubelet."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE
from tests.warm import Program

FAKES = """\
- resource: example.com/gpu
  ids: [gpu0, gpu1, gpu2, gpu3]
  numa: 0
- resource: example.com/gpu
  ids: [gpu4, gpu5, gpu6, gpu7]
  numa: 1
- resource: example.com/nic
  ids: [nic0]
"""
GPU, NIC = "example.com/gpu", "example.com/nic"


class Agent:
    """``numawise agent`` with these features, and what a test adds."""

    def __init__(self, folder: Path, *words: str, features: Sequence[str] = ("device-plugin",)) -> None:
        self.words, self.folder, self.features = words, folder, tuple(features)
        self.log = folder / "log"
        self.process = self.started()

    def started(self) -> "Program | subprocess.Popen[bytes]":
        features = (f"--{feature}" for feature in self.features)
        words = ("--kubelet-dir", str(self.folder), "--listen", "127.0.0.1:0", *self.words)
        with self.log.open("ab") as log:
            return Program("agent", *features, *words, stderr=log)

    def lines(self) -> list[dict[str, Any]]:
        text = self.log.read_text() if self.log.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def said(self, words: str) -> list[dict[str, Any]]:
        return [line for line in self.lines() if words in line["message"]]

    def page(self, path: str, method: str = "GET") -> tuple[int, str]:
        address = self.said("listening")[-1]["address"]
        request = urllib.request.Request(f"http://{address}{path}", method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as problem:
            with problem:
                return problem.code, problem.read().decode()

    def kill(self) -> None:
        """As the kernel does when memory runs out: nothing is cleaned up."""
        self.process.kill()
        self.process.wait(PATIENCE)

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


@contextlib.contextmanager
def node() -> Iterator[Path]:
    """A kubelet's directory with a short name: sockets have room for 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="nw", dir="/tmp" if os.access("/tmp", os.W_OK) else None))
    (folder / "device-plugins").mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def agent(folder: Path, *words: str, features: Sequence[str] = ("device-plugin",)) -> Iterator[Agent]:
    """An agent that is gone in the end."""
    running = Agent(folder, *words, features=features)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.kill()
