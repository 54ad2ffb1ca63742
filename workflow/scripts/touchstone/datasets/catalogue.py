"""The catalogue: one file `config/datasets/<name>.yaml` per data set, checked strictly.

A file of the working folder comes before one of the project, which may be an installed package.
It is read whenever the Snakefile loads, so nothing here imports NumPy.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import yaml
from pydantic import (
    BaseModel,
    Field,
    PositiveInt,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from touchstone.datasets import decoders
from touchstone.datasets.errors import CatalogueError as CatalogueError
from touchstone.datasets.facts import Photos, Splits
from touchstone.paths import ROOT
from touchstone.yaml_file import parsed

FOLDER = ROOT / "config/datasets"
OWN = Path("config/datasets")
"""Of the working folder."""

Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
FILE_NAME = r"^\w[\w.+-]*$"
FileName = Annotated[str, StringConstraints(pattern=FILE_NAME)]
Requirement = Annotated[str, StringConstraints(pattern=r"^[\w.-]+==[\w.+!-]+$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
if TYPE_CHECKING:
    Decoder = decoders.Decoder
else:
    Decoder = Annotated[reduce(or_, decoders.kinds()), Field(discriminator="name")]


def is_url(text: str) -> bool:
    """Whether `text` is an http or https address with a host."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)


class Source(BaseModel, extra="forbid", frozen=True, strict=True):
    """One file to download, from mirrors (`urls`) or out of a Python package (`package`).

    A file is the right one if its SHA-256 is `sha256` or, where `content_sha256` is given, if it
    has that SHA-256 or is a gzip file whose content has: a mirror may have compressed the same
    content again, and a user's file may not be compressed. `size` (bytes) belongs to `sha256`: it
    refuses a wrong file before the download, and only where there is no `content_sha256`.
    """

    name: FileName
    size: PositiveInt
    sha256: Sha256
    content_sha256: Sha256 | None = None
    urls: list[str] = []
    package: Requirement | None = Field(None, validate_default=True)

    @field_validator("urls")
    @classmethod
    def _are_urls(cls, urls: list[str]) -> list[str]:
        wrong = [url for url in urls if not is_url(url)]
        if wrong:
            raise ValueError(f"not an http or https address: {', '.join(wrong)}")
        return urls

    @field_validator("package")
    @classmethod
    def _one_origin(cls, package: str | None, info: ValidationInfo) -> str | None:
        if "urls" in info.data and bool(info.data["urls"]) == bool(package):
            raise ValueError("a source needs either urls or a package, and not both")
        return package


class Fingerprints(BaseModel, extra="forbid", frozen=True, strict=True):
    """What the fingerprints of the converted splits must be (docs/contracts.md)."""

    train: Sha256
    test: Sha256


class Shards(BaseModel, extra="forbid", frozen=True, strict=True):
    """Number of files that a split is spread over, in the formats that can."""

    train: PositiveInt = 1
    test: PositiveInt = 1


class Dataset(BaseModel, extra="forbid", frozen=True, strict=True):
    """One data set.

    `shape` is height, width and channels of a network's input: of photos, the cut that is taken
    of each. `classes` are names in the order of the labels; a number stands for "0", "1", ....
    `mean` and `std` are per channel, of pixel / 255 over the train split; the bytes of a text are
    tokens, which are not scaled: its shape is steps, 1, 1, its mean 0 and its std 1.
    A pixel of which a channel is at least `foreground` is part of what the label names, the others
    are background: for networks that label pixels.
    `fingerprints`, where given, are those of the whole, right data set.
    """

    name: FileName
    title: Text
    licence: Text
    citation: Text
    shape: Annotated[list[PositiveInt], Field(min_length=3, max_length=3)]
    classes: Annotated[list[Text], Field(min_length=2)]
    splits: Splits
    mean: list[Annotated[float, Field(ge=0, le=1)]]
    std: list[Annotated[float, Field(gt=0, le=1)]]
    sources: list[Source] = []
    decoder: Decoder
    photos: Photos | None = None
    foreground: Annotated[int, Field(ge=1, le=255)] | None = None
    shards: Shards = Shards()
    fingerprints: Fingerprints | None = None

    @property
    def tokens(self) -> bool:
        """Whether its examples are texts, whose bytes are tokens."""
        return self.decoder.TOKENS

    @field_validator("shape")
    @classmethod
    def _channels(cls, shape: list[int]) -> list[int]:
        if shape[2] not in (1, 3):
            raise ValueError("the shape is height, width, channels, with 1 or 3 channels")
        return shape

    @field_validator("classes", mode="before")
    @classmethod
    def _numbered_classes(cls, classes: Any) -> Any:
        counted = isinstance(classes, int) and not isinstance(classes, bool)
        return [str(label) for label in range(classes)] if counted else classes

    @field_validator("classes")
    @classmethod
    def _unique_classes(cls, classes: list[str]) -> list[str]:
        _refuse_repeats(classes)
        return classes

    @field_validator("mean", "std")
    @classmethod
    def _per_channel(cls, values: list[float], info: ValidationInfo) -> list[float]:
        if "shape" in info.data and len(values) != info.data["shape"][2]:
            raise ValueError(f"{len(values)} values for {info.data['shape'][2]} channels")
        return values

    @field_validator("sources")
    @classmethod
    def _unique_sources(cls, sources: list[Source]) -> list[Source]:
        _refuse_repeats([source.name for source in sources])
        return sources

    @field_validator("decoder")
    @classmethod
    def _known_sources(cls, decoder: Decoder, info: ValidationInfo) -> Decoder:
        if "sources" in info.data:
            sources = {source.name for source in info.data["sources"]}
            if unknown := sorted(set(decoder.sources()) - sources):
                raise ValueError(f"no source is named {', '.join(unknown)}")
        return decoder

    @field_validator("decoder")
    @classmethod
    def _unscaled_tokens(cls, decoder: Decoder, info: ValidationInfo) -> Decoder:
        given = [info.data[key] for key in ("shape", "mean", "std") if key in info.data]
        good = len(given) < 3 or given == [[given[0][0], 1, 1], [0.0], [1.0]]
        if decoder.TOKENS and not good:  # what is missing is a fault of its own
            raise ValueError("a text wants a shape of steps, 1, 1, a mean of [0.0], a std of [1.0]")
        return decoder

    @field_validator("photos")
    @classmethod
    def _can_give_photos(cls, photos: Photos | None, info: ValidationInfo) -> Photos | None:
        if photos is not None and "decoder" in info.data and not info.data["decoder"].PHOTOS:
            raise ValueError(f"the decoder {info.data['decoder'].name} gives no photos")
        return photos


