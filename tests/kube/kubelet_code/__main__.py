"""The agent against the kubelet's own code: its registration server and its client of device plugins.

    python -m tests.kube.kubelet_code [v1.36.4]

Go is needed, and a network for the first time: some minutes of computing.  The program is kept in
``NUMAWISE_CLUSTER`` (``~/.cache/numawise-cluster``).  Prints what the kubelet saw; exit status 1 where that is not
what was offered.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.kube.agents import FAKES, agent, node
from tests.release.build import downloaded, replaced

SOURCE = Path(__file__).parent / "main.go"
GPUS = ",".join(f'"gpu{number} Healthy nodes:{{{"" if number < 4 else "ID:1"}}}"' for number in range(8))
OPTIONS = "get_preferred_allocation_available:true"
ROUND = (
    f"connected example.com/gpu {OPTIONS} <nil>",
    f"connected example.com/nic {OPTIONS} <nil>",
    f"devices example.com/gpu [{GPUS}]",
    'devices example.com/nic ["nic0 Healthy \\u003cnil\\u003e"]',
    'preferred container_responses:{deviceIDs:"gpu4" deviceIDs:"gpu5"} <nil>',
    'allocated container_responses:{envs:{key:"EXAMPLE_COM_GPU" value:"gpu4,gpu5"}} <nil>',
    "refused rpc error: code = InvalidArgument desc = example.com/gpu has no device 'gpu9'; numawise offers 8 others",
    "prestarted <nil>",
)
"""What the kubelet sees, before and after its restart."""


def program(release: str) -> Path:
    """The kubelet's code, built once."""
    home = Path(os.environ.get("NUMAWISE_CLUSTER") or Path.home() / ".cache/numawise-cluster")
    scratch = home / "build" / f"device-plugin-{release}"
    built = scratch / "kubelet-code"
    if built.exists() and built.stat().st_mtime > SOURCE.stat().st_mtime:
        return built
    scratch.mkdir(parents=True, exist_ok=True)
    sources = downloaded(release, scratch)
    module = (sources.folder / "go.mod").read_text()
    module = module.replace("module k8s.io/kubernetes", "module kubeletcode", 1)
    required = f"{replaced(module, sources.staging)}\nrequire k8s.io/kubernetes {release}\n"
    (scratch / "go.mod").write_text(required)
    shutil.copyfile(sources.folder / "go.sum", scratch / "go.sum")
    shutil.copyfile(SOURCE, scratch / "main.go")
    command = ["nice", "go", "build", "-mod=mod", "-o", str(built), "."]
    subprocess.run(command, cwd=scratch, env={**os.environ, "CGO_ENABLED": "0"}, check=True)
    return built


def main() -> int:
    built = program(sys.argv[1] if len(sys.argv) > 1 else "v1.36.4")
    with node() as folder:
        fakes = folder / "fakes.yaml"
        fakes.write_text(FAKES)
        with agent(folder, "--fake", str(fakes)):
            done = subprocess.run(
                [built, folder / "device-plugins/kubelet.sock"], capture_output=True, text=True, check=False
            )
    print(done.stdout)  # noqa: T201
    seen = [" ".join(line.split()) for line in done.stdout.splitlines()]  # Go spaces its messages by chance
    missing = [line for line in ROUND if seen.count(line) != 2]
    for line in missing:
        print(f"not seen twice: {line}", file=sys.stderr)  # noqa: T201
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
