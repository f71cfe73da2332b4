"""Is every log understood?  ``python -m tests.logs [--traces FILE|DIR]… [DIR]``.

DIR (by default ``../shared/data``) holds samples of kubelets' logs, each beside what a reader should find; all of
them are read.  With ``--traces``, every recorded admission is written as kubelets of many releases log it, in every
frame, and read back: hints, answer, verdict, reason and message must be those of the recording, and the
explanation must come to the same answer.  Then the same log is cut and filtered in many ways, and mixed with that of
another kubelet: what is called certain must still be true.

Exit status: 0 all is well, 1 something is not, 2 nothing to look at.
"""

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from numawise.apps.logs.admissions import Admissions
from numawise.apps.logs.explain import explain_admission, settled
from numawise.apps.logs.kubelets import Kubelets
from numawise.codec.kubeletlog import Event, Tally, events_in
from numawise.engine.failure import TOPOLOGY_AFFINITY
from numawise.engine.hint import Family
from numawise.results.log import UNFINISHED, LoggedAdmission, Repeats
from numawise.sets import ids_of
from tests.fidelity import trace_files, trace_lines
from tests.logwriting import FRAMES, Log, Style, complete, framed, write_admission, write_boot

Data = Mapping[str, Any]
SHARED = Path(__file__).parents[2] / "shared" / "data"
GOLDEN = (
    "admit_start",
    "hints",
    "provider_hints",
    "no_preference",
    "merged_hint",
    "best_hint",
    "affinity",
    "rejected",
)
"""Events that the samples list."""
STYLES = (
    Style((1, 19), 3),
    Style((1, 20), 2),
    Style((1, 20), 4),
    Style((1, 23), 2),
    Style((1, 26), 4),
    Style((1, 27), 2, klog_json=True),
    Style((1, 22), 4, klog_json=True),
    Style((1, 29), 2),
    Style((1, 29), 5),
    Style((1, 31), 2),
    Style((1, 36), 2),
    Style((1, 36), 5),
    Style((1, 37), 4, klog_json=True),
)
SHOWN = 5


# --- samples --------------------------------------------------------------------------------


def read(data: bytes, size: int = 1 << 16) -> tuple[list[Event], Tally]:
    """All events of a log that comes in blocks."""
    tally = Tally()
    blocks = (data[at : at + size] for at in range(0, len(data), size))
    return list(events_in(blocks, tally)), tally


def admissions_in(data: bytes, size: int = 1 << 16) -> tuple[list[LoggedAdmission], Kubelets, Tally]:
    """All admissions of a log."""
    events, tally = read(data, size)
    found: list[LoggedAdmission] = []
    admissions = Admissions(found.append)
    for event in events:
        admissions.hear(event)
    admissions.finish()
    found.sort(key=lambda one: one.first_line)
    filtered = tally.known <= sum(tally.counts.values())
    decided = [settled(one, admissions.kubelets.of(one.origin), filtered=filtered) for one in found]
    return decided, admissions.kubelets, tally


def golden_form(event: Event) -> Data:
    """An event in the words of the samples."""
    found: dict[str, Any] = {"event": event.kind, "line": event.line}
    found["style"] = "structured" if event.structured else "klog text"
    if event.provider:
        found["provider"] = event.provider
    if event.kind in ("hints", "provider_hints"):
        found |= {"pod": shown(event), "container": event.container}
        found["hints"] = {name: hints_of(one) for name, one in event.hints.items()}
    if event.kind in ("merged_hint", "best_hint", "affinity"):
        assert event.hint is not None
        numa = event.hint.numa
        found["best"] = {"nodes": None if numa is None else list(numa), "preferred": event.hint.preferred}
        found |= {"pod": shown(event), "container": event.container}
    if event.kind == "rejected":
        found["reason"] = event.reason
    return found


def shown(event: Event) -> str | None:
    pod = event.pod
    if not pod:
        return None
    if not event.structured:
        return f"{pod.name}_{pod.namespace}({pod.uid})" if pod.namespace else pod.name
    return f"{pod.namespace}/{pod.name}"


def hints_of(family: Family | None) -> list[Data]:
    return [{"nodes": list(ids_of(mask)), "preferred": liked} for mask, liked in family or ()]


