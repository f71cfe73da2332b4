"""The page in Chromium: how soon the map of a large machine is seen, and how soon a step of what-if.

    python -m benchmarks.first_paint [--rounds 7]

Times are the browser's own, from the start of the navigation or from the click to the frame after
the answer was drawn, the server beside it on the same cores.  Every load begins without anything kept.
Needs Chromium.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tests.browser.chromium import WIDTHS, chromium, missing, serving, watched

from numawise.web.page_files import page_files

if TYPE_CHECKING:
    from playwright.sync_api import Browser

LARGE = "2s 4n 192c 2t 8gpu 16nic"
"""384 CPUs, 8 GPUs, 16 NICs."""
WIDE = "64s 64n 384c 8gpu"
SEEN = """
(() => {
  const seen = () => requestAnimationFrame(() => setTimeout(() => (globalThis.seenAt = performance.now())));
  const watcher = new MutationObserver(() => {
    if (!document.querySelector("main svg [data-cpus]")) return;
    watcher.disconnect();
    seen();
  });
  watcher.observe(document, {childList: true, subtree: true});
})();
"""
"""When the frame with the map is drawn, in milliseconds since the navigation began."""
GOALS = {"first paint": 1000.0, "step": 100.0, "weight": 300_000.0}


def first_paint(browser: "Browser", machine: str, rounds: int) -> Iterator[tuple[float, float]]:
    """First words and first map of each load, in milliseconds."""
    with serving(["--machine", machine]) as home:
        for _ in range(rounds + 1):
            context = browser.new_context(viewport={"width": 1280, "height": WIDTHS[1280]})
            context.add_init_script(SEEN)
            page = watched(context.new_page(), home).open("map")
            page.wait_for_function("() => globalThis.seenAt")
            words: float = page.evaluate(
                "() => performance.getEntriesByName('first-contentful-paint')[0].startTime"
            )
            drawn: float = page.evaluate("() => globalThis.seenAt")
            context.close()
            yield words, drawn


STEPPED = """
name => new Promise(done => {
  const told = new MutationObserver(() => {
    const heading = [...document.querySelectorAll("main h3, main strong")].some(one => one.textContent.includes(name));
    if (!heading || document.querySelector("main .busy")) return;
    told.disconnect();
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - begin)));
  });
  told.observe(document.querySelector("main"), {childList: true, subtree: true, characterData: true, attributes: true});
  const button = [...document.querySelectorAll("main button")].find(one => one.textContent === "Admit");
  const begin = performance.now();
  button.click();
})
"""  # noqa: E501 - JavaScript
"""Click on Admit, and wait for the frame in which the step of that pod is told; milliseconds."""


def steps(browser: "Browser", rounds: int) -> Iterator[float]:
    """Milliseconds from the click until the next step of what-if is drawn, one pod after the other."""
    with serving(["--machine", LARGE]) as home:
        context = browser.new_context(viewport={"width": 1280, "height": WIDTHS[1280]})
        page = watched(context.new_page(), home).open("what-if")
        page.wait_for_selector("main svg [data-cpus]")
        page.wait_for_selector(".what-fits li")
        for number in range(rounds):
            name = f"timed-{number}"
            page.get_by_label("Name", exact=True).fill(name)
            page.locator(".what-next").get_by_label("CPUs", exact=True).fill("2")
            page.get_by_label("GPUs", exact=True).fill("0")
            taken: float = page.evaluate(STEPPED, name)
            yield taken
        context.close()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    if reason := missing():
        print(reason, file=sys.stderr)
        return 2
    weight = sum(len(file.content) for file in page_files().values())
    report: dict[str, object] = {"pageBytes": weight}
    print(f"{'all files of the page':<44} {weight / 1000:8.1f} kB  (goal {GOALS['weight'] / 1000:.0f})")
    with chromium() as browser:
        for name, machine in (("384 CPUs, 8 GPUs, 16 NICs", LARGE), ("64 NUMA nodes, 384 CPUs", WIDE)):
            first, *others = first_paint(browser, machine, rounds)
            drawn = statistics.median(each[1] for each in others)
            words = statistics.median(each[0] for each in others)
            report[machine] = {"firstLoad": first[1], "map": drawn, "words": words}
            print(
                f"{name + ': the map is drawn':<44} {drawn:8.0f} ms  (goal {GOALS['first paint']:.0f}); "
                f"the very first load {first[1]:.0f} ms, first words {words:.0f} ms"
            )
        taken = list(steps(browser, 2 * rounds))
        report["steps"] = taken
        middle, worst = statistics.median(taken), max(taken)
        name = "what if: one more pod is told and drawn"
        print(f"{name:<44} {middle:8.0f} ms  (goal {GOALS['step']:.0f}); worst {worst:.0f} ms")
    print(json.dumps(report), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
