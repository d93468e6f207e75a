"""The training flow: one task a stage with its true state, then the release.

DVC decides what runs; a stage with nothing to do is Cached, here as on the command line. A stage killed
by the machine is tried once more and resumes from its own checkpoints; a mistake in data or params never
is. How a run works is training_run.py's, how it looks in Prefect watch.py's; `python -m flows.train`
starts this flow from the command line.
"""

from __future__ import annotations

import os
import time
from typing import Any, Literal
from uuid import UUID

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State, TaskRun
from prefect.context import TaskRunContext
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker
from prefect.runtime import flow_run
from prefect.states import Cancelled, Completed, Crashed, Failed, Running

from rlhf_pipeline import orphans, progress
from rlhf_pipeline.checkpoints.release_log import Version
from rlhf_pipeline.errors import PipelineError

from .artifacts import show_results
from .console import Console
from .dvc_tasks import Interrupted
from .notify import HOOKS
from .reconcile import RunRecord, reconcile
from .release import Released, go_back_to_promoted, release
from .training_run import Request, TrainingRun
from .watch import Api, CancelRequested, Orders, Watch, tell_event

StageName = Literal[
    "base_model", "prepare_data", "validate_data", "sft", "reward_model", "judge", "ppo", "evaluate", "report"
]
RETRIES = 1
DRAIN_TIMEOUT_S = 10.0
prestarted: list[TrainingRun] = []
"""A run that the command line started before Prefect was loaded; the flow takes it over."""
ends: list[State[Any]] = []
"""How this process's flow runs ended, known even when Prefect cannot be told."""


@flow(name="train", flow_run_name=lambda: run_name(), persist_result=False, **HOOKS)
def train(
    overrides: dict[str, Any] | None = None,
    preset: str | None = None,
    from_stage: StageName | None = None,
    to_stage: StageName | None = None,
    experiment: str | None = None,
    promote: bool = True,
    gpus: list[int] | None = None,
) -> State[Any]:
    """Run the pipeline: data, SFT, reward model, PPO, evaluation, report, release.

    Args:
        overrides: params by their dotted keys, such as {"ppo.kl.loss.coef": 0.02}. The run then has a
            workspace of its own; params.yaml stays as it is.
        preset: name of a file in presets/ to use instead of params.yaml, also in a workspace of its own.
        from_stage: leave the stages before this one as they are.
        to_stage: stop after this stage.
        experiment: name of the run in `dvc exp show`; also gives it a workspace of its own.
        promote: when done, let the policy take over if it is not worse than the promoted one.
        gpus: indices of the GPUs to use; all of them when left out. Runs on other GPUs go on beside it.
    """
    request = Request(overrides or {}, preset, from_stage, to_stage, experiment, promote, gpus)
    follow_worker()
    run = prestarted.pop() if prestarted else TrainingRun(request)
    record = RunRecord(UUID(str(flow_run.get_id())), what="train")
    with run, Console(run.folder, silent=from_worker()) as console:
        end = _train(run, record, console)
    record.ended(end)
    ends.append(end)
    return end


def _train(run: TrainingRun, record: RunRecord, console: Console) -> State[Any]:
    api, began = Api(), time.monotonic()
    orders = Orders(record.flow_run_id, api)
    for line in api.call(reconcile) or []:
        get_run_logger().info(line)
    try:
        if not run.started:
            start(run, record.flow_run_id, api, orders, console)
        for stage in run.stages(orders.obey):
            state = run_stage(stage, run, record, console, api, orders, return_state=True)
            console.end(stage, state.name or "")
            if state.is_cancelled():
                return as_own(state)
            if not state.is_completed():
                return Failed(message=f"{stage}: {state.message}")
        run.save()
        verdict: State[Any] = Completed(
            message=f"all stages done in {progress.clock(time.monotonic() - began)}"
        )
        if run.request.promote and run.request.to_stage in (None, "evaluate", "report"):
            verdict = release_policy(run, record.flow_run_id, console, return_state=True)
            if not verdict.is_completed():
                return Failed(message=f"release: {verdict.message}")
    except CancelRequested:
        return Cancelled(message="cancelled in Prefect")
    except PipelineError as error:
        return Failed(message=str(error))
    show_results(run.folder, api, verdict.message or "")
    return as_own(verdict)


def as_own(state: State[Any]) -> State[Any]:
    """A task's state as the flow's: Prefect would sum up a task's own state object, and lose its name."""
    return State(type=state.type, name=state.name, message=state.message)


