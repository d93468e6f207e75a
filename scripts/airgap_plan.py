"""Which pinned packages an air-gapped GPU machine still needs: requirements/gpu.lock minus what it has.

`python -m scripts.airgap_plan FREEZE > wanted.txt`, where FREEZE is the output of
`python3 -m pip list --format=freeze` on that machine. The output is a part of the lock, hashes
included. Reads no network and no environment but Python's own. Not here: downloading (airgap_pack.sh).
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

LOCK = Path(__file__).resolve().parent.parent / "requirements" / "gpu.lock"

# Taken from the machine in whatever version it has them: large, and used through stable interfaces.
# torch is not among them: it must be the lock's, because vLLM's kernels are built against it.
KEPT = re.compile(
    r"numpy|scipy|pandas|pyarrow|numba|llvmlite|opencv-python-headless|matplotlib|pillow|fonttools|grpcio"
    r"|sentencepiece|tiktoken|ninja|ml-dtypes|contourpy|kiwisolver|tensorboard.*|hf-xet|protobuf|networkx"
    r"|sympy|peft|accelerate"
)
# With the lock's torch on the machine, so are the CUDA libraries it loads.
WITH_TORCH = re.compile(r"torchvision|torchaudio|triton|nvidia-.*|cuda-.*")
# Kernels that a dense model on one kind of GPU does not load, and tools for working on the code.
UNUSED = re.compile(
    r"flashinfer-.*|tilelang|tokenspeed-.*|nvidia-cutlass-.*|quack-kernels|humming-kernels|torch-c-dlpack-ext"
    r"|z3-solver|cuda-tile|mypy|mypy-extensions|ast-serialize|librt|ruff|hypothesis|pandas-stubs|types-.*|pytest.*"
)


def locked(text: str) -> dict[str, tuple[str, str]]:
    """name -> (version, the requirement with its hashes), markers for other Pythons left to the installer."""
    entries: dict[str, tuple[str, str]] = {}
    for block in re.split(r"\n(?=\S)", text.strip()):
        if match := re.match(r"([A-Za-z0-9._-]+)==([^\s;]+)", block):
            name = _normal(match[1])
            entries[name] = (match[2], entries.get(name, ("", ""))[1] + block + "\n")
    return entries


def wanted(lock: dict[str, tuple[str, str]], there: dict[str, str]) -> dict[str, str]:
    """name -> requirement for everything to carry.

    Raises:
        SystemExit: when the machine has another torch than the lock.
    """
    torch = lock["torch"][0]
    if there.get("torch", torch).partition("+")[0] != torch:
        raise SystemExit(f"error: the machine has torch {there['torch']}, the lock needs {torch}")
    with_torch = "torch" in there
    return {
        name: requirement
        for name, (version, requirement) in lock.items()
        if not UNUSED.fullmatch(name)
        and there.get(name, "").partition("+")[0] != version
        and not (name in there and KEPT.fullmatch(name))
        and not (with_torch and WITH_TORCH.fullmatch(name))
    }


def frozen(text: str) -> dict[str, str]:
    """name -> version, from pip's freeze format."""
    pairs = (line.strip().split("==", 1) for line in text.splitlines() if "==" in line)
    return {_normal(name): version for name, version in pairs}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> int:
    there = frozen(Path(sys.argv[1]).read_text(encoding="utf-8"))
    lock = locked(LOCK.read_text(encoding="utf-8"))
    carried = wanted(lock, there)
    sys.stdout.write("".join(carried.values()))
    for name in sorted(lock.keys() & there.keys() - carried.keys()):
        if there[name].partition("+")[0] != lock[name][0]:
            print(f"taken from the machine: {name} {there[name]} (lock: {lock[name][0]})", file=sys.stderr)
    print(f"{len(carried)} of {len(lock)} locked packages to carry", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
