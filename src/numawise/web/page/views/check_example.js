// What is shown on the first visit: files with faults that people really make, so that there is something to
// mend.

const KUBELET = `# GPU nodes, two sockets
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: Static
cpuManagerPolicyOptions:
  full-pcpus-only: true
  distribute-cpus-across-numa: "true"
reservedCpus: "0,16,32,48"
memoryManagerPolicy: Static
topologyManagerPolicy: single-numa
topologyManagerScope: pod
featureGates:
  MemoryManager: true        # since 1.21
systemReserved:
  memory: 4Gi
kubeReserved:
  memory: 4Gi
evictionHard:
  memory.available: 500Mi
  nodefs.available: 10%
reservedMemory:
- numaNode: 0
  limits:
    memory: 4Gi
- numaNode: 1
  limits:
    memory: 4Gi
maxPods: 110
`;

const POD = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: serve
spec:
  replicas: 2
  selector:
    matchLabels: {app: serve}
  template:
    metadata:
      labels: {app: serve}
    spec:
      containers:
      - name: model
        image: registry.example/serve:3
        env:
        - name: CUDA_VISIBLE_DEVICES
          value: "0,1"
        - name: OMP_NUM_THREADS
          value: "64"
        resources:
          requests:
            cpu: "8"
            memory: 64Gi
          limits:
            cpu: "16"
            memory: 64Gi
            nvidia.com/gpus: 2
`;

const STATE = `{"policyName":"static","defaultCpuSet":"0-3,8-63","entries":{"39b37746-7f5e-4064-b8e1-eebd2bfaa003":{"app":"4-7"}},"checksum":12345}`;

export const EXAMPLE = {
  machine: "2s 32c 2t 8gpu 512g",
  files: [
    { name: "kubelet.yaml", text: KUBELET },
    { name: "deployment.yaml", text: POD },
    { name: "cpu_manager_state", text: STATE },
  ].map((file) => ({ ...file, size: file.text.length })),
};
