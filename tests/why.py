"""Is every refusal explained? ``python -m tests.why FILE|DIR…`` explains each and tries every suggestion.

Walks recorded scenarios.  For every pod that is refused, a cause must be named; and every suggestion is carried
out as a person would, on the files: the pod's manifest and the kubelet's configuration are patched, pods are
removed, the kubelet restarts; then the scenario is replayed up to there, and the pod must be admitted, also by
the sums of all requests, and on an idle machine.  Of a suggestion with several edits none can be left out, and
no number can be nearer to what was asked for.

Exit status: 0 all is well, 1 something is not, 2 nothing to look at.
"""

import argparse
import json
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from numawise.codec.checkpoint.look import look
from numawise.codec.document import Document
from numawise.codec.kubelet.config import decode_kubelet_config
from numawise.codec.machine import devices_from, machine_from
from numawise.codec.pod import pod_from
from numawise.codec.workload import decode_pods
from numawise.engine.admit import Admitted, Crashed
from numawise.engine.predicates import insufficient
from numawise.engine.predicates import judged as judged_requests
from numawise.engine.state import NodeState
from numawise.errors import InputError
from numawise.explain.case import (
    ExplainCase,
    acceptable,
    admitted,
    case_of,
    created_again,
    healed,
    idle,
    with_pod,
    without,
)
from numawise.explain.change import page_size, written
from numawise.explain.explain import explain
from numawise.explain.free import is_memory
from numawise.explain.start import explain_refusal
from numawise.machine.model import DevicePlugin, Machine
from numawise.node.node import Files, boot
from numawise.node.replay import replay
from numawise.node.state.change import folder_after
from numawise.node.state.folder import Against, StateFile, StateFolder
from numawise.node.state.repair import repair
from numawise.node.state.repair_request import RepairRequest
from numawise.quantity import Quantity
from numawise.results.explanation import CRASHED, REJECTED, Explanation, Patch, Suggestion, suggestion_data
from numawise.rules.check import Refusal
from numawise.rules.versions import REFERENCE, Version, parse_version
from tests.fidelity import trace_files, trace_lines

Data = dict[str, Any]
SHOWN = 5


# --- the refused pods of a scenario --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Refused:
    """A pod that a recorded scenario has refused."""

    at: int
    """Number of the step."""
    manifest: Data
    case: ExplainCase
    readmitted: bool


def refused_in(scenario: Mapping[str, Any]) -> tuple[Refused, ...]:
    """Every pod that is refused, or that crashes the kubelet, in a scenario."""
    return tuple(_Walk(scenario).run())


class _Walk:
    """A scenario step by step, with the case of every refused pod."""

    def __init__(self, scenario: Mapping[str, Any]) -> None:
        self.machine = machine_from(scenario["machine"])
        self.kubelet = scenario.get("kubelet") or {}
        self.steps = scenario.get("steps") or ()
        self.version = parse_version(scenario["kubernetes"]) if "kubernetes" in scenario else REFERENCE
        self.plugins = {plugin.resource: plugin for plugin in self.machine.plugins}
        self.files = Files()
        self.manifests: dict[str, Data] = {}
        self.ended = False
        self.not_started: list[NotStarted] = []

    def run(self) -> Iterator[Refused]:
        if not self.booted(-1, None):
            return
        self.node.plugins_registered(self.plugins.values())
        for at, step in enumerate(self.steps):
            ((name, argument),) = step.items()
            if name == "add":
                self.manifests[pod_from(argument).uid] = argument
                yield from self.admitted(at, argument)
            elif name == "restart":
                yield from self.restarted(at, argument)
            elif name == "remove":
                self.node.remove(argument)
            elif name == "reconcile":
                self.node.reconcile()
            else:
                for resource, devices in argument.items():
                    known = self.plugins.get(resource, DevicePlugin(resource, ()))
                    plugin = replace(known, devices=devices_from(devices))
                    self.plugins[resource] = plugin
                    self.node.devices_changed(resource, plugin.devices)
            if self.ended:
                return

    def booted(self, at: int, before: NodeState | None) -> bool:
        texts = dict(self.files.texts)
        node = boot(self.machine, self.kubelet, self.files, before, version=self.version)
        if isinstance(node, Refusal):
            self.not_started.append(NotStarted(at, self.machine, self.kubelet, texts, self.version, node))
            return False
        node.predicates = False  # the managers alone were recorded
        self.node = node
        return True

    def admitted(self, at: int, manifest: Data, *, again: bool = False) -> Iterator[Refused]:
        case = case_of(self.node, pod_from(manifest))
        decision = self.node.admit(case.pod)
        self.ended = isinstance(decision, Crashed)
        if not isinstance(decision, Admitted):
            yield Refused(at, manifest, case, again)
        elif not again:
            self.node.start(case.pod, decision)

    def restarted(self, at: int, argument: Mapping[str, Any]) -> Iterator[Refused]:
        if "machine" in argument:
            self.machine = machine_from(argument["machine"])
            self.plugins = {plugin.resource: plugin for plugin in self.machine.plugins}
        self.kubelet = argument.get("kubelet", self.kubelet)
        before = self.node.state
        self.ended = not self.booted(at, before)
        if self.ended:
            return
        late = argument.get("plugins") == "after-pods"
        if not late:
            self.node.plugins_registered(self.plugins.values())
        found: list[Refused] = []
        for uid in before.active:
            found += self.admitted(at, self.manifests[uid], again=True)
            if self.ended:
                yield from found
                return
        if late:
            self.node.plugins_registered(self.plugins.values())
        self.node.sources_ready()
        for one in found:
            yield replace(one, case=replace(one.case, after=self.node.state))


