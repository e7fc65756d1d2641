# Every target does its own set-up: a virtual environment in .venv, packages pinned by hash, compiled kernels in the
# user's cache folder. Needs make and Python 3.11 or later; for another interpreter: `make demo PYTHON=/path/to/python`.

PYTHON ?= $(shell command -v python3.11 || command -v python3 || echo python3)
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1
export PIP_NO_INPUT = 1

# Stamps: what is newer than its stamp is done again. A virtual environment holds absolute paths, so one that came with
# a copied or moved checkout is made anew.
PLACE := $(VENV)/.made-at-$(shell printf %s "$(CURDIR)" | cksum | cut -d' ' -f1)
RUNTIME := $(VENV)/.runtime
DEV := $(VENV)/.dev
DOCS := $(VENV)/.docs
RELEASE := $(VENV)/.release
WARM := $(VENV)/.warm
SOURCES := $(shell find kai_sched -name '*.py')
SOLVER := $(shell find kai_sched/solver kai_sched/snapshot -name '*.py')

FAST := --hypothesis-profile=fast -m 'not slow and not cluster and not browser and not long'
# All but the long ones, in three parts: what can run beside other tests, what needs a control plane, of which each of
# two processes has its own, and what cannot run beside others.
# With TESTED=yes, after `make test`, what that ran is not run again; with more examples it is something new.
NEW := $(if $(TESTED), and (slow or hypothesis))
BESIDE := --hypothesis-profile=full -m 'not (long or cluster or browser or alone)$(NEW)'
LIVE := --hypothesis-profile=full -m 'cluster and not (long or alone)'
ALONE := --hypothesis-profile=full -m '(browser or alone) and not long'
LONG := --hypothesis-profile=full -m long
# What most programs against a real API server need. Tests that need more build it (tests/cluster/conftest.py).
CONTROL_PLANE := etcd kubernetes kwok
# Over all cores: for tests that neither measure time nor share a control plane.
SPREAD := --numprocesses=auto --dist=worksteal
PAIR := --numprocesses=2 --dist=loadfile
# The rules of the house, which `make check` and the hooks of .pre-commit-config.yaml run.
HOUSE := tests/test_architecture.py tests/test_tidy.py tests/test_house.py tests/test_front_page.py tests/test_site.py
PURE := $(wildcard tests/properties tests/scenarios)
# What runs a second time with kernels interpreted; how they are compiled is no part of it, and explanations are
# thousands of cycles, each of which other tests look at.
INTERPRETED := --hypothesis-profile=fast -m 'not (long or cluster or browser or alone)'
KERNEL_SUITES := $(PURE) $(wildcard tests/unit/solver) --ignore=tests/unit/solver/jit/test_jit.py \
  --ignore=tests/properties/test_explanations.py

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo install test test-all test-fast test-long test-kind check crds docs site bench bench-cluster lock dist
.PHONY: archive chart image image-sbom image-tools audit changelog licenses sbom
.PHONY: manifests clean cluster-tools control-plane cluster-up cluster-down soak chromium screenshot bench-page

help:
	@echo 'make demo       set up, then decide and print the example cluster'
	@echo 'make test       set up, then all checks and the tests that find most; minutes'
	@echo 'make test-all   set up, then all checks and all tests but the long ones; needs Go, at most 45 minutes'
	@echo 'make install    set up: kai-sched in $(BIN), its kernels compiled into the cache'
	@echo 'make test-fast  the quick tests alone'
	@echo 'make test-long  the tests that take minutes each, and two minutes of soak; needs Go'
	@echo 'make test-kind  the cluster tests on kind; needs Go and Docker'
	@echo 'make check      formatting, lint, types, import contracts, house rules, generated files'
	@echo 'make site       build/site: the documentation site, its links checked'
	@echo 'make crds       write crds/, and those of the chart, anew from kai_sched/api'
	@echo 'make manifests  write manifests/ anew from the chart; needs Go, once to build helm'
	@echo 'make docs       write the generated files in docs/, and the outputs in documents, anew from the code'
	@echo "make bench      the speed table; ARGS='--only SHAPE --json FILE --against COMMIT'"
	@echo 'make bench-cluster  speed and memory of `kai-sched run` on a real API server'
	@echo 'make bench-page     size and speed of the page of 1,000 nodes, in Chromium'
	@echo "make soak       pods come and go amid random faults; ARGS='--minutes 10 --rate 20 --seed 1'"
	@echo 'make cluster-up     a control plane to play with, in the background; kubeconfig in .cluster/'
	@echo 'make cluster-down   end it'
	@echo 'make control-plane  build etcd, kube-apiserver and kwok (with Go; ten minutes at first)'
	@echo 'make cluster-tools  build these, KubeRay, JobSet and so on (with Go; 15 minutes at first)'
	@echo "make chromium       install Debian's Chromium, where there is none (as root, or with sudo)"
	@echo 'make screenshot     take the pictures of the page in docs/images anew'
	@echo 'make lock       resolve requirements/ anew; ARGS=--upgrade for newer versions'
	@echo 'make dist       dist/: the wheel with its compiled kernels, the source distribution'
	@echo 'make archive    dist/: a folder with all but Python, packed'
	@echo 'make chart      dist/: the Helm chart, packed by helm (with Go)'
	@echo "make image      the image, built with Debian's buildah; ARGS='FILE.tar' writes it"
	@echo "make image-tools    install buildah and mmdebstrap, where there are none (as root, or with sudo)"
	@echo 'make sbom       dist/kai-sched.cdx.json: the packages that are installed with it (CycloneDX)'
	@echo "make image-sbom the same of an image's files, Debian's included; ARGS='ROOT FILE'"
	@echo 'make licenses   their licenses; fails where one is not allowed'
	@echo 'make audit      their known vulnerabilities; needs a network'
	@echo "make changelog  what changes/ comes to; ARGS='--version X.Y.Z --yes' puts it into CHANGELOG.md"
	@echo 'make clean      remove all that was made in this folder'

