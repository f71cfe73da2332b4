"""Where the ledger lies, and by what machine and boot are known."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from numawise.errors import InputError, LedgerError
from numawise.ledger.place import (
    COMMON,
    LedgerPlace,
    boot_id,
    file_system,
    find_ledger,
    machine_id,
    network_file_system,
)
from tests import needs

ID = "3d1219c7c4c5404aaa1f6d2a48adfda4"
LOCAL = "/dev/sda1 / ext4 rw 0 0\n"
MOUNTED = "36 25 8:1 / / rw - ext4 /dev/sda rw\n"
NFS_HOME = LOCAL + "server:/home /home nfs4 rw 0 0\n"
NFS_ROOT = "server:/image / nfs rw 0 0\ntmpfs /run tmpfs rw 0 0\n"


def host(root: Path, *, mounts: str = LOCAL, folders: str = "home/alice var/lib run", **files: str) -> Path:
    """A small file system; files are named with ``__`` for a slash and ``_`` for a dash."""
    for folder in folders.split():
        (root / folder).mkdir(parents=True, exist_ok=True)
    for folder in COMMON:
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder).chmod(0o1777)
    seen = {"proc__self__mountinfo": MOUNTED, "proc__1__mountinfo": MOUNTED}
    told = {"etc__machine_id": ID + "\n", "proc__self__mounts": mounts} | seen | files
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
    root: Path, environ: dict[str, str] | None = None, uid: int = 1001, **more: object
) -> tuple[list[str], LedgerPlace]:
    environ = {"HOME": str(root / "home/alice")} if environ is None else environ
    place = find_ledger(environ, uid, root=root, **({"trusted": {os.geteuid()}} | more))  # type: ignore[arg-type]
    return [str(folder.relative_to(root)) for folder in place.folders], place


@pytest.mark.parametrize("uid", [0, 1001])
def test_everybody_shares_without_an_administrator(tmp_path: Path, uid: int) -> None:
    folders, place = found(host(tmp_path), uid=uid)
    assert (folders, place.shared, place.remarks) == (["var/tmp"], True, ())


@pytest.mark.parametrize(("mode", "member", "expected", "remark"), [
    (0o1777, True,  ["var/lib/numawise", "var/tmp"], ""),
    (0o1775, False, ["var/tmp", "var/lib/numawise"], ""),
    (0o0755, False, ["var/tmp", "var/lib/numawise"], ""),
    (0o2775, True,  ["var/tmp"],                     "without the sticky bit may remove the files of others"),
    (0o1770, True,  ["var/tmp"],                     "not everybody may read it (chmod o+rx)"),
    (0o0700, True,  ["var/tmp"],                     "not everybody may read it (chmod o+rx)"),
    (0o0777, True,  ["var/tmp"],                     "everybody may write it"),
])  # fmt: skip
def test_an_administrators_folder_is_used_as_it_is(
    tmp_path: Path, mode: int, *, member: bool, expected: list[str], remark: str
) -> None:
    """All see all of it; who may write there does."""
    root = host(tmp_path, folders="home/alice var/lib/numawise")
    (root / "var/lib/numawise").chmod(mode)
    writable = only("var/lib/numawise", "var/tmp") if member else only("var/tmp")
    folders, place = found(root, writable=writable)
    assert (folders, place.shared) == (expected, True)
    assert [remark in text for text in place.remarks] == ([True] if remark else [])
    assert stat.S_IMODE((root / "var/lib/numawise").stat().st_mode) == mode


@needs.ROOT
def test_an_administrators_folder_that_is_not_the_administrators(tmp_path: Path) -> None:
    root = host(tmp_path, folders="home/alice var/lib/numawise")
    os.chown(root / "var/lib/numawise", 1002, 1002)
    folders, place = found(root)
    assert folders == ["var/tmp"]
    assert "it belongs to uid 1002, not to root" in place.remarks[0]


def test_an_administrators_folder_that_is_a_link(tmp_path: Path) -> None:
    root = host(tmp_path)
    (root / "var/lib/numawise").symlink_to(root / "home/alice")
    folders, place = found(root)
    assert (folders, "it is not a folder" in place.remarks[0]) == (["var/tmp"], True)


def test_what_an_earlier_numawise_recorded_is_named(tmp_path: Path) -> None:
    root = host(tmp_path, folders="home/alice var/lib/numawise")
    (root / "var/lib/numawise").chmod(0o755)
    (root / "var/lib/numawise/ledger.db").touch()
    assert "an earlier numawise recorded" in " ".join(found(root)[1].remarks)


@pytest.mark.parametrize(("mode", "folder"), [
    (0o1777, "var/tmp"), (0o777, "dev/shm"), (0o755, "dev/shm"), (0o1770, "dev/shm"), (0o1773, "dev/shm"),
])  # fmt: skip
def test_a_place_for_all_has_the_sticky_bit(tmp_path: Path, mode: int, folder: str) -> None:
    root = host(tmp_path)
    (root / "var/tmp").chmod(mode)
    assert found(root)[0] == [folder]


@needs.ROOT
def test_a_place_for_all_is_roots(tmp_path: Path) -> None:
    root = host(tmp_path)
    os.chown(root / "var/tmp", 1002, 1002)
    assert found(root)[0] == ["dev/shm"]


@pytest.mark.parametrize(
    "where", ["/tmp/systemd-private-1f-job.service-x/tmp", "/tmp-inst/alice", "/tmp.inst"]
)
def test_a_place_that_is_not_what_others_see_is_named(tmp_path: Path, where: str) -> None:
    mounts = f"{MOUNTED}37 36 8:1 {where} /var/tmp rw - ext4 /dev/sda rw\n"
    root = host(tmp_path, proc__self__mountinfo=mounts)
    place = found(root)[1]
    assert (place.shared, place.warnings) == (False, (place.alone,))
    assert "not shared with the rest of the machine (it is private to this service or session)" in place.alone
    assert "let an administrator run 'numawise setup'" in place.alone
    (root / "proc/1/mountinfo").write_text(mounts)
    place = found(root)[1]
    assert (place.shared, place.alone, place.remarks) == (True, "", ())


def test_a_private_place_beside_one_for_all(tmp_path: Path) -> None:
    """Holds of those who may not write the administrator's folder are not seen, and that is said."""
    mounts = f"{MOUNTED}37 36 0:9 / /var/tmp rw - tmpfs tmpfs rw\n"
    root = host(tmp_path, folders="home/alice var/lib/numawise", proc__self__mountinfo=mounts)
    (root / "var/lib/numawise").chmod(0o1777)
    folders, place = found(root)
    assert (folders, place.shared, place.alone) == (["var/lib/numawise", "var/tmp"], True, "")
    assert "recorded in" in place.remarks[0]
    assert "the rest of the machine has something else mounted there" in place.remarks[0]


