"""A headless Chromium over its debugging protocol: open pages, click, type, wait, take pictures."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import Connection, connect

_NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((found for name in _NAMES if (found := shutil.which(name))), None)
# The visible element that carries exactly this text, the innermost one.
_FIND = """
(text) => [...document.querySelectorAll('button, a, [role=menuitem], [role=tab], label, span, div, li')]
    .filter(e => e.offsetParent !== null && e.textContent.trim() === text).pop()
"""


class Browser:
    """One page."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._number = connection, 0

    def open(self, url: str) -> None:
        self._send("Page.navigate", url=url)

    def text(self) -> str:
        """What a reader sees."""
        return str(self._evaluate("document.body ? document.body.innerText : ''"))

    def wait_for(self, *texts: str, timeout_s: float = 180.0) -> None:
        """Until the page shows all of the texts."""
        deadline = time.monotonic() + timeout_s
        while not all(text in (seen := self.text()) for text in texts):
            assert time.monotonic() < deadline, f"{texts} not within {timeout_s} s in:\\n{seen[:3000]}"
            time.sleep(0.3)

    def click(self, text: str, timeout_s: float = 90.0) -> None:
        """Click the element that carries this text, once it is there."""
        deadline = time.monotonic() + timeout_s
        while not self._evaluate(f"(e => e ? (e.click(), true) : false)(({_FIND})({json.dumps(text)}))"):
            assert time.monotonic() < deadline, f"nothing to click says {text!r} in:\\n{self.text()[:3000]}"
            time.sleep(0.3)

    def replace_text(self, selector: str, text: str) -> None:
        """Put the mouse into a text field, once it is there, and type over what it holds."""
        found = f"document.querySelector({json.dumps(selector)})"
        deadline = time.monotonic() + 30
        while not self._evaluate(f"!!{found}"):
            assert time.monotonic() < deadline, f"no {selector} in:\n{self.text()[:3000]}"
            time.sleep(0.2)
        middle = "(r => [r.x + r.width / 2, r.y + r.height / 2])"
        x, y = self._evaluate(f"{middle}({found}.getBoundingClientRect())")
        for kind in ("mousePressed", "mouseReleased"):
            self._send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self._evaluate("document.execCommand('selectAll')")
        self._send("Input.insertText", text=text)

    def picture(self, file: Path) -> None:
        """Save what is seen as PNG."""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(self._send("Page.captureScreenshot")["data"]))

    def _evaluate(self, expression: str) -> Any:
        found = self._send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def _send(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        self._connection.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            answer = json.loads(self._connection.recv(timeout=60))
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return dict(answer["result"])


@contextmanager
def browser(profile: Path, width: int = 1280, height: int = 1100) -> Iterator[Browser]:
    """Start Chromium with an empty profile; it ends with the block."""
    assert CHROMIUM is not None
    command = [
        CHROMIUM,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--hide-scrollbars",
    ]
    command += ["--disable-dev-shm-usage", "--remote-debugging-port=0", f"--user-data-dir={profile}"]
    command += [f"--window-size={width},{height}", "about:blank"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        port_file = profile / "DevToolsActivePort"
        deadline = time.monotonic() + 60
        while not (port_file.exists() and len(port_file.read_text().split()) == 2):
            assert time.monotonic() < deadline, "Chromium did not start"
            time.sleep(0.1)
        port, path = port_file.read_text().split()
        with connect(f"ws://127.0.0.1:{port}{path}", max_size=None) as root:
            root.send(json.dumps({"id": 1, "method": "Target.getTargets"}))
            targets = json.loads(root.recv())["result"]["targetInfos"]
            page = next(target["targetId"] for target in targets if target["type"] == "page")
        with connect(f"ws://127.0.0.1:{port}/devtools/page/{page}", max_size=None) as connection:
            yield Browser(connection)
    finally:
        process.terminate()
        process.wait(timeout=20)
