"""`make preset NAME=...`: puts a file of presets/ into params.yaml.

The preset is validated first. A params.yaml with changes of your own is kept beside it as
params.yaml.before-preset. Data and models that a preset needs are named in its first lines, not fetched.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rlhf_pipeline import errors, params, paths, publish

PRESETS = Path("presets")


def main() -> None:
    """Validate presets/<name>.yaml and write it to params.yaml.

    Raises:
        ParamsError: there is no such preset, or it does not hold.
    """
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    known = {path.stem: path for path in sorted(PRESETS.glob("*.yaml"))}
    if name not in known:
        raise errors.ParamsError(f"there is no preset {name!r}; there are {', '.join(known)}")
    params.load(known[name])
    chosen = known[name].read_text(encoding="utf-8")
    if paths.PARAMS.exists():
        before = paths.PARAMS.read_text(encoding="utf-8")
        if before not in (path.read_text(encoding="utf-8") for path in known.values()):
            backup = paths.PARAMS.with_name(f"{paths.PARAMS}.before-preset")
            publish.write_text(backup, before)
            print(f"kept your params as {backup}")
    publish.write_text(paths.PARAMS, chosen)
    print(f"{paths.PARAMS} is now {known[name]}:")
    print("".join(line for line in chosen.splitlines(keepends=True) if line.startswith("#")), end="")


if __name__ == "__main__":
    sys.exit(errors.main(main))
