"""Stands in for the user's program: each rank leaves in a file where it runs."""

import json
import multiprocessing
import os
from pathlib import Path

KEPT = (
    "LOCAL_",
    "RANK",
    "WORLD_",
    "CROSS_",
    "OMPI_COMM",
    "MPI_",
    "PMI_",
    "CUDA",
    "OMP_",
    "NUMAWISE_",
    "RAY_RAYLET",
    "TORCHELASTIC_RUN",
    "GROUP_",
    "KMP_",
)


def memory_policy() -> str:
    """As the kernel has it for this process: ``bind:0``; '' where it does not say."""
    try:
        return Path("/proc/self/numa_maps").read_text().split(maxsplit=2)[1]
    except OSError:
        return ""


def main() -> None:
    where = {
        "cpus": sorted(os.sched_getaffinity(0)),
        "policy": memory_policy(),
        "process": multiprocessing.current_process().name,
        "environment": {name: value for name, value in os.environ.items() if name.startswith(KEPT)},
    }
    Path(os.environ["REPORTS"], f"{os.getpid()}.json").write_text(json.dumps(where))


if __name__ == "__main__":
    main()
