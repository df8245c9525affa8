#!/usr/bin/env bash
# The tests as other machines run them, in an environment that has hierbench[test,train]: a line for each run, and the failures;
# ends with status 1 where one failed. Without arguments the numerical tests, with three kinds of kernels, one thread and two.
# `--whole`: the committed tree's whole suite, too, without and with ../shared, and without and with the WordNet 3.0 files of
# the folder WORDNET (a machine on which they are installed cannot do without).
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

try() { # what is tried, then the command
  local told="$1"; shift
  if "$@" >"$work/log" 2>&1; then status=ok; else status=FAILED; failed=1; grep -E "^(FAILED|ERROR)" "$work/log"; fi
  printf '%-60s %-7s %s\n' "$told" "$status" "$(tail -n 1 "$work/log")"
}

for kernels in native avx2 default; do
  for threads in 1 2; do
    try "numerical tests, $kernels kernels, $threads thread(s)" "$root/.ci/numerical" "$kernels" "$threads"
  done
done

[ "${1:-}" = --whole ] || exit "$failed"

git clone -q "$root" "$work/checkout" || exit 1
cd "$work/checkout" || exit 1
export PYTHONPATH="$PWD"
for shared in without with; do
  [ "$shared" = without ] || ln -s "$(cd "$root/../shared" && pwd)" "$work/shared" || continue
  try "whole suite, $shared ../shared, no WordNet named" python -m pytest -q
  [ -z "${WORDNET:-}" ] || try "whole suite, $shared ../shared, with WordNet" env WNSEARCHDIR="$WORDNET" python -m pytest -q
done
for kernels in avx2 default; do
  try "whole suite, $kernels kernels, two threads" env ATEN_CPU_CAPABILITY=$kernels HIERBENCH_TEST_THREADS=2 python -m pytest -q
done
exit "$failed"
