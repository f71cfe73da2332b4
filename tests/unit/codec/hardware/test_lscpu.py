"""lscpu's summary, tables and JSON; CPUs get a core or socket only where the text tells it."""

import json
from typing import Any

import pytest

from numawise.codec.hardware.lscpu import LscpuSummary, read, summary
from numawise.errors import InputError
from numawise.machine.hardware import Hardware
from numawise.sets import format_ids

PRINT = """\
Architecture:            x86_64
CPU op-mode(s):          32-bit, 64-bit
CPU(s):                  16
On-line CPU(s) list:     0-11
Off-line CPU(s) list:    12-15
Vendor ID:               GenuineIntel
Model name:              Some CPU @ 2.30GHz
Model:                   85
Thread(s) per core:      2
Core(s) per socket:      4
Socket(s):               2
CPU max MHz:             3500,0000
L3 cache:                32 MiB
NUMA node(s):            2
NUMA node0 CPU(s):       0-7
NUMA node1 CPU(s):       8-15
"""


def told(found: LscpuSummary) -> str:
    """``16: 0-11 + 12-15; 2 x 4 x 2; 0: 0-7, 1: 8-15``."""
    numa = ", ".join(f"{number}: {format_ids(cpus)}" for number, cpus in found.numa.items())
    counts = " x ".join(map(str, (found.threads_per_core, found.cores_per_socket, found.sockets)))
    return (
        f"{found.cpus}: {format_ids(found.online or 0)} + {format_ids(found.offline or 0)}; {counts}; {numa}"
    )


WHOLE = "16: 0-11 + 12-15; 2 x 4 x 2; 0: 0-7, 1: 8-15"


