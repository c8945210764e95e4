# Two commands for a fresh clone: `make demo` shows the product, `make test` checks every promise.
# Both create .venv on first use; a second call installs nothing.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test slow lint docs release portable versions reproduce results bench explore torture malformed mutants clean

help:            ## list the commands
	@grep -E '^[a-z]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "pintgn needs Python 3.11 or newer; this is $$($(PYTHON) --version). Set PYTHON=/path/to/python3.11."; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(INSTALLED)  ## simulate a small world and show what pintgn makes of it
	@$(BIN)/pintgn demo

test: $(INSTALLED)  ## style checks and the quick tests, one or more for each promise (eight minutes on two cores)
	@$(BIN)/ruff check .
	@$(BIN)/python -m pytest -n 3 --dist worksteal --durations 15

slow: $(INSTALLED)  ## the other tests: more cases, larger logs, more kills; CI runs both
	@$(BIN)/python -m pytest -n 3 --dist worksteal --durations 15 -m slow

lint: $(INSTALLED)  ## style and types
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

docs: $(INSTALLED)  ## the documentation, in site/index.html; a warning is an error
	@$(BIN)/python tools/cli_page.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

release: lint docs  ## what CI proves beside the tests: style, types, site, the wheel in an empty environment, other arithmetic
	@$(BIN)/python tools/release.py
	@$(BIN)/python tools/portable.py plain-1 generic-2 -m 'learning and not slow'

portable: $(INSTALLED)  ## the quick tests as other machines would run them (five times; half an hour)
	@$(BIN)/python tools/portable.py

reproduce: $(INSTALLED)  ## the paper's tables again; ARGS="--data-folder … --cap 60" and stop at any time
	@$(BIN)/python -m paper all --page runs/paper/results.md $(ARGS)

results: $(INSTALLED)  ## docs/results.md from the rows in results/paper.jsonl, running nothing
	@$(BIN)/python -m paper all --show --results results/paper.jsonl --page docs/results.md

bench: $(INSTALLED) ## every benchmark, each a ratio measured side by side
	@for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

explore: $(INSTALLED) ## the property tests with new random cases; repeat as often as you like
	@HYPOTHESIS_PROFILE=explore $(BIN)/python -m pytest -n 2 -m hypothesis

torture: $(INSTALLED) ## kill, damage, fill and confuse a service many times (takes long); ARGS="--kills 50"
	@$(BIN)/python -m tests.serve.torture $(ARGS)

malformed: $(INSTALLED) ## 2,000 malformed files through the commands that read them (half an hour); ARGS="100 --seed 1"
	@$(BIN)/python -m tests.malformed $(ARGS)

versions:        ## every test with the lowest versions that pyproject.toml allows, and with the newest there are
	@$(PYTHON) tools/versions.py $(ARGS)

mutants: $(INSTALLED) ## change one line at a time: would the tests notice? ARGS="--count 10"; hours, stop at any time
	@$(BIN)/python tools/mutants.py $(ARGS)

clean:           ## remove the environments and caches
	rm -rf .venv .venv-lowest .venv-newest .pytest_cache .ruff_cache .mypy_cache .hypothesis