def _refuse_repeats(values: list[str]) -> None:
    repeated = sorted({value for value in values if values.count(value) > 1})
    if repeated:
        raise ValueError(f"named more than once: {', '.join(repeated)}")


def shard_names(split: str, shards: int) -> list[str]:
    """Names without suffixes of a split's records: the split's own, or one a shard."""
    if shards == 1:
        return [split]
    return [f"{split}-{shard:05d}-of-{shards:05d}" for shard in range(shards)]


def names(folder: Path = FOLDER) -> list[str]:
    """Names of the data sets in `folder`, sorted; for the project's, those of the user too."""
    return sorted({path.stem for place in _folders(folder) for path in place.glob("*.yaml")})


def path_of(name: str, folder: Path = FOLDER) -> Path:
    """The file of the data set `name`, which need not exist."""
    paths = [place / f"{name}.yaml" for place in _folders(folder)]
    return next((path for path in paths if path.exists()), paths[-1])


def _folders(folder: Path) -> list[Path]:
    """Where the data sets of a folder are, in order of precedence."""
    return [OWN, folder] if folder.resolve() == FOLDER else [folder]


def most_shards(name: str, folder: Path = FOLDER) -> int:
    """The largest number of files that a split of the data set `name` is spread over."""
    shards = load(name, folder).shards
    return max(shards.train, shards.test)


def load(name: str, folder: Path = FOLDER) -> Dataset:
    """The data set `name`; raises CatalogueError with all the faults of its file."""
    path = path_of(name, folder)
    if name not in names(folder):
        choices = ", ".join(names(folder)) or "none"
        raise CatalogueError(f"{path}: there is no data set {name!r}; use one of: {choices}")
    keys = _read(path)
    named = ["name: the file's name is the data set's; remove the key"] if "name" in keys else []
    try:
        dataset = Dataset.model_validate({**keys, "name": name})
        faults = named
    except ValidationError as error:
        faults = named + [_describe(fault) for fault in error.errors()]
    if faults:
        raise CatalogueError("\n".join(f"{path}: {fault}" for fault in faults))
    return dataset


def _read(path: Path) -> dict[str, Any]:
    """The mapping in the YAML file `path`; raises CatalogueError."""
    try:
        keys, repeated = parsed(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CatalogueError(
            f"{path}: {error.strerror}; make it a file that you may read"
        ) from error
    except UnicodeDecodeError as error:
        raise CatalogueError(
            f"{path}: byte {error.start} is not UTF-8; save it as UTF-8"
        ) from error
    except yaml.YAMLError as error:
        cause = " ".join(str(error).split())
        raise CatalogueError(f"{path}: not YAML ({cause}); correct the syntax") from error
    if not isinstance(keys, dict):
        raise CatalogueError(f"{path}: not a mapping of keys; write one `key: value` a line")
    if repeated:
        cause = f"more than once in one mapping: {'; '.join(repeated)}"
        raise CatalogueError(f"{path}: {cause}; keep one each")
    return keys


def _describe(fault: Any) -> str:
    """`key: cause; remedy` of one of pydantic's faults."""
    key = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "missing":
        return f"{key}: the key is missing; add it"
    if fault["type"] == "extra_forbidden":
        return f"{key}: unknown key; remove it or correct its spelling"
    cause = fault["msg"].removeprefix("Value error, ")
    return f"{key}: {cause}; correct the value (now {fault['input']!r:.60})"
