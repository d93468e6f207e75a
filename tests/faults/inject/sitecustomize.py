"""Python imports this at its start when its folder is on PYTHONPATH: puts the fault in FAULT in place."""

import os

if os.environ.get("FAULT"):
    import fault_points

    fault_points.install(os.environ["FAULT"])
