# Every target sets up what it needs. `make demo` and `make test` need Python 3.11+ and nothing else.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
READY  := $(VENV)/.runtime
FRAMEWORKS := .venv-frameworks
FRAMEWORKS_STAMP := $(FRAMEWORKS)/.installed
TENSORFLOW := .venv-tensorflow
TENSORFLOW_STAMP := $(TENSORFLOW)/.installed

# Compiled code, pytest's above all, is kept whatever the caller's settings: collecting tests takes half the time then.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test lint unit fuzz docs pins test-kube test-frameworks test-web dist test-dist flakes soak chaos bench bench-kube bench-frameworks clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 18

$(READY): pyproject.toml constraints.txt
	@echo "setting up $(VENV) (once, about a minute)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "edl needs Python 3.11 or newer, this is " + sys.version)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(STAMP): $(READY)
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,docs,web-test]'
	@touch $@

# uv, because it keeps unpacked packages in a cache that every checkout links to: minutes the first time, seconds later.
$(FRAMEWORKS_STAMP): pyproject.toml constraints.txt constraints-frameworks.txt
	@echo "setting up $(FRAMEWORKS) with PyTorch and PaddlePaddle (about 3 GB are fetched the first time on a machine)"
	@$(PYTHON) -m venv $(FRAMEWORKS)
	@$(FRAMEWORKS)/bin/pip install --quiet --disable-pip-version-check -c constraints-frameworks.txt uv
	@grep -v '^numpy==' constraints.txt | cat - constraints-frameworks.txt > $(FRAMEWORKS)/constraints.txt
	@$(FRAMEWORKS)/bin/uv pip install --python $(FRAMEWORKS)/bin/python -c $(FRAMEWORKS)/constraints.txt -e '.[dev,torch,etcd,paddle,transformers,postgres]'
	@touch $@

# Apart: TensorFlow and PaddlePaddle want different versions of the same packages. Nothing of ours is in it.
$(TENSORFLOW_STAMP): $(FRAMEWORKS_STAMP) constraints-tensorflow.txt
	@echo "setting up $(TENSORFLOW) with TensorFlow"
	@$(PYTHON) -m venv --clear --without-pip $(TENSORFLOW)
	@$(FRAMEWORKS)/bin/uv pip install --python $(TENSORFLOW)/bin/python -c constraints-tensorflow.txt tensorflow-cpu
	@touch $@

demo: $(READY) ## elastic training in about a minute: grow, shrink, survive; draws demo.svg
	@$(BIN)/edl demo

# The tests need not wait for the linters: both run, and both must pass. What lint has to say is shown as soon as it fails.
test: $(STAMP) ## lint, types, layers and the default test tier
	@(nice -n 19 $(MAKE) --no-print-directory lint > $(VENV)/.lint 2>&1 || { echo; cat $(VENV)/.lint; exit 1; }) & lint=$$!; \
	$(MAKE) --no-print-directory unit; unit=$$?; \
	wait $$lint || { echo "make lint failed: see above, or run it again"; exit 1; }; \
	exit $$unit

# Strict: a broken link, a page without a place in the navigation or one that loads from another host fails it.
MKDOCS = NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Hashes of every file that the image may be built from; uv knows those of all platforms.
PINS := uv pip compile --quiet --constraint constraints.txt --generate-hashes --universal --python-version 3.11 --no-header --no-annotate
pins: pyproject.toml constraints.txt ## hashes of what the image installs; needs uv
	@$(PINS) pyproject.toml --extra postgres --output-file constraints-image.txt
	@echo hatchling | $(PINS) - --output-file constraints-build.txt

docs: $(STAMP) ## the documentation site, in build/site
	@$(BIN)/python -m tests.docs.generate
	@$(MKDOCS)
	@echo "open build/site/index.html"

lint: $(STAMP)
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo > $(VENV)/.imports 2>&1 || { cat $(VENV)/.imports; exit 1; }
	@$(MKDOCS)

# Six on two cores: most of a test is waiting. They begin with what takes long (tests/order.py).
unit: $(STAMP)
	@$(BIN)/pytest -n 6 --dist worksteal -m 'not frameworks and not kube and not dist and not web'

FUZZ_TESTS = $(shell grep -rl '^from hypothesis' tests --include='test_*.py' | sort)
fuzz: $(STAMP) ## the tests that make up their own input, with input that no run had before
	@$(BIN)/pytest -n 4 --dist worksteal --hypothesis-profile fuzz -m 'not frameworks and not kube and not dist and not web' $(FUZZ_TESTS)

# Three at a time on clusters of their own, for most of it is waiting; one after the other on a cluster that is there.
# GOGC: there is memory enough, and Kubernetes' own parts spend less time on collecting theirs.
# Only where its tests are: collecting all others takes every worker ten seconds.
KUBE_TESTS = $(shell grep -rlE 'mark\.kube\b' tests --include='*.py' | sed 's|/conftest.py$$||' | sort)
test-kube: $(STAMP) ## the tests on a real Kubernetes: of its own making (root, Go), or KUBECONFIG's
	@$(BIN)/python -m tests.tier_kube.prepare
	@GOGC=300 $(BIN)/pytest -n $(if $(KUBECONFIG),0,3) --dist loadgroup --no-loadscope-reorder -m kube $(KUBE_TESTS)

