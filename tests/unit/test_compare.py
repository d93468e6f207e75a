"""The compare command over files, workspaces and real revisions of a DVC repository."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rlhf_pipeline import compare, paths, publish
from rlhf_pipeline.errors import DataError
from rlhf_pipeline.report import parallel

PARAMS = Path(__file__).parents[2] / "params.yaml"


def figures(win_rate: float) -> dict[str, float]:
    return {
        "gold_policy": win_rate / 2,
        "win_rate": win_rate,
        "win_rate_ci_low": win_rate - 0.1,
        "win_rate_ci_high": win_rate + 0.1,
        "kl_per_token": 0.05,
        "kl_per_token_se": 0.001,
    }


def workspace(folder: Path, win_rate: float, seed: int) -> Path:
    publish.write_json(folder / paths.metrics("evaluate"), figures(win_rate))
    text = PARAMS.read_text().replace("\nseed: 7", f"\nseed: {seed}")
    publish.write_text(folder / paths.PARAMS, text)
    return folder


def test_runs_stand_in_rows_with_intervals_and_the_params_that_differ(tmp_path: Any, capsys: Any) -> None:
    first, second = workspace(tmp_path / "a", 0.6, 7), workspace(tmp_path / "b", 0.7, 8)
    out, html = tmp_path / "all.json", tmp_path / "all.html"
    compare.main([str(first), str(second), "--json", str(out), "--html", str(html)])
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[-1] == "seed"
    assert "0.600 [0.500, 0.700]" in rows[0]
    assert "0.050 +- 0.001" in rows[1]
    assert [row.split()[-1] for row in rows[:2]] == ["7", "8"]
    assert [run["metrics"]["win_rate"] for run in json.loads(out.read_text())] == [0.6, 0.7]
    assert html.read_text().count('class="run"') == 2


def test_a_metrics_file_is_a_run(tmp_path: Any) -> None:
    file = tmp_path / "figures.json"
    publish.write_json(file, figures(0.55))
    [run] = compare.read_runs([str(file)], tmp_path)
    assert run == compare.Run(str(file), figures(0.55), {})


@pytest.mark.parametrize("content", ["{}", "[1]", "nonsense"])
def test_another_file_is_refused(content: str, tmp_path: Any) -> None:
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(DataError, match=r"x\.json"):
        compare.read_runs([str(tmp_path / "x.json")], tmp_path)


def test_a_folder_that_is_no_run_is_refused(tmp_path: Any) -> None:
    with pytest.raises(DataError, match="neither a model nor"):
        compare.read_runs([str(tmp_path)], tmp_path)


def test_git_revisions_are_runs_and_unknown_words_are_refused(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]

    def git(*arguments: str) -> None:
        subprocess.run(["git", *identity, *arguments], check=True, capture_output=True)

    git("init")
    shutil.copytree(workspace(tmp_path / "w", 0.6, 7), tmp_path, dirs_exist_ok=True)
    subprocess.run([sys.executable, "-m", "dvc", "init", "-q"], check=True)
    stage = {"cmd": "true", "metrics": [{str(paths.metrics("evaluate")): {"cache": False}}]}
    publish.write_json(tmp_path / "dvc.yaml", {"stages": {"evaluate": stage}})
    git("add", ".")
    git("commit", "-m", "first")
    git("tag", "first")
    shutil.copytree(workspace(tmp_path / "w", 0.8, 9), tmp_path, dirs_exist_ok=True)
    git("commit", "-am", "second")
    first, second = compare.read_runs(["first", "HEAD"], tmp_path)
    assert [run.metrics["win_rate"] for run in (first, second)] == [0.6, 0.8]
    assert compare.differing([first, second]) == ["seed"]
    with pytest.raises(DataError, match="no-such-run is no folder"):
        compare.read_runs(["no-such-run"], tmp_path)


def test_parallel_axes_hold_numbers_words_and_gaps() -> None:
    runs = [
        ("one", {"lr": 0.1, "kind": "gae", "score": 0.5}),
        ("two", {"lr": 0.2, "kind": "grpo", "score": None}),
        ("t<o", {"lr": 0.1, "kind": "gae", "score": 0.7}),
    ]
    drawn = parallel.chart(runs)
    lines = [part.split('"')[0] for part in drawn.split('points="')[1:]]
    assert [len(line.split()) for line in lines] == [3, 2, 3]
    assert lines[0].split()[0] == f"60,{parallel._FLOOR:.1f}"
    assert lines[1].split()[0] == f"60,{parallel._TOP:.1f}"
    assert "t&lt;o" in drawn