# --- kubelets that do not start ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NotStarted:
    """A kubelet that does not start, or not again."""

    at: int
    """Number of the step; -1: at the beginning."""
    machine: Machine
    kubelet: Data
    files: dict[str, str]
    version: Version
    refusal: Refusal

    def explained(self) -> Explanation | None:
        """Why; None: the configuration cannot even be read."""
        config = decode_kubelet_config(self.kubelet, self.version)
        if isinstance(config, Refusal):
            return None
        return explain_refusal(self.refusal, self.machine, config, Files(dict(self.files)), self.version)

    def carried_out(self, suggestion: Suggestion) -> str:
        """What goes wrong when a suggestion is followed; '' when the kubelet starts."""
        told = suggestion_data(suggestion)
        files = {name: text for name, text in self.files.items() if name not in told.get("delete", ())}
        if told.get("repair"):
            files = self._repaired(files, told["repair"])
        kubelet = patched(self.kubelet, told.get("kubelet", ()))
        node = boot(self.machine, kubelet, Files(files), version=self.version)
        return f"{node.stage}: {node.message}" if isinstance(node, Refusal) else ""

    def _repaired(self, texts: Mapping[str, str], options: Sequence[str]) -> dict[str, str]:
        """State files after ``numawise state repair`` with these options."""
        files = (StateFile(name, Path(name), text.encode(), look(name, text)) for name, text in texts.items())
        folder = StateFolder(Path(), tuple(files))
        flags = {option[2:].replace("-", "_"): True for option in options if " " not in option}
        drop = tuple(option.removeprefix("--drop-pod ") for option in options if " " in option)
        config = decode_kubelet_config(self.kubelet, self.version)
        assert not isinstance(config, Refusal)
        change = repair(
            folder, RepairRequest(drop=drop, **flags), Against(self.machine, config, None, self.version)
        )
        assert not change.refused
        return folder_after(folder, change).texts


# --- carrying out a suggestion -------------------------------------------------------------------


def patched(value: Any, patches: Iterable[Data]) -> Any:
    """A copy of a document after a JSON Patch (RFC 6902, as far as it is used)."""
    value = json.loads(json.dumps(value))
    for patch in patches:
        *steps, last = [part.replace("~1", "/").replace("~0", "~") for part in patch["path"].split("/")[1:]]
        target = _at(value, steps)
        if patch["op"] == "remove":
            del target[_key(target, last)]
            continue
        new = patch["value"]
        if isinstance(target, list) and patch["op"] != "replace":
            target.insert(len(target) if last == "-" else int(last), new)
        else:
            if patch["op"] == "replace":
                target[_key(target, last)]  # it must be there
            target[_key(target, last)] = new
    return value


def _at(value: Any, steps: Iterable[str]) -> Any:
    for step in steps:
        value = value[_key(value, step)]
    return value


def _key(target: Any, step: str) -> Any:
    return int(step) if isinstance(target, list) else step


