"""What the kubelet demands of a configuration before it looks at the machine.

Rules kept here:

1. Every problem is found, not only the first, and they come in the kubelet's order: first the
   switches of the kubelet at large (``validate_general``), then topology, shutdown, node
   allocatable, reserved CPUs and memory, and what remains (``validate_rest``).
2. A field that is not set has its default; a default is never wrong.
3. The names of CPU and memory policies and of policy options are not looked at here: the
   managers themselves refuse those.
4. Where the kubelet walks a Go map, in chance order, names are taken in order.
"""

from collections.abc import Iterator, Mapping

from numawise.rules import validate_general, validate_rest
from numawise.rules.config import KubeletConfig
from numawise.rules.duration import Duration
from numawise.strconv import parse_int, quote

LOOKED_AT = validate_general.LOOKED_AT | validate_rest.LOOKED_AT | frozenset({
    "cgroupsPerQOS", "hairpinMode", "memorySwap", "crashLoopBackOff", "shutdownGracePeriod",
    "shutdownGracePeriodByPodPriority", "shutdownGracePeriodCriticalPods",
    "imagePullCredentialsVerificationPolicy", "preloadedImagesVerificationAllowlist",
})  # fmt: skip
"""Fields that ``KubeletConfig.other`` has to hold for these checks."""

TOPOLOGY_POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
TOPOLOGY_SCOPES = ("container", "pod")
SYSTEM = ("system-reserved", "system-reserved-compressible")
KUBE = ("kube-reserved", "kube-reserved-compressible")
ENFORCEMENTS = ("pods", *SYSTEM, *KUBE, "none")
HAIRPIN_MODES = ("none", "hairpin-veth", "promiscuous-bridge")
VERIFY_ALLOWLISTED = "NeverVerifyAllowlistedImages"
VERIFY_POLICIES = ("NeverVerify", "NeverVerifyPreloadedImages", VERIFY_ALLOWLISTED, "AlwaysVerify")

INVALID = "invalid configuration: "
ENFORCE = "enforceNodeAllocatable (--enforce-node-allocatable)"
SECOND = 10**9
LONGEST_BACK_OFF = Duration(300 * SECOND)


def problems(config: KubeletConfig, gates: Mapping[str, bool]) -> Iterator[str]:
    """Everything wrong with the configuration, in the kubelet's order and words."""
    yield from validate_general.problems(config.other, gates)
    yield from _topology(config)
    yield from _shutdown(config, gates)
    yield from _swap(config)
    yield from _back_off(config, gates)
    yield from _enforcement(config)
    yield from _hairpin(config)
    yield from _image_pulls(config, gates)
    yield from _reserved_cpus(config)
    yield from _reserved_memory(config)
    yield from validate_rest.problems(config.other, gates)


def _topology(config: KubeletConfig) -> Iterator[str]:
    policy, scope = config.topology_manager_policy, config.topology_manager_scope
    if policy not in TOPOLOGY_POLICIES:
        known = " ".join(map(quote, TOPOLOGY_POLICIES))
        name = "topologyManagerPolicy (--topology-manager-policy)"
        yield f"{INVALID}{name} {quote(policy)} must be one of: [{known}]"
    if scope not in TOPOLOGY_SCOPES:
        known = ", or ".join(map(quote, TOPOLOGY_SCOPES))
        name = "topologyManagerScope (--topology-manager-scope)"
        yield f"{INVALID}{name} {quote(scope)} must be one of: {known}"


