"""Which charts come of which columns, and the frontier's points by hand."""

from typing import Any

from rlhf_pipeline.report import charts
from rlhf_pipeline.report.events import happened, marks
from rlhf_pipeline.report.inputs import Curve, read_inputs

from .conftest import EVENTS


def test_frontier_takes_the_newest_kl_and_zero_before_any() -> None:
    curve: Curve = {
        "step": [0.0, 1.0, 2.0, 3.0],
        "kl": [None, 0.02, 0.05, None],
        "validation_gold": [0.4, None, 0.6, 0.7],
    }
    found = charts.frontier_points(curve, "validation_gold")
    assert found == [(0.0, 0.0, 0.4), (2.0, 0.05, 0.6), (3.0, 0.05, 0.7)]
    assert charts.frontier_points({}, "validation_gold") == []


def test_only_measured_columns_are_drawn(workspace: Any) -> None:
    titles = [figure.title for figure in charts.learning_figures(read_inputs())]
    assert titles == ["Gold score", "Reward-model score", "KL from SFT"]
    assert charts.health_figures(read_inputs()) == []


def test_training_and_validation_share_a_chart(workspace: Any) -> None:
    inputs = read_inputs()
    curve: Curve = {
        "step": [1.0, 2.0],
        "train_loss": [2.0, 1.0],
        "validation_loss": [None, 1.1],
        "lr": [0.1, 0.1],
    }
    found = charts.supervised_figures(inputs._replace(curves={"sft": curve}))
    assert [figure.title for figure in found] == ["SFT loss"]
    assert found[0].legend == (("other", "training"), ("policy", "validation"))


def test_rollbacks_and_alarms_mark_the_charts_saves_do_not() -> None:
    found = marks(happened(EVENTS))
    assert [(mark.x, mark.style) for mark in found] == [(8, "bad")]
    assert "back to step 4: dropped by 9%" in found[0].text


def test_events_read_like_sentences() -> None:
    assert [(one.kind, one.text) for one in happened(EVENTS)] == [
        ("saved", "validation score 0.6"),
        ("rollback", "back to step 4: dropped by 9%"),
        ("unheard_of", "why tests"),
    ]


def test_an_event_without_a_step_stands_at_the_one_before() -> None:
    found = happened([*EVENTS, {"kind": "finished", "step": None, "reason": "all steps done"}])
    assert (found[-1].step, found[-1].text) == (9, "all steps done")
    assert happened([{"kind": "finished", "step": None, "reason": "x"}])[0].step == 0
