# gk_planner: everything a person or CI runs. `make demo` and `make test` need nothing before them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORLD ?= office
DEMO_FLAGS_office := --robot-radius 0.2
ANNOTATIONS := $(wildcard maps/$(WORLD)_annotations.yaml)
DEMO_FLAGS := $(DEMO_FLAGS_$(WORLD)) $(if $(ANNOTATIONS),--annotations $(ANNOTATIONS))

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
	@mkdir -p out
	$(BIN)/python -m gk_planner plan maps/$(WORLD).yaml config/tasks/$(WORLD).yaml \
		$(DEMO_FLAGS) --png out/$(WORLD).png
	@echo 'picture: out/$(WORLD).png'

bench: setup
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf $(VENV) out build install log
