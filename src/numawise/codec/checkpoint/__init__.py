"""The kubelet's three state files: text ↔ values, with the real checksums.

Rules kept here:

1. The checksum covers Go's print of the value, type names included, not the JSON: FNV-1a over the texts
   built in ``cpu``, ``memory`` and ``device``.
2. Members come in the order of the struct; map keys as sorted text in the JSON, and as sorted keys in the
   hashed print (numbers by number there).
3. Reading tries the formats in the kubelet's order; the refusal is that of the attempt the kubelet
   reports, which is not always the one that matters.
4. Reading is lenient as Go is: unknown members pass, names match in any case, ``null`` is not a map.
"""

from numawise.codec.checkpoint.cpu import CPU_FILE, decode_cpu, encode_cpu
from numawise.codec.checkpoint.device import DEVICE_FILE, decode_devices, encode_devices
from numawise.codec.checkpoint.memory import MEMORY_FILE, decode_memory, encode_memory

__all__ = [
    "CPU_FILE",
    "DEVICE_FILE",
    "LARGEST_STATE",
    "MEMORY_FILE",
    "PLACES",
    "decode_cpu",
    "decode_devices",
    "decode_memory",
    "encode_cpu",
    "encode_devices",
    "encode_memory",
]

PLACES = {
    CPU_FILE: (CPU_FILE,),
    MEMORY_FILE: (MEMORY_FILE,),
    DEVICE_FILE: (f"device-plugins/{DEVICE_FILE}", DEVICE_FILE),
}
"""State file → where it may lie below the kubelet's directory."""
LARGEST_STATE = 16 << 20