def differences(log: Path, golden: Path) -> list[str]:
    """In what a sample is read otherwise than it should be."""
    events, tally = read(log.read_bytes(), 300)
    expected = json.loads(golden.read_text())
    found = []
    if tally.lines != expected["lines"]:
        found.append(f"{tally.lines} lines instead of {expected['lines']}")
    if tally.known != expected["lines"]:
        found.append(f"only {tally.known} of them known")
    ours = [golden_form(event) for event in events if event.kind in GOLDEN]
    wanted = [dict(one) for one in expected["golden"]]
    for one, other in zip(ours, wanted, strict=False):
        mine = {key: one.get(key) for key in other}
        if mine != other:
            found.append(f"line {other['line']}: {mine} instead of {other}")
    if len(ours) != len(wanted):
        found.append(f"{len(ours)} events instead of {len(wanted)}")
    return found


def samples(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """Every sample with golden, and what is wrong with its reading."""
    for log in sorted(folder.glob("**/*.log")):
        golden = log.with_suffix(".json")
        if golden.is_file() and "golden" in json.loads(golden.read_text()):
            yield log, differences(log, golden)


# --- recordings -----------------------------------------------------------------------------


def policy_of(scenario: Data) -> str:
    return str(scenario["kubelet"].get("topologyManagerPolicy", "none"))


def steps_of(recorded: Data) -> list[tuple[Data, Data]]:
    """Pods that were added, and what became of them, up to the first restart."""
    found = []
    scenario, result = recorded["scenario"], recorded["result"]
    for step, came in zip(scenario["steps"], result.get("steps", ()), strict=False):
        if "restart" in step or "panic" in came or "error" in came:
            break
        if "add" in step:
            found.append((step["add"], came))
    return found


def written(steps: Sequence[tuple[Data, Data]], style: Style, policy: str = "") -> list[str]:
    """The log of a scenario; ``policy``: from the start of the kubelet on, which names it."""
    log = Log(style)
    if policy:
        write_boot(log, policy)
    for pod, came in steps:
        write_admission(log, pod, came)
    log.second += 5
    end = "SyncLoop (housekeeping)"
    log.say("kubelet.go", end)
    return log.lines


def rounds_of(came: Data) -> list[Data]:
    """Merges of a recording in the form that ``told_rounds`` gives."""
    found = []
    for one in came.get("hint_rounds", ()):
        hints: dict[str, Any] = {}
        for told in one["hints"].values():
            for name, family in (told or {}).items():
                hints[name] = None if family is None else [[list(nodes), liked] for nodes, liked in family]
        best = (one["merged"]["numa"], one["merged"]["preferred"])
        found.append(
            {
                "container": one.get("container"),
                "hints": hints,
                "best": best,
                "placed": one["merged"]["admit"],
            }
        )
    return found


def told_rounds(admission: LoggedAdmission) -> list[Data]:
    found = []
    for one in admission.rounds:
        hints = {
            name: None if family is None else [[list(ids_of(mask)), liked] for mask, liked in family]
            for name, family in one.hints.items()
        }
        numa = one.best.numa if one.best is not None else None
        best = (None if numa is None else list(numa), one.best.preferred if one.best else None)
        found.append({"container": one.container, "hints": hints, "best": best, "placed": one.placed})
    return found


def expected_of(pod: Data, came: Data) -> Data:
    failed = came.get("allocate_failed")
    return {
        "name": pod["metadata"]["name"],
        "rounds": rounds_of(came),
        "verdict": "admitted" if came["admitted"] else "rejected",
        "reason": came.get("reason", ""),
        "failed": bool(failed),
    }


def compare(recorded: Data, style: Style, frame: str, counts: Counter[str], policy: str = "") -> list[str]:
    """In what a scenario that was written and read differs from the recording."""
    steps = [(pod, came) for pod, came in steps_of(recorded) if complete(came)]
    # Nothing is logged of an admission without hints, CPUs or a rejection that is told.
    steps = [
        (pod, came)
        for pod, came in steps
        if came.get("hint_rounds")
        or (not came["admitted"] and (style.release >= (1, 31) or style.verbosity > 2))
    ]
    if not steps:
        return []
    lines = written(steps, style, policy)
    found, kubelets, tally = admissions_in(framed(frame, lines), 4096)
    problems = []
    if tally.known < len(lines):
        problems.append(f"{tally.known} of {len(lines)} lines known")
    if len(found) != len(steps):
        problems.append(f"{len(found)} admissions instead of {len(steps)}")
    for admission, (pod, came) in zip(found, steps, strict=False):
        problems += _unlike(admission, expected_of(pod, came), style)
        counts["admissions"] += 1
        counts["undecided"] += admission.verdict == UNFINISHED
        problems += _unexplained(admission, kubelets, recorded, counts)
    return problems


def _unlike(admission: LoggedAdmission, expected: Data, style: Style) -> Iterator[str]:
    name = expected["name"]
    if admission.pod.name != name:
        yield f"pod {admission.pod.name} instead of {name}"
    rounds = told_rounds(admission)
    if rounds != expected["rounds"]:
        yield f"{name}: rounds {rounds} instead of {expected['rounds']}"
    silent = expected["failed"] and (style.release < (1, 31) and style.verbosity < 3)
    verdict = admission.likely if admission.verdict == UNFINISHED else admission.verdict
    if verdict != expected["verdict"] and not (silent and admission.verdict == UNFINISHED):
        yield f"{name}: {admission.verdict} {admission.likely} instead of {expected['verdict']}"
    if admission.rejected and expected["reason"] and admission.reason != expected["reason"] and not silent:
        yield f"{name}: {admission.reason} instead of {expected['reason']}"


def _unexplained(
    admission: LoggedAdmission, kubelets: Kubelets, recorded: Data, counts: Counter[str]
) -> Iterator[str]:
    """An explanation that does not come to the log's own answer."""
    kubelet = kubelets.of(admission.origin)
    explanation = explain_admission(admission, kubelet, Repeats())
    if admission.rejected:
        counts["rejections"] += 1
        if not explanation.answer.startswith("Rejected: "):
            yield f"{admission.pod.name}: {explanation.answer}"
    options = recorded["scenario"]["kubelet"].get("topologyManagerPolicyOptions") or {}
    closest = options.get("prefer-closest-numa-nodes", "false") == "true"
    if policy_of(recorded["scenario"]) not in kubelet.policies:
        yield f"{admission.pod.name}: policy {policy_of(recorded['scenario'])} is not in {kubelet.policies}"
    unlike = [text for text in explanation.remarks if text.startswith("These hints alone")]
    if unlike and not closest:
        yield f"{admission.pod.name}: {unlike[0]}"
    refused = admission.rejected and admission.reason == TOPOLOGY_AFFINITY
    if refused or (admission.likely == "rejected" and not admission.troubles):
        counts["by topology"] += 1
        if not closest and "do not show why" in explanation.answer:
            yield f"{admission.pod.name}: {explanation.answer}"


# --- logs that were cut or filtered ---------------------------------------------------------

Truth = Mapping[str, frozenset[str]]
"""Pods by name, and what became of each."""
WORDS = (
    "TopologyHint", "bestHint", "Hint", "Affinity", "opology", "cpumanager", "policy", "Allocate", "denied", "error",
    "scope_", "topology_manager.go", "policy_static.go", "kubelet.go", "event.go", "Event occurred", "sandbox",
)  # fmt: skip
"""What people look for in a log, or take out of it."""


def cuts(
    lines: Sequence[str], names: Sequence[str], chance: random.Random
) -> Iterator[tuple[str, list[str]]]:
    """What a log may be cut or filtered to: its name, and the lines that are left."""
    size = len(lines)
    for _ in range(3):
        at, to = sorted((chance.randrange(size + 1), chance.randrange(size + 1)))
        yield f"from line {at}", list(lines[at:])
        yield f"up to line {to}", list(lines[:to])
        yield f"without lines {at} to {to}", [*lines[:at], *lines[to:]]
    for word in chance.sample(WORDS, 4):
        yield f"grep {word}", [line for line in lines if word in line]
        yield f"grep -v {word}", [line for line in lines if word not in line]
    for name in chance.sample(list(names), min(2, len(names))):
        yield f"grep {name}", [line for line in lines if name in line]
        yield f"grep -v {name}", [line for line in lines if name not in line]
    for share in (0.9, 0.5):
        yield f"{share:.0%} of the lines", [line for line in lines if chance.random() < share]


def interleaved(logs: Sequence[Sequence[str]], chance: random.Random) -> list[str]:
    """Lines of several logs mixed, each in its own order."""
    queues = [list(reversed(lines)) for lines in logs]
    mixed = []
    while any(queues):
        mixed.append(chance.choice([queue for queue in queues if queue]).pop())
    return mixed


def untrue(lines: Sequence[str], truth: Truth, policy: str) -> Iterator[str]:
    """What is called certain of a log that was cut, and is wrong."""
    found, kubelets, _ = admissions_in(framed("plain", lines))
    for one in found:
        known = truth.get(one.pod.name)
        if one.verdict != UNFINISHED and known is not None and one.verdict not in known:
            yield f"{one.pod.name}: {one.verdict}, and it was {', '.join(sorted(known))}"
        if one.verdict == UNFINISHED:
            answer = explain_admission(one, kubelets.of(one.origin), Repeats()).answer
            if not answer.startswith(("Not decided", "Probably")):
                yield f"{one.pod.name}: {answer}"
    for kubelet in kubelets.all:
        if policy not in kubelet.policies:
            yield f"policy {kubelet.policies}, and it was {policy}"


def cut_recording(recorded: Data, style: Style, chance: random.Random, counts: Counter[str]) -> list[str]:
    """What is wrongly certain once the log of a scenario was cut."""
    policy = policy_of(recorded["scenario"])
    steps = [(pod, came) for pod, came in steps_of(recorded) if complete(came)]
    verdicts: dict[str, set[str]] = {}
    for pod, came in steps:
        verdict = "admitted" if came["admitted"] else "rejected"
        verdicts.setdefault(pod["metadata"]["name"], set()).add(verdict)
    truth = {name: frozenset(known) for name, known in verdicts.items()}
    lines = written(steps, style, chance.choice(["", policy]))
    problems = []
    for name, left in cuts(lines, list(truth), chance):
        counts["logs that were cut"] += 1
        problems += [f"{name}: {problem}" for problem in untrue(left, truth, policy)]
    return problems


def written_as(scenario: Data) -> tuple[Style, ...]:
    """Styles of releases that merge as the one of the recording does."""
    release = tuple(int(part) for part in scenario["kubernetes"].lstrip("v").split(".")[:2])
    equal = release >= (1, 24)
    scoped = scenario["kubelet"].get("topologyManagerScope") == "pod"
    return tuple(
        style
        for style in STYLES
        if (style.release >= (1, 24)) == equal and (style.release >= (1, 20) or not scoped)
    )


def recordings(
    paths: Sequence[str], most: int | None = None
) -> Iterator[tuple[str, list[str], Counter[str]]]:
    """Every recorded scenario, each in one style and one frame of those there are."""
    for path in trace_files(paths):
        for number, line in enumerate(trace_lines(path)):
            if most is not None and number >= most:
                break
            recorded = json.loads(line)
            scenario = recorded["scenario"]
            if "error" in recorded["result"] or policy_of(scenario) == "none":
                continue
            chance = random.Random(f"{path.name} {number}")
            style, frame = chance.choice(written_as(scenario)), chance.choice(list(FRAMES))
            if style.klog_json and frame in (
                "docker, broken lines",
                "containerd, broken lines",
                "journal json-pretty",
            ):
                frame = "plain"  # a JSON line that is broken says less than its parts
            counts: Counter[str] = Counter()
            policy = chance.choice(["", policy_of(scenario)])
            problems = compare(recorded, style, frame, counts, policy)
            problems += cut_recording(recorded, style, chance, counts)
            yield f"{path.name} {scenario['id']} {style} {frame}", problems, counts


def main() -> int:
    """Read everything there is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", default=str(SHARED))
    parser.add_argument("--traces", action="append", default=[], metavar="FILE|DIR")
    parser.add_argument("--most", type=int, help="scenarios of each file")
    options = parser.parse_args()
    seen = wrong = 0
    for log, problems in samples(Path(options.folder)):
        seen += 1
        wrong += bool(problems)
        sys.stdout.write(f"{log.name}: {'as it should be' if not problems else ''}\n")
        sys.stdout.writelines(f"  {problem}\n" for problem in problems)
    total: Counter[str] = Counter()
    scenarios = unlike = 0
    for name, problems, counts in recordings(options.traces, options.most):
        scenarios += 1
        total += counts
        if problems:
            unlike += 1
            if unlike <= SHOWN:
                sys.stdout.write(f"{name}\n")
                sys.stdout.writelines(f"  {problem[:600]}\n" for problem in problems[:3])
    if options.traces:
        told = ", ".join(f"{count:,} {what}" for what, count in sorted(total.items()))
        sys.stdout.write(
            f"{scenarios - unlike:,} of {scenarios:,} recorded scenarios read back alike ({told})\n"
        )
    if not seen and not scenarios:
        sys.stderr.write(f"no samples in {options.folder}\n")
        return 2
    return 1 if wrong or unlike else 0


if __name__ == "__main__":
    sys.exit(main())
