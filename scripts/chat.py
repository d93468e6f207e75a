"""`make chat PROMPT="..."`: what a trained model answers, word by word as it is sampled.

Without a prompt it reads one after the other from the terminal and keeps the conversation; an empty
line ends it. Loads the model with transformers in this process; for many users serve the folder with
`vllm serve models/policy`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from rlhf_pipeline import errors, paths
from rlhf_pipeline.params import Params, load
from rlhf_pipeline.rendering import prompt_ids

Answer = Callable[[list[dict[str, str]]], str]


def main() -> None:
    """Answer the prompt of the command line, or those typed in.

    Raises:
        EnvironmentProblem: there is no model yet.
    """
    parser = argparse.ArgumentParser(description="Ask a trained model.")
    parser.add_argument("prompt", nargs="?", default="")
    parser.add_argument(
        "--model", type=Path, default=paths.POLICY, help="models/policy, or models/sft to compare"
    )
    parser.add_argument("--temperature", type=float, default=None, help="default: evaluate.temperature")
    arguments = parser.parse_args()
    params = load()
    if not (arguments.model / "config.json").exists():
        raise errors.EnvironmentProblem(f"there is no model in {arguments.model} yet; run `make demo`")
    temperature = params.evaluate.temperature if arguments.temperature is None else arguments.temperature
    answer = answerer(arguments.model, params, temperature)
    messages = []
    if params.data.system_prompt:
        messages.append({"role": "system", "content": params.data.system_prompt})
    for prompt in [arguments.prompt] if arguments.prompt.strip() else typed():
        messages.append({"role": "user", "content": prompt})
        messages.append({"role": "assistant", "content": answer(messages)})


def typed() -> Iterator[str]:
    """Lines from the terminal until an empty one or the end of the input."""
    while True:
        try:
            line = input("> " if sys.stdin.isatty() else "").strip()
        except EOFError:
            return
        if not line:
            return
        yield line


def answerer(folder: Path, params: Params, temperature: float) -> Answer:
    """A function that prints the answer to a conversation while it is sampled, and returns it."""
    import torch
    from transformers import TextStreamer

    from rlhf_pipeline.evaluation.generate_torch import stop_ids
    from rlhf_pipeline.evaluation.models import device_of, dtype_of, load_policy, load_tokenizer

    device = device_of(params.hardware.device)
    tokenizer = load_tokenizer(folder)
    model = load_policy(folder, device, dtype_of(params.hardware.dtype))
    stops = stop_ids(model, tokenizer)
    sampling = {"do_sample": True, "temperature": temperature} if temperature > 0 else {"do_sample": False}
    streamer = TextStreamer(tokenizer, skip_prompt=True, skip_special_tokens=True)

    def answer(messages: list[dict[str, str]]) -> str:
        ids = torch.tensor([prompt_ids(tokenizer, messages)], device=device)
        whole = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=params.data.max_response_tokens,
            eos_token_id=stops,
            pad_token_id=stops[0],
            streamer=streamer,
            **sampling,
        )
        return str(tokenizer.decode(whole[0, ids.shape[1] :], skip_special_tokens=True))

    return answer


if __name__ == "__main__":
    sys.exit(errors.main(main))
