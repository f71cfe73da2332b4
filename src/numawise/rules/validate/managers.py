"""What the kubelet demands of a configuration before it looks at the machine.

Rules kept here:

1. Every problem is found, not only the first, and they come in the kubelet's order: first the
   switches of the kubelet at large (``validate_general``), then topology, shutdown, node
   allocatable, reserved CPUs and memory, and what remains (``validate_rest``).
2. A field that is not set has its default; a default is never wrong.
3. The names of CPU and memory policies and of policy options are not looked at here: the
   managers themselves refuse those.
4. Where the kubelet walks a Go map, in chance order, names are taken in order.
5. What a release demands is the rows of ``CHECKS`` that hold in it.
"""

from collections.abc import Callable, Iterator
from functools import partial

from numawise.rules.eviction import Duration
from numawise.rules.model import KubeletConfig
from numawise.rules.validate import general as validate_general
from numawise.rules.validate import rest as validate_rest
from numawise.rules.validate.general import INVALID, Check, Gates
from numawise.rules.versions import REFERENCE, Dated, Version, at
from numawise.strconv import parse_int, quote
from numawise.values import dataclass

LOOKED_AT = validate_general.LOOKED_AT | validate_rest.LOOKED_AT | frozenset({
    "cgroupsPerQOS", "hairpinMode", "memorySwap", "crashLoopBackOff", "shutdownGracePeriod",
    "shutdownGracePeriodByPodPriority", "shutdownGracePeriodCriticalPods",
    "imagePullCredentialsVerificationPolicy", "preloadedImagesVerificationAllowlist", "allowedUnsafeSysctls",
})  # fmt: skip
"""Fields that ``KubeletConfig.other`` has to hold for these checks and for admission."""

TOPOLOGY_POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
TOPOLOGY_SCOPES = ("container", "pod")
SYSTEM = ("system-reserved", "system-reserved-compressible")
KUBE = ("kube-reserved", "kube-reserved-compressible")
ENFORCED = ("pods", *SYSTEM, *KUBE, "none")
HAIRPIN_MODES = ("none", "hairpin-veth", "promiscuous-bridge")
VERIFY_ALLOWLISTED = "NeverVerifyAllowlistedImages"
VERIFY_POLICIES = ("NeverVerify", "NeverVerifyPreloadedImages", VERIFY_ALLOWLISTED, "AlwaysVerify")

ENFORCE = "enforceNodeAllocatable (--enforce-node-allocatable)"
SECOND = 10**9
LONGEST_BACK_OFF = Duration(300 * SECOND)


def problems(config: KubeletConfig, gates: Gates, version: Version = REFERENCE) -> Iterator[str]:
    """Everything wrong with the configuration, in the kubelet's order and words."""
    for check in at(version, CHECKS):
        yield from check(config, gates)


# --- topology -------------------------------------------------------------------------------


def _policy_gate(config: KubeletConfig, gates: Gates) -> Iterator[str]:
    policy = config.topology_manager_policy
    if policy != "none" and not gates["TopologyManager"]:
        yield f"{INVALID}topologyManagerPolicy {policy} requires feature gate TopologyManager"


def _scope_gate(config: KubeletConfig, gates: Gates) -> Iterator[str]:
    scope = config.topology_manager_scope
    if scope != "container" and not gates["TopologyManager"]:
        yield f"{INVALID}topologyManagerScope {scope} requires feature gate TopologyManager"


def _brief_policy(config: KubeletConfig, _: Gates) -> Iterator[str]:
    if config.topology_manager_policy not in TOPOLOGY_POLICIES:
        yield f"{INVALID}topologyManagerPolicy non-allowable value: {config.topology_manager_policy}"


def _brief_scope(config: KubeletConfig, _: Gates) -> Iterator[str]:
    if config.topology_manager_scope not in TOPOLOGY_SCOPES:
        yield f"{INVALID}topologyManagerScope non-allowable value: {config.topology_manager_scope}"


