# magneto: how to build, test and check it. `make help` lists the targets.
#
# A build variant lives in build/<variant>: meson's files, and `site`, which holds the installed package. Whatever
# runs against a variant runs with PYTHONPATH=build/<variant>/site and the Python of .venv.

SHELL   := bash
ROOT    := $(CURDIR)
PYTHON  ?= $(shell command -v python3.11 || command -v python3)
VENV    := $(ROOT)/.venv
PY      := $(VENV)/bin/python
VARIANT ?= release
SITE     = $(ROOT)/build/$(VARIANT)/site

# Arguments of your own: make test-unit ARGS='-k generators' or ARGS=tests/call, make conformance ARGS='test_dict test_set'.
ARGS    ?=
# How long `make stress` runs, and where its random tests start: another place each time.
MINUTES ?= 30
# How long its soak runs: threads, signals that raise, forks.
SOAK_MINUTES ?= 20
SEED    ?= $(shell od -An -N3 -tu4 /dev/urandom | tr -d ' ')

export PATH := $(VENV)/bin:$(PATH)

SETUP_release := -Dbuildtype=release
SETUP_debug   := -Dbuildtype=debug -Doptimization=1 -Dchecks=true
SETUP_asan    := -Dbuildtype=debug -Doptimization=1 -Dchecks=true -Db_sanitize=address,undefined -Db_lundef=false
SETUP_dev     := -Dbuildtype=debug -Doptimization=1

# Python with the package of one variant. MAGNETO_SITE lets the tests make sure that it is the one they import.
RUN = env PYTHONPATH=$(SITE) MAGNETO_SITE=$(SITE) $(PY)

# The sanitizers' runtimes have to be there before Python starts. CPython keeps some memory for good, so leaks are
# the job of `make leaks`; with malloc in the place of CPython's own allocator each object is watched.
ASAN_ENV = LD_PRELOAD="$(shell gcc -print-file-name=libasan.so) $(shell gcc -print-file-name=libubsan.so)" \
	ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:abort_on_error=1:handle_sigfpe=0 \
	UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 PYTHONMALLOC=malloc

# Instrumented C frames are large, and the tests of deep recursion need room for them.
ASAN_STACK = ulimit -s 131072 2>/dev/null || ulimit -s hard 2>/dev/null || true

ASAN_MODULES = test_grammar test_generators test_coroutines test_asyncgen test_patma test_except_star test_exceptions \
	test_raise test_with test_contextlib test_scope test_super test_call test_extcall test_unpack_ex test_fstring

