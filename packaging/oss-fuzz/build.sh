#!/bin/sh
# SPDX-License-Identifier: MIT
# Called by OSS-Fuzz in a checkout, with CC, CFLAGS, LIB_FUZZING_ENGINE, OUT and WORK set: leaves the targets of
# tests/fuzz, their seeds and the shared libraries that they need in OUT.
set -eu

build=$WORK/build
# What is loaded is found beside the target: the machine that runs it has none of these libraries.
LDFLAGS="${LDFLAGS:-} -Wl,-rpath,\$ORIGIN/lib" meson setup "$build" -Dfuzz=true -Dfuzz_engine="$LIB_FUZZING_ENGINE" \
	-Db_lundef=false -Ddebuginfod=disabled -Dtui=disabled
ninja -C "$build"

mkdir -p "$OUT/lib"
for program in "$build"/tests/fuzz/fuzz_*; do
	[ -f "$program" ] && [ -x "$program" ] || continue
	name=$(basename "$program")
	target=${name#fuzz_}
	cp "$program" "$OUT/"
	ldd "$program" | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p' | grep -vE '/(libc|libm|libpthread|libdl|librt|ld-linux[^/]*)\.' |
		xargs -r cp -L -t "$OUT/lib"

	corpus=$WORK/corpus/$target
	mkdir -p "$corpus"
	"$build/tests/fuzz/replay_$target" --write-seeds "$corpus"
	[ ! -d "tests/fuzz/corpus/$target" ] || cp "tests/fuzz/corpus/$target"/* "$corpus/"
	zip -q -j "$OUT/${name}_seed_corpus.zip" "$corpus"/*
done
ls "$OUT"
