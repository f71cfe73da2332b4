"""A sysfs tree of a large made-up server, to read it from disk."""

from pathlib import Path

from numawise.sets import bits_of, ids_of, parse_ids

THREADS, SOCKETS, NODES = 2, 2, 8


def write_tree(root: Path, cpus: int = 384, gpus: int = 8, nics: int = 16) -> None:
    """Write what discovery reads: CPUs with caches, NUMA nodes, PCI functions under switches."""
    cores = cpus // THREADS
    per_node, per_socket = cores // NODES, cores // SOCKETS
    _write(root / "sys/devices/system/cpu/online", f"0-{cpus - 1}")
    for cpu in range(cpus):
        core = cpu % cores
        folder = root / f"sys/devices/system/cpu/cpu{cpu}"
        siblings = f"{core},{core + cores}"
        l3 = core // 8 * 8
        shared = {"index2": siblings, "index3": f"{l3}-{l3 + 7},{l3 + cores}-{l3 + 7 + cores}"}
        for name, value in {
            "physical_package_id": core // per_socket,
            "die_id": 0,
            "core_id": core % per_socket,
            "thread_siblings_list": siblings,
            "thread_siblings": _mask(core, core + cores),
            "core_siblings": _mask(
                *(c for c in range(cpus) if c % cores // per_socket == core // per_socket)
            ),
        }.items():
            _write(folder / "topology" / name, value)
        for index, level in (("index0", 1), ("index1", 1), ("index2", 2), ("index3", 3)):
            cache = {"level": level, "type": "Unified", "size": "1024K", "id": core // 8}
            cache["shared_cpu_list"] = shared.get(index, siblings)
            cache["shared_cpu_map"] = _mask(*ids_of(parse_ids(str(cache["shared_cpu_list"]))))
            for name, value in cache.items():
                _write(folder / "cache" / index / name, value)
    for node in range(NODES):
        folder = root / f"sys/devices/system/node/node{node}"
        first = node * per_node
        last = first + per_node - 1
        _write(folder / "cpulist", f"{first}-{last},{first + cores}-{last + cores}")
        _write(folder / "cpumap", _mask(*range(first, last + 1), *range(first + cores, last + cores + 1)))
        _write(folder / "meminfo", f"Node {node} MemTotal:       263742488 kB")
        _write(folder / "distance", " ".join("10" if node == other else "21" for other in range(NODES)))
        for cpu in (*range(first, last + 1), *range(first + cores, last + cores + 1)):
            (folder / f"cpu{cpu}").symlink_to(f"../../cpu/cpu{cpu}")
    for at in range(gpus + nics):
        bus = at * 4 + 1
        bridge = f"sys/devices/pci0000:{bus:02x}/0000:{bus:02x}:01.0"
        address = f"0000:{bus + 1:02x}:00.0"
        gpu = at < gpus
        for place, kind, vendor in (
            (bridge, "0x060400", "0x1000"),
            (f"{bridge}/{address}", "0x030200" if gpu else "0x020700", "0x10de" if gpu else "0x15b3"),
        ):
            facts = {"class": kind, "vendor": vendor, "device": "0x2330", "numa_node": at % NODES}
            facts["local_cpulist"] = f"0-{per_node - 1}"
            for name, value in facts.items():
                _write(root / place / name, value)
            link = root / "sys/bus/pci/devices" / Path(place).name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(root / place)


def _mask(*cpus: int) -> str:
    """The kernel's form of a CPU mask: hexadecimal words of 32 bits."""
    bits = bits_of(cpus)
    words = [f"{bits >> at & 0xFFFFFFFF:08x}" for at in range(0, max(32, bits.bit_length()), 32)]
    return ",".join(reversed(words))


def _write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{value}\n", encoding="ascii")
