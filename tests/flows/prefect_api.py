"""What the flow tests ask a Prefect server, and how they wait for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx


def eventually(condition: Callable[[], Any], timeout_s: float = 180.0, what: str = "condition") -> Any:
    """The first true value of the condition."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {timeout_s} s, left {value}"
        time.sleep(0.1)
    return value


class Prefect:
    """A server, asked over its REST API."""

    def __init__(self, url: str) -> None:
        self.url = url

    def flow_runs(self) -> list[dict[str, Any]]:
        """Newest first."""
        return self._post("flow_runs/filter", {"sort": "START_TIME_DESC"})

    def flow_run(self, identifier: str) -> dict[str, Any]:
        return httpx.get(f"{self.url}/flow_runs/{identifier}", timeout=30).raise_for_status().json()

    def task_states(self, flow_run: dict[str, Any]) -> dict[str, str]:
        query = {"flow_runs": {"id": {"any_": [flow_run["id"]]}}}
        return {run["name"]: run["state_name"] for run in self._post("task_runs/filter", query)}

    def artifacts(self, flow_run: dict[str, Any]) -> dict[str, str]:
        query = {"artifacts": {"flow_run_id": {"any_": [flow_run["id"]]}}}
        return {found["key"]: found["data"] for found in self._post("artifacts/filter", query)}

    def logs(self, flow_run: dict[str, Any]) -> list[str]:
        query = {"logs": {"flow_run_id": {"any_": [flow_run["id"]]}}}
        return [line["message"] for line in self._post("logs/filter", query)]

    def events(self, kind: str) -> list[dict[str, Any]]:
        found = self._post("events/filter", {"filter": {"event": {"name": [kind]}}})
        return found["events"]

    def deployments(self) -> list[dict[str, Any]]:
        return self._post("deployments/filter", {})

    def create_run(self, deployment: str, **parameters: Any) -> str:
        """Ask for a run of a deployment, as its page does; returns the flow run's id."""
        found = httpx.get(f"{self.url}/deployments/name/{deployment}", timeout=30).raise_for_status().json()
        return self._post(f"deployments/{found['id']}/create_flow_run", {"parameters": parameters})["id"]

    def cancel(self, identifier: str) -> None:
        """What the Cancel button does."""
        state = {"type": "CANCELLING", "name": "Cancelling", "message": "cancelled in a test"}
        self._post(f"flow_runs/{identifier}/set_state", {"state": state, "force": False})

    def wait(self, identifier: str, *names: str, timeout_s: float = 240.0) -> dict[str, Any]:
        """The flow run, once its state has one of the names."""

        def reached() -> dict[str, Any] | None:
            run = self.flow_run(identifier)
            return run if run["state_name"] in names else None

        return eventually(reached, timeout_s, f"flow run in state {names}")

    def _post(self, what: str, query: dict[str, Any]) -> Any:
        answer = httpx.post(f"{self.url}/{what}", json=query, timeout=30)
        for _ in range(5):
            if answer.status_code != 503:  # SQLite is busy; Prefect's own client asks again, too
                break
            time.sleep(2)
            answer = httpx.post(f"{self.url}/{what}", json=query, timeout=30)
        return answer.raise_for_status().json()
