"""Lines of kubelets' logs: frames, heads, messages of every release, and what is damaged."""

import gzip
import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numawise.codec.kubeletlog import Event
from numawise.codec.kubeletlog.fields import Fields, PrintedField, parse_message, pod_of, pods_of
from numawise.codec.kubeletlog.framing import unframe
from numawise.codec.kubeletlog.hints import printed_map
from numawise.engine.hint import Family, Hint
from numawise.results.log import PodRef, between, stamp_text
from numawise.sets import NumaSet, format_ids
from tests.logs import read
from tests.logwriting import FRAMES, framed

LOGS = Path(__file__).parents[2] / "recorded" / "kubelet-logs"
HEAD = "I0815 22:24:53.410301    1021 "


def notation(family: Family | None) -> str:
    """``1! 0-1`` as people write hints; ``any`` for no preference, ``none`` for no way."""
    if family is None:
        return "any"
    return " ".join(f"{format_ids(mask)}{'!' * liked}" for mask, liked in family) or "none"


def hint(text: str) -> Hint:
    numa = text.rstrip("!")
    return Hint(None if numa == "nil" else NumaSet.parse(numa), text.endswith("!"))


def event(line: str) -> Event | None:
    """What one line says."""
    found, _ = read(f"{line}\n".encode())
    return found[0] if found else None


def said(line: str) -> Event:
    found = event(line)
    assert found is not None, line
    return found


# --- frames ---------------------------------------------------------------------------------


def essence(events: list[Event]) -> list[Event]:
    return [replace(one, line=0, origin=replace(one.origin, host=""), time=None) for one in events]


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("name", ["incident", "two-gpus-16-cpus"])
def test_frames_change_nothing(frame: str, name: str) -> None:
    lines = [line.partition("]: ")[2] for line in (LOGS / f"{name}.log").read_text().splitlines()]
    expected, tally = read("".join(f"{line}\n" for line in lines).encode())
    assert tally.known == len(lines)
    found, tally = read(framed(frame, lines), 777)
    assert essence(found) == essence(expected)
    assert tally.known == len(lines)


@pytest.mark.parametrize(("prefix", "host", "year"), [
    pytest.param("Aug 15 22:24:53 node8 kubelet[1021]: ",                    "node8",            None, id="journal short"),
    pytest.param("Aug 15 22:24:53.123456 node8 kubelet[1021]: ",             "node8",            None, id="short-precise"),
    pytest.param("2024-08-15T22:24:53+0800 node8 kubelet[1021]: ",           "node8",            2024, id="short-iso"),
    pytest.param("2024-08-15T22:24:53.123456+08:00 node8 kubelet[1021]: ",   "node8",            2024, id="rsyslog"),
    pytest.param("Thu 2024-08-15 22:24:53 CST node8 kubelet[1021]: ",        "node8",            2024, id="short-full"),
    pytest.param("[ 1234.567890] node8 kubelet[1021]: ",                     "node8",            None, id="short-monotonic"),
    pytest.param("1723731893.410301 node8 kubelet[1021]: ",                  "node8",            None, id="short-unix"),
    pytest.param("Aug 15 22:24:53 kubelet[1021]: ",                          "",                 None, id="without host"),
    pytest.param("<30>Aug 15 22:24:53 node8 k3s[1021]: ",                    "node8",            None, id="k3s"),
    pytest.param("node8 Aug 15 22:24:53.1 node8 kubenswrapper[1021]: ",      "node8",            None, id="oc adm node-logs"),
    pytest.param("2024-08-15T22:24:53.410301123Z stderr F ",                 "",                 2024, id="containerd"),
    pytest.param("2024-08-15T22:24:53.410301123+08:00 stdout F ",            "",                 2024, id="containerd, stdout"),
    pytest.param("[pod/kubelet-a/kubelet] ",                                 "pod/kubelet-a/kubelet", None, id="kubectl"),
    pytest.param("node8 | ",                                                 "node8",            None, id="node name"),
    pytest.param("node8: ",                                                  "node8",            None, id="node name, colon"),
    pytest.param("kubelet.log:123:",                                         "kubelet.log",      None, id="grep"),
    pytest.param("123:",                                                     "",                 None, id="grep -n"),
    pytest.param("    MESSAGE=",                                             "",                 None, id="journal verbose"),
    pytest.param("",                                                         "",                 None, id="plain"),
])  # fmt: skip
def test_prefix(prefix: str, host: str, year: int | None) -> None:
    found = unframe(f'{prefix}{HEAD}scope.go:1] "x"')
    assert found is not None
    assert (found.host, found.year, found.body) == (host, year, f'{HEAD}scope.go:1] "x"')


