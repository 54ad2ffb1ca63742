"""Check a GPU, its frameworks and its sensors within a time limit, and pack what was found.

It runs in an environment that exists, installs nothing and needs no network. Repeating the command
does what is missing. `--device cpu` rehearses it.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from touchstone.commands import plan as plan_files
from touchstone.contents import Unreadable, contents
from touchstone.datasets import catalogue
from touchstone.errors import UsageError
from touchstone.files import write_atomic
from touchstone.gpu_check.certificates import NETWORKS, certificate
from touchstone.gpu_check.experts import experts
from touchstone.gpu_check.steps import STEPS, Kit, StepFailed, full, last_line, soak
from touchstone.measure import skip
from touchstone.measure.attempts import ATTEMPTS
from touchstone.paths import CLI, ROOT
from touchstone.plan import frameworks
from touchstone.plan.deployment import set_job_variables
from touchstone.plan.max_batch import searches
from touchstone.plan.model import Cell
from touchstone.plan.read import canonical, digest, read
from touchstone.plan.study import Plan, make_plan
from touchstone.schema.status import ERROR, OK, TIMEOUT

GROUP = "Machines"

STUDY = ROOT / "config/studies/gpu-check.yaml"
NAME = "here-{framework}"
"""The environment of a framework in the study."""
ROW_SECONDS = 300.0
"""That a run may take with all that belongs to it."""
SEARCH_SECONDS = 900.0
"""That the search for the largest batch may take."""
REPORT_SECONDS = 60.0
"""Kept for tables, page and bundle."""
LARGEST = 16 * 2**20
"""Bytes of the bundle."""
STEPS_FOLDER = Path("steps")
"""The answers of the steps, in the folder of the check."""
PAGE = Path("results/report/index.html")
TURNS = {"sets": 3, "rounds": 6}
TURNS_FILE = Path("results/interleaved/first.json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", type=Path, default=Path("gpu-check"), help="the folder to fill")
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu")
    parser.add_argument(
        "--python", default=sys.executable, help="the Python that has the frameworks"
    )
    parser.add_argument("--minutes", type=float, default=30.0, help="(default: %(default)s)")
    parser.add_argument(
        "--soak-seconds", type=float, help="of the load in the end (default: 600; CPU: 5)"
    )
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="WORD",
        help="do the steps and cells whose names contain one of these words, in this order",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    end = time.monotonic() + 60 * arguments.minutes - REPORT_SECONDS
    if why := skip.no_device(arguments.device):
        raise UsageError(f"{why}; `--device cpu` rehearses the check without one")
    kit = Kit(arguments.device, str(Path(arguments.python).absolute()))
    plan = _plan(kit)
    seconds = arguments.soak_seconds or (600.0 if arguments.device == "gpu" else 5.0)
    tasks = {name: partial(_step, name, end, partial(step, kit)) for name, step in STEPS.items()}
    tasks["certificates"] = partial(_certificates, plan, kit, end)
    tasks["data"] = partial(_step, "data", end, partial(_data, plan))
    tasks |= {name: partial(_cell, name, plan, kit, end) for name in plan.cells}
    tasks["turns"] = partial(_turns, plan, kit, end)
    if kit.device == "gpu":
        beside = partial(_run_on_full_gpu, plan, kit)
        tasks["full"] = partial(_step, "full", end, partial(full, kit, beside))
    tasks["experts"] = partial(_step, "experts", end, partial(experts, kit))
    tasks["max-batch"] = partial(_step, "max-batch", end, partial(_largest_batch, plan, kit))

    def loaded() -> dict[str, Any]:
        return soak(kit, min(seconds, max(end - time.monotonic(), 0)))

    tasks["soak"] = partial(_step, "soak", end, loaded)
    names = _named(list(tasks), arguments.only)
    folder = arguments.output
    (folder / "results").mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    set_job_variables(ROOT, conda=False, mirror=None)
    for name in names:
        tasks[name]()
    ran = [name for name in plan.cells if _record(name).exists()]
    if ran:
        _report(plan, ran)
    return _pack(plan, ran)


def _named(names: list[str], words: list[str]) -> list[str]:
    """The names that contain one of the words, in the words' order; all if there is no word.

    Raises UsageError if a word is in no name.
    """
    if unknown := [word for word in words if not any(word in name for name in names)]:
        raise UsageError(f"--only {' '.join(unknown)}: no step or cell has that in its name")
    matches = [name for word in words for name in names if word in name]
    return list(dict.fromkeys(matches)) if words else names


def _plan(kit: Kit) -> Plan:
    """The study, of the frameworks that the interpreter has. Raises UsageError."""
    config = read(STUDY)
    wanted = {name for sweep in config["sweeps"] for name in _list(sweep["framework"])}
    modules = tuple(sorted({m for f in wanted for m in frameworks.capabilities(f).modules}))
    try:
        lacking = contents(kit.python, modules).lacking
    except Unreadable as fault:
        raise UsageError(f"--python {kit.python}: {fault}") from None
    here = {f for f in wanted if not set(frameworks.capabilities(f).modules) & set(lacking)}
    if "pytorch" not in here:
        raise UsageError(f"--python {kit.python}: it has no PyTorch, which loads the device")
    if kit.device == "cpu":
        config["scale"] = "smoke"
    config["environments"] = {
        NAME.format(framework=f): {"framework": f, "python": kit.python} for f in sorted(here)
    }
    _split(config, here)
    return make_plan(config, ROOT)


def _split(config: dict[str, Any], here: set[str]) -> None:
    """Give each framework of a sweep a sweep of its own, in its own environment."""
    scaled = config["scales"]["smoke"]["sweeps"]
    sweeps, scales = [], []
    for sweep, scale in zip(config["sweeps"], scaled, strict=True):
        for framework in _list(sweep["framework"]):
            if framework in here:
                own = {"framework": framework, "environment": NAME.format(framework=framework)}
                sweeps.append({**sweep, **own})
                scales.append(scale)
    config["sweeps"], config["scales"]["smoke"]["sweeps"] = sweeps, scales


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _here(plan: Plan) -> list[str]:
    return list(dict.fromkeys(cell.framework for cell in plan.cells.values()))


def _step(name: str, end: float, work: Callable[[], Mapping[str, Any]]) -> None:
    """Do a step unless it was done, or the time is over; a failure is noted and goes on."""
    path = STEPS_FOLDER / f"{name}.json"
    if path.exists() and "failed" not in _read(path):
        return _say(name, "done before")
    if time.monotonic() >= end:
        return _say(name, "left out: the time is over")
    begin = time.monotonic()
    try:
        answer = work()
    except (StepFailed, OSError, ValueError, subprocess.SubprocessError) as fault:
        answer = {"failed": str(fault)}
    path.parent.mkdir(exist_ok=True)
    write_atomic(path, json.dumps(answer, indent=1) + "\n")
    _say(name, f"{answer.get('failed', 'ok')}  {time.monotonic() - begin:.0f} s")
    return None


def _say(name: str, outcome: str) -> None:
    print(f"{name}  {outcome}", file=sys.stderr, flush=True)


def _touchstone(*arguments: object, limit: float = ROW_SECONDS) -> str:
    """Run a command of ours; why it failed, or nothing."""
    command = [sys.executable, str(CLI), *map(str, arguments)]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return f"it did not end within {limit:,.0f} s"
    return last_line(ended.stderr) if ended.returncode else ""


def _environment(kit: Kit, framework: str) -> list[str]:
    return ["--environment", NAME.format(framework=framework), "python", kit.python]


def _certificates(plan: Plan, kit: Kit, end: float) -> None:
    """Compare all networks at once."""

    def step(network: str, framework: str) -> None:
        name = f"certificate-{network}-{framework}"
        _step(name, end, partial(certificate, kit, framework, network))

    with ThreadPoolExecutor() as pool:
        list(pool.map(step, *zip(*product(NETWORKS[kit.device], _here(plan)), strict=True)))


def _data(plan: Plan) -> dict[str, Any]:
    """Write the records that cells read."""
    read = (cell for cell in plan.cells.values() if cell.reads)
    written = {(cell.dataset, frameworks.record_format(cell.framework)) for cell in read}
    for dataset, kind in sorted(written):
        sources = Path("results/downloads") / dataset
        output = Path("results/data") / dataset / kind
        processes = catalogue.most_shards(dataset)
        for command in (
            ("download", dataset, "--output", sources),
            ("convert", dataset, "--source", sources, "--format", kind, "--output", output,
             "--processes", processes),
        ):  # fmt: skip
            if why := _touchstone(*command):
                raise StepFailed(why)
    return {"written": sorted(written)}


def _cell(name: str, plan: Plan, kit: Kit, end: float) -> None:
    """Run a cell unless it has a record."""
    # Other programs may have made a run late, so repeating the command repeats it.
    cell, record = plan.cells[name], _record(name)
    if record.exists() and _read(record)["status"] not in (TIMEOUT, ERROR):
        return
    if cell.input == "records" and not (STEPS_FOLDER / "data.json").exists():
        _step("data", end, partial(_data, plan))
    if time.monotonic() >= end:
        _say(name, "left out: the time is over")
    elif why := _run(cell, kit, Path("results/runs") / name / "rep1", record):
        _say(name, why)
    else:
        outcome = _read(record)
        _say(name, f"{outcome['status']}  {outcome['reason'] or ''}")


def _run(cell: Cell, kit: Kit, folder: Path, record: Path) -> str:
    """Run a cell; why that failed, or nothing."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # The last attempt: an error becomes a record.
    options = ["--repeat", 1, "--attempt", ATTEMPTS, "--run", folder, "--log", folder / "log"]
    own = _environment(kit, cell.framework)
    why = _touchstone("run", "--cell", _settings(cell), *options, *own)
    return why or _touchstone("parse", folder, "--output", record)


