"""Codes about the check itself and about kubelet configurations."""

from numawise.results.codes.model import ERROR, INFO, WARNING, Code

CONFIGURATION = {
    "NW001": Code(
        "An ignore comment names a code that does not exist",
        WARNING,
        "Nothing is ignored by it.",
        "Correct the code, or remove the comment.",
        "`# numawise: ignore NW221` silences a code on its line, on the line below it, or, at the top of a "
        "file, in the whole file. A code that does not exist is most likely misspelt, and the finding it "
        "was meant for comes back or never was there.",
    ),
    "NW002": Code(
        "A file is not what it was given as",
        ERROR,
        "Nothing in it could be checked.",
        "Give the file with the right option, or correct it.",
        "The text is no YAML or JSON, or it holds something else than a kubelet configuration, a machine or "
        "a pod. The kubelet and kubectl would not read it either.",
    ),
    "NW003": Code(
        "Something could not be checked",
        INFO,
        "What is not known cannot be judged.",
        "Give what is missing.",
        "Some rules need more than was given: a threshold in percent needs the size of the machine's "
        "memory, a machine pasted from one command may lack core or socket numbers. Nothing is guessed; "
        "this says what was left out.",
    ),
    "NW101": Code(
        "The configuration cannot be decoded",
        ERROR,
        "The kubelet stops before it looks at anything else.",
        "Write the value in the type that the field has.",
        "Every field has a type. A number where text is wanted, an unquoted `true` as the value of a policy "
        "option, a duration without unit or a malformed quantity end the reading of the file. The kubelet "
        "tells of the first one only; here all are told.",
    ),
    "NW102": Code(
        "apiVersion or kind is missing or wrong",
        ERROR,
        "The kubelet does not know what it reads and stops.",
        "Begin the file with apiVersion: kubelet.config.k8s.io/v1beta1 and kind: KubeletConfiguration.",
        "The kubelet reads nothing but a `KubeletConfiguration` of `kubelet.config.k8s.io/v1beta1`, and "
        "both must be named, in drop-in files as well. Objects of other tools that carry such a "
        "configuration keep it at a fixed place inside; at another one it is passed over.",
    ),
    "NW103": Code(
        "A field that this release does not know",
        WARNING,
        "The kubelet logs a warning and goes on as if it were not there.",
        "Correct the name, or remove the field.",
        "The kubelet first reads strictly; when it finds a field that it does not know it reads once more, "
        "without it, and logs `Using lenient decoding as strict decoding failed`. A misspelt field, or one "
        "that a later release introduced, has no effect, and nobody notices. In drop-in files there is not "
        "even a warning.",
    ),
    "NW104": Code(
        "A field stands twice",
        WARNING,
        "The last one counts.",
        "Remove one of them.",
        "In the main file the kubelet warns and takes the last. In a drop-in file it refuses to start.",
    ),
    "NW105": Code(
        "Only the first document of the file is read",
        WARNING,
        "What stands in later documents is never looked at.",
        "Put everything into one document, or use a drop-in directory.",
        "The kubelet takes the first YAML document of its configuration file and silently passes over the "
        "others; it does not merge them.",
    ),
    "NW106": Code(
        "A drop-in file stops the kubelet",
        ERROR,
        "One bad file in the directory keeps the kubelet from starting.",
        "Correct the file, or move it out of the directory.",
        "Files of `--config-dir` are read more strictly than the main file: apiVersion and kind must be "
        "there, and no field may stand twice. Releases 1.28 and 1.29 want the environment variable "
        "KUBELET_CONFIG_DROPIN_DIR_ALPHA besides; before 1.28 the flag did not exist.",
    ),
    "NW107": Code(
        "A file of the drop-in directory is not read",
        WARNING,
        "Only names that end in .conf count.",
        "Rename it to end in .conf, or remove it.",
        "The kubelet walks the drop-in directory in the order of the names, folders inside it included, and "
        "merges every file that ends in `.conf` over what came before. Maps are merged key by key, lists "
        "are replaced, null removes. All other files are passed over without a word.",
    ),
    "NW108": Code(
        "A flag stops the kubelet",
        ERROR,
        "The kubelet prints this and exits before it reads its configuration.",
        "Remove the flag, or correct its value.",
        "An unknown flag, a value that cannot be read, or a word that belongs to no flag end the start. "
        "Flags disappear between releases: those of the container network and of Docker in 1.24, those of "
        "the old logging in 1.26, `--container-runtime` in 1.27, `--pod-infra-container-image` in 1.35.",
    ),
    "NW109": Code(
        "A flag overrides the file",
        INFO,
        "The file says one thing and the kubelet does another.",
        "Set it in one place only, best in the file.",
        "Flags win over the configuration file and its drop-ins. A flag with a map or a list replaces all "
        "that the file says there, except feature gates, which are merged. Without `--config` the default "
        "hard eviction thresholds are not set either (since 1.26).",
    ),
    "NW111": Code(
        "An unknown feature gate",
        ERROR,
        "The kubelet does not start.",
        "Remove the gate.",
        "A gate lives for some releases: it comes as alpha, and some time after its feature became stable "
        "it is removed. Naming one that the release does not have, or no longer has, stops the kubelet, "
        "also when the feature itself is on for good.",
    ),
    "NW112": Code(
        "A feature gate is locked",
        ERROR,
        "The kubelet does not start.",
        "Remove the gate.",
        "The gate of a stable feature can be named, but no longer set to the other value.",
    ),
    "NW113": Code(
        "A feature gate needs another one",
        ERROR,
        "The kubelet does not start.",
        "Switch both on, or both off.",
        "From 1.35 on gates know what they depend on. One that is on, by default or by name, while "
        "something it needs is off, stops the kubelet.",
    ),
    "NW114": Code(
        "A feature gate that later releases refuse",
        INFO,
        "The kubelet starts now, and stops after an upgrade.",
        "Remove it: it changes nothing any more.",
        "The gate is locked to the value given here, so the line says nothing; in a later release the gate "
        "is gone and the same line stops the kubelet.",
    ),
    "NW115": Code(
        "Something alpha is in use",
        INFO,
        "It may change or go away with any release.",
        "Expect it to change, or do without.",
        "Alpha gates and alpha policy options are off by default, carry no promise across releases, and are "
        "the first to change behaviour.",
    ),
    "NW120": Code(
        "A value that the kubelet does not accept",
        ERROR,
        "The kubelet does not start.",
        "Set a value that it accepts.",
        "Before it builds anything the kubelet validates its whole configuration, and refuses with a list "
        "of all problems. Most of these have nothing to do with NUMA nodes, but none of the managers starts "
        "before all are gone.",
    ),
    "NW121": Code(
        "An unknown Topology Manager policy or scope",
        ERROR,
        "The kubelet does not start.",
        "Use none, best-effort, restricted or single-numa-node; the scope is container or pod.",
        "The names are compared to the letter, in small letters and with hyphens. The scope is looked at "
        "even when the policy is none.",
    ),
    "NW122": Code(
        "An unknown CPU Manager policy",
        ERROR,
        "The kubelet does not start.",
        "Use none or static.",
        "The CPU Manager's policies are written in small letters: `none` and `static`. This is not part of "
        "the validation of the configuration; the manager itself refuses when it is built.",
    ),
    "NW123": Code(
        "An unknown Memory Manager policy",
        ERROR,
        "The kubelet does not start.",
        "Use None or Static, with a capital.",
        "The Memory Manager's policies begin with a capital, unlike those of the other managers: `None` and "
        "`Static` (and `BestEffort`, on Windows only).",
    ),
    "NW124": Code(
        "An unknown policy option, or a bad value of one",
        ERROR,
        "The kubelet does not start.",
        "Correct the name or the value.",
        "Option names are fixed; which there are depends on the release. Values are text: true or false in "
        "any spelling that Go reads, or a number for `max-allowable-numa-nodes`, at least 8.",
    ),
    "NW125": Code(
        "A policy option needs a feature gate",
        ERROR,
        "The kubelet does not start, even when the option is false.",
        "Switch the gate on, or remove the option.",
        "Alpha options need `CPUManagerPolicyAlphaOptions` or `TopologyManagerPolicyAlphaOptions`, which "
        "are off by default; beta options need the gates for beta options, which are on. In old releases "
        "all options needed one more gate, `CPUManagerPolicyOptions` or `TopologyManagerPolicyOptions`.",
    ),
    "NW126": Code(
        "Policy options that exclude each other",
        ERROR,
        "The kubelet does not start.",
        "Keep one of them.",
        "Some options of the static CPU policy contradict each other: packing cores and spreading over "
        "cores, keeping to an L3 cache and spreading over NUMA nodes. `align-by-socket` contradicts the "
        "topology policy `single-numa-node`, for a socket may have several NUMA nodes.",
    ),
    "NW127": Code(
        "Options for a CPU Manager that is off",
        ERROR,
        "The kubelet does not start.",
        "Set cpuManagerPolicy: static, or remove the options.",
        "The policy `none` takes no options at all, not even ones that are false.",
    ),
    "NW128": Code(
        "Topology options that are passed over",
        WARNING,
        "With topologyManagerPolicy none nobody reads them, right or wrong.",
        "Set a topology policy, or remove the options.",
        "From 1.28 on options of the Topology Manager are not even looked at under the policy `none`. A "
        "mistake in them comes to light, and stops the kubelet, on the day the policy is changed.",
    ),
    "NW129": Code(
        "An option without effect here",
        WARNING,
        "It is accepted and changes nothing.",
        "Remove it, or change what keeps it from working.",
        "`prefer-closest-numa-nodes` chooses among sets of several NUMA nodes, and `distribute-cpus-across-"
        "numa` spreads requests that need several; under `single-numa-node` no container is ever given "
        "several. An option whose value is false is the same as none.",
    ),
    "NW130": Code(
        "A topology policy, but CPUs are not managed",
        WARNING,
        "CPUs give no hints: containers float over all NUMA nodes while their devices are aligned.",
        "Set cpuManagerPolicy: static and reserve CPUs.",
        "The Topology Manager only brings together what the other managers offer. With the CPU policy "
        "`none` no container has CPUs of its own; a GPU may be on one NUMA node and the threads that feed "
        "it on the other. Pods are still refused for devices or memory.",
    ),
    "NW131": Code(
        "A topology policy, but memory is not managed",
        INFO,
        "Memory gives no hints: a container's pages may come from any NUMA node.",
        "Set memoryManagerPolicy: Static and reservedMemory.",
        "Without the Memory Manager a container with exclusive CPUs gets its memory wherever the kernel "
        "finds it: on its own NUMA node while there is some, on another one after that, without anybody "
        "noticing.",
    ),
    "NW132": Code(
        "Exclusive CPUs, but no topology policy",
        INFO,
        "CPUs, memory and devices are each chosen for themselves.",
        "Set topologyManagerPolicy: restricted or single-numa-node, or best-effort to begin with.",
        "With the topology policy `none` the CPU Manager packs CPUs by its own lights, and the Device "
        "Manager takes any device. Whether the two end up on one NUMA node is luck.",
    ),
    "NW133": Code(
        "reservedMemory that nobody reads",
        INFO,
        "With memoryManagerPolicy None it has no effect.",
        "Set memoryManagerPolicy: Static, or remove reservedMemory.",
        "The reservation by NUMA node belongs to the Memory Manager's policy `Static`. Under `None` it is "
        "checked for form and then forgotten, and a wrong total goes unnoticed until the policy is "
        "switched.",
    ),
    "NW134": Code(
        "Exclusive CPUs are throttled",
        INFO,
        "Containers with CPUs of their own are stopped by the CPU quota for moments.",
        "Upgrade to 1.33 or later, or set cpuCFSQuota: false.",
        "Up to 1.32 a container with exclusive CPUs still has a CPU quota of the same size. Short bursts of "
        "its threads use the quota up before the period ends, and all of them stand still. From 1.33 on the "
        "kubelet sets no quota for such containers.",
    ),
    "NW135": Code(
        "The kubelet and systemd both manage cgroups",
        WARNING,
        "systemd may reset CPU sets that the kubelet wrote.",
        "Set cgroupDriver: systemd, in the container runtime as well.",
        "With the driver `cgroupfs` the kubelet writes control groups behind the back of systemd, which "
        "owns the tree on most hosts; a reload may put back what it remembers, and containers lose their "
        "CPUs. From 1.31 on a runtime that tells its driver overrules this field.",
    ),
    "NW136": Code(
        "Swap beside pinned memory",
        INFO,
        "What is swapped out comes back on any NUMA node, and late.",
        "Set memorySwap.swapBehavior: NoSwap on nodes with memoryManagerPolicy Static.",
        "Guaranteed pods are not given swap, but with swap on for others the kernel may still push out "
        "pages of the system under pressure, and latency of the node suffers where alignment was meant to "
        "help.",
    ),
    "NW137": Code(
        "Reservations that are not enforced",
        WARNING,
        "Pods may use what was reserved for the system.",
        "Name pods in enforceNodeAllocatable.",
        "`enforceNodeAllocatable` without `pods` leaves the limit of all pods together unset: reserved "
        "memory is then only a number that the scheduler subtracts.",
    ),
    "NW138": Code(
        "The host has cgroup version 1",
        ERROR,
        "The kubelet refuses to start on it.",
        "Boot the host with cgroup version 2, or set failCgroupV1: false for the time being.",
        "From 1.35 on `failCgroupV1` is true unless it is written otherwise, and support for version 1 will "
        "be removed.",
    ),
}
