.PHONY: setup demo test check format bench fidelity

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
