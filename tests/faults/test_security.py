"""What must not be executed, pickled or written elsewhere. Sockets and secrets of a real run: end_to_end/."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flows.workspaces import experiment_name, params_file
from rlhf_pipeline.checkpoints.ledger import Ledger
from rlhf_pipeline.errors import DataError, ParamsError
from rlhf_pipeline.models.importing import copy_folder
from rlhf_pipeline.models.tiny import write_tiny
from rlhf_pipeline.params import load
from rlhf_pipeline.ppo.overrides import RunPaths, verl_config

ROOT = Path(__file__).parents[2]
PRESETS = sorted((ROOT / "presets").glob("*.yaml"))
SOURCES = [path for folder in ("src", "stages", "flows") for path in sorted((ROOT / folder).rglob("*.py"))]
PICKLERS = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}


class Bomb:
    """Unpickling it makes a folder."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


def calls(tree: ast.Module) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


# ---- code from models


@pytest.mark.parametrize("file", [ROOT / "params.yaml", *PRESETS], ids=lambda path: path.stem)
def test_no_preset_trusts_a_models_code_and_params_alone_can(file: Path) -> None:
    there = RunPaths(*(ROOT / "nowhere" for _ in RunPaths._fields))
    for trusted in (False, True):
        params = load(file, {"model.trust_remote_code": True} if trusted else {})
        keys = verl_config(params, there, "cuda", 8, 4)
        found = {name: value for name, value in keys.items() if "trust_remote_code" in name}
        assert len(found) >= 2
        assert set(found.values()) == {trusted}


@pytest.mark.parametrize("folder", ["src", "stages", "flows"])
def test_no_code_trusts_or_pickles_by_itself(folder: str) -> None:
    found = []
    for file in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                given = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
                # Left out, transformers asks on the terminal whether to run a model's code.
                asks = ast.unparse(node.func).endswith("from_pretrained") and "trust_remote_code" not in given
                trusts = asks or "True" in (given.get("trust_remote_code"), given.get("allow_pickle"))
                if trusts or ast.unparse(node.func) in ("torch.save", "torch.load", "pd.read_pickle"):
                    found.append(f"{file}:{node.lineno}")
            imported = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            imported += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if PICKLERS & {name.partition(".")[0] for name in imported}:
                found.append(f"{file}: imports {imported}")
    assert found == []


@pytest.fixture
def armed_model(tmp_path: Path) -> tuple[Path, Path]:
    """A model folder that brings code for every class it names, and the folder that this code would make."""
    folder, mark = tmp_path / "armed", tmp_path / "ran"
    folder.mkdir()
    write_tiny(folder, load(ROOT / "params.yaml").model.tiny, 1)
    (folder / "armed.py").write_text(f"import os\nos.mkdir({str(mark)!r})\n")
    for name in ("config.json", "tokenizer_config.json"):
        config = json.loads((folder / name).read_text())
        names = ("AutoConfig", "AutoModelForCausalLM", "AutoModelForSequenceClassification")
        config["auto_map"] = dict.fromkeys(names, "armed.Armed") | {"AutoTokenizer": ["armed.Armed", None]}
        if name == "config.json":
            config["model_type"] = "armed"
        (folder / name).write_text(json.dumps(config))
    return folder, mark


@pytest.mark.slow
def test_code_in_a_model_folder_is_not_run(armed_model: tuple[Path, Path], tmp_path: Path) -> None:
    import torch

    from rlhf_pipeline.evaluation.models import load_policy, load_reward_model, load_tokenizer

    folder, mark = armed_model
    imported = tmp_path / "imported"
    imported.mkdir()
    copy_folder(folder, imported)
    for place in (folder, imported):
        for loader in (load_policy, load_reward_model):
            with pytest.raises(DataError, match="cannot be loaded"):
                loader(place, torch.device("cpu"), torch.float32)
        with contextlib.suppress(DataError):
            load_tokenizer(place)  # tokenizer.json says all there is to know
    assert not mark.exists()


# ---- pickles


def test_a_pickle_put_into_a_checkpoint_is_never_loaded(tmp_path: Path) -> None:
    """verl's files are pickles; `Restored` is the only way to them, made after every hash matched."""
    mark = tmp_path / "ran"
    with Ledger(tmp_path / "run", params_digest="d", world_size=1, keep_newest=2) as ledger:
        for step in (2, 4):
            (ledger.begin(step) / "optim.pt").write_bytes(b"weights")
            ledger.commit(step, score=step / 10)
        victim = ledger.files.path(4) / "optim.pt"
    victim.write_bytes(pickle.dumps(Bomb(mark)))
    with Ledger(tmp_path / "run", params_digest="d", world_size=1, keep_newest=2) as ledger:
        restored = ledger.resume()
        assert restored is not None
        assert restored.step == 2
        assert "step 4 is damaged" in restored.ignored[0]
        assert not ledger.files.path(4).exists()
    assert not mark.exists()
    pickle.loads(pickle.dumps(Bomb(mark)))
    assert mark.exists(), "the bomb works"


def test_checkpoints_reach_the_trainers_only_after_the_check() -> None:
    makers = [
        path.name
        for path in SOURCES
        for call in calls(ast.parse(path.read_text(encoding="utf-8")))
        if ast.unparse(call.func) == "Restored"
    ]
    assert makers == ["restore.py"]


# ---- places


@pytest.mark.parametrize("name", ["../outside", "/etc", "a/b", "..", ".hidden", "a\\b/..", ""])
def test_names_that_become_folders_cannot_lead_elsewhere(name: str) -> None:
    with pytest.raises(ParamsError, match=r"tracking\.experiment"):
        load(ROOT / "params.yaml", {"tracking.experiment": name})
    with pytest.raises(ParamsError):
        experiment_name(name, None, {})
    if name:
        with pytest.raises(ParamsError):
            params_file(name)


def test_a_link_in_place_of_an_output_is_replaced_not_followed(tmp_path: Path) -> None:
    from rlhf_pipeline.publish import publishing

    outside, target = tmp_path / "outside", tmp_path / "models" / "sft"
    outside.mkdir()
    (outside / "precious").write_text("x")
    target.parent.mkdir()
    target.symlink_to(outside)
    with publishing(target, {}) as work:
        (work / "model").write_text("new")
    assert (target / "model").read_text() == "new"
    assert not target.is_symlink()
    assert [path.name for path in outside.iterdir()] == ["precious"]


def test_a_checkpoint_with_a_link_to_the_outside_does_not_verify(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("weights")
    with Ledger(tmp_path / "run", params_digest="d", world_size=1, keep_newest=2) as ledger:
        (ledger.begin(1) / "w").write_bytes(b"weights")
        ledger.commit(1, score=0.5)
        path = ledger.files.path(1)
    shutil.copy(path / "w", tmp_path / "elsewhere")
    (path / "more").symlink_to(tmp_path / "secret")
    with (
        Ledger(tmp_path / "run", params_digest="d", world_size=1, keep_newest=2) as ledger,
        pytest.raises(Exception, match="not listed"),
    ):
        ledger.restore(1)
