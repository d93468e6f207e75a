"""Load verl's critic strictly: every weight comes from the checkpoint, or the run stops.

verl's own loader asks for flash attention by name and, when anything goes wrong, wraps the causal
LM in the same folder with a fresh value head: a reward model's trained head is dropped without a
word. This one loads the model as a token classifier with the attention that is configured. A
reward model saved by AutoModelForSequenceClassification(num_labels=1) then gives, at the last
response token, the reward model's score. Not here: critics in other formats than Hugging Face's.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from rlhf_pipeline.errors import CheckpointError, EnvironmentProblem

logger = logging.getLogger("rlhf_pipeline.backend.value_head")

HEAD_WEIGHT = "score.weight"
# Transformers' sequence classifiers have no bias in their head, its token classifiers do.
HEAD_BIAS = "score.bias"
# Set through verl's critic.model.override_config, which lands in the model's config.
NEW_HEAD_KEY = "new_value_head"


def load_value_model(local_path: str, torch_dtype: Any, model_config: Any, trust_remote_code: bool) -> Any:
    """Load the critic from the folder `local_path`; takes the place of verl's load_valuehead_model.

    `torch_dtype` is a torch.dtype; `model_config` a transformers config with num_labels=1 and the
    attention implementation to use. Returns a token classifier whose logits (batch, tokens, 1)
    are the values.

    A new head is made only where `model_config` has a true `new_value_head` (a critic that starts
    from a plain causal LM). It is zero, so that the first values are exactly 0.

    Raises `CheckpointError` when a weight is missing (other than a zero bias of the head), has
    another shape than the model's, or when the head is not finite.
    """
    from transformers import AutoModelForTokenClassification

    model, report = AutoModelForTokenClassification.from_pretrained(
        local_path,
        dtype=torch_dtype,
        config=model_config,
        trust_remote_code=trust_remote_code,
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # so that they are named below, with the file they came from
    )
    missing, unexpected = set(report["missing_keys"]), set(report["unexpected_keys"])
    new_head = bool(getattr(model_config, NEW_HEAD_KEY, False)) and HEAD_WEIGHT in missing
    if problems := _problems(missing, report["mismatched_keys"], new_head):
        raise CheckpointError(_explain(local_path, problems, missing, unexpected))
    _check_and_reset_head(local_path, model, missing, new_head)
    if unexpected:
        logger.warning("critic from %s: weights without a place in it: %s", local_path, _names(unexpected))
    logger.info("critic from %s: every weight loaded%s", local_path, ", new zero head" if new_head else "")
    return model


def install(verl_models: Any) -> None:
    """Make `verl_models`, the module verl.utils.model, load critics with `load_value_model`."""
    if not callable(getattr(verl_models, "load_valuehead_model", None)):
        raise EnvironmentProblem(
            "verl.utils.model has no load_valuehead_model: the critic would be loaded unchecked"
        )
    verl_models.load_valuehead_model = load_value_model


def _problems(missing: set[str], mismatched: Iterable[tuple[str, Any, Any]], new_head: bool) -> list[str]:
    allowed = {HEAD_BIAS, HEAD_WEIGHT} if new_head else {HEAD_BIAS}
    problems = [f"weights of another shape: {_names(name for name, *_ in mismatched)}"] if mismatched else []
    if lost := missing - allowed:
        problems.append(f"missing weights: {_names(lost)}")
    return problems


def _explain(local_path: str, problems: list[str], missing: set[str], unexpected: set[str]) -> str:
    message = f"the critic cannot start from {local_path}: " + "; ".join(problems)
    if unexpected:
        message += f"; weights without a place in it: {_names(unexpected)}"
    message += ". Expected a reward model with one label (a Hugging Face sequence classifier)"
    if HEAD_WEIGHT in missing:
        message += (
            "; to start from a plain language model with a new value head, "
            f"set critic.model.override_config.{NEW_HEAD_KEY}=True"
        )
    return message


def _check_and_reset_head(local_path: str, model: Any, missing: set[str], new_head: bool) -> None:
    import torch

    head = model.score
    if head.weight.device.type == "meta":
        return  # verl loads on rank 0 and sends the weights to the others
    with torch.no_grad():
        if new_head:
            head.weight.zero_()
        if HEAD_BIAS in missing:
            head.bias.zero_()
    if not all(torch.isfinite(parameter).all() for parameter in head.parameters()):
        raise CheckpointError(f"the critic cannot start from {local_path}: its value head is not finite")


def _names(names: Iterable[str], limit: int = 8) -> str:
    """`names` sorted and joined, the tail of a long list as a count."""
    ordered = sorted(names)
    rest = len(ordered) - limit
    return ", ".join(ordered[:limit]) + (f" and {rest} more" if rest > 0 else "")
