"""The kubelet's command line, as people have it."""

import pytest

from numawise.codec.kubelet.fields import configuration_of
from numawise.codec.kubelet.flags import Flag, flag_span, flags_in, known_flags, overlaid, read_flags, settle
from numawise.rules.versions import NEWEST, OLDEST

FAILED = "failed to parse kubelet flag: "
UNIT = """\
[Unit]
Description=kubelet

[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--kubeconfig=/etc/kubernetes/kubelet.conf"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
ExecStartPre=/bin/mkdir -p /var/lib/kubelet
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS \\
    --reserved-memory 0:memory=1Gi \\
    --cpu-manager-policy=static -v 4
Restart=always
"""
ENVIRONMENT = """\
# what the node starts with
PATH=/usr/bin:/bin
export KUBELET_ARGS="--cpu-manager-policy=static \\
--eviction-hard="" --reserved-cpus 0-1"
KUBELET_EXTRA_ARGS=--max-pods=50
"""


def told(text: str) -> list[tuple[str, str | None, int]]:
    return [(flag.name, flag.value, flag.line) for flag in read_flags(text)]


# fmt: off
@pytest.mark.parametrize(("text", "expected"), [
    pytest.param("--max-pods=5 --cpu-manager-policy static",       [("max-pods", "5", 1), ("cpu-manager-policy", "static", 1)], id="with and without ="),
    pytest.param("--cpu_manager_policy=static",                    [("cpu-manager-policy", "static", 1)],                       id="underscores"),
    pytest.param("--fail-swap-on --v=2",                           [("fail-swap-on", None, 1), ("v", "2", 1)],                  id="no value needed"),
    pytest.param("--fail-swap-on false",                           [("fail-swap-on", None, 1), ("", "false", 1)],               id="a word that belongs to nobody"),
    pytest.param("root 1 0 0 /usr/bin/kubelet --max-pods=5",       [("max-pods", "5", 1)],                                      id="as ps prints it"),
    pytest.param("/usr/bin/kubelet\0--max-pods=5\0--v=2\0",        [("max-pods", "5", 1), ("v", "2", 1)],                       id="as /proc has it"),
    pytest.param("--v=2 --root-dir=/data/kubelet --max-pods=5",    [("v", "2", 1), ("root-dir", "/data/kubelet", 1), ("max-pods", "5", 1)], id="a folder called kubelet"),
    pytest.param("--v=2 --root-dir /data/kubelet --max-pods=5",    [("v", "2", 1), ("root-dir", "/data/kubelet", 1), ("max-pods", "5", 1)], id="a folder called kubelet, without ="),
    pytest.param("/usr/bin/kubelet --v=2 --root-dir=/data/kubelet", [("v", "2", 1), ("root-dir", "/data/kubelet", 1)],          id="a program, then a folder of its name"),
    pytest.param("--cert-dir /pki/kubelet --new-flag /x/kubelet --v=2", [("cert-dir", "/pki/kubelet", 1), ("new-flag", "/x/kubelet", 1), ("v", "2", 1)], id="values that end like the program, one of an unknown flag"),
    pytest.param("/hyperkube kubelet --v=2",                       [("v", "2", 1)],                                             id="one program of many"),
    pytest.param("ip netns exec kubelet /usr/bin/kubelet --v=2",   [("v", "2", 1)],                                             id="a wrapper with a word of that name"),
    pytest.param("tini --config x -- /opt/bin/kubelet --v=2",      [("v", "2", 1)],                                             id="a wrapper with flags"),
    pytest.param("sh -c 'exec /opt/bin/kubelet --v=2'",            [("v", "2", 1)],                                             id="a shell"),
    pytest.param("kubelet --cloud-provider '' --v=2",              [("cloud-provider", "", 1), ("v", "2", 1)],                  id="an empty value"),
    pytest.param("--node-labels='a=b,c=d' --register-node",        [("node-labels", "a=b,c=d", 1), ("register-node", None, 1)], id="quotes"),
    pytest.param(UNIT,                                             [("kubeconfig", "/etc/kubernetes/kubelet.conf", 5), ("reserved-memory", "0:memory=1Gi", 9), ("cpu-manager-policy", "static", 10), ("v", "4", 10)], id="systemd unit"),
    pytest.param('Environment="ARGS=--v=3"',                       [("v", "3", 1)],                                             id="a line of a unit"),
    pytest.param(ENVIRONMENT,                                      [("cpu-manager-policy", "static", 3), ("eviction-hard", "", 4), ("reserved-cpus", "0-1", 4), ("max-pods", "50", 5)], id="variables"),
    pytest.param("nothing here",                                   [("", "nothing", 1), ("", "here", 1)],                       id="no flags at all"),
])
def test_read_flags(text: str, expected: list[tuple[str, str | None, int]]) -> None:
    assert told(text) == expected


