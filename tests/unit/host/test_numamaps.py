"""Lines of ``numa_maps`` as kernels print them."""

import pytest

from numawise.host.numamaps import Area, PageRange, Pages, gather, parse_area, parse_keys

KIB, MIB = 1 << 10, 1 << 20


@pytest.mark.parametrize(("line", "expected"), [
    pytest.param("7f3bcfe69000 default anon=524289 dirty=524289 active=0 N0=257944 N1=266345 kernelpagesize_kB=4",
                 Area(0x7F3BCFE69000, anonymous=524289, pages=((0, 257944), (1, 266345))), id="anonymous"),
    pytest.param("55d74e76d000 default heap anon=471 dirty=471 active=0 N0=471 kernelpagesize_kB=4",
                 Area(0x55D74E76D000, anonymous=471, pages=((0, 471),)), id="heap"),
    pytest.param("7fff335f0000 bind:3 stack anon=3 dirty=3 N3=3 kernelpagesize_kB=4",
                 Area(0x7FFF335F0000, "bind:3", anonymous=3, pages=((3, 3),)), id="stack"),
    pytest.param("7f9c default file=/usr/lib/x86_64-linux-gnu/libc.so.6 mapped=346 mapmax=87 N0=300 N1=46 kernelpagesize_kB=4",
                 Area(0x7F9C, file="/usr/lib/x86_64-linux-gnu/libc.so.6", pages=((0, 300), (1, 46))), id="library"),
    pytest.param(r"7f4dc1200000 default file=/anon_hugepage\040(deleted) huge anon=41 dirty=41 N1=41 kernelpagesize_kB=2048",
                 Area(0x7F4DC1200000, file="/anon_hugepage (deleted)", huge=True, anonymous=41, pages=((1, 41),), size=2 * MIB),
                 id="huge"),
    pytest.param(r"7f00 default file=/SYSV00000000\040(deleted) huge dirty=1 N1=1 kernelpagesize_kB=1048576",
                 Area(0x7F00, file="/SYSV00000000 (deleted)", huge=True, pages=((1, 1),), size=1 << 30), id="gigantic"),
    pytest.param("7f00 interleave:0-1 file=/dev/shm/ring dirty=10 active=0 N0=5 N1=5 kernelpagesize_kB=4",
                 Area(0x7F00, "interleave:0-1", "/dev/shm/ring", pages=((0, 5), (1, 5))), id="shared memory"),
    pytest.param("7f00 prefer (many):0-1 anon=2 dirty=2 N1=2 kernelpagesize_kB=4",
                 Area(0x7F00, "prefer (many):0-1", anonymous=2, pages=((1, 2),)), id="a policy of two words"),
    pytest.param("7f00 weighted interleave:0,2 anon=2 N2=2 kernelpagesize_kB=4",
                 Area(0x7F00, "weighted interleave:0,2", anonymous=2, pages=((2, 2),)), id="another"),
    pytest.param("7f00 bind=static|balancing:0 anon=1 dirty=1 writeback=1 swapcache=1 N0=1 kernelpagesize_kB=64",
                 Area(0x7F00, "bind=static|balancing:0", anonymous=1, pages=((0, 1),), size=64 * KIB), id="flags, large pages"),
    pytest.param("7f72f1669000 default file=/dev/nvidia0", Area(0x7F72F1669000, file="/dev/nvidia0"), id="no pages"),
    pytest.param("7ffe local", Area(0x7FFE, "local"), id="policy alone"),
    pytest.param("7f00 default anon=1 N0=1", Area(0x7F00, anonymous=1, pages=((0, 1),)), id="before 3.1: no page size"),
    pytest.param(r"7f00 default file=/a\134b\075c\012d mapped=1 N0=1 kernelpagesize_kB=4",
                 Area(0x7F00, file="/a\\b=c\nd", pages=((0, 1),)), id="escaped"),
    pytest.param("7f00 default N0=1 rubbish", None, id="rubbish at the end"),
    pytest.param("zz default N0=1",           None, id="no address"),
    pytest.param("7f00",                      None, id="no policy"),
    pytest.param("",                          None, id="empty"),
])  # fmt: skip
def test_a_line(line: str, expected: Area | None) -> None:
    assert parse_area(line) == expected