def test_the_folder_that_the_administrator_named(tmp_path: Path) -> None:
    root = host(tmp_path, folders="home/alice srv/jobs var/lib/numawise")
    for name in ("srv/jobs", "var/lib/numawise"):
        (root / name).chmod(0o1777)
    folders, place = found(root, system="/srv/jobs")
    assert (folders, place.shared, place.remarks) == (["srv/jobs", "var/tmp"], True, ())
    folders, place = found(root, system="/srv/gone")
    assert folders == ["var/tmp"]
    assert "/srv/gone is not used: No such file" in place.remarks[0]


@pytest.mark.parametrize(("environ", "expected"), [
    ({"XDG_STATE_HOME": "/{root}/home/state"},                      "home/state/numawise"),
    ({"XDG_STATE_HOME": "state", "HOME": "/{root}/home/alice"},     "home/alice/.local/state/numawise"),
    ({"XDG_STATE_HOME": "", "HOME": "/{root}/home/alice"},          "home/alice/.local/state/numawise"),
])  # fmt: skip
def test_alone_where_nothing_can_be_shared_and_loudly(
    tmp_path: Path, environ: dict[str, str], expected: str
) -> None:
    variables = {key: value.replace("/{root}", str(tmp_path)) for key, value in environ.items()}
    folders, place = found(host(tmp_path), variables, 4000000001, writable=only("home"))
    assert folders == [f"{expected}/{ID}", "var/tmp"]
    assert not place.shared
    assert place.warnings == (place.alone,)
    assert "may write in no folder for all and has one alone" in place.alone
    assert "let an administrator run 'numawise setup'" in place.alone


def test_nowhere(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="there is no folder for a ledger") as caught:
        found(host(tmp_path), {"HOME": "nowhere"}, 4000000001, writable=lambda _: False)
    assert "NUMAWISE_LEDGER" in caught.value.advice


@pytest.mark.parametrize(("mounts", "expected"), [
    (LOCAL,                                            "var/tmp"),
    (NFS_HOME,                                         "var/tmp"),
    (LOCAL + "server:/vt /var/tmp nfs4 rw 0 0\n",      "dev/shm"),
    (NFS_ROOT + "tmpfs /dev/shm tmpfs rw 0 0\n",       "dev/shm"),
])  # fmt: skip
def test_never_on_a_network(tmp_path: Path, mounts: str, expected: str) -> None:
    assert found(host(tmp_path, mounts=mounts))[0] == [expected]


def test_by_name(tmp_path: Path) -> None:
    root = host(tmp_path, mounts=NFS_HOME)
    for uid in (0, 1001):
        asked = {"NUMAWISE_LEDGER": str(root / "srv/jobs"), "HOME": "/home/alice"}
        place = found(root, asked, uid)[1]
        assert (place.folders, place.shared, place.chosen) == ((root / "srv/jobs",), False, True)
        assert "NUMAWISE_LEDGER names it, and nobody else can record anything there" in place.alone
        assert place.alone.endswith("unset NUMAWISE_LEDGER to share with all")
        assert place.warnings == ()
    with pytest.raises(LedgerError, match=r"network file system \(nfs4\).*local disk"):
        found(root, {"NUMAWISE_LEDGER": str(root / "home/new/ledger")})
    with pytest.raises(InputError, match=r"NUMAWISE_LEDGER: 'ledger' is not an absolute path"):
        found(root, {"NUMAWISE_LEDGER": "ledger"})
    assert found(root, {"NUMAWISE_LEDGER": ""})[0] == ["var/tmp"]


def test_by_name_with_others(tmp_path: Path) -> None:
    """Who else names it nobody knows, so nothing is claimed; the usual place is the usual place by any name."""
    root = host(tmp_path, folders="srv/jobs")
    (root / "srv/jobs").chmod(0o1777)
    place = found(root, {"NUMAWISE_LEDGER": str(root / "srv/jobs")}, origin="/home/a/config.toml")[1]
    assert (place.shared, place.chosen) == (None, True)
    assert "only users who name it too share it" in place.alone
    assert place.alone.endswith("take 'ledger' out of /home/a/config.toml to share with all")
    (root / "srv/usual").symlink_to(root / "var/tmp")
    for name in ("var/tmp", "srv/usual"):
        place = found(root, {"NUMAWISE_LEDGER": str(root / name)})[1]
        assert (place.folders, place.shared, place.alone) == ((root / "var/tmp",), True, "")


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