def _shutdown(config: KubeletConfig, gates: Mapping[str, bool]) -> Iterator[str]:
    whole = Duration(config.other.get("shutdownGracePeriod", 0))
    critical = Duration(config.other.get("shutdownGracePeriodCriticalPods", 0))
    by_priority = config.other.get("shutdownGracePeriodByPodPriority")
    wanted = whole > 0 or critical > 0
    if gates["GracefulNodeShutdown"]:
        if critical > whole:
            yield (
                f"{INVALID}shutdownGracePeriodCriticalPods {{{critical}}} must be <="
                f" shutdownGracePeriod {{{whole}}}"
            )
        for name, period in (
            ("shutdownGracePeriod", whole),
            ("shutdownGracePeriodCriticalPods", critical),
        ):
            if period < 0 or 0 < period < SECOND:
                yield f"{INVALID}{name} {{{period}}} must be either zero or otherwise >= 1 sec"
    elif wanted:
        yield (
            f"{INVALID}specifying shutdownGracePeriod or shutdownGracePeriodCriticalPods"
            " requires feature gate GracefulNodeShutdown"
        )
    if by_priority and not gates["GracefulNodeShutdownBasedOnPodPriority"]:
        yield (
            f"{INVALID}Specifying shutdownGracePeriodByPodPriority"
            " requires feature gate GracefulNodeShutdownBasedOnPodPriority"
        )
    elif by_priority and wanted:
        yield (
            f"{INVALID}Cannot specify both shutdownGracePeriodByPodPriority"
            " and shutdownGracePeriod at the same time"
        )


def _swap(config: KubeletConfig) -> Iterator[str]:
    behaviour = config.other.get("memorySwap", {}).get("swapBehavior", "")
    if behaviour not in ("", "NoSwap", "LimitedSwap"):
        yield (
            f"{INVALID}memorySwap.swapBehavior {quote(behaviour)} must be one of:"
            ' "", "LimitedSwap" or "NoSwap"'
        )


def _back_off(config: KubeletConfig, gates: Mapping[str, bool]) -> Iterator[str]:
    longest: Duration | None = config.other.get("crashLoopBackOff", {}).get("maxContainerRestartPeriod")
    if longest is None:
        return
    if not gates["KubeletCrashLoopBackOffMax"]:
        yield (
            f"{INVALID}FeatureGate KubeletCrashLoopBackOffMax not enabled,"
            " CrashLoopBackOff.MaxContainerRestartPeriod must not be set"
        )
    elif not SECOND <= longest < LONGEST_BACK_OFF + SECOND // 1000:  # judged in whole milliseconds
        got = validate_rest.shown(longest.seconds)
        yield (
            f"{INVALID}CrashLoopBackOff.MaxContainerRestartPeriod (got: {got} seconds)"
            " must be set between 1s and 300s"
        )


def _enforcement(config: KubeletConfig) -> Iterator[str]:
    wanted = config.enforce_node_allocatable
    for one, other in (SYSTEM, KUBE):
        if one in wanted and other in wanted:
            yield f"{INVALID}both {quote(one)} and {quote(other)} cannot be specified together in {ENFORCE}"
    for i, name in enumerate(wanted):
        if name in wanted[:i]:
            yield f"{INVALID}duplicated enforcements {quote(name)} in {ENFORCE}"
            continue
        if name in SYSTEM and not config.system_reserved_cgroup:
            yield _cgroup_missing("systemReservedCgroup (--system-reserved-cgroup)", SYSTEM)
        elif name in KUBE and not config.kube_reserved_cgroup:
            yield _cgroup_missing("kubeReservedCgroup (--kube-reserved-cgroup)", KUBE)
        elif name == "none":
            if len(wanted) > 1:
                yield f'{INVALID}{ENFORCE} may not contain additional enforcements when "none" is specified'
            continue
        elif name not in ENFORCEMENTS:
            *most, last = map(quote, ENFORCEMENTS)
            known = f"{', '.join(most)} or {last}"
            yield f"{INVALID}option {quote(name)} specified for {ENFORCE}. Valid options are {known}"
            continue
        if not config.other.get("cgroupsPerQOS", True):
            must = "cgroupsPerQOS (--cgroups-per-qos) must be set to true"
            yield f"{INVALID}{must} when {quote(name)} contained in {ENFORCE}"


def _cgroup_missing(field: str, enforcements: tuple[str, str]) -> str:
    one, other = map(quote, enforcements)
    return f"{INVALID}{field} must be specified when {one} or {other} included in {ENFORCE}"


