#!/bin/sh
# Runs one stage for DVC with the environment's Python and this workspace's code, also when the environment
# is not activated (`.venv/bin/dvc repro`) and in a workspace of DVC's own (`dvc exp run --temp`, where
# DVC_ROOT is the repository). By hand: python -m stages.NAME
set -eu
found=$(command -v python || true)
if [ -n "${RLHF_PYTHON:-}" ]; then
    python=$RLHF_PYTHON
elif [ -n "$found" ] && [ -x "$(dirname "$found")/dvc" ]; then
    python=$found
elif [ -x .venv/bin/python ]; then
    python=.venv/bin/python
elif [ -x "${DVC_ROOT:-.}/.venv/bin/python" ]; then
    python=$DVC_ROOT/.venv/bin/python
else
    echo "error: no Python with this pipeline's packages: run make setup, or activate your environment" >&2
    exit 2
fi
PYTHONPATH="$PWD/src${PYTHONPATH:+:$PYTHONPATH}"
export PYTHONPATH
exec "$python" -m "stages.$1"
