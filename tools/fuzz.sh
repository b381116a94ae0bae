#!/usr/bin/env bash
# Fuzzes the parsers of bytes that others send or leave behind (tests/fuzz): tools/fuzz.sh SECONDS [PARSER...]
# Each parser, by default all of them, for so long, under the address and undefined-behaviour sanitizers; needs clang.
# What it learns is kept in build/fuzz/found, and what fails in build/fuzz/failed, where the next run begins with it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/setup.sh
seconds="${1:?usage: tools/fuzz.sh SECONDS [PARSER...]}"
shift
command -v clang++ >/dev/null || die "clang is missing: apt-get install clang"
CC=clang CXX=clang++ build fuzz fuzz_parsers
[ $# -gt 0 ] || set -- $(ls tests/fuzz/seeds)

# fuzz PARSER: with the sum of its runs in the last line.
fuzz() {
  local found=build/fuzz/found/$1 failed=build/fuzz/failed/$1 words=tests/fuzz/dictionaries/$1
  mkdir -p "$found" "$failed"
  TUNE_FUZZ_PARSER=$1 ASAN_OPTIONS=detect_odr_violation=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
    build/fuzz/bin/fuzz_parsers -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -max_len=20000 \
    -artifact_prefix="$failed/" -print_final_stats=1 ${words:+$([ -e "$words" ] && echo "-dict=$words")} \
    "$found" "tests/fuzz/seeds/$1" "$failed" > "build/fuzz/$1.log" 2>&1
}
export -f fuzz
export seconds
say "fuzzing $# parsers, each for $seconds s (logs in build/fuzz)"
failures=0
while read -r status parser; do
  runs=$(grep -oE 'number_of_executed_units: [0-9]+' "build/fuzz/$parser.log" | grep -oE '[0-9]+$' || echo 0)
  if [ "$status" = 0 ]; then
    echo "$parser: $runs runs"
  else
    failures=$((failures + 1))
    echo "$parser: FAILED after $runs runs; the input is in build/fuzz/failed/$parser"
    grep -E -m1 '^(==[0-9]+==)? ?(ERROR|.*runtime error|.*contradicts)' "build/fuzz/$parser.log" || tail -n 5 "build/fuzz/$parser.log"
  fi
done < <(printf '%s\n' "$@" | xargs -P "$(nproc)" -I{} bash -c 'fuzz {} && echo 0 {} || echo 1 {}')
[ "$failures" = 0 ] || exit 1
