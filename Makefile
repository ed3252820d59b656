# The same checks that CI runs. PYTHON may point to another interpreter.
VENV ?= .venv
BIN := $(VENV)/bin
PYTHON ?= python3

.PHONY: check format lint types imports schemas test slow bench fmt venv

check: format lint types imports schemas test

venv: $(BIN)/pytest
$(BIN)/pytest: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -e '.[dev]'
	touch $@

format: venv
	$(BIN)/ruff format --check .

lint: venv
	$(BIN)/ruff check .

types: venv
	$(BIN)/mypy

imports: venv
	$(BIN)/lint-imports

schemas: venv
	$(BIN)/python -m gpuctl.model.schema --check

test: venv
	$(BIN)/python -m pytest -n 2 -m "not slow"

slow: venv
	$(BIN)/python -m pytest -m slow

bench: venv
	$(BIN)/python -m tests.benchmarks

fmt: venv
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# What is generated and committed: completion scripts, JSON schemas, output shown in the README.
.PHONY: generated
generated: venv
	$(BIN)/python -m gpuctl.model.schema
	$(BIN)/python -m gpuctl.cli.completion completions
	$(BIN)/python -m tests.readme --write
