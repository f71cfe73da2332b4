"""The box: what ``ps``, ``top`` and ``history`` say, and ending what is one's own."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from numawise.ledger.place import boot_id, machine_id
from numawise.ledger.store import Ledger
from numawise.results.placement import EndedHold, Grant, Hold, Owner, Waiter
from numawise.web.desk import Served
from numawise.web.watching import ServedWatch
from tests import needs
from tests.waiting import until
from tests.web.calls import Page, named

pytestmark = [needs.PROC, needs.SYS]


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    monkeypatch.setenv("NUMAWISE_LEDGER", str(tmp_path / "ledger"))
    with Ledger.open(tmp_path / "ledger", machine_id()) as opened:
        yield opened


@pytest.fixture
def page(ledger: Ledger) -> Iterator[Page]:
    del ledger
    page = Page(Served(host=True), allow_changes=True)
    yield page
    page.close()


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"]) as process:
        yield process
        process.kill()


def owner(pid: int, uid: int | None = None) -> Owner:
    start = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return Owner(os.geteuid() if uid is None else uid, "", boot_id(), pid, start)


def hold(ledger: Ledger, name: str, process: "subprocess.Popen[bytes]", uid: int | None = None) -> Hold:
    made = Hold(
        name, f"job-{name}", owner(process.pid, uid), Grant(mems=1), mode="affinity", since=time.time()
    )
    with ledger.change() as change:
        change.add(made)
    return made


def wait(ledger: Ledger, name: str, process: "subprocess.Popen[bytes]", uid: int | None = None) -> Waiter:
    made = Waiter(name, owner(process.pid, uid), "8 GPUs", time.time(), json.dumps({"gpus": 8}))
    with ledger.change() as change:
        change.wait_in_line(made)
    return made


def test_holds_and_those_who_wait(page: Page, ledger: Ledger, sleeper: "subprocess.Popen[bytes]") -> None:
    assert page.get("box").data["holds"] == []
    hold(ledger, "h1", sleeper)
    wait(ledger, "w1", sleeper)
    page.desk.changed("box")
    data = page.get("box").data
    assert [one["name"] for one in data["holds"]] == ["job-h1"]
    assert [(one["id"], one["request"]) for one in data["waiting"]] == [("w1", "8 GPUs")]
    assert (data["own"], data["allowChanges"]) == (["h1", "w1"], True)


def test_what_has_ended(page: Page, ledger: Ledger, sleeper: "subprocess.Popen[bytes]") -> None:
    made = hold(ledger, "h1", sleeper)
    with ledger.change() as change:
        change.remove(made, EndedHold(made, time.time(), status=3))
    data = page.get("box/history?most=5").data
    assert [(one["name"], one["text"]) for one in data["ended"]] == [("job-h1", "status 3")]
    assert page.get("box/history?user=nobody-of-that-name").data["ended"] == []
    assert page.get("box/history?most=0").problem["field"] == "most"


def test_what_is_used(page: Page, ledger: Ledger, sleeper: "subprocess.Popen[bytes]") -> None:
    hold(ledger, "h1", sleeper)
    (use,) = page.get("box/use").data["uses"]
    assert (use["cpus"], use["processes"]) == (None, 1)
    assert use["memory"] > 0


def test_a_hold_is_released(page: Page, ledger: Ledger, sleeper: "subprocess.Popen[bytes]") -> None:
    hold(ledger, "h1", sleeper)
    refused = page.post("box/holds/h1/release", {}).problem
    assert refused["status"] == 409
    assert "still runs" in refused["detail"]
    assert page.post("box/holds/h1/release", {"kill": True, "term": 1}).problem["field"] == "$.term"
    assert page.post("box/holds/h1/release", {"term": 1e9}).problem["field"] == "$.term"
    assert page.post("box/holds/h1/release", {"force": True}).data["id"] == "h1"
    assert (ledger.holds(), sleeper.poll()) == ((), None), "only what was held is freed"
    assert page.post("box/holds/h1/release", {"force": True}).problem["status"] == 404
    assert [one["how"] for one in page.get("box/history").data["ended"]] == ["released"]


def test_a_job_is_ended(page: Page, ledger: Ledger, sleeper: "subprocess.Popen[bytes]") -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"]) as other:
        hold(ledger, "h1", sleeper)
        hold(ledger, "h2", other)
        assert page.post("box/holds/h2/release", {"kill": True}).status == 200
        assert other.wait(60) == -9
    assert ([one.id for one in ledger.holds()], sleeper.poll()) == (["h1"], None)


def test_one_who_waits_is_put_out(page: Page, ledger: Ledger, sleeper: "subprocess.Popen[bytes]") -> None:
    wait(ledger, "w1", sleeper)
    hold(ledger, "h1", sleeper)
    assert page.post("box/queue/h1/cancel", {}).problem["status"] == 404
    assert page.post("box/holds/w1/release", {}).problem["status"] == 404
    assert "waits no longer" in page.post("box/queue/w1/cancel", {}).data["text"]
    assert (ledger.waiters(), sleeper.poll()) == ((), None)


@pytest.mark.parametrize("path", ["box/holds/h1/release", "box/queue/w1/cancel"])
def test_without_leave_nothing_changes(
    page: Page, ledger: Ledger, sleeper: "subprocess.Popen[bytes]", path: str
) -> None:
    page.desk.allow_changes = False
    hold(ledger, "h1", sleeper)
    wait(ledger, "w1", sleeper)
    assert page.post(path, {}).problem["status"] == 403
    assert (len(ledger.holds()), len(ledger.waiters())) == (1, 1)


@pytest.mark.parametrize("name", ["", "..", "job-h1", "%00", "h1%0a", "é", "h" * 5000, "h1/../h1"])
def test_only_an_id_names_a_hold(
    page: Page, ledger: Ledger, sleeper: "subprocess.Popen[bytes]", name: str
) -> None:
    hold(ledger, "h1", sleeper)
    assert page.post(f"box/holds/{name}/release", {"force": True}).problem["status"] in (404, 405)
    assert len(ledger.holds()) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="records what another user holds")
def test_what_others_hold_is_theirs(
    page: Page, ledger: Ledger, sleeper: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the ledger says it to a user who is not root: shown, and not to be ended."""
    hold(ledger, "h1", sleeper, uid=51001)
    wait(ledger, "w1", sleeper, uid=51001)
    assert page.get("box").data["own"] == ["h1", "w1"], "root may end what others hold"
    monkeypatch.setattr(os, "geteuid", lambda: 51002)
    page.desk.changed("box")
    assert page.get("box").data["own"] == []
    assert page.post("box/holds/h1/release", {"kill": True}).problem["status"] == 403
    assert page.post("box/queue/w1/cancel", {}).problem["status"] == 403
    assert (len(ledger.holds()), len(ledger.waiters()), sleeper.poll()) == (1, 1, None)


