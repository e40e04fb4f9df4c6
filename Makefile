# The front door. Everything a user or a maintainer does starts here; CMake is behind it.
#
#   make run     install what is missing, build, start the server, run a first sandbox
#   make test    everything: lint, unit, integration, security, conformance, sanitizers, ledger
#   make check   the two-minute loop while working: build, lint of what changed, unit, integration
#   make bench   figures beside a peer's, in one run
#   make fuzz    planted bugs are found, then each target for FUZZ_SECONDS (600)
#   make guest   the suites of the cgroup v2 guest alone; a shell in it with GUEST=--shell
#   make soak    longer work: the whole of `make test` in a fresh Debian tree that has only make
#
# Packages are installed only when missing (needs root and a package mirror). Downloads and test
# images are kept in OSB_CACHE, outside the clone.

SHELL := /bin/sh
BUILD ?= build
JOBS  ?= $(shell nproc 2>/dev/null || echo 2)
FUZZ_SECONDS ?= 600
export OSB_CACHE ?= $(HOME)/.cache/opensandbox-c

.PHONY: run test check build build-asan build-fuzz bench lint fuzz guest soak clean help

help:
	@sed -n '3,9s/^# \{0,1\}//p' Makefile

build:
	@sh scripts/deps.sh build
	@sh scripts/build.sh $(BUILD) $(JOBS)

build-asan:
	@sh scripts/deps.sh build
	@sh scripts/build.sh $(BUILD)/asan $(JOBS) -DOSB_SANITIZE=ON

build-fuzz:
	@sh scripts/deps.sh build test
	@sh scripts/build.sh $(BUILD)/fuzz $(JOBS) -DOSB_FUZZ=ON -DCMAKE_C_COMPILER=clang

run:
	@sh scripts/deps.sh build run
	@sh scripts/build.sh $(BUILD) $(JOBS) opensandbox-server opensandbox-launcher opensandbox-execd
	@exec python3 scripts/run.py $(BUILD)/bin

test:
	@sh scripts/deps.sh build run test programs bench
	@$(MAKE) --no-print-directory build build-asan
	@python3 tests/run.py --build $(BUILD) all

check:
	@sh scripts/deps.sh build run test bench
	@$(MAKE) --no-print-directory build
	@python3 tests/run.py --build $(BUILD) quick

lint:
	@sh scripts/deps.sh build test
	@sh scripts/build.sh $(BUILD) $(JOBS) --configure-only
	@python3 tests/lint.py --build $(BUILD)

bench:
	@sh scripts/deps.sh build bench
	@sh scripts/build.sh $(BUILD) $(JOBS)
	@python3 bench/run.py --build $(BUILD)

fuzz: build-fuzz
	@python3 tests/fuzz/run.py --build $(BUILD) --seconds $(FUZZ_SECONDS)

guest:
	@sh scripts/deps.sh build run test
	@$(MAKE) --no-print-directory build
	@python3 tests/guest/run.py --build $(BUILD) $(GUEST)

soak:
	@sh scripts/deps.sh build run test programs bench soak
	@$(MAKE) --no-print-directory build
	@python3 tests/run.py --build $(BUILD) soak

clean:
	rm -rf $(BUILD)