@pytest.mark.parametrize("line", [
    "", "hello", "{}", '{"a":1}', "[1,2]", '{"MESSAGE": "hello"}', '{"log": null}', '{"MESSAGE": [1,2,"x"]}', "{" * 5000,
    "I0815 22:24:53.410301", "X0815 22:24:53.410301    1021 scope.go:1] x", '{"msg": 7}',
])  # fmt: skip
def test_no_line_of_a_klog(line: str) -> None:
    found = unframe(line)
    assert found is None or not found.body


def test_time_and_process() -> None:
    line = (
        f'2024-08-15T22:24:53+0800 node8 kubelet[9]: {HEAD}topology_manager.go:215] "Topology Admit Handler"'
    )
    found = said(line)
    assert found.time == datetime.fromisoformat("2024-08-15T22:24:53.410301")
    assert (found.origin.host, found.origin.pid) == ("node8", 1021)
    klog_json = said(
        '{"ts":1723731893410.301,"caller":"topologymanager/topology_manager.go:215","msg":"Topology Admit Handler","v":0}'
    )
    assert klog_json.time == datetime.fromisoformat("2024-08-15T14:24:53.410301")


def test_a_year_that_is_not_told() -> None:
    first, last = (
        said(f'I{day} topology_manager.go:1] "Topology Admit Handler"').time
        for day in ("1231 23:59:50.000000 1", "0101 00:00:10.000000 1")
    )
    assert first is not None
    assert last is not None
    assert between(first, last).total_seconds() == 20
    assert stamp_text(first) == "Dec 31 23:59:50"
    assert said('I0230 00:00:00.000000 1 topology_manager.go:1] "Topology Admit Handler"').time is None


# --- messages -------------------------------------------------------------------------------


OLD = "'p_ns(9388acc6-a396-4f03-a353-ce153da46aaf)'"
WHO = 'pod="ns/p" containerName="c"'


@pytest.mark.parametrize(("message", "hints", "since", "until"), [
    pytest.param("scope.go:1] [topologymanager] TopologyHints for pod 'p', container 'c': map[cpu:[{01 true} {11 false}]]",
                 {"cpu": "0! 0-1"}, (1, 16), (1, 19), id="1.19"),
    pytest.param(f"scope.go:1] [topologymanager] TopologyHints for pod {OLD}, container 'c': map[cpu:[{{10 true}}] memory:[{{1000 true}}]]",
                 {"cpu": "1!", "memory": "3!"}, (1, 20), (1, 20), id="1.20"),
    pytest.param(f"scope.go:1] [topologymanager] TopologyHints for pod {OLD}, container 'c': map[]",
                 {}, (1, 20), (1, 20), id="1.20, none"),
    pytest.param(f'scope.go:1] "TopologyHints" hints=map[cpu:[{{NUMANodeAffinity:01 Preferred:true}} {{NUMANodeAffinity:11 Preferred:false}}]] {WHO}',
                 {"cpu": "0! 0-1"}, (1, 21), (1, 27), id="1.21 to 1.27"),
    pytest.param(f'scope.go:1] "TopologyHints" hints=map[a.b/c:[] cpu:[{{NUMANodeAffinity:<nil> Preferred:true}}]] {WHO}',
                 {"a.b/c": "none", "cpu": "any"}, (1, 21), (1, 27), id="1.21 to 1.27, empty and any"),
    pytest.param(f'scope.go:1] "TopologyHints" hints={{"cpu":[{{"NUMANodeAffinity":2,"Preferred":true}}],"x/y":null,"z":[]}} {WHO}',
                 {"cpu": "1!", "x/y": "any", "z": "none"}, (1, 28), (99, 0), id="1.28 and later"),
    pytest.param(f'scope.go:1] "TopologyHints" hints=null {WHO}',
                 {}, (1, 28), (99, 0), id="nothing"),
    pytest.param(f'scope.go:1] "TopologyHints" hints={{"cpu":[{{"NUMANodeAffinity":255,"Preferred":true}}]}} {WHO} operation="add"',
                 {"cpu": "0-7!"}, (1, 37), (99, 0), id="1.37"),
    pytest.param(f'scope.go:1] "TopologyHints" hints={{"cpu":[{{"NUMANodeAffinity":-1,"Preferred":true}},{{"x":1}},{{"NUMANodeAffinity":true,"Preferred":true}}]}} {WHO}',
                 {"cpu": "none"}, (1, 28), (99, 0), id="no hints at all"),
])  # fmt: skip
def test_hints(message: str, hints: dict[str, str], since: tuple[int, int], until: tuple[int, int]) -> None:
    found = said(HEAD + message)
    assert found.kind == "hints"
    assert {name: notation(family) for name, family in found.hints.items()} == hints
    assert (found.pod.name, found.container, found.releases) == ("p", "c", (since, until))
    assert found.structured == message.startswith('scope.go:1] "')


