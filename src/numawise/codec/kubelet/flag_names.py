"""The kubelet's command-line flags: names, kinds, the field of the configuration that each sets, releases.

A line is a flag, its kind, the field it sets (``-``: none, it is no part of the configuration), and from
which minor release to which it exists where that is not all of them.  A flag that began to set a field later
on has two lines.  Kinds:

``text`` · ``truth`` (needs no value) · ``int32`` · ``int64`` · ``duration`` · ``list`` (a,b) ·
``pairs`` (k=v,k=v) · ``pair`` (one k=v each time) · ``angles`` (k<v) · ``gates`` (k=true) ·
``memory`` (0:memory=1Gi) · ``other`` (a value that is taken as it is).
"""

from dataclasses import dataclass
from functools import cache

from numawise.rules.versions import NEWEST, OLDEST, Version

FLAGS = """
address                                      text     address
allowed-unsafe-sysctls                       list     allowedUnsafeSysctls
anonymous-auth                               truth    authentication.anonymous.enabled
authentication-token-webhook                 truth    authentication.webhook.enabled
authentication-token-webhook-cache-ttl       duration authentication.webhook.cacheTTL
authorization-mode                           text     authorization.mode
authorization-webhook-cache-authorized-ttl   duration authorization.webhook.cacheAuthorizedTTL
authorization-webhook-cache-unauthorized-ttl duration authorization.webhook.cacheUnauthorizedTTL
bootstrap-kubeconfig                         text     -
cert-dir                                     text     -
cgroup-driver                                text     cgroupDriver
cgroup-root                                  text     cgroupRoot
cgroups-per-qos                              truth    cgroupsPerQOS
client-ca-file                               text     authentication.x509.clientCAFile
cloud-config                                 text     -                              20 33
cloud-provider                               text     -
cluster-dns                                  list     clusterDNS
cluster-domain                               text     clusterDomain
config                                       text     -
config-dir                                   text     -                              28
container-log-max-files                      int32    containerLogMaxFiles
container-log-max-size                       text     containerLogMaxSize
container-runtime-endpoint                   text     -                              20 26
container-runtime-endpoint                   text     containerRuntimeEndpoint       27
contention-profiling                         truth    enableContentionProfiling
cpu-cfs-quota                                truth    cpuCFSQuota
cpu-cfs-quota-period                         duration cpuCFSQuotaPeriod
cpu-manager-policy                           text     cpuManagerPolicy
cpu-manager-policy-options                   pair     cpuManagerPolicyOptions        22
cpu-manager-reconcile-period                 duration cpuManagerReconcilePeriod
enable-controller-attach-detach              truth    enableControllerAttachDetach
enable-debugging-handlers                    truth    enableDebuggingHandlers
enable-server                                truth    enableServer
enforce-node-allocatable                     list     enforceNodeAllocatable
event-burst                                  int32    eventBurst
event-qps                                    int32    eventRecordQPS
eviction-hard                                angles   evictionHard
eviction-max-pod-grace-period                int32    evictionMaxPodGracePeriod
eviction-minimum-reclaim                     pairs    evictionMinimumReclaim
eviction-pressure-transition-period          duration evictionPressureTransitionPeriod
eviction-soft                                angles   evictionSoft
eviction-soft-grace-period                   pairs    evictionSoftGracePeriod
exit-on-lock-contention                      truth    -
experimental-allocatable-ignore-eviction     truth    -
experimental-kernel-memcg-notification       truth    kernelMemcgNotification        20 24
experimental-mounter-path                    text     -
fail-cgroupv1                                truth    failCgroupV1                   31
fail-swap-on                                 truth    failSwapOn
feature-gates                                gates    featureGates
file-check-frequency                         duration fileCheckFrequency
hairpin-mode                                 text     hairpinMode
healthz-bind-address                         text     healthzBindAddress
healthz-port                                 int32    healthzPort
help                                         truth    -
hostname-override                            text     -
http-check-frequency                         duration httpCheckFrequency
image-credential-provider-bin-dir            text     -
image-credential-provider-config             text     -
image-gc-high-threshold                      int32    imageGCHighThresholdPercent
image-gc-low-threshold                       int32    imageGCLowThresholdPercent
image-service-endpoint                       text     -                              20 26
image-service-endpoint                       text     imageServiceEndpoint           27
iptables-drop-bit                            int32    iptablesDropBit                20 30
iptables-masquerade-bit                      int32    iptablesMasqueradeBit          20 30
keep-terminated-pod-volumes                  truth    -                              20 30
kernel-memcg-notification                    truth    kernelMemcgNotification
kube-api-burst                               int32    kubeAPIBurst
kube-api-content-type                        text     contentType
kube-api-qps                                 int32    kubeAPIQPS
kube-reserved                                pairs    kubeReserved
kube-reserved-cgroup                         text     kubeReservedCgroup
kubeconfig                                   text     -
kubelet-cgroups                              text     kubeletCgroups
local-storage-capacity-isolation             truth    localStorageCapacityIsolation  25
lock-file                                    text     -
log-flush-frequency                          other    -
log-json-info-buffer-size                    other    -                              23
log-json-split-stream                        truth    -                              23
log-text-info-buffer-size                    other    -                              30
log-text-split-stream                        truth    -                              30
logging-format                               text     logging.format
make-iptables-util-chains                    truth    makeIPTablesUtilChains
manifest-url                                 text     staticPodURL
manifest-url-header                          other    -
max-open-files                               int64    maxOpenFiles
max-pods                                     int32    maxPods
maximum-dead-containers                      int32    -
maximum-dead-containers-per-container        int32    -
memory-manager-policy                        text     memoryManagerPolicy            21
minimum-container-ttl-duration               duration -
minimum-image-ttl-duration                   duration imageMinimumGCAge
node-ip                                      text     -
node-labels                                  other    -
node-status-max-images                       int32    nodeStatusMaxImages
node-status-update-frequency                 duration nodeStatusUpdateFrequency
oom-score-adj                                int32    oomScoreAdj
pod-cidr                                     text     podCIDR
pod-infra-container-image                    text     -                              20 34
pod-manifest-path                            text     staticPodPath
pod-max-pids                                 int64    podPidsLimit
pods-per-core                                int32    podsPerCore
port                                         int32    port
protect-kernel-defaults                      truth    protectKernelDefaults
provider-id                                  text     providerID
qos-reserved                                 pairs    qosReserved
read-only-port                               int32    readOnlyPort
register-node                                truth    -                              20 22
register-node                                truth    registerNode                   23
register-schedulable                         truth    -                              20 33
register-with-taints                         other    -
registry-burst                               int32    registryBurst
registry-qps                                 int32    registryPullQPS
reserved-cpus                                text     reservedSystemCPUs
reserved-memory                              memory   reservedMemory                 21
resolv-conf                                  text     resolvConf
root-dir                                     text     -
rotate-certificates                          truth    rotateCertificates
rotate-server-certificates                   truth    serverTLSBootstrap
runonce                                      truth    runOnce
runtime-cgroups                              text     -
runtime-request-timeout                      duration runtimeRequestTimeout
seccomp-default                              truth    -                              22
serialize-image-pulls                        truth    serializeImagePulls
streaming-connection-idle-timeout            duration streamingConnectionIdleTimeout
sync-frequency                               duration syncFrequency
system-cgroups                               text     systemCgroups
system-reserved                              pairs    systemReserved
system-reserved-cgroup                       text     systemReservedCgroup
tls-cert-file                                text     tlsCertFile
tls-cipher-suites                            list     tlsCipherSuites
tls-min-version                              text     tlsMinVersion
tls-private-key-file                         text     tlsPrivateKeyFile
topology-manager-policy                      text     topologyManagerPolicy
topology-manager-policy-options              pairs    topologyManagerPolicyOptions   26
topology-manager-scope                       text     topologyManagerScope
v                                            other    -
version                                      truth    -
vmodule                                      other    -
volume-plugin-dir                            text     volumePluginDir
volume-stats-agg-period                      duration volumeStatsAggPeriod
"""

