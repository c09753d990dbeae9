#!/usr/bin/env bash
# How to call make with each supported Python: a line each, `3.11 make ... PYTHON=/usr/bin/python3.11`.
#
# 3.14 and 3.15 come from a root of Debian testing where this system lacks them
# (TAUPY_CI_NEWER=0: without them). A Python that is not here is named on standard error.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The first interpreter of this version that runs (a shim of pyenv may only look like one).
find_python() {
  local version="$1" candidate
  for candidate in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
    if [ "$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" = "$version" ] &&
      "$candidate" -c 'import venv, ensurepip, sysconfig, os
os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
}

# Is there, or can there be, a root with 3.14 and 3.15? Asked once.
newer=""
has_newer() {
  if [ -z "$newer" ]; then
    [ "${TAUPY_CI_NEWER:-1}" != 0 ] && timeout 900 scripts/newer-pythons.sh true </dev/null >&2
    newer="$?"
  fi
  [ "$newer" -eq 0 ]
}

found=0
for version in 3.11 3.12 3.13 3.14 3.15; do
  python="$(find_python "$version")"
  if [ -n "$python" ]; then
    echo "$version make --no-print-directory PYTHON=$python"
  elif [[ "$version" = 3.1[45] ]] && has_newer; then
    echo "$version scripts/newer-pythons.sh make --no-print-directory PYTHON=python$version"
  else
    echo "Python $version is not here" >&2
    continue
  fi
  found=1
done
if [ "$found" -eq 0 ]; then
  echo "no Python from 3.11 to 3.15 found" >&2
  exit 1
fi
