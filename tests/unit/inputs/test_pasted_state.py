"""State files as people have them: with what a terminal shows around them, or no files at all."""

import os
from pathlib import Path

import pytest

from numawise.codec.checkpoint import CPU_FILE, MEMORY_FILE
from numawise.codec.checkpoint.pasted import pasted
from numawise.errors import InputError
from numawise.inputs.state import read_state

CPU = '{"policyName":"static","defaultCpuSet":"0,4-7","entries":{"a":{"main":"1-3"}},"checksum":1234567890}'
MEMORY = '{"policyName":"None","machineState":{},"checksum":4236770233}'


# fmt: off
@pytest.mark.parametrize(("text", "expected"), [
    pytest.param(f"root@node7:~# cat /var/lib/kubelet/cpu_manager_state\n{CPU}root@node7:~# ", [CPU], id="root's prompt"),
    pytest.param(f"[ec2-user@ip-10-0-0-1 ~]$ sudo cat /var/lib/kubelet/cpu_manager_state\n{CPU}[ec2-user@ip-10-0-0-1 ~]$", [CPU], id="EC2"),
    pytest.param(f'$ kubectl exec -n kube-system debug -- cat /host/x\nDefaulted container "a" out of: a, b\n{CPU}\n$', [CPU], id="kubectl exec"),
    pytest.param(f"Starting pod/node7-debug ...\nTo use host binaries, run `chroot /host`\n{CPU}\nRemoving debug pod ...\n", [CPU], id="oc debug"),
    pytest.param(f"sh-5.1# cat /var/lib/kubelet/cpu_manager_state\r\n{CPU}sh-5.1# \x1b[?2004h", [CPU], id="steering"),
    pytest.param(f"Warning: Permanently added 'node7' (ED25519) to the list of known hosts.\n{CPU}Connection to node7 closed.\n", [CPU], id="ssh"),
    pytest.param(f"core@n:~$ cat cpu_manager_state\n{CPU}core@n:~$ cat memory_manager_state\n{MEMORY}core@n:~$ ", [CPU, MEMORY], id="two files"),
    pytest.param(f"# cat x\n{CPU[:40]}\n{CPU[40:80]}\n{CPU[80:]}# ", [CPU], id="wrapped"),
    pytest.param(f"==> cpu_manager_state <==\n{CPU}\n", [CPU], id="head"),
    pytest.param(CPU, [], id="the file itself"),
    pytest.param(f"{CPU}\n\n", [], id="with line ends"),
    pytest.param(f"{CPU}}}", [], id="damaged: a brace"),
    pytest.param(f"{CPU}{{", [], id="damaged: begun again"),
    pytest.param(f"{CPU}\nsome other words\n", [], id="damaged: words"),
    pytest.param(CPU[:50], [], id="damaged: cut"),
    pytest.param(f"root@n:~# cat x\n{CPU[:50]}root@n:~# ", [], id="damaged: cut, and pasted"),
    pytest.param("", [], id="empty"),
    pytest.param("root@n:~# ", [], id="nothing but a prompt"),
])
def test_pasted(text: str, expected: list[str]) -> None:
    assert list(pasted(text)) == expected
# fmt: on


def test_a_pasted_file_is_read_with_a_remark(tmp_path: Path) -> None:
    path = tmp_path / "paste.txt"
    path.write_text(
        f"root@n:~# cat cpu_manager_state\n{CPU}root@n:~# cat memory_manager_state\n{MEMORY}root@n:~#"
    )
    folder = read_state(str(path))
    assert folder.texts == {CPU_FILE: CPU, MEMORY_FILE: MEMORY}
    assert folder.remarks == (f"{path}: pasted from a terminal; what stands around the JSON is left out",)


def test_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / CPU_FILE).write_text(f"node7 # cat cpu_manager_state\n{CPU}node7 # ")
    folder = read_state(str(tmp_path))
    assert folder.texts == {CPU_FILE: CPU}
    assert len(folder.remarks) == 1


@pytest.mark.parametrize("whole", [True, False], ids=["the folder", "the file"])
def test_a_pipe_is_not_waited_for(tmp_path: Path, *, whole: bool) -> None:
    pipe = tmp_path / "cpu_manager_state"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="is not a regular file") as problem:
        read_state(str(tmp_path if whole else pipe))
    assert problem.value.file == str(pipe)