TOGETHER = (
    # until, kind, names: flags of no configuration that went away together
    (20, "truth", "enable-cadvisor-json-endpoints"),
    (21, "truth", "redirect-container-streaming"),
    (21, "other", "chaos-chance"),
    (22, "text", "experimental-bootstrap-kubeconfig seccomp-profile-root"),
    (23, "truth", """
        docker-only docker-tls experimental-check-node-capabilities-before-mount
        experimental-logging-sanitization really-crash-for-testing
    """),
    (23, "text", """
        cni-bin-dir cni-cache-dir cni-conf-dir docker docker-endpoint docker-env-metadata-whitelist
        docker-root docker-tls-ca docker-tls-cert docker-tls-key dynamic-config-dir
        experimental-dockershim-root-directory image-pull-progress-deadline network-plugin
        network-plugin-mtu non-masquerade-cidr
    """),
    (25, "truth", "add-dir-header alsologtostderr logtostderr one-output skip-headers skip-log-headers"),
    (25, "text", "log-backtrace-at log-dir log-file log-file-max-size stderrthreshold"),
    (26, "text", "container-runtime master-service-namespace"),
    (36, "truth", "enable-load-reader log-cadvisor-usage storage-driver-secure"),
    (36, "text", """
        application-metrics-count-limit boot-id-file container-hints containerd containerd-namespace
        event-storage-age-limit event-storage-event-limit global-housekeeping-interval
        housekeeping-interval machine-id-file storage-driver-buffer-duration storage-driver-db
        storage-driver-host storage-driver-password storage-driver-table storage-driver-user
    """),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FlagKind:
    """A flag as one release knows it."""

    name: str
    kind: str
    field: tuple[str, ...]
    """The field it sets, step by step; none: it is no part of the configuration."""


@cache
def known_flags(version: Version) -> dict[str, FlagKind]:
    """The flags of a release, by name."""
    return {flag.name: flag for flag, since, until in _rows() if since <= version <= until}


def flag_span(name: str) -> tuple[Version, Version] | None:
    """The first and the last release that has a flag; None when no known one has."""
    spans = [(since, until) for flag, since, until in _rows() if flag.name == name]
    if not spans:
        return None
    return min(since for since, _ in spans), min(NEWEST, max(until for _, until in spans))


@cache
def _rows() -> tuple[tuple[FlagKind, Version, Version], ...]:
    rows = []
    for line in FLAGS.strip().split("\n"):
        name, kind, field, *span = line.split()
        since, until = (*map(int, span), *(OLDEST[1], NEWEST[1])[len(span) :])
        steps = () if field == "-" else tuple(field.split("."))
        rows.append((FlagKind(name, kind, steps), (1, since), (1, until)))
    for last, kind, names in TOGETHER:
        rows += [(FlagKind(name, kind, ()), OLDEST, (1, last)) for name in names.split()]
    return tuple(rows)
