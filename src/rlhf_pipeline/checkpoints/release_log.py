"""The version log of released policies as plain values: which there are, which one is promoted, and why.

One record, replaced whole, is pointer and history at once, so they cannot disagree. Files are release.py's
job.
"""

from __future__ import annotations

from typing import Literal

from .record_file import Record, VersionedRecord

FORMAT_VERSION = 1


class Version(Record):
    """One policy that was promoted at some time."""

    id: str
    """v<number>-<first 8 hex digits of its manifest's sha256>."""
    manifest_sha256: str
    promoted_at: str
    """UTC, ISO 8601."""
    metrics: dict[str, float]
    git_commit: str | None
    """Commit of the workspace, where there is one."""
    has_dvc_lock: bool
    """Whether the dvc.lock of that moment is kept beside it."""
    size_bytes: int
    made_in: str | None = None
    """Workspace it was made in, relative to the main one; None in records of older versions."""
    params_sha256: str | None = None
    """sha256 of the params.yaml kept beside it."""
    kept: bool
    """False once pruned: the record stays, the files are gone."""


class Move(Record):
    """One change of the pointer."""

    time: str
    kind: Literal["promote", "rollback"]
    from_id: str | None
    to_id: str
    reason: str


class ReleaseLog(VersionedRecord):
    """All versions, oldest first, and all moves in order."""

    versions: tuple[Version, ...]
    moves: tuple[Move, ...]

    @property
    def current(self) -> Version | None:
        """The promoted version."""
        return self.version(self.moves[-1].to_id) if self.moves else None

    def version(self, identifier: str) -> Version | None:
        """A version by its id, or by its number alone (v3)."""
        for version in self.versions:
            if identifier in (version.id, version.id.partition("-")[0]):
                return version
        return None

    def kept_with(self, manifest_sha256: str) -> Version | None:
        """The kept version with exactly this content."""
        same = (
            version
            for version in self.versions
            if version.kept and version.manifest_sha256 == manifest_sha256
        )
        return next(same, None)

    def with_move(self, move: Move) -> ReleaseLog:
        """The log after a move."""
        return self.model_copy(update={"moves": (*self.moves, move)})

    def with_version(self, version: Version) -> ReleaseLog:
        """The log with a version added, or replaced by id."""
        others = tuple(other for other in self.versions if other.id != version.id)
        together = sorted((*others, version), key=number_of)
        return self.model_copy(update={"versions": tuple(together)})

    def next_number(self) -> int:
        """The number of the next new version; numbers are never used again."""
        return 1 + max((number_of(version) for version in self.versions), default=0)

    def prunable(self, keep_newest: int) -> list[Version]:
        """Kept versions but the promoted one and the `keep_newest` most recently promoted besides it."""
        current = self.current
        last_use = {move.to_id: place for place, move in enumerate(self.moves)}
        others = [version for version in self.versions if version.kept and version != current]
        others.sort(key=lambda version: last_use.get(version.id, -1), reverse=True)
        return others[keep_newest:]


def number_of(version: Version) -> int:
    """The number in a version's id."""
    return int(version.id.partition("-")[0].removeprefix("v"))
