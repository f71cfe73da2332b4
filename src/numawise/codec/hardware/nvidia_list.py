"""``nvidia-smi -L``: the GPUs with model and UUID, and the MIG devices cut out of them.

Rules kept here:

1. A GPU is called ``GPU0`` by its number, a MIG device ``GPU0:1`` by its GPU's and its own.
2. A UUID is kept as printed; one that stands twice (redacted, or a paste in pieces) identifies nothing and
   is left out with a remark.
3. The list that PyTorch's collect_env prints, without UUIDs, is read too.
"""

import re
from collections import Counter

from numawise.codec.hardware import pasted
from numawise.errors import InputError
from numawise.machine.hardware import NVIDIA, ODD, UNKNOWN, UNREADABLE, Gpu, Hardware, Remark
from numawise.strconv import whole_number
from numawise.values import replace

SOURCE = "nvidia-list"
ADVICE = "give what nvidia-smi -L prints"
UUID = r"\([ \t]*UUID[ \t]*:[ \t]*([^\s()]+)[ \t]*\)?"
MODEL = r"[^\n(]*(?:\((?!UUID|S/N)[^()\n]*\)[^\n(]*)*"
CARD = re.compile(rf"(?<![\w:.])GPU[ \t]+([0-9]{{1,4}})[ \t]*:(?:[ \t]+|(?=\())({MODEL})(?:{UUID})?")
SLICE = r"[0-9]+(?:c\.[0-9]+)?g\.[0-9]+gb[\w.+-]*"
PART = re.compile(rf"(?<!\w)MIG[ \t]+({SLICE})[ \t]+Device[ \t]+([0-9]{{1,4}})[ \t]*:[ \t]*(?:{UUID})?")
SEVERAL = re.compile(r"(?<![\w:.])GPU[ \t]+([0-9]{1,4}(?:[ \t]*,[ \t]*[0-9]{1,4})+)[ \t]*:[ \t]*([^\n(]+)")
LOST = re.compile(r"Unable to determine the device handle for", re.IGNORECASE)
NO_MODEL = re.compile(r"(?i)(link [0-9]|.*compute capability|.*\b(?:gb/s|mib|kib)\b)")


def read(text: str, file: str = "") -> Hardware:
    """Read a list of GPUs."""
    gpus: list[Gpu] = []
    remarks: list[Remark] = []
    for line in pasted.lines(text):
        if LOST.search(line):
            remarks.append(Remark(UNKNOWN, "GPU", line.strip()))
            continue
        for several in SEVERAL.finditer(line):  # GPU 0,1,2,3: NVIDIA A100-SXM4-80GB
            if not NO_MODEL.match(several[2]):
                names = [f"GPU{whole_number(number)}" for number in several[1].split(",")]
                gpus += [Gpu(name, model=several[2].strip(), maker=NVIDIA) for name in names]
        for found in sorted([*CARD.finditer(line), *PART.finditer(line)], key=lambda found: found.start()):
            if found.re is CARD:
                if not NO_MODEL.match(found[2]) and (found[2].strip() or found[3]):
                    model = found[2].strip()
                    gpus.append(
                        Gpu(f"GPU{whole_number(found[1])}", uuid=found[3] or "", model=model, maker=NVIDIA)
                    )
                continue
            parent = next((gpu.name for gpu in reversed(gpus) if not gpu.parent), "")
            if not parent:
                remarks.append(Remark(UNREADABLE, f"MIG {found[1]}", "comes before any GPU"))
                continue
            name = f"{parent}:{whole_number(found[2])}"
            model = f"MIG {found[1]}"
            gpus.append(Gpu(name, uuid=found[3] or "", model=model, parent=parent, maker=NVIDIA))
    if not gpus:
        raise InputError("lists no GPU", file=file, advice=ADVICE)
    gpus = _once(gpus, remarks)
    return Hardware(gpus=tuple(gpus), sources=(SOURCE,), remarks=tuple(remarks))


def _once(gpus: list[Gpu], remarks: list[Remark]) -> list[Gpu]:
    """Each GPU once, and no UUID twice."""
    found: dict[str, Gpu] = {}
    for gpu in gpus:
        before = found.get(gpu.name)
        if before is None or (not before.uuid and gpu.model == before.model):
            found[gpu.name] = gpu
        elif gpu.uuid and gpu.uuid != before.uuid:
            remarks.append(Remark(ODD, gpu.name, "is listed twice; using the first one"))
    uses = Counter(gpu.uuid for gpu in found.values() if gpu.uuid)
    for name, gpu in found.items():
        if uses[gpu.uuid] > 1:
            remarks.append(Remark(ODD, name, f"shares the UUID {gpu.uuid} with another, so it is left out"))
            found[name] = replace(gpu, uuid="")
    return list(found.values())
