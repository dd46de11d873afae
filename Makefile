# `make up` serves on http://127.0.0.1:8750, `make test` runs the tests, `make accuracy` compares plans with what engines
# printed, `make simulation` users at a risk with what becomes of them. All install what they need: Python 3.11 or newer
# with its venv module, and make, are all that has to be there; and Java 17 for `make warehouse` and `make spark`, which
# read logs by Spark as well.
#
#   PYTHON=python3.13   another Python than python3
#   ARGS="--port 9000"  more arguments: of `headcount serve` for `make up`, of pytest for `make test`

PYTHON ?= python3
ARGS ?=

# `make test` has an environment of its own: it never changes the one that a `make up` in another terminal serves from,
# and that one shows that the service runs without the packages of the tests.
venv = PYTHON='$(PYTHON)' scripts/venv.sh
test_python = .venv-test/bin/python

.PHONY: up test accuracy simulation warehouse spark check lint types contracts check-migrations check-openapi openapi
.PHONY: format locks clean test-environment spark-environment openapi-linters

# exec: the server takes this shell's place, so that Ctrl-C reaches it and make waits until it has stopped.
up:
	@$(venv) .venv requirements.lock && exec .venv/bin/headcount serve $(ARGS)

test: test-environment openapi-linters
	@$(test_python) -m pytest $(ARGS)

# Users and tokens against public start-up logs, by cache kind, engine and TP: what fits, what misses, what is left out.
accuracy: test-environment
	@$(test_python) -m tests.accuracy.report

# Users at a risk of 1 %, run: promised and realised overflow of every published trace. Takes some minutes.
simulation: test-environment
	@$(test_python) -m tests.simulation.report

# Request logs by the million on DuckDB, Spark and NumPy: the same bins, and the memory that it takes. Some minutes;
# ROWS=1000000 for fewer. The tests have a short form of it.
warehouse: test-environment spark-environment
	@$(test_python) -m tests.warehouse.large

# The tests of what reads request logs, those with Spark too, which `make test` skips where it isn't installed.
spark: test-environment spark-environment
	@$(test_python) -m pytest tests/warehouse $(ARGS)

check: lint types contracts check-migrations check-openapi

lint: test-environment
	@$(test_python) -m ruff check .
	@$(test_python) -m ruff format --check .

types: test-environment
	@$(test_python) -m mypy

contracts: test-environment
	@.venv-test/bin/lint-imports

# Upgrades an empty throw-away database by the migrations and asks Alembic whether the tables in the code differ.
check-migrations: test-environment
	@$(test_python) -m pytest -q tests/deployment/test_migration_drift.py

check-openapi: test-environment
	@$(test_python) -m service.api.openapi >.venv-test/openapi.json
	@diff -u openapi/openapi.json .venv-test/openapi.json || \
		{ echo "openapi/openapi.json is not what the code describes: run make openapi" >&2; exit 1; }

# By way of a second file: a failure must not leave half a document.
openapi: test-environment
	@$(test_python) -m service.api.openapi >openapi/openapi.json.new
	@mv openapi/openapi.json.new openapi/openapi.json

format: test-environment
	@$(test_python) -m ruff check --fix .
	@$(test_python) -m ruff format .

# Pins the newest releases that pyproject.toml allows, for every Python from 3.11 on and every system at once. One
# release of each package on all Pythons (fewest): the same NumPy, the same answer. The second lock keeps the pins of the
# first. UV_NO_CONFIG: a package index or a path of the machine it runs on must not get into the locks.
compile = UV_NO_CONFIG=1 .venv-locks/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	--fork-strategy fewest --generate-hashes --no-header pyproject.toml --group build
locks:
	@$(PYTHON) -m venv .venv-locks
	@.venv-locks/bin/python -m pip install -qq --disable-pip-version-check 'uv>=0.9'
	@$(compile) --output-file requirements.lock
	@$(compile) --extra warehouse --constraint requirements.lock --output-file requirements-warehouse.lock
	@$(compile) --extra spark --group build-spark --constraint requirements.lock --output-file requirements-spark.lock
	@$(compile) --extra warehouse --group test --constraint requirements-warehouse.lock \
		--output-file requirements-test.lock

# Of `headcount workload from --engine spark`: 1.1 GB, so only where it is asked for. `make test` uses it where it is.
spark-environment:
	@$(venv) .venv-spark requirements-spark.lock

test-environment:
	@$(venv) .venv-test requirements-test.lock

# The linters of the OpenAPI document are Node programs. Without npm the test that runs them says so.
openapi-linters:
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory tests/openapi/node_modules/.installed; fi

tests/openapi/node_modules/.installed: tests/openapi/package-lock.json
	@echo "Installing the linters of the OpenAPI document into tests/openapi/node_modules" >&2
	@cd tests/openapi && npm ci --ignore-scripts --no-audit --no-fund --silent
	@touch $@

# The data of `make up` stays.
clean:
	rm -rf .venv .venv-test .venv-spark .venv-locks tests/openapi/node_modules dist .mypy_cache .pytest_cache .ruff_cache \
		.import_linter_cache .hypothesis
