"""params.yaml as typed, frozen models: `load` reads it, every problem is reported at once.

torch, verl and ray are never imported from here.
"""

from .load import digest, load, load_stage, parse
from .root import STAGE_SECTIONS, Params

__all__ = ["STAGE_SECTIONS", "Params", "digest", "load", "load_stage", "parse"]