UID = "9388acc6-a396-4f03-a353-ce153da46aaf"
OBJECT = f'v1.ObjectReference{{Kind:"Pod", Namespace:"ns", Name:"p", UID:"{UID}", APIVersion:"v1", ResourceVersion:"7", FieldPath:""}}'
LOCALITY = "Resources cannot be allocated with Topology locality"
PATCH = f'{{\\"status\\":{{\\"message\\":\\"Pod was rejected: {LOCALITY}\\",\\"phase\\":\\"Failed\\",\\"reason\\":\\"TopologyAffinityError\\"}}}}'


@pytest.mark.parametrize(("line", "expected"), [
    # the Topology Manager
    ("t.go:1] [topologymanager] Topology Admit Handler",                                    {"kind": "admit_start"}),
    ('t.go:1] "Topology Admit Handler"',                                                    {"kind": "admit_start"}),
    (f't.go:1] "Topology Admit Handler" podUID="{UID}" podNamespace="ns" podName="p"',      {"kind": "admit_start", "pod": PodRef("p", "ns", UID)}),
    ('t.go:1] "Topology manager admission check" pod="ns/p"',                               {"kind": "admit_start", "pod": PodRef("p", "ns")}),
    (f"t.go:1] [cpumanager] TopologyHints generated for pod {OLD} : [{{01 true}}]",         {"kind": "provider_hints", "provider": "cpu", "container": None}),
    (f't.go:1] "TopologyHints generated" {WHO} cpuHints=[{{NUMANodeAffinity:01 Preferred:true}}]', {"kind": "provider_hints", "container": "c"}),
    ("t.go:1] [topologymanager] Hint Provider has no preference for NUMA affinity with any resource", {"kind": "no_preference", "resource": ""}),
    ("t.go:1] [topologymanager] Hint Provider has no preference for NUMA affinity with resource 'x/y'", {"kind": "no_preference", "resource": "x/y"}),
    ('t.go:1] "Hint Provider has no possible NUMA affinities for resource" resource="x/y"', {"kind": "impossible", "resource": "x/y"}),
    ('t.go:1] "ContainerTopologyHint" bestHint={"NUMANodeAffinity":null,"Preferred":false}', {"kind": "merged_hint", "hint": hint("nil"), "scope": "container"}),
    ('t.go:1] "PodTopologyHint" bestHint={NUMANodeAffinity:11 Preferred:true}',             {"kind": "merged_hint", "hint": hint("0-1!"), "scope": "pod"}),
    ("t.go:1] [topologymanager] PodTopologyHint: {<nil> false}",                            {"kind": "merged_hint", "hint": hint("nil"), "scope": "pod"}),
    (f"t.go:1] [topologymanager] Best TopologyHint for (pod: p_ns({UID}) container: c): {{01 true}}", {"kind": "best_hint", "pod": PodRef("p", "ns", UID), "container": "c", "hint": hint("0!")}),
    (f"t.go:1] [topologymanager] Best TopologyHint for (pod: p_ns({UID})): {{01 true}}",    {"kind": "best_hint", "pod": PodRef("p", "ns", UID), "container": None}),
    (f"t.go:1] [topologymanager] Topology Affinity for (pod: {UID} container: c): {{01 true}}", {"kind": "affinity", "pod": PodRef(uid=UID), "container": "c"}),
    (f"t.go:1] [topologymanager] Topology Affinity for Pod: {UID} are map[c:{{01 true}}]",  {"kind": "affinity", "pod": PodRef(uid=UID)}),
    (f't.go:1] "Topology Affinity" bestHint={{"NUMANodeAffinity":1,"Preferred":true}} {WHO}', {"kind": "affinity", "hint": hint("0!")}),
    (f'p.go:1] "Topology Affinity" {WHO} affinity={{"NUMANodeAffinity":1,"Preferred":true}}', {"kind": "allocating"}),
    (f't.go:1] "Pod Admit Result" Message="{LOCALITY}" pod="ns/p"',                         {"kind": "result", "message": LOCALITY, "reason": "TopologyAffinityError"}),
    # the verdict
    (f'k.go:1] "Pod admission denied" podUID="{UID}" pod="ns/p" reason="OutOfcpu" message="m"', {"kind": "denied", "reason": "OutOfcpu", "message": "m", "pod": PodRef("p", "ns", UID)}),
    (f"e.go:1] Event({OBJECT}): type: 'Warning' reason: 'Topology Affinity Error' Resources cannot be allocated with Topology Locality", {"kind": "rejected", "reason": "TopologyAffinityError", "pod": PodRef("p", "ns", UID)}),
    ('e.go:1] "Event occurred" object="ns/p" kind="Pod" apiVersion="v1" type="Warning" reason="SMTAlignmentError" message="m"', {"kind": "rejected", "reason": "SMTAlignmentError", "pod": PodRef("p", "ns")}),
    (f's.go:1] "Patch status for pod" pod="ns/p" podUID="{UID}" patch="{PATCH}"',           {"kind": "status", "reason": "TopologyAffinityError", "message": LOCALITY}),
    (f's.go:1] Patch status for pod "p_ns({UID})" with "{PATCH}"',                          {"kind": "status", "reason": "TopologyAffinityError", "pod": PodRef("p", "ns", UID)}),
    (f's.go:1] Status for pod "p_ns({UID})" updated successfully: (1, {{Phase:Failed Conditions:[] Message:Pod {LOCALITY} Reason:TopologyAffinityError NominatedNodeName: HostIP:}})', {"kind": "status", "message": LOCALITY}),
    ("p.go:1] Failed to admit pod p_ns(u) - Node didn't have enough resource: cpu, requested: 4000, used: 1, capacity: 2", {"kind": "status", "reason": "OutOfcpu"}),
    # allocation
    (f"p.go:1] [cpumanager] static policy: Allocate (pod: p_ns({UID}), container: c)",      {"kind": "allocating", "pod": PodRef("p", "ns", UID), "container": "c"}),
    (f'p.go:1] "Unable to allocate CPUs" err="not enough cpus available to satisfy request" {WHO} numCPUs=16', {"kind": "failed", "provider": "cpu", "container": "c"}),
    ('cpu_manager.go:1] "Allocate error" err="boom"',                                       {"kind": "failed", "provider": "cpu", "message": "boom"}),
    ('memory_manager.go:1] "Allocate error" err=<\n\tboom\n\tbang\n >',                     {"kind": "failed", "provider": "memory", "message": "boom\nbang"}),
    ("p.go:1] [cpumanager] allocateCpus: (numCPUs: 16, socket: 01)",                        {"kind": "cpus_wanted", "asked": 16}),
    (f'p.go:1] "Updated desired CPUSet" podUID="{UID}" containerName="c" cpuSet="2-3"',     {"kind": "cpus", "text": "2-3", "pod": PodRef(uid=UID)}),
    (f'p.go:1] [cpumanager] updated desired cpuset (pod: {UID}, container: c, cpuset: "2-3")', {"kind": "cpus", "text": "2-3", "container": "c"}),
    ('m.go:1] "Making allocation request for device plugin" devices=["a","b"] resourceName="x/y"', {"kind": "devices", "text": "a,b"}),
    ("m.go:1] Making allocation request for devices [a b] for device plugin x/y",           {"kind": "devices", "text": "a,b", "resource": "x/y"}),
    ("h.go:1] [devicemanager] Unable to generate topology hints: requested number of devices unavailable for 'x/y': requested: 2, available: 1", {"kind": "short", "asked": 2, "available": 1}),
    (f"h.go:1] [cpumanager] CPUs already allocated to (pod p_ns({UID}), container c) with different number than request: requested: 4, allocated: 2", {"kind": "short", "asked": 4, "available": 2, "text": "held"}),
    # the kubelet itself
    ("t.go:1] [topologymanager] Creating topology manager with restricted policy",          {"kind": "policy", "text": "restricted", "scope": "container"}),
    ("t.go:1] [topologymanager] Creating topology manager with restricted policy per pod scope", {"kind": "policy", "text": "restricted", "scope": "pod"}),
    ('t.go:1] "Creating topology manager with policy per scope" topologyPolicyName="restricted" topologyScopeName="pod" topologyPolicyOptions={"PreferClosestNUMA":true,"MaxAllowableNUMANodes":8}', {"kind": "policy", "text": "restricted", "scope": "pod", "message": "closest"}),
    ('t.go:1] "Creating topology manager with none policy"',                                {"kind": "policy", "text": "none"}),
    ('s.go:1] "Kubelet version" kubeletVersion="v1.28.3"',                                  {"kind": "release", "text": "v1.28.3"}),
    ('c.go:1] "Detected CPU topology" topology=&{NumCPUs:2 CPUDetails:map[0:{NUMANodeID:0 SocketID:0} 1:{NUMANodeID:3 SocketID:1}]}', {"kind": "machine", "numas": 0b1001}),
    # a pod's life
    ('k.go:1] "SyncLoop ADD" source="api" pods=["ns/p","ns/q"]',                            {"kind": "came", "pods": (PodRef("p", "ns"), PodRef("q", "ns"))}),
    ('k.go:1] "SyncLoop ADD" source="api" pods=[ns/p ns/q]',                                {"kind": "came", "pods": (PodRef("p", "ns"), PodRef("q", "ns"))}),
    (f'k.go:1] SyncLoop (ADD, "api"): "p_ns({UID}), q_ns(u)"',                              {"kind": "came", "pods": (PodRef("p", "ns", UID), PodRef("q", "ns", "u"))}),
    (f'c.go:1] Receiving a new pod "p_ns({UID})"',                                          {"kind": "came"}),
    (f's.go:1] "Pod was deleted and then recreated, skipping status update" pod="ns/p" oldPodUID="o" podUID="{UID}"', {"kind": "recreated", "pod": PodRef("p", "ns", UID), "pods": (PodRef("p", "ns", "o"),)}),
])  # fmt: skip
def test_messages(line: str, expected: dict[str, Any]) -> None:
    found = said(HEAD + line)
    assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize("line", [
    'e.go:1] "Event occurred" object="ns/p" kind="Pod" type="Warning" reason="FailedMount" message="m"',
    'e.go:1] "Event occurred" object="n1" kind="Node" type="Warning" reason="OutOfMemoryKilling" message="m"',
    'e.go:1] "Event occurred" object="ns/p" kind="Pod" type="Normal" reason="OutOfx" message="m"',
    's.go:1] "Patch status for pod" pod="ns/p" patch="{\\"status\\":{\\"phase\\":\\"Failed\\",\\"reason\\":\\"Evicted\\",\\"message\\":\\"The node was low\\"}}"',
    's.go:1] "Patch status for pod" pod="ns/p" patch="{broken"',
    's.go:1] "Kubelet version"',
    'c.go:1] "Allocate error"',
    "t.go:1] [topologymanager] RemoveContainer - Container ID: x",
    't.go:1] "TopologyHints and more"',
])  # fmt: skip
def test_messages_about_other_things(line: str) -> None:
    assert event(HEAD + line) is None


