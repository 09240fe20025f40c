# gk_planner: everything a person or CI runs. `make demo` and `make test` need nothing before them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORLD ?= office

.PHONY: setup test lint demo bench bench-check bench-setup clean

# Finds out by itself whether there is anything to do.
setup:
	@$(PYTHON) tools/setup_ros.py $(VENV)

test: lint
	tools/with_ros.sh $(BIN)/python -m pytest -n 2 --dist worksteal

lint: setup
	$(BIN)/ruff check .
	$(BIN)/mypy

demo: setup
	@tools/with_ros.sh $(BIN)/python tools/demo.py $(WORLD)

# The peers of the benchmarks.
bench-setup: setup
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'

# Writes docs/benchmarks.md.
bench: bench-setup
	tools/with_ros.sh $(BIN)/python benchmarks/run.py

# Fails where a ratio has fallen to half of that in docs/benchmarks.md.
bench-check: bench-setup
	tools/with_ros.sh $(BIN)/python benchmarks/run.py --check

clean:
	rm -rf $(VENV) out build install log
