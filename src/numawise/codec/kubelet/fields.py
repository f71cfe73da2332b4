"""The fields of a ``KubeletConfiguration`` (v1beta1): names, types, Go's type names.

Every field is known here, also those that no decision depends on, because the kubelet refuses
a wrong type wherever it stands.  Go's names of the types are part of its messages.  Each release
adds a row to ``ADDED``; a field that is there again has changed its type.
"""

from collections.abc import Mapping
from functools import cache

from numawise.rules.versions import REFERENCE, Dated, Version, at
from numawise.values import dataclass


@dataclass(frozen=True, slots=True)
class TextType:
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
    fields: Mapping[str, "ConfigField"]
    inlined: str = ""
    """Name of the embedded struct that its fields belong to, if any."""

    @property
    def go(self) -> str:
        """Go's name of the type."""
        return f"{self.package}.{self.name}"


Shape = TextType | Truth | Whole | Real | Special | Many | ByName | Struct


@dataclass(frozen=True, slots=True)
class ConfigField:
    """A member of a struct.  An optional one distinguishes zero from absent."""

    shape: Shape
    optional: bool = False


def _every(names: str, shape: Shape) -> dict[str, ConfigField]:
    return dict.fromkeys(names.split(), ConfigField(shape))


def _optional(names: str, shape: Shape) -> dict[str, ConfigField]:
    return dict.fromkeys(names.split(), ConfigField(shape, optional=True))


TEXT, TRUTH, REAL = TextType(), Truth(), Real()
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
        "x509": ConfigField(Struct("KubeletX509Authentication", KUBELET, _every("clientCAFile", TEXT))),
        "webhook": ConfigField(
            Struct(
                "KubeletWebhookAuthentication",
                KUBELET,
                {**_optional("enabled", TRUTH), **_every("cacheTTL", DURATION)},
            )
        ),
        "anonymous": ConfigField(
            Struct("KubeletAnonymousAuthentication", KUBELET, _optional("enabled", TRUTH))
        ),
    },
)

AUTHORIZATION = Struct(
    "KubeletAuthorization",
    KUBELET,
    {
        "mode": ConfigField(TextType("v1beta1.KubeletAuthorizationMode")),
        "webhook": ConfigField(
            Struct(
                "KubeletWebhookAuthorization",
                KUBELET,
                _every("cacheAuthorizedTTL cacheUnauthorizedTTL", DURATION),
            )
        ),
    },
)

# --- logging, which has changed most often --------------------------------------------------

NANOSECONDS = Whole("time.Duration", INT64.lowest, INT64.highest)
UINT32 = Whole("uint32", 0, 2**32 - 1)
VERBOSITY = Whole("v1.VerbosityLevel", 0, 2**32 - 1)
ROUTING = {**_every("splitStream", TRUTH), **_every("infoBufferSize", QUANTITY)}


def _logging(package: str, fields: Mapping[str, ConfigField]) -> Mapping[str, ConfigField]:
    return {
        "logging": ConfigField(
            Struct("LoggingConfiguration", package, {"format": ConfigField(TEXT), **fields})
        )
    }


def _levels(package: str, verbosity: Whole) -> Mapping[str, ConfigField]:
    item = Struct(
        "VModuleItem", package, {"filePattern": ConfigField(TEXT), "verbosity": ConfigField(verbosity)}
    )
    return {
        "verbosity": ConfigField(verbosity),
        "vmodule": ConfigField(Many(item, f"{package}.VModuleConfiguration")),
    }


def _formats(package: str, names: Mapping[str, str], inlined: str = "") -> Mapping[str, ConfigField]:
    """Options of the formats, by name; ``inlined``: the struct they share, where Go names it."""
    forms = {name: ConfigField(Struct(kind, package, ROUTING, inlined)) for name, kind in names.items()}
    return {"options": ConfigField(Struct("FormatOptions", package, forms))}


JSON_ONLY = {"json": "JSONOptions"}
BOTH_FORMATS = {"json": "JSONOptions", "text": "TextOptions"}
SANITIZATION = _every("sanitization", TRUTH)
EARLY_LOGGING = {
    "flushFrequency": ConfigField(NANOSECONDS),
    **_levels("v1alpha1", UINT32),
    **_formats("v1alpha1", JSON_ONLY),
}
LOGGING = {"flushFrequency": ConfigField(LOOSE_DURATION), **_levels(SHARED, VERBOSITY)}