# --- parts of messages ----------------------------------------------------------------------


@pytest.mark.parametrize(("text", "expected"), [
    ('"m" a="x \\"y\\" \\n" b=1',             {"a": 'x "y" \n', "b": PrintedField("1")}),
    ('"m" a="\\u00e4\\x41\\101\\U0001f600"',  {"a": "äAA😀"}),
    ('"m" a={"b":["]}"]} c=true',             {"a": PrintedField('{"b":["]}"]}'), "c": PrintedField("true")}),
    ('"m" a=map[x:[{1 2}] y:[]] b=&{C:1 D:[]}', {"a": PrintedField("map[x:[{1 2}] y:[]]"), "b": PrintedField("&{C:1 D:[]}")}),
    ('"m" Baseline CPUSet="0-3"',             {"Baseline CPUSet": "0-3"}),
    ('"m" a=<\n\tx\n\ty\n > b="z"',           {"a": "x\ny", "b": "z"}),
    ('"m" a= b=""',                           {"a": PrintedField(""), "b": ""}),
])  # fmt: skip
def test_fields(text: str, expected: dict[str, object]) -> None:
    found = parse_message(text)
    assert found is not None
    message, fields = found
    assert message == "m"
    assert dict(fields.values) == expected
    assert not fields.cut


@pytest.mark.parametrize("text", ['"m', '"m" a="x', '"m" a={"b":', '"m" a=map[x:[{1', '"m" a=<\n\tx'])
def test_fields_that_are_cut_off(text: str) -> None:
    found = parse_message(text)
    assert found is not None
    assert found[1].cut


