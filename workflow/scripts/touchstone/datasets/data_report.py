"""What the images of a folder are, what becomes of them, and which are there twice.

`describe-folder` prints the report and writes it beside the catalogue's file of the data set; the
page of a study shows its remarks.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, NonNegativeInt, PositiveInt

from touchstone.datasets import catalogue
from touchstone.datasets.catalogue import Fingerprints
from touchstone.reading import parse_json, text_of

if TYPE_CHECKING:
    from touchstone.datasets.errors import DatasetError
    from touchstone.datasets.photos import ImageFacts

SUFFIX = ".report.json"
"""Of a report's file, after the data set's name."""
MOST_NAMED = 5
"""Files, classes or sizes that are named, of however many there are."""
MOST_BYTES = 1 << 20
"""Of a report's file."""


class DataReportPart(BaseModel, extra="forbid", frozen=True, strict=True):
    """A part of a data report."""


class Remark(DataReportPart, frozen=True):
    """Something that readers of the data must know."""

    what: str
    """`transparency` for example."""
    count: PositiveInt
    """How many images, or classes, it holds for."""
    treatment: str
    """What becomes of them, or why it matters."""
    first: list[str]
    """The first of them."""


class DataReport(DataReportPart, frozen=True):
    """The report of a folder of images."""

    format: Literal[1] = 1
    images: dict[str, NonNegativeInt]
    """Number of images by split."""
    formats: dict[str, PositiveInt]
    """Number of images by file format, whatever their suffix."""
    modes: dict[str, PositiveInt]
    """Number of images by Pillow's name of the kind of their pixels."""
    sizes: dict[str, PositiveInt]
    """Number of images by `width x height`, of the most frequent sizes."""
    different_sizes: NonNegativeInt
    """How many sizes there are."""
    remarks: list[Remark]
    fingerprints: Fingerprints | None = None
    """Those of the catalogue's file that was written with the report."""

    @property
    def lines(self) -> list[str]:
        """The report for a terminal."""
        kinds = [("images", self.images), ("formats", self.formats), ("modes", self.modes)]
        rows = [f"  {name}: {_counts(values)}" for name, values in kinds if values]
        more = self.different_sizes - len(self.sizes)
        rest = f" and {more} more" if more > 0 else ""
        rows.append(f"  sizes (width x height): {_counts(self.sizes)}{rest}")
        rows += [f"  {_words(remark)}" for remark in self.remarks]
        return rows if self.remarks else [*rows, "  nothing that needs a rule, and nothing twice"]


@dataclass(frozen=True)
class Seen:
    """An image file that was read."""

    path: Path
    name: str
    """What the report calls it."""
    label: str
    """Its class."""
    split: str
    facts: ImageFacts | None = None
    """None where its headers do not decode."""
    largest: int | None = None
    """The largest value, of a grey image of more than 8 bits."""
    digest: bytes = b""
    """Of its upright pixels and their size; empty where no rule makes pixels of it."""
    encoded_again: bool = False
    """Whether its photo is not kept byte for byte."""
    fault: DatasetError | None = None
    wants_bits: bool = False
    """Whether the fault is that nothing says how many bits its values use."""


Rule = tuple[str, Callable[["ImageFacts"], bool], str]
RULES: tuple[Rule, ...] = (
    ("CMYK", lambda facts: facts.mode == "CMYK", "converted to RGB without a colour profile"),
    ("palette", lambda facts: facts.mode in ("P", "PA"), "its colours count, as RGB"),
    ("EXIF orientation", lambda facts: facts.orientation != 1, "turned upright"),
    ("transparency", lambda facts: facts.transparent, "laid on white"),
    ("several frames", lambda facts: facts.frames > 1, "only the first frame or page counts"),
    ("colour profile", lambda facts: facts.profile, "not applied: the stored values count"),
)
"""What a file may have, how to tell, and what becomes of it: docs/datasets.md has the same."""


def report(seen: Sequence[Seen], bits: int | None, empty: dict[str, list[str]]) -> DataReport:
    """The report of the images of a folder.

    Args:
        seen: every image.
        bits: how many bits the values of images with more than 8 use; None where nothing says so.
        empty: by split, the classes that have no image in it.
    """
    decoded = [(image, image.facts) for image in seen if image.facts is not None]
    sizes = Counter("{} x {}".format(*facts.size) for _, facts in decoded)
    remarks = [
        *_depths(seen, bits),
        *(
            _remark(what, [image.name for image, facts in decoded if has(facts)], treatment)
            for what, has, treatment in RULES
        ),
        _remark(
            "suffix of another format",
            [image.name for image, facts in decoded if not _fits(image.path, facts.format)],
            "the content counts",
        ),
        _remark(
            "no JPEG file that is kept as it is",
            [image.name for image in seen if image.encoded_again],
            "encoded again as JPEG",
        ),
        *_duplicates(seen),
        *(
            _remark(f"no {split} image", names, "classes without one")
            for split, names in empty.items()
        ),
        _remark("refused", [image.name for image in seen if image.fault], "see the message"),
    ]
    return DataReport(
        images={split: sum(image.split == split for image in seen) for split in empty},
        formats=_by_count(facts.format for _, facts in decoded),
        modes=_by_count(facts.mode for _, facts in decoded),
        sizes=dict(sizes.most_common(MOST_NAMED)),
        different_sizes=len(sizes),
        remarks=[remark for remark in remarks if remark is not None],
    )


