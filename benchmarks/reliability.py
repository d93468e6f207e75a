"""Prints figures of docs/reliability.md: rollback rule, guards and KL controllers, each on many courses.

Needs no model and a few minutes; run `python -m benchmarks.reliability`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from rlhf_pipeline import params
from rlhf_pipeline.guards.monitor import GuardMonitor
from rlhf_pipeline.params.training import Guards, Rollback
from rlhf_pipeline.ppo.kl_controllers import AdaptiveKLController, KLController, MovingAverageKLController
from rlhf_pipeline.ppo.rollback_rule import Validation, decide, smallest_visible_drop

TESTS = Path(__file__).resolve().parents[1] / "tests" / "unit"


def _module(path: Path) -> Any:
    """The courses are those of the tests, whose folders are no packages."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


courses = _module(TESTS / "guards" / "guard_courses.py")
kl_course = _module(TESTS / "ppo" / "test_kl_controllers.py").kl_course
N_RUNS = 100
N_VALIDATIONS = 20
TRUE_SCORE = 0.6


def rollback_rates() -> Iterable[str]:
    """How often noise alone rolls a run back, and how often a true drop is found, by validation size."""
    rule = params.load().rollback
    bare = rule.model_copy(update={"confirm": "none"})
    yield f"rollback rule: {N_RUNS} runs of {N_VALIDATIONS} validations, 0/1 scores, true score {TRUE_SCORE}"
    yield "| prompts | false, bare | false, confirmed | finds a drop of 10% | 20% | 30% | found in 4 of 5 |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for n_prompts in (128, 500, 1319, 3000):
        false = [_false_rollbacks(one, n_prompts) for one in (bare, rule)]
        found = [_found(rule, n_prompts, drop) for drop in (0.1, 0.2, 0.3)]
        stated = smallest_visible_drop(
            n_prompts, rule.max_drop, n_validations=N_VALIDATIONS, score=TRUE_SCORE
        )
        cells = [f"{share:.0%}" for share in (*false, *found, stated)]
        yield f"| {n_prompts} | {' | '.join(cells)} |"


def _draw(random: np.random.Generator, step: int, n_prompts: int, score: float) -> Validation:
    right = random.uniform(size=n_prompts) < score
    return Validation(
        step, float(right.mean()), {str(number): float(value) for number, value in enumerate(right)}
    )


def _false_rollbacks(rule: Rollback, n_prompts: int) -> float:
    random = np.random.default_rng(1)
    fired = 0
    for _ in range(N_RUNS):
        best = _draw(random, 0, n_prompts, TRUE_SCORE)
        for step in range(1, N_VALIDATIONS):
            new = _draw(random, step, n_prompts, TRUE_SCORE)
            if decide(new, best, rule, 0, n_validations=N_VALIDATIONS).action == "rollback":
                fired += 1
                break
            best = max(best, new, key=lambda validation: validation.score)
    return fired / N_RUNS


def _found(rule: Rollback, n_prompts: int, drop: float) -> float:
    random = np.random.default_rng(2)
    pairs = (
        (_draw(random, 1, n_prompts, TRUE_SCORE * (1 - drop)), _draw(random, 0, n_prompts, TRUE_SCORE))
        for _ in range(N_RUNS)
    )
    return (
        sum(
            decide(new, best, rule, 0, n_validations=N_VALIDATIONS).action == "rollback"
            for new, best in pairs
        )
        / N_RUNS
    )


def guard_alarms() -> Iterable[str]:
    """Alarms on healthy courses, and the steps until a fault laid over them is noticed."""
    guards = params.load().guards
    published = [path.stem for path in sorted(courses.PUBLISHED.glob("*.csv"))]
    healthy = {name: courses.published(name) for name in published} | {"synthetic": courses.synthetic()}
    yield "guards: steps until the alarm, worst and mean over onsets every 10 steps from step 40"
    yield f"| course | alarmed steps when healthy | {' | '.join(fault.__name__ for fault in FAULTS)} |"
    yield "| --- | --- |" + " --- |" * len(FAULTS)
    for name, course in healthy.items():
        monitor = GuardMonitor(guards)
        alarmed = sum(bool(monitor.observe(step, metrics).alarms) for step, metrics in enumerate(course))
        cells = [_delays(guards, course, fault) for fault in FAULTS]
        yield f"| {name} | {alarmed} of {len(course)} | {' | '.join(cells)} |"


FAULTS = (
    courses.kl_ramp,
    courses.entropy_collapse,
    courses.hacking,
    courses.not_a_number,
    courses.one_answer,
)


def _delays(guards: Guards, course: list[dict[str, float]], fault: Any) -> str:
    delays = []
    for start in range(40, len(course) - 12, 10):
        monitor = GuardMonitor(guards)
        watched = fault(course, start)[start - 40 : start + 12]
        seen = [bool(monitor.observe(step, metrics).alarms) for step, metrics in enumerate(watched)]
        delays.append(seen[40:].index(True) + 1 if any(seen[40:]) else 99)
    return f"{max(delays)}, {np.mean(delays):.1f} ({len(delays)})"


def kl_courses() -> Iterable[str]:
    """Mean KL over the last 8 steps, and the highest, of a simulated policy under each controller."""
    kl = params.load().ppo.kl.reward
    yield f"KL controllers: target {kl.target}, coef {kl.coef}, horizon {kl.horizon}, 64 sequences a step"
    yield "| steps | push | fixed | adaptive | moving_average |"
    yield "| --- | --- | --- | --- | --- |"
    for steps in (40, 80, 200):
        for push in (0.03, 0.05, 0.1):
            made: list[KLController] = [
                KLController(kl.coef),
                AdaptiveKLController(kl.coef, kl.target, kl.horizon),
                MovingAverageKLController(kl.coef, kl.target, kl.horizon, kl.ema_decay, kl.gain),
            ]
            cells = []
            for controller in made:
                course = kl_course(controller, steps, push, seed=1)
                cells.append(f"{np.mean(course[-8:]):.2f} (highest {max(course):.2f})")
            yield f"| {steps} | {push} | {' | '.join(cells)} |"


def main() -> None:
    for table in (rollback_rates, guard_alarms, kl_courses):
        print("\n".join(table()), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
