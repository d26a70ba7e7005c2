# SPDX-License-Identifier: MIT
# The commands of the README, each a thin call of Meson or of a script in tools/. `make help` lists them.

build: build/build.ninja
	@ninja -C build

build/build.ninja:
	@tools/deps build
	@meson setup build

demo: # installs what is missing, builds, records a threaded workload, prints the report and what was lost
	@tools/demo

test: build # the unit tests: seconds, no root
	@meson test -C build --no-rebuild --print-errorlogs -t 10 --suite unit

check: # installs what is missing, builds with gcc and clang, runs every test
	@tools/check

check-lab: build # the tests that take minutes or need a special machine
	@tools/deps check lab
	@MILLRACE=$(CURDIR)/build/millrace pytest-3 -m lab tests

check-arm64: build # the static arm64 binary on an emulated machine with a PMU, beside perf there
	@tools/deps check lab
	@ARCH=arm64 tools/static
	@MILLRACE=$(CURDIR)/build/millrace pytest-3 -rs -m lab tests/lab/test_arm64.py

check-kernels: build # both static binaries with the kernels of Debian's releases in emulated machines
	@tools/deps check lab
	@tools/static
	@ARCH=arm64 tools/static
	@MILLRACE=$(CURDIR)/build/millrace pytest-3 -rs -m lab tests/lab/test_kernels.py

check-fleet: build # the agent for FLEET_SECONDS (900) with a ClickHouse that is killed ten times: counts agree
	@MILLRACE=$(CURDIR)/build/millrace pytest-3 -s -m lab tests/lab/test_fleet.py

check-corpus: build # recordings of other projects, compared with perf: fetches two source packages of Debian (370 MB)
	@MILLRACE=$(CURDIR)/build/millrace tools/check-corpus

check-perf-tests: build # perf's own shell tests with record, report and script of millrace: fetches Debian's kernel source
	@MILLRACE=$(CURDIR)/build/millrace tools/check-perf-tests

lint: # format of changed files, spelling, cppcheck
	@tools/lint

format: # formats the changed C files as .clang-format says
	@tools/format

coverage: # which lines the unit, integration and fault tests run, build-coverage/index.html
	@tools/coverage

check-asan: # every test with AddressSanitizer and UndefinedBehaviorSanitizer, a quarter of an hour
	@tools/check-sanitizer asan

check-tsan: # every test that has threads with ThreadSanitizer, a quarter of an hour
	@tools/check-sanitizer tsan

bench: build # the same load recorded with perf and with millrace, interleaved
	@bench/vs-perf

fuzz: # feeds the decoders with broken input, FUZZ_SECONDS of CPU time for each target
	@tools/fuzz

mutate: # do the unit tests notice small mistakes in the core? 200 changes, a quarter of an hour; tools/mutate --help
	@tools/mutate

soak: build # as root: records in random ways for a day, and checks each recording; SOAK_SECONDS=N
	@tools/soak --seconds $(or $(SOAK_SECONDS),86400)

static: # one static binary, build-static/millrace; with ARCH=arm64 one for that, build-static-arm64/millrace
	@ARCH=$(ARCH) tools/static

clean-room: # make demo and make check in a fresh Debian 12, or with RELEASE=trixie in a 13 (as root, made with debootstrap)
	@tools/clean-room -r $(or $(RELEASE),bookworm)

dist: # a tarball of the last commit with its checksum, build-dist/; tools/dist --static: with static binaries
	@tools/dist

deb rpm: # a package of the last commit, build-deb/ or build-rpm/
	@tools/package $@

install: build # installs the program, man pages and completion: PREFIX=/usr/local, staged under DESTDIR
	@[ -z "$(PREFIX)" ] || { meson configure build -Dprefix="$(PREFIX)" && ninja -C build; }
	@DESTDIR="$(DESTDIR)" meson install -C build --no-rebuild

deps: # installs the Debian packages that check needs (as root), or names them
	@tools/deps check

clean:
	@rm -rf build build-*

help:
	@sed -n 's/^\([a-z0-9 -]*\):[^#]*# /make \1	/p' Makefile

.PHONY: build demo test check lint format coverage check-lab check-arm64 check-kernels check-fleet check-corpus check-perf-tests check-asan check-tsan bench fuzz mutate soak static clean-room dist deb rpm install deps clean help