def path_of(catalogue_file: Path) -> Path:
    """Where the report of a data set is: beside its catalogue's file."""
    return catalogue_file.with_suffix(SUFFIX)


def text(model: DataReport) -> str:
    """The content of a report's file."""
    return json.dumps(model.model_dump(), indent=1, ensure_ascii=False) + "\n"


def read(path: Path) -> DataReport | None:
    """The report at `path` of the data set that the catalogue's file beside it describes.

    None if there is none, or if it is damaged or of other images.
    """
    name = path.name.removesuffix(SUFFIX)
    try:
        model = DataReport.model_validate(parse_json(text_of(path, MOST_BYTES)))
        described = catalogue.load(name, path.parent)
    except (OSError, ValueError):
        return None
    return model if model.fingerprints == described.fingerprints else None


def read_all(paths: Iterable[Path]) -> dict[str, DataReport]:
    """The reports that count, by data set."""
    reports = {path.name.removesuffix(SUFFIX): read(path) for path in paths}
    return {name: report for name, report in reports.items() if report is not None}


def _remark(what: str, names: Sequence[str], treatment: str) -> Remark | None:
    if not names:
        return None
    return Remark(what=what, count=len(names), treatment=treatment, first=list(names[:MOST_NAMED]))


def _depths(seen: Sequence[Seen], bits: int | None) -> list[Remark | None]:
    """Images with more than 8 bits a channel: those that a rule scales, and those of which none
    does."""
    groups: dict[tuple[int, str], list[Seen]] = {}
    for image in seen:
        if image.facts is not None and image.facts.bits > 8:
            groups.setdefault((image.facts.bits, image.facts.mode), []).append(image)
    return [
        _remark(f"{depth}-bit, mode {mode}", [image.name for image in group], _scaled(group, bits))
        for (depth, mode), group in groups.items()
    ]


def _scaled(group: Sequence[Seen], bits: int | None) -> str:
    """What becomes of images of more than 8 bits."""
    largest = max((image.largest for image in group if image.largest is not None), default=None)
    seen = "" if largest is None else f", the largest value is {largest:,}"
    taken = bits is not None and not all(image.fault for image in group)
    return (f"the 8 highest of {bits} bits are kept" if taken else "refused") + seen


def _fits(path: Path, kind: str) -> bool:
    """Whether a file's suffix is one of its format."""
    from PIL import Image

    return Image.registered_extensions().get(path.suffix.lower()) in (
        kind,
        {"MPO": "JPEG"}.get(kind),
    )


def _duplicates(seen: Sequence[Seen]) -> list[Remark | None]:
    """Images with equal pixels, as pairs."""
    groups: dict[bytes, list[Seen]] = {}
    for image in seen:
        if image.digest:
            groups.setdefault(image.digest, []).append(image)
    twins = [group for group in groups.values() if len(group) > 1]
    within, classes, splits = [], [], []
    for group in twins:
        of_label, of_splits = _firsts(group, "label"), _firsts(group, "split")
        within += [(of_label[img.label], img) for img in group if of_label[img.label] is not img]
        classes += [(group[0], img) for img in list(of_label.values())[1:]]
        splits += [(group[0], img) for img in list(of_splits.values())[1:]]
    return [
        _remark("duplicates within a class", _equations(within), "the same pixels"),
        _remark("duplicates across classes", _equations(classes), "the same pixels, other labels"),
        _remark("duplicates across splits", _equations(splits), "tested on what is trained on"),
    ]


def _firsts(group: Sequence[Seen], key: str) -> dict[Any, Seen]:
    """The first of each value of an attribute."""
    firsts: dict[Any, Seen] = {}
    for image in group:
        firsts.setdefault(getattr(image, key), image)
    return firsts


def _equations(pairs: Iterable[tuple[Seen, Seen]]) -> list[str]:
    return [f"{left.name} = {right.name}" for left, right in pairs]


def _by_count(values: Iterable[str]) -> dict[str, int]:
    return dict(Counter(values).most_common())


def _counts(values: dict[str, int]) -> str:
    return ", ".join(f"{name} ({count:,})" for name, count in values.items()) or "none"


def _words(remark: Remark) -> str:
    more = ", ..." if remark.count > len(remark.first) else ""
    return f"{remark.what}: {remark.count:,} ({remark.treatment}): {', '.join(remark.first)}{more}"
