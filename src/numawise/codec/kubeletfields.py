"""The fields of a ``KubeletConfiguration`` (v1beta1, release 1.36): names, types, Go's type names.

Every field is known here, also those that no decision hangs on, because the kubelet refuses
a wrong type wherever it stands.  Go's names of the types are part of its messages.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Text:
    """A string."""

    go: str = "string"


@dataclass(frozen=True, slots=True)
class Truth:
    """True or false."""

    go: str = "bool"


@dataclass(frozen=True, slots=True)
class Whole:
    """An integer within bounds."""

    go: str
    lowest: int
    highest: int


@dataclass(frozen=True, slots=True)
class Real:
    """A number with a fraction."""

    go: str = "float64"


@dataclass(frozen=True, slots=True)
class Special:
    """A type that reads itself: ``duration``, ``loose duration``, ``quantity`` or ``time``."""

    kind: str


@dataclass(frozen=True, slots=True)
class Many:
    """A list."""

    item: "Shape"
    go: str


@dataclass(frozen=True, slots=True)
class ByName:
    """A map with string keys."""

    item: "Shape"
    go: str


@dataclass(frozen=True, slots=True)
class Struct:
    """An object with known fields."""

    name: str
    package: str
    fields: Mapping[str, "Field"]
    inlined: str = ""
    """Name of the embedded struct that its fields belong to, if any."""

    @property
    def go(self) -> str:
        """Go's name of the type."""
        return f"{self.package}.{self.name}"


Shape = Text | Truth | Whole | Real | Special | Many | ByName | Struct


@dataclass(frozen=True, slots=True)
class Field:
    """A member of a struct.  An optional one can tell zero from absent."""

    shape: Shape
    optional: bool = False


def _every(names: str, shape: Shape) -> dict[str, Field]:
    return dict.fromkeys(names.split(), Field(shape))


def _optional(names: str, shape: Shape) -> dict[str, Field]:
    return dict.fromkeys(names.split(), Field(shape, optional=True))


TEXT, TRUTH, REAL = Text(), Truth(), Real()
INT32 = Whole("int32", -(2**31), 2**31 - 1)
INT64 = Whole("int64", -(2**63), 2**63 - 1)
DURATION, LOOSE_DURATION = Special("duration"), Special("loose duration")
QUANTITY, TIME = Special("quantity"), Special("time")
TEXTS = Many(TEXT, "[]string")
TEXT_BY_NAME = ByName(TEXT, "map[string]string")

KUBELET = "v1beta1"
SHARED = "v1"  # the package of core, logging and tracing types alike

AUTHENTICATION = Struct(
    "KubeletAuthentication",
    KUBELET,
    {
        "x509": Field(Struct("KubeletX509Authentication", KUBELET, _every("clientCAFile", TEXT))),
        "webhook": Field(
            Struct(
                "KubeletWebhookAuthentication",
                KUBELET,
                {**_optional("enabled", TRUTH), **_every("cacheTTL", DURATION)},
            )
        ),
        "anonymous": Field(Struct("KubeletAnonymousAuthentication", KUBELET, _optional("enabled", TRUTH))),
    },
)

AUTHORIZATION = Struct(
    "KubeletAuthorization",
    KUBELET,
    {
        "mode": Field(Text("v1beta1.KubeletAuthorizationMode")),
        "webhook": Field(
            Struct(
                "KubeletWebhookAuthorization",
                KUBELET,
                _every("cacheAuthorizedTTL cacheUnauthorizedTTL", DURATION),
            )
        ),
    },
)

ROUTING = {**_every("splitStream", TRUTH), **_every("infoBufferSize", QUANTITY)}
VERBOSITY = Whole("v1.VerbosityLevel", 0, 2**32 - 1)
LOGGING = Struct(
    "LoggingConfiguration",
    SHARED,
    {
        "format": Field(TEXT),
        "flushFrequency": Field(LOOSE_DURATION),
        "verbosity": Field(VERBOSITY),
        "vmodule": Field(
            Many(
                Struct(
                    "VModuleItem",
                    SHARED,
                    {"filePattern": Field(TEXT), "verbosity": Field(VERBOSITY)},
                ),
                "v1.VModuleConfiguration",
            )
        ),
        "options": Field(
            Struct(
                "FormatOptions",
                SHARED,
                {
                    "text": Field(Struct("TextOptions", SHARED, ROUTING, "OutputRoutingOptions")),
                    "json": Field(Struct("JSONOptions", SHARED, ROUTING, "OutputRoutingOptions")),
                },
            )
        ),
    },
)

RESERVED_MEMORY = Struct(
    "MemoryReservation",
    KUBELET,
    {"numaNode": Field(INT32), "limits": Field(ByName(QUANTITY, "v1.ResourceList"))},
)

TAINT = Struct(
    "Taint",
    SHARED,
    {
        **_every("key value", TEXT),
        "effect": Field(Text("v1.TaintEffect")),
        **_optional("timeAdded", TIME),
    },
)

SHUTDOWN_BY_PRIORITY = Struct(
    "ShutdownGracePeriodByPodPriority",
    KUBELET,
    {"priority": Field(INT32), "shutdownGracePeriodSeconds": Field(INT64)},
)