test-frameworks: $(FRAMEWORKS_STAMP) $(TENSORFLOW_STAMP) ## the tests with real PyTorch (torchrun), PaddlePaddle and TensorFlow
	@$(FRAMEWORKS)/bin/pytest -n 0 -m frameworks

# Debian's own browser and driver; screenshots are left in build/web.
CHROMIUM = chromium chromium-driver fonts-dejavu-core
test-web: $(STAMP) ## the page in a real Chromium, which is installed where it is absent (needs root)
	@{ command -v chromium && command -v chromedriver; } > /dev/null || \
	apt-get install -y --no-install-recommends $(CHROMIUM) > $(VENV)/.chromium 2>&1 || \
	{ apt-get update && apt-get install -y --no-install-recommends $(CHROMIUM); } >> $(VENV)/.chromium 2>&1 || { cat $(VENV)/.chromium; exit 1; }
	@$(BIN)/pytest -n 0 -m web tests/tier_web

dist: $(STAMP) ## wheel, sdist and the list of what they consist of (CycloneDX), in dist/
	@$(BIN)/python -m tests.tier_dist.version
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation --outdir dist > $(VENV)/.build 2>&1 || { cat $(VENV)/.build; exit 1; }
	@$(BIN)/python -m tests.tier_dist.sbom dist
	@ls dist

# The wheel in virtualenvs of its own, far from the checkout.
test-dist: dist ## the tests of the wheel as a stranger installs it
	@$(BIN)/pytest -n 0 -m dist tests/tier_dist

# TEST names single tests instead of the tier; BURN is how many processes burn the processor meanwhile.
TIER ?= default
N ?= 10
BURN ?= 0
flakes: $(STAMP) ## repeat a tier and count failures: TIER=default|kube|frameworks|dist|web N=10 BURN=2 TEST=tests/...
	@$(if $(filter frameworks,$(TIER)),$(MAKE) --no-print-directory $(FRAMEWORKS_STAMP) $(TENSORFLOW_STAMP) &&) \
	$(if $(filter frameworks,$(TIER)),$(FRAMEWORKS),$(VENV))/bin/python -m tests.flakes --tier $(TIER) --runs $(N) --burn $(BURN) $(TEST)

bench: $(STAMP) ## benchmarks: ratios against a peer or a bound measured in the same run
	@for b in bench/bench_*.py; do echo "== $$b"; $(BIN)/python $$b || exit 1; done

MINUTES ?= 60
soak: $(STAMP) ## jobs of all kinds under faults for MINUTES (60): every job right, memory, descriptors, store and logs bounded
	@$(BIN)/python -m tests.soak $(MINUTES)

chaos: MINUTES = 10
chaos: $(FRAMEWORKS_STAMP) ## a training that never stops under random joins, leaves, kills and stops for MINUTES (10), SEED=n: its ledger exact; WORKERS=2 share a model in each pod
	@$(FRAMEWORKS)/bin/python -m tests.tier_frameworks.chaos $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(WORKERS),--workers $(WORKERS))

bench-kube: $(STAMP) ## the operator on a real control plane with hundreds of nodes, beside its Go peer (needs Go; tens of minutes)
	@$(BIN)/python -m bench.kube

# Outside the checkout, because nothing of ours is in it. A benchmark without peers names the reason and goes on.
PEERS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/edl-bench/peers-$(shell cksum bench/frameworks/peers.txt | cut -d' ' -f1)
$(PEERS)/.installed: | $(FRAMEWORKS_STAMP)
	@echo "setting up $(PEERS) with torchft, Ray and DLRover (a few hundred MB besides torch)"
	@$(PYTHON) -m venv --clear --without-pip $(PEERS)
	@$(FRAMEWORKS)/bin/uv pip install --quiet --python $(PEERS)/bin/python -r bench/frameworks/peers.txt && touch $@ || rm -rf $(PEERS)

ROUNDS ?= 5
bench-frameworks: $(FRAMEWORKS_STAMP) $(PEERS)/.installed ## pauses, losses and costs of torchrun, EDL and its peers when workers come and go: ROUNDS=5 (hours)
	@$(FRAMEWORKS)/bin/python bench/bench_checkpointer.py
	@EDL_BENCH_PEERS=$(PEERS)/bin/python $(FRAMEWORKS)/bin/python -m bench.frameworks --rounds $(ROUNDS) $(ARGS)

clean: ## remove the virtualenvs and caches
	@rm -rf $(VENV) $(FRAMEWORKS) $(TENSORFLOW) .mypy_cache .ruff_cache .hypothesis build dist
