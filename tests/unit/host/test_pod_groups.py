"""Control groups of pods: every name that kubelets and runtimes give them, and what is read of them."""

from pathlib import Path

import pytest

from numawise.host.pod_groups import (
    PAGE_SIZE,
    ContainerGroup,
    ContainerName,
    GroupCpuset,
    GroupPages,
    PodGroups,
    container_names,
    group_trees,
)
from numawise.sets import parse_ids

UID = "0f6a2d1e-1111-4222-8333-444455556666"
BARE = UID.replace("-", "_")
STATIC = "4f51e75f3255e73c234a806b6c8ebc41"
ID, OTHER = "ab" * 32, "cd" * 32
RECORDED = Path(__file__).parents[2] / "recorded/watch/cgroup-cpuset.txt"


def write(root: Path, lines: str, top: str = "sys/fs/cgroup") -> None:
    """``path=text`` below the top, a line each."""
    for line in lines.split("\n"):
        path, equals, text = line.strip().partition("=")
        if equals:
            place = root / top / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text.replace("|", "\n") + "\n")


def groups(root: Path) -> PodGroups:
    trees = group_trees(root)
    assert trees is not None
    return PodGroups(trees, root)


def v2(root: Path) -> PodGroups:
    write(root, "cgroup.controllers=cpuset cpu io memory pids")
    return groups(root)


@pytest.mark.parametrize(("path", "uid", "runtime"), [
    pytest.param(f"kubepods/pod{UID}/{ID}",                            UID,    "",               id="cgroupfs, Guaranteed"),
    pytest.param(f"kubepods/burstable/pod{STATIC}/{ID}",               STATIC, "",               id="a static pod"),
    pytest.param(f"kubepods.slice/kubepods-pod{BARE}.slice/cri-containerd-{ID}.scope", UID, "cri-containerd", id="systemd"),
    pytest.param(f"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{BARE}.slice/crio-{ID}.scope",
                 UID, "crio", id="cri-o"),
    pytest.param(f"kubepods/burstable/pod{UID}/crio-{ID}",             UID,    "crio",           id="cri-o, cgroupfs"),
    pytest.param(f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{BARE}.slice/docker-{ID}.scope",
                 UID, "docker", id="docker"),
    pytest.param(f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/"
                 f"kubelet-kubepods-burstable-pod{BARE}.slice/cri-containerd-{ID}.scope",
                 UID, "cri-containerd", id="a kubelet with a root of its own"),
    pytest.param(f"docker/{OTHER}/kubelet/kubepods/burstable/pod{UID}/{ID}", UID, "",            id="a kubelet in a container"),
    pytest.param(f"system.slice/containerd.service/kubepods-burstable-pod{BARE}.slice:cri-containerd:{ID}",
                 UID, "cri-containerd", id="two drivers"),
])  # fmt: skip
def test_a_containers_group_is_recognised(tmp_path: Path, path: str, uid: str, runtime: str) -> None:
    write(tmp_path, f"{path}/cpuset.cpus.effective=2-3")
    found = v2(tmp_path)
    expected = ContainerGroup(uid, ID, path, runtime)
    assert found.find([(uid, ID)]) == {ID: expected}
    assert expected.by_systemd is path.endswith(".scope")
    assert found.all() == (expected,)


def test_what_is_no_container_is_left_out(tmp_path: Path) -> None:
    pod = f"kubepods.slice/kubepods-pod{BARE}.slice"
    write(
        tmp_path,
        f"""{pod}/crio-conmon-{ID}.scope/cpuset.cpus=
        {pod}/init.scope/cpuset.cpus=
        system.slice/docker-{ID}.scope/cpuset.cpus=
        user.slice/pod-{BARE}.slice/x/cpuset.cpus=""",
    )
    assert v2(tmp_path).all() == ()


