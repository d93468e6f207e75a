"""The base of every params model: frozen, typed strictly, unknown keys refused, no default values.

No default lives in Python because DVC could not see it change: every key stands in params.yaml.
A field's docstring is its only documentation; docs/params.md is generated from it.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    """A section of params.yaml."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True, allow_inf_nan=False
    )


Count = Annotated[int, Field(ge=1)]
CountOrZero = Annotated[int, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
NonNegative = Annotated[float, Field(ge=0.0)]
Positive = Annotated[float, Field(gt=0.0)]
LearningRate = Annotated[float, Field(gt=0.0, lt=1.0)]
