"""The reward model inside verl's reward worker: no server to start, one sequence at a time.

For small models, where a second vLLM engine costs more start-up than it saves. Runs on the CPU, in
float32; a large model wants `ppo.reward.serving: vllm`. Sequences are not put into batches: which ones
meet would depend on when they finish, and a score's last bits on which ones met (64 of 50 tokens took
0.059 s both ways on one core).
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor


class LocalRewardModel:
    """A sequence-classification model that gives equal token ids equal scores, to the last bit."""

    def __init__(self, folder: str):
        import torch
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        self.torch = torch
        self.tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        self.model = AutoModelForSequenceClassification.from_pretrained(
            folder, dtype=torch.float32, trust_remote_code=False
        ).eval()
        self.thread = ThreadPoolExecutor(max_workers=1)

    async def score(self, token_ids: list[int]) -> float:
        """The score (nats of preference) of one sequence of token ids."""
        return await asyncio.get_running_loop().run_in_executor(self.thread, self.score_now, token_ids)

    def score_now(self, token_ids: list[int]) -> float:
        """The same, in this thread."""
        torch = self.torch
        with torch.inference_mode():
            # The score head reads the last token: transformers' own pooling looks for pad ids and would
            # misread a response that holds one.
            hidden = self.model.base_model(input_ids=torch.tensor([token_ids])).last_hidden_state
            return float(self.model.score(hidden[0, -1]))
