"""Scores responses inside verl: by the reward model (vLLM-served or in process), a rule or a function.

The reward model is given token ids, prompt + response, as the policy produced them, so the score
is the one that the critic's value head was started from; when its tokenizer differs from the
policy's, the conversation is rendered again through text (trl#1674, #1979, #3595 are what
happens otherwise). verl: reward.reward_manager (source importlib).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

import aiohttp
from verl import DataProto
from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase

from ..errors import StageError
from ..rendering import scored_ids
from ..rewards.loading import load_rule, scored

MAX_ATTEMPTS = 5
FIRST_BACKOFF_S = 0.5


def not_called(**_: Any) -> float:
    """Stands where verl wants a custom function so that it asks the manager, which never calls it."""
    raise StageError("verl called the placeholder reward function instead of RewardManager.run_single")


class RewardManager(RewardManagerBase):
    """verl's reward manager for every `ppo.reward.source`."""

    def __init__(
        self,
        config: Any,
        tokenizer: Any,
        compute_score: Any,
        reward_router_address: str | None = None,
        reward_model_tokenizer: Any = None,
    ):
        super().__init__(config, tokenizer, compute_score)
        self.score: Callable[[list[int], list[int], dict[str, Any]], Any]
        kind = os.environ["RLHF_REWARD"]
        if kind == "vllm":
            self.client = ClassifyClient(reward_router_address or "", config.reward.reward_model.model_path)
            self.reward_tokenizer = reward_model_tokenizer
            self.score = self._by_server
        elif kind == "in_process":
            from .local_reward import LocalRewardModel

            self.local = LocalRewardModel(os.environ["RLHF_REWARD_MODEL"])
            self.reward_tokenizer = self.local.tokenizer
            self.score = self._by_model
        else:
            self.rule = load_rule(kind)
            self.score = self._by_rule
        if kind in ("vllm", "in_process"):
            self.same_tokens = self.reward_tokenizer.get_vocab() == tokenizer.get_vocab()

    async def run_single(self, data: DataProto) -> dict[str, Any]:
        """Score the last sequence of `data`: {"reward_score": float, "reward_extra_info": dict}."""
        item = data[-1:][0]
        prompt_ids, response_ids = split_tokens(item.batch)
        score = float(await self.score(prompt_ids, response_ids, item.non_tensor_batch))
        return {"reward_score": score, "reward_extra_info": {"score": score}}

    async def _by_server(self, prompt_ids: list[int], response_ids: list[int], row: dict[str, Any]) -> float:
        return await self.client.score(self._reward_ids(prompt_ids, response_ids, row))

    async def _by_model(self, prompt_ids: list[int], response_ids: list[int], row: dict[str, Any]) -> float:
        return await self.local.score(self._reward_ids(prompt_ids, response_ids, row))

    async def _by_rule(self, prompt_ids: list[int], response_ids: list[int], row: dict[str, Any]) -> float:
        response = self.tokenizer.decode(response_ids, skip_special_tokens=True)
        prompt = {"prompt": row["raw_prompt"], "extra_info": row.get("extra_info", {})}
        return await asyncio.get_running_loop().run_in_executor(
            None, lambda: scored(self.rule, {**row, **prompt}, response)
        )

    def _reward_ids(self, prompt_ids: list[int], response_ids: list[int], row: dict[str, Any]) -> list[int]:
        if self.same_tokens:
            return prompt_ids + response_ids
        response = self.tokenizer.decode(response_ids, skip_special_tokens=True)
        finished = bool(response_ids) and response_ids[-1] == self.tokenizer.eos_token_id
        return scored_ids(self.reward_tokenizer, list(row["raw_prompt"]), response, finished)


def split_tokens(batch: Any) -> tuple[list[int], list[int]]:
    """Prompt and response token ids of one row, padding taken off.

    Args:
        batch: `prompts` (P,), `responses` (R,) and `attention_mask` (P + R,), int64, any padding side.
    """
    width = batch["prompts"].shape[-1]
    mask = batch["attention_mask"].bool()
    return batch["prompts"][mask[:width]].tolist(), batch["responses"][mask[width:]].tolist()


class ClassifyClient:
    """Asks vLLM's /classify for the raw score of token ids, over one kept-alive session."""

    def __init__(self, address: str, model: str):
        self.url = f"http://{address}/classify"
        self.model = model
        self.session: aiohttp.ClientSession | None = None

    async def score(self, token_ids: list[int]) -> float:
        """The score (nats of preference) of one sequence.

        Raises:
            StageError: when the server refuses the request or stays unreachable.
        """
        if self.session is None:
            self.session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=600))
        payload = {"model": self.model, "input": token_ids, "use_activation": False}
        for attempt in range(MAX_ATTEMPTS):
            try:
                async with self.session.post(self.url, json=payload) as response:
                    if response.status < 400:
                        return (await response.json())["data"][-1]["probs"][-1]
                    text = (await response.text())[:500]
                    if response.status < 500:
                        raise StageError(
                            f"the reward model refused a sequence of {len(token_ids)} tokens: {text}"
                        )
            except aiohttp.ClientError as error:
                text = repr(error)
            if attempt + 1 < MAX_ATTEMPTS:
                await asyncio.sleep(FIRST_BACKOFF_S * 2**attempt)
        raise StageError(f"the reward model server at {self.url} gave no score: {text}")
