"""How a kubelet release decides, as named ways of doing things.

The algorithms ask for a way by name (``rules.behaviour.cpus_by_numa``) and never for a version number.
"""

from functools import cache

from numawise.rules.versions import REFERENCE, Version, Way
from numawise.values import dataclass


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How a release decides; each name is explained in ``WAYS``, the defaults are those of 1.36."""

    preferred_needs_equal_masks: bool = True
    cpus_in_settled_order: bool = True
    cpus_by_numa: bool = True
    counts_free_cores: bool = True
    tells_missing_cores: bool = True
    smt_check_before_record: bool = True
    says_how_many_cpus: bool = True
    odd_requests_fit_uncore: bool = True
    distribution_minds_sockets: bool = False
    pushes_only_changes: bool = True
    last_pod_outlives_reconcile: bool = False
    sidecars_keep_their_share: bool = True
    pod_level_excluded: bool = True
    has_memory_manager: bool = True
    init_memory_reused: bool = True
    other_pods_reuse_forgotten: bool = True
    memory_widens_downwards: bool = True
    memory_width_ignores_groups: bool = True
    memory_keeps_groups: bool = True
    memory_compares_groups: bool = True
    skips_memoryless_containers: bool = False
    device_hints_over_hosting_nodes: bool = True
    empty_topology_is_none: bool = True
    homeless_devices_apart: bool = True
    any_wanted_node_counts: bool = True
    checks_recorded_devices: bool = True
    vanished_devices_crash: bool = True
    claimed_resources_not_allocated: bool = True
    claimed_resources_not_counted: bool = True
    missing_scalars_left_to_claims: bool = False
    zero_scalars_left_to_claims: bool = False
    reads_flat_device_lists: bool = False
    cpu_file_tries_oldest_first: bool = False
    memory_file_may_lack_checksum: bool = True
    files_carry_data: bool = False
    zero_requests_fit: bool = True
    zero_scalars_fit: bool = True
    predicates_say_why: bool = True
    missing_init_resources_dropped: bool = True
    taints_judged: bool = True
    pod_system_judged: bool = True
    pod_system_judged_first: bool = True
    group_policy_judged: bool = True
    sidecar_ports_count: bool = True
    victims_counted_at_once: bool = True
    node_read_again: bool = True
    sysctls_allowlisted: bool = True
    namespaces_in_capitals: bool = True
    user_sysctls_judged: bool = False
    resize_conditions: bool = True
    resizes_wait_in_a_queue: bool = True
    resizes_end_at_capacity: bool = False
    resize_capacity_ignores_eviction: bool = False
    resize_capacity_counts_sidecars: bool = True
    managers_mind_their_own_resize: bool = True
    static_pods_keep_their_size: bool = False
    pod_sizes_noticed: bool = True
    managers_read_the_status: bool = False
    managers_skip_resizes: bool = False
    sizes_compared_by_container: bool = True
    infeasible_pods_count_as_they_run: bool = False
    memory_limits_shrink: bool = True


WAYS = (
    Way(
        "preferred_needs_equal_masks",
        "A merged hint is preferred only when all masks agree, and its width "
        "is judged by the resource that needs most NUMA nodes.",
        since=(1, 24),
    ),
    Way(
        "cpus_in_settled_order",
        "Sockets, cores and CPUs are compared without contradiction, so that there is a single order.",
        since=(1, 22),
    ),
    Way(
        "cpus_by_numa",
        "Whole NUMA nodes are a level of the CPU choice, besides sockets and cores.",
        since=(1, 23),
    ),
    Way(
        "counts_free_cores",
        "`full-pcpus-only` also refuses when too few whole cores are free.",
        since=(1, 27),
    ),
    Way(
        "tells_missing_cores",
        "The SMT refusal names a shortage of free cores even when no core is free at all.",
        since=(1, 32),
    ),
    Way(
        "smt_check_before_record",
        "`full-pcpus-only` is checked before it is checked whether the container already has its CPUs.",
        until=(1, 36),
    ),
    Way("says_how_many_cpus", "The refusal for too few CPUs gives the numbers.", since=(1, 29)),
    Way(
        "odd_requests_fit_uncore",
        "`prefer-align-cpus-by-uncorecache` finds CPUs for a request that ends in half a core.",
        since=(1, 34),
    ),
    Way(
        "distribution_minds_sockets",
        "`distribute-cpus-across-numa` prefers NUMA nodes of one socket under `align-by-socket`.",
        since=(1, 37),
    ),
    Way(
        "pushes_only_changes",
        "The reconcile pass pushes a CPU set only where it is not the one pushed last.",
        since=(1, 22),
    ),
    Way(
        "last_pod_outlives_reconcile",
        "The reconcile pass treats the pod that the CPU Manager saw last as alive.",
        since=(1, 22),
        until=(1, 31),
    ),
    Way(
        "sidecars_keep_their_share",
        "What a sidecar received is not handed on to later containers.",
        since=(1, 29),
    ),
    Way(
        "pod_level_excluded",
        "Pods with pod-level resources get no exclusive CPUs or memory unless a gate says so.",
        since=(1, 34),
    ),
    Way("has_memory_manager", "There is a Memory Manager, with hints and a file of its own.", since=(1, 21)),
    Way(
        "init_memory_reused",
        "Memory of an init container serves later containers, and is given back when the next one starts.",
        since=(1, 22),
    ),
    Way(
        "other_pods_reuse_forgotten",
        "What other pods' init containers left is forgotten, not what the pod's own left.",
        since=(1, 23),
    ),
    Way(
        "memory_widens_downwards",
        "A mask with too little memory may be widened by lower NUMA nodes alone, or stay as it is.",
        since=(1, 22),
    ),
    Way(
        "memory_width_ignores_groups",
        "How many NUMA nodes memory needs at least is computed as if none were grouped.",
        since=(1, 23),
    ),
    Way(
        "memory_keeps_groups",
        "The Memory Manager refuses a mask that breaks how its NUMA nodes are grouped.",
        since=(1, 32),
    ),
    Way(
        "memory_compares_groups",
        "The start-up check compares memory by group of NUMA nodes, not by node.",
        since=(1, 32),
    ),
    Way(
        "skips_memoryless_containers",
        "Containers without memory of their own are skipped by the Memory Manager (pod level).",
        since=(1, 37),
    ),
    Way(
        "device_hints_over_hosting_nodes",
        "Device hints range over the NUMA nodes that have such devices, not over all.",
        since=(1, 36),
    ),
    Way(
        "empty_topology_is_none",
        "A device whose topology names no NUMA node counts as one without topology.",
        since=(1, 26),
    ),
    Way(
        "homeless_devices_apart",
        "Devices without NUMA node are recorded as such, not under node 0.",
        since=(1, 23),
    ),
    Way(
        "any_wanted_node_counts",
        "A device on several NUMA nodes counts as aligned when any of them is wanted, not one in particular.",
        since=(1, 22),
    ),
    Way(
        "checks_recorded_devices",
        "Recorded devices must still be healthy, except those of containers found running at a restart.",
        since=(1, 25),
    ),
    Way(
        "vanished_devices_crash",
        "Hints for devices that the plugin no longer lists crash the kubelet; before, these were skipped.",
        since=(1, 34),
    ),
    Way(
        "claimed_resources_not_allocated",
        "Gate `DRAExtendedResource`: the Device Manager gives no devices of an extended resource that a "
        "claim backs. It still makes hints for it where a device plugin has registered it.",
        since=(1, 35),
    ),
    Way(
        "claimed_resources_not_counted",
        "Gate `DRAExtendedResource`: the sums do not judge an extended resource that a claim backs.",
        since=(1, 36),
    ),
    Way(
        "missing_scalars_left_to_claims",
        "Gate `DRAExtendedResource`: the sums pass over huge pages and other counted resources that the node "
        "does not list.",
        since=(1, 34),
        until=(1, 35),
    ),
    Way(
        "zero_scalars_left_to_claims",
        "Likewise over those of which the node has none.",
        since=(1, 35),
        until=(1, 35),
    ),
    Way("reads_flat_device_lists", "The device file of 1.19 and before can be read.", until=(1, 30)),
    Way(
        "cpu_file_tries_oldest_first",
        "`cpu_manager_state` is read as the oldest format first; the error is about the newest.",
        until=(1, 35),
    ),
    Way(
        "memory_file_may_lack_checksum",
        "`memory_manager_state` is accepted without a checksum.",
        since=(1, 36),
    ),
    Way(
        "files_carry_data",
        "CPU and memory files hold their content twice: in the old form, and as text with pod entries.",
        since=(1, 37),
    ),
    Way(
        "zero_requests_fit",
        "A pod that asks for no CPU or no memory is not refused because others ask for too much of it.",
        since=(1, 28),
    ),
    Way(
        "zero_scalars_fit",
        "Likewise for huge pages and devices of which it asks for zero.",
        since=(1, 26),
    ),
    Way(
        "predicates_say_why",
        "The refusal by a predicate gives the predicate's own words after its name.",
        since=(1, 31),
    ),
    Way(
        "missing_init_resources_dropped",
        "Extended resources that a node lacks are dropped from init containers too, not only from others.",
        since=(1, 31),
    ),
    Way(
        "taints_judged",
        "The kubelet refuses pods that do not tolerate a taint with effect `NoExecute`.",
        since=(1, 24),
    ),
    Way(
        "pod_system_judged",
        "The kubelet refuses pods of another operating system.",
        since=(1, 23),
    ),
    Way(
        "pod_system_judged_first",
        "The operating system is judged before the predicates; before, after them, and after a preemption.",
        since=(1, 29),
    ),
    Way(
        "group_policy_judged",
        "The kubelet refuses `supplementalGroupsPolicy: Strict` where the container runtime lacks it.",
        since=(1, 33),
    ),
    Way("sidecar_ports_count", "Host ports of sidecars are taken, too.", since=(1, 33)),
    Way(
        "victims_counted_at_once",
        "A pod that may be preempted counts by the most it needs at one time, and by its pod-level requests "
        "alone where it has any; before, by its app containers or its largest init container.",
        since=(1, 34),
    ),
    Way(
        "node_read_again",
        "Where labels alone stand against a pod, the node is read again and everything is judged once more, "
        "without counting allocated devices as allocatable.",
        since=(1, 35),
    ),
    Way(
        "sysctls_allowlisted", "A refused sysctl is `not allowlisted`, not `not whitelisted`.", since=(1, 23)
    ),
    Way(
        "namespaces_in_capitals",
        "The refusal of a sysctl of the node's own namespace names it `Net` or `IPC`, not in small letters.",
        since=(1, 29),
    ),
    Way(
        "user_sysctls_judged",
        "Sysctls below `user.` are refused to pods without a user namespace of their own.",
        since=(1, 37),
    ),
    Way(
        "resize_conditions",
        "What became of a resize stands in the pod's conditions; before, resizes are not simulated.",
        since=(1, 33),
    ),
    Way(
        "resizes_wait_in_a_queue",
        "Resizes that wait are tried in order, when pods go or change and every three minutes; before, each "
        "one when its pod was synced.",
        since=(1, 34),
    ),
    Way(
        "resizes_end_at_capacity",
        "A resize beyond what the whole node has for pods is infeasible; later it is deferred.",
        until=(1, 35),
    ),
    Way(
        "resize_capacity_ignores_eviction",
        "What the node has for pods is taken before the eviction thresholds for this.",
        since=(1, 34),
        until=(1, 35),
    ),
    Way(
        "resize_capacity_counts_sidecars",
        "Sidecars, and pod-level resources, count in what a resize asks for of the whole node.",
        since=(1, 34),
    ),
    Way(
        "managers_mind_their_own_resize",
        "A static CPU or Memory Manager makes a resize of a Guaranteed pod infeasible only where it changes "
        "the CPUs or the memory; the message names the policy in quotes.",
        since=(1, 34),
    ),
    Way(
        "static_pods_keep_their_size",
        "Static pods cannot be resized.",
        until=(1, 35),
    ),
    Way(
        "pod_sizes_noticed",
        "A change of pod-level resources alone is taken for a resize.",
        since=(1, 35),
    ),
    Way(
        "managers_read_the_status",
        "CPU and Memory Manager take the size of a running container from its status, not from the spec.",
        until=(1, 34),
    ),
    Way(
        "managers_skip_resizes",
        "CPU and Memory Manager give no hints for a resize, and no manager allocates anything.",
        since=(1, 37),
    ),
    Way(
        "sizes_compared_by_container",
        "A pod on its way from one size to another counts by the larger of both for each container, not for "
        "all of them together.",
        until=(1, 36),
    ),
    Way(
        "infeasible_pods_count_as_they_run",
        "A pod whose resize is infeasible counts without its init containers, where pods have no size of "
        "their own (gate InPlacePodLevelResourcesVerticalScaling off).",
        since=(1, 37),
    ),
    Way(
        "memory_limits_shrink",
        "The API server lets a memory limit shrink, or be added, without a restart of the container.",
        since=(1, 34),
    ),
)


@cache
def behaviour_of(version: Version = REFERENCE) -> Behaviour:
    """How one release decides."""
    return Behaviour(**{way.name: way.holds(version) for way in WAYS})
