"""A user's mistake ends in one message and exit code 2; a bug keeps its traceback."""

from __future__ import annotations

import pickle

import pytest

from rlhf_pipeline import errors

TREE = [
    (errors.ParamsError, ValueError),
    (errors.DataError, ValueError),
    (errors.EnvironmentProblem, RuntimeError),
    (errors.StageError, RuntimeError),
    (errors.CheckpointError, RuntimeError),
]


@pytest.mark.parametrize(("kind", "standard"), TREE)
def test_each_is_also_a_standard_error_and_survives_pickling(
    kind: type[errors.PipelineError], standard: type[Exception]
) -> None:
    copy = pickle.loads(pickle.dumps(kind("row 3 of a.jsonl: chosen is empty")))
    assert type(copy) is kind
    assert isinstance(copy, errors.PipelineError)
    assert isinstance(copy, standard)
    assert str(copy) == "row 3 of a.jsonl: chosen is empty"


def test_every_error_of_the_module_is_in_the_tree() -> None:
    defined = {
        value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)
    }
    assert defined == {errors.PipelineError, *(kind for kind, _ in TREE)}


@pytest.mark.parametrize("kind", [kind for kind, _ in TREE])
def test_a_user_s_mistake_is_one_message_and_exit_code_2(
    kind: type[errors.PipelineError], capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> None:
        raise kind("no such file: a.jsonl")

    assert errors.main(command) == 2
    assert capsys.readouterr() == ("", "error: no such file: a.jsonl\n")


def test_a_command_s_own_exit_code_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    assert errors.main(lambda: None) == 0
    assert errors.main(lambda: 0) == 0
    assert errors.main(lambda: 3) == 3
    assert capsys.readouterr() == ("", "")


def test_ctrl_c_is_130(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> None:
        raise KeyboardInterrupt

    assert errors.main(command) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_a_bug_is_not_swallowed() -> None:
    def command() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        errors.main(command)
