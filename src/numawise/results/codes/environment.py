"""Codes about what a pod does to its own placement: environment, command, privileges."""

from numawise.results.codes.model import INFO, WARNING, Code

ENVIRONMENT = {
    "NW501": Code(
        "The pod chooses its GPUs by number",
        WARNING,
        "Numbers count from the first GPU that the container sees, not from the first of the machine.",
        "Remove the variable; ask for GPUs as a resource.",
        "The device plugin shows a container the GPUs it was given, numbered from 0. A variable that names "
        "others hides what was given; one that names fewer leaves GPUs idle; a UUID binds the manifest to "
        "one card. Written for a bare machine, it does not do in a pod what it did there.",
    ),
    "NW502": Code(
        "The pod takes GPUs past the device plugin",
        WARNING,
        "It sees GPUs that were given to others, or none at all.",
        "Remove the variable: the device plugin sets it.",
        "Variables of the pod are set after those of the device plugin and win. With `all` the container "
        "uses every GPU of the machine, whoever owns them; with `none` or `void` it has paid for GPUs that "
        "it cannot see.",
    ),
    "NW503": Code(
        "Threads are bound to CPUs by number",
        WARNING,
        "Which CPUs the container gets is decided when it starts; others than those cannot be used.",
        "Remove the list, or bind relative to what is allowed (OMP_PLACES=cores, OMP_PROC_BIND=close).",
        "A list of CPUs in a manifest fits one machine and one moment. Threads bound to CPUs outside the "
        "container's set fail to bind, or all end on the same few.",
    ),
    "NW504": Code(
        "More threads than CPUs",
        WARNING,
        "They take turns, and stall each other at every barrier.",
        "Set the number of threads to the number of CPUs, or let the program find out.",
        "The variable fixes the number of threads above the CPUs that the container may use.",
    ),
    "NW505": Code(
        "The command binds itself",
        WARNING,
        "Inside a container its node and CPU numbers are mostly wrong, and often forbidden.",
        "Remove it: the kubelet has bound the container already.",
        "`numactl`, `taskset` and binding options of launchers name CPUs and NUMA nodes of the machine. The "
        "container may have neither; setting a memory policy also needs a right that containers lack.",
    ),
    "NW506": Code(
        "A privileged container sees every device",
        WARNING,
        "It can use GPUs that were given to others.",
        "Drop privileged; ask for the devices and the capabilities that are needed.",
        "The device cgroup, which keeps a container to its own devices, does not hold for privileged ones.",
    ),
    "NW507": Code(
        "The pod shares the host's processes",
        INFO,
        "It can move and bind processes that are not its own.",
        "Leave hostPID out unless the pod is a tool for the node.",
        "With `hostPID` and enough rights a container changes the affinity of any process.",
    ),
    "NW508": Code(
        "GPUs without asking for any",
        WARNING,
        "The container sees all GPUs, and no manager knows that it uses them.",
        "Ask for the GPUs as a resource.",
        "With the NVIDIA runtime and images that set NVIDIA_VISIBLE_DEVICES=all, a container that asks for "
        "no GPU sees every one. Others are given the same GPU by the device plugin.",
    ),
    "NW509": Code(
        "Device files from the host",
        WARNING,
        "The device is used past the device plugin, which may give it to another pod.",
        "Ask for the device as a resource.",
        "A volume of type hostPath brings in a device file or the whole of /dev.",
    ),
}
