"""Where the ledger lies, and by what machine and boot are known."""

from collections.abc import Callable
from pathlib import Path

import pytest

from numawise.errors import InputError, LedgerError
from numawise.ledger.file import Access
from numawise.ledger.place import (
    LedgerPlace,
    boot_id,
    file_system,
    find_ledger,
    machine_id,
    network_file_system,
    system_ledger,
)
from tests import needs

ID = "3d1219c7c4c5404aaa1f6d2a48adfda4"
LOCAL = "/dev/sda1 / ext4 rw 0 0\n"
NFS_HOME = LOCAL + "server:/home /home nfs4 rw 0 0\n"
NFS_ROOT = "server:/image / nfs rw 0 0\ntmpfs /run tmpfs rw 0 0\n"


def host(
    root: Path, *, mounts: str = LOCAL, folders: str = "home/alice var/lib var/tmp run", **files: str
) -> Path:
    """A small file system; files are named with ``__`` for a slash and ``_`` for a dash."""
    for folder in folders.split():
        (root / folder).mkdir(parents=True, exist_ok=True)
    told = {"etc__machine_id": ID + "\n", "proc__self__mounts": mounts} | files
    for name, text in told.items():
        place = root / name.replace("__", "/").replace("boot_id", "boot%id").replace("_", "-").replace(
            "%", "_"
        )
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return root


def only(*allowed: str) -> Callable[[Path], bool]:
    """Who may write only below these folders."""
    return lambda path: path.exists() and any(f"/{name}" in str(path) for name in allowed)


def found(
    root: Path, uid: int, environ: dict[str, str] | None = None, **more: object
) -> tuple[str, LedgerPlace]:
    environ = {"HOME": str(root / "home/alice")} if environ is None else environ
    place = find_ledger(environ, uid, root=root, **more)  # type: ignore[arg-type]
    return str(place.path.relative_to(root)), place


def test_root_has_the_systems(tmp_path: Path) -> None:
    path, place = found(host(tmp_path), 0, gid=977)
    assert (path, place.access, place.shared, place.remarks) == (
        "var/lib/numawise/ledger.db",
        Access(gid=977),
        True,
        (),
    )
    assert found(tmp_path, 0)[1].access == Access()


def test_who_may_write_the_systems_uses_it(tmp_path: Path) -> None:
    host(tmp_path, folders="home/alice var/lib/numawise")
    member = only("home/alice", "var/lib/numawise")
    assert found(tmp_path, 1001, writable=member)[0] == "var/lib/numawise/ledger.db"
    (tmp_path / "var/lib/numawise/ledger.db").touch()
    path, place = found(tmp_path, 1001, writable=member)
    assert (path, place.access, place.shared, place.remarks) == (
        "var/lib/numawise/ledger.db",
        Access(),
        True,
        (),
    )


def test_jobs_of_before_are_told_of(tmp_path: Path) -> None:
    own = f"home/alice/.local/state/numawise/{ID}"
    host(tmp_path, folders=f"{own} var/lib/numawise")
    (tmp_path / own / "ledger.db").touch()
    path, place = found(tmp_path, 1001, writable=lambda _: True)
    assert path == "var/lib/numawise/ledger.db"
    assert f"NUMAWISE_LEDGER={tmp_path / own}/ledger.db numawise ps" in place.remarks[0]


def test_others_have_their_own_for_each_machine(tmp_path: Path) -> None:
    path, place = found(host(tmp_path), 1001, writable=only("home/alice"))
    assert path == f"home/alice/.local/state/numawise/{ID}/ledger.db"
    assert (place.access, place.shared, place.remarks) == (Access(), False, ())


@pytest.mark.parametrize("file", [True, False])
def test_a_systems_ledger_that_may_not_be_written_is_told_of(tmp_path: Path, *, file: bool) -> None:
    """Also where its folder may not even be looked into."""
    host(tmp_path, folders="home/alice var/lib/numawise")
    if file:
        (tmp_path / "var/lib/numawise/ledger.db").touch()
    path, place = found(tmp_path, 1001, writable=only("home/alice"))
    assert path.startswith("home/alice/")
    assert "which user 1001 may not write" in place.remarks[0]


@pytest.mark.parametrize(("environ", "expected"), [
    ({"XDG_STATE_HOME": "/{root}/home/state"},                      "home/state/numawise"),
    ({"XDG_STATE_HOME": "state", "HOME": "/{root}/home/alice"},     "home/alice/.local/state/numawise"),
    ({"XDG_STATE_HOME": "", "HOME": "/{root}/home/alice"},          "home/alice/.local/state/numawise"),
    ({"HOME": "nowhere"},                                           "var/tmp/numawise-4000000001"),
    ({},                                                            "var/tmp/numawise-4000000001"),
])  # fmt: skip
def test_whose_home(tmp_path: Path, environ: dict[str, str], expected: str) -> None:
    told = {key: value.replace("/{root}", str(tmp_path)) for key, value in environ.items()}
    path, place = found(host(tmp_path), 4000000001, told, writable=only("home"))
    assert path == f"{expected}/{ID}/ledger.db"
    assert place.access.guarded is bool(place.remarks) is expected.startswith("var")