KUBELET_CONFIGURATION = Struct(
    "KubeletConfiguration",
    KUBELET,
    {
        **_every(
            """
            apiVersion kind
            address cgroupDriver cgroupRoot clusterDomain containerLogMaxSize containerRuntimeEndpoint
            contentType cpuManagerPolicy hairpinMode healthzBindAddress imageServiceEndpoint
            kubeReservedCgroup kubeletCgroups memoryManagerPolicy podCIDR podLogsDir providerID
            reservedSystemCPUs showHiddenMetricsForVersion staticPodPath staticPodURL systemCgroups
            systemReservedCgroup tlsCertFile tlsMinVersion tlsPrivateKeyFile topologyManagerPolicy
            topologyManagerScope volumePluginDir
            """,
            TEXT,
        ),
        **_optional("resolvConf", TEXT),
        "configMapAndSecretChangeDetectionStrategy": Field(Text("v1beta1.ResourceChangeDetectionStrategy")),
        "imagePullCredentialsVerificationPolicy": Field(
            Text("v1beta1.ImagePullCredentialsVerificationPolicy")
        ),
        "memoryReservationPolicy": Field(Text("v1beta1.MemoryReservationPolicy")),
        **_every(
            """
            enableContentionProfiling kernelMemcgNotification protectKernelDefaults rotateCertificates
            runOnce serverTLSBootstrap
            """,
            TRUTH,
        ),
        **_optional(
            """
            cgroupsPerQOS cpuCFSQuota enableControllerAttachDetach enableDebugFlagsHandler
            enableDebuggingHandlers enableProfilingHandler enableServer enableSystemLogHandler
            enableSystemLogQuery failCgroupV1 failSwapOn localStorageCapacityIsolation
            makeIPTablesUtilChains mergeDefaultEvictionSettings registerNode seccompDefault
            serializeImagePulls singleProcessOOMKill
            """,
            TRUTH,
        ),
        **_every(
            """
            eventBurst evictionMaxPodGracePeriod kubeAPIBurst maxPods nodeLeaseDurationSeconds
            podsPerCore port readOnlyPort registryBurst
            """,
            INT32,
        ),
        **_optional(
            """
            containerLogMaxFiles containerLogMaxWorkers eventRecordQPS healthzPort
            imageGCHighThresholdPercent imageGCLowThresholdPercent iptablesDropBit
            iptablesMasqueradeBit kubeAPIQPS maxParallelImagePulls nodeStatusMaxImages oomScoreAdj
            registryPullQPS
            """,
            INT32,
        ),
        **_every("maxOpenFiles", INT64),
        **_optional("podPidsLimit", INT64),
        **_optional("memoryThrottlingFactor", REAL),
        **_every(
            """
            cpuManagerReconcilePeriod evictionPressureTransitionPeriod fileCheckFrequency
            httpCheckFrequency imageMaximumGCAge imageMinimumGCAge nodeStatusReportFrequency
            nodeStatusUpdateFrequency runtimeRequestTimeout shutdownGracePeriod
            shutdownGracePeriodCriticalPods streamingConnectionIdleTimeout syncFrequency
            volumeStatsAggPeriod
            """,
            DURATION,
        ),
        **_optional("containerLogMonitorInterval cpuCFSQuotaPeriod", DURATION),
        **_every(
            """
            allowedUnsafeSysctls clusterDNS enforceNodeAllocatable preloadedImagesVerificationAllowlist
            tlsCipherSuites
            """,
            TEXTS,
        ),
        "tlsCurvePreferences": Field(Many(INT32, "[]int32")),
        **_every(
            """
            cpuManagerPolicyOptions evictionHard evictionMinimumReclaim evictionSoft
            evictionSoftGracePeriod kubeReserved qosReserved systemReserved
            topologyManagerPolicyOptions
            """,
            TEXT_BY_NAME,
        ),
        "featureGates": Field(ByName(TRUTH, "map[string]bool")),
        "staticPodURLHeader": Field(ByName(TEXTS, "map[string][]string")),
        "authentication": Field(AUTHENTICATION),
        "authorization": Field(AUTHORIZATION),
        "crashLoopBackOff": Field(
            Struct("CrashLoopBackOffConfig", KUBELET, _optional("maxContainerRestartPeriod", DURATION))
        ),
        "logging": Field(LOGGING),
        "memorySwap": Field(Struct("MemorySwapConfiguration", KUBELET, _every("swapBehavior", TEXT))),
        "registerWithTaints": Field(Many(TAINT, "[]v1.Taint")),
        "reservedMemory": Field(Many(RESERVED_MEMORY, "[]v1beta1.MemoryReservation")),
        "shutdownGracePeriodByPodPriority": Field(
            Many(SHUTDOWN_BY_PRIORITY, "[]v1beta1.ShutdownGracePeriodByPodPriority")
        ),
        "tracing": Field(
            Struct(
                "TracingConfiguration",
                SHARED,
                {**_optional("endpoint", TEXT), **_optional("samplingRatePerMillion", INT32)},
            ),
            optional=True,
        ),
        "userNamespaces": Field(
            Struct("UserNamespaces", KUBELET, _optional("idsPerPod", INT64)), optional=True
        ),
    },
)