def test_pods() -> None:
    assert pod_of("ns/p") == PodRef("p", "ns")
    assert pod_of(f"p_ns({UID})") == PodRef("p", "ns", UID)
    assert pod_of(UID) == pod_of(f" {UID} ") == PodRef(uid=UID)
    assert pod_of("0123456789abcdef0123456789abcdef") == PodRef(uid="0123456789abcdef0123456789abcdef")
    assert pods_of(Fields({"pods": [{"name": "p", "namespace": "ns"}, "ns/q"]})) == (
        PodRef("p", "ns"),
        PodRef("q", "ns"),
    )
    assert PodRef("p").matches(PodRef("p", "ns", "u"))
    assert not PodRef("p", "ns").matches(PodRef("p", "other"))
    assert not PodRef("p").matches(PodRef(uid="u"))
    assert not PodRef("p", uid="u").matches(PodRef("p", uid="v"))


# --- what is damaged ------------------------------------------------------------------------


@pytest.mark.parametrize(("cut", "hints"), [
    ('{"cpu":[{"NUMANodeAffinity":2,"Preferred":true}],"memory":[{"NUMANodeAff', {"cpu": "1!"}),
    ('{"cpu":[{"NUMANodeAffinity":2,"Pref', {}),
    ("map[cpu:[{NUMANodeAffinity:10 Preferred:true}] memory:[{NUMANodeAffinity:01", {"cpu": "1!"}),
    ("map[cpu:[{NUMANodeAffinity:10 Preferred:true} {NUMANodeAffinity:1", {}),
])  # fmt: skip
def test_a_list_that_is_cut_off_counts_for_nothing(cut: str, hints: dict[str, str]) -> None:
    found = said(f'{HEAD}scope.go:1] "TopologyHints" hints={cut}')
    assert {name: notation(family) for name, family in found.hints.items()} == hints
    assert found.cut


