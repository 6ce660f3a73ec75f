# Every target sets up what it needs. `make demo` and `make test` need Python 3.11+ and nothing else.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
READY  := $(VENV)/.runtime
FRAMEWORKS := .venv-frameworks
FRAMEWORKS_STAMP := $(FRAMEWORKS)/.installed

# Compiled code, pytest's above all, is kept whatever the caller's settings: collecting tests takes half the time then.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test lint unit test-kube test-frameworks bench bench-kube bench-frameworks clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 18

$(READY): pyproject.toml constraints.txt
	@echo "setting up $(VENV) (once, about a minute)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "edl needs Python 3.11 or newer, this is " + sys.version)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(STAMP): $(READY)
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

# uv, because it keeps unpacked packages in a cache that every checkout links to: minutes the first time, seconds later.
$(FRAMEWORKS_STAMP): pyproject.toml constraints.txt constraints-frameworks.txt
	@echo "setting up $(FRAMEWORKS) with PyTorch and PaddlePaddle (about 3 GB are fetched the first time on a machine)"
	@$(PYTHON) -m venv $(FRAMEWORKS)
	@$(FRAMEWORKS)/bin/pip install --quiet --disable-pip-version-check -c constraints-frameworks.txt uv
	@grep -v '^numpy==' constraints.txt | cat - constraints-frameworks.txt > $(FRAMEWORKS)/constraints.txt
	@$(FRAMEWORKS)/bin/uv pip install --python $(FRAMEWORKS)/bin/python -c $(FRAMEWORKS)/constraints.txt -e '.[dev,torch,etcd,paddle,transformers,postgres]'
	@touch $@

demo: $(READY) ## elastic training in about a minute: grow, shrink, survive; draws demo.svg
	@$(BIN)/edl demo

# The tests need not wait for the linters: both run, and both must pass. What lint has to say is shown as soon as it fails.
test: $(STAMP) ## lint, types, layers and the default test tier
	@(nice -n 19 $(MAKE) --no-print-directory lint > $(VENV)/.lint 2>&1 || { echo; cat $(VENV)/.lint; exit 1; }) & lint=$$!; \
	$(MAKE) --no-print-directory unit; unit=$$?; \
	wait $$lint || { echo "make lint failed: see above, or run it again"; exit 1; }; \
	exit $$unit

lint: $(STAMP)
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo > $(VENV)/.imports 2>&1 || { cat $(VENV)/.imports; exit 1; }

unit: $(STAMP)
	@$(BIN)/pytest -n 2 --dist worksteal -m 'not frameworks and not kube'

# Three at a time on clusters of their own, for most of it is waiting; one after the other on a cluster that is there.
# GOGC: there is memory enough, and Kubernetes' own parts spend less time on collecting theirs.
# Only where its tests are: collecting all others takes every worker ten seconds.
KUBE_TESTS = $(shell grep -rlE 'mark\.kube\b' tests --include='*.py' | sed 's|/conftest.py$$||' | sort)
test-kube: $(STAMP) ## the tests on a real Kubernetes: of its own making (root, Go), or KUBECONFIG's
	@$(BIN)/python -m tests.kube.prepare
	@GOGC=300 $(BIN)/pytest -n $(if $(KUBECONFIG),0,3) --dist loadgroup --no-loadscope-reorder -m kube $(KUBE_TESTS)

test-frameworks: $(FRAMEWORKS_STAMP) ## the tests with real PyTorch (torchrun) and real PaddlePaddle
	@$(FRAMEWORKS)/bin/pytest -n 0 -m frameworks

bench: $(STAMP) ## benchmarks: ratios against a peer or a bound measured in the same run
	@for b in bench/bench_*.py; do echo "== $$b"; $(BIN)/python $$b || exit 1; done

bench-kube: $(STAMP) ## the operator on a real control plane with hundreds of nodes, beside its Go peer (needs Go; tens of minutes)
	@$(BIN)/python -m bench.kube

bench-frameworks: $(FRAMEWORKS_STAMP) ## how long training stops when a worker joins, leaves or is killed: torchrun's own ways and ours
	@$(FRAMEWORKS)/bin/python bench/bench_rendezvous.py

clean: ## remove the virtualenvs and caches
	@rm -rf $(VENV) $(FRAMEWORKS) .mypy_cache .ruff_cache .hypothesis build dist