def start(run: TrainingRun, flow_run_id: UUID, api: Api, orders: Orders, console: Console) -> None:
    """Start dvc once no other run is in the way; until then the flow run's state is called Waiting."""
    said: list[str] = []

    def on_wait(reason: str) -> None:
        if reason not in said:
            said.append(reason)
            get_run_logger().info(reason)
            console.say(reason)
            api.call(lambda: show_state(flow_run_id, Running(name="Waiting", message=reason)))
        orders.obey()

    run.start(wait=True, on_wait=on_wait)
    if said:
        api.call(lambda: show_state(flow_run_id, Running()))


def show_state(flow_run_id: UUID, state: State[Any]) -> None:
    """Give this flow run a state while it runs."""
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(flow_run_id, state, force=True)


def worth_retrying(task: Any, task_run: TaskRun, state: State[Any]) -> bool:
    """Whether the machine, not the input, was at fault."""
    try:
        state.result()
    except Interrupted:
        return True
    except PipelineError:
        return False
    return False


@task(
    name="stage",
    task_run_name="{stage}",
    retries=RETRIES,
    retry_delay_seconds=3,
    retry_condition_fn=worth_retrying,
    cache_policy=NO_CACHE,
    persist_result=False,
)
def run_stage(
    stage: str, run: TrainingRun, record: RunRecord, console: Console, api: Api, orders: Orders
) -> State[Any]:
    """Follow one stage of the running dvc; its state is what DVC says about it."""
    context = TaskRunContext.get()
    assert context is not None
    record.at(stage, context.task_run.id)
    console.start(stage)
    watch = Watch(stage, run.folder, record.flow_run_id, console, api, orders)
    try:
        if context.task_run.run_count > 1:
            run.again(stage, watch.tick)
        outcome = run.play(stage, watch.line, watch.tick)
    except CancelRequested:
        return Cancelled(message="cancelled in Prefect")
    watch.end()
    if outcome.status == "unchanged":
        return Completed(name="Cached", message="nothing has changed since it ran")
    if outcome.status == "restored":
        return Completed(name="Cached", message="restored from DVC's cache of earlier runs")
    if outcome.status == "ran":
        return Completed(message=took(stage, run))
    get_run_logger().error(outcome.problem)
    if not outcome.infrastructure:
        return Failed(message=outcome.reason)
    if context.task_run.run_count <= RETRIES:
        raise Interrupted(outcome.problem)
    return Crashed(message=outcome.reason)


@task(name="release", task_run_name="release", cache_policy=NO_CACHE, persist_result=False)
def release_policy(run: TrainingRun, flow_run_id: UUID, console: Console) -> State[Any]:
    """Promote the new policy, or go back to the promoted one; the state says which."""
    logger = get_run_logger()

    def on_line(line: str) -> None:
        logger.info(line)
        console.say(line)

    try:
        found: Released = release(run.folder, on_line, lambda reason: rollback_policy(reason))
    except PipelineError as error:
        return Failed(message=str(error))
    console.say(f"release: {found.sentence}")
    payload = {name: value for name, value in vars(found).items() if value is not None}
    if found.action == "rolled_back":
        logger.warning(found.sentence)
        tell_event("rlhf.release.rolled_back", flow_run_id, "release", payload)
        return Completed(name="RolledBack", message=found.sentence)
    logger.info(found.sentence)
    tell_event(f"rlhf.release.{found.action}", flow_run_id, "release", payload)
    return Completed(message=found.sentence)


@task(name="rollback", task_run_name="rollback", cache_policy=NO_CACHE, persist_result=False)
def rollback_policy(reason: str) -> Version:
    """Restore the promoted policy, because the new one is worse."""
    version = go_back_to_promoted(reason)
    get_run_logger().warning("back to %s: %s", version.id, reason)
    return version


def tell_the_rest() -> None:
    """Send what Prefect still holds back, before an embedded server stops."""
    EventsWorker.drain_all(timeout=DRAIN_TIMEOUT_S)
    APILogWorker.drain_all(timeout=DRAIN_TIMEOUT_S)


def follow_worker() -> None:
    """End this process when the Prefect worker that started it is gone, however it went."""
    if from_worker():
        orphans.follow(os.getppid())


def from_worker() -> bool:
    """Whether a worker or `make ui` started this process for one flow run."""
    return bool(os.environ.get("PREFECT__FLOW_RUN_ID"))


def took(stage: str, run: TrainingRun) -> str:
    """How long the stage worked by its own clock, which may have started before Prefect's."""
    state = progress.read(stage, run.folder)
    return f"done in {progress.clock(state['elapsed_s'])}" if state else "done"


def run_name() -> str:
    """Experiment, preset or `main`, and the time: what the list of runs shows."""
    parameters = flow_run.get_parameters()
    what = parameters.get("experiment") or parameters.get("preset")
    what = what or ("overrides" if parameters.get("overrides") else "main")
    return f"{what}-{time.strftime('%m%d-%H%M%S')}"