def _hairpin(config: KubeletConfig) -> Iterator[str]:
    mode = config.other.get("hairpinMode", HAIRPIN_MODES[-1])
    if mode not in HAIRPIN_MODES:
        one, other, last = map(quote, HAIRPIN_MODES)
        yield (
            f"{INVALID}option {quote(mode)} specified for hairpinMode (--hairpin-mode)."
            f" Valid options are {one}, {other} or {last}"
        )


def _image_pulls(config: KubeletConfig, gates: Mapping[str, bool]) -> Iterator[str]:
    policy = config.other.get("imagePullCredentialsVerificationPolicy", "")
    allowed = config.other.get("preloadedImagesVerificationAllowlist", ())
    if not gates["KubeletEnsureSecretPulledImages"]:
        unset = "must not be set if KubeletEnsureSecretPulledImages feature gate is not enabled"
        if policy:
            yield f"{INVALID}`imagePullCredentialsVerificationPolicy` {unset}"
        if allowed:
            yield f"{INVALID}`preloadedImagesVerificationAllowlist` {unset}"
        return
    if policy and policy not in VERIFY_POLICIES:
        *most, last = map(quote, VERIFY_POLICIES)
        yield (
            f"{INVALID}option {quote(policy)} specified for imagePullCredentialsVerificationPolicy."
            f" Valid options are {', '.join(most)} or {last}"
        )
    if allowed and policy != VERIFY_ALLOWLISTED:
        yield (
            f"{INVALID}can't set `preloadedImagesVerificationAllowlist` if"
            f" `imagePullCredentialsVertificationPolicy` is not {quote(VERIFY_ALLOWLISTED)}"
        )
        return
    wrong = next(filter(None, map(_image_pattern, allowed)), None)
    if wrong:
        yield f"{INVALID}invalid image pattern in `preloadedImagesVerificationAllowlist`: {wrong}"


def _image_pattern(pattern: str) -> str | None:
    """What is wrong with an allowed image; the grammar of image names itself is not looked at."""
    bare = pattern.removesuffix("*") if pattern.endswith("/*") else pattern
    if pattern != pattern.strip():
        return f"leading/trailing spaces are not allowed: {pattern}"
    if not bare:
        return f"the supplied pattern is too short: {pattern}"
    if "*" in bare:
        return f"not a valid wildcard pattern, only patterns ending with '/*' are allowed: {pattern}"
    if bare == "/" and pattern != bare:
        return "at least registry hostname is required"
    return None


def _reserved_cpus(config: KubeletConfig) -> Iterator[str]:
    cpus = config.reserved_system_cpus
    if not cpus:
        return
    if config.system_reserved_cgroup or config.kube_reserved_cgroup:
        yield (
            f"{INVALID}can't use reservedSystemCPUs (--reserved-cpus) with systemReservedCgroup"
            " (--system-reserved-cgroup) or kubeReservedCgroup (--kube-reserved-cgroup)"
        )
    for part in cpus.split(","):
        wrong = _cpu_range(part)
        if wrong:
            yield f"{INVALID}unable to parse reservedSystemCPUs (--reserved-cpus) {cpus}, error: {wrong}"
            return


def _cpu_range(text: str) -> str | None:
    """What is wrong with ``3`` or ``0-3``; a number that is too large for any machine is not."""
    start, dash, end = text.partition("-")
    try:
        first = parse_int(start)
        last = parse_int(end) if dash else first
    except ValueError as problem:
        return str(problem)
    return f"invalid range {quote(text)} ({first} > {last})" if first > last else None


def _reserved_memory(config: KubeletConfig) -> Iterator[str]:
    seen: set[tuple[int, str]] = set()
    for entry in config.reserved_memory:
        for name, amount in sorted(entry.limits):
            if name != "memory" and not name.startswith("hugepages-"):
                yield (
                    f"{INVALID}the limit type {quote(name)} for NUMA node {entry.numa} is not supported,"
                    " only [memory hugepages-<HugePageSize>] is accepted"
                )
            where = f"for NUMA node {entry.numa} and resource {quote(name)}"
            if amount.nano == 0:
                yield f"{INVALID}reserved memory may not be zero {where}"
            if (entry.numa, name) in seen:
                yield f"{INVALID}the reserved memory has a duplicate value {where}"
            seen.add((entry.numa, name))
