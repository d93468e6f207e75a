"""The page over a small workspace: what is in it, that it needs no network, that data cannot script."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from rlhf_pipeline import paths, publish
from rlhf_pipeline.errors import DataError
from rlhf_pipeline.params import load
from rlhf_pipeline.report.inputs import read_inputs
from rlhf_pipeline.report.page import best_middle_worst, render, shown_samples

from .conftest import EVALUATE, SAMPLES


class Outline(HTMLParser):
    """Ids, external references and unclosed tags of a page."""

    VOID = frozenset({"meta", "link", "input", "br", "hr", "img"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: set[str] = set()
        self.references: list[str] = []

    def handle_starttag(self, tag: Any, attributes: Any) -> None:
        values = dict(attributes)
        self.ids |= {values["id"]} if "id" in values else set()
        self.references += [values[name] for name in ("src", "href") if name in values]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: Any, attributes: Any) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: Any) -> None:
        assert self.open.pop() == tag


@pytest.fixture
def page(workspace: Any) -> Any:
    return render(read_inputs(), load())


def test_every_tag_is_closed_and_every_link_leads_somewhere_inside(page: Any) -> None:
    outline = Outline()
    outline.feed(page)
    assert outline.open == []
    assert {link.removeprefix("#") for link in outline.references if link.startswith("#")} <= outline.ids
    assert [link for link in outline.references if not link.startswith(("#", "data:"))] == []


def test_nothing_is_loaded_from_a_network(page: Any) -> None:
    assert not re.search(
        r"(https?:)?//(?!www\.w3\.org/2000/svg)[a-z]", page.split("params.yaml</summary>")[0]
    )
    assert "@import" not in page


def test_verdict_rollback_and_caveat_stand_at_the_top(page: Any) -> None:
    head = page.split("</header>")[0]
    assert "The policy is better than SFT: it wins 75% of 3 unseen prompts by the gold rule." in head
    assert "Step 8 went back to step 4: dropped by 9%" in head


def test_text_from_data_cannot_become_markup(page: Any) -> None:
    assert "<script>alert" not in page
    assert "Question 0 &lt;script&gt;alert(1)" in page


@pytest.mark.parametrize(
    "text",
    [
        "0.45 → 0.70",
        "Gold score against KL",
        "chosen shorter",
        "after 2",
        "unheard_of",
        "why tests",
        "1 min 40 s",
        "dvc repro",
        "adv_estimator",
        "kl_per_token",
    ],
)
def test_page_shows(page: Any, text: Any) -> None:
    assert text in page


def test_length_gaps_stand_in_their_order(page: Any) -> None:
    order = [page.index(f"<td>{label}") for label in ("chosen shorter", "about equal", "chosen longer")]
    assert order == sorted(order)


def test_page_without_curves_events_samples_and_gold(workspace: Any) -> None:
    import shutil

    for gone in (paths.CURVES, paths.EVALUATION, paths.POLICY):
        shutil.rmtree(gone)
    paths.metrics("ppo").unlink()
    bare = {name: value for name, value in EVALUATE.items() if "gold" not in name}
    publish.write_json(paths.metrics("evaluate"), {**bare, "win_rate_judge": "reward"})
    page = render(read_inputs(), load())
    assert "by the reward model" in page
    assert "No samples were kept." in page
    assert "independent judge may disagree" in page


def test_missing_evaluation_is_the_users_error(workspace: Any) -> None:
    paths.metrics("evaluate").unlink()
    with pytest.raises(DataError, match=r"evaluate\.json does not exist"):
        read_inputs()


def test_damaged_figures_are_named(workspace: Any) -> None:
    paths.metrics("ppo").write_text("{")
    with pytest.raises(DataError, match=r"ppo\.json is damaged"):
        read_inputs()


def test_opening_samples_are_best_middle_and_worst() -> None:
    chosen = best_middle_worst(shown_samples(SAMPLES))
    assert [row["response_policy"] for row in chosen] == ["after 0", "after 2", "after 1"]
    assert [round(row["gain"], 2) for row in chosen] == [0.4, 0.1, -0.3]
    assert best_middle_worst([]) == []


def test_many_samples_are_thinned_evenly() -> None:
    many = [{**SAMPLES[0], "prompt_id": str(number)} for number in range(1200)]
    shown = shown_samples(many)
    assert len(shown) == 400
    assert shown[1]["prompt_id"] == "3"
