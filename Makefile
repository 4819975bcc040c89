# Two commands do everything: `make demo` and `make test`. Both build .venv by themselves.
# Python 3.11 or 3.12: the UR client has no wheels beyond. Another one: make PYTHON=/path/to/python3.12
PYTHON ?= $(firstword $(foreach p,python3 python3.12 python3.11,$(shell $(p) -c 'import sys; sys.version_info[:2] in ((3, 11), (3, 12)) and print("$(p)")' 2>/dev/null)) python3)
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed-runtime
DEV    := $(VENV)/.installed-dev

.DEFAULT_GOAL := help
.PHONY: help demo test test-long check lint types contracts bench soak reproduce clean

help:  ## Say what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' 2>/dev/null || \
	  { echo "dynid is made and tested with Python 3.11 and 3.12; '$(PYTHON)' is neither."; \
	    echo "Install one of them and say: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "==> making the virtual environment $(VENV)"
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || $(PYTHON) -m venv --without-pip $(VENV)
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m pip --python $(BIN)/python install -q pip || \
	  { echo "Neither venv nor pip of '$(PYTHON)' works; install them, or give another: make PYTHON=/path/to/python3"; rm -rf $(VENV); exit 1; }
	@$(BIN)/python -m pip install -q --upgrade 'pip>=25.1' -c constraints.txt

$(STAMP): pyproject.toml constraints.txt | $(BIN)/python
	@echo "==> installing dynid and its pinned dependencies (a few minutes on a slow line, once)"
	@$(BIN)/python -m pip install --progress-bar on -q -c constraints.txt -e .
	@touch $@

$(DEV): $(STAMP)
	@echo "==> installing the test and check tools (once)"
	@$(BIN)/python -m pip install --progress-bar on -q -c constraints.txt --group dev
	@touch $@

demo: $(STAMP)  ## The whole way on a virtual UR10e: excite, record, identify, validate, feed forward
	@$(BIN)/dynid demo $(ARGS)

test: $(DEV)  ## Run the tests
	@$(BIN)/python -m pytest $(ARGS)

test-long: $(DEV)  ## Run what takes minutes of real motion, before a release
	@$(BIN)/python -m pytest -m long -n 0 $(ARGS)

check: lint types contracts  ## Lint, types, import contracts

lint: $(DEV)
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(DEV)
	@$(BIN)/mypy

contracts: $(DEV)
	@$(BIN)/lint-imports

bench: $(DEV)  ## Side-by-side performance runs against peers; ARGS=--full for long ones
	@$(BIN)/python -m benchmarks $(ARGS)

soak: $(DEV)  ## The service under load for a minute; measure on a machine that does nothing else
	@$(BIN)/python -m benchmarks.soak $(ARGS)

reproduce: $(DEV)  ## Published methods beside their published figures: writes docs/reproduction.md
	@$(BIN)/python -m benchmarks.reproduce --write docs/reproduction.md $(ARGS)

clean:  ## Remove the virtual environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
