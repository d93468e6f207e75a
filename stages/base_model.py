"""Stage base_model: puts the model that training starts from into models/base.

Makes the tiny one from scratch or imports one (`model.source`). Reads no data.
"""

from __future__ import annotations

import sys

from rlhf_pipeline import errors, paths
from rlhf_pipeline.models.importing import import_model
from rlhf_pipeline.models.special_tokens import settle
from rlhf_pipeline.models.tiny import write_tiny
from rlhf_pipeline.params import load_stage
from rlhf_pipeline.publish import publishing


def main() -> None:
    params, digest = load_stage("base_model")
    facts = {"stage": "base_model", "params": digest, "source": params.model.source, "seed": params.seed}
    with publishing(paths.BASE_MODEL, facts) as folder:
        if params.model.source == "tiny":
            write_tiny(folder, params.model.tiny, params.seed)
        else:
            import_model(params.model, folder)
        for change in settle(folder):
            print(f"base_model: {change}")


if __name__ == "__main__":
    sys.exit(errors.main(main))
