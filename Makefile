# `make bench` and `make test` each do all their own set-up: a virtual environment in .venv, then the package in it.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
NEWEST ?= .venv-newest
export OPENBLAS_THREAD_TIMEOUT ?= 4
# Tests start hundreds of processes; without compiled modules each of them compiles the package first.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: bench reports docs check test test-gpu test-newest lint fuzz sanitize-gpu mutants clean

bench: $(VENV)/.bench
	$(BIN)/mansard bench --out report

# Tables, pictures, JSON and CSV of every journal in results/, which are compressed; then the pages of papers/.
reports: $(VENV)/.bench
	$(BIN)/mansard report results --pack --with papers
	$(BIN)/mansard report --readme
	$(BIN)/python -m papers.pages

# The site, from docs/ and docstrings: build/site/index.html, read from disk. Warnings and dead links are errors. Where
# Chromium is installed every page is looked at, in a wide and in a narrow, dark window.
docs: $(VENV)/.test
	$(BIN)/python -m docs.site

# What one runs while editing: lint, types, and the unit tests that neither compile nor measure; under a minute on two cores.
check: $(VENV)/.test lint
	$(BIN)/python -m pytest -n auto --dist worksteal -q -r fE --quick -m 'not slow' tests/unit $(PYTEST_ARGS)

# Lint runs beside the tests: mypy has one process.
test: $(VENV)/.test
	@$(MAKE) --no-print-directory lint & lint=$$!; \
	$(BIN)/python -m pytest -n auto --dist worksteal $(PYTEST_ARGS); tests=$$?; wait $$lint && exit $$tests

# The array boundary with the newest PyTorch (its usual build, with CUDA) and JAX; several GB are downloaded.
test-newest:
	test -x $(NEWEST)/bin/python || $(PYTHON) -m venv $(NEWEST)
	$(NEWEST)/bin/python -m pip install --quiet --editable . 'pytest>=8' 'pytest-timeout>=2.3' 'hypothesis>=6.100'
	$(NEWEST)/bin/python -m pip install --quiet --upgrade torch jax
	$(NEWEST)/bin/python -c 'import jax, torch; print("PyTorch", torch.__version__, "JAX", jax.__version__)'
	$(NEWEST)/bin/python -m pytest -q tests/calls/tall_skinny/test_api.py $(wildcard tests/calls/test_boundary_*.py) $(PYTEST_ARGS)

# Every test that runs on a GPU, all cases, with the Python that has CuPy; 9 minutes on an H200 with 16 cores. The tests of
# CPUs and of the emulator are `make test`.
test-gpu:
	$(PYTHON) -m pytest -n auto --dist worksteal -q -rfE -k "not emulated and not cpu and not numpy" \
	  --ignore tests/kernels/test_architectures.py --ignore tests/kernels/test_compile.py --ignore tests/kernels/emulated \
	  tests/kernels tests/calls tests/system/test_processes.py tests/system/test_ranks.py::test_all_checks_pass \
	  tests/system/test_hydrodynamics.py::test_other_libraries_give_the_same $(PYTEST_ARGS)

# Needs an NVIDIA GPU, CuPy and compute-sanitizer, and no virtual environment: 20 minutes, a table in results/.
sanitize-gpu:
	$(PYTHON) -m tests.sanitize_gpu --seconds 1140 $(SANITIZE_ARGS)

# Plants every bug of tests/mutants in a copy of the tree and runs the tests that claim the file: about half an hour, and
# MUTANTS_ARGS='--only lu --seconds 600' does some of it. What is done is in .mutants/ and is not done again.
mutants: $(VENV)/.test
	cd tests && ../$(BIN)/python -m mutants $(MUTANTS_ARGS)

# Every mutated record, manifest and matrix file, where `make test` runs a few hundred; FUZZ_SEED makes others.
fuzz: $(VENV)/.test
	$(BIN)/python -m pytest tests/unit/test_fuzz.py --fuzz --fuzz-seed $(or $(FUZZ_SEED),27) $(PYTEST_ARGS)

lint: $(VENV)/.test
	$(BIN)/ruff check mansard papers tests examples docs
	$(BIN)/mypy

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.bench: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	@if command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi >/dev/null 2>&1; then \
	  $(BIN)/python -m pip install --quiet --editable '.[bench,cuda]'; fi
	touch $@

# The array libraries are wanted by the tests of the array boundary; without them those tests say that they were skipped.
$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[test,mpi,dask]'
	$(BIN)/python -m pip install --quiet --editable '.[frameworks]' || echo "PyTorch or JAX could not be installed; their tests will be skipped"
	touch $@

clean:
	rm -rf $(VENV) $(NEWEST) report .pytest_cache .mypy_cache .ruff_cache .hypothesis .mutants
