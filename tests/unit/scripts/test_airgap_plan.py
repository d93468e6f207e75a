"""What an air-gapped machine still needs, from small hand-made locks."""

from __future__ import annotations

import pytest

from scripts.airgap_plan import LOCK, frozen, locked, wanted

LINES = """torch==2.11.0 \\
    --hash=sha256:aa
triton==3.6.0 \\
    --hash=sha256:bb
numpy==2.3.5 \\
    --hash=sha256:cc
verl==0.9.1 ; python_full_version < '3.13' \\
    --hash=sha256:dd
networkx==3.6.1 ; python_full_version < '3.12' \\
    --hash=sha256:ee
networkx==3.7 ; python_full_version == '3.12.*' \\
    --hash=sha256:ff
"""


def test_carries_what_is_missing_and_keeps_the_large_packages_of_the_machine() -> None:
    there = frozen("torch==2.11.0+cu130\nnumpy==2.5.2\nnot a requirement\n")
    assert set(wanted(locked(LINES), there)) == {"verl", "networkx"}


def test_carries_everything_to_a_bare_machine_with_hashes_and_both_pythons() -> None:
    carried = wanted(locked(LINES), {})
    assert set(carried) == {"torch", "triton", "numpy", "verl", "networkx"}
    assert carried["networkx"].count("--hash") == 2


def test_refuses_a_machine_with_another_torch() -> None:
    with pytest.raises(SystemExit, match=r"torch 2\.10\.0, the lock needs 2\.11\.0"):
        wanted(locked(LINES), {"torch": "2.10.0"})


def test_the_projects_lock_has_what_the_pipeline_imports() -> None:
    names = locked(LOCK.read_text(encoding="utf-8"))
    assert {"verl", "vllm", "dvc", "prefect", "great-expectations", "trl", "gguf"} <= set(wanted(names, {}))
