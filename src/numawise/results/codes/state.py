"""Codes about the kubelet's state files."""

from numawise.results.codes.model import ERROR, INFO, WARNING, Code

STATE = {
    "NW301": Code(
        "A state file of another policy",
        ERROR,
        "The kubelet does not start.",
        "Drain the node, stop the kubelet, delete the file, start it.",
        "`cpu_manager_state` and `memory_manager_state` name the policy they were written under. After a "
        "change of the policy the kubelet refuses its own file, so that containers which still run do not "
        "lose what they hold. The topology policy has no file and can be changed freely.",
    ),
    "NW302": Code(
        "The checksum of a state file is wrong",
        ERROR,
        "The kubelet takes the file for damaged and does not start.",
        "Restore the file, or drain the node and delete it.",
        "The checksum covers the values, not the text: white space and the order of members do not matter, "
        "but any edited value does. From 1.36 on a damaged CPU file with entries is reported as a JSON type "
        "error.",
    ),
    "NW303": Code(
        "A state file that cannot be read",
        ERROR,
        "The kubelet does not start.",
        "Restore the file, or drain the node and delete it.",
        "The file is cut off or no JSON, a CPU list in it is malformed, or it has a format that this "
        "release, or this setting of `PodLevelResourceManagers`, does not read.",
    ),
    "NW304": Code(
        "The device checkpoint is passed over",
        WARNING,
        "The kubelet starts as if no device were allocated, and may give one out twice.",
        "Restore the file, or drain the node and delete it.",
        "A damaged `kubelet_internal_checkpoint` does not stop the kubelet; it logs an error and forgets "
        "who has which device. Running containers keep theirs, and new ones may get the same.",
    ),
    "NW305": Code(
        "The CPUs of the state file are not those of the machine",
        ERROR,
        "The kubelet does not start.",
        "Bring the CPUs back, or drain the node and delete the file.",
        "The shared pool and all assignments together must be exactly the CPUs that are online. CPUs "
        "switched off or added, a changed firmware setting, or a file from another machine break that.",
    ),
    "NW306": Code(
        "Reserved CPUs and shared pool do not fit together",
        ERROR,
        "The kubelet does not start.",
        "Go back to the old reservation, or drain the node and delete the file.",
        "All reserved CPUs must be in the shared pool of the file; with `strict-cpu-reservation` none of "
        "them may. The reservation was changed, or the option was switched, after the file was written.",
    ),
    "NW307": Code(
        "An exclusive CPU is in the shared pool too",
        ERROR,
        "The kubelet does not start.",
        "Drain the node and delete the file.",
        "A CPU that a container owns alone cannot be in the shared pool. Such a file was edited.",
    ),
    "NW308": Code(
        "Two pods hold the same thing",
        WARNING,
        "Both believe they are alone on it; the kubelet does not notice.",
        "Delete one of the pods, so that it is placed anew.",
        "The kubelet compares exclusive CPUs with the shared pool, not with each other, and never compares "
        "devices. It comes from an edited file, or from a defect on machines whose cores are not alike.",
    ),
    "NW309": Code(
        "The shared pool is empty",
        ERROR,
        "The kubelet does not start.",
        "Drain the node and delete the file.",
        "With `strict-cpu-reservation` exclusive pods can take every CPU of the shared pool. The kubelet "
        "goes on while it runs, and refuses its file after a restart.",
    ),
    "NW310": Code(
        "The memory state is not that of the machine",
        ERROR,
        "The kubelet does not start.",
        "Drain the node and delete the file.",
        "The file holds the memory of every NUMA node to the byte. A reboot, another kernel or a changed "
        "`reservedMemory` change it: often by some megabytes only, which harms nobody, and still the "
        "kubelet refuses. What differs is told here, and whether what pods hold still fits.",
    ),
    "NW311": Code(
        "Memory is held where there is none",
        ERROR,
        "The kubelet does not start.",
        "Drain the node and delete the file.",
        "An assignment names a NUMA node or a type of memory that the machine does not have: huge pages "
        "were given up, or the file comes from another machine.",
    ),
    "NW312": Code(
        "Something is held for a pod that is not there",
        WARNING,
        "Until the kubelet looks again, nobody else can have it.",
        "Nothing, when the pod has only just gone; else restart the kubelet.",
        "What a pod held is given back when the kubelet next looks for pods that are gone, and it looks "
        "when another pod arrives. Entries that stay belong to pods which the kubelet still believes in.",
    ),
    "NW313": Code(
        "A held device is not on the machine",
        WARNING,
        "When the kubelet restarts, the pod that holds it is refused.",
        "Find out what became of the device, and delete the pod.",
        "The device checkpoint names a device that no plugin offers, or one that is unhealthy now.",
    ),
    "NW314": Code(
        "A state file without a checksum",
        INFO,
        "It is accepted unseen.",
        "Nothing; the kubelet writes a checksum with its next change.",
        "A checksum of 0, or none, is accepted for the CPU file, and from 1.36 on for the memory file. "
        "People remove it to edit the file.",
    ),
}