def _policy(config: KubeletConfig, _: Gates) -> Iterator[str]:
    if config.topology_manager_policy not in TOPOLOGY_POLICIES:
        known = " ".join(map(quote, TOPOLOGY_POLICIES))
        name = "topologyManagerPolicy (--topology-manager-policy)"
        yield f"{INVALID}{name} {quote(config.topology_manager_policy)} must be one of: [{known}]"


def _scope(config: KubeletConfig, _: Gates) -> Iterator[str]:
    if config.topology_manager_scope not in TOPOLOGY_SCOPES:
        known = ", or ".join(map(quote, TOPOLOGY_SCOPES))
        name = "topologyManagerScope (--topology-manager-scope)"
        yield f"{INVALID}{name} {quote(config.topology_manager_scope)} must be one of: {known}"


# --- shutdown, swap, restarts ---------------------------------------------------------------


def _periods(config: KubeletConfig) -> tuple[Duration, Duration]:
    whole = Duration(config.other.get("shutdownGracePeriod", 0))
    return whole, Duration(config.other.get("shutdownGracePeriodCriticalPods", 0))


def _early_shutdown(config: KubeletConfig, gates: Gates) -> Iterator[str]:
    whole, critical = _periods(config)
    one, other = "ShutdownGracePeriod", "ShutdownGracePeriodCriticalPods"
    if gates["GracefulNodeShutdown"]:
        if whole < 0 or critical < 0 or critical > whole:
            yield (
                f"{INVALID}{one} {{{whole}}} must be >= 0, {other} {{{critical}}} must be >= 0,"
                f" and {other} {{{critical}}} must be <= {one} {{{whole}}}"
            )
        for name, period in ((one, whole), (other, critical)):
            if 0 < period < SECOND:
                yield f"{INVALID}{name} {{{period}}} must be either zero or otherwise >= 1 sec"
    elif whole > 0 or critical > 0:
        yield f"{INVALID}Specifying {one} or {other} requires feature gate GracefulNodeShutdown"


def _shutdown(config: KubeletConfig, gates: Gates) -> Iterator[str]:
    whole, critical = _periods(config)
    one, other = "shutdownGracePeriod", "shutdownGracePeriodCriticalPods"
    if gates["GracefulNodeShutdown"]:
        if critical > whole:
            yield f"{INVALID}{other} {{{critical}}} must be <= {one} {{{whole}}}"
        for name, period in ((one, whole), (other, critical)):
            if period < 0 or 0 < period < SECOND:
                yield f"{INVALID}{name} {{{period}}} must be either zero or otherwise >= 1 sec"
    elif whole > 0 or critical > 0:
        yield f"{INVALID}specifying {one} or {other} requires feature gate GracefulNodeShutdown"


def _shutdown_by_priority(config: KubeletConfig, gates: Gates) -> Iterator[str]:
    by_priority = config.other.get("shutdownGracePeriodByPodPriority")
    if by_priority and not gates["GracefulNodeShutdownBasedOnPodPriority"]:
        yield (
            f"{INVALID}Specifying shutdownGracePeriodByPodPriority"
            " requires feature gate GracefulNodeShutdownBasedOnPodPriority"
        )
    elif by_priority and any(period > 0 for period in _periods(config)):
        yield (
            f"{INVALID}Cannot specify both shutdownGracePeriodByPodPriority"
            " and shutdownGracePeriod at the same time"
        )


def _swap(known: str, words: str, config: KubeletConfig, gates: Gates) -> Iterator[str]:
    """``words``: the name of the field, and what is said of a wrong value."""
    field, _, wrong = words.partition(" ")
    behaviour = config.other.get("memorySwap", {}).get("swapBehavior", "")
    if gates["NodeSwap"]:
        if behaviour not in ("", *known.split()):
            yield f"{INVALID}{field} {wrong.format(behaviour, quote(behaviour))}"
    elif behaviour:
        yield f"{INVALID}{field} cannot be set when NodeSwap feature flag is disabled"


EARLY_SWAP = "MemorySwap.SwapBehavior {0} must be one of: LimitedSwap, UnlimitedSwap"
UNLIMITED_SWAP = 'memorySwap.swapBehavior {1} must be one of: "", "LimitedSwap", or "UnlimitedSwap"'
NO_SWAP = 'memorySwap.swapBehavior {1} must be one of: "", "LimitedSwap" or "NoSwap"'


