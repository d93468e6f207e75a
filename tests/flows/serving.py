"""`make ui` for a test, started in the current workspace and ended with the block; what a user does on it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from flows.server import free_port

from .browser import Browser
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


def picture(page: Browser, name: str) -> None:
    if folder := os.environ.get("RLHF_SCREENSHOTS"):
        page.picture(Path(folder) / f"{name}.png")


def open_deployment(page: Browser, served: Served, name: str) -> None:
    page.open(f"{served.url}/deployments")
    page.wait_for(name)
    page.click(name)
    page.wait_for("Entrypoint")
    page.click("Run")


def override(page: Browser, values: str) -> None:
    """Ask for a custom run with these overrides, on the page of its deployment."""
    page.click("Custom run")
    page.wait_for("params by their dotted keys")
    page.click("dict")
    page.replace_text(".schema-form-property-kind-json", values)
    picture(page, "override")
    page.click("Submit")
