"""Which kernel parameters a pod may set.

Counterpart: pkg/kubelet/sysctl/allowlist.go and component-helpers/node/util/sysctl/namespace.go.

Rules kept here:

1. Safe parameters and those that the configuration allows may be set; a pattern ends in ``*``.
2. A parameter of a namespace that the pod shares with its node may not.
3. Parameters that are safe in newer kernels alone count as safe where the kernel is not known.
"""

import re

from numawise.request.constraints import PodConstraints
from numawise.rules.model import Rules
from numawise.strconv import quote

KERNEL = re.compile(r"(\d{1,6})\.(\d{1,6})", re.ASCII)
IPC, NET, USER = "IPC", "Net", "User"
NAMESPACES = (
    ("kernel.shm", IPC),
    ("kernel.msg", IPC),
    ("kernel.sem", IPC),
    ("fs.mqueue.", IPC),
    ("net.", NET),
    ("user.", USER),
)


def forbidden_sysctl(rules: Rules, constraints: PodConstraints, kernel: str = "") -> str:
    """Why the kubelet refuses the first parameter that it refuses, in its words; '' when it takes all."""
    if not constraints.sysctls:
        return ""
    found = KERNEL.match(kernel)
    release = (int(found[1]), int(found[2])) if found else None
    allowed = {one.name for one in rules.safe_sysctls if release is None or release >= one.kernel}
    prefixes = []
    for pattern in map(_dotted, rules.unsafe_sysctls):
        name, star, _ = pattern.partition("*")
        prefixes += [name] if star else []
        allowed |= set() if star else {name}
    for written in constraints.sysctls:
        name = _dotted(written)
        if name not in allowed and not name.startswith(tuple(prefixes)):
            word = "allowlisted" if rules.behaviour.sysctls_allowlisted else "whitelisted"
            return f"{quote(name)} not {word}"
        namespace = next((namespace for prefix, namespace in NAMESPACES if name.startswith(prefix)), "")
        if namespace in _shared(rules, constraints):
            shown = namespace if rules.behaviour.namespaces_in_capitals else namespace.lower()
            return f"{quote(name)} not allowed with host {shown} enabled"
    return ""


def _shared(rules: Rules, constraints: PodConstraints) -> list[str]:
    """The namespaces that the pod shares with its node (rule 2)."""
    users = rules.behaviour.user_sysctls_judged and constraints.host_users
    given = ((IPC, constraints.host_ipc), (NET, constraints.host_network), (USER, users))
    return [namespace for namespace, shared in given if shared]


def _dotted(name: str) -> str:
    """A name with dots between its parts: ``net/ipv4/conf/eth0.1/x`` is ``net.ipv4.conf.eth0/1.x``."""
    first = re.search(r"[./]", name)
    return name.translate({ord("."): "/", ord("/"): "."}) if first and first[0] == "/" else name