def _back_off(config: KubeletConfig, gates: Gates) -> Iterator[str]:
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


# --- node allocatable -----------------------------------------------------------------------


def _plainly_quoted(text: str) -> str:
    return f"'{text}'"


@dataclass(frozen=True, slots=True)
class Enforcement:
    """What may be enforced, and together with what."""

    compressible: bool = True
    """CPU alone can be enforced."""
    thorough: bool = True
    """Nothing may be named twice, and what is enforced needs QoS cgroups."""
    quoted: Callable[[str], str] = quote

    def __call__(self, config: KubeletConfig, _: Gates) -> Iterator[str]:
        wanted = config.enforce_node_allocatable
        for one, other in (SYSTEM, KUBE):
            if self.compressible and one in wanted and other in wanted:
                both = f"both {quote(one)} and {quote(other)}"
                yield f"{INVALID}{both} cannot be specified together in {ENFORCE}"
        for i, name in enumerate(wanted):
            if self.thorough and name in wanted[:i]:
                yield f"{INVALID}duplicated enforcements {quote(name)} in {ENFORCE}"
                continue
            if name in self._kinds(SYSTEM) and not config.system_reserved_cgroup:
                yield self._cgroup_missing("systemReservedCgroup (--system-reserved-cgroup)", SYSTEM)
            elif name in self._kinds(KUBE) and not config.kube_reserved_cgroup:
                yield self._cgroup_missing("kubeReservedCgroup (--kube-reserved-cgroup)", KUBE)
            elif name == "none":
                if len(wanted) > 1:
                    alone = f"when {self.quoted('none')} is specified"
                    yield f"{INVALID}{ENFORCE} may not contain additional enforcements {alone}"
                continue
            elif name not in ("pods", *self._kinds(SYSTEM), *self._kinds(KUBE)):
                yield self._unknown(name)
                continue
            if self.thorough and not config.other.get("cgroupsPerQOS", True):
                must = "cgroupsPerQOS (--cgroups-per-qos) must be set to true"
                yield f"{INVALID}{must} when {quote(name)} contained in {ENFORCE}"

    def _kinds(self, pair: tuple[str, str]) -> tuple[str, ...]:
        return pair if self.compressible else pair[:1]

    def _cgroup_missing(self, field: str, pair: tuple[str, str]) -> str:
        included = " or ".join(map(self.quoted, self._kinds(pair)))
        included += " included" if self.compressible else " contained"
        return f"{INVALID}{field} must be specified when {included} in {ENFORCE}"

    def _unknown(self, name: str) -> str:
        *most, last = map(quote, ("pods", *self._kinds(SYSTEM), *self._kinds(KUBE), "none"))
        known = f"{', '.join(most)}{'' if self.compressible else ','} or {last}"
        return f"{INVALID}option {quote(name)} specified for {ENFORCE}. Valid options are {known}"


def _hairpin(config: KubeletConfig, _: Gates) -> Iterator[str]:
    mode = config.other.get("hairpinMode", HAIRPIN_MODES[-1])
    if mode not in HAIRPIN_MODES:
        one, other, last = map(quote, HAIRPIN_MODES)
        yield (
            f"{INVALID}option {quote(mode)} specified for hairpinMode (--hairpin-mode)."
            f" Valid options are {one}, {other} or {last}"
        )


def _image_pulls(config: KubeletConfig, gates: Gates) -> Iterator[str]:
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


