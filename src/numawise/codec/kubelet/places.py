"""Where other tools keep a kubelet's configuration: kinds of objects, and what is where inside."""

from numawise.values import dataclass

Path = tuple[str, ...]

MAPPING, TEXT, NAMED, LISTED, FILES, UNITS, USERDATA = (
    "mapping",  # fields under their own names
    "text",  # YAML with a KubeletConfiguration
    "named flags",
    "listed flags",
    "files",  # of a machine that is to be set up
    "units",  # of systemd
    "user data",
)
EACH = "*"


@dataclass(frozen=True, slots=True)
class Form:
    """An object that has kubelets' configurations inside."""

    kind: str
    """'': an object without kind."""
    root: Path
    """The way to one kubelet; '*': every member is one."""
    places: tuple[tuple[Path, str], ...]
    """From there: where parts of its configuration are, and what they are."""
    platform: str = ""
    only_with: Path = ()
    """It counts only where the object has this."""
    last: bool = False
    """It counts only where no other form of the kind was found."""


REGISTRATION = ("nodeRegistration", "kubeletExtraArgs")
KUBEADM_FILES = (("files",), FILES)
IGNITION = ((("storage", "files"), FILES), (("systemd", "units"), UNITS))
FORMS: tuple[Form, ...] = (
    Form("KubeletConfig",       (), ((("spec", "kubeletConfig"), MAPPING),), "openshift"),
    Form("PerformanceProfile",  (), (((), "profile"),), "openshift-performance"),
    Form("MachineConfig",       ("spec", "config"), IGNITION, "openshift"),
    Form("EC2NodeClass",        (), ((("spec", "userData"), USERDATA),
                                     (("spec", "kubelet"), MAPPING)), "karpenter"),
    Form("AWSNodeTemplate",     (), ((("spec", "userData"), USERDATA),), "karpenter"),
    Form("NodePool",            (), ((("spec", "template", "spec", "kubelet"), MAPPING),), "karpenter"),
    Form("Provisioner",         (), ((("spec", "kubeletConfiguration"), MAPPING),), "karpenter"),
    Form("AKSNodeClass",        (), ((("spec", "kubelet"), MAPPING),), "aks"),
    Form("NodeConfig",          (), ((("spec", "kubelet", "config"), MAPPING),
                                     (("spec", "kubelet", "flags"), LISTED)), "eks"),
    *(
        Form("ClusterConfig",   (group, EACH), ((("overrideBootstrapCommand",), USERDATA),
                                                (("bottlerocket", "settings", "kubernetes"), "bottlerocket"),
                                                (("kubeletExtraConfig",), MAPPING)), "eksctl")
        for group in ("nodeGroups", "managedNodeGroups")
    ),
    *(
        Form(kind, root, (KUBEADM_FILES, *places), "cluster-api", only_with, last=not only_with)
        for kind, root in (
            ("KubeadmConfig", ("spec",)),
            ("KubeadmConfigTemplate", ("spec", "template", "spec")),
            ("KubeadmControlPlane", ("spec", "kubeadmConfigSpec")),
            ("KubeadmControlPlaneTemplate", ("spec", "template", "spec", "kubeadmConfigSpec")),
        )
        for places, only_with in (
            (((("initConfiguration", *REGISTRATION), NAMED),), (*root, "initConfiguration")),
            (((("joinConfiguration", *REGISTRATION), NAMED),), (*root, "joinConfiguration")),
            ((), ()),
        )
    ),
    Form("RKE2ConfigTemplate",  ("spec", "template", "spec", "agentConfig", "kubelet"),
                                ((("extraArgs",), LISTED),), "rke2"),
    Form("InitConfiguration",   (), ((REGISTRATION, NAMED),), "kubeadm"),
    Form("JoinConfiguration",   (), ((REGISTRATION, NAMED),), "kubeadm"),
    Form("Cluster",             ("kubeadmConfigPatches", EACH), (((), TEXT),), "kubeadm"),
    Form("Cluster",             ("nodes", EACH, "kubeadmConfigPatches", EACH), (((), TEXT),), "kubeadm"),
    Form("Cluster",             ("spec", "rkeConfig", "machineGlobalConfig"),
                                ((("kubelet-arg",), LISTED),), "rke2"),
    Form("Cluster",             ("spec", "rkeConfig", "machineSelectorConfig", EACH, "config"),
                                ((("kubelet-arg",), LISTED),), "rke2"),
    Form("Cluster",             ("spec", "kubelet"), (((), "kops"),)),
    Form("InstanceGroup",       ("spec", "kubelet"), (((), "kops"),)),
    Form("ConfigMap",           ("data", EACH), (((), TEXT),)),
    Form("ContainerNodePool",   ("spec", "nodeConfig", "kubeletConfig"), (((), "gke"),), "gke"),
    Form("ComputeClass",        ("spec", "priorities", EACH, "nodeSystemConfig", "kubeletConfig"),
                                (((), "gke"),), "gke"),
    Form("",                    (), ((("kubeletconfig",), MAPPING),)),
    Form("",                    (), ((("kubelet",), MAPPING),)),
    Form("",                    (), ((("machine", "kubelet", "extraConfig"), MAPPING),
                                     (("machine", "kubelet", "extraArgs"), NAMED)), "talos"),
    Form("",                    (), ((("kubelet-arg",), LISTED), (("kubelet-arg+",), LISTED)), "k3s"),
    Form("",                    ("settings", "kubernetes"), (((), "bottlerocket"),), "bottlerocket"),
    Form("",                    (), ((("write_files",), FILES),)),
    Form("",                    (), IGNITION, "openshift"),
)  # fmt: skip
