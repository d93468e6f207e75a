"""`make ui` for a test: started in the current workspace, ended with the block."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from flows.server import free_port

from .cheap import python
from .prefect_api import Prefect, eventually


@dataclass
class Served:
    """A running `make ui`."""

    process: subprocess.Popen[str]
    prefect: Prefect
    reports: str

    @property
    def url(self) -> str:
        """Of the pages."""
        return self.prefect.url.removesuffix("/api")


@contextmanager
def serving() -> Iterator[Served]:
    port = free_port()
    process = python("-m", "flows.serve", "--port", str(port))
    assert process.stdout is not None
    try:
        said = [process.stdout.readline() for _ in range(3)]
        assert said[0] == f"Prefect: http://127.0.0.1:{port}\n"
        prefect = Prefect(f"http://127.0.0.1:{port}/api")
        eventually(lambda: len(prefect.deployments()) == 4, what="deployments registered")
        yield Served(process, prefect, said[1].split()[1].removesuffix("/reports/report.html"))
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
