"""The page in a real browser, where one is installed: search, filter, order, pointer, and a phone's width."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rlhf_pipeline.params import load
from rlhf_pipeline.report.inputs import read_inputs
from rlhf_pipeline.report.page import render

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium here")

PROBE = """
<script>
const q = (selector) => document.querySelector(selector), said = [];
const shown = () => [...document.querySelectorAll("#sample-list .sample")].filter((node) => !node.hidden);
const set = (id, value, kind) => { q(id).value = value; q(id).dispatchEvent(new Event(kind)); };
said.push(`all ${shown().length}`);
set("#search", "KETTLE after", "input");
said.push(`search ${shown().length}`);
set("#search", "", "input");
set("#filter", "down", "change");
said.push(`worse ${shown().map((node) => node.dataset.gain)}`);
set("#filter", "", "change");
set("#order", "gain", "change");
said.push(`order ${shown().map((node) => node.dataset.gain)}`);
const chart = q("svg[data-series]"), box = chart.getBoundingClientRect();
chart.dispatchEvent(new PointerEvent("pointermove", { clientX: box.right - 5, clientY: box.top + 20 }));
said.push(`tip ${q("#tip").textContent.replace("\\n", ", ")}`);
said.push(`overflow ${document.documentElement.scrollWidth > innerWidth}`);
parent.postMessage(said.join("; "), "*");
</script></body>"""
FRAME = """<!doctype html><iframe src="page.html" style="width:390px;height:900px"></iframe>
<script>onmessage = (event) => { document.title = event.data; };</script>"""


def test_page_works_at_the_width_of_a_phone(workspace: Any) -> None:
    Path("page.html").write_text(render(read_inputs(), load()).replace("</body>", PROBE))
    Path("frame.html").write_text(FRAME)
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000", "--dump-dom"]
    profile = f"--user-data-dir={workspace / 'profile'}"
    done = subprocess.run(
        [str(BROWSER), *options, profile, (workspace / "frame.html").as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    title = re.search("<title>(.*)</title>", done.stdout)
    assert title is not None, done.stderr[-2000:]
    assert title[1].split("; ") == [
        "all 3",
        "search 1",
        "worse -0.3000",
        "order 0.4000,0.1000,-0.3000",
        "tip step 3, gold 0.7",
        "overflow false",
    ]
