"""verl's single-turn and tool agent loops, with one sampling seed per response (see seeds.py).

Registered by name through `rollout.agent.agent_loop_config_path`. verl itself sets a seed only
under full determinism, and then the same one at every step.
"""

from __future__ import annotations

from typing import Any

from verl.experimental.agent_loop.agent_loop import AgentLoopOutput
from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop
from verl.experimental.agent_loop.tool_agent_loop import ToolAgentLoop

from .seeds import sampling_seed


def seeded(sampling_params: dict[str, Any], run_seed: int, sample: dict[str, Any]) -> dict[str, Any]:
    """A copy of the sampling parameters with the seed of one response.

    Args:
        sample: verl's fields of the response: global_steps, session_id, extra_info.{index, split}.
    """
    extra = sample["extra_info"]
    seed = sampling_seed(
        run_seed,
        int(sample["global_steps"]),
        int(extra["index"]),
        int(sample["session_id"]),
        validate=extra["split"] != "train",
    )
    return {**sampling_params, "seed": seed}


class SeededSingleTurn(SingleTurnAgentLoop):
    """One prompt, one response."""

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput:
        return await super().run(seeded(sampling_params, self.rollout_config.seed, kwargs), **kwargs)


class SeededTool(ToolAgentLoop):
    """Several turns with tool calls; the seed is the response's, each turn continues it."""

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput:
        return await super().run(seeded(sampling_params, self.rollout_config.seed, kwargs), **kwargs)
