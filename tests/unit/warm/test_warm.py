"""The warm interpreter behaves as python does: arguments, exit codes, pipes, signals, spawned children."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlhf_pipeline.warm.start import warm_python

Warm = tuple[str, dict[str, str]]


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    log = tmp_path_factory.mktemp("logs") / "warm.log"
    with (
        tempfile.TemporaryDirectory(prefix="w", dir="/tmp") as folder,
        warm_python(Path(folder), ["json", "decimal"], {}, log) as (python, variables),
    ):
        yield python, {**os.environ, **variables}


def run(warm: Warm, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload]
        [warm[0], *arguments], env=warm[1], capture_output=True, text=True, timeout=60, **options
    )


def test_it_is_a_fork_with_the_modules_already_imported(warm: Warm) -> None:
    done = run(warm, "-c", "import sys; print(sys.argv[1:], 'decimal' in sys.modules)", "a", "b c")
    assert (done.stdout, done.returncode) == ("['a', 'b c'] True\n", 0)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("pass", 0),
        ("import sys; sys.exit(7)", 7),
        ("raise SystemExit('no')", 1),
        ("1/0", 1),
        ("import os; os._exit(3)", 3),
    ],
)
def test_exit_codes(warm: Warm, code: str, expected: int) -> None:
    assert run(warm, "-c", code).returncode == expected


def test_a_traceback_goes_to_stderr(warm: Warm) -> None:
    assert "ZeroDivisionError" in run(warm, "-c", "1/0").stderr


def test_modules_and_scripts(warm: Warm, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys, os\nprint(__name__, sys.argv[1], os.getcwd())\n")
    assert run(warm, "-u", str(script), "x", cwd=tmp_path).stdout == f"__main__ x {tmp_path}\n"
    assert run(warm, "-m", "json.tool", input='{"a":1}').stdout == '{\n    "a": 1\n}\n'


def test_environment_is_the_callers_and_what_imports_set_is_kept(warm: Warm) -> None:
    changed = (warm[0], {**warm[1], "ONLY_HERE": "1"})
    assert run(changed, "-c", "import os; print(os.environ['ONLY_HERE'])").stdout == "1\n"
    assert run(warm, "-c", "import os; print('ONLY_HERE' in os.environ)").stdout == "False\n"


def test_pipes_keep_their_numbers(warm: Warm) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    run(warm, "-c", f"import os; os.write({writer}, b'through')", close_fds=False)
    os.close(writer)
    assert os.read(reader, 100) == b"through"
    os.close(reader)


def test_what_multiprocessing_spawns_is_warm_too(warm: Warm) -> None:
    code = (
        "import multiprocessing as m, math\n"
        "from concurrent.futures import ProcessPoolExecutor as P\n"
        "with P(2, mp_context=m.get_context('spawn')) as p: print(list(p.map(math.sqrt, [4, 9])))"
    )
    assert run(warm, "-c", code).stdout == "[2.0, 3.0]\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_to_the_shadow_ends_the_fork(warm: Warm, number: signal.Signals) -> None:
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    with subprocess.Popen([warm[0], "-c", code], env=warm[1], stdout=subprocess.PIPE, text=True) as shadow:
        assert shadow.stdout is not None
        fork = int(shadow.stdout.readline())
        shadow.send_signal(number)
        shadow.wait(timeout=20)
    deadline = time.monotonic() + 20
    while Path(f"/proc/{fork}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{fork}").exists()


def test_without_a_server_the_real_interpreter_runs(warm: Warm) -> None:
    alone = (warm[0], {**warm[1], "RLHF_WARM_SOCKET": "/nonexistent"})
    assert run(alone, "-c", "import sys; print('decimal' in sys.modules)").stdout == "False\n"