def test_a_server_for_another_node_shows_no_box(ledger: Ledger) -> None:
    del ledger
    page = Page(named("dgx-h100"), allow_changes=True)
    for path in ("box", "box/history", "box/use"):
        assert page.get(path).problem["status"] == 404
    assert page.post("box/holds/h1/release", {}).problem["status"] == 404
    page.close()


def test_changes_are_noticed(page: Page, ledger: Ledger, sleeper: "subprocess.Popen[bytes]") -> None:
    watcher = ServedWatch(page.desk)
    assert watcher.look() == ()
    hold(ledger, "h1", sleeper)
    assert set(watcher.look()) == {"map", "box"}
    assert watcher.look() == ()
    sleeper.kill()
    sleeper.wait()
    until(lambda: "box" in watcher.look(), "a job that has died is noticed")
    assert watcher.look() == ()


def test_files_of_the_served_node_are_watched(tmp_path: Path) -> None:
    machine = tmp_path / "machine.txt"
    machine.write_text("CPU NODE SOCKET CORE\n0 0 0 0\n1 0 0 1\n")
    page = Page(named(str(machine)))
    watcher = ServedWatch(page.desk)
    assert watcher.look() == ()
    machine.write_text("CPU NODE SOCKET CORE\n0 0 0 0\n1 0 0 1\n2 0 0 2\n")
    assert watcher.look() == ("map",)
    machine.unlink()
    assert watcher.look() == ("map",)
    assert watcher.look() == ()
    page.close()


def test_words_that_are_no_text_are_answered(
    page: Page, ledger: Ledger, sleeper: "subprocess.Popen[bytes]"
) -> None:
    made = Hold("h1", "job", owner(sleeper.pid), Grant(mems=1), command=("\udcff.py",), since=1.0)
    with ledger.change() as change:
        change.add(made)
    assert page.get("box").data["holds"][0]["command"] == ["?.py"]
