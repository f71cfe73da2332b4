"""An agent with what its manifest gives it and nothing else: mounts of a namespace, a read-only root, no capabilities."""

import contextlib
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from numawise.apps.agent.manifest import ManifestWish, manifest
from numawise.apps.agent.rights import KUBELET_DIR
from tests.kube.agents import Agent

OWN_OF_CONTAINERS = ("proc", "sys/devices")
"""What every container has of its host, without a mount."""
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
    own = [Path(path) for path in sorted(mounts) if Path(path).is_relative_to(shown)]
    for place in own:
        steps += [f"mkdir -p {place}", f"mount --bind {real / place.relative_to(shown)} {place}"]
    # Always of the mount alone, never of the file system behind it: that one is everybody's.
    read_only = {*(place for place in own if not mounts[str(place)]), shown, Path("/")}
    steps += [f"mount -o remount,bind,ro {place}" for place in sorted(read_only)]
    steps.append(f"exec {shlex.join((*WITHOUT_RIGHTS, *command))}")
    return ["unshare", "-m", "sh", "-c", "\n".join(steps)]


class ConfinedAgent(Agent):
    """An agent behind these walls; the kubelet is at ``real``."""

    def __init__(
        self, real: Path, shown: Path, features: Sequence[str], *words: str, whole: bool = False
    ) -> None:
        """``whole``: these are the roots of a host and of a container, not their kubelets' folders."""
        self.real, self.shown, self.whole = real, shown, whole
        super().__init__(real, *words, features=features)

    def started(self) -> "subprocess.Popen[bytes]":
        kubelet_dir = str(self.shown) if not self.whole else KUBELET_DIR
        mounts = container_mounts(ManifestWish(self.features, "x", (), kubelet_dir=kubelet_dir))
        if self.whole:
            mounts = {f"{self.shown}{path}": writes for path, writes in mounts.items()}
            mounts |= {f"{self.shown}/{path}": False for path in OWN_OF_CONTAINERS}
            kubelet_dir = f"{self.shown}{KUBELET_DIR}"
        flags = [f"--{feature}" for feature in self.features if feature != "startup-taint"]
        command = [sys.executable, "-m", "numawise", "agent", *flags]
        command += ["--kubelet-dir", kubelet_dir, "--listen", "127.0.0.1:0", *self.words]
        with self.log.open("ab") as log:
            return subprocess.Popen(walled(mounts, self.real, self.shown, command), stderr=log)

    def rights(self) -> dict[str, str]:
        """What the kernel says of its rights."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        lines = dict(line.split(":", 1) for line in text.splitlines())
        return {name: lines[name].strip() for name in ("CapEff", "CapPrm", "CapBnd", "NoNewPrivs")}


@contextlib.contextmanager
def confined(
    real: Path, shown: Path, features: Sequence[str], *words: str, whole: bool = False
) -> Iterator[ConfinedAgent]:
    """Such an agent, gone in the end."""
    running = ConfinedAgent(real, shown, features, *words, whole=whole)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.kill()