def carried_out(scenario: Data, refused: Refused, suggestion: Suggestion) -> str:
    """What goes wrong when a suggestion is followed; '' when the pod is admitted."""
    told = suggestion_data(suggestion)
    steps = list(scenario["steps"][: refused.at + refused.readmitted])
    pod = patched(refused.manifest, told.get("pod", ()))
    try:
        decode_pods(Document(refused.manifest))
    except InputError:
        pass  # what was recorded would not pass either
    else:
        try:
            decode_pods(Document(pod))
        except InputError as error:
            return f"the API server would refuse it: {error}"
    if refused.readmitted and not told.get("recreate"):
        return "a pod that runs cannot be changed"
    if refused.readmitted and refused.case.after is None:  # the kubelet crashed: without the pod it comes up
        steps.insert(refused.at, {"remove": refused.case.pod.uid})
    if told.get("recreate"):
        pod = patched(pod, [{"op": "add", "path": "/metadata/uid", "value": f"{refused.case.pod.uid}-new"}])
        if not refused.readmitted:
            steps.append({"remove": refused.case.pod.uid})
    before = len(steps)
    if "kubelet" in told:
        steps.append({"restart": {"kubelet": patched(_kubelet(scenario, before), told["kubelet"])}})
    steps += [{"remove": uid} for uid in told.get("remove", ())]
    steps += [{"devices": {name: _well(scenario, before, name)}} for name in told.get("heal", ())]
    steps.append({"add": pod})
    result = replay({**scenario, "steps": steps})
    return _problem(result, before, len(steps))


def _kubelet(scenario: Data, before: int) -> Data:
    kubelet = scenario.get("kubelet") or {}
    for step in scenario["steps"][:before]:
        kubelet = step.get("restart", {}).get("kubelet", kubelet)
    return kubelet


def _well(scenario: Data, before: int, resource: str) -> list[Data]:
    """The devices that a plugin last listed, all of them healthy."""
    devices = scenario["machine"]["devices"][resource]["devices"]
    for step in scenario["steps"][:before]:
        devices = step.get("devices", {}).get(resource, devices)
        machine = step.get("restart", {}).get("machine", {}).get("devices", {})
        devices = machine.get(resource, {}).get("devices", devices)
    return [{key: value for key, value in one.items() if key != "unhealthy"} for one in devices]


def _problem(result: Data, before: int, count: int) -> str:
    told = result.get("steps", [])
    for step in told[before:]:
        if "error" in step:
            return f"the kubelet does not come up again: {step['error']}"
        for one in step.get("readmitted", ()):
            if not one.get("admitted"):
                return f"a pod that runs is refused: {one.get('reason')} {one.get('message')}"
    if len(told) < count:
        return "the scenario ends before"
    last = told[-1]
    if not last.get("admitted"):
        return f"refused: {last.get('reason')} {last.get('message', last.get('panic'))}"
    failed = [one["start_error"] for one in last.get("runtime", ()) if "start_error" in one]
    return f"a container does not start: {failed[0]}" if failed else ""


# --- is it minimal? ------------------------------------------------------------------------------


def edits_of(suggestion: Suggestion) -> list[Suggestion]:
    """A suggestion in single edits: an amount of a container, a setting, a pod, a resource to heal."""
    amounts: dict[object, tuple[Patch, ...]] = {}
    for patch in suggestion.pod:
        key = (patch.path[:-2], patch.path[-1]) if patch.path[-2] in ("requests", "limits") else patch.path
        amounts[key] = (*amounts.get(key, ()), patch)
    none = replace(suggestion, pod=(), kubelet=(), remove=(), heal=())
    return [
        *(replace(none, pod=patches) for patches in amounts.values()),
        *(replace(none, kubelet=(patch,)) for patch in suggestion.kubelet),
        *(replace(none, remove=(uid,)) for uid in suggestion.remove),
        *(replace(none, heal=(resource,)) for resource in suggestion.heal),
    ]


def together(edits: Sequence[Suggestion]) -> Suggestion:
    """Single edits as one suggestion."""
    return replace(
        edits[0],
        pod=tuple(patch for one in edits for patch in one.pod),
        remove=tuple(uid for one in edits for uid in one.remove),
        heal=tuple(resource for one in edits for resource in one.heal),
    )