@pytest.mark.parametrize("text", [
    pytest.param(PRINT,                                                         id="as printed"),
    pytest.param("CPU:\r\n" + PRINT.replace("\n", "\r\n"),                      id="collect_env on Windows' clipboard"),
    pytest.param("".join(f"> {line}\n" for line in PRINT.splitlines()),         id="quoted"),
    pytest.param("".join(f"- {line}\n" for line in PRINT.splitlines()),         id="bullets"),
    pytest.param("".join(f"12:00:01 n1 {line}\n" for line in PRINT.splitlines()), id="a log"),
    pytest.param(" ".join(PRINT.split()),                                       id="line ends lost"),
    pytest.param(PRINT.replace("NUMA node(s)", "NUMA:\n  NUMA node(s)"),        id="newer layout"),
    pytest.param(PRINT.replace("       8-15", "       8,9,10,11,12,\n                         13,14,15"), id="wrapped list"),
    pytest.param(PRINT.replace("8-15", "8-1\n5"),                               id="wrapped inside a number"),
    pytest.param("".join("| " + " | ".join(line.split(":", 1)) + " |\n" for line in PRINT.splitlines()), id="Markdown"),
    pytest.param(PRINT.replace("CPU(s) list:  ", "CPU(s) mask:  ").replace("0-11", "0xfff").replace("12-15", "f000")
                 .replace("0-7", "ff").replace("8-15", "0000ff00"),             id="masks"),
    pytest.param(json.dumps({"lscpu": [{"field": f"{key}:", "data": value.strip()} for key, value in
                 (line.split(":", 1) for line in PRINT.splitlines())]}),        id="JSON"),
    pytest.param(json.dumps({"lscpu": [{"field": "All:", "data": None, "children": [{"field": f"{key}:", "data": value.strip()}
                 for key, value in (line.split(":", 1) for line in PRINT.splitlines())]}]}), id="nested JSON"),
])  # fmt: skip
def test_summary(text: str) -> None:
    found = read(text, "file")
    if not text.startswith("{"):
        assert told(summary(text)) == WHOLE
    assert [(thread.cpu, thread.numa) for thread in found.threads] == [(cpu, cpu // 8) for cpu in range(12)]
    assert format_ids(found.offline) == "12-15"
    assert [(node.id, format_ids(node.cpus)) for node in found.numa] == [(0, "0-7"), (1, "8-15")]
    assert all(thread.core is None and thread.socket is None for thread in found.threads)
    assert [(remark.kind, remark.place) for remark in found.remarks] == [
        ("unknown", "cores"),
        ("odd", "NUMA"),
    ]


GERMAN = """
    Architektur:              x86_64
    CPU(s):                   16
    Liste der Online-CPU(s):  0-11
    Liste der Offline-CPU(s): 12-15
    Thread(s) pro Kern:       2
    Kern(e) pro Socket:       4
    Sockel:                   2
    NUMA-Knoten:              2
    Maximale Taktfrequenz:    3500,0000
    NUMA-Knoten0 CPU(s):      0-7
    NUMA-Knoten1 CPU(s):      8-15
"""
FRENCH = """
    Processeur(s) :                     16
    Liste de processeur(s) en ligne :   0-11
    Liste de processeur(s) hors ligne : 12-15
    Thread(s) par cœur :                2
    Cœur(s) par socket :                4
    Socket(s) :                         2
    Nœud(s) NUMA :                      2
    Nœud NUMA 0 de processeur(s) :      0-7
    Nœud NUMA 1 de processeur(s) :      8-15
"""
CHINESE = """
    架构\uff1a           x86_64
    CPU:              16
    在线 CPU 列表\uff1a  0-11
    离线 CPU 列表\uff1a  12-15
    每个核的线程数\uff1a 2
    每个座的核数\uff1a   4
    座\uff1a             2
    NUMA 节点\uff1a      2
    NUMA 节点0 CPU\uff1a 0-7
    NUMA 节点1 CPU\uff1a 8-15
"""
PORTUGUESE = """
    CPU(s):                  16
    Lista das CPUs online:   0-11
    Lista das CPUs offline:  12-15
    Tópicos por núcleo:      2
    Núcleos por socket:      4
    Sockets:                 2
    Nós NUMA:                2
    CPUs de nó0 NUMA:        0-7
    CPUs de nó1 NUMA:        8-15
"""
CROATIAN = """
    CPU(-a)                16
    Popis online CPU-a:    0-11
    Popis offline CPU-a:   12-15
    Dretva po jezgri:      2
    Jezgra po podnožju:    4
    CPU podnožja:          2
    NUMA node0 CPU(s):     0-7
    NUMA node1 CPU(s):     8-15
"""


@pytest.mark.parametrize(
    "text", [GERMAN, FRENCH, CHINESE, PORTUGUESE, CROATIAN], ids=["de", "fr", "zh", "pt", "hr"]
)
def test_languages(text: str) -> None:
    assert told(summary(text)) == WHOLE


@pytest.mark.parametrize(("text", "expected", "remarks"), [
    pytest.param("NUMA node(s): 2\nNUMA node0 CPU(s): 0-3\nNUMA node8 CPU(s): 4-7\n",
                 "None: ; None x None x None; 0: 0-3, 8: 4-7", ["assumed"],                        id="grep NUMA"),
    pytest.param("CPU(s): 4\nOn-line CPU(s) list: 0-3\nNUMA node(s): 3\nNUMA node0 CPU(s): 0-3\nNUMA node2 CPU(s):\n",
                 "4: 0-3 + ; None x None x None; 0: 0-3, 2: ", ["odd"],                            id="a node without CPUs"),
    pytest.param("CPU(s): 4\nOn-line CPU(s) list: 0-3\n", "4: 0-3 + ; None x None x None; ", ["unknown"], id="no NUMA"),
    pytest.param("CPU(s): 4\nOn-line CPU(s) list: 0-3\nNUMA node0 CPU(s): 0-x\n",
                 "4: 0-3 + ; None x None x None; ", ["unreadable", "unknown"],                     id="damaged list"),
    pytest.param("CPU(s): 4\nOn-line CPU(s) list: 0-2\nNUMA node0 CPU(s): 0-2\n",
                 "4: 0-2 + ; None x None x None; 0: 0-2", ["odd"],                                 id="a CPU is missing"),
    pytest.param("CPU(s): 1\nListe der Online-CPU(s): 0\nNUMA-Knoten0 CPU(s): 0\n",
                 "1: 0 + ; None x None x None; 0: 0", [],                                          id="one CPU"),
])  # fmt: skip
def test_what_is_missing(text: str, expected: str, remarks: list[str]) -> None:
    found = summary(text)
    assert told(found).replace("None:  +", "None:") == expected
    assert [remark.kind for remark in read(text, "file").remarks] == remarks


TABLE = """\
CPU NODE SOCKET CORE L1d:L1i:L2:L3 ONLINE    MAXMHZ
  0    0      0    0 0:0:0:0          yes 3850.0000
  1    0      0    1 1:1:1:0          yes 3850.0000
  2    1      1    2 2:2:2:1          yes 3850.0000
  3    0      0    0 0:0:0:0          yes 3850.0000
  4    -      -    - :::               no 3850.0000
"""
PARSABLE = """\
# The following is the parsable format, which can be fed to other
# programs. Each different item in every column has an unique ID
# starting usually from zero.
# CPU,Core,Socket,Node,,L1d,L1i,L2,L3
0,0,0,0,,0,0,0,0
1,1,0,0,,1,1,1,0
2,2,1,1,,2,2,2,1
3,0,0,0,,0,0,0,0
"""
ROWS: Any = {"cpus": [
    {"cpu": 0, "node": 0, "socket": 0, "core": 0, "l1d:l1i:l2:l3": "0:0:0:0", "online": True},
    {"cpu": "1", "node": "0", "socket": "0", "core": "1", "l1d:l1i:l2:l3": "1:1:1:0", "online": "yes"},
    {"cpu": 2, "node": 1, "socket": 1, "core": 2, "l1d:l1i:l2:l3": "2:2:2:1", "online": True},
    {"cpu": 3, "node": 0, "socket": 0, "core": 0, "l1d:l1i:l2:l3": "0:0:0:0", "online": True},
    {"cpu": 4, "node": None, "socket": None, "core": None, "l1d:l1i:l2:l3": None, "online": False},
]}  # fmt: skip


def threads(found: Hardware) -> list[str]:
    """``cpu: core/socket/numa, siblings, CPUs of L2 and L3``."""
    return [
        f"{t.cpu}: {t.core}/{t.socket}/{t.numa}, {format_ids(t.siblings)}"
        f", {t.l2 and format_ids(t.l2.cpus)}, {t.l3 and format_ids(t.l3.cpus)}"
        for t in found.threads
    ]


@pytest.mark.parametrize("text", [
    pytest.param(TABLE,                                                 id="-e"),
    pytest.param("".join(f"    {line}\n" for line in TABLE.splitlines()), id="-e indented"),
    pytest.param("$ lscpu -e\n" + "".join(f"> {line}\n" for line in TABLE.splitlines()), id="-e quoted"),
    pytest.param(PARSABLE,                                              id="-p"),
    pytest.param("\n".join(PARSABLE.split("\n")[4:]),                   id="-p without its heading"),
    pytest.param(json.dumps(ROWS, indent=3),                            id="-J -e"),
    pytest.param("Here:\n" + json.dumps(ROWS) + "\n",                   id="-J -e with text around"),
])  # fmt: skip
def test_table(text: str) -> None:
    found = read(text, "file")
    if "l1d" in text.lower():
        assert threads(found) == [
            "0: 0/0/0, 0,3, 0,3, 0-1,3",
            "1: 1/0/0, 1, 1, 0-1,3",
            "2: 2/1/1, 2, 2, 2",
            "3: 0/0/0, 0,3, 0,3, 0-1,3",
        ]
    assert [t.siblings for t in found.threads] == [0b1001, 0b10, 0b100, 0b1001]
    assert [(node.id, node.cpus) for node in found.numa] == [(0, 0b1011), (1, 0b100)]
    assert found.offline in (0, 1 << 4)


@pytest.mark.parametrize(("text", "expected"), [
    pytest.param("CPU CORE\n0 0\n1 x y\n2 0\n",             ["0: 0/None/None, 0,2, None, None", "2: 0/None/None, 0,2, None, None"],
                                                            id="a row that does not fit"),
    pytest.param("# CPU,Node\n0,0\n1,\n",                   ["0: None/None/0, , None, None", "1: None/None/None, , None, None"],
                                                            id="chosen columns"),
    pytest.param("# CPU,Core,Socket,Node,,L1d,L2\n0,0,0,0,,0,0\n1,1,0,0,,\n",
                 ["0: 0/0/0, 0, 0, None", "1: 1/0/0, 1, None, None"],  id="caches that lscpu leaves out"),
    pytest.param("CPU SOCKET CORE MODELNAME NODE\n0 0 0 Some CPU 3 0\n",  ["0: 0/0/0, 0, None, None"],
                                                            id="a name of several words"),
    pytest.param("CPU SOCKET CORE\n0 0 0\n1 1 0\n",         ["0: 0/0/None, 0, None, None", "1: 0/1/None, 1, None, None"],
                                                            id="physical ids: core 0 of two sockets"),
])  # fmt: skip
def test_rows(text: str, expected: list[str]) -> None:
    assert threads(read(text, "file")) == expected


@pytest.mark.parametrize("text", [
    pytest.param("",                                                     id="nothing"),
    pytest.param("lscpu: command not found",                             id="no lscpu"),
    pytest.param("CPU:\nApple M1",                                       id="a Mac"),
    pytest.param("Architecture=9\nCurrentClockSpeed=2000",               id="Windows"),
    pytest.param("CPU NODE ONLINE\n  -    -      -\n",                    id="no CPU numbers"),
    pytest.param('{"lscpu": [{"field": "Architecture:", "data": "x86"}]}', id="JSON without CPUs"),
    pytest.param('{"cpus": []}',                                         id="JSON without rows"),
    pytest.param('{"lscpu": [',                                          id="JSON cut off"),
])  # fmt: skip
def test_refusal(text: str) -> None:
    with pytest.raises(InputError):
        read(text, "file")
