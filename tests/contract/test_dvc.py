"""dvc.yaml against the params, the paths and the code: nothing a stage reads is missing from its stage."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rlhf_pipeline import paths
from rlhf_pipeline.params import STAGE_SECTIONS
from rlhf_pipeline.params.load import read_yaml
from rlhf_pipeline.ppo import figures
from rlhf_pipeline.train import fine_tune, reward_model
from scripts.stage_deps import as_deps, code_files, is_code, module_file, references, sources

ROOT = Path(__file__).parents[2]
DVC_YAML = read_yaml(ROOT / "dvc.yaml")
PIPELINE: dict[str, dict[str, Any]] = DVC_YAML["stages"]
STAGES = list(PIPELINE)
PLOTS = {name: plot for entry in DVC_YAML["plots"] for name, plot in entry.items()}


def test_the_stages_are_those_of_the_params_in_the_same_order() -> None:
    assert list(STAGE_SECTIONS) == STAGES


@pytest.mark.parametrize("stage", STAGES)
def test_each_stage_runs_its_own_module(stage: str) -> None:
    assert PIPELINE[stage]["cmd"] == f"sh stages/run.sh {stage}"
    assert (ROOT / "stages" / f"{stage}.py").is_file()


@pytest.mark.parametrize("stage", STAGES)
def test_params_are_the_sections_the_stage_reads(stage: str) -> None:
    assert PIPELINE[stage]["params"] == STAGE_SECTIONS[stage]


@pytest.mark.parametrize("stage", STAGES)
def test_code_deps_are_the_files_the_stage_runs(stage: str) -> None:
    listed = {dep for dep in PIPELINE[stage]["deps"] if is_code(dep)}
    needed = set(as_deps(sources(stage)))
    assert listed == needed, "run: python -m scripts.stage_deps --write"


@pytest.mark.parametrize("stage", STAGES)
def test_code_deps_hold_everything_that_importing_the_stage_loads(stage: str) -> None:
    """The same question answered by Python itself, for the imports at module level."""
    code = (
        f"import json, sys, stages.{stage}\n"
        "print(json.dumps([m.__file__ for m in sys.modules.values() if getattr(m, '__file__', None)]))"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = {Path(file) for file in json.loads(output.stdout.splitlines()[-1])}
    ours = {file for file in loaded if {ROOT / "src", ROOT / "stages"} & set(file.parents)}
    assert ours
    assert ours <= sources(stage)


def test_data_and_model_files_named_in_params_are_deps() -> None:
    assert "${data.raw}" in PIPELINE["prepare_data"]["deps"]
    assert "${model.path}" in PIPELINE["base_model"]["deps"]
    assert "${reward_model.path}" in PIPELINE["reward_model"]["deps"]
    assert "data/user_code" in PIPELINE["ppo"]["deps"]
    assert "${ppo.distillation.teacher_path}" in PIPELINE["ppo"]["deps"]
    for folder in ("data/raw", "data/base_model", "data/reward_model", "data/user_code", "data/teacher"):
        assert (ROOT / folder / "README.md").is_file(), "git must keep the folder"


def test_what_a_stage_reads_another_makes_or_git_keeps() -> None:
    made = [out for stage in PIPELINE.values() for out in outputs(stage)]
    for name, stage in PIPELINE.items():
        for dep in stage["deps"]:
            from_a_stage = any(Path(dep) == Path(out) or Path(dep) in Path(out).parents for out in made)
            assert from_a_stage or dep.startswith("${") or (ROOT / dep).exists(), f"{name} reads {dep}"


def test_no_output_lies_in_another() -> None:
    made = [Path(out) for stage in PIPELINE.values() for out in outputs(stage)]
    assert len(set(made)) == len(made)
    assert not [(one, other) for one in made for other in made if one in other.parents]


def test_outputs_are_where_paths_says() -> None:
    def made(stage: str) -> list[str]:
        return outputs(PIPELINE[stage])

    assert str(paths.BASE_MODEL) in made("base_model")
    assert str(paths.PREPARED) in made("prepare_data")
    assert {str(paths.VALIDATED), str(paths.DATA_REPORT), str(paths.metrics("data"))} == set(
        made("validate_data")
    )
    for stage, model in (
        ("sft", paths.SFT_MODEL),
        ("reward_model", paths.REWARD_MODEL),
        ("ppo", paths.POLICY),
    ):
        assert {str(model), str(paths.curve(stage)), str(paths.metrics(stage))} == set(made(stage))
    assert {str(paths.EVALUATION), str(paths.metrics("evaluate"))} == set(made("evaluate"))
    assert made("report") == [str(paths.REPORT_HTML)]


def test_bad_data_stops_every_training_stage() -> None:
    for stage in ("sft", "reward_model", "ppo"):
        assert "data/validated" in PIPELINE[stage]["deps"]
        assert "data/prepared" not in PIPELINE[stage]["deps"]


def test_references_are_found_in_imports_strings_and_neighbouring_files(tmp_path: Path) -> None:
    files, outside = references(ROOT / "src/rlhf_pipeline/process.py")
    names = {str(file.relative_to(ROOT / "src/rlhf_pipeline")) for file in files}
    assert {"supervisor.py", "orphans.py", "errors.py", "__init__.py"} == names
    assert "subprocess" in outside
    assert module_file("rlhf_pipeline.ppo.driver") == ROOT / "src/rlhf_pipeline/ppo/driver.py"
    assert module_file("rlhf_pipeline.params.load.Params") == ROOT / "src/rlhf_pipeline/params/load.py"
    assert module_file("torch.nn") is None
    assert any(file.suffix == ".html" for file in sources("report")), "the page's template"
    # ppo starts its driver by name, and the CPU backend by entry point.
    assert {
        ROOT / "src/rlhf_pipeline/ppo/driver.py",
        ROOT / "src/rlhf_pipeline/backend/verl_plugin.py",
    } <= sources("ppo")


def test_a_package_needed_whole_is_named_as_a_folder() -> None:
    params = ROOT / "src/rlhf_pipeline/params"
    assert as_deps(code_files(params)) == ["src/rlhf_pipeline/params"]
    assert as_deps({params / "load.py"}) == ["src/rlhf_pipeline/params/load.py"]


@pytest.mark.parametrize("plot", PLOTS)
def test_plots_draw_columns_that_the_stages_write(plot: str) -> None:
    columns = {"sft": fine_tune.COLUMNS, "reward_model": reward_model.COLUMNS, "ppo": figures.COLUMNS}
    assert PLOTS[plot]["x"] == "step"
    for file, names in PLOTS[plot]["y"].items():
        stage = next(stage for stage in columns if file == str(paths.curve(stage)))
        assert ({names} if isinstance(names, str) else set(names)) <= set(columns[stage])


def outputs(stage: dict[str, Any]) -> list[str]:
    return [
        next(iter(out)) if isinstance(out, dict) else out
        for out in [*stage["outs"], *stage.get("metrics", [])]
    ]