# Small clusters are decided without compiled kernels: a newcomer need not wait for the compiler.
demo: $(RUNTIME)
	@$(BIN)/kai-sched simulate examples/teams

install: $(WARM)

# For people: what finds most in a few minutes. The live tests run only where their programs are built already.
test: $(DEV) $(WARM) check
	$(BIN)/python -m pytest $(FAST) $(HOUSE:%=--ignore=%) $(SPREAD)
	@if $(BIN)/python -m tests.cluster.components built $(CONTROL_PLANE) 2> /dev/null; then \
	  $(BIN)/python -m pytest -m essential tests/cluster; \
	else \
	  echo 'NO TEST RAN ON A REAL API SERVER: its programs are not built (make control-plane)'; \
	fi
	@echo 'Left out: the slow tests, many examples, most tests on a real API server, the page in Chromium,' \
	  'interpreted kernels (make test-all); tests that take minutes each (make test-long)'

test-all: $(DEV) $(WARM) $(RELEASE) check chromium image-tools cluster-tools site licenses dist/.made
	$(BIN)/python -m pytest $(BESIDE) $(HOUSE:%=--ignore=%) $(SPREAD)
	$(BIN)/python -m pytest $(LIVE) $(PAIR)
	$(BIN)/python -m pytest $(ALONE)
	KAI_SCHED_JIT=off $(BIN)/python -m pytest $(INTERPRETED) $(KERNEL_SUITES) $(SPREAD)

test-fast: $(DEV) $(WARM)
	$(BIN)/python -m pytest $(FAST) $(SPREAD)

# Fails where `make test-all` would leave something out.
test-long: $(DEV) $(WARM) control-plane
	CI=true $(BIN)/python -m pytest $(LONG)
	$(BIN)/python -m tests.cluster.soak --minutes 2

test-kind: $(DEV) $(WARM) cluster-tools
	@docker info > /dev/null || { echo 'make test-kind needs Docker, and a daemon that answers' >&2; exit 1; }
	@$(BIN)/python -m tests.cluster.components kind
	@mkdir -p .cluster
	kind=$$($(BIN)/python -m tests.cluster.components where kind kind) && \
	trap "$$kind delete cluster --name kai-sched-tests" EXIT && \
	$$kind create cluster --name kai-sched-tests --kubeconfig .cluster/kind --wait 5m && \
	KAI_TEST_KUBECONFIG=.cluster/kind $(BIN)/python -m pytest --hypothesis-profile=full -m 'not long' tests/cluster

check: $(DEV)
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/python -m pytest --quiet $(HOUSE)
	$(BIN)/python -m kai_sched.files.crds --check crds charts/kai-scheduler/files/crds
	$(BIN)/python -m tests.answers_schema | diff - docs/answers.schema.json || { \
	  echo 'docs/answers.schema.json is out of date: run `make docs`' >&2; exit 1; }
	$(BIN)/python -m tests.chart_values | diff - charts/kai-scheduler/README.md || { \
	  echo 'charts/kai-scheduler/README.md is out of date: run `make docs`' >&2; exit 1; }

crds: $(DEV)
	$(BIN)/python -m kai_sched.files.crds crds charts/kai-scheduler/files/crds

manifests: $(DEV)
	@$(BIN)/python -m tests.cluster.components helm
	$(BIN)/python -m tests.rendered_manifests

docs: $(DEV)
	$(BIN)/python -m tests.answers_schema > docs/answers.schema.json
	$(BIN)/python -m tests.chart_values > charts/kai-scheduler/README.md
	$(BIN)/python -m tests.example_company
	$(BIN)/python -m tests.pictures
	$(BIN)/python -m tests.shown_outputs

