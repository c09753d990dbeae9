#!/usr/bin/env bash
# Run a command in this checkout on a system with Python 3.14 and 3.15.
#
#   scripts/newer-pythons.sh make test PYTHON=python3.15
#
# For machines that lack these Pythons. The first call creates a root file system of Debian
# testing (about two minutes, 800 MB, in $TAUPY_NEWER_PYTHONS or ~/.cache/taupy/newer-pythons).
# The command runs in it by chroot, in the same folder; nothing stays mounted. It needs root,
# debootstrap (installed on demand on Debian) and Debian's packages; if these are missing, it
# prints the reason and exits with 75, "try again later".
set -euo pipefail

root="${TAUPY_NEWER_PYTHONS:-${XDG_CACHE_HOME:-$HOME/.cache}/taupy/newer-pythons}"
checkout="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
release=forky  # Debian testing of 2026
packages=gcc,libc6-dev,make,git,procps,ca-certificates
for version in 3.14 3.15; do
  packages+=",python$version,python$version-venv,python$version-dev"
done

unavailable() {
  echo "newer-pythons.sh: $1" >&2
  exit 75
}

# The mirror that this system's own packages come from.
mirror() {
  local uri
  uri="$(awk '/^URIs:/ {print $2; exit}' /etc/apt/sources.list.d/*.sources 2>/dev/null || true)"
  [ -n "$uri" ] || uri="$(awk '$1 == "deb" {print $2; exit}' /etc/apt/sources.list 2>/dev/null || true)"
  echo "${uri:-http://deb.debian.org/debian}"
}

make_root() {
  if ! command -v debootstrap >/dev/null; then
    { apt-get update -qq && apt-get install -y -qq debootstrap; } >/dev/null 2>&1 ||
      unavailable "debootstrap is missing and cannot be installed by apt-get"
  fi
  rm -rf "$root.new"
  mkdir -p "$root.new"
  echo "newer-pythons.sh: making a root of Debian $release in $root" >&2
  if ! debootstrap --variant=minbase --include="$packages" "$release" "$root.new" "$(mirror)" \
    /usr/share/debootstrap/scripts/sid >"$root.log" 2>&1; then
    tail -n 3 "$root.log" >&2
    rm -rf "$root.new"
    unavailable "Debian $release cannot be installed from $(mirror) (log: $root.log)"
  fi
  rm -rf "$root.new/var/cache/apt/archives"/*.deb "$root"
  mv "$root.new" "$root"
}

[ "$(id -u)" -eq 0 ] || unavailable "chroot needs root"
unshare --mount true 2>/dev/null || unavailable "mounts cannot be made here (unshare --mount)"
mkdir -p "$(dirname "$root")"
exec 9>"$root.lock"
flock 9
[ -x "$root/usr/bin/python3.14" ] && [ -x "$root/usr/bin/python3.15" ] || make_root

# Inside, pip uses the same servers as outside.
for file in /etc/resolv.conf /etc/pip.conf "${PIP_CONFIG_FILE:-}" "${PIP_CERT:-}" \
  "${SSL_CERT_FILE:-}" "${REQUESTS_CA_BUNDLE:-}"; do
  if [ -f "$file" ]; then
    mkdir -p "$root$(dirname "$file")"
    cp -L "$file" "$root$file"
  fi
done
flock -u 9
exec 9>&-

# In their own namespace, the mounts end with the command.
show='
  set -eu
  root=$1 checkout=$2 shared=$3
  shift 3
  for folder in /proc /sys /dev "$checkout" ${shared:+"$shared"}; do
    mkdir -p "$root$folder"
    mount --rbind "$folder" "$root$folder"
  done
  exec chroot "$root" sh -c "cd \"\$0\" && exec \"\$@\"" "$checkout" "$@"
'
exec env -u TMPDIR HOME=/root PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin \
  unshare --mount --propagation private sh -c "$show" - \
  "$root" "$checkout" "${TAUPY_SHARED_DATA:-}" "$@"
