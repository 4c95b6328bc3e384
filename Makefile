# All commands for people. Needs Python 3.11 or newer; everything else is installed into .venv.
PYTHON ?= python3
BIN := .venv/bin

# What every process of the tests would compile again costs a quarter of them.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-all containers test-pythons test-lowest check audit sbom release site pictures mutants faults lock bench kafka dashboards clean

help:
	@echo "make demo        start the monitor on recorded traffic and watch it raise an alert"
	@echo "make test        run the tests that need nothing but Python: about three minutes on two cores"
	@echo "make test-all    run all tests, with Kafka, Prometheus, a browser and others; installs what is missing"
	@echo "make containers  build the image, run it and the Compose stack as containers; installs podman and buildah"
	@echo "make test-pythons  make test on Python 3.11, 3.12 and 3.13, as far as they are here"
	@echo "make test-lowest   make test with the lowest dependencies that pyproject.toml allows"
	@echo "make check       format, lint, types, import order"
	@echo "make audit       look up the locked dependencies in the database of known vulnerabilities"
	@echo "make sbom        write dist/rag-monitor.cdx.json, the bill of materials (CycloneDX)"
	@echo "make release     build wheel, source archive, SBOM, notes and checksums twice, and try them; REHEARSE=1 before the day"
	@echo "make mutants     change the code in drawn places and see whether a test fails"
	@echo "make site        build the pages of docs/ as a site with search, into build/site; every link is checked"
	@echo "make pictures    make the pictures of the docs from the running product (Chromium; Prometheus and npm for Grafana's)"
	@echo "make faults      run the fault tests and print what they reached"
	@echo "make bench       measure the cost of receiving"
	@echo "make kafka       start an Apache Kafka with demo topics (needs java and mvn)"
	@echo "make dashboards  regenerate the Grafana dashboards and the generated files in deploy/"
	@echo "make lock        regenerate the lock files"

demo: .venv/.ready
	@$(BIN)/rag-monitor demo

# Files that run at once: some tests wait half of their time.
LANES ?= $(shell n=$$((2 * $$(getconf _NPROCESSORS_ONLN))); echo $$((n > 8 ? 8 : n)))

test: .venv/.ready-tests
	@$(BIN)/pytest --quick --numprocesses $(LANES) --dist loadfile --no-loadscope-reorder --durations 20 tests

test-all: .venv/.ready-tests
	@tests/all.sh

containers: .venv/.ready-tests
	@tests/containers.sh

test-pythons: .venv/.ready-tests
	@tests/pythons.sh 3.11 3.12 3.13

test-lowest: .venv/.ready-tests
	@tests/pythons.sh lowest

check: .venv/.ready-tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

audit: .venv-audit/.ready
	@.venv-audit/bin/python -m tests.supply_chain audit

sbom: .venv-audit/.ready
	@.venv-audit/bin/python -m tests.supply_chain sbom dist/rag-monitor.cdx.json

release: .venv-audit/.ready
	@$(BIN)/python -m tests.release $(if $(REHEARSE),--rehearse)

mutants: .venv-mutants/.ready
	@.venv-mutants/bin/python -m tests.mutants

site: .venv-docs/.ready
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict -f docs/site/mkdocs.yml
	@echo "open build/site/index.html, or: .venv-docs/bin/python -m http.server -d build/site 8000 (search needs a server)"

pictures: .venv/.ready-tests
	@$(BIN)/python -m tests.support.pictures

faults: .venv/.ready-tests
	@$(BIN)/python -m tests.faults

bench: .venv/.ready-tests
	$(BIN)/python -m benchmarks.ingest

kafka: .venv/.ready-tests
	@$(BIN)/python -m tests.support.demo_kafka

dashboards: .venv/.ready-tests
	$(BIN)/python -m grafana.generate
	$(BIN)/python -m deploy.generate

.venv/.ready: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12 ...")'
	@echo "Creating the environment in .venv (once) ..."
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

.venv/.ready-tests: .venv/.ready tests/requirements.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r tests/requirements.lock
	@touch $@

# The tools of the audit and of a release have no place beside what they look at.
.venv-audit/.ready: .venv/.ready-tests tests/audit.txt
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-audit
	@$(BIN)/uv pip install --quiet --python .venv-audit/bin/python --require-hashes -r tests/audit.txt
	@touch $@

# cosmic-ray makes mutants; the tests themselves run in .venv.
.venv-mutants/.ready: .venv/.ready-tests tests/mutants.txt
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-mutants
	@$(BIN)/uv pip install --quiet --python .venv-mutants/bin/python --require-hashes -r tests/mutants.txt
	@touch $@

.venv-docs/.ready: .venv/.ready-tests docs/site/requirements.txt
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-docs
	@$(BIN)/uv pip install --quiet --python .venv-docs/bin/python --require-hashes -r docs/site/requirements.txt
	@touch $@

UV_LOCK := $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header -q

lock: .venv/.ready-tests
	$(UV_LOCK) pyproject.toml --extra notify --group build -o requirements.lock
	$(UV_LOCK) --group test -c requirements.lock -o tests/requirements.lock
	$(UV_LOCK) --group docs -o docs/site/requirements.txt
	$(UV_LOCK) tests/audit.in -o tests/audit.txt
	$(UV_LOCK) tests/mutants.in -o tests/mutants.txt
	$(UV_LOCK) tests/backends/phoenix.in -o tests/backends/phoenix.txt
	$(UV_LOCK) tests/backends/mlflow.in -o tests/backends/mlflow.txt

clean:
	rm -rf .venv .venv-* .mypy_cache .ruff_cache .hypothesis
