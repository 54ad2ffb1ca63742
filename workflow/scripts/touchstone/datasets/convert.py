"""Decode a data set and write it in a record format, checked at both ends.

A split of many shards is written by parallel processes, and an interrupted conversion goes on
with the shards that are missing.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import multiprocessing
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from touchstone.datasets import formats, manifest, manifest_file, verify
from touchstone.datasets.catalogue import Dataset, shard_names
from touchstone.datasets.errors import DatasetError, DatasetErrors
from touchstone.datasets.formats import Example
from touchstone.files import write_atomic
from touchstone.reading import parse_json, text_of
from touchstone.signals import silence

_SAMPLE = 128
"""Examples from which the size of all is estimated."""
_WORTH_SAYING = 1e9
"""Bytes from which the size of a conversion is printed."""
_RESERVE = 1.1
"""What the disk must have of that estimate."""


@dataclass(frozen=True)
class _Job:
    """What every shard of a conversion needs."""

    dataset: Dataset
    source: Path
    record_format: str
    work: Path
    examples: dict[str, Sequence[Example]]


@dataclass(frozen=True)
class _Shard:
    """The examples [begin, end) of a split, which go to the files of one stem."""

    split: str
    name: str
    begin: int
    end: int


def convert(
    dataset: Dataset, source: Path, record_format: str, output: Path, processes: int = 1
) -> None:
    """Convert the sources in the folder `source` into `output`, manifest.json last.

    Everything is written into a folder beside `output` and moved when it is whole, so that
    nothing half-written ever has its final name. That folder stays after a failure if it has
    finished shards, which a later call keeps. Raises DatasetError and OSError.
    """
    output = output.resolve()
    form = formats.load(record_format)
    if dataset.photos is not None and not form.PHOTOS:
        others = [name for name in formats.names() if formats.load(name).PHOTOS]
        raise DatasetError(
            output, f"{record_format} records hold no photos", f"use one of: {', '.join(others)}"
        )
    for file in dataset.sources:
        verify.require(source / file.name, file)
    work = output.parent / f".{output.name}.part"
    _prepare(work, dataset, record_format)
    try:
        examples = {
            split: dataset.decoder.examples(dataset, split, source) for split, _ in dataset.splits
        }
        for split, count in dataset.splits:
            if len(examples[split]) != count:
                raise DatasetError(
                    source,
                    f"{len(examples[split])} {split} examples, not {count}",
                    f"correct splits in the catalogue of {dataset.name}",
                )
        job = _Job(dataset, source, record_format, work, examples)
        shards = _shards(job)
        done = {shard.name: entry for shard in shards if (entry := _finished(job, shard))}
        _require_space(job, output, done)
        done |= _write_all(job, [s for s in shards if s.name not in done], processes)
        splits = {
            split: manifest.merged([done[shard.name] for shard in shards if shard.split == split])
            for split, _ in dataset.splits
        }
        _check_fingerprints(dataset, source, splits)
        _say_empty_classes(dataset, splits)
        manifest.write(work / "manifest.json", dataset, record_format, splits)
        _publish(work, output)
    finally:
        if not any(work.glob("*.shard")):
            shutil.rmtree(work, ignore_errors=True)


def _prepare(work: Path, dataset: Dataset, record_format: str) -> None:
    """Make the folder `work`, or keep it if it is of the same data set and format."""
    identity = json.dumps([dataset.model_dump(), record_format], sort_keys=True)
    key = hashlib.sha256(identity.encode()).hexdigest()
    if not (work / "key").is_file() or (work / "key").read_text() != key:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        (work / "key").write_text(key)


def _shards(job: _Job) -> list[_Shard]:
    """The shards of both splits, equal to one example."""
    shards = []
    for split, count in job.dataset.splits:
        sharded = formats.load(job.record_format).SHARDED
        number = getattr(job.dataset.shards, split) if sharded else 1
        for place, name in enumerate(shard_names(split, number)):
            bounds = (count * place // number, count * (place + 1) // number)
            shards.append(_Shard(split, name, *bounds))
    return shards


def _finished(job: _Job, shard: _Shard) -> dict[str, Any] | None:
    """The entry of a shard that an earlier call has written, if its files are whole."""
    mark = job.work / f"{shard.name}.shard"
    if not mark.is_file():
        return None
    try:
        entry: dict[str, Any] = parse_json(text_of(mark))
        for file in entry["files"]:
            path = job.work / file["name"]
            if not path.is_file() or manifest_file.sha256(path) != file["sha256"]:
                return None
    except (ValueError, KeyError, TypeError):  # damaged: the shard is written again
        return None
    return entry


def _require_space(job: _Job, output: Path, done: dict[str, Any]) -> None:
    """Print how much disk a large conversion needs; raises DatasetError if there is less."""
    form = formats.load(job.record_format)
    needed = 0
    for examples in job.examples.values():
        step = -(-len(examples) // _SAMPLE)
        sample = []
        for index in range(0, len(examples), step):
            try:
                sample.append(form.record_size(len(formats.content(examples[index][1]))))
            except DatasetError:
                continue  # reported when its turn comes, with all others
        needed += round(sum(sample) / max(1, len(sample)) * len(examples))
    written = sum(file["bytes"] for entry in done.values() for file in entry["files"])
    free = shutil.disk_usage(job.work).free
    kept = f", {written / 1e9:.3f} GB of it written before" if done else ""
    if needed >= _WORTH_SAYING or done:
        print(
            f"{output}: needs about {needed / 1e9:.3f} GB{kept}; {free / 1e9:.3f} GB are free",
            file=sys.stderr,
            flush=True,
        )
    if needed * _RESERVE - written > free:
        raise DatasetError(
            output,
            f"{needed * _RESERVE / 1e9:.3f} GB are needed, {free / 1e9:.3f} GB are free",
            "make room on that disk, or put the results folder on another one",
        )


_job: _Job
"""The conversion that a worker process is for."""


def _write_all(job: _Job, shards: list[_Shard], processes: int) -> dict[str, dict[str, Any]]:
    """Write the shards; returns their entries by name. Raises all faults of them at once."""
    if processes == 1 or len(shards) < 2:
        _begin(job)
        results = map(_write, shards)
        return _gather(job, shards, results)
    # Forked, so that the index of the examples is shared and not sent.
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(
        min(processes, len(shards)), context, initializer=_begin_worker, initargs=(job,)
    ) as pool:
        try:
            return _gather(job, shards, pool.map(_write, shards))
        except BrokenProcessPool as error:
            raise DatasetError(
                job.work,
                "a process that converts was killed",
                "look for a lack of memory; the finished shards are kept",
            ) from error


def _gather(
    job: _Job, shards: list[_Shard], results: Iterator[dict[str, Any] | DatasetError]
) -> dict[str, dict[str, Any]]:
    """Entries by name of shard; raises the faults among the results."""
    entries, faults = {}, []
    for number, (shard, result) in enumerate(zip(shards, results, strict=True), 1):
        if isinstance(result, DatasetError):
            faults.append(result)
            continue
        entries[shard.name] = result
        if len(shards) > 2:
            print(f"{shard.name}: {number} of {len(shards)} shards", file=sys.stderr, flush=True)
    if faults:
        raise DatasetErrors(faults)
    return entries


def _begin(job: _Job) -> None:
    global _job
    _job = job


def _begin_worker(job: _Job) -> None:
    """Die with the process that forked this one: prctl(PR_SET_PDEATHSIG), see linux/prctl.h."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    silence()
    _begin(job)


