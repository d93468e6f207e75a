#!/usr/bin/env bash
# Rebuilds every lock in requirements/ from pyproject.toml: pinned, hashed, for Linux on x86_64 and
# aarch64, Python 3.11 and 3.12, without the address of any package index. Existing pins are kept
# where they still fit; UPGRADE=1 takes the newest that do.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
uv=${VENV:-.venv}/bin/uv
[ -x "$uv" ] || uv=uv

compile() {
  local target=$1
  shift
  "$uv" pip compile --quiet ${UPGRADE:+--upgrade} --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-header --no-annotate "$@" --output-file "requirements/$target.lock"
  echo "requirements/$target.lock: $(grep -c '==' "requirements/$target.lock") packages"
}

compile bootstrap requirements/bootstrap.in
compile cpu pyproject.toml --extra cpu --extra dev --override requirements/overrides.txt
compile gpu pyproject.toml --extra gpu --extra dev
