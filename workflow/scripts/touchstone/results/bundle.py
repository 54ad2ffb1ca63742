"""One machine's results in one file: packed to be carried elsewhere, and checked when read.

A bundle is a ZIP archive that never has a data set in it. docs/machines.md lists its members.
"""

import hashlib
import io
import json
import re
import socket
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from touchstone.results.files import (
    REMAKE,
    InputError,
    parse_json,
    read_object,
    read_text,
    write_atomic,
)
from touchstone.results.planned import PlannedCell, read_plan, read_records
from touchstone.results.privacy import Names
from touchstone.results.record_model import faults as faults_of_record
from touchstone.results.record_model import schema_faults
from touchstone.results.study import distinct
from touchstone.safe_text import has_control, mapped, one_line
from touchstone.yaml_file import parsed

KIND, FORMAT = "touchstone bundle", 1
MANIFEST, PLAN, CONFIG = "manifest.json", "plan.tsv", "config.resolved.yaml"
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
MEMBERS = re.compile(
    rf"manifest\.json|plan\.tsv|config\.resolved\.yaml|records/{NAME}/rep[1-9]\d*\.json"
    rf"|runs/{NAME}/rep[1-9]\d*/env\.json|parity/{NAME}\.json|data/{NAME}/{NAME}/manifest\.json"
)
"""The only names that a member may have: no absolute path and no `..` is among them."""
MOST_MEMBERS = 200_000
MOST_BYTES = 64 * 2**20
"""Of one member, unpacked."""
MOST_BYTES_OF_JSON = 8 * 2**20
"""Of one of JSON, whose values take up to thirty times as much memory."""
MOST_BYTES_OF_ALL = 2**30
LARGEST = 1e40
"""Of the numbers of a bundle, without sign."""
MOST_MISSING = 10_000
"""Runs."""
TOLD = 5
"""Faults that a message names."""
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date that a ZIP archive can say
HIDDEN = "left out of the bundle"
FRESH = "Get the file again from the machine that made it with `snakemake bundle`"
COMPLETE = "Run the workflow to its end first"


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")


class _Kind(_Part):
    cpu_model: str | None
    physical_cores: int | None
    logical_cores: int
    memory_gib: int | None
    gpus: list[str | None]


class _Named(_Part):
    name: str
    kinds: list[_Kind]


class _Counts(_Part):
    cells: int
    runs: int
    outcomes: dict[str, int]


class _File(_Part):
    bytes: int
    sha256: str


class Manifest(_Part):
    """What a bundle says of itself, as `pack` writes it."""

    touchstone: list[str | None]
    study: str
    machine: _Named
    counts: _Counts
    files: dict[str, _File]


