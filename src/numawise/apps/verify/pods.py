"""The containers of this node's pods, each against what the kubelet granted it: one look, by hand.

Rules kept here:

1. The judgement is that of the agent's watcher (``explain.pod_check``); a look by hand has no patience, so a
   container that is just being made may be caught between two states.
2. The API server is not asked: which container is which, the kubelet's links say.
3. What cannot be read is a remark; without any record there is nothing to compare with, and that is an error.
"""

from pathlib import Path

from numawise.codec.checkpoint import PLACES
from numawise.codec.document import Document
from numawise.codec.podresources import PodResources, pod_resources_of
from numawise.errors import ClusterError, HostError, InputError, quoted
from numawise.explain.drift import local_memory, weighed
from numawise.explain.grants import KubeletRecords, kubelet_records
from numawise.explain.placement import cpu_list
from numawise.explain.pod_check import ContainerCheck, NodeRecord, PodChecker
from numawise.host.kubelet import read_whole
from numawise.kube.podresources import SOCKET, ask
from numawise.machine.hardware import Hardware
from numawise.machine.locality import numa_of
from numawise.render.words import bytes_text, percent
from numawise.results.finding import Severity
from numawise.results.verification import Amounts, CheckedJob, JobGrant, Verdict
from numawise.sets import format_ids

ROOT = Path("/")


def check_pods(
    hardware: Hardware, kubelet_dir: str, wanted: str = "", root: Path = ROOT
) -> tuple[list[CheckedJob], tuple[str, ...]]:
    """The containers of all pods, or of one, given as ``NAMESPACE/NAME`` or by its name; and remarks."""
    records, remarks = read_records(kubelet_dir)
    answers, problem = _answers(kubelet_dir)
    checker = PodChecker.of(root)
    if checker is None:
        raise HostError("no control groups with the cpuset controller are below /sys/fs/cgroup")
    checks = checker.check(NodeRecord(hardware, records, answers))
    chosen = [check for check in checks if not wanted or _is(check, wanted)]
    if wanted and not chosen:
        pods = sorted({f"{check.grant.namespace}/{check.grant.pod}" for check in checks})
        raise InputError(
            f"no container of a pod {quoted(wanted)} runs here",
            advice=f"there are {', '.join(pods[:8]) or 'none at all'}",
        )
    jobs = [_job(hardware, checker, check) for check in sorted(chosen, key=lambda check: check.grant.name)]
    return jobs, (*remarks, *([problem] if problem else []))


def read_records(kubelet_dir: str) -> tuple[KubeletRecords, tuple[str, ...]]:
    """What the state files of a kubelet record, and what is wrong with them."""
    texts, problems = {}, []
    for name, places in PLACES.items():
        for place in places:
            file = read_whole(Path(kubelet_dir) / place)
            if not file.problem:
                texts[name] = file.data.decode("utf-8", errors="replace")
                break
            problems.append(f"{file.path} {file.problem}")
    if not texts:
        raise InputError(
            problems[0], advice="run it as root on the node, or name the kubelet's --kubelet-dir"
        )
    records = kubelet_records(texts)
    remarks = [*records.problems]
    if records.cpu is None and not records.problems:
        remarks.append("the CPU Manager's policy is none: the kubelet keeps no container to CPUs")
    return records, tuple(remarks)


def _answers(kubelet_dir: str) -> tuple[PodResources | None, str]:
    path = f"{kubelet_dir.rstrip('/')}/{SOCKET}"
    try:
        raw, _ = ask(path)
        return pod_resources_of([Document(raw, path)]), ""
    except (ClusterError, InputError) as problem:
        return None, f"PodResources was not compared: {problem}"


def _is(check: ContainerCheck, wanted: str) -> bool:
    namespace, slash, name = wanted.rpartition("/")
    return check.grant.pod == name and (not slash or check.grant.namespace == namespace)


def _job(hardware: Hardware, checker: PodChecker, check: ContainerCheck) -> CheckedJob:
    """A check in the form of every other verdict."""
    grant, local = check.grant, local_memory(hardware, check.grant)
    amounts = weighed(check.pages, local or -1) if check.pages is not None else Amounts()
    cpus = check.cpuset.cpus or 0
    verdict = Verdict(
        grade=check.grade,
        sentence=_sentence(hardware, check, amounts),
        findings=check.findings,
        processes=len(checker.groups.members(check.group)),
        cpus=cpus,
        numa=numa_of(hardware, grant.cpus or cpus),
        mems=local,
        amounts=amounts,
    )
    wanted = JobGrant(grant.cpus, grant.mems, alone=grant.alone, group=f"/{check.group.path}")
    return CheckedJob(grant.name, verdict, wanted=wanted)


def _sentence(hardware: Hardware, check: ContainerCheck, amounts: Amounts) -> str:
    for severity in (Severity.ERROR, Severity.WARNING):
        messages = [finding.message for finding in check.findings if finding.severity is severity]
        if messages:
            return f"{check.grade}: {'; '.join(messages)}"
    cpus = check.cpuset.cpus or 0
    parts = [f"{cpu_list(cpus)} (NUMA {format_ids(numa_of(hardware, cpus))})"] if cpus else []
    if not check.grant.alone:
        parts.append("of the shared pool" if check.grant.cpus else "not kept anywhere")
    if amounts.own and local_memory(hardware, check.grant):
        parts.append(f"{percent(amounts.share)} of {bytes_text(amounts.own)} local")
    return f"aligned: {', '.join(parts)}"
