# noclobber. README's two commands are `make demo` and `make test`: each does
# all the set-up that a fresh machine needs.
#
#   all       the shim and the launcher, into build/
#   demo      a refusal, and what passes, on a real tree
#   test      everything that pytest runs, then `check`
#   check     formatters, linters, types
#   soak      the random model's test, 25 times as long (STEPS=N, SEED=N)
#   mutants   that this test finds a guard that is worse in one place
#   sanitize  the launcher's, the hook's and the shim's tests against an ASan and
#             UBSan build
#   bench     measured against bare (BENCH=--quick: in under a minute)
#   clean     takes out what was built, and .venv
#
# CC, CFLAGS, LDFLAGS and PYTHON are yours to set; V=1 shows whole commands.
# MUSL_CC compiles the shim for programs of musl, where that is not the system's
# C library; where there is no such compiler it is left out.

CC ?= cc
MUSL_CC ?= musl-gcc
CFLAGS ?= -O2 -g
PYTHON ?= python3
BUILD ?= build
VENV ?= .venv
Q := $(if $(V),,@)

# ---- C ----------------------------------------------------------------

LAUNCHER_SOURCES := $(addprefix csrc/,launch.c shared.c session.c inherit.c \
    reach.c begin.c handles.c follow.c become.c witness.c outlets.c pump.c stream.c spool.c \
    pty.c paths.c library.c program.c elffile.c raw.c watched.c submit.c \
    filter.c)
HOOK_SOURCES := $(addprefix csrc/,hook.c event.c shared.c reach.c handles.c paths.c)
# What Python calls through cffi: what the daemon does often, and for pytest
# units of the shim, with what they need.
UNIT_SOURCES := $(addprefix csrc/,coverage.c fdtable.c pages.c raw.c paths.c \
    readings.c receive.c program.c elffile.c \
    attest-keys.c attest-index.c attest-pieces.c attest-gutters.c attest-names.c \
    attest-lines.c attest-align.c attest-loose.c attest-found.c \
    attest-blocks.c)
SHIM_SOURCES := $(addprefix csrc/,shim.c environment.c area.c coverage.c \
    fdtable.c track.c channels.c descriptors.c opens.c reads.c maps.c \
    streams.c replaces.c tree.c deletes.c made.c tombs.c anew.c readonly.c \
    metadata.c attributes.c agent.c intake.c held.c starts.c process.c spawn.c \
    syscalls.c places.c stat.c connect.c hello.c exchange.c client.c question.c \
    apart.c pages.c raw.c program.c elffile.c library.c supervised.c submit.c \
    filter.c holes.c)
SUPERVISOR_SOURCES := $(addprefix csrc/,supervise.c images.c peek.c words.c \
    lookup.c asking.c opening.c shrinking.c naming.c kept.c execs.c filter.c \
    coverage.c pages.c places.c stat.c connect.c exchange.c tombs.c made.c raw.c \
    holes.c)

# The shim defines the functions that _FORTIFY_SOURCE would make it call, and
# open beside open64, which _FILE_OFFSET_BITS would make one.
NC_CPPFLAGS := -Icsrc -D_GNU_SOURCE -U_FORTIFY_SOURCE -U_FILE_OFFSET_BITS
NC_CFLAGS := -std=gnu11 -fPIC -fvisibility=hidden -pthread \
    -fno-delete-null-pointer-checks \
    -Wall -Wextra -Wconversion -Wshadow -Werror

ifeq ($(shell uname -s),Darwin)
SHIM := $(BUILD)/lib/noclobber/libnoclobber.dylib
SHIM_LDFLAGS := -dynamiclib -pthread
else
SHIM := $(BUILD)/lib/noclobber/libnoclobber.so
# Every process of a session pays for the loading: lazy binding saves 12 us of
# it, few segments 14, no relocation pages to protect 12 (x86-64, 600 in all);
# sections sorted by name keep what a start touches in few pages (csrc/pages.h).
SHIM_LDFLAGS := -shared -pthread -Wl,-O1 -Wl,--hash-style=gnu \
    -Wl,--as-needed -Wl,--sort-section=name -Wl,-z,lazy \
    -Wl,-z,noseparate-code -Wl,-z,norelro
SHIM_LDLIBS := -ldl
LIBC := $(if $(shell printf '\043include <features.h>\n' | \
    $(CC) -E -dM -x c - 2>/dev/null | grep -w __GLIBC__),glibc,musl)
