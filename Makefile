# AttnScope's commands. `make help` lists them.
# Everything runs in a virtual environment of its own; nothing else on the machine is changed.

VENV ?= .venv
# The first of these that is 3.11 to 3.14, runs, and can make a virtual environment. To choose: make run PYTHON=python3.13
PYTHON ?= python3.12 python3.11 python3.13 python3.14 python3
GRADIO_SERVER_NAME ?= 127.0.0.1
GRADIO_SERVER_PORT ?= 7860
export GRADIO_SERVER_NAME GRADIO_SERVER_PORT
# The browser tests' Chromium. A shim that is there but does not run is no browser.
CHROMIUM ?= $(shell for name in chromium chromium-browser google-chrome; do \
	if "$$name" --version >/dev/null 2>&1; then command -v "$$name"; break; fi; done)

PY := $(VENV)/bin/python
# A stamp is named by the content it stands for, so that a fresh clone can share a finished environment.
RUN_STAMP := $(VENV)/.run-$(shell cat requirements.txt | cksum | cut -d ' ' -f 1)
DEV_STAMP := $(VENV)/.dev-$(shell cat requirements.txt requirements-dev.txt | cksum | cut -d ' ' -f 1)

# Exits 0 for a Python that AttnScope can use; ensurepip is what Debian leaves out without python3-venv.
SUITABLE := import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))
FIND_PYTHON = for candidate in $(PYTHON); do \
		if "$$candidate" -c "$(SUITABLE)" >/dev/null 2>&1; then python=$$candidate; break; fi; \
	done; \
	if [ -z "$${python:-}" ]; then \
		echo "No usable Python found. AttnScope needs Python 3.11 to 3.14 with venv and pip; tried: $(PYTHON)." >&2; \
		echo "Install one (on Debian and Ubuntu: apt-get install python3 python3-venv) or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python" >&2; \
		exit 1; \
	fi
MAKE_VENV = if [ -x "$(PY)" ]; then \
		"$(PY)" -c "$(SUITABLE)" || { \
			echo "$(VENV) holds a Python that does not run or is not 3.11 to 3.14. Remove that folder and run make again." >&2; \
			exit 1; }; \
	else \
		$(FIND_PYTHON); \
		echo "Making $(VENV) with $$("$$python" --version)"; \
		"$$python" -m venv "$(VENV)"; \
	fi

.DEFAULT_GOAL := help
.PHONY: help run test check format unit browser gpu benchmarks fixtures screenshot python install install-dev clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

run: $(RUN_STAMP) ## Serve the page on 127.0.0.1:7860
	"$(PY)" app.py

test: $(DEV_STAMP) ## Run every test this machine can run; the rest are skipped and say why
	@if [ -z "$(CHROMIUM)" ]; then \
		echo "Chromium was not found, so the browser tests are skipped. Install it (on Debian: apt-get install chromium) or name it: make test CHROMIUM=/path/to/chromium"; \
	fi
	CHROMIUM="$(CHROMIUM)" "$(PY)" -m pytest

check: $(DEV_STAMP) ## Formatter, linter, type checker and unit tests
	"$(PY)" -m ruff format --check .
	"$(PY)" -m ruff check .
	"$(PY)" -m mypy
	"$(PY)" -m pytest tests/unit

format: $(DEV_STAMP) ## Format the code and fix what the linter can fix
	"$(PY)" -m ruff format .
	"$(PY)" -m ruff check --fix .

unit: $(DEV_STAMP) ## Unit tests alone
	"$(PY)" -m pytest tests/unit

browser: $(DEV_STAMP) ## Browser tests alone
	CHROMIUM="$(CHROMIUM)" "$(PY)" -m pytest tests/browser

gpu: $(DEV_STAMP) ## GPU tests, and how long a run holds the GPU; needs an NVIDIA GPU
	"$(PY)" -m pytest tests/gpu -m gpu
	"$(PY)" -m tests.benchmarks.gpu_hold

benchmarks: $(DEV_STAMP) ## How long a trace takes to read, and 20,000 damaged ones; needs no GPU
	"$(PY)" -m tests.benchmarks.trace_reading
	"$(PY)" -m tests.benchmarks.trace_fuzz

fixtures: $(DEV_STAMP) ## Record the shipped runs again; needs an NVIDIA GPU
	"$(PY)" -m recordings.make_recordings

screenshot: $(DEV_STAMP) ## Take the README's picture
	CHROMIUM="$(CHROMIUM)" "$(PY)" -m docs.take_screenshot

python: ## Print the Python that a new environment would use
	@$(FIND_PYTHON); "$$python" -c 'import sys; print(sys.executable)'

install: $(RUN_STAMP) ## Only make the environment for run

install-dev: $(DEV_STAMP) ## Only make the environment for the tests

clean: ## Remove the caches of tests and tools; the environment stays
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis build

$(RUN_STAMP): | requirements.txt
	@$(MAKE_VENV)
	"$(PY)" -m pip install -r requirements.txt
	@touch "$@"

$(DEV_STAMP): | requirements.txt requirements-dev.txt
	@$(MAKE_VENV)
	"$(PY)" -m pip install -r requirements-dev.txt
	@touch "$@"
