#!/usr/bin/env bash
# Makes the environment from airgap_pack.sh's parts on a machine without network.
#
#   scripts/airgap_install.sh PARTS [VENV]     (PYTHON=<interpreter>, default python3)
#
# PARTS is the folder that holds site.tar.xz.* and site.sha256. VENV (default .venv) is made anew: its own
# packages come first, what PYTHON has (torch and its CUDA libraries) after them. Needs xz, tar and a
# Python of the packed version; nothing outside VENV is written but byte code beside PYTHON's packages.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset PYTHONDONTWRITEBYTECODE # byte code halves every start; some images turn it off
parts=${1:?usage: scripts/airgap_install.sh PARTS [VENV]} venv=$(realpath -m "${2:-.venv}")
python=${PYTHON:-python3}
fail() { echo "error: $*" >&2; exit 2; }
[ -f "$parts/site.sha256" ] || fail "$parts holds no site.sha256; copy every part of airgap_pack.sh's folder there"
[ ! -e "$venv" ] || fail "$venv exists; remove it first"

began=$SECONDS
found=$(cat "$parts"/site.tar.xz.* | sha256sum | cut -d' ' -f1)
[ "$found" = "$(cat "$parts/site.sha256")" ] || fail "the parts in $parts do not add up to the packed archive; one is missing or damaged"
"$python" -m venv --without-pip "$venv"
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cat "$parts"/site.tar.xz.* | xz -dc -T0 | tar -xf - -C "$site"
echo "airgap: unpacked $(du -sm "$site" | cut -f1) MB in $((SECONDS - began)) s"

# What PYTHON has stays reachable, after our own packages.
"$python" -c 'import site; print("\n".join(site.getsitepackages()))' >"$site/zz_base.pth"
for script in "$site"/bin/*; do
  if head -c 2 "$script" | grep -q '#!'; then sed -i "1s|^#!.*python.*|#!$venv/bin/python|" "$script"; fi
  mv "$script" "$venv/bin/"
done
"$venv/bin/python" -c 'import setuptools, sys; sys.exit(setuptools.__version__ < "77")' || fail "setuptools is missing from the parts"
"$python" -m pip --python "$venv/bin/python" install -q --disable-pip-version-check --no-index --no-deps --no-build-isolation -e .
"$python" -m compileall -q -j 0 "$site" >/dev/null 2>&1 || true # files for other Pythons do not compile
"$python" -m compileall -q -j 0 $("$python" -c 'import site; print(*site.getsitepackages())') >/dev/null 2>&1 || true
"$venv/bin/python" -c 'from rlhf_pipeline.backend.versions import check_versions; check_versions()' || fail "verl or vLLM is not the packed one"
echo "airgap: ready in $((SECONDS - began)) s: $venv"
