// Examples for whoever comes without files: each a machine in words, a configuration and pods, as somebody
// would give them.

function pod(name, cpu, memory, more = "") {
  const amounts = `{cpu: "${cpu}", memory: ${memory}${more}}`;
  return `apiVersion: v1
kind: Pod
metadata: {name: ${name}}
spec:
  containers:
    - name: app
      resources:
        requests: ${amounts}
        limits: ${amounts}
`;
}

const gpus = (count) => `, nvidia.com/gpu: "${count}"`;
const HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

const STATIC = `${HEAD}cpuManagerPolicy: static
memoryManagerPolicy: Static
topologyManagerPolicy: single-numa-node
reservedMemory:
  - {numaNode: 0, limits: {memory: 2Gi}}
  - {numaNode: 1, limits: {memory: 2Gi}}
systemReserved: {cpu: "2", memory: 3Gi}
evictionHard: {memory.available: 1Gi}
`;

const BEST_EFFORT = `${HEAD}cpuManagerPolicy: static
topologyManagerPolicy: best-effort
systemReserved: {cpu: "1"}
`;

const RESTRICTED = `${HEAD}cpuManagerPolicy: static
memoryManagerPolicy: Static
topologyManagerPolicy: restricted
topologyManagerScope: pod
reservedSystemCPUs: 0-1,64-65
reservedMemory:
  - {numaNode: 0, limits: {memory: 2148Mi}}
  - {numaNode: 1, limits: {memory: 2Gi}}
systemReserved: {memory: 4Gi}
evictionHard: {memory.available: 100Mi}
`;

export const EXAMPLES = [
  {
    name: "incident",
    title: "CPUs free here, memory there",
    node: { machine: "2s 2n 32c 384g", config: STATIC },
    text: [pod("select-3", 12, "16Gi"), pod("storage-7", 4, "130Gi"), pod("storage-15", 4, "120Gi")].join(
      "---\n",
    ),
  },
  {
    name: "five-gpus",
    title: "Five GPUs, four per NUMA node",
    node: { machine: "8gpu-server", config: RESTRICTED },
    text: [pod("inference", 8, "32Gi", gpus(1)), pod("training-5gpu", 16, "64Gi", gpus(5))].join("---\n"),
  },
  {
    name: "three-gpus",
    title: "Three GPUs, the last one taken",
    node: { machine: "2s 2n 28c 3gpu", config: BEST_EFFORT },
    text: [
      pod("occupant", 3, "1Gi", gpus(2)),
      pod("wide", 16, "1Gi", gpus(1)),
      pod("late", 16, "1Gi", gpus(2)),
    ].join("---\n"),
  },
  {
    name: "admitted",
    title: "Admitted: thirteen CPUs, pass by pass",
    node: { machine: "2s 2n 16c 2t l3=4c", config: BEST_EFFORT },
    text: [pod("small", 3, "1Gi"), pod("thirteen", 13, "1Gi"), pod("wide", 12, "1Gi")].join("---\n"),
    number: 1,
  },
];
