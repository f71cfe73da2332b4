"""Whatever a pod, a configuration or a state file is made of: no marked word passes, and nothing crashes."""

import json
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from numawise.codec.bundle.allowed import kubelet_sentence, version_text, words
from numawise.codec.bundle.config import reduced_config, reduced_flags
from numawise.codec.bundle.manifest import Names, key_of
from numawise.codec.bundle.pods import pods_of, reduced
from numawise.codec.bundle.state import renamed_state
from numawise.codec.checkpoint import CPU_FILE, DEVICE_FILE, MEMORY_FILE
from numawise.codec.document import Document
from numawise.codec.kubelet.fields import configuration_of
from numawise.codec.kubelet.flags import read_flags
from numawise.errors import InputError
from numawise.rules.versions import NEWEST

NAMES = Names(key_of("0123456789abcdef0123456789abcdef"))
FIELDS = re.findall(
    r"\w+",
    """
    metadata spec status containers initContainers name namespace uid annotations labels ownerReferences kind resources
    requests limits claims overhead volumes emptyDir medium sizeLimit hostPath path env value valueFrom image phase
    reason message qosClass startTime nodeName runtimeClassName restartPolicy securityContext privileged volumeMounts
    mountPath resourceClaims generateName creationTimestamp template replicas ordinals start items apiVersion
    policyName defaultCpuSet entries podEntries checksum data dataChecksum machineState memoryMap cells Data
    PodDeviceEntries RegisteredDevices PodUID ContainerName ResourceName DeviceIDs AllocResp Checksum
""",
)
KNOWN = sorted(
    {
        *FIELDS,
        *configuration_of(NEWEST).fields,
        *words("config"),
        *words("variable"),
        *words("meant"),
        "/dev/shm",
    }
)
MARKS = ("zqmark", "Zqmark-7", "/dev/zqmark", "OutOfzqmark", "nvidia-zqmark", "GPU-zqmark", "OMP_ZQMARK", "1zqmark", "zqmark.slice",
         "unix:///zqmark", "2026-zqmark", "v1.36.4-zqmark", "Allocate failed due to zqmark, which is unexpected")  # fmt: skip
TEXTS = (
    st.sampled_from(KNOWN)
    | st.sampled_from(MARKS)
    | st.sampled_from(["Pod", "Memory", "Failed", "100m", "0-3", "1Gi"])
)
NUMBERS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats()
VALUES = st.recursive(
    TEXTS | NUMBERS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=6),
    max_leaves=40,
)
MAPPINGS = st.dictionaries(TEXTS, VALUES, max_size=8)


def clean(value: object) -> bool:
    return "zqmark" not in str(value).lower()


@given(MAPPINGS, MAPPINGS, MAPPINGS, st.sampled_from(["Pod", "Deployment", "CronJob", "List"]))
def test_pods(metadata: dict[str, Any], spec: dict[str, Any], status: dict[str, Any], kind: str) -> None:
    value = {
        "kind": kind,
        "metadata": metadata,
        "spec": {"containers": [spec], **spec},
        "status": status,
        "items": [spec],
    }
    for part in pods_of([Document(value, "x"), Document(spec, "x")]):
        try:
            kept: object = reduced(part, NAMES)
        except InputError as problem:
            kept = problem
        assert clean(kept)


@given(MAPPINGS)
def test_configurations(value: dict[str, Any]) -> None:
    assert clean(reduced_config(value, NAMES))


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=8))
def test_flags(pairs: list[tuple[str, str]]) -> None:
    assert clean(reduced_flags(read_flags(" ".join(f"--{name}={value!r}" for name, value in pairs)), NAMES))


@given(st.sampled_from([CPU_FILE, MEMORY_FILE, DEVICE_FILE]), MAPPINGS, st.integers(0, 400))
def test_state_files(file: str, value: dict[str, Any], cut: int) -> None:
    text = json.dumps(value)
    assert clean(renamed_state(file, text, NAMES))
    assert clean(renamed_state(file, text[:cut], NAMES))


@given(st.lists(TEXTS, max_size=6).map(" ".join))
def test_versions_and_sentences(text: str) -> None:
    assert clean(version_text(text))
    assert clean(kubelet_sentence(text, set()))