def machine_kinds(machines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """What tells machines apart, without their host names: each different kind once."""
    return distinct(
        {
            "cpu_model": machine.get("cpu_model"),
            "physical_cores": machine.get("physical_cores"),
            "logical_cores": machine["logical_cores"],
            # Whole GiB: what a kernel keeps for itself changes with its version.
            "memory_gib": round(machine["memory_mib"] / 1024)
            if machine.get("memory_mib")
            else None,
            "gpus": [gpu.get("name") for gpu in machine.get("gpus", [])],
        }
        for machine in machines
    )


def machine_name(records: Iterable[dict[str, Any]]) -> str:
    """A name for the machine of these records: what computed, and a short digest of its kind.

    `AMD EPYC 9B14 (3fa9c1)`. Machines that are alike have the same name.
    """
    records = list(records)
    kinds = machine_kinds(record["provenance"]["machine"] for record in records)
    gpu = any(record["factors"]["device"] == "gpu" for record in records)
    models = []
    for kind in kinds:
        model = next(iter(kind["gpus"]), None) if gpu else None
        words = re.sub(
            r"\((R|TM)\)|\b(CPU|Processor|\d+-Core)\b|@.*", " ", model or kind["cpu_model"] or ""
        )
        models.append(" ".join(words.split()) or "machine")
    digest = hashlib.sha256(json.dumps(kinds, sort_keys=True).encode()).hexdigest()
    return f"{' + '.join(dict.fromkeys(models))} ({digest[:6]})"


def pack(results: Path, path: Path, name: str | None = None, hostname: bool = False) -> str:
    """Write the bundle of a results folder; the same results give the same bytes.

    Args:
        name: of the machine; None: `machine_name`.
        hostname: whether names of hosts, of the user and of folders stay in; else they are taken
            out of what is known of the machine, and out of reasons, logs and the configuration.

    Returns:
        The machine's name.

    Raises:
        InputError: a file of the results is missing or damaged.
    """
    plan = read_plan(results / PLAN)
    records = [record for _, cell in read_records(plan, results / "records") for record in cell]
    files = {name: read_text(results / name, COMPLETE) for name in (PLAN, CONFIG)}
    runs = {
        f"{record['cell']}/rep{record['repeat']}": (
            record,
            read_object(results / f"runs/{record['cell']}/rep{record['repeat']}/env.json"),
        )
        for record in records
    }
    others = {}
    for network in {cell.settings.network for cell in plan}:
        if (certificate := results / f"parity/{network}.json").exists():
            others[f"parity/{network}.json"] = certificate
    for dataset in {cell.settings.dataset for cell in plan}:
        # The fingerprints are the same in every record format.
        for data in sorted((results / "data" / dataset).glob("*/manifest.json"))[:1]:
            others[data.relative_to(results).as_posix()] = data
    files |= {member: read_text(file, COMPLETE) for member, file in others.items()}
    config = _configuration(results / CONFIG, files[CONFIG])
    if not hostname:
        machines = (machine for pair in runs.values() for machine in _machines(*pair))
        names = _names(results, plan, machines)
        for text in (*files.values(), *map(json.dumps, runs.values())):
            names.look_for_homes(text)
        runs = {run: _without_names(*pair, names) for run, pair in runs.items()}
        for member, file in others.items():
            files[member] = _json(names.of_value(_parsed(file, files[member])))
        files |= {PLAN: names.of_plan(files[PLAN]), CONFIG: names.of_configuration(config)}
    records = [record for record, _ in runs.values()]
    for run, (record, env) in runs.items():
        files[f"records/{run}.json"] = _json(mapped(record, one_line))
        files[f"runs/{run}/env.json"] = _json(mapped(env, one_line))
    if odd := [member for member in files if not MEMBERS.fullmatch(member)]:
        raise InputError(results, f"{odd[0]!r} is no name for a bundle", "Rename it")
    name = name or machine_name(records)
    contents = {member: text.encode() for member, text in sorted(files.items())}
    manifest = {
        "kind": KIND,
        "format": FORMAT,
        "touchstone": distinct(r["provenance"]["software"].get("touchstone") for r in records),
        "study": config.get("study"),
        "machine": {
            "name": name,
            "kinds": machine_kinds(record["provenance"]["machine"] for record in records),
        },
        "counts": {
            "cells": len(plan),
            "runs": len(records),
            "outcomes": dict(sorted(Counter(record["status"] for record in records).items())),
        },
        "files": {
            member: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for member, content in contents.items()
        },
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for member, content in {MANIFEST: _json(manifest).encode(), **contents}.items():
            info = zipfile.ZipInfo(member, EPOCH)
            info.create_system = 3  # Unix, whatever the machine
            info.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(info, content, zipfile.ZIP_DEFLATED, 9)
    write_atomic(path, buffer.getvalue())
    return name


def _configuration(path: Path, text: str) -> dict[str, Any]:
    """A resolved configuration. Raises InputError."""
    try:
        config, _ = parsed(text)
    except yaml.YAMLError:
        config = None
    if not isinstance(config, dict):
        raise InputError(path, "not a mapping of settings", REMAKE)
    return config


def _parsed(path: Path, text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError as error:
        raise InputError(path, f"not valid JSON ({error})", REMAKE) from None


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _names(results: Path, plan: Iterable[PlannedCell], machines: Iterable[dict[str, Any]]) -> Names:
    """The names of the machines of these results, and of who made them where."""
    hosts = {machine.get("hostname") or "" for machine in machines} | {socket.gethostname()}
    words = {value for cell in plan for value in (cell.name, *cell.factors.values())}
    return Names(hosts, (results, results.resolve(), Path.cwd()), words)


def _machines(record: dict[str, Any], env: dict[str, Any]) -> list[dict[str, Any]]:
    """What is known of the machines of a run: of each twice."""
    others = [node["machine"] for node in record["provenance"].get("nodes", [])]
    return [env["machine"], record["provenance"]["machine"], *others]


def _without_names(
    record: dict[str, Any], env: dict[str, Any], names: Names
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A record and the environment of its run without names of hosts, the user and folders."""
    record, env = names.of_value(record), names.of_value(env)
    for machine in _machines(record, env):
        machine["hostname"] = None
    for place in (record["provenance"], env):
        place["unknown"]["machine.hostname"] = HIDDEN
    return record, env


def read_manifest(path: Path) -> dict[str, Any]:
    """What a bundle says of itself, after all its members were checked against it.

    Raises:
        InputError: the file is no bundle, or one of its members is not what was packed.
    """
    members = _members(path)
    manifest: dict[str, Any] = parse_json(next(members)[1].decode())
    for _ in members:
        pass
    return manifest


def unpack(path: Path, folder: Path) -> dict[str, Any]:
    """Write a bundle's members, all checked, into an empty folder laid out as `results/`.

    Returns:
        Its manifest.

    Raises:
        InputError: it cannot be used; the message names the file, why, and what to do.
    """
    members = _members(path)
    manifest: dict[str, Any] = parse_json(next(members)[1].decode())
    faults: list[str] = []
    for member, data in members:
        if member.endswith(".json"):
            try:
                value = parse_json(data.decode())
            except ValueError as error:  # UnicodeDecodeError is one
                faults.append(f"{member} is not valid JSON ({error})")
                continue
            if has_control(value):
                faults.append(f"{member} has control characters")
            if large := _too_large(value):
                faults.append(f"{member} has {large}, which no measurement gives")
            faults += [f"{member}: {why}" for why in _odd_software(value)]
            if member.startswith("records/"):
                faults += [f"{member} is no record: {why}" for why in faults_of_record(value)[:1]]
        target = folder / member
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    _refuse(path, faults, "Bundle the results again with the version that reads them")
    try:
        _check_plan(path, read_plan(folder / PLAN), manifest)
    except InputError as error:
        text = str(error).replace(f"{folder}/", "")
        raise InputError(path, text.rstrip("."), FRESH) from None
    return manifest


def _too_large(value: Any) -> float | None:
    """A number in a value of JSON with which sums and products end in no number."""
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return next(filter(None, map(_too_large, parts)), None)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if number and abs(value) > LARGEST else None


def _odd_software(value: Any) -> list[str]:
    """What is wrong with the packages that a record or an environment names."""
    place = value.get("provenance", value) if isinstance(value, dict) else {}
    software = place.get("software") if isinstance(place, dict) else None
    packages = software.get("packages") if isinstance(software, dict) else None
    if packages is None or (
        isinstance(packages, list) and all(isinstance(package, str) for package in packages)
    ):
        return []
    return ["software.packages is no list of texts"]


def _check_plan(path: Path, plan: list[PlannedCell], manifest: dict[str, Any]) -> None:
    """Refuse a bundle whose runs are not those that its plan asks for."""
    runs, files = sum(cell.repeats for cell in plan), len(manifest["files"])
    if runs > files + MOST_MISSING:  # so many cannot be listed
        _refuse(path, [f"{runs:,} runs are planned, and it has {files:,} files"], FRESH)
    pairs = {(cell.name, n) for cell in plan for n in range(1, cell.repeats + 1)}
    wanted = {f"records/{cell}/rep{n}.json" for cell, n in pairs}
    wanted |= {f"runs/{cell}/rep{n}/env.json" for cell, n in pairs} | {CONFIG}
    present = {m for m in manifest["files"] if m == CONFIG or m.startswith(("records/", "runs/"))}
    faults = [f"{name} is missing" for name in sorted(wanted - present)]
    faults += [f"{name} is not planned" for name in sorted(present - wanted)]
    _refuse(path, faults, FRESH)


def _refuse(path: Path, faults: list[str], remedy: str) -> None:
    if faults:
        more = [f"and {len(faults) - TOLD} more"] if len(faults) > TOLD else []
        raise InputError(path, "; ".join(faults[:TOLD] + more), remedy)


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of every member, the manifest first; InputError for what is not packed so.

    Nothing is ever extracted by the archive's own word: names are those of `MEMBERS`, sizes those
    of the manifest.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            infos = {info.filename: info for info in archive.infolist()}
            _refuse(path, _odd(archive.infolist()), FRESH)
            if MANIFEST not in infos:
                raise InputError(path, f"no bundle of Touchstone: it has no {MANIFEST}", FRESH)
            data = archive.read(MANIFEST)
            listed = _listed(path, data)
            yield MANIFEST, data
            faults = [f"{name} is missing" for name in sorted(listed.keys() - infos.keys())]
            faults += [
                f"{name} is not in its manifest"
                for name in sorted(infos.keys() - listed.keys() - {MANIFEST})
            ]
            for name in sorted(listed.keys() & infos.keys()):
                try:
                    data = archive.read(name)
                except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
                    faults.append(f"{name} is damaged ({error})")
                    continue
                if hashlib.sha256(data).hexdigest() != listed[name]["sha256"]:
                    faults.append(f"{name} was changed: its SHA-256 is not that of the manifest")
                elif not faults:
                    yield name, data
            _refuse(path, faults, FRESH)
    except FileNotFoundError:
        raise InputError(path, "the file is missing", "Give the path of a bundle") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError) as error:
        cause = f"not a ZIP archive, or a damaged one ({error})"
        raise InputError(path, cause, FRESH) from None


def _odd(infos: list[zipfile.ZipInfo]) -> list[str]:
    """What members have that a bundle's never do."""
    faults = []
    names = Counter(info.filename for info in infos)
    if len(infos) > MOST_MEMBERS:
        return [f"{len(infos)} members, at most {MOST_MEMBERS} are read"]
    if (total := sum(info.file_size for info in infos)) > MOST_BYTES_OF_ALL:
        return [f"{total:,} bytes unpacked, at most {MOST_BYTES_OF_ALL:,} are read"]
    for info in infos:
        kind = stat.S_IFMT(info.external_attr >> 16)
        if not MEMBERS.fullmatch(info.filename):
            faults.append(f"{info.filename!r} is no member of a bundle")
        elif kind not in (0, stat.S_IFREG):
            faults.append(f"{info.filename} is a link or a device, no file")
        elif info.flag_bits & 1:
            faults.append(f"{info.filename} is encrypted")
        elif info.file_size > (most := _most(info.filename)):
            faults.append(
                f"{info.filename} has {info.file_size:,} bytes, at most {most:,} are read"
            )
    return faults + [f"{name} is there {n} times" for name, n in names.items() if n > 1]


def _most(member: str) -> int:
    """Bytes of a member; the manifest has a line for each of the others."""
    small = member.endswith(".json") and member != MANIFEST
    return MOST_BYTES_OF_JSON if small else MOST_BYTES


def _listed(path: Path, data: bytes) -> dict[str, Any]:
    """The manifest's list of files; InputError if it is no manifest of this version."""
    try:
        manifest = parse_json(data.decode())
        kind = manifest["kind"], manifest["format"]
        if kind == (KIND, FORMAT):
            try:
                Manifest.model_validate(manifest)
            except ValidationError as error:
                raise ValueError("; ".join(schema_faults(error)[:TOLD])) from None
            if has_control(manifest):
                raise ValueError("it has control characters")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(path, f"its {MANIFEST} is damaged ({error!r})", FRESH) from None
    if kind != (KIND, FORMAT):
        cause = f"it is a {kind[0]!r} of format {kind[1]!r}, this version reads {KIND!r} {FORMAT}"
        raise InputError(path, cause, "Bundle the results again with this version")
    listed: dict[str, Any] = manifest["files"]
    return listed
