# Everything a contributor runs. `make` alone prints this list.
#
# The virtual environment is made on first use, in two steps: what a server needs (requirements-server.lock) for
# `make run`, and what tests, Spark and tools need (requirements.lock) for the rest. Both come from the locks alone,
# hashes checked, and run again only when a lock or pyproject.toml changes.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SERVER_STAMP := $(VENV)/.server
SERVER_LOCK := requirements-server.lock
STAMP := $(VENV)/.installed
LOCK := requirements.lock
ARGS ?=

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore

.DEFAULT_GOAL := help
.PHONY: help run test test-all check format bench demo screenshots schema-dump sync-client api-docs lock clean

help: ## print this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(SERVER_STAMP) ## the server on a private PostgreSQL of its own (ARGS='--port 7000')
	$(BIN)/queen serve $(ARGS)

test: $(STAMP) ## the tests; those of SQL on every PostgreSQL at hand (ARGS='-k lease -x' to pick)
	$(BIN)/python -m pytest --numprocesses 2 --dist loadgroup --durations 15 $(ARGS)

test-all: override ARGS += --everything
test-all: test ## the same tests with every combination of client, transport and PostgreSQL

check: $(STAMP) ## lint, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP) ## rewrite the files the way check wants them
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: $(STAMP) ## measure (ARGS are passed on)
	$(BIN)/python -m bench $(ARGS)

demo: $(STAMP) ## a shop's orders on a PostgreSQL of its own, and what the pipelines make of them
	$(BIN)/python -m examples.pipelines.demo $(ARGS)

screenshots: $(STAMP) ## take the pictures of the dashboard in docs/images again
	$(BIN)/python -m tools.screenshots

schema-dump: $(STAMP) ## refresh tests/migrations/schema.sql after a migration
	$(BIN)/python -m pytest -q tests/migrations/test_schema_dump.py --refresh-schema-dump

sync-client: $(STAMP) ## write src/queenmq/client/sync again, from the files beside it
	$(BIN)/python -m tools.sync_client

api-docs: $(STAMP) ## write docs/api.md again, from the calls that src/queenmq/api declares
	$(BIN)/python -m tools.api_docs

lock: .uv/bin/uv ## choose the newest versions the ranges allow and pin them with hashes
	.uv/bin/uv pip compile --upgrade --universal --generate-hashes --no-strip-extras --no-emit-index-url \
	  --extra dev --python-version 3.11 --custom-compile-command 'make lock' --quiet \
	  --output-file $(LOCK) pyproject.toml
	.uv/bin/uv pip compile --universal --generate-hashes --no-strip-extras --no-emit-index-url --no-annotate \
	  --extra build --constraint $(LOCK) --python-version 3.11 --custom-compile-command 'make lock' --quiet \
	  --output-file $(SERVER_LOCK) pyproject.toml
	.uv/bin/uv pip compile --upgrade --universal --generate-hashes --no-strip-extras --no-emit-index-url \
	  --python-version 3.11 --custom-compile-command 'make lock' --quiet \
	  --output-file tests/acceptance/requirements.lock tests/acceptance/requirements.in

clean: ## remove everything that can be made again, but no messages
	rm -rf $(VENV) .uv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
	@for data in .queen $(QUEEN_DATA_DIR) $(wildcard /var/lib/queenmq); do \
	  if [ -d "$$data" ]; then echo "Left alone: $$data, the messages of a private PostgreSQL (rm -rf $$data)"; fi; \
	done

$(SERVER_STAMP): $(SERVER_LOCK) pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo 'Queen needs Python 3.11 or newer; say which with: make PYTHON=python3.12'; exit 1; }
	@echo 'Installing what a server needs into $(VENV) …'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes --requirement $(SERVER_LOCK)
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --no-index --editable .
	@touch $@

$(STAMP): $(LOCK) $(SERVER_STAMP)
	@echo 'Installing what tests, Spark and tools need into $(VENV) …'
	$(BIN)/pip install --quiet --require-hashes --requirement $(LOCK)
	@touch $@

.uv/bin/uv:
	$(PYTHON) -m venv .uv
	.uv/bin/pip install --quiet uv
