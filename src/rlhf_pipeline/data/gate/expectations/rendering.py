"""How expectations and offending rows look in the Data Docs.

Cells are escaped here: the library's table template prints them as they are.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from great_expectations.render import RenderedStringTemplateContent, RenderedTableContent

SHOWN_ROWS = 10


def status_icon(result: Any) -> RenderedStringTemplateContent:
    """A tick, a cross for an error, an exclamation mark for a warning."""
    if result.success:
        return _icon("fa-check-circle", "text-success")
    if _severity(result) == "warn":
        return _icon("fa-exclamation-triangle", "text-warning")
    return _icon("fa-times", "text-danger")


def name_and_problem(result: Any) -> list[RenderedStringTemplateContent]:
    """The expectation's name and severity, and why it could not be evaluated if so."""
    said = _string(
        "\n$name $severity",
        {"name": result.expectation_config.type, "severity": _severity(result)},
        {"name": {"tag": "code"}, "severity": {"classes": ["badge"]}},
    )
    problem = exception_of(result.exception_info)
    return [said] if problem is None else [said, _string("\n$problem", {"problem": problem}, {})]


def exception_of(info: Mapping[str, Any] | None) -> str | None:
    """The message of the first exception, wherever the library put it."""
    if not info:
        return None
    entries = [info] if "raised_exception" in info else list(info.values())
    return next((str(one["exception_message"]) for one in entries if one.get("raised_exception")), None)


def _severity(result: Any) -> str:
    severity = result.expectation_config.severity
    return "error" if str(getattr(severity, "value", severity)) == "critical" else "warn"


def _icon(*classes: str) -> RenderedStringTemplateContent:
    return _string("$icon", {"icon": ""}, {"icon": {"tag": "i", "classes": ["fas", *classes]}})


def _string(template: str, params: dict[str, str], styling: dict[str, Any]) -> RenderedStringTemplateContent:
    return RenderedStringTemplateContent(
        content_block_type="string_template",
        string_template={"template": template, "params": params, "styling": {"params": styling}},
    )


def offenders_table(offenders: list[dict[str, Any]]) -> list[RenderedTableContent] | None:
    """The first offending rows, or None."""
    if not offenders:
        return None
    rows = [
        [one["id"], f"{one['home']}/{one['split']}", one["row"], one["reason"], one["excerpt"]]
        for one in offenders[:SHOWN_ROWS]
    ]
    return [
        RenderedTableContent(
            content_block_type="table",
            header_row=["prompt id", "table/split", "row", "reason", "excerpt"],
            table=[["" if cell is None else html.escape(str(cell)) for cell in row] for row in rows],
        )
    ]
