# Every verb sets up what it needs. `make help` lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
OTHERS := 3.12 3.13 3.14

# Some environments keep Python from writing bytecode. The tests start a thousand processes, each of
# which would compile the package anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo test contract browser mutants soak check oldest bench comparison docs dist format clean servers

help:
	@echo "make demo    see the main job: processes compete for one lock, one is killed"
	@echo "make test    everything: lint, types, all tests"
	@echo "make soak    SEEDS=10000 random runs of the simulator, then real servers under faults for MINUTES=10"
	@echo "make contract  all tests in full: every scenario on every engine, sync and async; about half an hour"
	@echo "make browser the page of \`holdfast ui\` in a real browser, Debian's Chromium"
	@echo "make mutants plants bugs, and sees whether the tests find them"
	@echo "make check   lint, types and the fast tests, also on $(OTHERS) where installed"
	@echo "make oldest  the fast tests with the oldest libraries that pyproject.toml allows"
	@echo "make bench   measure, against peers and raw floors; writes benchmarks/REPORT.md and a line of series.jsonl"
	@echo "make comparison  try what other locks for Python do; prints the table of the README"
	@echo "make dist    build the wheel and the source archive, and try them in a bare environment"
	@echo "make docs    build the documentation into site/, and check that every example in it works"
	@echo "make format  format the code"
	@echo "make clean   remove what make made"

# The package alone is enough, and takes seconds to install.
DEMO := .venv-demo
demo: $(DEMO)/.installed
	@$(DEMO)/bin/holdfast lab demo

$(DEMO)/.installed: pyproject.toml scripts/setup
	scripts/setup "$(PYTHON)" "$(DEMO)"
	@touch $@

# Most tests wait for processes and timers, so more of them at once than there are cores. Those that
# share servers go to the same worker: `group` in tests/conftest.py.
AT_ONCE := -n 8
COMPILED := $(VENV)/.compiled

# Side by side: most tests wait, and leave the time of the cores to lint and types.
test: $(STAMP) servers
	@$(MAKE) --no-print-directory --jobs 4 style mypy pyright tests

.PHONY: tests
tests: $(COMPILED)
	$(BIN)/python -m pytest $(AT_ONCE)

# Once, or each worker of pytest would compile all tests; and again when one has changed.
$(COMPILED): $(STAMP) $(shell find tests -name '*.py')
	@said=$$($(BIN)/python -m pytest --collect-only -qq) || { echo "$$said"; exit 1; }
	@touch $@

MINUTES := 10
SEEDS := 10000
soak: $(STAMP) servers
	$(BIN)/holdfast lab simulate --random --seeds $(SEEDS)
	$(BIN)/holdfast lab simulate --random --seeds $(SEEDS) --shared
	for nodes in 3 5; do \
		$(BIN)/holdfast lab simulate --random --seeds $$(($(SEEDS) / 4)) --shared --nodes $$nodes || exit 1; done
	for engine in etcd zookeeper sql; do \
		$(BIN)/holdfast lab simulate --random --seeds $$(($(SEEDS) / 10)) --shared --engine $$engine || exit 1; done
	$(BIN)/python -m tests.equipment.soak --seconds $$(($(MINUTES) * 60))

mutants: $(STAMP) servers
	$(BIN)/python -m tests.mutants

contract: $(STAMP) servers
	$(BIN)/python -m pytest $(AT_ONCE) --full

browser: $(STAMP) servers
	@scripts/setup-servers --browser
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group browser
	HOLDFAST_BROWSER=1 $(BIN)/python -m pytest tests/ui/browser

check: $(STAMP) servers lint
	$(BIN)/python -m pytest $(AT_ONCE) -m "not slow"
	@for version in $(OTHERS); do scripts/check-on $$version || exit 1; done

oldest: $(STAMP) servers
	scripts/check-oldest "$(PYTHON)"

.PHONY: lint style mypy pyright
lint: $(STAMP)
	@$(MAKE) --no-print-directory --jobs 3 style mypy pyright

style: $(STAMP)
	$(BIN)/ruff format --check --quiet
	$(BIN)/ruff check --quiet

mypy: $(STAMP)
	$(BIN)/mypy

pyright: $(STAMP)
	$(BIN)/basedpyright

bench: $(STAMP) servers
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group bench
	$(BIN)/python -m benchmarks

comparison: $(STAMP) servers
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group bench
	$(BIN)/python -m benchmarks.comparison

docs: $(STAMP) servers
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict  # with --quiet, warnings would not count
	$(BIN)/python -m pytest --full tests/test_docs.py

dist: $(STAMP)  # which installs venv where Debian left it out
	scripts/dist "$(PYTHON)"

format: $(STAMP)
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

$(STAMP): pyproject.toml scripts/setup
	scripts/setup "$(PYTHON)" "$(VENV)" dev
	@touch $@

# Asks each time, which takes no time when they are there. `make demo` needs none.
servers: $(STAMP)
	@scripts/setup-servers
	@$(BIN)/python -c "import MySQLdb" 2>/dev/null || \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check "mysqlclient>=2.2"

clean:
	rm -rf $(VENV) .venv-* build dist site .mypy_cache .ruff_cache .pytest_cache
