"""The HTML Data Docs of a run, as one folder that reads without a network.

Great Expectations renders the documents; the page templates here carry their own styles instead of
links to other hosts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

SITE = "gate"


def add_site(context: Any, folder: Path) -> None:
    """Register the site that `build` writes into `folder`."""
    for name in list(context.list_data_docs_sites()):
        context.delete_data_docs_site(name)
    context.add_data_docs_site(
        SITE,
        {
            "class_name": "SiteBuilder",
            "show_how_to_buttons": False,
            "store_backend": {
                "class_name": "TupleFilesystemStoreBackend",
                "base_directory": str(folder.resolve()),
            },
            "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
        },
    )


def build(context: Any) -> None:
    """Render every suite and validation result."""
    context.build_data_docs(site_names=[SITE])