ifeq ($(LIBC),musl)
# What musl has no function of is not offered to programs, either. Its library
# is not named: glibc's loader gives up where it does not find that.
EXPORTS := $(BUILD)/obj/exports.map
SHIM_LDFLAGS += -Wl,--version-script=$(EXPORTS) -nodefaultlibs
SHIM_LDLIBS := -lgcc
else
SHIM_LDFLAGS += -Wl,-z,defs
ifneq ($(shell command -v $(firstword $(MUSL_CC) -) 2>/dev/null),)
MUSL_SHIM := $(BUILD)/lib/noclobber/musl/libnoclobber.so
endif
endif
endif

LAUNCHER := $(BUILD)/bin/noclobber-exec
LAUNCHER_BASH := $(BUILD)/bin/noclobber-bash
HOOK := $(BUILD)/bin/noclobber-hook
SUPERVISOR := $(BUILD)/bin/noclobber-supervise
NATIVE_NAME = $(shell $(PYTHON) controlplane/build_native.py --name)

object = $(patsubst csrc/%.c,$(BUILD)/obj/%.o,$(1))

.PHONY: all objects native musl
all: $(SHIM) $(LAUNCHER) $(LAUNCHER_BASH) $(HOOK) $(SUPERVISOR) \
    $(if $(MUSL_SHIM),musl)

$(BUILD)/obj/launch.o: controlplane/noclobber/__init__.py
$(BUILD)/obj/launch.o: NC_CPPFLAGS += -DNOCLOBBER_RELEASE='"$(shell \
    sed -n 's/^__version__ = "\(.*\)"/\1/p' controlplane/noclobber/__init__.py)"'

