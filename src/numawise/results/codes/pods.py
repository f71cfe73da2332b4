"""Codes about pods."""

from numawise.results.codes.model import ERROR, INFO, WARNING, Code

PODS = {
    "NW401": Code(
        "The API server refuses the pod",
        ERROR,
        "It never reaches a kubelet.",
        "Correct the field.",
        "What is checked here are names, amounts, requests against limits, and containers against the pod, "
        "as far as they bear on resources. The words are the API server's.",
    ),
    "NW402": Code(
        "A placeholder was not filled in",
        WARNING,
        "The amount is not known, so the pod could not be tried.",
        "Fill the template in before the check.",
        "Text such as `$GPUS` or `{{ .Values.cpu }}` stands where an amount belongs.",
    ),
    "NW403": Code(
        "An object without pods",
        INFO,
        "There is nothing in it to check.",
        "Give objects that make pods.",
        "The object is of a kind that makes no pods, and no pod template was found inside.",
    ),
    "NW410": Code(
        "A pod with devices is not Guaranteed",
        WARNING,
        "It gets no CPUs of its own and no memory of a NUMA node; only its devices are aligned.",
        "Give every container limits for cpu and memory, and requests equal to them or none.",
        "Exclusive CPUs and pinned memory are for Guaranteed pods: every container has limits for cpu and "
        "memory, and the sums of requests and limits agree. A GPU whose threads float over the machine is "
        "fed from the far NUMA node half of the time.",
    ),
    "NW411": Code(
        "One container takes the class away from all",
        WARNING,
        "The whole pod is Burstable because of it, and no container gets CPUs of its own.",
        "Give this container limits for cpu and memory too.",
        "The class is the pod's, over all its containers: an init container or a sidecar without limits is "
        "enough to lose it.",
    ),
    "NW412": Code(
        "A fraction of a CPU",
        WARNING,
        "The container runs in the shared pool, though its pod is Guaranteed.",
        "Ask for a whole number of CPUs.",
        "Only containers with a whole number of CPUs get them alone. 3500m is served from the shared pool, "
        "like a pod without any promise.",
    ),
    "NW413": Code(
        "Resources of the pod as a whole",
        WARNING,
        "The pod is Guaranteed, and still gets no CPUs of its own and no pinned memory.",
        "Give the containers resources instead, or switch PodLevelResourceManagers on.",
        "From 1.34 on a pod may have resources of its own. The managers pass over such pods unless the gate "
        "`PodLevelResourceManagers` (from 1.36 on) is on; only devices are aligned.",
    ),
    "NW414": Code(
        "An injected sidecar may take the class away",
        WARNING,
        "The container that is added has its own requests and limits; the pod may no longer be Guaranteed.",
        "Set the proxy's requests equal to its limits, by annotation, or switch the injection off.",
        "Service meshes add a container when the pod is created, mostly with requests below its limits. The "
        "manifest shows a Guaranteed pod; the node sees a Burstable one.",
    ),
    "NW415": Code(
        "Whole CPUs that are not exclusive",
        INFO,
        "The pod is Burstable; its CPUs are shared.",
        "For CPUs of its own, give every container limits equal to requests, of cpu and memory.",
        "The request is a whole number of CPUs, as if they were meant to be exclusive, but the pod is not "
        "Guaranteed.",
    ),
    "NW420": Code(
        "The pod can never run on this machine",
        ERROR,
        "Even an empty node refuses it; its owner makes it again and again.",
        "Change the request so that it fits, or the policy.",
        "The pod was tried on the machine with nothing else on it, under this configuration. The kubelet's "
        "refusal is final for the pod: it fails, and a Deployment, Job or StatefulSet makes the next one, "
        "which fails as well.",
    ),
    "NW421": Code(
        "The pod is admitted, but never aligned",
        WARNING,
        "Its CPUs, memory and devices come from several NUMA nodes even on an empty node.",
        "Make it fit one NUMA node, or accept it.",
        "Policies that do not insist admit a pod whose resources cannot be brought together. It runs, "
        "slower than it could, and nothing says so.",
    ),
    "NW422": Code(
        "A number of GPUs that crosses NUMA nodes",
        WARNING,
        "Some of them are far from the others, and from the CPUs.",
        "Ask for as many as one NUMA node has, or for all.",
        "GPUs hang on NUMA nodes in groups of equal size, mostly four. Five GPUs are four and one: the one "
        "talks to the others over the slowest link, and three are left over that nobody can use well.",
    ),
    "NW423": Code(
        "Containers of one pod may land on different NUMA nodes",
        INFO,
        "In container scope each is aligned for itself.",
        "Set topologyManagerScope: pod when they work on the same data.",
        "With the scope `container` every container has its own NUMA node. Containers that share memory, or "
        "a GPU and its helper, belong on one; that takes the scope `pod`.",
    ),
    "NW424": Code(
        "An init container claims more than the pod needs",
        INFO,
        "Its CPUs stay with the pod as long as it lives.",
        "Let the init container ask for no more than the others.",
        "CPUs of a finished init container are handed on to later containers, and what these do not need "
        "stays recorded for the pod. An init container that fills a NUMA node can also push the others to "
        "the next one.",
    ),
    "NW425": Code(
        "A sidecar counts into the pod's NUMA node",
        INFO,
        "In pod scope one NUMA node must hold the sidecar's CPUs as well.",
        "Let the sidecar ask for a fraction of a CPU, or use container scope.",
        "With the scope `pod` the hints are for the sum of all containers, sidecars included.",
    ),
    "NW426": Code(
        "A number of CPUs that breaks a core",
        WARNING,
        "With full-pcpus-only the pod fails with SMTAlignmentError.",
        "Ask for a multiple of the threads of a core, mostly an even number.",
        "The option gives whole cores only and refuses any other number of CPUs.",
    ),
    "NW427": Code(
        "Huge pages that the machine does not have",
        WARNING,
        "The pod stays pending; if it reaches a kubelet with memoryManagerPolicy Static, that may crash.",
        "Set pages aside at boot (hugepagesz=, hugepages=) or through nr_hugepages, on every NUMA node.",
        "Huge pages are not made on demand. They have to be there, of the size asked for, when the kubelet "
        "starts.",
    ),
    "NW428": Code(
        "The pod crashes the kubelet",
        ERROR,
        "The kubelet goes down on it, and again after each restart.",
        "Do not let it onto this node.",
        "A defect of the kubelet that this combination of machine, configuration and pod brings out.",
    ),
    "NW429": Code(
        "A device that this machine does not offer",
        WARNING,
        "The pod stays pending, or runs elsewhere.",
        "Correct the name, or give a machine with these devices.",
        "The pod asks for a resource that no device plugin of the machine offers. It may be misspelt.",
    ),
    "NW430": Code(
        "A GPU without CPUs",
        WARNING,
        "Threads that feed the GPU share whatever is left, on any NUMA node.",
        "Ask for a whole number of CPUs, equal in requests and limits.",
        "The NUMA node of the GPU is known and aligned to nothing.",
    ),
    "NW431": Code(
        "A GPU without memory",
        WARNING,
        "The pod cannot be Guaranteed, so it gets no CPUs of its own, and it is evicted first.",
        "Set requests and limits for memory.",
        "Without a memory limit on every container the class is Burstable at best.",
    ),
    "NW432": Code(
        "GPUs on a node without a topology policy",
        WARNING,
        "Which GPU goes with which CPUs is left to chance.",
        "Set topologyManagerPolicy: restricted, or best-effort to begin with.",
        "With `topologyManagerPolicy: none` the device plugin is not asked where its devices are.",
    ),
    "NW433": Code(
        "Claims beside the kubelet's managers",
        WARNING,
        "Devices of a claim take no part in the alignment of CPUs and memory.",
        "Choose by the claim's numaNode or pcieRoot attribute, or use a device plugin.",
        "Devices of dynamic resource allocation are chosen by the scheduler and give the kubelet no hints. "
        "The CPU Manager gives CPUs of any NUMA node, whatever the claim holds.",
    ),
    "NW434": Code(
        "The pod goes past the scheduler",
        INFO,
        "It fails where it does not fit, instead of waiting.",
        "Use a node selector instead of nodeName.",
        "A pod with `nodeName` is handed to that kubelet at once. When CPUs, memory or devices are not free "
        "it fails with OutOfcpu or UnexpectedAdmissionError.",
    ),
    "NW435": Code(
        "Several GPUs and little shared memory",
        INFO,
        "Only 64 MiB are at /dev/shm by default; collective libraries and data loaders run out of it.",
        "Mount an emptyDir with medium: Memory at /dev/shm.",
        "Processes of one pod that drive several GPUs exchange data through /dev/shm. What is written there "
        "counts as the container's memory, on its NUMA node.",
    ),
    "NW436": Code(
        "Admission of this pod takes long",
        WARNING,
        "Meanwhile the kubelet admits nobody else.",
        "Use single-numa-node, fewer kinds of resources in one container, or fewer NUMA nodes.",
        "The kubelet compares every combination of hints; with many NUMA nodes and several resources these "
        "are millions.",
    ),
}
