.PHONY: setup demo test check format bench browser fidelity fuzz bounds extras audit vm recipes kubelet e2e-node e2e-cluster fresh

setup:
	@scripts/setup

demo:
	@scripts/demo

test:
	@scripts/test

# Style, types and layers; the tests run these too.
check: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

format: setup
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

bench: setup
	.venv/bin/python -m benchmarks

# The page in Chromium (Debian: apt install chromium); the tests run these too, where it is installed.
browser: setup
	.venv/bin/python -m pytest -m browser -rs tests/browser

# Compare with the recorded kubelet: make fidelity TRACES=path/to/traces
fidelity: setup
	.venv/bin/python -m tests.fidelity $(TRACES)

# Damaged inputs for every reader: make fuzz RUNS=500000 SEED=2 FUZZ="--reader pods --jobs 4"
RUNS = 20000
SEED = 1
fuzz: setup
	nice -n 19 .venv/bin/python -m tests.fuzz --runs $(RUNS) --seed $(SEED) $(FUZZ)

# Calls made up from the API's own document (schemathesis, in an environment of its own; a network the first time):
# make fuzz-api EXAMPLES=500 SEED=2 SERVE="--machine dgx-h100"
EXAMPLES = 50
SERVE = --machine 8gpu-server --kubelet-config examples/8gpu-server/kubelet.yaml
fuzz-api: setup .venv-fuzz/bin/schemathesis
	.venv/bin/python -m tests.web.fuzz --examples $(EXAMPLES) --seed $(SEED)
	.venv/bin/python -m tests.web.fuzz --examples $(EXAMPLES) --seed $(SEED) -- $(SERVE)

.venv-fuzz/bin/schemathesis:
	.venv/bin/python -m venv .venv-fuzz
	.venv-fuzz/bin/python -m pip install --quiet --disable-pip-version-check 'schemathesis>=4,<5' openapi-spec-validator

# All dependencies at the lower and at the upper end of their ranges, a folder each; what is run goes to pytest.
BOUNDED = -m "fast or property or recorded or kube"
bounds:
	scripts/test --lowest $(BOUNDED)
	scripts/test --newest $(BOUNDED)

# The wheel with each extra in an environment of its own, where every command is run; needs a network.
extras: setup
	.venv/bin/python -m tests.extras

# Known vulnerabilities of everything that is installed; asks a public service, so it needs a network.
audit: setup
	.venv/bin/python -m venv .venv-audit
	.venv-audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit
	.venv-audit/bin/pip-audit --path $$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

# Bind jobs on virtual machines with several NUMA nodes: make vm NUMAWISE_VM=path/to/numa-vm MACHINES="2s cxl"
vm: setup
	.venv/bin/python -m tests.vm $(MACHINES)

# Every recipe of docs/how-to/recipes.md with its real launcher; needs a network the first time, and root.
# make recipes ONLY="torchrun or MPI" TORCH="--index-url URL torch" RECIPES_VM=path/to/numa-vm
recipes:
	@scripts/recipes $(if $(ONLY),-k "$(ONLY)")

# A real kubelet in a virtual machine with two NUMA nodes, and our agent beside it: what it does with each pod is
# predicted from the published object alone, and compared; needs root and Go. make e2e-node OUT=recorded
e2e-node: setup
	.venv/bin/python -m e2e $(if $(OUT),--out $(OUT)) node

# Virtual nodes on a real control plane, by the stock scheduler, scheduler-plugins and ours; needs root and Go.
# make e2e-cluster WHAT="mixed fleet" OUT=folder MORE="--nodes 20 --pods 100"; without WHAT all but node, which needs numa-vm
e2e-cluster: setup
	.venv/bin/python -m e2e.trials $(if $(filter-out switch,$(WHAT)),$(WHAT)) $(if $(OUT),--out $(OUT)) $(MORE)

# The same machine: the switch script, or a round of pods.
# make kubelet WHAT=single-pcpus OUT=recorded NUMAWISE_CLUSTER=folder/for/programs NUMAWISE_VM=path/to/numa-vm
WHAT ?= switch
kubelet: setup
	.venv/bin/python -m e2e $(if $(OUT),--out $(OUT)) $(WHAT)

# Both commands of the README on a bare Debian 12: with /proc, /sys, control groups and /dev/pts, without these, and without
# control groups alone; needs root.
fresh:
	@scripts/fresh
