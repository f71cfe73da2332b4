"""``lscpu``: the summary in words, in any language, and as JSON; tables of CPUs go to ``lscpu_table``.

Rules kept here:

1. The summary says which CPUs are online and on which NUMA node; how many threads a core and cores a socket
   have are counts (``Summary``), and no CPU is given a core or socket for them.
2. A NUMA line is one whose label has ``NUMA`` and a number; the list of online CPUs is the one below their
   count.  So translated prints are read by their shape; only the counts need words.
3. A value may go on in the next lines, as narrow terminals show it.
4. NUMA lists count offline CPUs in some containers: the list of online CPUs decides which are threads.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

from numawise.codec.hardware import lscpu_table, pasted
from numawise.errors import InputError, quoted
from numawise.machine.hardware import ASSUMED, ODD, UNKNOWN, UNREADABLE, Hardware, MemoryNode, Remark, Thread
from numawise.sets import LARGEST_ID, format_ids, ids_of, parse_ids
from numawise.strconv import whole_number
from numawise.values import dataclass, field

SOURCE = "lscpu"
ADVICE = "give what lscpu, lscpu -e, lscpu -p or lscpu -J prints"
DRESS = " \t*`|-\u2022"
LIST = re.compile(r"[0-9]+(?:-[0-9]+)?(?:[ \t]*,[ \t]*[0-9]+(?:-[0-9]+)?)*,?")
MASK = re.compile(r"(?:0x)?([0-9a-fA-F]+(?:,[0-9a-fA-F]{8})*)")
LONGEST = 400
BARE = re.compile(r"[ \t]*(\S*[^\W0-9].*CPU.*?|CPU\S+)[ \t]+([0-9]+(?:[,-][0-9]+)*)[ \t]*")
TABLE_ROW = re.compile(r"[ \t]*\|?([^|]+)\|([^|]*)\|?[ \t]*")  # Markdown
MORE = re.compile(r"[ \t]*[0-9,-]+[ \t]*")
LEADING_ZERO = re.compile(r"(?<![0-9])0[0-9]")
NUMA_LABEL = re.compile(r"[^0-9]*([0-9]{1,5})[^0-9]*")
LABELS = (
    r"Architecture|CPU op-mode\(s\)|Byte Order|Address sizes|CPU\(s\)|On-line CPU\(s\) list"
    r"|Off-line CPU\(s\) list|Thread\(s\) per core|Core\(s\) per (?:socket|cluster)|Socket\(s\)|Cluster\(s\)"
    r"|NUMA node\(s\)|Vendor ID|CPU family|Model name|Model|Stepping|Frequency boost|CPU max MHz|CPU min MHz"
    r"|CPU MHz|CPU\(s\) scaling MHz|BogoMIPS|Virtualization|Hypervisor vendor|Virtualization type"
    r"|L1[di] cache|L[23] cache|NUMA node[0-9]+ CPU\(s\)|Flags|Vulnerability [A-Z][\w ]{2,24}"
    r"|Vulnerabilities|Caches \(sum of all\)|Virtualization features|NUMA"
)
FLAT = re.compile(rf"(?<!\S)(?:{LABELS}):")
HEX = re.compile(r"mask|masque|máscara|màscara|マスク|掩码|遮罩|마스크|маска|masca|mặt nạ", re.IGNORECASE)
ONLINE = re.compile(r"on-?line .*(?:list|mask)|liste? .*(?:online|en ligne)", re.IGNORECASE)

# How the labels of the counts begin, as lscpu says them in the user's language.
THREADS = """
    thread(s) p; thread(s) setiap; draden per; hilo(s); tópicos por; vláken na; wątków na; потоків; нити по
    tråd; dretva po; コアあたりのスレッド; 每个核的线程; 每核心執行緒; 코어 당 스레드; fire de execuție
    converses per; số tuyến; çekirdek ba\u015f\u0131na; core bakoitzeko
"""
CORES = """
    core(s) per socket; kern(e) pro so; kernen per voet; cœur(s) par socket; núcleo(s) por so; núcleos por so
    núcleo(s) por «so; rdzeni na gniazdo; jader na patici; ядер на сокет; језгра по прикључници
    kärn(or) per uttag; kerner per sokkel; jezgra po podnožju; nuclee pe soclu; ソケットあたりのコア
    每个座的核; 每通訊端核心
    소켓 당 코어; số lõi mỗi đế; soket ba\u015f\u0131na; nucli(s) per s; inti setiap soket; socket bakoitzeko
"""
SOCKETS = """
    socket(s); sockets; «socket(s)»; sockel; cpu-voeten; soquete(s); gniazd; patic; сокетов; сокети
    прикључнице; uttag; sokler; cpu podnožja; ソケット数; 座; 通訊端; 소켓; socluri; số đế cắm; soket(ler)