def _settings(cell: Cell) -> str:
    return canonical(cell.model_dump(exclude_defaults=True))


def _run_on_full_gpu(plan: Plan, kit: Kit) -> dict[str, Any]:
    """How each framework's first run ends beside what else is on the device now."""
    first: dict[str, Cell] = {}
    for cell in plan.cells.values():
        first.setdefault(cell.framework, cell)
    outcomes: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for framework, cell in first.items():
            record = Path(folder, "record.json")
            if why := _run(cell, kit, Path(folder, "run"), record):
                raise StepFailed(why)
            outcomes[framework] = {key: _read(record)[key] for key in ("status", "reason")}
    return outcomes


def _largest_batch(plan: Plan, kit: Kit) -> dict[str, Any]:
    """The largest batch of the first cell."""
    cell = next(iter(searches(plan).values()))
    folder, output = Path("results/max_batch/first"), Path("results/max_batch/first.json")
    options = ["--folder", folder, "--output", output, *_environment(kit, cell.framework)]
    if why := _touchstone("max-batch", "--cell", _settings(cell), *options, limit=SEARCH_SECONDS):
        raise StepFailed(why)
    return _read(output)


def _record(name: str) -> Path:
    return Path("results/records") / name / "rep1.json"


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def _turns(plan: Plan, kit: Kit, end: float) -> None:
    """Measure the first cells that ran and differ in framework and mode only, in turn."""
    alike: dict[str, dict[str, str]] = {}
    for name, cell in plan.cells.items():
        if _record(name).exists() and _read(_record(name))["status"] == OK:
            others = canonical(cell.model_dump(exclude={"framework", "mode", "environment"}))
            alike.setdefault(others, {}).setdefault(cell.framework, name)
    first = next((group for group in alike.values() if len(group) > 1), None)
    if first is None:
        return _say("turns", "left out: no two frameworks have run the same cell")

    def work() -> dict[str, Any]:
        options = ["--options", canonical(TURNS), "--identity", digest(first)]
        own = [word for framework in first for word in _environment(kit, framework)]
        files = ["--output", TURNS_FILE, "--log", "results/logs/first.log"]
        cells = ["--cells", *first.values()]
        why = _touchstone("interleave", "--group", "first", *cells, *options, *files, *own)
        if why:
            raise StepFailed(why)
        return _read(TURNS_FILE)

    return _step("turns", end, work)


