"""The evaluate and report stages over a real small workspace: what they publish and leave alone."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rlhf_pipeline import errors, paths, publish
from stages import evaluate, report


@pytest.fixture
def workspace(tiny: Any, data: Any, tmp_path: Any, monkeypatch: Any) -> Any:
    """The current directory, as the ppo stage leaves it."""
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[3] / "params.yaml").read_text()
    for name, value in (("n_prompts", 8), ("n_bootstrap", 200)):
        head, tail = text.split("\nevaluate:")
        line = next(line for line in tail.splitlines() if line.strip().startswith(f"{name}:"))
        text = f"{head}\nevaluate:{tail.replace(line, f'  {name}: {value}')}"
    # wandb would leave its service running in the tests' own process.
    publish.write_text(paths.PARAMS, text.replace("backends: [wandb, jsonl]", "backends: [jsonl]"))
    for name in ("sft", "policy", "reward_model"):
        shutil.copytree(getattr(tiny, name), Path("models", name))
    with publish.publishing(paths.JUDGE, {"source": "none"}):
        pass
    shutil.copytree(data, paths.VALIDATED)
    return tmp_path


def test_stages_publish_figures_samples_and_report(workspace: Any, capsys: Any) -> None:
    evaluate.main([])
    assert publish.verify(paths.EVALUATION)["stage"] == "evaluate"
    figures = json.loads(paths.metrics("evaluate").read_text())
    assert figures["n_prompts"] == 8
    assert not [name for name in figures if name.startswith("judge_")]
    assert 0 < figures["startup_s"] <= figures["wall_s"]
    samples = (paths.EVALUATION / "samples.jsonl").read_text().splitlines()
    assert len(samples) == 8
    report.main()
    page = paths.REPORT_HTML.read_text()
    assert json.loads(samples[0])["prompt_id"] not in page
    assert page.count('<article class="sample') == 8 + 3
    assert "wins" in capsys.readouterr().out


def test_a_second_run_writes_the_same_bytes(workspace: Any) -> None:
    evaluate.main([])
    first = publish.sha256_of(paths.EVALUATION / publish.MANIFEST)
    shutil.rmtree(paths.SCRATCH)
    evaluate.main([])
    assert publish.sha256_of(paths.EVALUATION / publish.MANIFEST) == first


def test_the_command_writes_only_where_it_is_told(workspace: Any, capsys: Any) -> None:
    evaluate.main(["--policy", "models/sft", "--against", "models/policy", "--out", "found.json"])
    assert not paths.REPORTS.exists()
    found = json.loads(Path("found.json").read_text())
    assert {"reward_policy", "reward_against"} <= set(found)
    assert "models/policy" in capsys.readouterr().out
    with pytest.raises(errors.ParamsError, match="belongs to DVC"):
        evaluate.main(["--out", "reports/metrics/evaluate.json"])


@pytest.mark.parametrize("gone", ["models/policy", "models/reward_model", "models/judge", "data/validated"])
def test_a_missing_input_is_named_and_nothing_is_published(gone: str, workspace: Any, capsys: Any) -> None:
    shutil.rmtree(gone)
    assert errors.main(lambda: evaluate.main([])) == errors.USER_ERROR_EXIT_CODE
    assert f"{gone} does not exist" in capsys.readouterr().err
    assert not paths.REPORTS.exists()
