"""What a user wants of this machine, read from flags as they are typed.

Rules kept here:

1. Sizes are read by ``quantity.parse_size``: ``64g``, ``64Gi`` and ``64GiB`` mean the same.
2. Whole CPUs are to have alone; a fraction (``0.5``, ``1500m``) runs in the shared pool.
3. What cannot be meant is refused with the flag, the value and what is allowed.
"""

import re
from collections.abc import Sequence

from numawise.errors import InputError, quoted
from numawise.quantity import parse_size
from numawise.rules.model import BEST_EFFORT, NONE, RESTRICTED, SINGLE
from numawise.sets import LARGEST_ID
from numawise.strconv import whole_number
from numawise.values import dataclass

POLICIES = (NONE, BEST_EFFORT, RESTRICTED, SINGLE)
MILLI_CPUS = re.compile(r"([0-9]{1,9})m", re.ASCII)
CPUS = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,9})?", re.ASCII)
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", re.ASCII)


@dataclass(frozen=True, slots=True)
class JobRequest:
    """What is asked for."""

    cpus: int = 0
    """Thousandths of a CPU; 0: no number given."""
    memory: int = 0
    """Bytes; 0: no limit."""
    gpus: int = 0
    gpu_ids: tuple[str, ...] = ()
    """GPUs by index, name, UUID or PCI address; they win over ``gpus``."""
    devices: tuple[tuple[str, int], ...] = ()
    """Other resources and how many of each."""
    nics: int = 0
    policy: str = BEST_EFFORT
    full_cores: bool = False
    name: str = ""

    @property
    def whole_cpus(self) -> int:
        """CPUs to have alone."""
        return self.cpus // 1000 if self.cpus % 1000 == 0 else 0


def read_request(
    *,
    cpus: str = "",
    memory: str = "",
    gpus: int = 0,
    gpu_ids: str | None = None,
    devices: Sequence[str] = (),
    nics: int = 0,
    policy: str = BEST_EFFORT,
    full_cores: bool = False,
    name: str = "",
) -> JobRequest:
    """Read the flags of a launcher."""
    if policy not in POLICIES:
        raise InputError(
            f"unknown policy {quoted(policy)}",
            field="--policy",
            advice=f"choose one of {', '.join(POLICIES)}",
        )
    if gpus and gpu_ids:
        raise InputError("cannot be used together", field="--gpus and --gpu-ids", advice="give one of them")
    request = JobRequest(
        cpus=parse_cpus(cpus) if cpus else 0,
        memory=parse_size(memory) if memory else 0,
        gpus=gpus,
        gpu_ids=_list(gpu_ids),
        devices=tuple(map(_device, devices)),
        nics=nics,
        policy=policy,
        full_cores=full_cores,
        name=_name(name),
    )
    if full_cores and not request.whole_cpus:
        raise InputError(
            "needs whole CPUs to have alone", field="--full-cores", advice="give --cpus a whole number"
        )
    return request


def parse_cpus(text: str, field: str = "--cpus") -> int:
    """Thousandths of a CPU: ``8``, ``0.5`` or ``1500m``."""
    milli = MILLI_CPUS.fullmatch(text)
    if milli:
        found = whole_number(milli[1])
    elif CPUS.fullmatch(text):
        found = round(float(text) * 1000)
    else:
        raise InputError(
            f"{quoted(text)} is not a number of CPUs", field=field, advice="write 8, 0.5 or 1500m"
        )
    if not 0 < found <= LARGEST_ID * 1000:
        raise InputError(
            f"{quoted(text)} is not a number of CPUs to run on", field=field, advice="ask for more than 0"
        )
    return found


def _list(text: str | None) -> tuple[str, ...]:
    found = tuple(part.strip() for part in text.split(",")) if text is not None else ()
    if not all(found):
        raise InputError(
            f"{quoted(text)} has an empty entry", field="--gpu-ids", advice="write 0,1 or GPU-uuid,…"
        )
    return found


def _device(text: str) -> tuple[str, int]:
    resource, equals, count = text.partition("=")
    if (
        not resource
        or not equals
        or not (count.isascii() and count.isdecimal())
        or not 0 < whole_number(count) <= 1000
    ):
        raise InputError(
            f"{quoted(text)} is not RESOURCE=N", field="--device", advice="write nvme=1, for example"
        )
    return resource, whole_number(count)


def _name(text: str) -> str:
    if text and not NAME.fullmatch(text):
        raise InputError(
            f"{quoted(text)} is not a valid name for a hold",
            field="--name",
            advice="use letters, digits, '-', '_' and '.', at most 63, the first a letter or digit",
        )
    return text
