"""Programs: scripts of the user, which ask for their steps, and what is said of bad ones."""

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from touchstone.paths import RUNNER
from touchstone.plan import programs
from touchstone.plan.max_batch import as_planned, probe_spec, searches
from touchstone.plan.model import Cell
from touchstone.plan.parts import Program
from touchstone.plan.read import ConfigError
from touchstone.plan.spec import make_spec
from touchstone.plan.study import make_plan
from touchstone.plan.table import texts
from touchstone.results.planned import PlannedCell, comparable, kind_of
from touchstone.schema.spec import spec_to_json

LOOP = """
import time
from touchstone_steps import steps

for _ in range(1000):
    for item in steps(range(50), examples=4):
        time.sleep(0.001)
    time.sleep(0.02)
"""
CELL = {
    "framework": "scipy", "network": "n", "dataset": "d", "program": "mine", "threads": 1,
    "warmup_steps": 3, "warmup_seconds": 0.05, "program_seconds": 0.3, "mode": "default",
}  # fmt: skip


def command(folder, script, until="measured", arguments=(), **settings):
    """The command that runs this script, after its spec was written."""
    (folder / "script.py").write_text(script)
    program = Program(file="script.py", framework="scipy", until=until, arguments=list(arguments))
    spec = make_spec(Cell(**{**CELL, **settings}), 1, folder, program)
    (folder / "spec.json").write_text(json.dumps(spec_to_json(spec)))
    return [sys.executable, RUNNER, "spec.json", "events.jsonl"]


