"""Releases: one pointer with a history, verified, linked, prunable, and out of DVC's way."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlhf_pipeline.checkpoints import links
from rlhf_pipeline.checkpoints.lock import FolderLock
from rlhf_pipeline.checkpoints.release import Releases
from rlhf_pipeline.checkpoints.release_rule import compare
from rlhf_pipeline.errors import CheckpointError
from rlhf_pipeline.publish import publishing, sha256_of, verify

WEIGHTS_BYTES = links.ALWAYS_COPIED_BYTES + 7


@pytest.fixture
def policy(tmp_path: Path):
    """Publishes models/policy with the given content, as the ppo stage does."""

    def publish(content: str) -> Path:
        with publishing(tmp_path / "models" / "policy", {"stage": "ppo"}) as folder:
            (folder / "config.json").write_text(json.dumps({"name": content}))
            (folder / "model.safetensors").write_bytes(content.encode().ljust(WEIGHTS_BYTES, b"."))
        return tmp_path / "models" / "policy"

    return publish


@pytest.fixture
def releases(tmp_path: Path) -> Releases:
    return Releases(tmp_path)


def name_of(link: Path) -> str:
    return json.loads((link / "config.json").read_text())["name"]


def test_promote_twice_and_go_back(releases, policy):
    assert releases.current() is None
    first = releases.promote(policy("first"), {"gold": 0.5, "nan": float("nan")}, reason="better than SFT")
    second = releases.promote(policy("second"), {"gold": 0.6}, scores_by_prompt={"p": 1.0})
    assert (first.id[:3], second.id[:3]) == ("v1-", "v2-")
    assert first.metrics == {"gold": 0.5}
    assert name_of(releases.link) == "second"
    back = releases.restore("v1", "gold fell")
    assert back == first == releases.current()
    assert name_of(releases.link) == "first"
    assert verify(releases.link)["stage"] == "ppo"
    moves = [(move.kind, move.from_id, move.to_id, move.reason) for move in releases.log().moves]
    assert moves == [
        ("promote", None, first.id, "better than SFT"),
        ("promote", first.id, second.id, ""),
        ("rollback", second.id, first.id, "gold fell"),
    ]


def test_the_same_content_is_one_version(releases, policy):
    first = releases.promote(policy("first"), {})
    assert releases.promote(policy("first"), {}) == first
    assert len(releases.log().moves) == 1
    releases.promote(policy("second"), {})
    assert releases.promote(policy("first"), {}) == first
    assert [version.id[:2] for version in releases.log().versions] == ["v1", "v2"]
    assert releases.current() == first


def test_restoring_the_promoted_policy_proves_it_and_mends_the_link(releases, policy):
    first = releases.promote(policy("first"), {})
    releases.link.unlink()
    assert releases.restore(reason="confirmed drop") == first
    assert name_of(releases.link) == "first"
    assert releases.log().moves[-1].reason == "confirmed drop"


def test_versions_outlive_the_policy_they_came_from(releases, policy):
    folder = policy("first")
    version = releases.promote(folder, {})
    kept = releases.policy_of(version)
    assert (kept / "config.json").stat().st_ino != (folder / "config.json").stat().st_ino
    (folder / "config.json").write_text("{}")
    policy("second")
    releases.restore()
    assert name_of(releases.link) == "first"


def test_a_damaged_version_is_refused_and_the_pointer_stays(releases, policy):
    first = releases.promote(policy("first"), {})
    second = releases.promote(policy("second"), {})
    (releases.policy_of(first) / "config.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"config.json does not match its sha256"):
        releases.restore("v1")
    assert releases.current() == second


def test_what_cannot_be_promoted_or_restored_is_refused(releases, policy, tmp_path):
    with pytest.raises(CheckpointError, match="nothing to go back to"):
        releases.restore()
    (tmp_path / "loose").mkdir()
    with pytest.raises(CheckpointError, match="only published folders"):
        releases.promote(tmp_path / "loose", {})
    folder = policy("first")
    (folder / "model.safetensors").write_bytes(b"changed after publishing")
    with pytest.raises(CheckpointError, match=r"model.safetensors does not match"):
        releases.promote(folder, {})
    assert releases.log().versions == ()
    releases.promote(policy("second"), {})
    assert list((releases.folder / "versions").iterdir()) == [
        releases.folder / "versions" / releases.current().id
    ]
    with pytest.raises(CheckpointError, match=r"no version 'v9'; kept versions: v1-"):
        releases.restore("v9")


def test_a_folder_in_the_links_place_is_not_overwritten(releases, policy):
    releases.link.mkdir(parents=True)
    with pytest.raises(CheckpointError, match="move it away"):
        releases.promote(policy("first"), {})


def test_pruning_keeps_the_promoted_and_the_last_used(releases, policy):
    versions = [releases.promote(policy(name), {}) for name in ("a", "b", "c", "d")]
    releases.restore("v1")
    assert [version.id for version in releases.prune(1)] == [versions[2].id, versions[1].id]
    assert sorted(path.name[:2] for path in (releases.folder / "versions").iterdir()) == ["v1", "v4"]
    with pytest.raises(CheckpointError, match="was pruned; its record is kept"):
        releases.restore("v2")
    assert releases.promote(policy("e"), {}).id.startswith("v5-")


def test_another_process_is_waited_for_then_refused(releases, policy, monkeypatch):
    monkeypatch.setattr("rlhf_pipeline.checkpoints.release.LOCK_TIMEOUT_S", 0.1)
    folder = policy("first")
    with FolderLock(releases.folder), pytest.raises(CheckpointError, match="in use by process"):
        releases.promote(folder, {})


def test_large_files_are_linked_where_the_disk_can(tmp_path, monkeypatch):
    source = tmp_path / "big"
    source.write_bytes(b"x" * WEIGHTS_BYTES)
    how = links.link_or_copy(source, tmp_path / "one")
    assert how in ("reflink", "hardlink")
    assert ((tmp_path / "one").stat().st_ino == source.stat().st_ino) == (how == "hardlink")

    def refuse(*_):
        raise OSError(errno.EXDEV, "another disk")

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(links, "_reflink", lambda *_: False)
    assert links.link_or_copy(source, tmp_path / "two") == "copy"
    assert (tmp_path / "two").read_bytes() == source.read_bytes()
    (tmp_path / "alias").symlink_to(source)
    links.link_or_copy(tmp_path / "alias", tmp_path / "three")
    assert not (tmp_path / "three").is_symlink()


def test_git_commit_and_dvc_lock_are_recorded_where_they_are(releases, policy, tmp_path):
    assert releases.promote(policy("first"), {}).git_commit is None
    (tmp_path / "dvc.lock").write_text("schema: '2.0'\n")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    version = releases.promote(policy("second"), {})
    assert len(version.git_commit) == 40
    assert version.has_dvc_lock
    kept = releases.folder / "versions" / version.id / "dvc.lock"
    assert kept.read_text() == "schema: '2.0'\n"


def test_where_and_with_which_params_a_version_was_made_is_recorded(releases, policy, tmp_path):
    assert releases.promote(policy("first"), {}).params_sha256 is None
    own = tmp_path / "experiments" / "long"
    own.mkdir(parents=True)
    (own / "params.yaml").write_text("seed: 8\n")
    version = releases.promote(policy("second"), {}, made_in=own)
    assert version.made_in == "experiments/long"
    assert version.params_sha256 == sha256_of(own / "params.yaml")
    assert (releases.folder / "versions" / version.id / "params.yaml").read_text() == "seed: 8\n"


@pytest.mark.slow
def test_promoting_and_restoring_leave_dvc_with_nothing_to_do(releases, tmp_path):
    """A real DVC stage makes models/policy; promoting, restoring and dvc gc change nothing for it."""
    script = (
        "from pathlib import Path; from rlhf_pipeline.publish import publishing\n"
        "with publishing(Path('models/policy'), {}) as folder:\n"
        f"    (folder / 'model.safetensors').write_bytes(Path('data.txt').read_bytes() * {WEIGHTS_BYTES})\n"
    )
    (tmp_path / "make.py").write_text(script)
    (tmp_path / "data.txt").write_text("a")
    (tmp_path / "dvc.yaml").write_text(
        f"stages:\n  ppo:\n    cmd: {sys.executable} make.py\n"
        "    deps: [data.txt]\n    outs: [models/policy]\n"
    )

    def dvc(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "dvc", *command], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout

    dvc("init", "--no-scm", "-q")
    dvc("repro", "-q")
    first = releases.promote(tmp_path / "models" / "policy", {})
    assert "up to date" in dvc("status")
    assert "up to date" in dvc("repro")
    (tmp_path / "data.txt").write_text("b")
    dvc("repro", "-q")
    releases.promote(tmp_path / "models" / "policy", {})
    dvc("gc", "-w", "-f", "-q")
    assert releases.restore("v1") == first
    assert (releases.link / "model.safetensors").read_bytes()[:3] == b"aaa"
    assert "up to date" in dvc("status")


def test_compare_promotes_unless_a_drop_is_confirmed():
    prompts = [f"p{number}" for number in range(200)]
    promoted = {prompt: 1.0 if number < 120 else 0.0 for number, prompt in enumerate(prompts)}

    def scores(right: int) -> dict[str, float]:
        return {prompt: 1.0 if number < right else 0.0 for number, prompt in enumerate(prompts)}

    better = compare(scores(130), promoted, 0.05)
    assert (better.verdict, better.new_score, better.promoted_score) == ("promote", 0.65, 0.6)
    assert better.sentence == (
        "new policy 0.650, promoted policy 0.600 (+8.3%): no drop over 5% on 200 prompts"
    )
    slightly = compare(scores(112), promoted, 0.05)
    assert slightly.verdict == "promote"
    assert "no confirmed drop" in slightly.sentence
    assert compare(scores(112), promoted, 0.05, confirm="none").verdict == "rollback"
    much = compare(scores(60), promoted, 0.05)
    assert (much.verdict, much.drop) == ("rollback", pytest.approx(0.5))
    assert much.upper_bound < 0
    broken = compare(dict.fromkeys(prompts, float("nan")), promoted, 0.05)
    assert (broken.verdict, broken.new_score) == ("rollback", 0.0)
    assert compare(scores(0), dict.fromkeys(prompts, 0.0), 0.05).verdict == "promote"
    with pytest.raises(ValueError, match="same prompts"):
        compare({"x": 1.0}, promoted, 0.05)