# A warning is an error. What is made from the code is made anew each time.
site: $(DOCS)
	rm -rf build/site
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --fresh-env --conf-dir docs \
	  --doctree-dir build/site-cache . build/site
	$(BIN)/python -m tests.site.links build/site
	@echo 'build/site/index.html is the front page'

bench: $(RUNTIME)
	$(BIN)/python -m tests.perf.bench $(ARGS)

bench-cluster: $(DEV) $(WARM) control-plane
	$(BIN)/python -m tests.cluster.measure $(ARGS)

soak: $(DEV) $(WARM) control-plane
	$(BIN)/python -m tests.cluster.soak $(ARGS)

cluster-tools: $(PLACE)
	@$(BIN)/python -m tests.cluster.components

control-plane: $(PLACE)
	@$(BIN)/python -m tests.cluster.components $(CONTROL_PLANE)

chromium: $(PLACE)
	@$(BIN)/python -m tests.browser.chromium

image-tools: $(PLACE)
	@$(BIN)/python -m tests.image.tools

screenshot: $(DEV) $(WARM) chromium
	$(BIN)/python -m tests.browser.screenshot

bench-page: $(DEV) $(WARM) chromium
	$(BIN)/python -m tests.browser.measure

cluster-up: $(DEV) $(WARM) control-plane
	@$(BIN)/python -m tests.cluster.play up

cluster-down: $(PLACE)
	@$(BIN)/python -m tests.cluster.play down

lock: $(DEV)
	PATH="$(CURDIR)/$(BIN):$$PATH" requirements/compile $(ARGS)

# Whether each package that is installed with kai-sched has an allowed license.
licenses: $(DEV)
	$(BIN)/python packaging/licenses.py

sbom: $(RELEASE)
	PATH="$(CURDIR)/$(BIN):$$PATH" packaging/sbom dist/kai-sched.cdx.json

image-sbom: $(RELEASE)
	@$(BIN)/python packaging/image_sbom.py $(ARGS)

# What the files of changes/ come to; ARGS='--version X.Y.Z --yes' writes it and removes them.
changelog: $(RELEASE)
	$(BIN)/towncrier build $(if $(ARGS),$(ARGS),--draft --version next)

# Needs the service with the advisories: not a part of `make test-all`.
audit: $(RELEASE)
	PATH="$(CURDIR)/$(BIN):$$PATH" packaging/audit

dist: dist/.made

archive: dist/.made
	@$(BIN)/python packaging/archive.py

chart: $(DEV)
	@$(BIN)/python -m tests.cluster.components helm
	@packaging/chart "$$($(BIN)/python -m tests.cluster.components where helm helm)"

image: dist/.made image-tools
	@$(BIN)/python -m tests.image.build $(ARGS)

clean:
	rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find kai_sched tests -name __pycache__ -type d -prune -exec rm -rf {} +

dist/.made: $(DEV) $(SOURCES) README.md LICENSE pyproject.toml packaging/wheel.py
	@$(BIN)/python packaging/wheel.py
	@touch $@

$(PLACE):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo '$(PYTHON) is not Python 3.11 or later: install one, or name it with PYTHON=...' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo '$(PYTHON) cannot make virtual environments: install its venv module (Debian: apt install python3-venv)' >&2; \
	  exit 1; }
	@echo 'Making the virtual environment $(VENV)'
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(RUNTIME): $(PLACE) requirements/build.txt requirements/runtime.txt pyproject.toml kai_sched/__init__.py
	@echo 'Installing kai-sched and what it needs'
	@$(BIN)/pip install --quiet --require-hashes -r requirements/build.txt -r requirements/runtime.txt
	@$(BIN)/pip install --quiet --no-deps --no-index --no-build-isolation --editable .
	@touch $@

$(DEV): $(RUNTIME) requirements/dev.txt
	@echo 'Installing the tools for development'
	@$(BIN)/pip install --quiet --require-hashes -r requirements/dev.txt
	@touch $@

$(DOCS): $(DEV) requirements/docs.txt
	@echo 'Installing what builds the documentation site'
	@$(BIN)/pip install --quiet --require-hashes -r requirements/docs.txt
	@touch $@

$(RELEASE): $(DEV) requirements/release.txt
	@echo 'Installing the tools for a release'
	@$(BIN)/pip install --quiet --require-hashes -r requirements/release.txt
	@touch $@

# Bytecode, too: with PYTHONDONTWRITEBYTECODE in the environment, each start would compile 250 modules again.
$(WARM): $(RUNTIME) $(SOLVER)
	@$(BIN)/python -m compileall -q kai_sched
	@$(BIN)/kai-sched warmup
	@touch $@