@pytest.mark.parametrize(("line", "parts"), [
    pytest.param("1 default anon=3 dirty=3 N0=1 N1=2 kernelpagesize_kB=4",
                 ["anonymous 0=4 1=8"], id="anonymous"),
    pytest.param("1 default huge anon=3 dirty=3 N1=3 kernelpagesize_kB=2048",
                 ["huge 1=6144"], id="huge pages count by their size"),
    pytest.param("1 default file=/lib/libc.so mapped=4 mapmax=9 N0=4 kernelpagesize_kB=4",
                 ["file 0=16 /lib/libc.so"], id="file"),
    pytest.param("1 default file=/lib/libc.so anon=1 dirty=1 mapped=4 N0=2 N1=2 kernelpagesize_kB=4",
                 ["anonymous 0=4", "file 0=4 1=8 /lib/libc.so"], id="one copy among file pages, rounded"),
    pytest.param("1 default file=/lib/x.so anon=50 mapped=100 N0=80 N1=20 kernelpagesize_kB=4",
                 ["anonymous 0=160 1=40", "file 0=160 1=40 /lib/x.so"], id="copies in proportion"),
    pytest.param("1 default file=/lib/x.so anon=99 mapped=100 N0=33 N1=33 N2=34 kernelpagesize_kB=4",
                 ["anonymous 0=132 1=128 2=136", "file 1=4 /lib/x.so"], id="never more copies than pages"),
    pytest.param("1 default file=/dev/shm/x dirty=2 N1=2 kernelpagesize_kB=4",
                 ["shared 1=8 /dev/shm/x"], id="shared memory"),
    pytest.param(r"1 default file=/memfd:cuda\040(deleted) dirty=2 N1=2 kernelpagesize_kB=4",
                 ["shared 1=8 /memfd:cuda (deleted)"], id="memfd"),
    pytest.param(r"1 default file=/dev/zero\040(deleted) anon=2 N1=2 kernelpagesize_kB=4",
                 ["anonymous 1=8"], id="private copies of shared memory"),
    pytest.param("1 default file=/dev/nvidiactl dirty=68 mapped=512 active=0 N0=512 kernelpagesize_kB=4",
                 ["driver 0=2048 /dev/nvidiactl"], id="memory of a driver"),
    pytest.param("1 default mapped=1 mapmax=35 active=0 N3=1 kernelpagesize_kB=4",
                 ["file 3=4"], id="the kernel's own page"),
    pytest.param("1 default file=/lib/libc.so", [], id="nothing in memory"),
])  # fmt: skip
def test_kinds(line: str, parts: list[str]) -> None:
    found = gather([line], {})
    assert [text(part) for part in found.parts] == parts


def text(part: PageRange) -> str:
    sizes = " ".join(f"{numa}={size >> 10}" for numa, size in part.bytes)
    return f"{part.kind} {sizes} {part.file}".strip()


def test_sums_are_by_kind_policy_and_file() -> None:
    lines = [
        "1000 default anon=1 N0=1 kernelpagesize_kB=4",
        "2000 default heap anon=2 N0=1 N1=1 kernelpagesize_kB=4",
        "3000 bind:0 anon=1 N0=1 kernelpagesize_kB=4",
        "4000 default file=/a mapped=1 N1=1 kernelpagesize_kB=4",
        "5000 default file=/a mapped=1 N1=1 kernelpagesize_kB=4",
        "what is this",
        "",
    ]
    found = gather(lines, {0x4000: "fe:00:7", 0x5000: "fe:00:7"})
    assert found == Pages(
        (
            PageRange("anonymous", "default", "", "", ((0, 8 * KIB), (1, 4 * KIB))),
            PageRange("anonymous", "bind:0", "", "", ((0, 4 * KIB),)),
            PageRange("file", "default", "/a", "fe:00:7", ((1, 8 * KIB),)),
        ),
        garbled=1,
    )


def test_what_others_may_map_is_told_by_its_inode() -> None:
    lines = [
        "55a0c4a00000-55a0c4a02000 r--p 00000000 fe:00 18500                      /usr/bin/python3.11",
        "7f708e000000-7f709e000000 rw-s 00000000 00:01 2052                       /dev/zero (deleted)",
        "7f72f9000000-7f72f9100000 rw-p 00000000 00:00 0 ",
        "7ffd3c7e0000-7ffd3c801000 rw-p 00000000 00:00 0                          [stack]",
        "garbage",
    ]
    assert parse_keys(lines) == {0x55A0C4A00000: "fe:00:18500", 0x7F708E000000: "00:01:2052"}


@pytest.mark.parametrize(("line", "key"), [
    ("1000 default file=/dev/zero dirty=1 N0=1 kernelpagesize_kB=4",        "00:01:7"),
    ("1000 default file=/SYSV0 huge dirty=1 N0=1 kernelpagesize_kB=2048",   "00:01:7"),
    ("1000 default file=/anon_huge huge anon=1 N0=1 kernelpagesize_kB=2048", ""),     # private
    ("1000 default file=/dev/nvidiactl mapped=1 N0=1 kernelpagesize_kB=4",  ""),      # each opener's own
    ("1000 default anon=1 N0=1 kernelpagesize_kB=4",                        ""),
])  # fmt: skip
def test_only_what_is_common_has_a_key(line: str, key: str) -> None:
    (part,) = gather([line], {0x1000: "00:01:7"}).parts
    assert part.key == key
