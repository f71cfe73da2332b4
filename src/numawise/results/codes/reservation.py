"""Codes about reservations and about what the machine has to do with them."""

from numawise.results.codes.model import ERROR, INFO, WARNING, Code

RESERVATION = {
    "NW201": Code(
        "The static CPU policy without reserved CPUs",
        ERROR,
        "The kubelet does not start: the system must have a CPU that is never given away.",
        'Set reservedSystemCPUs: "0" or another list, or a cpu in kubeReserved or systemReserved.',
        "Under the policy `static` at least one CPU must stay in the shared pool for good. It is named by "
        "`reservedSystemCPUs`, or counted from the sum of the cpu in `kubeReserved` and `systemReserved`, "
        "rounded up to whole CPUs. A sum of zero is no reservation.",
    ),
    "NW202": Code(
        "reservedSystemCPUs cannot be used",
        ERROR,
        "The kubelet does not start.",
        'Write a list such as "0-1,64-65", and leave systemReservedCgroup and kubeReservedCgroup out.',
        "The list is written as the kernel writes CPU lists: numbers and ranges, separated by commas, "
        "without blanks. It cannot be combined with control groups for the system or for Kubernetes.",
    ),
    "NW203": Code(
        "Reserved CPUs that are not online",
        ERROR,
        "The kubelet does not start.",
        "Name CPUs that this machine has, and that are online.",
        "Every CPU of `reservedSystemCPUs` must be online when the kubelet starts. Lists copied from a "
        "larger machine, or made before hyper-threads were switched off, name CPUs that are not there.",
    ),
    "NW204": Code(
        "More CPUs reserved than the machine has",
        ERROR,
        "The kubelet does not start.",
        "Reserve fewer.",
        "The CPUs of `kubeReserved` and `systemReserved` together are taken out of the machine's. When "
        "there are not as many, none of them can be chosen.",
    ),
    "NW205": Code(
        "kubeReserved or systemReserved cannot be read",
        ERROR,
        "The kubelet does not start.",
        "Reserve cpu, memory, ephemeral-storage and pid only, as quantities that are not negative.",
        "Only these four resources can be reserved. Huge pages and devices cannot.",
    ),
    "NW206": Code(
        "evictionHard cannot be read",
        ERROR,
        "The kubelet does not start.",
        "Use a known signal and a quantity above zero or a percentage.",
        "The signals are fixed names, `memory.available` and `nodefs.available` among them. A threshold is "
        "an amount or a percentage of the capacity.",
    ),
    "NW207": Code(
        "reservedSystemCPUs overrules the reserved number of CPUs",
        INFO,
        "The cpu in kubeReserved and systemReserved is not added, it is replaced.",
        "Remove cpu from kubeReserved and systemReserved.",
        "With an explicit list the kubelet reserves exactly these CPUs: the cpu of `kubeReserved` is "
        "dropped and that of `systemReserved` becomes the length of the list.",
    ),
    "NW208": Code(
        "A fraction of a CPU is reserved",
        WARNING,
        "The scheduler counts the fraction, the CPU Manager a whole CPU: pods that fit on paper are refused.",
        "Reserve whole CPUs, best by reservedSystemCPUs.",
        "`static` keeps whole CPUs: 100m and 100m make one CPU that is never given away, while the node "
        "reports 200m less than it has. A Guaranteed pod for all that seems to be left is scheduled here, "
        "refused with `not enough cpus available to satisfy request`, and made anew by its owner.",
    ),
    "NW209": Code(
        "Reserved CPUs split a core",
        WARNING,
        "The other thread of the core is given to pods, beside the system's work.",
        "Reserve all threads of a core, or none.",
        "A core whose one thread is reserved and whose other is not is shared between the system and a pod "
        "that was promised a CPU of its own. With `full-pcpus-only` the free thread cannot be given to "
        "anybody, and is lost.",
    ),
    "NW210": Code(
        "All reserved CPUs are on one NUMA node",
        INFO,
        "NUMA nodes have unequal room for exclusive CPUs.",
        "Reserve a core on every NUMA node, unless that is what you want.",
        "The nodes are then not alike: a shape that fits several times on one fits once less on the other, "
        "and a request for all CPUs of a node can be met on the others only.",
    ),
    "NW211": Code(
        "No CPU is left to give",
        WARNING,
        "Every pod that asks for exclusive CPUs is refused.",
        "Reserve fewer CPUs.",
        "The kubelet accepts a reservation of every CPU it has. It then can give none exclusively.",
    ),
    "NW212": Code(
        "Strictly reserved CPUs, and no floor for the shared pool",
        WARNING,
        "When exclusive pods take all other CPUs, the next start of the kubelet fails.",
        "Keep some CPUs unclaimed, by what you let onto the node.",
        "With `strict-cpu-reservation` reserved CPUs are not in the shared pool, so pods with whole CPUs "
        "can empty it. Other pods then have nowhere to run, and after a restart the kubelet stops with "
        "`default cpuset cannot be empty`.",
    ),
    "NW213": Code(
        "No eviction threshold for memory",
        WARNING,
        "The kernel kills processes before the kubelet evicts pods.",
        'Add memory.available: "100Mi" or more to evictionHard.',
        "Naming any signal in `evictionHard` drops all defaults, that of `memory.available` (100Mi) too, "
        "unless `mergeDefaultEvictionSettings` is true. The amount also falls out of the sum that "
        "`reservedMemory` has to match.",
    ),
    "NW214": Code(
        "A memory threshold in percent under the Static memory policy",
        WARNING,
        "After a reboot the machine has some megabytes more or less, the sum no longer matches, and the "
        "kubelet does not start.",
        "Give memory.available as an amount.",
        "`reservedMemory` must match to the byte, and a percentage is taken of the machine's memory as the "
        "kernel reports it, which changes with every kernel and often with every boot. The percentage is "
        "also held in single precision.",
    ),
    "NW215": Code(
        "More is reserved than the machine has",
        ERROR,
        "The kubelet does not start.",
        "Reserve less.",
        "What is reserved for Kubernetes, for the system and by eviction thresholds must not exceed the "
        "capacity of the machine.",
    ),
    "NW221": Code(
        "reservedMemory does not add up",
        ERROR,
        "The kubelet does not start: the sum over all NUMA nodes must be exactly kubeReserved + "
        "systemReserved + evictionHard memory.available.",
        "Change reservedMemory so that it adds up.",
        "Under the policy `Static` the memory reserved on NUMA nodes has to be, in total and to the byte, "
        "the memory of `kubeReserved`, of `systemReserved`, and the hard eviction threshold "
        "`memory.available`, which is 100Mi where `evictionHard` is not written at all. How it is spread "
        "over NUMA nodes is free. Huge pages always have to add up to zero, so they cannot be reserved.",
    ),
    "NW222": Code(
        "An entry of reservedMemory that cannot be used",
        ERROR,
        "The kubelet does not start.",
        "Give each NUMA node once, with memory above zero, as a whole number of bytes without fraction.",
        "Entries name a NUMA node that exists, the type `memory`, and an amount above zero. `1.5Gi` is "
        "refused here although `1536Mi` is the same.",
    ),
    "NW223": Code(
        "The Static memory policy without any reservation",
        ERROR,
        "The kubelet does not start.",
        "Reserve memory in systemReserved or kubeReserved, and the same in reservedMemory.",
        "Some memory must be kept for the system.",
    ),
    "NW224": Code(
        "A NUMA node has less memory than it is to give up",
        WARNING,
        "The free amount wraps around and becomes absurdly large: the Memory Manager promises memory that "
        "does not exist.",
        "Move the reservation, or the huge pages, to another NUMA node.",
        "Reserved memory and huge pages are subtracted from a NUMA node's memory without a look at whether "
        "that goes below zero.",
    ),
    "NW231": Code(
        "More NUMA nodes than the Topology Manager takes",
        ERROR,
        "The kubelet does not start.",
        "Set max-allowable-numa-nodes, or topologyManagerPolicy: none.",
        "The kubelet looks at every set of NUMA nodes, and there are 2^n - 1 of them; so it refuses "
        "machines with more than 8, nodes without CPUs counted. From 1.31 on `max-allowable-numa-nodes` "
        "lifts the limit, and the cost comes.",
    ),
    "NW232": Code(
        "Many NUMA nodes make admissions slow",
        WARNING,
        "The kubelet compares every combination of hints, and admits one pod at a time.",
        "Use single-numa-node, or have fewer NUMA nodes (NPS1, SNC off).",
        "Every resource may offer every set of NUMA nodes, 2^n - 1 of them, and all combinations are "
        "compared: with CPUs, memory and one kind of device on 8 nodes 16.6 million, for each container. "
        "`single-numa-node` keeps one hint per node and is spared.",
    ),
    "NW233": Code(
        "Cores are not alike",
        WARNING,
        "The CPU Manager judges cores by their average and may give CPUs out twice.",
        "Switch hyper-threading on or off altogether, and keep static off machines with mixed cores.",
        "With some threads offline, or fast and slow cores in one package, the average number of threads "
        "per core is wrong for every core. The static policy then takes a core for free that is not, and "
        "hands out reserved or assigned CPUs.",
    ),
    "NW234": Code(
        "Isolated CPUs in the kubelet's hands",
        WARNING,
        "The scheduler of the kernel does not balance them: threads of a container pile up on the first.",
        "Remove isolcpus=, or keep the kubelet off these CPUs.",
        "The kubelet knows nothing of `isolcpus=`. Isolated CPUs stand in its shared pool and are given "
        "away like any other; pods of the shared pool are not spread over them.",
    ),
    "NW235": Code(
        "prefer-closest-numa-nodes without distances",
        ERROR,
        "The kubelet does not start.",
        "Remove the option.",
        "The machine does not report how far its NUMA nodes are from each other.",
    ),
    "NW236": Code(
        "prefer-closest-numa-nodes on NUMA ids with gaps",
        WARNING,
        "The kubelet crashes when it compares distances.",
        "Remove the option on this machine.",
        "Distances are looked up by NUMA id in a list that has as many entries as there are nodes. Where "
        "ids are not 0, 1, 2 and so on, it reads beyond the end.",
    ),
    "NW237": Code(
        "Devices without a NUMA node",
        WARNING,
        "They give no hints: pods that ask for them are not aligned, or refused.",
        "Have the firmware or the hypervisor tell the NUMA node of its devices.",
        "A device whose `numa_node` is -1 is offered without topology. It helps no hint, and a resource of "
        "which some devices have a place and others do not can be impossible to satisfy under `restricted`.",
    ),
    "NW238": Code(
        "A NUMA node without CPUs or without memory",
        INFO,
        "It counts towards the limit of NUMA nodes, and makes sets of nodes that look alike differ.",
        "Nothing, if the hardware is meant so; else put memory into every socket.",
        "Memory of accelerators, persistent memory and empty sockets appear as NUMA nodes. Containers there "
        "have only remote memory, or no CPU nearby.",
    ),
    "NW239": Code(
        "align-by-socket on a machine with more sockets than NUMA nodes",
        ERROR,
        "The kubelet does not start.",
        "Remove align-by-socket.",
        "The option treats the NUMA nodes of a socket as one; it makes no sense where sockets share a node.",
    ),
    "NW240": Code(
        "One NUMA node, nothing to align",
        INFO,
        "Everything is on it.",
        "In a virtual machine, ask for a NUMA topology; on hardware, look at NPS or SNC in the firmware.",
        "On a machine with one NUMA node all policies come to the same. Often a virtual machine hides the "
        "topology of its host, and the work is spread over sockets nevertheless.",
    ),
    "NW241": Code(
        "Unhealthy devices",
        WARNING,
        "They still count when the kubelet judges how many NUMA nodes a request needs at best.",
        "Mend or remove the device.",
        "A device plugin reports the health of its devices. Unhealthy ones are not given, but hints are "
        "judged by the devices there are, healthy or not; so a pod may be refused for a placement that is "
        "impossible.",
    ),
}
