# make demo    profile a real training run and show where its time went
# make test    run the quick tests, in minutes
# make test-all    run all tests but those that need a GPU
# make oldest   run tests with the oldest packages that taupy works with (PYTHON=python3.11)
# make check   lint, format, types, import floors, docs, scripts of pages
# make javascript   lint the scripts of pages with ESLint, which npm fetches
# make browsers   test pages in Chromium and Firefox (BROWSER=firefox: in one; PICTURES=docs/images: updates those of the docs)
# make sanitize   run the tests of C code under sanitizers (SANITIZE=--share: a few minutes)
# make random   run random programs whose calls are counted independently (PROGRAMS=3000 SEED=N)
# make fuzz   change files of all formats, including taupy's own, at random (FUZZ_SECONDS=1800 SEED=N)
# make faults   make every n-th write, mmap, open, fork ... of taupy fail
# make soak   runs, kills, recoveries and full disks for an hour (SOAK_SECONDS=600 SEED=N)
# make as-root   attacks by a second user: as root, or in a user namespace that has several users
# make foreign   run CPython's own tests with and without taupy (FOREIGN=--share: some minutes)
# make observer   check that 30 trainings do not notice taupy, and that of 20 pairs of ranks the slow
#                 one is named with the reason (OBSERVER=--share: a few)
# make pycuda   build PyCUDA without a GPU, and profile its example beside the played driver
# make cupti-python   fetch it, and compare what it records of the played driver with our own collector
# make wheel   build a wheel for each Python, and test it without a compiler (wheel-of-python: one)
# make bench   measure taupy's own cost
# make beside-release   compare reading commands with those of the last release, by CPU time
# make gpu-wheels   fetch wheels into .whl for a GPU machine without network
# make gpu-check    on a machine with a GPU: its tests, compared with torch.profiler
# make gpu-record GPU_RECORD=FOLDER   on a GPU: record CUPTI's data of a run, for tests without one
# make clean   remove what the other targets created
#
# PYTHON=python3.12 chooses the interpreter. The demo runs where taupy is installed: in PYTHON's own
# environment, or else in .venv, which it makes; tests use .venv-test-3.X, an editable install with
# the core built in place.

PYTHON ?= python3
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
DEMO := .venv
TEST := .venv-test-$(VERSION)
GPU := .venv-gpu
OBSERVER_VENV := .venv-observer-$(VERSION)
TORCH := torch==2.13.0+cpu
GPU_INSTALL = $(PYTHON) -m pip --python $(GPU)/bin/python install --disable-pip-version-check -q

PIP_INSTALL = -m pip install --disable-pip-version-check -q
BUILD_FILES := pyproject.toml setup.py taupy_boot.pth $(wildcard taupy/_native/*.c taupy/_native/*.h)
PACKAGE_FILES := $(BUILD_FILES) $(shell find taupy -name '*.py' -o -name '*.pyi')
# Some tests of these files read every source, and are therefore left out of `make test`.
SOURCE_TESTS := $(addprefix tests/unit/,test_circles.py test_escaping.py test_frames.py \
  profiledb/test_only_here.py)
DOCS_TESTS := tests/docs $(wildcard tests/unit/*/test_docs.py)

# Tests start thousands of interpreters, and compiling what they import takes longer than most run.
unexport PYTHONDONTWRITEBYTECODE

.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: demo test-environment test test-all oldest check lint types floors docs javascript browsers sanitize random fuzz faults soak as-root foreign observer \
  bench beside-release pycuda cupti-python wheel wheel-of-python \
  gpu-environment gpu-wheels gpu-check gpu-record clean python

# -I: as it is installed, not as it lies here. The command, since a program gets the options of
# the interpreter that runs taupy.
SCRIPTS := $(shell $(PYTHON) -I -c 'import taupy, sysconfig; print(sysconfig.get_path("scripts"))' 2>/dev/null)
TAUPY := $(or $(SCRIPTS),$(DEMO)/bin)/taupy

