"""An agent with what its manifest gives it and nothing else: mounts of a namespace, a read-only root, no capabilities."""

import contextlib
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from numawise.apps.agent.manifest import ManifestWish, manifest
from tests.kube.agents import Agent

WITHOUT_RIGHTS = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs")


def container_mounts(wish: ManifestWish) -> dict[str, bool]:
    """Path of the host → whether it may be written, as the manifest has it."""
    (daemons,) = [one for one in manifest(wish) if one["kind"] == "DaemonSet"]
    spec = daemons["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    paths = {volume["name"]: volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume}
    return {
        paths[mount["name"]]: not mount["readOnly"]
        for mount in container["volumeMounts"]
        if mount["name"] in paths
    }


def walled(mounts: dict[str, bool], real: Path, shown: Path, command: Sequence[str]) -> list[str]:
    """A command that sees, of the host's folder ``real``, those mounts alone, below ``shown``."""
    steps = ["set -e", "mount --make-rprivate /", f"mount -t tmpfs none {shown}"]
    for path in sorted(mounts):
        place = Path(path)
        if not place.is_relative_to(shown):
            continue
        source = real / place.relative_to(shown)
        steps += [f"mkdir -p {place}", f"mount --bind {source} {place}"]
        if not mounts[path]:
            steps.append(f"mount -o remount,bind,ro {place}")
    steps += [f"mount -o remount,ro {shown}", "mount -o remount,bind,ro /"]
    steps.append(f"exec {shlex.join((*WITHOUT_RIGHTS, *command))}")
    return ["unshare", "-m", "sh", "-c", "\n".join(steps)]


class ConfinedAgent(Agent):
    """An agent behind these walls; the kubelet is at ``real``."""

    def __init__(self, real: Path, shown: Path, features: Sequence[str], *words: str) -> None:
        self.real, self.shown, self.features = real, shown, tuple(features)
        super().__init__(real, *words)

    def started(self) -> "subprocess.Popen[bytes]":
        wish = ManifestWish(self.features, "x", (), kubelet_dir=str(self.shown))
        flags = [f"--{feature}" for feature in self.features if feature != "startup-taint"]
        command = [sys.executable, "-m", "numawise", "agent", *flags]
        command += ["--kubelet-dir", str(self.shown), "--listen", "127.0.0.1:0", *self.words]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                walled(container_mounts(wish), self.real, self.shown, command), stderr=log
            )

    def rights(self) -> dict[str, str]:
        """What the kernel says of its rights."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        lines = dict(line.split(":", 1) for line in text.splitlines())
        return {name: lines[name].strip() for name in ("CapEff", "CapPrm", "CapBnd", "NoNewPrivs")}


@contextlib.contextmanager
def confined(real: Path, shown: Path, features: Sequence[str], *words: str) -> Iterator[ConfinedAgent]:
    """Such an agent, gone in the end."""
    running = ConfinedAgent(real, shown, features, *words)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.kill()
