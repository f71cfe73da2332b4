"""A small node for tests of commands: four CPUs and two devices on two NUMA nodes."""

MACHINE = """\
cpus:
- {cpu: 0, core: 0, socket: 0, numa: 0}
- {cpu: 1, core: 1, socket: 0, numa: 0}
- {cpu: 2, core: 0, socket: 1, numa: 1}
- {cpu: 3, core: 1, socket: 1, numa: 1}
numa:
- {id: 0, memory: 4Gi}
- {id: 1, memory: 4Gi}
devices:
  x/gpu:
    devices:
    - {id: a, numa: [0]}
    - {id: b, numa: [1]}
"""
KUBELET = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
topologyManagerPolicy: restricted
systemReserved:
  cpu: 500m
"""