# --- reserved CPUs and memory ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReservedCpus:
    """The list of reserved CPUs, and what goes with it."""

    prefix: str = INVALID
    told: bool = True
    """The words give the list."""
    sign: str = ">"
    """What is said of a range that runs backwards; '' where it is passed over, like ``1-2-3``."""

    def __call__(self, config: KubeletConfig, _: Gates) -> Iterator[str]:
        cpus = config.reserved_system_cpus
        if not cpus:
            return
        if config.system_reserved_cgroup or config.kube_reserved_cgroup:
            yield (
                f"{self.prefix}can't use reservedSystemCPUs (--reserved-cpus) with systemReservedCgroup"
                " (--system-reserved-cgroup) or kubeReservedCgroup (--kube-reserved-cgroup)"
            )
        wrong = next(filter(None, map(self._wrong, cpus.split(","))), None)
        if wrong:
            name = "reservedSystemCPUs (--reserved-cpus)"
            yield f"{self.prefix}unable to parse {name}{f' {cpus}' if self.told else ''}, error: {wrong}"

    def _wrong(self, text: str) -> str | None:
        """What is wrong with ``3`` or ``0-3``; a number that is too large for any machine is not."""
        parts = text.split("-", 1 if self.sign else -1)
        if len(parts) > 2:
            return None
        try:
            first, last = parse_int(parts[0]), parse_int(parts[-1])
        except ValueError as problem:
            return str(problem)
        if self.sign and first > last:
            return f"invalid range {quote(text)} ({first} {self.sign} {last})"
        return None


def _reserved_memory(prefix: str, config: KubeletConfig, _: Gates) -> Iterator[str]:
    seen: set[tuple[int, str]] = set()
    for entry in config.reserved_memory:
        for name, amount in sorted(entry.limits):
            if name != "memory" and not name.startswith("hugepages-"):
                yield (
                    f"{prefix}the limit type {quote(name)} for NUMA node {entry.numa} is not supported,"
                    " only [memory hugepages-<HugePageSize>] is accepted"
                )
            where = f"for NUMA node {entry.numa} and resource {quote(name)}"
            if amount.nano == 0:
                yield f"{prefix}reserved memory may not be zero {where}"
            if (entry.numa, name) in seen:
                yield f"{prefix}the reserved memory has a duplicate value {where}"
            seen.add((entry.numa, name))


CHECKS: tuple[Dated[Check], ...] = (
    *validate_general.CHECKS,
    Dated(_policy_gate, until=(1, 26)),
    *validate_general.TAINTS,
    Dated(_brief_policy, until=(1, 23)),
    Dated(_policy, (1, 24)),
    Dated(_scope_gate, until=(1, 26)),
    Dated(_brief_scope, until=(1, 23)),
    Dated(_scope, (1, 24)),
    Dated(_early_shutdown, until=(1, 23)),
    Dated(_shutdown, (1, 24)),
    Dated(_shutdown_by_priority, (1, 23)),
    Dated(partial(_swap, "LimitedSwap UnlimitedSwap", EARLY_SWAP), (1, 22), (1, 23)),
    Dated(partial(_swap, "LimitedSwap UnlimitedSwap", UNLIMITED_SWAP), (1, 24), (1, 29)),
    Dated(partial(_swap, "LimitedSwap NoSwap", NO_SWAP), (1, 30)),
    Dated(_back_off, (1, 32)),
    Dated(Enforcement(compressible=False, thorough=False, quoted=_plainly_quoted), until=(1, 23)),
    Dated(Enforcement(compressible=False, thorough=False), (1, 24), (1, 30)),
    Dated(Enforcement(compressible=False), (1, 31), (1, 31)),
    Dated(Enforcement(), (1, 32)),
    Dated(_hairpin),
    Dated(_image_pulls, (1, 33)),
    Dated(ReservedCpus(prefix="", told=False, sign=""), until=(1, 21)),
    Dated(ReservedCpus(prefix="", told=False, sign=">="), (1, 22), (1, 23)),
    Dated(ReservedCpus(sign=">="), (1, 24), (1, 26)),
    Dated(ReservedCpus(), (1, 27)),
    Dated(partial(_reserved_memory, ""), (1, 21), (1, 23)),
    Dated(partial(_reserved_memory, INVALID), (1, 24)),
    *validate_rest.CHECKS,
)


def swap_behaviours(version: Version = REFERENCE) -> tuple[str, ...]:
    """What ``memorySwap.swapBehavior`` may be in a release; none where it has no such check."""
    checks = (one for one in at(version, CHECKS) if isinstance(one, partial) and one.func is _swap)
    return tuple(name for one in checks for name in one.args[0].split())
