"""The node inside the guest: containerd, the kubelet and our agent as services of a real systemd."""

import hashlib
import io
import json
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

from e2e.cluster import HOST_ADDRESS, NODE, NODE_ADDRESS, Api, kubeconfig, wait_for
from e2e.pods import DEVICES, FLAGS, IMAGE, fakes

HOME, KUBELET = Path("/run/node"), Path("/var/lib/kubelet")
CONFIG = KUBELET / "config.yaml"
KUBECONFIG = HOME / "kubeconfig"
SOCKET = HOME / "containerd.sock"
FAKES = HOME / "devices.yaml"
MANIFESTS = HOME / "manifests"
UNITS = Path("/run/systemd/system")
HUGE_PAGES = "/sys/devices/system/node/node{}/hugepages/hugepages-2048kB/nr_hugepages"
IDLE = "#!/bin/sh\ntrap 'exit 0' TERM INT\nwhile :; do sleep 1000 & wait $!; done\n"
BASE: dict[str, Any] = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "staticPodPath": str(MANIFESTS),
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
    "cgroupDriver": "systemd",
    "containerRuntimeEndpoint": f"unix://{SOCKET}",
    "failSwapOn": False,
    "imageGCHighThresholdPercent": 100,
    "imageGCLowThresholdPercent": 99,
    "evictionHard": {"memory.available": "100Mi", "nodefs.available": "0%", "imagefs.available": "0%"},
    "systemReserved": {"memory": "156Mi"},
    "reservedSystemCPUs": "0-1",
    "nodeStatusUpdateFrequency": "2s",
    "nodeStatusReportFrequency": "2s",
    "syncFrequency": "10s",
    "cpuManagerReconcilePeriod": "2s",
}
STATIC: dict[str, Any] = {
    "cpuManagerPolicy": "static",
    "memoryManagerPolicy": "Static",
    "reservedMemory": [{"numaNode": 0, "limits": {"memory": "256Mi"}}],
}


def service(command: str, *lines: str) -> str:
    more = "\n".join(lines)
    return f"[Unit]\nDefaultDependencies=no\n[Service]\nExecStart={command}\nKillMode=process\nDelegate=yes\n{more}\n"


def runs(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=False, **options)


def must(*words: str) -> str:
    done = runs(*words)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


class Node:
    """One node with a real kubelet."""

    def __init__(self, programs: Path, logs: Path) -> None:
        self.programs, self.logs = programs, logs
        self.api = Api(HOST_ADDRESS)

    def start(self, config: dict[str, Any], duties: tuple[str, ...] = (), huge_pages: int = 0) -> None:
        """Bring everything up with a configuration, and wait until the node is ready.

        ``duties``: options of the agent, beside offering devices; ``huge_pages``: of 2 MiB, on each NUMA node.
        """
        for folder in (HOME, KUBELET, Path(FLAGS), MANIFESTS):
            folder.mkdir(parents=True, exist_ok=True)
        for numa in (0, 1) if huge_pages else ():
            Path(HUGE_PAGES.format(numa)).write_text(f"{huge_pages}\n")
        must("hostname", NODE)
        KUBECONFIG.write_text(kubeconfig(HOST_ADDRESS))
        CONFIG.write_text(json.dumps(config, indent=1))
        network = HOME / "cni"
        network.mkdir(exist_ok=True)
        plain = {"cniVersion": "0.4.0", "name": "none", "plugins": [{"type": "loopback"}]}
        (network / "10-none.conflist").write_text(json.dumps(plain))
        (HOME / "containerd.toml").write_text(containerd_config(network))
        path = f"Environment=PATH={self.programs}:/usr/sbin:/usr/bin:/sbin:/bin"
        log = "StandardOutput=append:{0}\nStandardError=append:{0}"
        kubelet = (
            f"{self.programs}/kubelet --config={CONFIG} --kubeconfig={KUBECONFIG} --hostname-override={NODE} "
            f"--node-ip={NODE_ADDRESS} --root-dir={KUBELET} --v=5"
        )
        FAKES.write_text(json.dumps(fakes()))
        agent = (
            f"{sys.executable} -m numawise agent --device-plugin --fake {FAKES} --kubelet-dir {KUBELET} --log json "
            + " ".join(duties)
        )
        for name, command in {
            "containerd": f"{self.programs}/containerd -c {HOME}/containerd.toml",
            "kubelet": kubelet,
            "agent": agent,
        }.items():
            again = "Restart=always\nRestartSec=1" if name == "agent" else ""
            where = f"WorkingDirectory={Path.cwd()}" if name == "agent" else ""
            (UNITS / f"{name}.service").write_text(
                service(command, path, log.format(self.logs / f"{name}.log"), again, where)
            )
        must("systemctl", "daemon-reload")
        must("systemctl", "start", "containerd")
        wait_for("containerd", 300, SOCKET.exists)
        archive = HOME / "image.tar"
        archive.write_bytes(image())
        importing = ("-a", str(SOCKET), "-n", "k8s.io", "images", "import", "--snapshotter", "native")
        wait_for(
            "the image", 300, lambda: not runs(f"{self.programs}/ctr", *importing, str(archive)).returncode
        )
        self.api.ask("DELETE", f"/api/v1/nodes/{NODE}")
        must("systemctl", "start", "kubelet", "agent")
        self.ready()

    def ready(self, seconds: float = 900) -> dict[str, Any]:
        """The Node object once the node is ready and has all devices."""

        def found() -> dict[str, Any] | None:
            node = self.api.node()
            status = node.get("status", {})
            amounts = status.get("allocatable", {})
            up = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", ()))
            there = all(amounts.get(name) == str(len(ids)) for name, ids in DEVICES.items())
            return node if up and there else None

        node: dict[str, Any] = wait_for("a ready node", seconds, found)
        return node


def containerd_config(network: Path) -> str:
    """A containerd that pulls nothing."""
    return f"""
version = 2
root = "{HOME}/containerd"
state = "{HOME}/containerd-state"
[grpc]
  address = "{SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{IMAGE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{network}"
    conf_dir = "{network}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = true
"""


def image() -> bytes:
    """An image that does nothing until it is ended, as ``docker save`` would write it."""
    busybox = Path(must("sh", "-c", "command -v busybox").strip()).read_bytes()
    layer = _tar({"bin/busybox": busybox, "idle": IDLE.encode()}, ("bin/sh", "bin/sleep", "bin/true"))
    configuration = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": ["/idle"], "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]
    return _tar(
        {
            "layer.tar": layer,
            "config.json": json.dumps(configuration).encode(),
            "manifest.json": json.dumps(manifest).encode(),
        }
    )


def _tar(files: dict[str, bytes], links: tuple[str, ...] = ()) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            archive.addfile(entry, io.BytesIO(content))
        for name in links:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(entry)
    return packed.getvalue()


def paused(seconds: float) -> None:
    """The kubelet's own loops have passed: CPUs are collected every two seconds."""
    time.sleep(seconds)
