"""How offending rows look in the Data Docs: a table of id, place, reason and excerpt."""

from __future__ import annotations

from typing import Any

from great_expectations.render import RenderedTableContent

SHOWN_ROWS = 10


def offenders_table(offenders: list[dict[str, Any]]) -> list[RenderedTableContent] | None:
    """The first offending rows, or None."""
    if not offenders:
        return None
    rows = [
        [one["id"], f"{one['home']}/{one['split']}", one["row"], one["reason"], one["excerpt"]]
        for one in offenders
    ]
    return [
        RenderedTableContent(
            content_block_type="table",
            header_row=["prompt id", "table/split", "row", "reason", "excerpt"],
            # A `$` would be taken for a template parameter.
            table=[[str(cell).replace("$", "$$") for cell in row] for row in rows[:SHOWN_ROWS]],
            styling={"body": {"classes": ["table-bordered", "table-sm", "mt-3"]}},
        )
    ]
