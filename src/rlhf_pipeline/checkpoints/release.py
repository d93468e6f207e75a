"""Promoted policies: promote, restore, list, prune.

Versions lie in .rlhf/releases/versions/<id>/, linked where the file system can, outside everything DVC
knows; models/policy stays what the ppo stage made, so neither promoting nor restoring makes a stage
run again. The pointer is in releases.json; models/promoted is a link to it for people and servers.
Whether a policy is good enough is release_rule.py's question.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from .. import paths
from ..errors import CheckpointError
from ..publish import MANIFEST, files_below, sha256_of, sync_folder, sync_tree, verify, write_json
from .code import git_commit
from .disk import folder_bytes, writing
from .links import link_or_copy
from .lock import FolderLock
from .record_file import read_record, write_record
from .release_log import FORMAT_VERSION, Move, ReleaseLog, Version

LOG_FILE = "releases.json"
LOCK_TIMEOUT_S = 60.0
SCORES = "scores.json"
DVC_LOCK = "dvc.lock"


class Releases:
    """The released policies of a workspace. Every method that writes takes the lock, and waits for it."""

    def __init__(self, workspace: Path | None = None) -> None:
        self.workspace = workspace or paths.workspace()
        self.folder = self.workspace / paths.RELEASES
        self.link = self.workspace / paths.PROMOTED

    # ---- reading, without the lock

    def log(self) -> ReleaseLog:
        """All versions and moves.

        Raises:
            CheckpointError: releases.json is damaged beyond its copy.
        """
        log, _ = read_record(
            self.folder / LOG_FILE,
            ReleaseLog,
            FORMAT_VERSION,
            f"or delete {self.folder} to begin a new history",
        )
        return log or ReleaseLog(format_version=FORMAT_VERSION, versions=(), moves=())

    def current(self) -> Version | None:
        """The promoted version, or None before the first promotion."""
        return self.log().current

    def policy_of(self, version: Version) -> Path:
        """The folder of a version's policy (Hugging Face files and manifest.json)."""
        return self._place(version.id) / "policy"

    def find(self, identifier: str) -> Version:
        """A version by id or number (v3-1a2b3c4d or v3) whose files are kept.

        Raises:
            CheckpointError: there is none, or it was pruned.
        """
        log = self.log()
        version = log.version(identifier)
        if version is None:
            known = ", ".join(version.id for version in log.versions if version.kept) or "none"
            raise CheckpointError(f"there is no version {identifier!r}; kept versions: {known}")
        if not version.kept:
            raise CheckpointError(f"version {version.id} was pruned; its record is kept, its files are not")
        return version

    # ---- moving the pointer

    def promote(
        self,
        policy: Path,
        metrics: Mapping[str, float],
        *,
        scores_by_prompt: Mapping[str, float] | None = None,
        reason: str = "",
        made_in: Path | None = None,
    ) -> Version:
        """Keep a policy folder as a version and make it the promoted one; equal content is one version.

        Args:
            policy: a published folder with its manifest, such as models/policy. It is only read.
            metrics: flat figures to show beside the version; values that are not finite are left out.
            scores_by_prompt: kept beside it.
            made_in: workspace whose params.yaml, dvc.lock and git commit are recorded; default: this one.

        Raises:
            CheckpointError: the folder does not match its manifest, or another process holds the releases.
            EnvironmentProblem: the disk is full or read-only; what was promoted before still is.
        """
        with self._locked(f"promoting {policy}"):
            if not (policy / MANIFEST).is_file():
                raise CheckpointError(f"{policy} holds no {MANIFEST}: only published folders can be promoted")
            manifest_sha256 = sha256_of(policy / MANIFEST)
            log = self.log()
            version = log.kept_with(manifest_sha256)
            if version is None:
                source = made_in or self.workspace
                version = self._take_in(policy, source, log, manifest_sha256, metrics, scores_by_prompt)
                log = log.with_version(version)
            else:
                verify(self.policy_of(version))
                if version == log.current:
                    return version
            self._move(log, "promote", version, reason)
            return version

    def restore(self, identifier: str | None = None, reason: str = "") -> Version:
        """Make an earlier version the promoted one, or prove and re-link the one that is; takes seconds.

        Args:
            identifier: id or number; None for the promoted version.

        Raises:
            CheckpointError: there is no such version, or a file of it does not match its manifest.
        """
        with self._locked("restoring a release"):
            version = self.current() if identifier is None else self.find(identifier)
            if version is None:
                raise CheckpointError("no policy was ever promoted; there is nothing to go back to")
            verify(self.policy_of(version))
            if sha256_of(self.policy_of(version) / MANIFEST) != version.manifest_sha256:
                raise CheckpointError(
                    f"{self.policy_of(version) / MANIFEST} is not the one that was promoted"
                )
            self._move(self.log(), "rollback", version, reason)
            return version

    def prune(self, keep_newest: int) -> list[Version]:
        """Delete the files of all but the promoted version and the `keep_newest` last promoted besides it."""
        with self._locked("pruning releases"):
            log = self.log()
            gone = log.prunable(keep_newest)
            for version in gone:
                log = log.with_version(version.model_copy(update={"kept": False}))
            if gone:
                write_record(self.folder / LOG_FILE, log)
                self._mend()
            return gone

    # ---- inside

    def _place(self, name: str) -> Path:
        return self.folder / "versions" / name

    @contextmanager
    def _locked(self, what: str) -> Iterator[None]:
        with FolderLock(self.folder, LOCK_TIMEOUT_S), writing(what):
            self._mend()
            yield

    def _take_in(
        self,
        policy: Path,
        made_in: Path,
        log: ReleaseLog,
        manifest_sha256: str,
        metrics: Mapping[str, float],
        scores_by_prompt: Mapping[str, float] | None,
    ) -> Version:
        """Link a policy into a version folder of its own and verify that; the log is left to the caller."""
        work = self._place(f".writing-{os.getpid()}")
        target = work / "policy"
        for source in [*files_below(policy), policy / MANIFEST]:
            copy = target / source.relative_to(policy)
            copy.parent.mkdir(parents=True, exist_ok=True)
            link_or_copy(source, copy)
        verify(target)
        if scores_by_prompt is not None:
            write_json(work / SCORES, dict(scores_by_prompt))
        dvc_lock = made_in / DVC_LOCK
        params = made_in / paths.PARAMS
        for record in (dvc_lock, params):
            if record.is_file():
                shutil.copyfile(record, work / record.name)
        sync_tree(target)
        sync_folder(work)
        version = Version(
            id=f"v{log.next_number()}-{manifest_sha256[:8]}",
            manifest_sha256=manifest_sha256,
            promoted_at=_now(),
            metrics={name: float(value) for name, value in metrics.items() if value - value == 0},
            git_commit=git_commit(made_in),
            has_dvc_lock=dvc_lock.is_file(),
            made_in=os.path.relpath(made_in, self.workspace),
            params_sha256=sha256_of(params) if params.is_file() else None,
            size_bytes=folder_bytes(work),
            kept=True,
        )
        os.replace(work, self._place(version.id))
        sync_folder(self._place(version.id).parent)
        return version

    def _move(
        self, log: ReleaseLog, kind: Literal["promote", "rollback"], version: Version, reason: str
    ) -> None:
        """Write the pointer: from here on `version` is promoted, and the link follows."""
        from_id = log.current.id if log.current else None
        move = Move(time=_now(), kind=kind, from_id=from_id, to_id=version.id, reason=reason)
        write_record(self.folder / LOG_FILE, log.with_move(move))
        self._point_link()

    def _mend(self) -> None:
        """Remove what a kill left behind, and let the link follow the pointer."""
        for path in self.folder.glob(".*.writing-*"):
            path.unlink()
        kept = {version.id for version in self.log().versions if version.kept}
        for path in self._place("").glob("*"):
            if path.name not in kept:
                shutil.rmtree(path)
        self._point_link()

    def _point_link(self) -> None:
        current = self.current()
        if current is None:
            return
        if self.link.exists() and not self.link.is_symlink():
            raise CheckpointError(
                f"{self.link} is in the way: it must be a link that this pipeline sets; move it away"
            )
        goal = os.path.relpath(self.policy_of(current), self.link.parent)
        if self.link.is_symlink() and os.readlink(self.link) == goal:
            return
        self.link.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.link.with_name(f".{self.link.name}.link")
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(goal)
        os.replace(temporary, self.link)
        sync_folder(self.link.parent)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