"""


def _listed(words: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in re.split(r"[;\n]", words) if word.strip())


BEGINNINGS = {"threads_per_core": _listed(THREADS), "cores_per_socket": _listed(CORES)}
SOCKET_LABELS = frozenset(_listed(SOCKETS))


@dataclass(slots=True)
class LscpuSummary:
    """What the summary says, as far as it concerns placement."""

    architecture: str = ""
    vendor: str = ""
    model: str = ""
    hypervisor: str = ""
    l3: str = ""
    cpus: int | None = None
    online: int | None = None
    offline: int | None = None
    threads_per_core: int | None = None
    cores_per_socket: int | None = None
    sockets: int | None = None
    numa_count: int | None = None
    numa: dict[int, int] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)


def read(text: str, file: str = "") -> Hardware:
    """Read any of lscpu's prints."""
    document = _json(text)
    if document is not None and isinstance(document.get("cpus"), list):
        return lscpu_table.from_rows(document["cpus"], file)
    if document is not None and isinstance(document.get("lscpu"), list):
        return _hardware(_summary_of(list(_fields(document["lscpu"]))), file)
    if lscpu_table.is_table(text):
        return lscpu_table.read(text, file)
    return _hardware(summary(text), file)


def summary(text: str) -> LscpuSummary:
    """The summary of a plain print."""
    return _summary_of(list(_labelled(pasted.lines(text))))


def _json(text: str) -> Mapping[str, Any] | None:
    """The JSON object in a text, with whatever stands around it."""
    for found in re.finditer(r"\{\s*\"(?:lscpu|cpus)\"", text):
        try:
            document, _ = json.JSONDecoder().raw_decode(text, found.start())
        except (ValueError, RecursionError):
            continue
        if isinstance(document, dict):
            return document
    return None


def _fields(entries: Sequence[Any], depth: int = 0) -> Iterator[tuple[str, str]]:
    for entry in entries:
        if not isinstance(entry, dict):
            continue
        label, value = entry.get("field"), entry.get("data")
        if isinstance(label, str):
            yield label.translate(pasted.PLAIN).strip(" :"), "" if value is None else str(value)
        children = entry.get("children")
        if isinstance(children, list) and depth < 8:
            yield from _fields(children, depth + 1)


