"""Writes a model folder's README.md in Hugging Face's model card format.

Called by the stage that owns the folder, before its manifest is made, so the card is part of what is
verified. Says only what the stage knows: its figures, params and parents. Equal work gives equal text.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from . import publish
from .params import STAGE_SECTIONS, Params, digest

Kind = Literal["sft", "reward_model", "judge", "ppo", "best_of_n"]


class _About(NamedTuple):
    title: str
    task: str
    tags: list[str]
    what: str
    use: str
    limits: str


_GENERATE = """from transformers import pipeline

chat = pipeline("text-generation", model="{folder}")
turn = {{"role": "user", "content": "Hello!"}}
print(chat([turn], max_new_tokens={tokens})[0]["generated_text"][-1]["content"])
"""
_SCORE = """from transformers import AutoModelForSequenceClassification, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{folder}")
model = AutoModelForSequenceClassification.from_pretrained("{folder}")
turn = {{"role": "user", "content": "Hello!"}}
prompt = tokenizer.apply_chat_template([turn], add_generation_prompt=True, tokenize=False)
text = prompt + "Good day." + tokenizer.eos_token
ids = tokenizer(text, add_special_tokens=False, return_tensors="pt")
print(model(**ids).logits[0, 0].item())
"""
_ABOUT: dict[Kind, _About] = {
    "sft": _About(
        title="Supervised fine-tuned model",
        task="text-generation",
        tags=["sft"],
        what="A causal language model fine-tuned on demonstrations; the policy's KL is measured from it.",
        use=_GENERATE,
        limits="It imitates its demonstrations, mistakes included, and has not seen any preference.",
    ),
    "reward_model": _About(
        title="Reward model",
        task="text-classification",
        tags=["reward-model", "preference"],
        what="A sequence classifier with one output, fitted to preference pairs with the Bradley-Terry loss. "
        "It reads prompt, response and EOS; a difference of two scores is the log-odds that the first "
        "response is preferred.",
        use=_SCORE,
        limits="Scores of different prompts do not compare. Text unlike its preference pairs may score high "
        "for no reason, and a policy trained against it may find such text.",
    ),
    "judge": _About(
        title="Judge",
        task="text-classification",
        tags=["reward-model", "preference", "judge"],
        what="A second reward model, fitted to pairs whose prompts the first one never saw. It says whether "
        "the policy gained; the policy is not trained on it.",
        use=_SCORE,
        limits="It comes from the same preferences and the same starting weights as the reward model, so it "
        "shares what both get wrong, a liking for length for instance.",
    ),
    "ppo": _About(
        title="Aligned policy",
        task="text-generation",
        tags=["rlhf", "ppo"],
        what="A causal language model trained by reinforcement learning from its SFT model, held near it by "
        "a KL penalty.",
        use=_GENERATE,
        limits="It is as good as its reward: see the evaluation report for what other judges say of it, and "
        "the guards' time line for what happened on the way.",
    ),
    "best_of_n": _About(
        title="Best-of-n distilled policy",
        task="text-generation",
        tags=["rlhf", "best-of-n"],
        what="A causal language model: its SFT model, fine-tuned further on the best of several responses to "
        "each prompt.",
        use=_GENERATE,
        limits="It is as good as what chose the best responses: see the evaluation report for what other "
        "judges say of it.",
    ),
}
_SECTION: dict[Kind, str] = {"best_of_n": "ppo", "judge": "reward_model"}
"""The params section of a kind, where it has another name."""


def write_model_card(
    folder: Path,
    kind: Kind,
    params: Params,
    metrics: Mapping[str, Any],
    parents: Mapping[str, Path],
    notes: Sequence[str] = (),
) -> None:
    """Write `folder/README.md`.

    `metrics` are the stage's flat figures; `parents` name what the model was made from ("starting
    weights": models/sft, "data": data/validated, ...), whose manifests are quoted by sha256; `notes`
    are further sentences, such as why a run stopped early.
    """
    publish.write_text(folder / "README.md", model_card(kind, params, metrics, parents, notes))


def model_card(
    kind: Kind,
    params: Params,
    metrics: Mapping[str, Any],
    parents: Mapping[str, Path],
    notes: Sequence[str] = (),
) -> str:
    """The card's text; see `write_model_card`."""
    about = _ABOUT[kind]
    section = _SECTION.get(kind, kind)
    use = about.use.format(
        folder=f"models/{'policy' if section == 'ppo' else kind}", tokens=params.data.max_response_tokens
    )
    own = params.model_dump(mode="json")[section]
    own = own["best_of_n"] if kind == "best_of_n" else own
    algorithm = [own["adv_estimator"]] if "adv_estimator" in own else []
    return "\n".join(
        [
            f"---\n{_front_matter(about, algorithm)}\n---",
            f"# {about.title}\n\n{about.what}\n",
            *(f"{note}\n" for note in notes),
            f"## Use\n\n```python\n{use}```\n",
            f"## Made from\n\n{_parents(parents)}",
            f"Seed {params.seed}, params digest `{digest(params, STAGE_SECTIONS[section])}`.\n",
            f"## Figures\n\n{_figures(metrics)}",
            f"## Params\n\n```yaml\n{_yaml({kind: own})}```\n",
            f"## Limits\n\n{about.limits}\n",
        ]
    )


def _front_matter(about: _About, more_tags: Sequence[str]) -> str:
    from huggingface_hub import ModelCardData

    data = ModelCardData(
        library_name="transformers",
        pipeline_tag=about.task,
        tags=list(dict.fromkeys([*about.tags, *more_tags, "rlhf-pipeline"])),
    )
    return str(data.to_yaml()).strip()


def _parents(parents: Mapping[str, Path]) -> str:
    rows = ["| what | folder | sha256 of its manifest |", "| --- | --- | --- |"]
    for name, folder in parents.items():
        manifest = folder / publish.MANIFEST
        known = f"`{publish.sha256_of(manifest)[:16]}`" if manifest.is_file() else "none"
        rows.append(f"| {name} | {folder} | {known} |")
    return "\n".join(rows) + "\n"


def _figures(metrics: Mapping[str, Any]) -> str:
    rows = ["| figure | value |", "| --- | --- |"]
    for name in sorted(metrics):
        value = metrics[name]
        # Seconds differ from run to run and would change the card, and with it every later stage.
        if isinstance(value, (int, float)) and not name.endswith("_s"):
            rows.append(f"| {name} | {value:.4g} |" if isinstance(value, float) else f"| {name} | {value} |")
    return "\n".join(rows) + "\n"


def _yaml(value: Any) -> str:
    from ruamel.yaml import YAML

    out = io.StringIO()
    writer = YAML()
    writer.width = 100
    writer.dump(value, out)
    return out.getvalue()