# --- the rest of what has fields of its own -------------------------------------------------

RESERVED_MEMORY = Struct(
    "MemoryReservation",
    KUBELET,
    {"numaNode": ConfigField(INT32), "limits": ConfigField(ByName(QUANTITY, "v1.ResourceList"))},
)

TAINT = Struct(
    "Taint",
    SHARED,
    {
        **_every("key value", TEXT),
        "effect": ConfigField(TextType("v1.TaintEffect")),
        **_optional("timeAdded", TIME),
    },
)

SHUTDOWN_BY_PRIORITY = Struct(
    "ShutdownGracePeriodByPodPriority",
    KUBELET,
    {"priority": ConfigField(INT32), "shutdownGracePeriodSeconds": ConfigField(INT64)},
)

ADDED: tuple[Dated[Mapping[str, ConfigField]], ...] = (
    Dated({
        **_every(
            """
            apiVersion kind
            address cgroupDriver cgroupRoot clusterDomain containerLogMaxSize contentType cpuManagerPolicy
            hairpinMode healthzBindAddress kubeReservedCgroup kubeletCgroups podCIDR providerID
            reservedSystemCPUs resolvConf showHiddenMetricsForVersion staticPodPath staticPodURL
            systemCgroups systemReservedCgroup tlsCertFile tlsMinVersion tlsPrivateKeyFile
            topologyManagerPolicy topologyManagerScope volumePluginDir
            """,
            TEXT,
        ),
        "configMapAndSecretChangeDetectionStrategy": ConfigField(
            TextType("v1beta1.ResourceChangeDetectionStrategy")
        ),
        **_every(
            """
            enableContentionProfiling kernelMemcgNotification protectKernelDefaults rotateCertificates
            runOnce serverTLSBootstrap
            """,
            TRUTH,
        ),
        **_optional(
            """
            cgroupsPerQOS cpuCFSQuota enableControllerAttachDetach enableDebuggingHandlers enableServer
            enableSystemLogHandler failSwapOn makeIPTablesUtilChains serializeImagePulls
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
            containerLogMaxFiles eventRecordQPS healthzPort imageGCHighThresholdPercent
            imageGCLowThresholdPercent iptablesDropBit iptablesMasqueradeBit kubeAPIQPS
            nodeStatusMaxImages oomScoreAdj registryPullQPS
            """,
            INT32,
        ),
        **_every("maxOpenFiles", INT64),
        **_optional("podPidsLimit", INT64),
        **_every(
            """
            cpuManagerReconcilePeriod evictionPressureTransitionPeriod fileCheckFrequency
            httpCheckFrequency imageMinimumGCAge nodeStatusReportFrequency nodeStatusUpdateFrequency
            runtimeRequestTimeout shutdownGracePeriod shutdownGracePeriodCriticalPods
            streamingConnectionIdleTimeout syncFrequency volumeStatsAggPeriod
            """,
            DURATION,
        ),
        **_optional("cpuCFSQuotaPeriod", DURATION),
        **_every("allowedUnsafeSysctls clusterDNS enforceNodeAllocatable tlsCipherSuites", TEXTS),
        **_every(
            """
            evictionHard evictionMinimumReclaim evictionSoft evictionSoftGracePeriod kubeReserved
            qosReserved systemReserved
            """,
            TEXT_BY_NAME,
        ),
        "featureGates": ConfigField(ByName(TRUTH, "map[string]bool")),
        "staticPodURLHeader": ConfigField(ByName(TEXTS, "map[string][]string")),
        "authentication": ConfigField(AUTHENTICATION),
        "authorization": ConfigField(AUTHORIZATION),
        **_logging("v1alpha1", SANITIZATION),
    }),
    Dated({
        **_every("memoryManagerPolicy", TEXT),
        **_optional("enableDebugFlagsHandler enableProfilingHandler", TRUTH),
        "reservedMemory": ConfigField(Many(RESERVED_MEMORY, "[]v1beta1.MemoryReservation")),
    }, (1, 21)),
    Dated({
        **_every("cpuManagerPolicyOptions", TEXT_BY_NAME),
        **_optional("seccompDefault", TRUTH),
        **_optional("memoryThrottlingFactor", REAL),
        "memorySwap": ConfigField(Struct("MemorySwapConfiguration", KUBELET, _every("swapBehavior", TEXT))),
    }, (1, 22)),
    Dated({
        **_optional("registerNode", TRUTH),
        **_optional("resolvConf", TEXT),
        "registerWithTaints": ConfigField(Many(TAINT, "[]v1.Taint")),
        "shutdownGracePeriodByPodPriority": ConfigField(
            Many(SHUTDOWN_BY_PRIORITY, "[]v1beta1.ShutdownGracePeriodByPodPriority")
        ),
        **_logging("v1alpha1", {**EARLY_LOGGING, **SANITIZATION}),
    }, (1, 23)),
    Dated(_logging("v1alpha1", EARLY_LOGGING), (1, 24)),
    Dated({
        **_optional("localStorageCapacityIsolation", TRUTH),
        "tracing": ConfigField(
            Struct(
                "TracingConfiguration",
                SHARED,
                {**_optional("endpoint", TEXT), **_optional("samplingRatePerMillion", INT32)},
            ),
            optional=True,
        ),
        **_logging(
            SHARED,
            {**LOGGING, "flushFrequency": ConfigField(NANOSECONDS), **_formats(SHARED, JSON_ONLY)},
        ),
    }, (1, 25)),
    Dated(_every("topologyManagerPolicyOptions", TEXT_BY_NAME), (1, 26)),
    Dated({
        **_every("containerRuntimeEndpoint imageServiceEndpoint", TEXT),
        **_optional("enableSystemLogQuery", TRUTH),
        **_optional("maxParallelImagePulls", INT32),
    }, (1, 27)),
    Dated(_logging(SHARED, {**LOGGING, **_formats(SHARED, JSON_ONLY)}), (1, 28)),
    Dated(_every("imageMaximumGCAge", DURATION), (1, 29)),
    Dated({
        **_every("podLogsDir", TEXT),
        **_optional("containerLogMaxWorkers", INT32),
        **_optional("containerLogMonitorInterval", DURATION),
        **_logging(SHARED, {**LOGGING, **_formats(SHARED, BOTH_FORMATS)}),
    }, (1, 30)),
    Dated(_optional("failCgroupV1", TRUTH), (1, 31)),
    Dated({
        **_optional("singleProcessOOMKill", TRUTH),
        "crashLoopBackOff": ConfigField(
            Struct("CrashLoopBackOffConfig", KUBELET, _optional("maxContainerRestartPeriod", DURATION))
        ),
    }, (1, 32)),
    Dated({
        "imagePullCredentialsVerificationPolicy": ConfigField(
            TextType("v1beta1.ImagePullCredentialsVerificationPolicy")
        ),
        **_optional("mergeDefaultEvictionSettings", TRUTH),
        **_every("preloadedImagesVerificationAllowlist", TEXTS),
        "userNamespaces": ConfigField(
            Struct("UserNamespaces", KUBELET, _optional("idsPerPod", INT64)), optional=True
        ),
    }, (1, 33)),
    Dated(
        _logging(SHARED, {**LOGGING, **_formats(SHARED, BOTH_FORMATS, "OutputRoutingOptions")}), (1, 35)
    ),
    Dated({
        "memoryReservationPolicy": ConfigField(TextType("v1beta1.MemoryReservationPolicy")),
        "tlsCurvePreferences": ConfigField(Many(INT32, "[]int32")),
    }, (1, 36)),
    Dated(_every("defaultPodSysctls", TEXT_BY_NAME), (1, 37)),
)  # fmt: skip


@cache
def configuration_of(version: Version = REFERENCE) -> Struct:
    """The configuration of one release."""
    fields = {name: field for part in at(version, ADDED) for name, field in part.items()}
    return Struct("KubeletConfiguration", KUBELET, fields)


def field_since(name: str) -> Version | None:
    """The first release that has a field of the configuration; None when no known one has."""
    return next((part.since for part in ADDED if name in part.row), None)