def _labelled(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Labels and values; a list that was wrapped is whole again."""
    label, value = "", ""
    for line in chain.from_iterable(map(_unfolded, lines)):
        before, colon, after = line.partition(":")
        is_odd = not colon and len(line) < LONGEST
        bare = BARE.fullmatch(line) if is_odd else None  # some translations forget the colon
        if bare:
            before, colon, after = bare[1], ":", bare[2]
        table = TABLE_ROW.fullmatch(line) if is_odd else None
        if table:
            before, colon, after = table[1], ":", table[2]
        if colon and before.strip(DRESS):
            if label:
                yield label, value.strip(DRESS)
            label, value = before.strip(DRESS), after
        elif label and MORE.fullmatch(line) and (LIST.fullmatch(value.strip()) or not value.strip()):
            value = value.strip() + line.strip()
        elif label and line.strip():
            yield label, value.strip(DRESS)
            label = ""
    if label:
        yield label, value.strip(DRESS)


def _unfolded(line: str) -> list[str]:
    """A line without what a log put before it, or the lines of a print whose line ends were lost."""
    starts = [found.start() for found in FLAT.finditer(line)]
    if not starts or (len(starts) == 1 and ":" not in line[: starts[0]]):
        return [line]
    return [line[start:end] for start, end in pairwise([*starts, len(line)])]


def _summary_of(pairs: Sequence[tuple[str, str]]) -> LscpuSummary:
    found = LscpuSummary()
    if any(HEX.search(label) for label, _ in pairs):  # lscpu -x
        pairs = [(label, _unmasked(label, value)) for label, value in pairs]
    for at, (label, value) in enumerate(pairs):
        if "NUMA" in label:
            _numa(found, label, value)
        elif found.online is None and _is_online(label, value, pairs[at - 1] if at else ("", "")):
            found.online = _ids(value)
            if at and pairs[at - 1][1].isdecimal() and found.cpus is None:
                found.cpus = int(pairs[at - 1][1][:6])
            _offline(found, pairs[at + 1] if at + 1 < len(pairs) else ("", ""))
        elif label == "CPU(s)" and value.isdecimal() and found.cpus is None:
            found.cpus = int(value[:6])
        else:
            _word(found, label, value)
    return found


def _unmasked(label: str, value: str) -> str:
    """A mask of CPUs as a list."""
    is_mask = HEX.search(label) or ("NUMA" in label and NUMA_LABEL.fullmatch(label))
    mask = MASK.fullmatch(value) if is_mask else None
    bits = int(mask[1].replace(",", ""), 16) if mask else 0
    return format_ids(bits) if mask and bits.bit_length() <= LARGEST_ID else value


def _numa(found: LscpuSummary, label: str, value: str) -> None:
    numbered = NUMA_LABEL.fullmatch(label)
    if numbered:
        cpus = _ids(value)
        number = whole_number(numbered[1])
        if cpus is None or number > LARGEST_ID:
            found.remarks.append(Remark(UNREADABLE, label, f"{quoted(value)} is not a list of CPUs"))
        else:
            found.numa.setdefault(number, cpus)
    elif value.isdecimal() and found.numa_count is None:
        found.numa_count = int(value[:6])


def _is_online(label: str, value: str, before: tuple[str, str]) -> bool:
    """Whether a list is that of the online CPUs: by its words, or by the count above it."""
    if LEADING_ZERO.search(value) or not LIST.fullmatch(value):
        return False  # 3500,0000 is a frequency in some countries
    if ONLINE.search(label):
        return True
    cpus = _ids(value)
    is_below_count = before[1].isdecimal() and "NUMA" not in before[0] and cpus is not None
    if not is_below_count or cpus is None or cpus.bit_count() > int(before[1][:6]):
        return False
    return before[0] == "CPU(s)" or not value.isdecimal() or int(before[1][:6]) == 1


def _offline(found: LscpuSummary, pair: tuple[str, str]) -> None:
    label, value = pair
    cpus = _ids(value) if LIST.fullmatch(value) else None
    if cpus is None or found.online is None or cpus & found.online or "NUMA" in label:
        return
    is_rest = found.cpus is not None and (cpus | found.online).bit_count() == found.cpus
    if label.startswith("Off-line") or (is_rest and (not value.isdecimal() or found.cpus == 2)):
        found.offline = cpus


def _word(found: LscpuSummary, label: str, value: str) -> None:
    match label.lower():
        case "architecture" | "architektur":
            found.architecture = found.architecture or value
        case "vendor id" | "anbieterkennung":
            found.vendor = found.vendor or value
        case "model name" | "modellname":
            found.model = found.model or value
        case "hypervisor vendor" | "hypervisor-anbieter":
            found.hypervisor = found.hypervisor or value
        case "l3 cache" | "l3":
            found.l3 = found.l3 or value
        case lower if value.isdecimal():
            for name, beginnings in BEGINNINGS.items():
                if getattr(found, name) is None and lower.startswith(beginnings):
                    setattr(found, name, int(value[:6]))
            if found.sockets is None and lower in SOCKET_LABELS:
                found.sockets = int(value[:6])
        case _:
            pass


def _ids(value: str) -> int | None:
    try:
        return parse_ids(re.sub(r"\s", "", value))
    except ValueError:
        return None


def _hardware(found: LscpuSummary, file: str) -> Hardware:
    everything = 0
    for cpus in found.numa.values():
        everything |= cpus
    online = found.online if found.online is not None else everything
    if not online and not found.numa:
        raise InputError("has neither CPUs nor NUMA nodes", file=file, advice=ADVICE)
    homes: dict[int, int] = {}
    for number, cpus in sorted(found.numa.items()):
        for cpu in ids_of(cpus):
            homes.setdefault(cpu, number)
    return Hardware(
        threads=tuple(Thread(cpu, numa=homes.get(cpu)) for cpu in ids_of(online)),
        offline=found.offline or 0,
        numa=tuple(MemoryNode(number, cpus) for number, cpus in sorted(found.numa.items())),
        sources=(SOURCE,),
        remarks=(*found.remarks, *_doubts(found, online, everything)),
    )


def _doubts(found: LscpuSummary, online: int, everything: int) -> Iterator[Remark]:
    threads, cores, sockets = found.threads_per_core, found.cores_per_socket, found.sockets
    if threads and cores and sockets:
        counts = f"{threads} threads per core, {cores} cores per socket, {sockets} sockets"
        text = f"the text counts {counts}, and does not say which CPU is where"
        yield Remark(UNKNOWN, "cores", text)
        if found.cpus and threads * cores * sockets != found.cpus:
            yield Remark(ODD, "cores", f"threads, cores and sockets do not make {found.cpus} CPUs")
    if found.online is None:
        text = "the text does not list the online CPUs; all that have a NUMA node are taken"
        yield Remark(ASSUMED, "online", text)
    elif found.numa and everything != online:
        text = f"the NUMA nodes have CPUs {format_ids(everything)}, but {format_ids(online)} are online"
        yield Remark(ODD, "NUMA", text)
    if found.online is not None and found.cpus is not None:
        known = (online | (found.offline or 0)).bit_count()
        if known != found.cpus:
            yield Remark(ODD, "online", f"{known} of {found.cpus} CPUs are accounted for")
    if found.numa_count is not None and found.numa_count != len(found.numa):
        text = f"{found.numa_count} NUMA nodes are counted, and {len(found.numa)} are listed"
        yield Remark(ODD, "NUMA", text)
    elif not found.numa:
        yield Remark(UNKNOWN, "NUMA", "the text names no NUMA nodes")
