"""One machine's results in one file: packed to be carried elsewhere, and checked when read.

A bundle is a ZIP archive that never has a data set in it. docs/machines.md lists its members.
"""

import getpass
import hashlib
import io
import json
import re
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from touchstone.paths import ROOT
from touchstone.results.files import (
    REMAKE,
    InputError,
    parse_json,
    read_object,
    read_text,
    write_atomic,
)
from touchstone.results.planned import PlannedCell, read_plan, read_records
from touchstone.results.record_model import faults as faults_of_record
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
MOST_BYTES_OF_ALL = 2**30
TOLD = 5
"""Faults that a message names."""
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date that a ZIP archive can say
HIDDEN = "left out of the bundle"
FRESH = "Get the file again from the machine that made it with `snakemake bundle`"
FREE_TEXT = (
    "reason", "log_tail", "unknown", "environment", "trials", "software", "settings", "run",
    "sensors", "start",
)  # fmt: skip
"""Parts of records and environments in which names may be."""
COMPLETE = "Run the workflow to its end first"


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
    if not hostname:
        files[CONFIG] = _hiding(frozenset(), results)(files[CONFIG])
    for record in records:
        cell, repeat = record["cell"], record["repeat"]
        env = read_object(results / f"runs/{cell}/rep{repeat}/env.json")
        if not hostname:
            record, env = _without_names(record, env, results)
        record, env = mapped(record, one_line), mapped(env, one_line)
        files[f"records/{cell}/rep{repeat}.json"] = _json(record)
        files[f"runs/{cell}/rep{repeat}/env.json"] = _json(env)
    for network in {cell.factors["network"] for cell in plan}:
        if (certificate := results / f"parity/{network}.json").exists():
            files[f"parity/{network}.json"] = read_text(certificate, COMPLETE)
    for dataset in {cell.factors["dataset"] for cell in plan}:
        # The fingerprints are the same in every record format.
        for data in sorted((results / "data" / dataset).glob("*/manifest.json"))[:1]:
            files[data.relative_to(results).as_posix()] = read_text(data, COMPLETE)
    if odd := [member for member in files if not MEMBERS.fullmatch(member)]:
        raise InputError(results, f"{odd[0]!r} is no name for a bundle", "Rename it")
    name = name or machine_name(records)
    contents = {member: text.encode() for member, text in sorted(files.items())}
    manifest = {
        "kind": KIND,
        "format": FORMAT,
        "touchstone": distinct(r["provenance"]["software"].get("touchstone") for r in records),
        "study": _study(results / CONFIG, files[CONFIG]),
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


def _study(path: Path, text: str) -> Any:
    """The name of the study in its resolved configuration."""
    try:
        config, _ = parsed(text)
        return config.get("study")
    except (yaml.YAMLError, AttributeError):
        raise InputError(path, "not a mapping of settings", REMAKE) from None


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _without_names(
    record: dict[str, Any], env: dict[str, Any], results: Path
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A record and the environment of its run without names of hosts, the user and folders."""
    others = [node["machine"] for node in record["provenance"].get("nodes", [])]
    machines = [env["machine"], record["provenance"]["machine"], *others]
    hosts = {machine.get("hostname") for machine in machines}
    hide = _hiding(frozenset(filter(None, hosts)), results)
    for machine in machines:
        machine["hostname"] = None
    for place in (record["provenance"], env):
        place["unknown"]["machine.hostname"] = HIDDEN
    for part in (record, record["provenance"], env):
        part.update({name: mapped(part[name], hide) for name in FREE_TEXT if name in part})
    return record, env


@lru_cache(maxsize=16)  # most runs are of few machines
def _hiding(hosts: frozenset[str], results: Path) -> Callable[[str], str]:
    """What replaces names: of the hosts, whole or short, and of the user and folders here."""
    words = []
    for folder in (results.resolve(), ROOT, Path.home()):
        if folder != Path("/"):
            words.append((re.compile(re.escape(str(folder)) + r"(?![\w-])"), "FOLDER"))
    for host in sorted(hosts):
        short = re.escape(host.partition(".")[0])
        pattern = rf"(?<![\w-]){short}(\.[\w-]+)*(?![\w-])"
        words.append((re.compile(pattern, re.IGNORECASE), "HOST"))
    user = getpass.getuser()
    if user != "root":
        words.append((re.compile(rf"(?<![\w-]){re.escape(user)}(?![\w-])", re.IGNORECASE), "USER"))

    def hide(text: str) -> str:
        for word, instead in words:
            text = word.sub(instead, text)
        return text

    return hide


def read_manifest(path: Path) -> dict[str, Any]:
    """What a bundle says of itself, after all its members were checked against it.

    Raises:
        InputError: the file is no bundle, or one of its members is not what was packed.
    """
    members = _members(path)
    _, manifest = next(members)
    for _ in members:
        pass
    found: dict[str, Any] = parse_json(manifest.decode())
    return found


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
            if member.startswith("records/"):
                faults += [f"{member} is no record: {each}" for each in faults_of_record(value)[:1]]
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


def _check_plan(path: Path, plan: list[PlannedCell], manifest: dict[str, Any]) -> None:
    """Refuse a bundle whose runs are not those that its plan asks for."""
    asked = {(cell.name, n) for cell in plan for n in range(1, cell.repeats + 1)}
    wanted = {f"records/{cell}/rep{n}.json" for cell, n in asked}
    wanted |= {f"runs/{cell}/rep{n}/env.json" for cell, n in asked} | {CONFIG}
    found = {m for m in manifest["files"] if m == CONFIG or m.startswith(("records/", "runs/"))}
    faults = [f"{name} is missing" for name in sorted(wanted - found)]
    faults += [f"{name} is not planned" for name in sorted(found - wanted)]
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
        elif info.file_size > MOST_BYTES:
            faults.append(
                f"{info.filename} has {info.file_size:,} bytes, at most {MOST_BYTES:,} are read"
            )
    return faults + [f"{name} is there {n} times" for name, n in names.items() if n > 1]


def _listed(path: Path, data: bytes) -> dict[str, Any]:
    """The manifest's list of files; InputError if it is no manifest of this version."""
    try:
        manifest = parse_json(data.decode())
        kind = manifest["kind"], manifest["format"]
        if kind == (KIND, FORMAT):
            for part in ("machine", "counts", "files"):
                manifest[part].items()
            if not isinstance(manifest["machine"]["name"], str):
                raise ValueError("the machine has no name")
            for one in manifest["files"].values():
                one["sha256"].lower()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(path, f"its {MANIFEST} is damaged ({error!r})", FRESH) from None
    if kind != (KIND, FORMAT):
        cause = f"it is a {kind[0]!r} of format {kind[1]!r}, this version reads {KIND!r} {FORMAT}"
        raise InputError(path, cause, "Bundle the results again with this version")
    listed: dict[str, Any] = manifest["files"]
    return listed