def nearer(refused: Refused, edit: Suggestion) -> Suggestion | None:
    """The same edit one step nearer to what was asked for; None: that would be no edit, or it has no steps."""
    if not edit.pod or edit.pod[0].op != "replace" or edit.pod[0].path[-2] not in ("requests", "limits"):
        return None
    steps = [str(step) for step in edit.pod[0].path]
    before, after = Quantity.parse(str(_at(refused.manifest, steps))), Quantity.parse(str(edit.pod[0].value))
    resource = steps[-1]
    if resource == "cpu":
        rules = refused.case.rules
        step = refused.case.machine.layout.threads_per_core if rules.cpu_options.full_cores else 1
    else:
        step = page_size(resource) if is_memory(resource) else 1
    value = after.value + (step if after.value < before.value else -step)
    if not after.whole or (value - before.value) * (after.value - before.value) <= 0:
        return None
    return replace(edit, pod=tuple(replace(one, value=str(written(value, resource))) for one in edit.pod))


def followed(refused: Refused, suggestion: Suggestion) -> ExplainCase:
    """The case after a suggestion that leaves the kubelet alone."""
    case = refused.case
    if suggestion.recreate and case.again:
        case = created_again(case)
    pod = pod_from(patched(refused.manifest, suggestion_data(suggestion).get("pod", ())))
    case = healed(without(case, *suggestion.remove), suggestion.heal)
    return with_pod(case, replace(pod, uid=case.raw.uid))


def fits(case: ExplainCase) -> bool:
    """True when all requests together are no more than the node has."""
    node = replace(case.node, predicates=True)
    sums = node.sums(node.used(case.pod.uid))
    return sums is not None and not insufficient(case.rules, sums, judged_requests(case.rules, case.pod))


def judged_otherwise(refused: Refused, suggestion: Suggestion) -> str:
    """Which other check of ours refuses a suggestion; '' when none does."""
    if suggestion.kubelet or suggestion.node:
        return ""
    case = followed(refused, suggestion)
    before = followed(refused, replace(suggestion, pod=(), remove=(), heal=()))
    if fits(before) and not fits(case):
        return "the sums do not hold"
    alone = idle(case)
    fine = admitted(alone) or admitted(healed(alone, alone.state.devices.plugins))
    return "" if fine else "not admitted on an idle machine"


def not_minimal(refused: Refused, suggestion: Suggestion) -> str:
    """What of a suggestion is not needed; '' when all of it is."""
    edits = edits_of(suggestion)
    if suggestion.kubelet or suggestion.node:
        return "several settings" if len(edits) > 1 else ""

    def enough(some: Sequence[Suggestion]) -> bool:
        case = followed(refused, together(some))
        return acceptable(case.pod) and admitted(case) and (fits(case) or not fits(refused.case))

    for at, edit in enumerate(edits):
        rest = [*edits[:at], *edits[at + 1 :]]
        if rest and enough(rest):
            return f"{suggestion_data(edit)} can be left out"
        other = nearer(refused, edit)
        if other is not None and enough([*edits[:at], other, *edits[at + 1 :]]):
            return f"{suggestion_data(other)} is enough"
    return ""


# --- judging -------------------------------------------------------------------------------------


@dataclass(slots=True)
class Tally:
    """What came of many refusals."""

    refused: int = 0
    unexplained: int = 0
    helped: int = 0
    not_started: int = 0
    started: int = 0
    outlooks: Counter[str] = field(default_factory=Counter)
    several: int = 0
    """Suggestions of several edits."""
    excess: int = 0
    """Suggestions of which something is not needed."""
    first: Counter[str] = field(default_factory=Counter)
    """First suggestions, by what they leave alone."""
    suggestions: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        self.refused += other.refused
        self.unexplained += other.unexplained
        self.helped += other.helped
        self.not_started += other.not_started
        self.started += other.started
        self.outlooks += other.outlooks
        self.several += other.several
        self.excess += other.excess
        self.first += other.first
        self.suggestions += other.suggestions
        self.failed += other.failed
        self.problems += other.problems


def explained(found: Explanation) -> bool:
    """True when a cause is named in a sentence of its own."""
    named = all(name.lower() in found.answer.lower() for name in found.resources)
    return (
        found.verdict in (REJECTED, CRASHED) and len(found.answer) > 20 and named and "\n" not in found.answer
    )


def first_of(suggestions: Sequence[Suggestion]) -> Counter[str]:
    """What the first suggestion leaves alone."""
    found: Counter[str] = Counter()
    if not suggestions:
        return found
    one = suggestions[0]
    edits = edits_of(one)
    found["one number"] = len(edits) == 1 and bool(one.pod)
    found["the pod as it is"] = not one.pod
    found["one edit"] = len(edits) <= 1
    found["all devices"] = not any("/" in str(patch.path[-1]) for patch in one.pod)
    found["no restart of the kubelet"] = not one.kubelet
    return found