def _write(shard: _Shard) -> dict[str, Any] | DatasetError:
    """Write one shard and read it back; returns its entry, or what is wrong with its examples."""
    job, form = _job, formats.load(_job.record_format)
    classes = len(job.dataset.classes)
    shape = job.dataset.shape if job.dataset.photos is None else None
    decoded = manifest.Summary(classes)
    faults: list[DatasetError] = []
    stem = job.work / shard.name
    files = form.write(stem, _checked(job, shard, decoded, faults))
    if faults:
        for path in files:
            path.unlink()
        return DatasetErrors(faults)
    try:
        written = manifest.summarise(stem, job.record_format, shape, classes)
    except formats.DAMAGED as error:
        raise DatasetError(
            stem, f"what was written cannot be read back ({error})", "check the disk and try again"
        ) from error
    if written.fingerprint != decoded.fingerprint:
        raise DatasetError(
            stem, "what was read back is not what was written", "check the disk and try again"
        )
    entry = manifest.entry(written, files, job.work)
    if shard.name != shard.split:
        write_atomic(job.work / f"{shard.name}.shard", json.dumps(entry))
    return entry


def _checked(
    job: _Job, shard: _Shard, summary: manifest.Summary, faults: list[DatasetError]
) -> Iterator[Example]:
    """Pass the good examples of the shard on, counted; the bad ones are listed in `faults`.

    Raises DatasetError for pixels of another shape than the catalogue's.
    """
    dataset, examples = job.dataset, job.examples[shard.split]
    remedy = f"correct shape and classes in the catalogue of {dataset.name}"
    for index in range(shard.begin, shard.end):
        try:
            label, image = examples[index]
        except DatasetError as fault:
            faults.append(fault)
            continue
        what = f"{shard.split} example {index}"
        if not isinstance(image, bytes) and list(image.shape) != dataset.shape:
            cause = f"{what} has the shape {list(image.shape)}, not {dataset.shape}"
            raise DatasetError(job.source, cause, remedy)  # as all the others will have
        if not 0 <= label < len(dataset.classes):
            cause = f"{what} has the label {label}, outside the {len(dataset.classes)} classes"
            faults.append(DatasetError(job.source, cause, remedy))
            continue
        summary.add(label, image)
        yield label, image


def _check_fingerprints(dataset: Dataset, source: Path, splits: dict[str, Any]) -> None:
    """Raise DatasetError unless the splits are those that the catalogue means."""
    for split, wanted in dataset.fingerprints or ():
        fingerprint = splits[split]["fingerprint"]
        if fingerprint != wanted:
            raise DatasetError(
                source,
                f"the {split} examples have the fingerprint {fingerprint}, not {wanted}",
                f"they have changed since the catalogue of {dataset.name} was written; restore "
                "them, or describe them again",
            )


def _say_empty_classes(dataset: Dataset, splits: dict[str, Any]) -> None:
    """Print which classes have no example: labels may begin at 1, or a folder be empty."""
    for split, entry in splits.items():
        pairs = zip(dataset.classes, entry["histogram"], strict=True)
        if empty := [name for name, count in pairs if count == 0]:
            more = ", ..." if len(empty) > 5 else ""
            line = f"{dataset.name}: no {split} example of {len(empty)} of its classes"
            print(f"{line}: {', '.join(empty[:5])}{more}", file=sys.stderr, flush=True)


def _publish(work: Path, output: Path) -> None:
    """Move what is in `work` to `output`: the old manifest goes first, the new comes last."""
    for mark in [work / "key", *work.glob("*.shard*")]:
        mark.unlink()
    output.mkdir(exist_ok=True)
    (output / "manifest.json").unlink(missing_ok=True)
    for old in [*output.glob("train*"), *output.glob("test*"), output / "mean.xml"]:
        shutil.rmtree(old) if old.is_dir() else old.unlink(missing_ok=True)
    for path in sorted(work.iterdir(), key=lambda path: (path.name == "manifest.json", path.name)):
        path.replace(output / path.name)
