"""The archive of a bundle: equal every time, and suspicious of what others made."""

import gzip
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from numawise.codec.bundle import archive
from numawise.codec.bundle.archive import FOLDER, pack, read_members, unpack
from numawise.codec.bundle.manifest import Manifest, manifest_text, read_manifest
from numawise.errors import InputError

MEMBERS = {"README.md": b"hello", "state/cpu_manager_state": b"{}", "kubelet/d/00.conf": b"kind: x\n"}


def test_what_is_packed_comes_out_again() -> None:
    packed = pack(MEMBERS, 1_700_000_000)
    assert unpack(packed, "x") == MEMBERS
    assert pack(dict(reversed(MEMBERS.items())), 1_700_000_000) == packed


def test_tar_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "x.tar.gz"
    file.write_bytes(pack(MEMBERS, 0))
    with tarfile.open(file) as found:
        assert found.getnames() == sorted(f"{FOLDER}/{name}" for name in MEMBERS)
        assert all(one.mode == 0o644 and one.uid == 0 for one in found.getmembers())


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT])
@pytest.mark.parametrize("folder", ["", "./", "unpacked/"])
def test_packed_again_by_others(form: int, folder: str) -> None:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz", format=form) as out:
        for name in ("", "state", "kubelet", "kubelet/d"):
            entry = tarfile.TarInfo(f"{folder}{name}".rstrip("/") or ".")
            entry.type = tarfile.DIRTYPE
            out.addfile(entry)
        for name, content in MEMBERS.items():
            entry = tarfile.TarInfo(folder + name)
            entry.size = len(content)
            out.addfile(entry, io.BytesIO(content))
    assert unpack(raw.getvalue(), "x") == MEMBERS


def tar(*entries: tarfile.TarInfo, content: bytes = b"x") -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz", format=tarfile.GNU_FORMAT) as out:
        for entry in entries:
            entry.size = len(content) if entry.isreg() else 0
            out.addfile(entry, io.BytesIO(content))
    return raw.getvalue()