def judged(line: bytes) -> Tally:
    """Explain every refusal of one scenario, and carry out every suggestion."""
    scenario = json.loads(line)
    scenario = scenario.get("scenario", scenario)
    tally = Tally()
    walk = _Walk(scenario)
    for refused in walk.run():
        found = explain(refused.case)
        where = f"{scenario['id']} step {refused.at} pod {refused.case.pod.name}"
        tally.refused += 1
        if not explained(found):
            tally.unexplained += 1
            tally.problems.append(f"{where}: not explained: {found.answer}")
        tally.helped += bool(found.suggestions)
        tally.outlooks[found.outlook] += 1
        tally.first += first_of(found.suggestions)
        for suggestion in found.suggestions:
            tally.suggestions[suggestion.kind] += 1
            tally.several += len(edits_of(suggestion)) > 1
            unneeded = not_minimal(refused, suggestion)
            if unneeded:
                tally.excess += 1
                tally.problems.append(f"{where}: {suggestion.text}: {unneeded}")
            problem = carried_out(scenario, refused, suggestion)
            problem = problem or judged_otherwise(refused, suggestion)
            if problem:
                tally.failed[suggestion.kind] += 1
                tally.problems.append(f"{where}: {suggestion.text}: {problem}")
    for one in walk.not_started:
        told = one.explained()
        if told is None:
            continue
        tally.not_started += 1
        tally.started += bool(told.suggestions)
        for suggestion in told.suggestions:
            tally.suggestions[suggestion.kind] += 1
            problem = one.carried_out(suggestion)
            if problem:
                tally.failed[suggestion.kind] += 1
                tally.problems.append(f"{scenario['id']}: {suggestion.text}: {problem}")
    return tally


def report(path: Path, jobs: int, every: int) -> Tally:
    """Judge one file and print what came of it."""
    total = Tally()
    lines = (line for number, line in enumerate(trace_lines(path)) if number % every == 0)
    if jobs == 1:
        for line in lines:
            total.add(judged(line))
    else:
        with multiprocessing.get_context("fork").Pool(jobs) as pool:
            for one in pool.imap(judged, lines, chunksize=4):
                total.add(one)
    kinds = ", ".join(f"{kind} {count}" for kind, count in total.suggestions.most_common())
    _print(f"{path}")
    _print(f"  refused     {total.refused:6}")
    _print(f"  explained   {total.refused - total.unexplained:6}")
    _print(f"  helped      {total.helped:6}   with at least one suggestion")
    _print(f"  not started {total.not_started:6}   kubelets; {total.started} of them with a suggestion")
    tried = sum(total.suggestions.values())
    _print(f"  suggestions {tried:6}   {kinds}")
    _print(f"  admitted    {tried - sum(total.failed.values()):6}   when carried out")
    _print(f"  several     {total.several:6}   suggestions of several edits")
    _print(f"  not minimal {total.excess:6}   of all suggestions")
    for problem in total.problems[:SHOWN]:
        _print(f"  ! {problem}")
    return total


def main(arguments: Sequence[str]) -> int:
    """Judge all files."""
    parser = argparse.ArgumentParser(prog="python -m tests.why", description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", default=[str(Path(__file__).parent / "recorded" / "v1.36.4")])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="take each Nth scenario only")
    options = parser.parse_args(arguments)
    files = trace_files(options.files)
    if not files or not all(path.is_file() for path in files):
        sys.stderr.write(f"no recorded scenarios in {', '.join(options.files)}\n")
        return 2
    total = Tally()
    for path in files:
        total.add(report(path, options.jobs, options.every))
    tried = sum(total.suggestions.values())
    _print(
        f"{total.refused} refusals, {total.refused - total.unexplained} explained, {total.helped} with help; "
        f"{tried} suggestions, {tried - sum(total.failed.values())} admitted; {total.several} of several edits, "
        f"{total.excess} not minimal"
    )
    _print(", ".join(f"{count} {word or 'not known'}" for word, count in total.outlooks.most_common()))
    for word, count in total.first.most_common():
        _print(f"  first suggestion: {word:26} {100 * count / max(1, total.helped):5.1f} %")
    return 1 if total.problems else 0


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def cases(lines: Iterable[bytes]) -> Iterator[ExplainCase]:
    """The refused pods of some scenarios."""
    for line in lines:
        scenario = json.loads(line)
        for refused in refused_in(scenario.get("scenario", scenario)):
            yield refused.case


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