$(BUILD)/obj/%.o: csrc/%.c Makefile
	@mkdir -p $(@D)
	@echo "CC   $<"
	$(Q)$(CC) $(NC_CPPFLAGS) $(CPPFLAGS) $(NC_CFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

# Linked aside and moved: a process may have the old one mapped.
$(SHIM): $(call object,$(SHIM_SOURCES)) $(EXPORTS)
	@mkdir -p $(@D)
	@echo "LINK $@"
	$(Q)$(CC) $(CFLAGS) $(SHIM_LDFLAGS) $(LDFLAGS) $(filter %.o,$^) $(SHIM_LDLIBS) \
	    -o $@.new
	@mv -f $@.new $@

$(BUILD)/obj/exports.map: csrc/hooks.def
	@mkdir -p $(@D)
	@{ echo '{ global:'; sed -n 's/^HOOK([^,]*, *\([a-zA-Z0-9_]*\),.*/\1;/p' $<; \
	    echo 'local: *; };'; } >$@

# musl-gcc knows no header of the kernel's: those of the system are its own.
MUSL_BUILD := $(BUILD)/musl
KERNEL_HEADERS := $(foreach dir,linux asm asm-generic,$(firstword \
    $(wildcard /usr/include/$(dir) /usr/include/$(shell $(CC) -print-multiarch)/$(dir))))

musl:
	@mkdir -p $(MUSL_BUILD)/include
	@ln -sfn $(KERNEL_HEADERS) $(MUSL_BUILD)/include
	$(Q)$(MAKE) --no-print-directory CC="$(MUSL_CC)" BUILD=$(MUSL_BUILD) \
	    CPPFLAGS="$(CPPFLAGS) -idirafter $(MUSL_BUILD)/include" \
	    SHIM=$(MUSL_SHIM) $(MUSL_SHIM)

$(LAUNCHER): $(call object,$(LAUNCHER_SOURCES))
	@mkdir -p $(@D)
	@echo "LINK $@"
	$(Q)$(CC) $(CFLAGS) -pthread $(LDFLAGS) $^ -o $@.new
	@mv -f $@.new $@

$(LAUNCHER_BASH): $(LAUNCHER)
	@ln -f $< $@

# All of the C, also what only Python's module is linked from.
objects: $(call object,$(sort $(SHIM_SOURCES) $(LAUNCHER_SOURCES) $(HOOK_SOURCES) $(SUPERVISOR_SOURCES) $(UNIT_SOURCES)))

$(HOOK): $(call object,$(HOOK_SOURCES))
	@mkdir -p $(@D)
	@echo "LINK $@"
	$(Q)$(CC) $(CFLAGS) -pthread $(LDFLAGS) $^ -o $@.new
	@mv -f $@.new $@

$(SUPERVISOR): $(call object,$(SUPERVISOR_SOURCES))
	@mkdir -p $(@D)
	@echo "LINK $@"
	$(Q)$(CC) $(CFLAGS) -pthread $(LDFLAGS) $^ -o $@.new
	@mv -f $@.new $@

# The module's file name depends on PYTHON.
native:
	@$(MAKE) --no-print-directory \
	    $(BUILD)/native/$$($(PYTHON) controlplane/build_native.py --name)

$(BUILD)/native/_native%so: $(call object,$(UNIT_SOURCES)) \
    $(wildcard csrc/*.h) controlplane/build_native.py Makefile
	@mkdir -p $(@D)
	@echo "CFFI $@"
	$(Q)CC="$(CC)" CFLAGS="$(CFLAGS)" LDFLAGS="$(LDFLAGS)" $(PYTHON) \
	    controlplane/build_native.py $@ $(call object,$(UNIT_SOURCES))

-include $(wildcard $(BUILD)/obj/*.d)

# ---- A virtual environment with all of it, made when sources changed ---

INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev
RUN := PATH="$(abspath $(VENV))/bin:$$PATH"

$(INSTALLED): pyproject.toml Makefile tests/setup $(wildcard csrc/*) \
    controlplane/build_hook.py controlplane/build_native.py
	tests/setup $(VENV)
	@touch $@

$(INSTALLED_DEV): pyproject.toml tests/setup | $(INSTALLED)
	tests/setup --dev $(VENV)
	@touch $@

# ---- What people run ---------------------------------------------------

.PHONY: demo test check soak mutants sanitize bench clean
demo: $(INSTALLED)
	$(RUN) tests/demo.sh

test: $(INSTALLED) $(INSTALLED_DEV)
	@status=0; \
	$(RUN) python -m pytest tests || status=1; \
	$(MAKE) --no-print-directory -k check || status=1; \
	exit $$status

SCRIPTS := tests/setup tests/demo.sh .ci/run
CHECKS := check-ruff check-types check-c check-shell
.PHONY: $(CHECKS)
check: $(CHECKS)
check-ruff: $(INSTALLED_DEV)
	$(RUN) ruff check
	$(RUN) ruff format --check
check-types: $(INSTALLED_DEV)
	$(RUN) mypy
check-c: $(INSTALLED_DEV)
	$(RUN) clang-format --dry-run -Werror $(wildcard csrc/*.[ch]) tests/sanitize.c
check-shell: $(INSTALLED_DEV)
	$(RUN) shellcheck $(SCRIPTS)

SANITIZE := -O1 -g -fsanitize=address,undefined \
    -fno-sanitize-recover=undefined -fno-omit-frame-pointer
# A report on our code fails the run even where nobody looks at the status of the
# process that wrote it. A program's own crash must stay a crash.
sanitize: $(INSTALLED) $(INSTALLED_DEV)
	rm -rf build/sanitize/reports
	mkdir -p build/sanitize/reports
	$(CC) -fPIC -Wall -Wextra -Werror -DREPORTS='"$(abspath build/sanitize/reports)/report"' \
	    -c tests/sanitize.c -o build/sanitize/reports.o
	$(MAKE) BUILD=build/sanitize CFLAGS="$(SANITIZE)" LDFLAGS=build/sanitize/reports.o \
	    MUSL_CC= all
	@status=0; reports="$(abspath build/sanitize/reports)/report"; \
	export NOCLOBBER_BIN="$(abspath build/sanitize/bin)"; \
	export ASAN_OPTIONS="handle_segv=0:handle_abort=0:handle_sigbus=0:handle_sigfpe=0:detect_leaks=0"; \
	$(RUN) python -m pytest tests/launcher tests/harness/test_failures.py \
	    tests/harness/test_others.py || status=1; \
	$(RUN) NOCLOBBER_PRELOAD="$$($(CC) -print-file-name=libasan.so)" \
	    python -m pytest tests/interpose || status=1; \
	ours=$$(grep -sl csrc/ "$$reports".*) && cat $$ours && status=1; \
	exit $$status

STEPS := 50000
soak: $(INSTALLED) $(INSTALLED_DEV)
	$(RUN) NOCLOBBER_MODEL_STEPS=$(STEPS) $(if $(SEED),NOCLOBBER_MODEL_SEED=$(SEED)) \
	    python -m pytest -s tests/scenario/test_model.py

mutants: $(INSTALLED) $(INSTALLED_DEV)
	$(RUN) python tests/scenario/mutants.py

bench: $(INSTALLED) $(INSTALLED_DEV)
	$(RUN) python tests/bench --json $(BUILD)/bench.json $(BENCH)

clean:
	rm -rf build dist $(VENV) controlplane/noclobber/_native*.so
	find controlplane tests -name __pycache__ -prune -exec rm -rf {} +
