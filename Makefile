# Everything sets itself up: no virtual environment, server or account is needed first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DATA ?= data
HOST ?= 127.0.0.1
PORT ?= 8000
WORKERS ?= 2

.PHONY: setup serve test check format lock reference bench faults sbom audit clean

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 12) and "Beamwright needs Python 3.12 or later; set PYTHON=/path/to/python3")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: requirements.lock pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -c 'import pathlib, sysconfig; pathlib.Path(sysconfig.get_path("purelib"), "beamwright.pth").write_text(str(pathlib.Path("src").resolve()) + "\n")'
	@printf '#!/bin/sh\nexec "%s" -m beamwright "$$@"\n' "$(abspath $(BIN)/python)" > $(BIN)/beamwright && chmod +x $(BIN)/beamwright
	@touch $@

$(VENV)/.development: requirements-dev.lock $(VENV)/.runtime
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

setup: $(VENV)/.development  ## Install everything into .venv

serve: $(VENV)/.runtime  ## Serve on http://127.0.0.1:8000 with the embedded database
	$(BIN)/beamwright serve --data $(DATA) --host $(HOST) --port $(PORT)

test: $(VENV)/.development  ## Run all tests against the embedded database
	$(BIN)/python -m pytest -q -n $(WORKERS)

check: $(VENV)/.development  ## Format, lint, types and import rules
	$(BIN)/ruff format --check src tests benchmarks supply_chain
	$(BIN)/ruff check src tests benchmarks supply_chain
	$(BIN)/pyright
	$(BIN)/lint-imports

format: $(VENV)/.development  ## Format and mend what can be mended
	$(BIN)/ruff format src tests benchmarks supply_chain
	$(BIN)/ruff check --fix src tests benchmarks supply_chain

reference: $(VENV)/.development  ## Write docs/reference from the registry
	$(BIN)/python -m beamwright reference docs/reference

bench: $(VENV)/.development  ## Measure, both sides in one run
	$(BIN)/python -m benchmarks

faults: $(VENV)/.development  ## Long form of tests/faults (ONLY=kill for one); writes docs/explanation/reliability.md
	FAULTS=long $(BIN)/python -m pytest -q -ra tests/faults $(if $(ONLY),-k $(ONLY)); result=$$?; \
	$(BIN)/python -m tests.faults.report; exit $$result

sbom: $(VENV)/.development  ## Write docs/reference/dependencies.md and the bill of materials from the lock
	$(BIN)/python -m supply_chain

$(VENV)-audit/bin/pip-audit:
	$(PYTHON) -m venv $(VENV)-audit
	$(VENV)-audit/bin/pip install --quiet --disable-pip-version-check pip-audit

audit: $(VENV)-audit/bin/pip-audit  ## Ask the registry for known vulnerabilities of what the lock pins
	$(VENV)-audit/bin/pip-audit --strict --disable-pip --require-hashes -r requirements.lock

lock: $(VENV)/.development  ## Pin what pyproject.toml asks for; names no host
	$(BIN)/uv pip compile -q --universal --python-version 3.12 --generate-hashes --no-emit-index-url --no-header pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile -q --universal --python-version 3.12 --generate-hashes --no-emit-index-url --no-header pyproject.toml --group dev -o requirements-dev.lock

clean:  ## Remove the virtual environment
	rm -rf $(VENV) $(VENV)-audit $(VENV)-peers

PEERS := .venv-peers

.PHONY: bench-curves bench-peers lock-peers

$(PEERS)/.installed: requirements-peers.lock | $(BIN)/python
	$(BIN)/python -m venv --clear $(PEERS)
	$(PEERS)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-peers.lock
	@touch $@

bench-curves: $(VENV)/.development  ## Measure the scaling curves and draw them into docs/explanation/performance.md
	$(BIN)/python -m benchmarks.curves

bench-peers: $(VENV)/.development $(PEERS)/.installed  ## Do the same work through another library, side by side
	$(BIN)/python -m benchmarks.peers --python $(PEERS)/bin/python

lock-peers: $(VENV)/.development  ## Pin what is measured beside the service; names no host
	$(BIN)/uv pip compile -q --universal --python-version 3.12 --generate-hashes --no-emit-index-url --no-header --group peers -o requirements-peers.lock