def ran(folder, *script, **settings):
    """The events of a run of a script, without its chunks, and what it printed; as `command`."""
    done = subprocess.run(
        command(folder, *script, **settings),
        cwd=folder, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    return [event for event in events if event["event"] != "chunk"], done.stdout + done.stderr


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def named(events, name):
    return [event for event in events if event.get("name") == name]


def test_a_loop_has_the_phases_of_every_run_and_ends_when_enough_is_measured(tmp_path):
    events, _ = ran(tmp_path, LOOP)
    names = [event["name"] for event in events if event["event"] == "phase"]
    assert names[:2] == ["import", "first_step"] and set(names[2:]) == {"warmup", "measured"}
    assert events[-1] == {"event": "result", "status": "ok", "reason": None}
    (first,) = named(events, "first_step")
    assert (first["steps"], first["examples"]) == (1, 4)
    parts = named(events, "measured")
    seconds = sum(part["end"] - part["begin"] for part in parts)
    assert seconds >= 0.3 and all(part["examples"] == 4 * part["steps"] for part in parts)


def test_what_a_script_does_between_two_loops_is_not_measured(tmp_path):
    parts = named(ran(tmp_path, LOOP.replace("range(50)", "range(5)"))[0], "measured")
    assert len(parts) > 2 and all(part["steps"] <= 5 for part in parts)
    assert all(after["begin"] - before["end"] >= 0.02 for before, after in pairwise(parts))


def test_the_wait_for_the_device_at_the_end_of_a_loop_is_work_of_a_slice(tmp_path):
    wait = "wait=lambda: time.sleep(0.05)"
    script = LOOP.replace("examples=4", f"examples=4, {wait}").replace("range(50)", "range(5)")
    (theirs, commands), (answers, their_answers) = os.pipe(), os.pipe()
    process = subprocess.Popen(
        [*command(tmp_path, script), str(theirs), str(their_answers)],
        cwd=tmp_path, pass_fds=(theirs, their_answers),
    )  # fmt: skip
    with open(answers) as lines:
        assert next(lines) == "{}\n"
        os.write(commands, b"0.5\n")
        found = json.loads(next(lines))
    process.kill()
    process.wait()
    for end in (theirs, commands, their_answers):
        os.close(end)
    loops = found["steps"] // 5 - 1
    assert loops > 2 and found["end"] - found["begin"] >= 0.05 * loops


def test_a_shorter_batch_counts_what_it_has(tmp_path):
    script = LOOP.replace("range(50), examples=4", "[[1, 2], [3]] * 2, examples=len")
    parts = named(ran(tmp_path, script)[0], "measured")
    whole = [part for part in parts if part["steps"] == 4]
    assert whole and all(part["examples"] == 6 for part in whole)


def test_a_loop_that_is_left_counts_no_unfinished_step(tmp_path):
    script = """
from touchstone_steps import steps
for _ in range(100_000):
    for item in steps(range(50)):
        if item == 10:
            break
"""
    parts = named(ran(tmp_path, script)[0], "measured")
    assert {part["steps"] for part in parts[1:-1]} == {10}


def test_a_script_runs_to_its_end_if_asked(tmp_path):
    script = LOOP.replace("range(1000)", "range(3)") + "time.sleep(0.1); print('the end')"
    events, printed = ran(tmp_path, script, until="end")
    assert "the end" in printed and events[-1]["status"] == "ok"
    (rest,) = named(events, "rest")
    assert rest["end"] - rest["begin"] >= 0.1
    assert sum(part["steps"] for name in ("first_step", "warmup", "measured")
               for part in named(events, name)) == 150  # fmt: skip


def test_what_a_script_reports_has_the_step_it_was_at(tmp_path):
    script = """
from touchstone_steps import report, steps

while True:
    for item in steps(range(50), examples=4):
        if item % 7 == 0:
            report(loss=item, accuracy="0.5")
"""
    events, _ = ran(tmp_path, script, program_seconds=0.1)
    found = [event for event in events if event["event"] == "report"]
    assert found[:3] == [
        {"event": "report", "step": step, "loss": step, "accuracy": 0.5} for step in (0, 7, 14)
    ]
    assert {"event": "report", "step": 50, "loss": 0, "accuracy": 0.5} in found
    assert all(event["step"] % 50 == event["loss"] for event in found)


def test_a_script_without_a_marked_loop_is_one_step(tmp_path):
    events, _ = ran(tmp_path, "import time; time.sleep(0.2)", until="end")
    (whole,) = named(events, "measured")
    assert whole["steps"] == 1 and whole["end"] - whole["begin"] >= 0.2
    assert events[-1]["status"] == "ok"


def test_the_script_has_its_arguments_folder_and_name(tmp_path):
    script = """
import os, sys
from beside import value
print(sys.argv, __name__, value, os.getcwd())
"""
    (tmp_path / "beside.py").write_text("value = 7\n")
    _, printed = ran(tmp_path, script, "end", ["-b", "{batch_size}", "{seed}", "{x"], batch_size=8)
    shown = f"['script.py', '-b', '8', '2026', '{{x'] __main__ 7 {tmp_path}"
    assert shown in printed


BAD = {
    "no loop": ("x = 1", "error", "script.py ended after 0 s without a step: does its loop use"),
    "too few steps": (
        "from touchstone_steps import steps\nfor i in steps(range(3)): pass",
        "error", "script.py ended after 3 steps, in the warm-up: let it loop longer",
    ),
    "an exception": ("raise ValueError('no file\\nx')", "error", "script.py: ValueError: no file"),
    "not implemented": ("raise NotImplementedError()", "error", "script.py: NotImplementedError"),
    "no memory": ("raise MemoryError()", "oom", "MemoryError"),
    "no memory of a GPU": ("raise RuntimeError('CUDA out of memory. Tried')", "oom", "CUDA out of"),
    "an exit status": ("import sys; sys.exit(3)", "error", "script.py ended with exit status 3"),
    "a last word": ("import sys; sys.exit('no data')", "error", "script.py ended with no data"),
    "wrong arguments": (
        "import argparse; argparse.ArgumentParser().parse_args(['--x'])",
        "error", "script.py ended with exit status 2",
    ),
    "input": ("input()", "error", "script.py: EOFError"),
    "a syntax error": ("for", "error", "script.py: SyntaxError"),
    "a loop within a loop": (
        LOOP.replace("time.sleep(0.001)", "list(steps([1]))"),
        "error", "a loop is within another one; mark one of them",
    ),
    "a loop in a thread": (
        "import threading\nfrom touchstone_steps import steps\nfound = []\n"
        "def work():\n    try: list(steps([1]))\n    except RuntimeError as e: found.append(e)\n"
        "one = threading.Thread(target=work); one.start(); one.join(); raise found[0]",
        "error", "iterate over it in the main thread",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_with_a_script_is_said_in_a_sentence(tmp_path, name):
    script, status, reason = BAD[name]
    events, _ = ran(tmp_path, script)
    assert (events[-1]["event"], events[-1]["status"]) == ("result", status)
    assert reason in events[-1]["reason"] and "\n" not in events[-1]["reason"]


def test_hooks_of_a_script_cannot_keep_its_process(tmp_path):
    script = f"import atexit, time\natexit.register(time.sleep, 600)\n{LOOP}"
    assert ran(tmp_path, script)[0][-1]["status"] == "ok"


def test_without_touchstone_the_loop_is_what_it_was(root):
    code = "from touchstone_steps import steps; items = [1, 2]; print(steps(items) is items)"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(root / "workflow/scripts/steps")},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "True\n"


# The plan


def study(**changes):
    return {
        "study": "s", "title": "T", "repeats": 1,
        "programs": {"mine": {"file": "script.py", "framework": "scipy", **changes}},
        "sweeps": [{"program": "mine"}],
    }  # fmt: skip


def test_a_program_needs_no_network_and_heeds_no_setting_of_one(tmp_path, root):
    Path("script.py").write_text("")
    ((name, cell),) = make_plan(study(), root).cells.items()
    assert name == "scipy-mine-program-own-cpu-b1" and cell.kind == "program"
    config = study()
    config["sweeps"][0]["learning_rate"] = 0.5
    with pytest.raises(ConfigError, match="learning_rate: has no effect without"):
        make_plan(config, root)
    config = study(arguments=["{batch_size}"])
    config["sweeps"][0] |= {"batch_size": [8, 16], "network": "my-vit"}
    assert list(make_plan(config, root).cells) == [
        "scipy-mine-my-vit-own-cpu-b8", "scipy-mine-my-vit-own-cpu-b16",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "sweep", "fault"),
    [
        ({"file": "none.py"}, {}, r"programs.mine.file: none.py is no file; give a path"),
        ({"files": ["none"]}, {}, r"programs.mine.files: none is no file"),
        ({"framework": None}, {}, r"programs.mine.framework: missing; name the one"),
        ({"environment": "x"}, {}, r"programs.mine.environment: none is named 'x'; known: pinned"),
        ({"arguments": ["{lr}"]}, {}, r"programs.mine.arguments: \{lr\} is no setting"),
        ({"until": "later"}, {}, r"programs.mine.until: input should be 'measured' or 'end'"),
        ({}, {"program": "other"}, r"sweeps\[0\].program: no program is named 'other'"),
        ({}, {"batch_size": 8}, r"sweeps\[0\].batch_size: no program gets it; write"),
        ({}, {"network": "a/b"}, r"sweeps\[0\].network: 'a/b' is no word"),
    ],
)
def test_faults_name_key_cause_and_remedy(root, changes, sweep, fault):
    Path("script.py").write_text("")
    config = study(**changes)
    config["sweeps"][0] |= sweep
    with pytest.raises(ConfigError, match=fault):
        make_plan(config, root)


def beside(**changes):
    """A study of two programs, of which the first names what a network trains on."""
    config = study(arguments=["{batch_size}"])
    config["programs"]["other"] = dict(config["programs"]["mine"])
    named = {"network": "lenet5", "dataset": "mnist-5k", "batch_size": [64, 128]}
    sweeps = [{"program": "mine", **named}, {"program": "other", "batch_size": 64}]
    networks = {**named, "framework": ["pytorch", "mxnet"], "batch_size": 64, **changes}
    return {**config, "parity": False, "sweeps": [*sweeps, networks]}


def compared(config, root):
    """The groups that a study compares, as names of programs and frameworks."""
    cells = make_plan(config, root).cells.items()
    groups = comparable([PlannedCell.of(name, cell) for name, cell in cells])
    names = [[(c.settings.program or c.settings.framework) for c in group] for group in groups]
    return names, [kind_of(group) for group in groups]


def test_a_program_is_compared_with_the_networks_whose_work_it_names(root):
    Path("script.py").write_text("")
    assert compared(beside(), root) == ([["mine", "pytorch", "mxnet"]], ["training"])
    # One network is enough, and so is a network at each batch size.
    assert compared(beside(framework="mxnet"), root)[0] == [["mine", "mxnet"]]
    both = compared(beside(batch_size=[64, 128], framework="mxnet"), root)
    assert both == ([["mine", "mxnet"]] * 2, ["training"] * 2)
    # Of two precisions nobody knows which one is the program's.
    apart, _ = compared(beside(precision=["fp32", "bf16"], framework="pytorch"), root)
    assert apart == [["mine", "mine"], ["pytorch", "pytorch"]]


def test_a_search_for_the_largest_batch_needs_a_program_that_is_told_its_own(root):
    Path("script.py").write_text("")
    config = {**study(arguments=["{batch_size}"]), "find_max_batch": True}
    config["sweeps"][0] |= {"batch_size": [8, 16], "program_seconds": 60}
    plan = make_plan(config, root)
    ((name, cell),) = searches(plan).items()
    assert name.startswith("scipy-mine-program-own-cpu-") and cell.program_seconds < 1
    spec = probe_spec(cell, 300, 512.0, root, plan.program(cell))
    assert spec.program.arguments == ["300"] and spec.limits.memory_mib == 512.0
    for planned in plan.cells.values():
        assert as_planned(cell).items() <= texts(planned).items()
    for changes in ({"arguments": []}, {"arguments": ["{batch_size}"], "until": "end"}):
        assert searches(make_plan({**study(**changes), "find_max_batch": True}, root)) == {}


def test_what_a_script_imports_from_its_folder_decides_that_it_runs_again(tmp_path):
    folder = tmp_path / "mine"
    (folder / "parts").mkdir(parents=True)
    files = {
        "train.py": "import os, helper\nfrom parts.net import Net\n",
        "helper.py": "a = 1\n", "other.py": "b = 1\n", "data.json": "{}",
        "parts/__init__.py": "", "parts/net.py": "from . import layers\nclass Net: pass\n",
        "parts/layers.py": "c = 1\n",
    }  # fmt: skip
    for name, text in files.items():
        (folder / name).write_text(text)
    program = Program(file=str(folder / "train.py"), framework="scipy")
    given = ["--data", str(folder / "data.json")]
    before = programs.code(program, [])

    def is_same(name, text, given=()):
        old, usual = (folder / name).read_text(), programs.code(program, list(given))
        (folder / name).write_text(text)
        same = programs.code(program, list(given)) == usual
        (folder / name).write_text(old)
        return same

    for name in ("train.py", "helper.py", "parts/__init__.py", "parts/net.py", "parts/layers.py"):
        assert not is_same(name, files[name] + "d = 2\n"), name
        assert is_same(name, files[name] + "# a comment\n"), name
    assert is_same("other.py", "b = 2\n") and is_same("data.json", "{1}")
    assert not is_same("data.json", "{1}", given)
    listed = program.model_copy(update={"files": [str(folder / "data.json")]})
    assert programs.code(listed, []) != before
