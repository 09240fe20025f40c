# gk_planner: everything a person or CI runs. `make demo` and `make test` need nothing before them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORLD ?= office

.PHONY: setup test lint demo bench clean

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

bench: setup
	tools/with_ros.sh $(BIN)/python benchmarks/run.py

clean:
	rm -rf $(VENV) out build install log