def named(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, link
    return entry


@pytest.mark.parametrize(("raw", "words"), [
    pytest.param(tar(named("../../etc/passwd")),                   ["../../etc/passwd", "points outside"],          id="up and away"),
    pytest.param(tar(named("a/../../b")),                          ["a/../../b", "points outside"],                 id="up in between"),
    pytest.param(tar(named("/etc/passwd")),                        ["/etc/passwd", "points outside"],               id="absolute"),
    pytest.param(tar(named("a\\..\\b")),                           ["has a name that no bundle member may have"],          id="backslashes"),
    pytest.param(tar(named("a/.ssh/b")),                           ["has a name that no bundle member may have"],          id="hidden"),
    pytest.param(tar(named("a/b\x1b[2Jc")),                        [r"\x1b[2Jc"],                                 id="steers the terminal"),
    pytest.param(tar(named("a/b/c/d/e/f/g")),                      ["is nested too deeply"],                          id="deep"),
    pytest.param(tar(named("x/" + "y" * 200)),                     ["header of an unsupported tar format"],           id="long name"),
    pytest.param(tar(named("m", tarfile.SYMTYPE, "/etc/passwd")),  ["'m' is a symbolic link"],                 id="link"),
    pytest.param(tar(named("m", tarfile.LNKTYPE, "other")),        ["'m' is a hard link"],                     id="hard link"),
    pytest.param(tar(named("m", tarfile.CHRTYPE)),                 ["'m' is a device"],                        id="device"),
    pytest.param(tar(named("m", tarfile.FIFOTYPE)),                ["'m' is a pipe"],                          id="pipe"),
    pytest.param(tar(named("m"), named("m")),                      ["'m' is included twice"],                     id="twice"),
    pytest.param(b"hello",                                         ["not compressed with gzip"],                     id="text"),
    pytest.param(b"",                                              ["not compressed with gzip"],                     id="nothing"),
    pytest.param(gzip.compress(b"hello" * 200),                    ["a tar header is invalid"],                    id="no tar"),
    pytest.param(tar(named("m"))[:-20],                            ["is cut off"],                             id="cut off"),
    pytest.param(tar(named("m"))[:30] + b"\xff" * 90,              ["is damaged"],                             id="damaged"),
    pytest.param(tar(named("m")) + b"more",                        ["data after its end"],               id="more behind"),
])  # fmt: skip
def test_what_is_refused(raw: bytes, words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        unpack(raw, "node.tar.gz")
    text = str(caught.value)
    assert text.startswith("node.tar.gz: ")
    assert all(word in text for word in words), text
    assert text.isprintable()


def header(change: Callable[[bytearray], None]) -> bytes:
    """An archive with one header that was tampered with, checksum mended."""
    raw = bytearray(gzip.decompress(tar(named("m"))))
    change(raw)
    raw[148:156] = b" " * 8
    raw[148:156] = b"%06o\0 " % sum(raw[:512])
    return gzip.compress(bytes(raw))


@pytest.mark.parametrize("size", [
    pytest.param(b"77777777777\0",              id="eight gigabytes"),
    pytest.param(b"\xff" * 12,                  id="negative"),
    pytest.param(b"\x80" + b"\xff" * 11,        id="beyond octal"),
    pytest.param(b"-0000000001\0",              id="a sign"),
    pytest.param(b"\0" * 12,                    id="none"),
])  # fmt: skip
def test_sizes_that_lie(size: bytes) -> None:
    def change(raw: bytearray) -> None:
        raw[124:136] = size

    with pytest.raises(InputError, match="'m' is cut off or has no proper size"):
        unpack(header(change), "x")


def test_bombs(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = gzip.compress(b"\0" * (archive.LARGEST + 512))
    assert len(bomb) < 100_000
    with pytest.raises(InputError, match="unpacks to more than 64 MiB"):
        unpack(bomb, "x")
    many = tar(*(named(f"m{i}") for i in range(archive.MOST + 1)), content=b"")
    with pytest.raises(InputError, match="is one of more than 512 members"):
        unpack(many, "x")
    monkeypatch.setattr(archive, "LARGEST_ARCHIVE", 10)
    with pytest.raises(InputError, match="is larger than"):
        unpack(tar(named("m")), "x")


# --- the manifest ---------------------------------------------------------------------------


def sealed(**changes: bytes) -> dict[str, bytes]:
    members = dict(MEMBERS)
    return {**members, "manifest.json": manifest_text(Manifest(), members).encode(), **changes}


def test_a_manifest_is_read_again() -> None:
    told = Manifest(
        collected="2026-11-15T08:00:00Z",
        by="1",
        node="n",
        versions={"kubelet": "v1.36.4"},
        key="k",
        remarks=("r",),
    )
    members = {**MEMBERS, "manifest.json": manifest_text(told, MEMBERS).encode()}
    found = read_manifest(members, "x", sealed=True)
    assert (found.collected, found.node, found.kubelet, found.key) == (told.collected, "n", "v1.36.4", "k")
    assert sorted(found.members) == sorted(MEMBERS)


def test_a_manifest_of_the_version_before_is_read() -> None:
    text = manifest_text(Manifest(node="n"), MEMBERS).replace("numawise.dev/v1", "numawise.dev/v1alpha1")
    assert "v1alpha1" in text
    assert read_manifest({**MEMBERS, "manifest.json": text.encode()}, "x", sealed=True).node == "n"


@pytest.mark.parametrize(("members", "words"), [
    pytest.param({},                                                     ["it has no manifest.json"],           id="no manifest"),
    pytest.param(sealed(**{"README.md": b"changed"}),                    ["'README.md' was changed"],           id="changed"),
    pytest.param(sealed(extra=b"x"),                                     ["'extra' is not in the manifest"],    id="smuggled in"),
    pytest.param({k: v for k, v in sealed().items() if k != "README.md"}, ["'README.md' is missing"],           id="missing"),
    pytest.param({"manifest.json": b"{}"},                               ["is not the manifest"],               id="another file"),
    pytest.param({"manifest.json": b'{"kind":"Bundle","apiVersion":"numawise.dev/v2"}'}, ["apiVersion", "upgrade"], id="newer"),
    pytest.param({"manifest.json": b'{"kind":"Bundle","apiVersion":"numawise.dev/v1alpha1","members":7}'}, ["is not the manifest"], id="wrong type"),
    pytest.param({"manifest.json": b"{"},                                ["is not valid"],                      id="no JSON"),
])  # fmt: skip
def test_manifests_that_do_not_fit(members: dict[str, bytes], words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        read_manifest(members, "node.tar.gz", sealed=True)
    assert all(word in str(caught.value) for word in ("node.tar.gz", *words)), caught.value


# --- folders --------------------------------------------------------------------------------


def test_a_folder_may_be_changed_by_hand(tmp_path: Path) -> None:
    for name, content in sealed(**{"README.md": b"changed"}).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    (tmp_path / ".swp").write_text("an editor's")
    members = read_members(str(tmp_path))
    assert set(members) == {*MEMBERS, "manifest.json"}
    assert json.loads(members["manifest.json"])["kind"] == "Bundle"
    read_manifest(members, str(tmp_path), sealed=False)


@pytest.mark.parametrize("target", ["/etc/passwd", "/etc"])
def test_links_in_a_folder(tmp_path: Path, target: str) -> None:
    (tmp_path / "manifest.json").symlink_to(target)
    with pytest.raises(InputError, match=r"'manifest.json' is not a regular file"):
        read_members(str(tmp_path))


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        read_members(str(tmp_path / "x.tar.gz"))
