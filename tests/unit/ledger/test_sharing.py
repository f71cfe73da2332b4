"""Who sees a folder, by what the kernel says of mounts."""

from pathlib import Path

import pytest

from numawise.ledger.sharing import FIRST_NAMESPACE, sight_of

ROOT = "36 25 8:1 / / rw - ext4 /dev/sda rw\n"
VAR = "40 36 8:2 / /var rw shared:5 - xfs /dev/sdb rw\n"
SAME = "90 80 8:1 / / rw - ext4 /dev/sda rw\n91 90 8:2 / /var rw - xfs /dev/sdb rw\n"
BIND = "92 91 8:1 /var/tmp /var/tmp rw - ext4 /dev/sda rw\n"
TMPFS = "41 40 0:77 / /var/tmp rw - tmpfs tmpfs rw\n"
OVERLAY = "50 49 0:60 / / rw - overlay overlay rw\n"
BLANK = "40 36 8:2 / /var\\040tmp rw - xfs /dev/sdb rw\n"


@pytest.mark.parametrize(("ours", "first", "namespace", "by_all", "why"), [
    pytest.param(ROOT, ROOT, FIRST_NAMESPACE, True,  "", id="one namespace"),
    pytest.param(ROOT, ROOT, "",              True,  "", id="a kernel without names of namespaces"),
    pytest.param(SAME, ROOT + VAR, FIRST_NAMESPACE, True, "", id="another namespace, the same mounts"),
    pytest.param(SAME + BIND, ROOT, FIRST_NAMESPACE, True, "", id="another mount of the same folder"),
    pytest.param(ROOT + VAR + TMPFS, ROOT + VAR, FIRST_NAMESPACE, False, "something else mounted", id="a tmpfs of its own"),
    pytest.param(ROOT + VAR + TMPFS, ROOT + VAR + TMPFS.replace("77", "78"), FIRST_NAMESPACE, False, "something else", id="each its tmpfs"),
    pytest.param(OVERLAY, ROOT, FIRST_NAMESPACE, False, "something else mounted", id="container among the machine's processes"),
    pytest.param(OVERLAY, OVERLAY, "pid:[4026532001]", False, "this runs in a container", id="container"),
    pytest.param(OVERLAY + BIND, OVERLAY + BIND, "pid:[4026532001]", None, "who else has that folder", id="mounted into a container"),
    pytest.param(ROOT, "", FIRST_NAMESPACE, None, "cannot be looked at", id="hidden first process"),
    pytest.param("", ROOT, FIRST_NAMESPACE, None, "/proc does not say", id="no /proc"),
    pytest.param("broken\n\n1 2 3\n", ROOT, FIRST_NAMESPACE, None, "/proc does not say", id="damaged"),
    pytest.param(ROOT + BLANK, ROOT, FIRST_NAMESPACE, True, "", id="another folder"),
])  # fmt: skip
def test_sight(
    tmp_path: Path, *, ours: str, first: str, namespace: str, by_all: bool | None, why: str
) -> None:
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "proc/1").mkdir()
    for name, text in (("self", ours), ("1", first)):
        if text:
            (tmp_path / "proc" / name / "mountinfo").write_text(text)
    if namespace:
        (tmp_path / "proc/self/ns/pid").symlink_to(namespace)
    sight = sight_of("/var/tmp", tmp_path)
    assert (sight.by_all, why in sight.why, bool(sight.why)) == (by_all, True, by_all is not True)
