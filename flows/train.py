"""`python -m flows.train`: the pipeline as a Prefect flow, from the command line.

The first stage starts before Prefect is loaded, so that what Prefect costs happens meanwhile. Uses the
server that PREFECT_API_URL or `make ui` names, else one of its own. The flow itself is pipeline.py.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from rlhf_pipeline import errors
from rlhf_pipeline.errors import ParamsError, StageError
from rlhf_pipeline.paths import workspace

from .server import prefect_api
from .training_run import STAGES, Request, TrainingRun


def main() -> int:
    began = time.monotonic()
    request = parse(sys.argv[1:])
    # Prefect's own lines are for its pages; the terminal gets ours.
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    with TrainingRun(request) as run, prefect_api() as embedded:
        run.start(wait=False)
        from . import pipeline

        if embedded is not None:
            embedded.wait_until_ready()
        if run.started:
            pipeline.prestarted.append(run)
        message = show_flow(pipeline, request)
        pipeline.tell_the_rest()
    if message:
        raise StageError(message)
    from .artifacts import terminal_summary

    text = terminal_summary(run.folder, time.monotonic() - began)
    if text:
        print(f"\n{text}")
    if run.experiment is not None:
        print(f"{'workspace':<15}{run.folder.relative_to(workspace())}, experiment {run.experiment}")
    return 0


def show_flow(pipeline: Any, request: Request) -> str:
    """Run the flow; the reason when it did not complete, else nothing."""
    import httpx

    parameters = {name: value for name, value in vars(request).items() if value not in (None, {})}
    try:
        state = pipeline.train(**parameters, return_state=True)
    except httpx.HTTPError as error:
        if not pipeline.ends:
            raise StageError(f"the Prefect server does not answer: {error}") from None
        print(f"the Prefect server is gone ({error}); at the next start it learns how this run ended")
        state = pipeline.ends[-1]
    return "" if state.is_completed() else state.message or state.name or ""


def parse(arguments: list[str]) -> Request:
    """The command line as a request.

    Raises:
        ParamsError: for an override that is not key=value.
    """
    parser = argparse.ArgumentParser(prog="python -m flows.train", description=__doc__.splitlines()[0])
    parser.add_argument(
        "-S",
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override a param for this run only",
    )
    parser.add_argument("--preset", help="use presets/PRESET.yaml for this run only")
    parser.add_argument("--from-stage", choices=STAGES, help="leave the stages before it as they are")
    parser.add_argument("--to-stage", choices=STAGES, help="stop after it")
    parser.add_argument("--experiment", help="run in a workspace of its own, under this name")
    parser.add_argument("--no-promote", action="store_true", help="leave the promoted policy alone")
    parser.add_argument("--gpus", help="indices such as 0,1; all when left out")
    given = parser.parse_args(arguments)
    return Request(
        overrides=dict(override(text) for text in given.set),
        preset=given.preset,
        from_stage=given.from_stage,
        to_stage=given.to_stage,
        experiment=given.experiment,
        promote=not given.no_promote,
        gpus=gpu_list(given.gpus),
    )


def override(text: str) -> tuple[str, Any]:
    """`ppo.kl.loss.coef=0.02` as key and value, read as params.yaml would be."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ParamsError(f"-S {text}: expected key=value, such as -S ppo.kl.loss.coef=0.02")
    try:
        return key, YAML(typ="safe", pure=True).load(value)
    except YAMLError as error:
        raise ParamsError(
            f"-S {key}: {value!r} is not a YAML value: {' '.join(str(error).split())}"
        ) from None


def gpu_list(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ParamsError(f"--gpus {text}: expected indices such as 0,1") from None


if __name__ == "__main__":
    sys.exit(errors.main(main))
