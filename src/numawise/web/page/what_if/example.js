// What is shown at the first visit: a morning on an 8-GPU server, with a pod that is refused until another
// one ends.

const CONFIG = `# All four managers on: everything of a pod comes from one NUMA node, or it is refused.
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration

topologyManagerPolicy: single-numa-node
topologyManagerScope: pod

cpuManagerPolicy: static
reservedSystemCPUs: 0-1,56-57,112-113,168-169

memoryManagerPolicy: Static
# Adds up to systemReserved + evictionHard: 8Gi + 8Gi = 14Gi + 2Gi.
reservedMemory:
  - numaNode: 0
    limits:
      memory: 8Gi
  - numaNode: 1
    limits:
      memory: 8Gi

systemReserved:
  memory: 14Gi
evictionHard:
  memory.available: 2Gi
`;

/** A pod of one container that has all it asks for to itself. */
export function podObject({
  name,
  cpu,
  memory,
  gpus = 0,
  resource = "nvidia.com/gpu",
  namespace = "",
  containers = 1,
  hugepages = "",
}) {
  const limits = {};
  if (cpu) limits.cpu = String(cpu);
  if (memory) limits.memory = memory;
  if (Number(gpus)) limits[resource] = Number(gpus);
  if (hugepages) limits[`hugepages-${hugepages.split("=")[0]}`] = hugepages.split("=")[1] ?? "";
  const names = Array.from({ length: containers }, (_, at) => (containers > 1 ? `main-${at}` : "main"));
  const metadata = namespace ? { name, namespace } : { name };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata,
    spec: { containers: names.map((each) => ({ name: each, resources: { limits } })) },
  };
}

const add = (pod) => ({ add: { pod: podObject(pod) } });

/** The step of the example that is looked at first: three GPUs are free, but not on one NUMA node. */
export const REFUSED = 3;

/** @returns {import("./store.js").Scenario} */
export function example() {
  return {
    name: "A morning on an 8-GPU server",
    node: { machine: "dgx-h100", config: CONFIG, release: "" },
    steps: [
      add({ name: "train", cpu: 48, memory: "512Gi", gpus: 3 }),
      add({ name: "serve", cpu: 16, memory: "96Gi", gpus: 2 }),
      add({ name: "tune", cpu: 32, memory: "256Gi", gpus: 3 }),
      { remove: "serve" },
      add({ name: "tune", cpu: 32, memory: "256Gi", gpus: 3 }),
      add({ name: "notebook", cpu: 8, memory: "64Gi", gpus: 1 }),
    ],
    compare: null,
  };
}

/** A configuration that starts on every machine: CPUs for pods alone, everything from one NUMA node. */
export const BASIC = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration

topologyManagerPolicy: single-numa-node
cpuManagerPolicy: static
kubeReserved:
  cpu: "2"
  memory: 2Gi
`;