def test_containers_that_come_and_go(tmp_path: Path) -> None:
    first, second = (f"kubepods/burstable/pod{UID}/{one}" for one in (ID, OTHER))
    write(tmp_path, f"{first}/cpuset.cpus=0")
    found = v2(tmp_path)
    assert set(found.find([(UID, ID), (UID, OTHER)])) == {ID}
    write(tmp_path, f"{second}/cpuset.cpus=0")
    assert set(found.find([(UID, ID), (UID, OTHER)])) == {ID, OTHER}
    (tmp_path / "sys/fs/cgroup" / first / "cpuset.cpus").unlink()
    (tmp_path / "sys/fs/cgroup" / first).rmdir()
    assert set(found.find([(UID, ID), (UID, OTHER)])) == {OTHER}
    newer = "12345678-1111-4222-8333-444455556666"
    write(tmp_path, f"kubepods/pod{newer}/{ID}/cpuset.cpus=0")
    assert found.find([(newer, ID)])[ID].uid == newer
    assert found.find([]) == {}


def test_what_has_ended_is_not_sought_at_every_look(tmp_path: Path) -> None:
    write(tmp_path, f"kubepods/pod{UID}/{ID}/cpuset.cpus=0")
    found = v2(tmp_path)
    for _ in range(5):
        assert set(found.find([(UID, ID), (UID, OTHER)])) == {ID}
    write(tmp_path, f"kubepods/pod{UID}/{OTHER}/cpuset.cpus=0")
    looks = next(number for number in range(100) if OTHER in found.find([(UID, ID), (UID, OTHER)]))
    assert 1 < looks < 30, "it is found nevertheless"


def test_cpusets_of_both_versions(tmp_path: Path) -> None:
    path = f"kubepods/pod{UID}/{ID}"
    group = ContainerGroup(UID, ID, path)
    new, old = tmp_path / "new", tmp_path / "old"
    write(
        new,
        f"""{path}/cpuset.cpus=
        {path}/cpuset.cpus.effective=0-7
        {path}/cpuset.mems=1
        {path}/cpuset.mems.effective=1""",
    )
    assert v2(new).cpuset(group) == GroupCpuset(parse_ids("0-7"), 2, 0, 2)
    write(
        old,
        f"""{path}/cpuset.cpus=0-7
        {path}/cpuset.effective_cpus=0-3
        {path}/cpuset.mems=0-1
        {path}/cpuset.effective_mems=0-1
        cpuset.cpus=0-7""",
        "sys/fs/cgroup/cpuset",
    )
    found = groups(old)
    assert found.trees.version == 1
    assert found.cpuset(group) == GroupCpuset(15, 3, 255, 3)
    assert found.written_file(group) == str(old / "sys/fs/cgroup/cpuset" / path / "cpuset.cpus")
    assert found.written_file(group, mems=True).endswith("/cpuset.mems")
    gone = ContainerGroup(UID, OTHER, f"kubepods/pod{UID}/{OTHER}")
    assert found.cpuset(gone) == GroupCpuset(None, None, None, None)
    assert found.pages(gone) is None


def test_pages_of_both_versions(tmp_path: Path) -> None:
    path = f"kubepods/pod{UID}/{ID}"
    group = ContainerGroup(UID, ID, path)
    new, old = tmp_path / "new", tmp_path / "old"
    write(
        new,
        f"""{path}/memory.numa_stat=anon N0=100 N1=30|file N0=50 N1=8|shmem N0=0 N1=8|anon_thp N0=60 N1=0
        {path}/hugetlb.2MB.numa_stat=total=64 N0=64 N1=0
        {path}/hugetlb.1GB.numa_stat=total=8 N0=0 N1=8""",
    )
    assert v2(new).pages(group) == GroupPages(((0, 100), (1, 38)), ((0, 50),), ((0, 64), (1, 8)))
    write(old, "cpuset.cpus=0-7", "sys/fs/cgroup/cpuset")
    write(
        old,
        f"{path}/memory.numa_stat=total=9 N0=9 N1=0|anon=1 N0=1 N1=0|"
        "hierarchical_total=10 N0=8 N1=2|hierarchical_file=4 N0=4 N1=0|hierarchical_anon=6 N0=4 N1=2",
        "sys/fs/cgroup/memory",
    )
    assert groups(old).pages(group) == GroupPages(
        ((0, 4 * PAGE_SIZE), (1, 2 * PAGE_SIZE)), ((0, 4 * PAGE_SIZE),)
    )