def test_arguments_of_a_process_are_taken_word_by_word() -> None:
    words = ("--v=2", "--node-labels", "a=b c/kubelet", "--cloud-provider", "", "--root-dir=/var/lib/kubelet")
    assert [(flag.name, flag.value) for flag in flags_in(words)] == [
        ("v", "2"),
        ("node-labels", "a=b c/kubelet"),
        ("cloud-provider", ""),
        ("root-dir", "/var/lib/kubelet"),
    ]


@pytest.mark.parametrize(("text", "field", "value"), [
    pytest.param("--cpu-manager-policy=static",                               ("cpuManagerPolicy",),              "static",                                   id="text"),
    pytest.param("--fail-swap-on=F",                                          ("failSwapOn",),                    False,                                      id="truth"),
    pytest.param("--max-pods=0x10",                                           ("maxPods",),                       16,                                         id="number"),
    pytest.param("--cpu-manager-reconcile-period=5s",                         ("cpuManagerReconcilePeriod",),     "5s",                                       id="duration"),
    pytest.param("--kube-reserved cpu=1,memory=1Gi --kube-reserved pid=9",    ("kubeReserved",),                  {"cpu": "1", "memory": "1Gi", "pid": "9"},  id="pairs add up"),
    pytest.param("--eviction-hard=memory.available<5%,nodefs.available<10%",  ("evictionHard",),                  {"memory.available": "5%", "nodefs.available": "10%"}, id="thresholds"),
    pytest.param("--eviction-hard=",                                          ("evictionHard",),                  {},                                         id="no thresholds"),
    pytest.param("--feature-gates=A=true,B=0",                                ("featureGates",),                  {"A": True, "B": False},                    id="gates"),
    pytest.param("--enforce-node-allocatable=pods,kube-reserved",             ("enforceNodeAllocatable",),        ["pods", "kube-reserved"],                  id="list"),
    pytest.param("--enforce-node-allocatable=",                               ("enforceNodeAllocatable",),        [],                                         id="empty list"),
    pytest.param("--anonymous-auth=false",                                    ("authentication", "anonymous", "enabled"), False,                              id="deep"),
    pytest.param("--reserved-memory 0:memory=1Gi;1:memory=2Gi --reserved-memory 2:hugepages-1Gi=1Gi", ("reservedMemory",),
                 [{"numaNode": 0, "limits": {"memory": "1Gi"}}, {"numaNode": 1, "limits": {"memory": "2Gi"}}, {"numaNode": 2, "limits": {"hugepages-1Gi": "1Gi"}}], id="reserved memory"),
])
def test_settle(text: str, field: tuple[str, ...], value: object) -> None:
    settled = settle(read_flags(text))
    assert not settled.problems
    assert settled.values == {field: value}