@pytest.mark.parametrize(("mounts", "writable", "uid", "expected", "why"), [
    (LOCAL,    "home", 1001, f"home/alice/.local/state/numawise/{ID}", ""),
    (NFS_HOME, "home", 1001, f"var/tmp/numawise-1001/{ID}",            "is on nfs4"),
    (LOCAL,    "tmp",  1001, f"var/tmp/numawise-1001/{ID}",            "user 1001 may not write"),
    (NFS_HOME, "home", 0,    "var/lib/numawise",                       ""),
    (NFS_ROOT, "home", 0,    "run/numawise",                           "is on nfs"),
])  # fmt: skip
def test_never_on_a_network(
    tmp_path: Path, mounts: str, writable: str, uid: int, expected: str, why: str
) -> None:
    root = host(tmp_path / "root", mounts=mounts)
    path, place = found(root, uid, writable=lambda p: p.exists() and f"/root/{writable}" in str(p))
    assert path == f"{expected}/ledger.db"
    assert why in " ".join(place.remarks)
    assert bool(why) == bool(place.remarks)


def test_by_name(tmp_path: Path) -> None:
    root = host(tmp_path, mounts=NFS_HOME)
    for uid in (0, 1001):
        asked = {"NUMAWISE_LEDGER": str(root / "srv/job.db"), "HOME": "/home/alice"}
        assert found(root, uid, asked)[1] == LedgerPlace(root / "srv/job.db")
    with pytest.raises(LedgerError, match=r"network file system \(nfs4\).*local disk"):
        found(root, 0, {"NUMAWISE_LEDGER": str(root / "home/new/ledger.db")})
    with pytest.raises(InputError, match=r"NUMAWISE_LEDGER: 'ledger\.db' is not an absolute path"):
        found(root, 0, {"NUMAWISE_LEDGER": "ledger.db"})
    assert found(root, 0, {"NUMAWISE_LEDGER": ""})[0] == "var/lib/numawise/ledger.db"


@pytest.mark.parametrize(("path", "kind"), [
    ("/",                    "ext4"),
    ("/home",                "autofs"),
    ("/home/alice",          "nfs4"),
    ("/home/alice/x",        "nfs4"),
    ("/home/alicex",         "autofs"),
    ("/mnt/my disk/x",       "cifs"),
    ("/twice/x",             "xfs"),
])  # fmt: skip
def test_file_system(path: str, kind: str) -> None:
    mounts = (
        "rootfs / rootfs rw 0 0\n/dev/sda / ext4 rw 0 0\nauto /home autofs rw 0 0\ns:/a /home/alice nfs4 rw 0 0\n"
        "//s/m /mnt/my\\040disk cifs rw 0 0\ns:/t /twice nfs rw 0 0\n/dev/sdb /twice xfs rw 0 0\nbroken\n\n"
    )
    assert file_system(path, mounts) == kind


@pytest.mark.parametrize(("kind", "remote"), [
    ("ext4",                False),
    ("xfs",                 False),
    ("btrfs",               False),
    ("zfs",                 False),
    ("tmpfs",               False),
    ("overlay",             False),
    ("fuseblk",             False),
    ("fuse.fuse-overlayfs", False),
    ("nfs",                 True),
    ("lustre",              True),
    ("gpfs",                True),
    ("beegfs",              True),
    ("9p",                  True),
    ("fuse.sshfs",          True),
    ("fuse.juicefs",        True),
])  # fmt: skip
def test_network_file_systems(tmp_path: Path, *, kind: str, remote: bool) -> None:
    root = host(tmp_path, mounts=f"x / {kind} rw 0 0\n")
    assert network_file_system(root / "home/alice/not/yet/there", root) == (kind if remote else "")


def test_mounts_that_cannot_be_read_are_taken_for_local(tmp_path: Path) -> None:
    assert network_file_system(tmp_path / "x", tmp_path) == ""
    assert system_ledger(tmp_path).path == tmp_path / "var/lib/numawise/ledger.db"


def test_links_are_followed(tmp_path: Path) -> None:
    root = host(tmp_path, mounts=LOCAL + "s:/d /data nfs rw 0 0\n", folders="data home")
    (root / "home/alice").symlink_to(root / "data")
    assert network_file_system(root / "home/alice/x", root) == "nfs"


@pytest.mark.parametrize(("files", "expected"), [
    ({"etc__machine_id": ID + "\n"},                                                        ID),
    ({"etc__machine_id": ID.upper()},                                                       ID),
    ({"etc__machine_id": "", "var__lib__dbus__machine_id": ID},                             ID),
    ({"etc__machine_id": "uninitialized\n", "proc__sys__kernel__hostname": "gpu-7.lab\n"},  "host-gpu-7.lab"),
    ({"etc__machine_id": "\xff", "proc__sys__kernel__hostname": "../a b"},                  "host-.._a_b"),
])  # fmt: skip
def test_machine(tmp_path: Path, files: dict[str, str], expected: str) -> None:
    assert machine_id(host(tmp_path, **files)) == expected


def test_machine_without_a_name(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="systemd-machine-id-setup"):
        machine_id(tmp_path)


def test_boot(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="mount /proc"):
        boot_id(tmp_path)
    assert boot_id(host(tmp_path, proc__sys__kernel__random__boot_id="05bbaee5-56f8\n")) == "05bbaee5-56f8"


@needs.PROC
def test_this_machine() -> None:
    assert len(boot_id()) == 36
    assert machine_id()