def _report(plan: Plan, ran: list[str]) -> None:
    """Tables and page of the cells that ran, with the ratios of those that took turns."""
    results = Path("results")
    resolved = results / "config.resolved.yaml"
    plan_files.write(plan, ran, results / "plan.tsv", resolved)
    files = ["--plan", results / "plan.tsv", "--records", results / "records"]
    findings, figures = results / "findings.json", results / "figures"
    tables = results / "tables"
    for command in (
        ("gather", *files, "--output", tables, "--findings", findings, "--max-batches",
         results / "max_batch", "--interleaved", *filter(Path.exists, [TURNS_FILE])),
        ("plot", *files, "--tables", tables, "--output", figures),
        ("report", "--findings", findings, "--figures", figures, "--config", resolved,
         "--output", PAGE),
    ):  # fmt: skip
        if why := _touchstone(*command):
            _say(str(command[0]), why)
            return


def _pack(plan: Plan, ran: list[str]) -> int:
    """Pack all into one file; the exit status."""
    bundle = Path("results/bundle.zip")
    if why := _touchstone("bundle", "results", "--output", bundle):
        _say("bundle", why)
    target = Path("gpu-check.zip")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as file:
        for path in (*sorted(STEPS_FOLDER.glob("*.json")), bundle, PAGE):
            if path.exists():
                file.write(path)
    size = target.stat().st_size
    if size > LARGEST:
        print(f"error: {target} has {size:,} bytes, more than {LARGEST:,}", file=sys.stderr)
        return 1
    failed = sorted(path.stem for path in STEPS_FOLDER.glob("*.json") if "failed" in _read(path))
    named = ": " * bool(failed) + ", ".join(failed)
    print(f"{len(ran)} of {len(plan.cells)} cells ran, {len(failed)} steps failed{named}")
    print(f"The page: {PAGE.absolute()}")
    print(f"What to keep: {target.absolute()}")
    return 0
