"""The box: jobs of this host as they come and go, and ending one's own."""

import contextlib
import os
import pwd
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import needs
from tests.browser.checks import BOTH, is_sound
from tests.browser.chromium import DRIVER, Watched, serving
from tests.host.launching import Host
from tests.waiting import PATIENCE

if DRIVER:
    from playwright.sync_api import expect

pytestmark = [needs.PROC, needs.SYS]
PageAt = Callable[..., Watched]


@dataclass
class Box:
    host: Host
    serve: Callable[..., str]


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    host = Host(tmp_path)
    with contextlib.ExitStack() as running:
        yield Box(host, lambda *words: running.enter_context(serving(words, host.environment)))
        host.end()


def test_an_idle_box_is_sound_and_jobs_come_and_are_ended(box: Box, page_at: PageAt) -> None:
    page = page_at(box.serve("--allow-changes")).open("box")
    expect(page.get_by_text("Nothing is held")).to_be_visible()
    expect(page.get_by_text("Nothing has ended yet")).to_be_visible()
    whose = "all users" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    expect(page.get_by_text(f"Jobs of {whose} can be ended here.")).to_be_visible()
    is_sound(page, themes=BOTH)
    words = ("--", "sh", "-c", "sleep 3600 # <b>bold</b>")
    job = box.host.start("run", "-q", "--name", "train", *words)
    row = page.get_by_role("row", name="train")
    expect(row).to_contain_text("<b>bold</b>")
    expect(row.get_by_role("cell").nth(3)).to_have_text("0.0")
    is_sound(page)
    reader = page_at(box.serve()).open("box")  # without leave nothing can be ended
    expect(reader.get_by_role("row", name="train")).to_be_visible()
    expect(reader.get_by_text("started without --allow-changes")).to_be_visible()
    expect(reader.get_by_role("button", name="Release")).to_have_count(0)
    row.get_by_role("button", name="Release").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("<b>bold</b>")
    is_sound(page)
    dialog.get_by_label("How").select_option("kill")
    dialog.get_by_role("button", name="Release").click()
    expect(dialog).not_to_be_visible()
    assert job.wait(PATIENCE) == -9
    ended = page.get_by_role("region", name="Ended")
    expect(ended.get_by_role("row", name="train")).to_contain_text("released")


def test_steps_stand_below_their_job_and_one_who_waits_is_put_out(box: Box, page_at: PageAt) -> None:
    page = page_at(box.serve("--allow-changes")).open("box")
    step = box.host.argv("run", "-q", "--name", "part", "--", "cat")  # ends with what it reads
    first = box.host.start("run", "-q", "--exclusive", "machine", "--name", "all", "--", *step)
    jobs = page.get_by_role("region", name="Jobs").get_by_role("row")
    expect(jobs.nth(2)).to_contain_text("+ step part")
    expect(jobs.nth(2).get_by_role("button")).to_have_count(0)
    expect(jobs.nth(1)).to_contain_text("all")
    waiter = box.host.start("run", "-q", "--wait", "--cpus", "1", "--name", "next", "--", "true")
    line = page.get_by_role("region", name="In line")
    expect(line.get_by_role("row", name="1 CPU")).to_be_visible()
    is_sound(page)
    line.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
    expect(line).not_to_be_visible()
    assert waiter.wait(PATIENCE) == 1
    assert first.poll() is None
