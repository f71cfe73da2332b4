"""All that an example asks of a page, one call after the other or by several threads at once; prints the answers.

Every run is a process of its own, in which nothing was used before: what is made at the first use is made by
threads that take turns after each few instructions.
"""

import json
import random
import sys
import threading
from pathlib import Path
from typing import Any

from tests.web.calls import Page, named

EXAMPLE = Path(__file__).parents[2] / "examples" / "8gpu-server"
CONFIG = (EXAMPLE / "kubelet.yaml").read_text()
PODS = [path.read_text() for path in sorted((EXAMPLE / "pods").glob("*.yaml"))]
OFTEN = 1e-6
"""Seconds after which another thread has its turn."""
Call = tuple[str, Any]
"""A path and a body; None: it is asked with GET."""


def calls() -> list[Call]:
    """Every kind of question whose answer does not hang on the time."""
    node = {"machine": "8gpu-server", "config": CONFIG}
    files = [{"name": f"{turn}.yaml", "text": text} for turn, text in enumerate([CONFIG, *PODS])]
    asked = {"node": {"machine": "dgx-h100", "config": CONFIG}, "text": "---\n".join(PODS)}
    steps = [*({"add": {"text": pod}} for pod in PODS), "restart"]
    return [
        ("overview", None),
        ("map", None),
        ("config/options", None),
        *(("why", {"text": pod}) for pod in PODS),
        ("why", asked),
        ("why/try", {**asked, "suggestion": 1}),
        ("scenario", {"node": node, "steps": steps, "compare": {"release": "1.30"}}),
        ("fits", {"node": node, "steps": steps[:2], "shapes": ["cpu=8,memory=32Gi,nvidia.com/gpu=1"]}),
        ("check", {"files": files, "machine": "dgx-h100", "fix": True}),
        ("config", {"text": CONFIG, "release": "1.36"}),
        ("map", {"node": {"machine": "2s 4n 64c 2t 8gpu"}}),
    ]


def main(threads: int, seed: int) -> None:
    """Ask everything once, by so many threads."""
    sys.setswitchinterval(OFTEN)
    page = Page(named(str(EXAMPLE / "machine.yaml"), kubelet_config=(str(EXAMPLE / "kubelet.yaml"),)))
    every = calls()
    order = list(range(len(every)))
    random.Random(seed).shuffle(order)
    answers: dict[int, list[object]] = {}

    def ask(numbers: list[int]) -> None:
        for number in numbers:
            path, body = every[number]
            answer = page.get(path) if body is None else page.post(path, body)
            answers[number] = [answer.status, answer.body.decode()]

    running = [threading.Thread(target=ask, args=(order[turn::threads],)) for turn in range(threads)]
    for each in running:
        each.start()
    for each in running:
        each.join()
    page.close()
    json.dump([[every[number], answers.get(number)] for number in range(len(every))], sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
