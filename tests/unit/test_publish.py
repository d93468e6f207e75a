"""A published folder is there whole or not at all, and proves what it holds."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rlhf_pipeline.errors import CheckpointError, EnvironmentProblem
from rlhf_pipeline.publish import MANIFEST, publishing, sha256_of, verify, write_json, write_text


def publish(target: Path, **files: str) -> None:
    with publishing(target, {"stage": "sft", "seed": 7}) as folder:
        for name, text in files.items():
            path = folder / name.replace("__", "/")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "models" / "sft"


def test_the_folder_appears_complete_with_its_manifest(target: Path) -> None:
    publish(target, weights="abc", part__one="")
    assert names(target.parent) == ["sft"]
    assert json.loads((target / MANIFEST).read_text()) == {
        "manifest_version": 1,
        "stage": "sft",
        "seed": 7,
        "files": {
            # sha256("abc") is the first test vector of FIPS 180.
            "weights": {
                "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
                "bytes": 3,
            },
            "part/one": {"sha256": hashlib.sha256(b"").hexdigest(), "bytes": 0},
        },
    }


def test_nothing_is_seen_under_the_name_before_the_end(target: Path) -> None:
    with publishing(target, {}) as folder:
        (folder / "weights").write_text("abc")
        assert not target.exists()
        assert folder.parent == target.parent, "a rename needs the same file system"
    assert target.exists()


def test_a_failing_block_keeps_the_older_version_and_leaves_no_litter(target: Path) -> None:
    publish(target, weights="old")
    with pytest.raises(TypeError), publishing(target, {}) as folder:
        (folder / "weights").write_text(3)  # type: ignore[arg-type]
    assert (target / "weights").read_text() == "old"
    assert names(target.parent) == ["sft"]
    verify(target)


def test_a_newer_version_replaces_the_older_one_whole(target: Path) -> None:
    publish(target, weights="old", only_in_old="x")
    publish(target, weights="new")
    assert names(target) == [MANIFEST, "weights"]
    assert names(target.parent) == ["sft"]


def test_equal_work_gives_equal_bytes(target: Path, tmp_path: Path) -> None:
    publish(target, b="2", a="1")
    publish(tmp_path / "again", a="1", b="2")
    assert (target / MANIFEST).read_bytes() == (tmp_path / "again" / MANIFEST).read_bytes()


def test_a_full_disk_is_one_message_and_publishes_nothing(target: Path) -> None:
    publish(target, weights="old")
    with pytest.raises(EnvironmentProblem, match=f"the disk is full: {target} was not published"):  # noqa: SIM117
        with publishing(target, {}), open("/dev/full", "w") as full:
            full.write("x")
    assert (target / "weights").read_text() == "old"
    assert names(target.parent) == ["sft"]


def test_another_operating_system_error_is_not_called_a_full_disk(target: Path) -> None:
    with pytest.raises(FileNotFoundError), publishing(target, {}) as folder:
        (folder / "absent").read_text()


def test_a_folder_that_cannot_be_written_to_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file where the folder should be")
    with pytest.raises(EnvironmentProblem, match=r"cannot write to .*models"):
        publish(tmp_path / "models" / "sft", weights="x")


KILLED = """
import os, signal, sys
from pathlib import Path
from rlhf_pipeline import publish

target, last_call = Path(sys.argv[1]), sys.argv[2]
real = getattr(publish.os, "replace")
calls = 0

def replace(source, destination):
    global calls
    calls += 1
    if str(calls) == last_call:
        os.kill(os.getpid(), signal.SIGKILL)
    real(source, destination)

publish.os.replace = replace
with publish.publishing(target, {}) as folder:
    (folder / "weights").write_text("new")
    if last_call == "0":
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(
    ("last_call", "seen"),
    [("0", "old"), ("1", "old"), ("2", "old"), ("3", None), ("9", "new")],
    ids=["while writing", "before the manifest", "before the first rename", "between the renames", "never"],
)
def test_a_killed_process_leaves_the_old_or_the_new_version(
    target: Path, last_call: str, seen: str | None
) -> None:
    publish(target, weights="old")
    done = subprocess.run([sys.executable, "-c", KILLED, str(target), last_call], check=False, timeout=60)
    assert done.returncode == (0 if last_call == "9" else -signal.SIGKILL)
    if seen is None:
        assert not target.exists()
    else:
        assert (target / "weights").read_text() == seen
        verify(target)
    # The next run of the stage clears up, and brings back the version that the kill had put aside.
    with pytest.raises(RuntimeError, match="fails too"), publishing(target, {}):
        raise RuntimeError("fails too")
    assert names(target.parent) == ["sft"]
    assert (target / "weights").read_text() == (seen or "old")


def test_the_folder_of_a_living_process_is_left_alone(target: Path) -> None:
    other = target.with_name(f".sft.writing-{os.getppid()}")
    other.mkdir(parents=True)
    publish(target, weights="x")
    assert other.is_dir()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "weights").write_text("abd"), "weights does not match its sha256"),
        (lambda folder: (folder / "weights").write_text("ab"), "weights does not match its sha256"),
        (lambda folder: (folder / "weights").unlink(), "weights is listed in manifest.json but missing"),
        (lambda folder: (folder / "extra").write_text(""), "extra is not listed in manifest.json"),
        (lambda folder: (folder / MANIFEST).unlink(), "holds no manifest.json"),
        (lambda folder: (folder / MANIFEST).write_text("{"), "manifest.json is damaged"),
        (lambda folder: (folder / MANIFEST).write_text("[]"), "is damaged: it lists no files"),
        (
            lambda folder: (folder / MANIFEST).write_text('{"manifest_version": 1, "files": {"weights": 3}}'),
            "is damaged: an entry lacks its size or sha256",
        ),
        (
            lambda folder: (folder / MANIFEST).write_text('{"manifest_version": 2, "files": {}}'),
            "has format 2, expected 1",
        ),
    ],
)
def test_verify_names_what_is_damaged(target: Path, damage, message: str) -> None:
    publish(target, weights="abc")
    assert verify(target)["files"]["weights"]["bytes"] == 3
    damage(target)
    with pytest.raises(CheckpointError, match=message) as caught:
        verify(target)
    assert str(target) in str(caught.value)


def test_verify_of_a_folder_that_is_not_there(target: Path) -> None:
    with pytest.raises(CheckpointError, match=r"holds no manifest\.json"):
        verify(target)


def test_a_text_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "figures.json"
    write_json(path, {"b": 1, "a": "ä"})
    assert path.read_text(encoding="utf-8") == '{\n  "a": "\\u00e4",\n  "b": 1\n}\n'
    with pytest.raises(ValueError, match="Out of range float values"):
        write_json(path, {"a": float("nan")})
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "\ud800")
    assert '"b": 1' in path.read_text(encoding="utf-8")
    assert names(path.parent) == ["figures.json"]


def test_the_sha256_is_of_the_bytes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    assert sha256_of(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
