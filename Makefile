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

# Arguments of your own: make test-unit ARGS='-k generators' or ARGS=tests/guard, make conformance ARGS='test_dict test_set'.
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

C_FILES = $(shell find csrc -name '*.[ch]' | sort)

.DEFAULT_GOAL := help
.PHONY: help venv build dev package demo test test-unit test-conformance conformance models dropin stress fuzz oom leaks asan bench \
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
	    -Dpython.platlibdir=$(SITE) -Dpython.purelibdir=$(SITE) >build/$(VARIANT)-setup.log 2>&1 || \
	  { cat build/$(VARIANT)-setup.log; exit 1; }; \
	  mv build/$(VARIANT)-setup.log build/$(VARIANT)/setup.log && \
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
	@ln -sf $(ROOT)/src/_magneto_startup.py $(SITE)/
	@(echo $(SITE); cat src/magneto.pth) >"$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/magneto-dev.pth"
	@cd / && $(PY) -c 'import magneto; print("magneto", magneto.__version__, "from", magneto.__path__[0])'

# The wheel is built from the sdist, so that nothing is missing there. The fresh environment has torch from .venv.
package: venv ## sdist and manylinux wheel into build/dist, installed into a fresh environment and tried there
	@rm -rf build/dist build/fresh && mkdir -p build/dist/source
	@$(PY) -c 'import mesonpy; mesonpy.build_sdist("build/dist")' >build/dist/sdist.log 2>&1 || { cat build/dist/sdist.log; exit 1; }
	@tar -xf build/dist/magneto-*.tar.gz -C build/dist/source --strip-components=1
	@cd build/dist/source && $(PY) -c 'import mesonpy; mesonpy.build_wheel("..")' >../wheel.log 2>&1 || { cat ../wheel.log; exit 1; }
	@auditwheel repair --wheel-dir build/dist build/dist/magneto-*-linux_*.whl >build/dist/audit.log 2>&1 || { cat build/dist/audit.log; exit 1; }
	@rm -r build/dist/source build/dist/magneto-*-linux_*.whl
	@$(PY) -m venv --without-pip build/fresh
	@$(PY) -m pip --python build/fresh/bin/python install --quiet --no-deps --no-index --disable-pip-version-check build/dist/*.whl
	@$(PY) -c 'import torch; print(torch.__path__[0].removesuffix("/torch"))' >"$$(echo build/fresh/lib/python3*/site-packages)/torch.pth"
	@cd / && env -u PYTHONPATH MAGNETO=1 $(ROOT)/build/fresh/bin/python $(ROOT)/tests/smoke.py $(ROOT)/build/fresh
	@ls -1 build/dist/*.whl build/dist/*.tar.gz

# --- running ---

demo: build ## show magneto's main job at work
	@$(RUN) examples/demo.py $(ARGS)

# Two processes at a time, each with one variant; what a process writes comes line by line, the end of each with its result.
test: venv ## all that a change must pass: unit tests (release and debug build) and the fast conformance subset
	@$(MAKE) --no-print-directory -j2 test-variant-release test-variant-debug
	@$(MAKE) --no-print-directory test-conformance VARIANT=release
	@$(MAKE) --no-print-directory package

test-variant-%:
	@$(MAKE) --no-print-directory test-unit VARIANT=$*

test-unit: build ## pytest over tests/ (VARIANT=...)
	$(RUN) -m pytest -q $(if $(filter tests/%,$(ARGS)),,tests) $(ARGS)

test-conformance: build ## CPython's own tests, the part that takes minutes (VARIANT=...)
	$(RUN) -m magneto.testing.conformance --fast $(ARGS)

conformance: build ## CPython's own tests, the whole list (VARIANT=...)
	$(RUN) -m magneto.testing.conformance $(ARGS)

models: build ## real models, all of them (VARIANT=...)
	MAGNETO_MODELS=all $(RUN) -m pytest -q tests/models $(ARGS)

dropin: build ## programs of real libraries after magneto.install(), all of them (VARIANT=...)
	MAGNETO_DROPIN=all $(RUN) -m pytest -q tests/dropin/test_programs.py $(ARGS)

stress: VARIANT := debug
stress: SEED := $(SEED)
stress: build ## 5,000 random captured programs, 5,000 with breaks; hostile objects; all samples of torch's tests; random CPython tests, for MINUTES=30
	MAGNETO_RANDOM_SEED=$(SEED) MAGNETO_RANDOM_SIZES=5000 $(RUN) -m pytest -q tests/size
	MAGNETO_RANDOM_SEED=$(SEED) MAGNETO_RANDOM_PROGRAMS=5000 $(RUN) -m pytest -q tests/programs/test_random_programs.py
	MAGNETO_RANDOM_SEED=$(SEED) MAGNETO_RANDOM_BREAKS=5000 $(RUN) -m pytest -q tests/breaks/test_random.py
	MAGNETO_RANDOM_SEED=$(SEED) MAGNETO_RANDOM_ALIASES=2000 $(RUN) -m pytest -q tests/programs/test_random_aliases.py
	MAGNETO_RANDOM_SEED=$(SEED) $(RUN) -m pytest -q tests/guard/test_random_changes.py
	MAGNETO_RANDOM_SEED=$(SEED) MAGNETO_RANDOM_DYNAMIC=5000 $(RUN) -m pytest -q tests/dynamic/test_random_sizes.py
	MAGNETO_DYNAMIC=all $(RUN) -m pytest -q tests/dynamic/test_programs.py
	MAGNETO_ALL_DYNAMIC=1 $(RUN) -m pytest -q tests/programs tests/breaks tests/entry tests/guard --ignore=tests/guard/test_origins.py --ignore=tests/breaks/test_messages.py
	$(RUN) tests/stress/fuzz.py --seed $(SEED) --minutes $(MINUTES)
	MAGNETO_SWEEP=1 $(RUN) -m pytest -q tests/record/test_ops.py tests/record/test_modules.py tests/record/shape
	MAGNETO_COMPARE_EVERY=1 $(RUN) -m pytest -q tests/breaks/test_programs.py
	MAGNETO_BREAK_STEPS=40 $(RUN) -m pytest -q tests/breaks/test_everywhere.py
	OMP_NUM_THREADS=1 $(RUN) tests/stress/soak.py --minutes $(SOAK_MINUTES) --seed $(SEED)
	$(RUN) -m magneto.testing.stress --minutes $(MINUTES) $(ARGS)

fuzz: SEED := $(SEED)
fuzz: build ## programs with hostile objects, for MINUTES=30, plain and with breaks; VARIANT=debug or asan
	$(if $(filter asan,$(VARIANT)),$(ASAN_STACK); $(ASAN_ENV)) $(RUN) tests/stress/fuzz.py --seed $(SEED) --minutes $(MINUTES) $(ARGS)

oom: VARIANT := debug
oom: build ## let each allocation of the core fail in turn, in the programs of the tests (ARGS='--part 1/8', '--new')
	$(RUN) tests/oom/hunt.py $(ARGS)

leaks: build ## run each test again and again, and look for what grows
	$(RUN) tests/leaks/hunt.py $(if $(filter tests/%,$(ARGS)),,tests) --ignore=tests/conformance $(ARGS)

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
	  echo "clang-tidy csrc"; \
	  clang-tidy --quiet -p build/$(VARIANT) --extra-arg=-Wno-unknown-warning-option $(filter %.c,$(C_FILES)) 2>/dev/null; \
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