demo: $(if $(SCRIPTS),python,$(DEMO)/.installed-$(VERSION))
	$(TAUPY) run examples/mnist.py
	$(TAUPY) pprof --fold-libraries --limit 16

test-environment: $(TEST)/.installed

test: test-environment
	$(TEST)/bin/python -m pytest -q -m "not slow and not gpu" -n 3 --durations=10

# SHARE=1/5 leaves four fifths of the tests that are slow, or equal on all Pythons, to other runs.
test-all: test-environment
	$(TEST)/bin/python -m pytest -q -m "not gpu" -n 2 --durations=25 \
	  $(if $(SHARE),--share $(SHARE)) $(if $(SLOW_SHARE),--slow-share $(SLOW_SHARE))

# The packages of the tests stand behind; those of them that need newer ones are not imported.
OLDEST := .venv-oldest-$(VERSION)
OLDEST_TESTS := $(addprefix tests/unit/,profiledb/test_api.py profiledb/test_bulk.py \
  profiledb/test_columns.py profiledb/test_commands.py comparison/test_notebook.py record \
  pprof/test_terminal.py ranks/test_matching.py test_bar.py)

oldest: test-environment
	$(PYTHON) -m venv --clear $(OLDEST)
	$(OLDEST)/bin/python $(PIP_INSTALL) --only-binary :all: $$($(PYTHON) -c 'import re, tomllib; \
	  print(*(re.sub(">=([0-9.]+).*", r"==\1", each) for each in \
	  tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"]))')
	@echo 'import site; site.addsitedir("$(CURDIR)/$(TEST)/lib/python$(VERSION)/site-packages")' \
	  > $(OLDEST)/lib/python$(VERSION)/site-packages/tests.pth
	$(OLDEST)/bin/python -m pytest -q -n 2 -m "not slow and not gpu" $(OLDEST_TESTS)
	$(OLDEST)/bin/python $(PIP_INSTALL) --no-deps --upgrade "sqlite-utils>=4.2"
	$(OLDEST)/bin/python -m pytest -q -n 2 tests/unit/profiledb/test_commands.py

check: lint types floors docs javascript  # `make -k check` goes on after a failure

lint: $(TEST)/.installed-check
	$(TEST)/bin/ruff check
	$(TEST)/bin/ruff format --check

types: $(TEST)/.installed-check
	$(TEST)/bin/mypy --strict taupy

floors: $(TEST)/.installed-check
	$(TEST)/bin/lint-imports
	$(TEST)/bin/python -m pytest -q $(SOURCE_TESTS)

docs: $(TEST)/.installed-check
	$(TEST)/bin/python -m pytest -q $(DOCS_TESTS)

ESLINT := build/eslint/node_modules/.bin/eslint

javascript:
	@if ! command -v npm >/dev/null; then echo "javascript: skipped, since npm is not installed"; \
	elif test -x $(ESLINT) || npm install --silent --no-audit --no-fund --prefix build/eslint eslint@9.39.5; \
	then $(ESLINT) --max-warnings 0 taupy tests; \
	else echo "javascript: skipped, since ESLint cannot be fetched here"; fi

browsers: $(TEST)/.installed-browsers
	$(if $(PICTURES),TAUPY_SCREENSHOTS=$(PICTURES)) \
	  $(TEST)/bin/python -m pytest -q tests/integration/test_page_in_browsers.py $(if $(BROWSER),-k $(BROWSER)) \
	  $(if $(SLOW_SHARE),--slow-share $(SLOW_SHARE))

sanitize: test-environment
	$(TEST)/bin/python scripts/sanitize.py $(SANITIZE)

PROGRAMS ?= 3000
SEED ?= $(shell date +%s)

random: test-environment
	TAUPY_RANDOM_PROGRAMS=$(PROGRAMS) TAUPY_RANDOM_SEED=$(SEED) \
	  $(TEST)/bin/python -m pytest -q -n 2 tests/random_programs

# Each run continues after the last seed, which is kept in build/fuzz; files that caused failures
# are kept in build/fuzz/SEED. A seed has at most a million rounds.
FUZZ_SECONDS ?= 1800

