.PHONY: setup demo test check format bench fidelity fuzz vm fresh

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

# Compare with the recorded kubelet: make fidelity TRACES=path/to/traces
fidelity: setup
	.venv/bin/python -m tests.fidelity $(TRACES)

# Damaged inputs for every reader: make fuzz RUNS=500000 SEED=2 FUZZ="--reader pods --jobs 4"
RUNS = 20000
SEED = 1
fuzz: setup
	nice -n 19 .venv/bin/python -m tests.fuzz --runs $(RUNS) --seed $(SEED) $(FUZZ)

# Bind jobs on virtual machines with several NUMA nodes: make vm NUMAWISE_VM=path/to/numa-vm MACHINES="2s cxl"
vm: setup
	.venv/bin/python -m tests.vm $(MACHINES)

# Both commands of the README on a bare Debian 12, with and without /proc, /sys, control groups and /dev/pts; needs root.
fresh:
	@scripts/fresh