@pytest.mark.parametrize(("text", "message"), [
    pytest.param("--nosuch=1",                          "unknown flag: --nosuch",                                                                                             id="unknown"),
    pytest.param("--max-pods",                          "flag needs an argument: --max-pods",                                                                                 id="no value"),
    pytest.param("--max-pods=many",                     'invalid argument "many" for "--max-pods" flag: strconv.ParseInt: parsing "many": invalid syntax',                    id="no number"),
    pytest.param("--max-pods=3000000000",               'invalid argument "3000000000" for "--max-pods" flag: strconv.ParseInt: parsing "3000000000": value out of range',    id="too large"),
    pytest.param("--fail-swap-on=maybe",                'invalid argument "maybe" for "--fail-swap-on" flag: strconv.ParseBool: parsing "maybe": invalid syntax',             id="no truth"),
    pytest.param("--kube-reserved=cpu",                 'invalid argument "cpu" for "--kube-reserved" flag: malformed pair, expect string=string',                            id="no pair"),
    pytest.param("--eviction-hard=memory.available=5%", 'invalid argument "memory.available=5%" for "--eviction-hard" flag: malformed pair, expect string<string',            id="wrong sign"),
    pytest.param("--feature-gates=A=on",                'invalid argument "A=on" for "--feature-gates" flag: invalid value of A: on, err: strconv.ParseBool: parsing "on": invalid syntax', id="gate"),
    pytest.param("--reserved-memory=0=1Gi",             'invalid argument "0=1Gi" for "--reserved-memory" flag: the reserved memory has incorrect format, expected numaNodeID:type=quantity[,type=quantity...], got 0=1Gi', id="memory form"),
    pytest.param("--reserved-memory=a:memory=1Gi",      'invalid argument "a:memory=1Gi" for "--reserved-memory" flag: failed to convert the NUMA node ID, expected integer, got a', id="memory node"),
    pytest.param("--reserved-memory=0:cpu=1",           'invalid argument "0:cpu=1" for "--reserved-memory" flag: memory type conversion error, unknown type: "cpu"',        id="memory type"),
    pytest.param("--reserved-memory=0:memory",          'invalid argument "0:memory" for "--reserved-memory" flag: the reserved limit has incorrect value, expected type=quantity, got memory', id="memory limit"),
    pytest.param("--reserved-memory=0:memory=x",        'invalid argument "0:memory=x" for "--reserved-memory" flag: failed to parse the quantity: x',                       id="memory amount"),
])
def test_problems_in_the_kubelets_words(text: str, message: str) -> None:
    (problem,) = settle(read_flags(text)).problems
    assert problem.message == FAILED + message
# fmt: on


def test_a_stray_word_is_no_flag() -> None:
    (problem,) = settle(read_flags("--fail-swap-on false")).problems
    assert problem.message == "unknown command false"


def test_flags_win_and_gates_are_merged() -> None:
    file = {
        "cpuManagerPolicy": "none",
        "kubeReserved": {"cpu": "1", "memory": "1Gi"},
        "featureGates": {"A": True, "B": True},
        "authentication": {"webhook": {"enabled": True}},
    }
    flags = "--cpu-manager-policy=static --kube-reserved=cpu=2 --feature-gates=B=false --anonymous-auth=false"
    assert overlaid(file, settle(read_flags(flags))) == {
        "cpuManagerPolicy": "static",
        "kubeReserved": {"cpu": "2"},
        "featureGates": {"A": True, "B": False},
        "authentication": {"webhook": {"enabled": True}, "anonymous": {"enabled": False}},
    }
    assert file["kubeReserved"] == {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize("minor", range(OLDEST[1], NEWEST[1] + 1))
def test_every_flag_sets_a_field_of_its_release(minor: int) -> None:
    fields = configuration_of((1, minor)).fields
    assert not [
        flag.name for flag in known_flags((1, minor)).values() if flag.field and flag.field[0] not in fields
    ]


# fmt: off
@pytest.mark.parametrize(("name", "span"), [
    pytest.param("network-plugin",             ((1, 20), (1, 23)), id="dockershim"),
    pytest.param("logtostderr",                ((1, 20), (1, 25)), id="old logging"),
    pytest.param("container-runtime",          ((1, 20), (1, 26)), id="runtime"),
    pytest.param("pod-infra-container-image",  ((1, 20), (1, 34)), id="pause image"),
    pytest.param("config-dir",                 ((1, 28), NEWEST),  id="drop-ins"),
    pytest.param("container-runtime-endpoint", (OLDEST, NEWEST),   id="moved into the configuration"),
    pytest.param("nosuch",                     None,               id="never"),
])
def test_flag_span(name: str, span: object) -> None:
    assert flag_span(name) == span
# fmt: on


def test_lines_of_flags_are_kept() -> None:
    assert read_flags("--v=2\n\n--max-pods=3") == (Flag("v", "2", 1), Flag("max-pods", "3", 3))