C_FILES = $(wildcard csrc/*.c csrc/*.h)

.DEFAULT_GOAL := help
.PHONY: help venv build dev demo test test-unit test-debug test-conformance conformance models stress fuzz oom leaks asan bench \
	lint format clean distclean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' Makefile

# --- the virtual environment: made once, and again when the pinned requirements change ---

REQUIREMENTS := $(shell sha256sum requirements-dev.txt | cut -c1-16)
VENV_STAMP   := $(VENV)/.requirements-$(REQUIREMENTS)

venv: $(VENV_STAMP) ## make .venv with the pinned requirements

$(VENV_STAMP):
	@test -n "$(PYTHON)" || { echo "make: no python3 found; magneto needs CPython 3.11" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; v = sys.version_info; v[:2] == (3, 11) or sys.exit("make: magneto needs CPython 3.11, and " \
	  f"{sys.executable} is {v[0]}.{v[1]}; give another with PYTHON=/path/to/python3.11")'
	@test -x $(PY) || "$(PYTHON)" -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@rm -f $(VENV)/.requirements-*
	@touch $@

# --- building ---

# Sets up build/<variant> if that has not been done with these options, and builds it.
define compile
	@mkdir -p build/$(VARIANT)
	@test "$$(cat build/$(VARIANT)/.setup 2>/dev/null)" = "$(SETUP_$(VARIANT))" || { \
	  rm -rf build/$(VARIANT) && \
	  meson setup build/$(VARIANT) $(SETUP_$(VARIANT)) -Dwerror=true --prefix=$(ROOT)/build/$(VARIANT)/prefix \
	    -Dpython.platlibdir=$(SITE) -Dpython.purelibdir=$(SITE) >build-setup.log 2>&1 || \
	  { cat build-setup.log; rm -f build-setup.log; exit 1; }; \
	  mv build-setup.log build/$(VARIANT)/setup.log && \
	  echo "$(SETUP_$(VARIANT))" >build/$(VARIANT)/.setup; }
	@ninja -C build/$(VARIANT) --quiet
endef

build: venv ## build a variant (VARIANT=release, debug or asan) into build/<variant>/site
	@test -n "$(SETUP_$(VARIANT))" || { echo "make: no variant '$(VARIANT)'" >&2; exit 1; }
	$(compile)
	@meson install -C build/$(VARIANT) --no-rebuild --only-changed --quiet >/dev/null
	@cd $(SITE)/magneto && find . -name '*.py*' -not -path '*/__pycache__/*' | while read -r file; do \
	  test -e "$(ROOT)/src/magneto/$$file" || rm "$$file"; done

dev: VARIANT := dev
dev: venv ## install editably into .venv: Python files are live, `make dev` again (or ninja -C build/dev) rebuilds C
	$(compile)
	@mkdir -p $(SITE)/magneto
	@find $(SITE)/magneto -type l -delete
	@ln -s $(ROOT)/src/magneto/* $(SITE)/magneto/
	@ln -s $(ROOT)/build/dev/_core.*.so $(SITE)/magneto/
	@echo $(SITE) >"$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/magneto-dev.pth"
	@cd / && $(PY) -c 'import magneto; print("magneto", magneto.__version__, "from", magneto.__path__[0])'

# --- running ---

demo: build ## show magneto's main job at work
	@$(RUN) examples/demo.py $(ARGS)

test: ## all that a change must pass: unit tests (release and debug build) and the fast conformance subset
	@$(MAKE) --no-print-directory test-unit VARIANT=release
	@$(MAKE) --no-print-directory test-unit VARIANT=debug
	@$(MAKE) --no-print-directory test-conformance VARIANT=release

test-unit: build ## pytest over tests/ (VARIANT=...)
	$(RUN) -m pytest -q $(if $(filter tests/%,$(ARGS)),,tests) $(ARGS)

test-conformance: build ## CPython's own tests, the part that takes minutes (VARIANT=...)
	$(RUN) -m magneto.testing.conformance --fast $(ARGS)

conformance: build ## CPython's own tests, the whole list (VARIANT=...)
	$(RUN) -m magneto.testing.conformance $(ARGS)

models: build ## real models, all of them (VARIANT=...)
	MAGNETO_MODELS=all $(RUN) -m pytest -q tests/models $(ARGS)

stress: VARIANT := debug
stress: SEED := $(SEED)
stress: build ## 5,000 random captured programs, 5,000 with breaks; hostile objects; all samples of torch's tests; random CPython tests, for MINUTES=30
	MAGNETO_RANDOM_SEED=$(SEED) MAGNETO_RANDOM_PROGRAMS=5000 $(RUN) -m pytest -q tests/capture/test_random_programs.py
	MAGNETO_RANDOM_SEED=$(SEED) MAGNETO_RANDOM_BREAKS=5000 $(RUN) -m pytest -q tests/breaks/test_random.py
	MAGNETO_RANDOM_SEED=$(SEED) MAGNETO_RANDOM_ALIASES=2000 $(RUN) -m pytest -q tests/capture/test_random_aliases.py
	MAGNETO_RANDOM_SEED=$(SEED) $(RUN) -m pytest -q tests/call/test_random_changes.py
	$(RUN) tests/capture/fuzz.py --seed $(SEED) --minutes $(MINUTES)
	MAGNETO_SWEEP=1 $(RUN) -m pytest -q tests/capture/test_ops.py tests/capture/test_modules.py tests/capture/test_shapes.py
	MAGNETO_COMPARE_EVERY=1 $(RUN) -m pytest -q tests/breaks/test_programs.py
	MAGNETO_BREAK_STEPS=40 $(RUN) -m pytest -q tests/breaks/test_everywhere.py
	OMP_NUM_THREADS=1 $(RUN) tests/stress/soak.py --minutes $(SOAK_MINUTES) --seed $(SEED)
	$(RUN) -m magneto.testing.stress --minutes $(MINUTES) $(ARGS)

fuzz: SEED := $(SEED)
fuzz: build ## programs with hostile objects, for MINUTES=30, plain and with breaks; VARIANT=debug or asan
	$(if $(filter asan,$(VARIANT)),$(ASAN_STACK); $(ASAN_ENV)) $(RUN) tests/capture/fuzz.py --seed $(SEED) --minutes $(MINUTES) $(ARGS)

oom: VARIANT := debug
oom: build ## let each allocation of the core fail in turn, in the programs of the tests (ARGS='--part 1/8', '--new')
	$(RUN) tests/oom/hunt.py $(ARGS)

leaks: build ## run each test again and again, and look for what grows
	$(RUN) tests/leaks/hunt.py tests --ignore=tests/conformance $(ARGS)

asan: VARIANT := asan
asan: build ## the tests under AddressSanitizer and UndefinedBehaviorSanitizer
	$(ASAN_STACK); $(ASAN_ENV) $(RUN) -m pytest -q $(if $(filter tests/%,$(ARGS)),,tests) --ignore=tests/leaks $(ARGS)
	$(ASAN_STACK); $(ASAN_ENV) $(RUN) -m magneto.testing.conformance $(ASAN_MODULES)

bench: build ## the benchmarks, as ratios
	@for file in bench/*.py; do echo "== $$file"; $(RUN) $$file $(ARGS) || exit 1; done

# --- checking ---

lint: build ## ruff, mypy --strict, clang-format; clang-tidy and cppcheck where installed
	ruff check .
	ruff format --check .
	mypy
	clang-format --dry-run -Werror $(C_FILES)
	@if command -v clang-tidy >/dev/null; then \
	  echo "clang-tidy csrc/*.c"; \
	  clang-tidy --quiet -p build/$(VARIANT) --extra-arg=-Wno-unknown-warning-option csrc/*.c 2>/dev/null; \
	else echo "clang-tidy is not installed: left out"; fi
	@if command -v cppcheck >/dev/null; then \
	  echo "cppcheck csrc"; \
	  cppcheck --quiet --std=c11 --enable=warning,portability --inline-suppr --error-exitcode=1 \
	    --suppress=missingIncludeSystem --suppress=internalAstError -DMG_CHECKS=1 -DPY_VERSION_HEX=0x030b0000 \
	    '-DPy_RETURN_NONE=return Py_NewRef(Py_None)' csrc; \
	else echo "cppcheck is not installed: left out"; fi

format: venv ## lay out the Python and C files as `lint` wants them
	ruff check --fix --select I .
	ruff format .
	clang-format -i $(C_FILES)

clean: ## remove what was built
	rm -rf build .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## remove .venv too
	rm -rf $(VENV)
