# Everything a person types. `make` or `make help` lists it.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-print-directory
STACK ?= local
PY := .venv/bin/python
T ?= tests

.DEFAULT_GOAL := help
.PHONY: help venv up down env status policy check format test constraints docs

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv:  # the Python environment; nothing to do when it is current
	@./local/venv.sh

up: venv  ## tools, local Kubernetes, `pulumi up` of the local stack, and how to connect
	@$(PY) -m local up --stack local

down: venv  ## destroy the local stack and remove the local Kubernetes and everything that it made
	@$(PY) -m local down

env: venv  ## print the exports for a shell: eval "$$(make -s env)"
	@$(PY) -m local env

status: venv  ## the status table of the instances on the local cluster; STACK=… those of one stack
	@eval "$$($(PY) -m local env)"; $(PY) -m valkeyctl status $(if $(filter command%,$(origin STACK)),--stack $(STACK))

policy: venv  ## preview of STACK with the policy pack, as CI runs it, by the rules of its name or of PROFILE=…
	@STACK='$(STACK)' PROFILE='$(PROFILE)' PY='$(PY)' ./local/policy.sh

check: venv  ## lint, format, types, import contracts
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m pyright --pythonpath $(PY)
	.venv/bin/lint-imports

format: venv  ## let ruff mend what it can
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

test: venv  ## the whole test suite; T=tests/unit runs a part of it
	@$(PY) -m tests.run $(T)

docs: venv  ## write the generated parts of the documentation anew
	@$(PY) docs/reference/generate.py
	@$(PY) docs/reference/schema.py
	@$(PY) docs/reference/policies.py

constraints: venv  ## resolve the dependencies anew into constraints.txt and requirements.txt
	.venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate \
	  --no-header --extra dev --extra policy pyproject.toml --output-file constraints.txt
	.venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate \
	  --no-header --extra policy --constraint constraints.txt pyproject.toml --output-file requirements.txt
