"""The reward model inside verl's reward worker: no server to start, scores gathered into small batches.

For small models, where a second vLLM engine costs more start-up than it saves. Runs on the CPU,
in float32; a large model wants `ppo.reward.serving: vllm`.
"""

from __future__ import annotations

import asyncio

MAX_BATCH = 64


class LocalRewardModel:
    """A sequence-classification model that scores whatever was asked for while it was busy."""

    def __init__(self, folder: str):
        import torch
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        self.torch = torch
        self.tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        self.model = AutoModelForSequenceClassification.from_pretrained(
            folder, dtype=torch.float32, trust_remote_code=False
        ).eval()
        self.waiting: list[tuple[list[int], asyncio.Future[float]]] = []
        self.task: asyncio.Task[None] | None = None

    async def score(self, token_ids: list[int]) -> float:
        """The score (nats of preference) of one sequence of token ids."""
        future: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self.waiting.append((token_ids, future))
        if self.task is None or self.task.done():
            self.task = asyncio.create_task(self._drain())
        return await future

    async def _drain(self) -> None:
        await asyncio.sleep(0)  # lets the requests of one batch gather
        while self.waiting:
            batch, self.waiting = self.waiting[:MAX_BATCH], self.waiting[MAX_BATCH:]
            try:
                scores = await asyncio.get_running_loop().run_in_executor(
                    None, self.score_batch, [ids for ids, _ in batch]
                )
            except BaseException as error:
                for _, future in batch:
                    future.set_exception(error)
                raise
            for (_, future), score in zip(batch, scores, strict=True):
                future.set_result(score)

    def score_batch(self, sequences: list[list[int]]) -> list[float]:
        """Scores of token-id sequences of any lengths, right-padded together."""
        torch = self.torch
        width = max(len(ids) for ids in sequences)
        pad = self.tokenizer.pad_token_id
        input_ids = torch.tensor([ids + [pad] * (width - len(ids)) for ids in sequences])
        mask = torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for ids in sequences])
        with torch.inference_mode():
            # The score head reads the last unpadded token, so the body runs once and is indexed here:
            # transformers' own pooling looks for pad ids and would misread a response that holds one.
            hidden = self.model.base_model(input_ids=input_ids, attention_mask=mask).last_hidden_state
            last = hidden[torch.arange(len(sequences)), mask.sum(1) - 1]
            return self.model.score(last).squeeze(-1).tolist()