def test_cruns_group_inside_binds(tmp_path: Path) -> None:
    path = f"kubepods.slice/kubepods-pod{BARE}.slice/crio-{ID}.scope"
    write(
        tmp_path,
        f"""{path}/cpuset.cpus.effective=0-7
        {path}/cpuset.mems.effective=0-1
        {path}/container/cpuset.cpus.effective=2-3
        {path}/container/cpuset.mems.effective=0
        {path}/container/cpuset.cpus=2-3
        {path}/container/cpuset.mems=0""",
    )
    found = v2(tmp_path)
    (group,) = found.find([(UID, ID)]).values()
    assert group.by_systemd
    assert found.cpuset(group) == GroupCpuset(12, 1, 12, 1)
    assert found.written_file(group).endswith(f"/crio-{ID}.scope/container/cpuset.cpus")


def test_garbled_files_say_nothing(tmp_path: Path) -> None:
    path = f"kubepods/pod{UID}/{ID}"
    write(
        tmp_path,
        f"""{path}/cpuset.cpus.effective=many
        {path}/memory.numa_stat=anon N0=x N1|\x00|=|total""",
    )
    found = v2(tmp_path)
    group = ContainerGroup(UID, ID, path)
    assert found.cpuset(group).cpus is None
    assert found.pages(group) in (None, GroupPages())


def test_no_cpuset_controller(tmp_path: Path) -> None:
    assert group_trees(tmp_path) is None
    write(tmp_path, "cgroup.controllers=cpu memory")
    assert group_trees(tmp_path) is None


def test_processes_of_a_container(tmp_path: Path) -> None:
    path = f"kubepods.slice/kubepods-pod{BARE}.slice/crio-{ID}.scope"
    write(
        tmp_path,
        f"""{path}/cgroup.procs=
        {path}/container/cgroup.procs=11|12
        {path}/container/below/cgroup.procs=13""",
    )
    assert v2(tmp_path).members(ContainerGroup(UID, ID, path)) == (11, 12, 13)


def test_whose_container_an_id_is(tmp_path: Path) -> None:
    folder = tmp_path / "var/log/containers"
    folder.mkdir(parents=True)
    target = f"/var/log/pods/ml_train-0_{UID}/app/0.log"
    (folder / f"train-0_ml_app-{ID}.log").symlink_to(target)
    (folder / f"odd_ml_app-{OTHER}.log").symlink_to("/elsewhere")
    (folder / "notes.txt").write_text("")
    (folder / f"x\x1b[31m_ml_app-{'ef' * 32}.log").symlink_to(target)  # no name that Kubernetes allows
    names = {ID: ContainerName(UID, "ml", "train-0", "app")}
    assert container_names(tmp_path) == names
    assert container_names(tmp_path, names) == names
    assert container_names(tmp_path / "nowhere") == {}


def test_the_tree_of_a_real_kubelet(tmp_path: Path) -> None:
    write(tmp_path, RECORDED.read_text())
    found = v2(tmp_path)
    cpus = {(group.uid[:4], found.cpuset(group).cpus) for group in found.all()}
    assert cpus == {
        ("4f51", parse_ids("4-5")), ("d8ce", parse_ids("2-3")), ("b2d1", parse_ids("0-1,6-7")),
        ("4f51", 255), ("d8ce", 255), ("b2d1", 255),
    }  # fmt: skip
