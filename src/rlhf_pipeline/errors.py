"""The errors a user can meet, on one screen, and the one door through which a command line ends.

Each error is one message that says what is wrong, where, what was found, what was expected and
what to change. All are picklable (Ray sends them between processes). Not here: programming
errors, which keep their traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

USER_ERROR_EXIT_CODE = 2
INTERRUPTED_EXIT_CODE = 130


class PipelineError(Exception):
    """Something the user can put right; ends the command with exit code 2 and no traceback."""


class ParamsError(PipelineError, ValueError):
    """params.yaml is malformed, or a key is unknown, missing, mistyped or out of range."""


class DataError(PipelineError, ValueError):
    """A data file or row does not hold what its stage needs."""


class EnvironmentProblem(PipelineError, RuntimeError):
    """The machine lacks something: a package version, a free port, disk, memory, a GPU."""


class StageError(PipelineError, RuntimeError):
    """A stage ran and did not reach what it must (a gate missed, a child process died)."""


class CheckpointError(PipelineError, RuntimeError):
    """A checkpoint or ledger is missing, damaged or belongs to another configuration."""


def main(command: Callable[[], int | None]) -> int:
    """Run a command line and turn the user's errors into one message on stderr.

    Returns the process exit code: 0, 2 for a `PipelineError`, 130 after Ctrl-C.
    """
    from .orphans import follow_dvc

    follow_dvc()
    try:
        return command() or 0
    except PipelineError as error:
        print(f"error: {error}", file=sys.stderr)
        return USER_ERROR_EXIT_CODE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED_EXIT_CODE