fuzz: test-environment
	mkdir -p build/fuzz
	seed=$(if $(filter file,$(origin SEED)),$$(($$(cat build/fuzz/seed 2>/dev/null || echo 0) + 1000000)),$(SEED)); \
	echo $$seed > build/fuzz/seed; \
	mkdir -p build/fuzz/$$seed; \
	for what in state formats gpu_formats; do \
	  $(TEST)/bin/python -m tests.fuzz.$$what --seconds $(FUZZ_SECONDS) --seed $$seed \
	    --keep build/fuzz/$$seed || exit 1; done

# Each kind of failure is tried for every n up to this.
FAULTS ?= 12

faults: test-environment
	TAUPY_FAULTS=$(FAULTS) $(TEST)/bin/python -m pytest -q -n 2 tests/faults

# `make test-all` runs them too if it runs as root.
AS_ROOT := $(if $(filter-out 0,$(shell id -u)),unshare --user --map-root-user --map-auto)

as-root: test-environment
	@if $(AS_ROOT) true 2>/dev/null; then \
	  $(AS_ROOT) $(TEST)/bin/python -m pytest -q tests/attacks/test_as_root.py tests/attacks/test_rights.py; \
	else echo "as-root: skipped, since there is neither root nor a user namespace with several users"; fi

SOAK_SECONDS ?= 3600

soak: test-environment
	$(TEST)/bin/python -m tests.soak --seconds $(SOAK_SECONDS) --seed $(SEED)

# With the tests' packages and PyTorch, whose CPU build is small.
observer: test-environment
	@test -x $(OBSERVER_VENV)/bin/python || $(PYTHON) -m venv $(OBSERVER_VENV)
	@echo 'import site; site.addsitedir("$(CURDIR)/$(TEST)/lib/python$(VERSION)/site-packages")' \
	  > $(OBSERVER_VENV)/lib/python$(VERSION)/site-packages/tests.pth
	@if $(OBSERVER_VENV)/bin/python $(PIP_INSTALL) $(TORCH) || \
	  $(OBSERVER_VENV)/bin/python $(PIP_INSTALL) $(TORCH) \
	    --extra-index-url https://download.pytorch.org/whl/cpu; then \
	  $(OBSERVER_VENV)/bin/python -m tests.observer.compare $(OBSERVER) && \
	  $(OBSERVER_VENV)/bin/python -m tests.stragglers.judge $(filter --share,$(OBSERVER)) && \
	  $(OBSERVER_VENV)/bin/python -m pytest -q tests/stragglers/test_odd_ranks.py; \
	else echo "observer: skipped, since $(TORCH) cannot be installed here"; fi

foreign: test-environment
	$(TEST)/bin/python scripts/foreign.py $(FOREIGN)

bench: $(TEST)/.installed-bench
	for what in overhead bias training startup memory store counters ceilings compare formats gpu_records; do \
	  $(TEST)/bin/python benchmarks/$$what.py || exit 1; done

# Before there is a release, a commit. An old version reads without its compiled core.
RELEASE = $(shell git describe --tags --abbrev=0 2>/dev/null || echo 8cd190dfbcb592ea004844275c52f589b2a8acad)

beside-release: test-environment
	@if git cat-file -e "$(RELEASE)^{commit}" 2>/dev/null; then \
	  rm -rf build/release && mkdir -p build/release && \
	  git archive $(RELEASE) taupy | tar -x -C build/release && \
	  $(TEST)/bin/python benchmarks/reading.py --paths 5000 --rounds 3 --bound 1.5 . build/release; \
	else echo "beside-release: skipped, since this clone lacks $(RELEASE), as a shallow one does"; fi

pycuda: test-environment
	scripts/build_pycuda.sh $(TEST)/bin/python
	$(TEST)/bin/python -m pytest -q -rs tests/integration/test_pycuda_example.py

# Beside the tests' own CUPTI, since it asks for a newer one.
CUPTI_PYTHON := build/cupti-python/site-$(VERSION)

