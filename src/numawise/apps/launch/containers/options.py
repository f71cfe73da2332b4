"""Options of ``docker run``, ``podman run`` and ``nerdctl run``: which take a value, and which do not.

They are needed to find where the options of a command line end and the image begins.

Rules kept here:

1. All three read their command lines alike: ``--option value``, ``--option=value``, ``-p8080:80``, ``-dit``;
   an option without a value may still be written ``--detach=false``; the first word that is neither an option
   nor an option's value is the image, and all that follows belongs to the container.
2. An option that is not listed is refused unless it is written ``--option=value``, which reads the same
   whatever the option is.
3. podman and nerdctl also take their global options (the long ones) after ``run``; docker does not.

Sources: the help texts of docker 20.10 and 28.2 and of podman 4.3, and the options that the sources of
docker, podman and nerdctl of summer 2026 name, hidden and outdated ones included.
"""

from collections.abc import Mapping

from numawise.results.placement import DOCKER, NERDCTL, PODMAN
from numawise.values import dataclass, field


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Options by their long names."""

    valued: frozenset[str]
    plain: frozenset[str]
    """Without a value."""
    short: Mapping[str, str] = field(default_factory=dict)
    """Letter → long name."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _letters(text: str) -> dict[str, str]:
    return dict(pair.split(":") for pair in text.split())


_SHORT = _letters("""
    a:attach d:detach e:env h:hostname i:interactive l:label m:memory P:publish-all p:publish q:quiet t:tty
    u:user v:volume w:workdir
""")

_SHARED_VALUED = _words("""
    add-host annotation attach blkio-weight blkio-weight-device cap-add cap-drop cgroup-parent cgroupns
    cidfile cpu-period cpu-quota cpu-rt-period cpu-rt-runtime cpu-shares cpus cpuset-cpus cpuset-mems
    detach-keys device device-cgroup-rule device-read-bps device-read-iops device-write-bps
    device-write-iops dns dns-opt dns-option dns-search domainname entrypoint env env-file expose gpus
    group-add health-cmd health-interval health-retries health-start-period health-timeout hostname ip
    ip6 ipc isolation kernel-memory label label-file log-driver log-opt mac-address memory
    memory-reservation memory-swap memory-swappiness mount name net network network-alias oom-score-adj
    pid pids-limit platform publish pull restart runtime security-opt shm-size stop-signal stop-timeout
    sysctl tmpfs ulimit user userns uts volume volumes-from workdir
""")

_SHARED_PLAIN = _words("""
    detach help init interactive no-healthcheck oom-kill-disable privileged publish-all quiet read-only
    rm sig-proxy tty
""")

GLOBAL: Mapping[str, EngineOptions] = {
    DOCKER: EngineOptions(
        valued=_words("config context host log-level tlscacert tlscert tlskey"),
        plain=_words("debug help tls tlsverify version"),
        short={"c": "context", "D": "debug", "H": "host", "l": "log-level", "v": "version"},
    ),
    PODMAN: EngineOptions(
        valued=_words("""
            cdi-spec-dir cgroup-manager config conmon connection context cpu-profile default-mounts-file
            events-backend hooks-dir host identity imagestore log-level max-workers memory-profile
            module namespace network-backend network-cmd-path network-config-dir out pull-option
            registries-conf root runroot runtime runtime-flag ssh storage-driver storage-opt tls-ca
            tls-cert tls-details tls-key tmpdir url volumepath
        """),
        plain=_words("debug help noout remote syslog trace transient-store version"),
        short={"c": "connection", "D": "debug", "H": "host", "r": "remote", "v": "version"},
    ),
    NERDCTL: EngineOptions(
        valued=_words("""
            address bridge-ip cdi-spec-dirs cgroup-manager cni-netconfpath cni-path data-root global-dns
            global-dns-opts global-dns-search host host-gateway-ip hosts-dir namespace snapshotter
            storage-driver userns-remap
        """),
        plain=_words(
            "debug debug-full experimental help insecure-registry kube-hide-dupe selinux-enabled version"
        ),
        short={"a": "address", "H": "host", "n": "namespace", "v": "version"},
    ),
}

RUN: Mapping[str, EngineOptions] = {
    DOCKER: EngineOptions(
        valued=_SHARED_VALUED
        | _words("""
            cpu-count cpu-percent health-start-interval io-maxbandwidth io-maxiops link link-local-ip
            net-alias storage-opt volume-driver
        """),
        plain=_SHARED_PLAIN | _words("disable-content-trust use-api-socket"),
        short={**_SHORT, "c": "cpu-shares"},
    ),
    PODMAN: EngineOptions(
        valued=(_SHARED_VALUED | GLOBAL[PODMAN].valued)
        | _words("""
            arch authfile cert-dir cgroup-conf cgroups chrootdirs conmon-pidfile creds decryption-key
            env-merge gidmap group-entry health-log-destination health-max-log-count health-max-log-size
            health-on-failure health-startup-cmd health-startup-interval health-startup-retries
            health-startup-success health-startup-timeout healthcheck-command healthcheck-interval
            healthcheck-retries healthcheck-start-period healthcheck-timeout hosts-file hostuser
            image-volume init-ctr init-path os override-arch override-os override-variant passwd-entry
            personality pidfile pod pod-id-file preserve-fd preserve-fds rdt-class requires retry
            retry-delay sdnotify seccomp-policy secret shm-size-systemd signature-policy subgidname
            subuidname systemd timeout tz uidmap umask unsetenv variant
        """),
        plain=(_SHARED_PLAIN | GLOBAL[PODMAN].plain)
        | _words("""
            disable-content-trust env-host http-proxy no-hostname no-hosts passwd read-only-tmpfs
            replace rmi rootfs tls-verify unsetenv-all
        """),
        short={**_SHORT, "c": "cpu-shares"},
    ),
    NERDCTL: EngineOptions(
        valued=(_SHARED_VALUED | GLOBAL[NERDCTL].valued)
        | _words("""
            cgroup-conf cosign-certificate-identity cosign-certificate-identity-regexp
            cosign-certificate-oidc-issuer cosign-certificate-oidc-issuer-regexp cosign-key init-binary
            ipfs-address pidfile rdt-class systemd umask verify
        """),
        plain=(_SHARED_PLAIN | GLOBAL[NERDCTL].plain) | _words("rootfs"),
        short={"H": "host", "n": "namespace", **_SHORT},
    ),
}

SAME = _letters("""
    net:network dns-opt:dns-option net-alias:network-alias url:host address:host
""")
"""Second names of options that matter here, and the first."""
