"""A scoring model as a judge: the reward model PPO trained against, or one held out from training.

A judge that shares the policy's tokenizer reads the very tokens that were sampled; any other reads the
conversation rendered again through text by its own tokenizer. Imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..rendering import Messages, prompt_ids, scored_ids
from .models import load_reward_model, load_tokenizer
from .sampling import Response
from .scoring import sequence_scores
from .statistics import Floats


class Judge:
    """A sequence classifier with one output and its tokenizer, loaded."""

    def __init__(self, folder: Path, device: torch.device, dtype: torch.dtype):
        """Load `folder`; raises DataError when it holds no reward model."""
        self.model = load_reward_model(folder, device, dtype)
        self.tokenizer = load_tokenizer(folder)
        self._filler = self.tokenizer.pad_token_id or 0
        self._known: dict[tuple[int, ...], float] = {}

    def score_samples(
        self, rows: Sequence[Mapping[str, Any]], responses: Sequence[Response], policy_tokenizer: Any
    ) -> Floats:
        """Scores, float64 [responses], of sampled responses to the prompts-table row beside each."""
        if self.tokenizer.get_vocab() == policy_tokenizer.get_vocab():
            sequences = [
                [*prompt_ids(self.tokenizer, row["prompt"]), *response.token_ids]
                for row, response in zip(rows, responses, strict=True)
            ]
        else:
            sequences = [
                self.encode(row["prompt"], response.text, response.finished)
                for row, response in zip(rows, responses, strict=True)
            ]
        return self._scores(sequences)

    def score_texts(self, prompts: Sequence[Messages], responses: Sequence[str]) -> tuple[Floats, list[int]]:
        """Scores, float64 [responses], of complete written responses, and the tokens of each response."""
        sequences = [
            self.encode(prompt, response, True) for prompt, response in zip(prompts, responses, strict=True)
        ]
        lengths = [len(ids) for ids in self.tokenizer(list(responses), add_special_tokens=False)["input_ids"]]
        return self._scores(sequences), lengths

    def _scores(self, sequences: Sequence[Sequence[int]]) -> Floats:
        """Equal sequences get one score: scored again in another batch they would not tie to the last bit."""
        keys = [tuple(sequence) for sequence in sequences]
        new = list(dict.fromkeys(key for key in keys if key not in self._known))
        if new:
            scores = sequence_scores(self.model, new, self._filler).tolist()
            self._known |= dict(zip(new, scores, strict=True))
        return np.array([self._known[key] for key in keys], dtype=np.float64)

    def encode(self, messages: Messages, response: str, finished: bool) -> list[int]:
        """What the judge reads: by its chat template if it has one, else prompt and response as a pair."""
        if self.tokenizer.chat_template:
            return scored_ids(self.tokenizer, messages, response, finished)
        prompt = "\n\n".join(message["content"] for message in messages)
        return list(self.tokenizer(prompt, response, truncation="only_first")["input_ids"])