def test_go_prints_hide_what_is_empty() -> None:
    told = printed_map("map[a/b:[] cpu:[{01 true}]]")
    assert told.unsure == {"a/b"}
    assert not told.cut


def test_lines_are_counted() -> None:
    text = (LOGS / "incident.log").read_text()
    lines = text.splitlines(keepends=True)
    mixed = "".join(line + "garbage\n" for line in lines)
    found, tally = read(mixed.encode(), 100)
    assert (tally.lines, tally.known) == (2 * len(lines), len(lines))
    assert [one.line for one in found] == [2 * one.line - 1 for one in read(text.encode())[0]]


@pytest.mark.parametrize("size", [1, 7, 64, 1000, 1 << 20])
def test_blocks_do_not_matter(size: int) -> None:
    data = (LOGS / "incident.log").read_bytes()
    assert read(data, size)[0] == read(data)[0]
    export = framed("journal export", [line.partition("]: ")[2] for line in data.decode().splitlines()])
    assert read(export, size)[0] == read(export)[0]


def test_an_endless_line_does_not_fill_memory() -> None:
    tally_size = 40 << 20
    found, tally = read(b"x" * tally_size, 1 << 20)
    assert not found
    assert tally.size == tally_size


LINES = gzip.decompress((LOGS / "run-1.36.4.log.gz").read_bytes()).splitlines()[715:1000]


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_damage_is_survived(data: st.DataObject) -> None:
    lines = data.draw(st.lists(st.sampled_from(LINES), min_size=1, max_size=12))
    frame = data.draw(st.sampled_from(list(FRAMES)))
    raw = bytearray(framed(frame, [line.decode() for line in lines]))
    for _ in range(data.draw(st.integers(0, 6))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at : at + data.draw(st.integers(0, 30))] = data.draw(st.binary(max_size=8))
    found, tally = read(bytes(raw), data.draw(st.integers(20, 5000)))
    assert tally.lines >= 0
    assert all(one.line <= tally.lines for one in found)
    assert json.dumps([one.kind for one in found])
