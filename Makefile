# The commands of this project. `make help` lists them. Settings: K8S NODES CLUSTER PROFILE HELM_ARGS EXAMPLE.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
COMPILE = $(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
  --no-annotate --no-emit-package gpu-dra
CLUSTER_TOOL = $(BIN)/python -m tests.e2e.cluster

export K8S ?= 1.37.2
export NODES ?= 2

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

$(VENV)/.ready: pyproject.toml requirements/dev.txt requirements/build.txt
	$(PYTHON) -c 'import sys; sys.exit("gpu-dra needs Python 3.11 or later; choose one with PYTHON=..." if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements/build.txt
	$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

setup: $(VENV)/.ready ## the Python environment

demo: setup ## a claim gets its GPUs, embedded: no cluster, no root (EXAMPLE=one-mesh)
	@$(BIN)/python -m node_agent.demo $(EXAMPLE)

test: setup check unit e2e ## everything: sets itself up, then static checks, all tests, the real cluster

check: lint types layers generated ## all static checks

lint: setup ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup ## mypy and pyright, both strict
	$(BIN)/mypy
	$(BIN)/pyright

layers: setup ## import contracts
	$(BIN)/lint-imports

generated: setup ## what is made from something else is up to date
	$(BIN)/python charts/sync.py --check
	$(BIN)/python charts/readme.py --check
	@scratch=$$(mktemp -d) && trap 'rm -r "$$scratch"' EXIT && cd node_agent/kubelet_api && \
	  ../../$(BIN)/python -m grpc_tools.protoc -I . --python_out="$$scratch" --pyi_out="$$scratch" kubelet.proto && \
	  for made in "$$scratch"/*; do cmp "$$made" "$$(basename "$$made")" || { echo "run: make protocol"; exit 1; }; done

packages: ## the Debian packages of the cluster (needs root)
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then $(PYTHON) -m tests.e2e.cluster install-packages; \
	 elif [ "$$CI" = true ]; then echo "CI=true, and without root and apt the cluster cannot run" >&2; exit 1; \
	 else echo "left out: the real cluster (it needs root on a Debian-like Linux)"; fi

programs: packages ## Kubernetes, etcd, containerd and helm from pinned Go modules, into a cache outside the checkout
	@if command -v go >/dev/null; then $(PYTHON) -m tests.e2e.cluster programs $(K8S); \
	 elif [ "$$CI" = true ]; then echo "CI=true, and Go is not on PATH" >&2; exit 1; \
	 else echo "left out: everything that needs Kubernetes programs (Go is not on PATH)"; fi

unit: setup programs ## unit, contract and component tests
	$(BIN)/python -m pytest -q

e2e: setup programs ## the end-to-end suite on a real cluster (K8S=1.37.2, 1.34.4 or 1.32.9; E2E_KUBECONFIG=FILE for another)
	$(BIN)/python -m pytest -q tests/e2e

cluster-up: setup programs ## start a cluster; its kubeconfig is the last line (K8S, NODES, CLUSTER)
	@$(CLUSTER_TOOL) up

cluster-install: setup ## install the chart on it and wait until it is ready (PROFILE, HELM_ARGS)
	@$(CLUSTER_TOOL) install

cluster-down: setup ## stop it and leave nothing behind
	@$(CLUSTER_TOOL) down

bench: setup ## Prepare and Unprepare as a kubelet sees them, against a real API server
	$(BIN)/python -m bench.prepare

protocol: setup ## the kubelet's messages from kubelet.proto
	cd node_agent/kubelet_api && ../../$(BIN)/python -m grpc_tools.protoc -I . --python_out=. --pyi_out=. kubelet.proto

lock: setup ## requirements/*.txt from pyproject.toml
	$(BIN)/pip install -q --disable-pip-version-check uv
	$(COMPILE) requirements/build.in -o requirements/build.txt
	$(COMPILE) pyproject.toml --extra dev -o requirements/dev.txt
	for extra in agent controller; do \
	  $(COMPILE) pyproject.toml --extra $$extra -c requirements/dev.txt -o requirements/$$extra.txt || exit 1; done

.PHONY: help setup demo test check lint types layers generated packages programs unit e2e cluster-up cluster-install cluster-down bench protocol lock
