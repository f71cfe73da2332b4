"""Check in Chromium with a long file: how soon it is drawn, typed in, scrolled and corrected.

    python -m benchmarks.check_paint [--rounds 5]

The file has 2,000 lines of pods and some 300 findings.  Times are the browser's own, from the drop, the key
or the click to the frame after it was drawn, the server beside it on the same cores; of scrolling, those
between frames.  Needs Chromium.
"""

import argparse
import json
import os
import statistics
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tests.browser.chromium import WIDTHS, chromium, missing, serving, watched

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

GOALS = {"drawn": 1000.0, "key": 50.0, "frame": 34.0, "correction": 300.0}
PODS, NAME = 100, "pods.yaml"
POD = """apiVersion: v1
kind: Pod
metadata:
  name: trainer-{0}
  labels:
    app: trainer
spec:
  containers:
  - name: main
    image: registry.example/trainer:3
    env:
    - name: CUDA_VISIBLE_DEVICES
      value: "0"
    - name: OMP_NUM_THREADS
      value: "64"
    resources:
      limits:
        cpu: "8"
        nvidia.com/gpus: 1
---
"""
DRAWN = """
([name, text]) => new Promise(done => {
  const seen = new MutationObserver(() => {
    if (!document.querySelector(`.listing[aria-label^="${name}"]`)) return;
    seen.disconnect();
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - begin)));
  });
  seen.observe(document.querySelector("main"), {childList: true, subtree: true});
  const files = new DataTransfer();
  files.items.add(new File([text], name));
  const begin = performance.now();
  document.querySelector(".drop").dispatchEvent(new DragEvent("drop", {dataTransfer: files, bubbles: true}));
})
"""
"""Drop a file, and wait for the frame in which its lines are seen; milliseconds."""
WATCH_KEYS = """
() => {
  globalThis.keys = [];
  document.addEventListener("keydown", event => {
    requestAnimationFrame(() => setTimeout(() => keys.push(performance.now() - event.timeStamp)));
  });
}
"""
SCROLLED = """
() => new Promise(done => {
  const frames = [];
  let last = 0;
  const step = now => {
    if (last) frames.push(now - last);
    last = now;
    const before = scrollY;
    scrollBy(0, 150);
    if (scrollY === before || frames.length >= 400) done(frames);
    else requestAnimationFrame(step);
  };
  scrollTo(0, 0);
  requestAnimationFrame(step);
})
"""
"""Scroll from the top, 150 pixels a frame; the times between frames."""
CORRECTED = """
() => new Promise(done => {
  const old = document.querySelector(".listing");
  const seen = new MutationObserver(() => {
    const now = document.querySelector(".listing");
    if (!now || now === old || document.querySelector('[aria-busy="true"]')) return;
    seen.disconnect();
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - begin)));
  });
  seen.observe(document.querySelector("main"), {childList: true, subtree: true, attributes: true});
  const begin = performance.now();
  document.querySelector(".correction .button").click();
})
"""
"""Apply the first correction, and wait for the frame in which the checked file is seen again."""


def measured(browser: "Browser", home: str) -> dict[str, list[float]]:
    """One visit: a drop, scrolling, typing, corrections."""
    context = browser.new_context(viewport={"width": 1280, "height": WIDTHS[1280]})
    page = watched(context.new_page(), home).open("check")
    page.wait_for_selector(".finding")
    text = "".join(POD.format(number) for number in range(PODS))
    drawn: float = page.evaluate(DRAWN, [NAME, text])
    found = page.locator(".listing").get_attribute("aria-label") or ""
    print(f"  {found}", file=sys.stderr)
    frames: list[float] = page.evaluate(SCROLLED)
    keys = _typed(page)
    page.evaluate("() => scrollTo(0, 0)")
    corrections: list[float] = [page.evaluate(CORRECTED) for _ in range(3)]
    context.close()
    return {"drawn": [drawn], "frame": frames, "key": keys, "correction": corrections}


def _typed(page: "Page") -> list[float]:
    """Keys in the editor of the file, in its middle."""
    page.get_by_role("button", name="Edit", exact=True).click()
    area = page.get_by_role("textbox", name="Text")
    area.evaluate("area => { area.setSelectionRange(20000, 20000); area.focus(); }")
    page.evaluate(WATCH_KEYS)
    page.keyboard.type("labels: typed by hand")
    page.wait_for_function("() => keys.length === 21")
    keys: list[float] = page.evaluate("() => keys")
    page.keyboard.press("Escape")
    return keys


def part_of(times: Sequence[float], percent: int) -> float:
    """The time that so many percent are below."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    if reason := missing():
        print(reason, file=sys.stderr)
        return 2
    all_times: dict[str, list[float]] = {name: [] for name in GOALS}
    with chromium() as browser, serving(["--machine", "dgx-h100"]) as home:
        for _ in range(rounds):
            for name, times in measured(browser, home).items():
                all_times[name] += times
    print(f"load {os.getloadavg()[0]:.1f}")
    figures: dict[str, dict[str, float]] = {}
    for name, words in (
        ("drawn", "2,000 lines with 300 findings, dropped: drawn"),
        ("key", "a key in the editor: drawn"),
        ("frame", "scrolling, from frame to frame"),
        ("correction", "one correction applied, checked and drawn"),
    ):
        times = all_times[name]
        middle, most = statistics.median(times), part_of(times, 95)
        print(f"{words:<46} {middle:7.0f} ms, 95 % below {most:.0f} ms  (goal {GOALS[name]:.0f})")
        figures[name] = {"median": round(middle, 1), "below95": round(most, 1), "times": len(times)}
    print(json.dumps(figures), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
