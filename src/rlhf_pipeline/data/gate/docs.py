"""The HTML Data Docs of a run: Great Expectations' own pages, in a folder that reads without a network.

Its renderers make the documents; the view here gives them templates that carry their styles and need
no script, where the stock ones link to half a dozen other hosts.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jinja2
import pyarrow.parquet as pq
from great_expectations.render import RenderedHeaderContent, RenderedStringTemplateContent
from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer
from great_expectations.render.view.view import DefaultJinjaPageView

from ... import paths, publish
from .docs_templates import INDEX, TEMPLATES
from .run import Finding, Outcome


class OfflineView(DefaultJinjaPageView):
    """The stock page view with our page and folding block."""

    def __init__(self) -> None:
        super().__init__()
        self.env.loader = jinja2.ChoiceLoader([jinja2.DictLoader(TEMPLATES), self.env.loader])


class SuitePageRenderer(ValidationResultsPageRenderer):
    """The stock page with a header that links to nothing outside this folder."""

    @classmethod
    def _render_validation_header(cls, validation_results: Any) -> RenderedHeaderContent:
        passed = bool(validation_results.success)
        return RenderedHeaderContent(
            content_block_type="header",
            header=RenderedStringTemplateContent(
                content_block_type="string_template",
                string_template={
                    "template": "$suite: $status",
                    "params": {
                        "suite": validation_results.suite_name,
                        "status": "all expectations hold" if passed else "not all expectations hold",
                    },
                    "tag": "h1",
                },
            ),
        )


def write(outcome: Outcome, passes: bool, quarantined_rows: int, prepared: Path, folder: Path) -> None:
    """Write index.html and one page per suite; `passes` is the verdict after any quarantine."""
    folder.mkdir(parents=True)
    view, renderer = OfflineView(), SuitePageRenderer()
    for suite, result in outcome.results.items():
        page = view.render(renderer.render(result))
        (folder / page_name(suite)).write_text(page, encoding="utf-8")
    template = jinja2.Environment(loader=jinja2.DictLoader(TEMPLATES), autoescape=True).from_string(INDEX)
    suites = [
        {
            "name": suite,
            "page": page_name(suite),
            "findings": (findings := [one for one in outcome.findings if one.suite == suite]),
            "failed": sum(one in outcome.failed for one in findings),
            "warned": sum(one in outcome.warned for one in findings),
            "seconds": outcome.seconds[suite],
            "rows_per_s": outcome.speed(suite),
        }
        for suite in outcome.results
    ]
    broken = [_row(one) for one in [*outcome.failed, *outcome.warned]]
    index = template.render(
        suites=suites,
        broken=broken,
        passes=passes,
        quarantined_rows=quarantined_rows,
        tables=_rows_of_tables(prepared),
        sources=_sources(prepared / publish.MANIFEST),
    )
    (folder / "index.html").write_text(index, encoding="utf-8")


def _rows_of_tables(prepared: Path) -> dict[str, list[int]]:
    """Rows per split of each table."""
    return {
        table: [pq.read_metadata(paths.table(prepared, table, split)).num_rows for split in paths.SPLITS]
        for table in paths.TABLES
    }


def _sources(manifest: Path) -> dict[str, dict[str, Any]]:
    """What prepare_data made of each source, if its manifest is there."""
    return dict(json.loads(manifest.read_text()).get("sources", {})) if manifest.is_file() else {}


def page_name(suite: str) -> str:
    """The file name of a suite's page."""
    return suite.replace(" ", "_") + ".html"


def _row(one: Finding) -> dict[str, Any]:
    return {
        "page": page_name(one.suite),
        "table": one.place,
        "name": one.name,
        "severity": one.severity,
        "statement": one.statement,
        "observed": one.exception or one.observed,
    }
