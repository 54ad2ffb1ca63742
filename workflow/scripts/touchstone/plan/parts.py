"""The parts of a study that are mappings of their own: scales, turns, environments.

The text of every field is the documentation that `config/README.md` is generated from.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from touchstone.schema.spec import PINNED

YEAR = 366 * 24 * 3600
"""Seconds; what is to take longer is a slip of the pen."""
EnvironmentName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=40)]
"""It becomes a part of the names of cells, and so of folders."""


class Environment(BaseModel):
    """An environment of the user (`docs/environments.md`); it has one of the last three keys."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    framework: Annotated[str, Field(description="the framework that is installed there")]
    python: Annotated[
        str | None,
        Field(
            description="path of an interpreter that exists, as `/opt/nightly/bin/python`; nothing "
            "is ever installed there"
        ),
    ] = None
    file: Annotated[
        str | None,
        Field(
            description="path of a conda environment file with a line `python=X.Y` and packages of "
            "pip, from which an environment is installed as from those in `envs/`"
        ),
    ] = None
    container: Annotated[
        str | None,
        Field(
            description="an image that Apptainer or Podman runs, as "
            "`nvcr.io/nvidia/pytorch:26.01-py3`, or the path of an image's file for Apptainer; it "
            "must be on this machine"
        ),
    ] = None


class Program(BaseModel):
    """A script of the user (`docs/programs.md`)."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    file: Annotated[
        str, Field(description="path of the script, from the folder in which the study is run")
    ]
    arguments: Annotated[
        list[str],
        Field(
            description="what follows it on the command line; `{batch_size}`, `{threads}`, `{seed}`"
            " or `{device}` within a text is the cell's"
        ),
    ] = []
    environment: Annotated[
        str, Field(description="one of the study's `environments`, or `pinned`: that of `envs/`")
    ] = PINNED
    framework: Annotated[
        str | None, Field(description="with the environment `pinned`: the framework that it uses")
    ] = None
    files: Annotated[
        list[str],
        Field(
            description="other files on which it depends: a change of one repeats its runs, as one"
            " of what the script imports from its own folder does"
        ),
    ] = []
    until: Annotated[
        Literal["measured", "end"],
        Field(
            description="`measured`: a run ends when it has been measured for `program_seconds`; "
            "`end`: when the script ends, whose whole time is measured too"
        ),
    ] = "measured"


class Scale(BaseModel):
    """What a shorter scale of a study changes: its cells have other settings, or some stay."""

    model_config = ConfigDict(extra="forbid", strict=True)

    repeats: Annotated[int | None, Field(gt=0, le=10_000, description="instead of the study's")] = (
        None
    )
    defaults: Annotated[
        dict[str, Any], Field(description="settings that replace those of `defaults`")
    ] = {}
    sweeps: Annotated[
        list[dict[str, Any]],
        Field(
            description="a mapping for each sweep: settings that replace its own; a list has the "
            "values of the sweep's list that stay"
        ),
    ] = []


class Interleave(BaseModel):
    """How cells that are compared are measured in turn (`docs/measuring.md`)."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    sets: Annotated[
        int,
        Field(ge=3, le=100, description="sets of fresh processes, one of each cell; at least 3"),
    ] = 5
    rounds: Annotated[
        int,
        Field(
            ge=3,
            le=1000,
            description="rounds of a set in which no other program uses the cores; up to twice"
            " as many are measured for them",
        ),
    ] = 20
    slice_seconds: Annotated[
        float, Field(gt=0, le=60, description="how long a cell works when it has its turn, s")
    ] = 0.4
    lead_seconds: Annotated[
        float,
        Field(
            ge=0,
            le=60,
            description="how long it works before each slice without being measured, so that caches"
            " are warm, s",
        ),
    ] = 0.15
    precision: Annotated[
        float | None,
        Field(
            gt=0,
            le=1,
            description="measure more sets until the interval of every ratio reaches at most so far"
            " beyond it, as a share (0.03: 3 %); null: only `sets`",
        ),
    ] = None
    max_sets: Annotated[
        int, Field(ge=3, le=1000, description="the most sets, with `precision`")
    ] = 30
    max_seconds: Annotated[
        float,
        Field(
            gt=0, le=YEAR, description="after this time no set begins if 3 or more are measured, s"
        ),
    ] = 900.0

    @model_validator(mode="after")
    def _enough_sets(self) -> Interleave:
        if self.precision is not None and self.max_sets < self.sets:
            raise ValueError(f"max_sets {self.max_sets} is less than sets {self.sets}; raise it")
        return self


class Shapes(BaseModel):
    """A file of `config/operations`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    source: Annotated[str, Field(description="where the shapes are from")]
    shapes: Annotated[
        dict[str, Annotated[list[str], Field(min_length=1)]],
        Field(description="a list of shapes, as `64x8x64`, for each operation"),
    ]