cupti-python: test-environment
	@test -d $(CUPTI_PYTHON) || $(TEST)/bin/python $(PIP_INSTALL) --no-deps --target $(CUPTI_PYTHON) \
	  cupti-python cuda-bindings cuda-pathfinder pyelftools
	PYTHONPATH=$(CURDIR)/$(CUPTI_PYTHON) \
	  $(TEST)/bin/python -m pytest -q -rs -n 2 tests/unit/collectors/test_cupti_python.py

wheel:
	pythons="$$(scripts/pythons.sh)" && echo "$$pythons" | \
	  while read -r version make; do $$make wheel-of-python </dev/null || exit 1; done

wheel-of-python: python
	scripts/wheel.sh $(PYTHON)

# PyTorch is taken from PYTHON's packages, because its CUDA must fit the driver. If PYTHON is itself
# in a virtual environment, the new one does not see its packages, so their folder is added. Without
# a network, PYTHON's packages must suffice.
gpu-environment: python
	$(PYTHON) -m venv --without-pip --system-site-packages $(GPU)
	$(PYTHON) -c 'import site; print(*(f"import site; site.addsitedir({each!r})" for each in \
	  site.getsitepackages()), sep="\n")' > $(GPU)/lib/python$(VERSION)/site-packages/parent.pth
	$(GPU_INSTALL) --no-index --no-deps --no-build-isolation -e . \
	  $(if $(wildcard .whl/*.whl),.whl/*.whl) && $(GPU)/bin/python -c "import sqlite_utils, hypothesis" || \
	$(GPU_INSTALL) -e ".[test,gpu]"

# Without packages that such a machine has: PyTorch, JAX, NumPy, pandas, Matplotlib, rich, pytest.
GPU_WHEELS ?= .whl
WHEELS := sqlite-utils sqlite-fts4 click-default-group click tabulate pluggy python-dateutil \
  ijson msgspec nvidia-ml-py shtab hypothesis sortedcontainers

gpu-wheels: python
	$(PYTHON) -m pip download --disable-pip-version-check -q --no-deps --only-binary=:all: \
	  --python-version 3.12 --implementation cp --platform manylinux_2_28_x86_64 \
	  --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 -d $(GPU_WHEELS) $(WHEELS)

gpu-check: gpu-environment
	$(GPU)/bin/python -m pytest -v -m gpu tests/gpu

gpu-record: gpu-environment
	$(GPU)/bin/python tests/gpu/record.py $(GPU_RECORD)

clean:
	rm -rf .venv .venv-gpu .venv-observer-* .venv-oldest-* .venv-test-* build dist *.egg-info
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	rm -f taupy/_native/*.so
	find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +

# A stamp file marks an environment as up to date, so that a second `make test` installs nothing.

python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "taupy needs Python 3.11 or newer, '$(PYTHON)' is not: make PYTHON=python3.12 ..." >&2; exit 1; }

# For another Python, an existing environment is replaced only if make created it.
$(DEMO)/.made-$(VERSION): | python
	$(PYTHON) -m venv $(if $(wildcard $(DEMO)/.made-*),--clear) $(DEMO)
	@touch $@

$(DEMO)/.installed-$(VERSION): $(DEMO)/.made-$(VERSION) $(PACKAGE_FILES)
	@rm -rf build
	$(DEMO)/bin/python $(PIP_INSTALL) .
	@touch $@

# An older pip takes twice as long to choose versions, and compiling what no test imports as long again.
$(TEST)/.made: | python
	$(PYTHON) -m venv --clear --upgrade-deps $(TEST)
	@touch $@

$(TEST)/.installed: $(TEST)/.made $(BUILD_FILES)
	$(TEST)/bin/python $(PIP_INSTALL) --no-compile -e ".[test]"
	@touch $@

$(TEST)/.installed-%: $(TEST)/.installed
	$(TEST)/bin/python $(PIP_INSTALL) --no-compile -e ".[test,$*]"
	@touch $@
