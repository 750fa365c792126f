# Everything a checkout can do. `make` alone lists it. Each target does its own set-up and is quick the second time.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip --disable-pip-version-check --quiet
STAMPS := $(VENV)/.stamps
PYTEST  = $(BIN)/pytest --timeout=$(TEST_SECONDS_MAX) --numprocesses=$(TEST_WORKERS)
PYTEST_ARGS ?=
# Most tests with real clients wait most of the time: two at once even on a small machine. 0: one after the other.
TEST_WORKERS ?= 2
# No test may hang: this many seconds for the slowest one on a busy machine.
TEST_SECONDS_MAX ?= 300
BENCH_ARGS ?=
SIM_SEEDS ?= 5000
SOAK_ARGS ?=

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup run test lint format unit clients clients-apache spark bench bench-spark sim soak soak-spark docs lock bytecode kafka connector lakes languages debian clean

help:  ## this list
	@awk 'BEGIN { FS = ":.*## "; print "\n  \033[1mTidelog\033[0m: a Kafka-compatible streaming platform in Python\n" } \
	     /^[a-z-]+:.*## / { printf "  \033[36mmake %-16s\033[0m %s\n", $$1, $$2 } END { print "" }' $(MAKEFILE_LIST)

run: $(STAMPS)/runtime bytecode  ## start the platform on 127.0.0.1:9092 and show it working: orders in, sums by Spark out (Ctrl-C stops it)
	@# Spark is large: it is fetched beside the demo, which takes it in when it is there, and goes on without if it never comes.
	@($(MAKE) --no-print-directory $(STAMPS)/spark-runtime >$(VENV)/spark-install.log 2>&1 &) ; \
	    TIDELOG_SPARK_STAMP=$(STAMPS)/spark-runtime $(BIN)/tidelog demo

test: setup bytecode kafka connector lakes languages debian lint  ## set up everything, then linters, types, import contracts and all tests
	$(PYTEST) $(PYTEST_ARGS)

lint: setup $(STAMPS)/spark  ## ruff, mypy --strict (the package and the programs beside it), import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup  ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

unit: setup $(STAMPS)/spark  ## the quick tests only: no other process, no network beyond this one
	$(PYTEST) tests/unit tests/property $(PYTEST_ARGS)

clients: setup kafka debian  ## the tests with real clients against our broker
	$(PYTEST) tests/clients $(PYTEST_ARGS)

clients-apache: setup kafka debian  ## the same tests against a real Apache Kafka: are the tests themselves right?
	TIDELOG_TEST_SERVER=apache $(PYTEST) tests/clients $(PYTEST_ARGS)

spark: setup $(STAMPS)/spark kafka connector lakes debian  ## the tests with Spark: our source and sink, Spark's own Kafka connector, lakes
	$(PYTEST) tests/spark $(PYTEST_ARGS)

bench: setup bytecode kafka $(STAMPS)/bench  ## ours beside Apache Kafka in one run; writes docs/benchmarks.md (BENCH_ARGS=--quick: 4 minutes)
	$(BIN)/python -m bench $(BENCH_ARGS)

bench-spark: setup bytecode kafka connector $(STAMPS)/bench $(STAMPS)/spark  ## our Spark source and sink beside Spark's own Kafka connector
	$(BIN)/python -m bench.spark $(BENCH_ARGS)

sim: setup  ## thousands of seeds of every simulation that takes a number of them (SIM_SEEDS=10000)
	TIDELOG_RAFT_SEEDS=$(SIM_SEEDS) TIDELOG_GROUP_SEEDS=$(SIM_SEEDS) TIDELOG_TRANSACTION_SEEDS=$(SIM_SEEDS) \
	    TIDELOG_SIMULATION_SEEDS=$(SIM_SEEDS) TIDELOG_REPLICATION_SEEDS=$(SIM_SEEDS) \
	    $(PYTEST) --timeout=0 tests/simulation $(PYTEST_ARGS)

soak: setup kafka debian  ## an hour of faults on three brokers, clients in other processes, and a judgement (SOAK_ARGS=--minutes 5)
	$(BIN)/python -m soak run $(SOAK_ARGS)

soak-spark: setup $(STAMPS)/spark debian  ## a million records through Spark while executors, drivers and broker are killed (SOAK_ARGS=--records 50000)
	$(BIN)/python -m soak spark $(SOAK_ARGS)

docs: setup $(STAMPS)/spark  ## write docs/requirements.md from the tests' markers
	$(BIN)/python scripts/requirements_doc.py

setup: $(STAMPS)/dev  ## the virtual environment with everything that development needs

# What pip does when it installs a package, and an environment may forbid: every start would compile all modules again.
bytecode:
	@$(BIN)/python -m compileall -q src

kafka:
	@scripts/apache_kafka.sh

connector: $(STAMPS)/spark
	@scripts/other_sparks.sh connector

lakes: $(STAMPS)/spark
	@scripts/other_sparks.sh delta iceberg

languages:
	@PYTHON=$(BIN)/python scripts/other_languages.sh

debian:
	@scripts/debian_packages.sh kcat java mkfs.ext4 mkfs.xfs

lock: setup  ## pin the newest versions of all dependencies again
	$(BIN)/python -m venv $(VENV)/lock
	$(VENV)/lock/bin/pip --disable-pip-version-check --quiet install pip-tools
	for name in build runtime dev bench languages spark spark-connect spark-connector spark-delta spark-iceberg; do \
	    $(VENV)/lock/bin/pip-compile --quiet --upgrade --generate-hashes --no-emit-index-url --no-emit-find-links \
	        --no-emit-trusted-host --strip-extras --allow-unsafe --output-file=requirements/$$name.txt requirements/$$name.in; \
	done

clean:  ## remove the environment, all caches and the data of `make run`
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis tidelog-data
	rm -f src/tidelog/wire/*/kernel.*.so src/tidelog/wire/record_walk_compiled.*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps say which lock file an environment was made from; a changed lock file brings it up to date.
$(BIN)/python:
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Tidelog needs Python 3.11 or newer (PYTHON=...)"'
	$(PYTHON) -m venv $(VENV)

KERNEL := hatch_build.py $(wildcard src/tidelog/wire/*/kernel.p* src/tidelog/wire/record_walk*.p*)
$(STAMPS)/runtime: requirements/build.txt requirements/runtime.txt pyproject.toml $(KERNEL) | $(BIN)/python
	@echo "Installing what Tidelog needs to run into $(VENV)"
	@$(PIP) install --require-hashes --requirement requirements/build.txt --requirement requirements/runtime.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/dev: requirements/dev.txt $(STAMPS)/runtime
	@echo "Installing what development needs into $(VENV)"
	@$(PIP) install --require-hashes --requirement requirements/dev.txt
	@touch $@

$(STAMPS)/bench: requirements/bench.txt $(STAMPS)/dev
	@echo "Installing what the benchmark needs into $(VENV)"
	@$(PIP) install --require-hashes --requirement requirements/bench.txt
	@touch $@

# Beside the runtime alone for `make run`, and once more after the development environment, whose lock has to have the last word.
$(STAMPS)/spark-runtime: requirements/spark.txt $(STAMPS)/runtime
	@echo "Installing Spark into $(VENV)"
	@$(PIP) install --require-hashes --requirement requirements/spark.txt
	@touch $@

$(STAMPS)/spark: requirements/spark-connect.txt $(STAMPS)/dev $(STAMPS)/spark-runtime
	@$(PIP) install --require-hashes --requirement requirements/spark.txt --requirement requirements/spark-connect.txt
	@touch $@
