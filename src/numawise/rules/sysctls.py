"""The kernel parameters that a pod may set without its node's administrator allowing them, by release."""

from numawise.rules.versions import OLDEST, Dated, Version, at
from numawise.values import dataclass


@dataclass(frozen=True, slots=True)
class SafeSysctl:
    """A parameter that is safe from one kernel release on."""

    name: str
    kernel: tuple[int, int] = (0, 0)


SAFE = tuple(
    Dated(SafeSysctl(name, kernel), since)
    for name, kernel, since in (
        ("kernel.shm_rmid_forced",              (0, 0),  OLDEST),
        ("net.ipv4.ip_local_port_range",        (0, 0),  OLDEST),
        ("net.ipv4.tcp_syncookies",             (0, 0),  OLDEST),
        ("net.ipv4.ping_group_range",           (0, 0),  OLDEST),
        ("net.ipv4.ip_unprivileged_port_start", (0, 0),  (1, 22)),
        ("net.ipv4.ip_local_reserved_ports",    (3, 16), (1, 27)),
        ("net.ipv4.tcp_keepalive_time",         (4, 5),  (1, 29)),
        ("net.ipv4.tcp_fin_timeout",            (4, 6),  (1, 29)),
        ("net.ipv4.tcp_keepalive_intvl",        (4, 5),  (1, 29)),
        ("net.ipv4.tcp_keepalive_probes",       (4, 5),  (1, 29)),
        ("net.ipv4.tcp_rmem",                   (4, 15), (1, 32)),
        ("net.ipv4.tcp_wmem",                   (4, 15), (1, 32)),
        ("net.ipv4.tcp_slow_start_after_idle",  (4, 15), (1, 37)),
        ("net.ipv4.tcp_notsent_lowat",          (4, 6),  (1, 37)),
    )
)  # fmt: skip


def safe_sysctls(version: Version) -> tuple[SafeSysctl, ...]:
    """Those that a release knows to be safe."""
    return tuple(at(version, SAFE))
