"""The blocks of docs/tutorial/python.md, one after the other; run it in the folder of the project."""

import numawise as nw

machine = nw.machine("8gpu-server")
config = nw.kubelet_config("examples/8gpu-server/kubelet.yaml")
node = nw.Node(machine, config)

decision = node.admit("examples/8gpu-server/pods/05-affinity-check.yaml")
assert decision.admitted
container = decision.containers["cuda-container"]
print(container.cpus, container.numa, container.devices)
# 2-3,66-67 0 {'nvidia.com/gpu': ('GPU0',)}

node.admit("examples/8gpu-server/pods/02-four-gpu-training.yaml")
refused = node.admit("examples/8gpu-server/pods/04-five-gpu-training.yaml")
print(refused.admitted, refused.reason)
# False TopologyAffinityError

why = node.explain("examples/8gpu-server/pods/04-five-gpu-training.yaml")
print(why.answer)
for suggestion in why.suggestions:
    print("-", suggestion.text)

filled = node.fill("examples/8gpu-server/pods/05-affinity-check.yaml")
print(filled.count, filled.stop.reason)
# 3 TopologyAffinityError

node.remove(decision.uid)
again = node.restart()
assert all(pod.admitted for pod in again)
print(sorted(node.state_files()))
# ['cpu_manager_state', 'kubelet_internal_checkpoint', 'memory_manager_state']

try:
    nw.Node("8gpu-server", "examples/8gpu-server/kubelet-refused.yaml")
except nw.KubeletRefused as refusal:
    print(refusal.stage)
    # memory-manager

busy = nw.Node("8gpu-server", "examples/8gpu-server/kubelet.yaml")
busy.admit_all("examples/resize/pods.yaml")
for resize in busy.resize("web", cpu=40):
    print(resize.name, resize.outcome, resize.reason, resize.cause)
    # default/web deferred Deferred OutOfcpu
for resize in busy.resize("batch", cpu=8):
    print(resize.name, resize.outcome)
    # default/batch allocated
    # default/web deferred
    # default/web allocated

for pod in nw.simulate("examples/8gpu-server/pods", machine=machine, config=config):
    print(pod.name, pod.reason or "admitted")

report = nw.check(machine="8gpu-server", config="examples/8gpu-server/kubelet.yaml")
for finding in report.findings:
    print(finding.code, finding.message)

print(nw.to_json(decision))

placement = nw.place(cpus=2, memory="1Gi", machine="8gpu-server")
if isinstance(placement, nw.NoRoom):
    print("no room now")
else:
    print(placement.cpus)
