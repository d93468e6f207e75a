"""Stage prepare_data: the sources named in params.yaml become data/prepared/<table>/<split>.parquet.

Reads and splits only; whether the data is fit to train on is validate_data's question.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rlhf_pipeline import errors, paths, publish
from rlhf_pipeline.data.prepare import prepare
from rlhf_pipeline.params.load import load_stage


def main() -> int:
    params, digest = load_stage("prepare_data")
    facts: dict[str, object] = {"stage": "prepare_data", "params": digest, "seed": params.seed}
    with publish.publishing(paths.PREPARED, facts) as out:
        sources = prepare(params.data, params.seed, Path(params.data.raw), out)
        facts["sources"] = sources
    for name, counts in sources.items():
        made = ", ".join(f"{counts[f'{table}_rows']:,} {table}" for table in paths.TABLES)
        left = "".join(
            f", {counts[key]:,} {word}"
            for key, word in (
                ("undecided", "ties"),
                ("sampled_out", "sampled out"),
                ("set_aside", "rows set aside"),
                ("repeated", "repeats left out"),
            )
            if counts[key]
        )
        print(f"{name}: recognised as {counts['shape']}, {counts['raw_rows']:,} rows -> {made}{left}")
    return 0


if __name__ == "__main__":
    sys.exit(errors.main(main))
