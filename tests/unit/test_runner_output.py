"""Whatever a runner writes: its run has a typed outcome, its supervisor stays small."""

import json
import os
import subprocess
import sys
import time

import pytest

from fixtures.commands import call
from fixtures.records import require_valid
from fixtures.scripted import START
from fixtures.specs import changed, training_spec
from touchstone.measure import attempts, order, runner_output
from touchstone.measure.supervisor import supervise
from touchstone.schema.spec import spec_to_json

RESULT = b'{"event": "result", "status": "ok", "reason": null}\n'
MEMORY = b'{"event": "memory", "device_peak_mib": null}\n'
CHUNK = (
    b'{"event": "chunk", "phase": "measured", "first_step": 0, "steps": 1, "begin": 1, "end": 2,'
    b' "losses": [%s]}\n'
)
WRITTEN = {
    "nothing": (b"", "exit status 0 and no result"),
    "cut off": (RESULT[:20], "no result"),
    "cut off at its end": (RESULT[:-1], "no result"),
    "not UTF-8": (MEMORY + b"\xff\xfe" + RESULT, "line 2 of its events: 'utf-8' codec"),
    "half of a character": (RESULT.replace(b"ok", b"\\ud800"), "line 1 of its events: "),
    "NUL": (b"\0" * 100 + b"\n" + RESULT, "line 1 of its events: "),
    "no object": (b"[1, 2]\n" + RESULT, "line 1 of its events: it is no event"),
    "a number": (MEMORY + b"7\n", "line 2 of its events: it is no event"),
    "an empty line": (b"\n" + RESULT, "line 1 of its events: "),
    "unknown event": (b'{"event": "party"}\n' + RESULT, "it is no event"),
    "event of a wrong type": (b'{"event": ["result"]}\n', "it is no event"),
    "field of a wrong type": (MEMORY.replace(b"null", b'"much"'), "'device_peak_mib' is 'much'"),
    "unknown status": (RESULT.replace(b"ok", b"fine"), "the unknown status 'fine'"),
    "status of the supervisor": (RESULT.replace(b"ok", b"timeout"), "unknown status 'timeout'"),
    "no reason": (RESULT.replace(b"ok", b"oom"), "its result is 'oom' with the reason None"),
    "blank reason": (
        b'{"event": "result", "status": "diverged", "reason": " "}\n', "with the reason ' '",
    ),
    "ok for a reason": (RESULT.replace(b"null", b'"luck"'), "its result is 'ok' with the reason"),
    "two results": (RESULT * 2, "line 2 of its events: it follows the result"),
    "half a line after the result": (RESULT + b'{"ev', "line 2 of its events: it follows the"),
    "garbage after the result": (RESULT + b"\xff" * 99, "line 2 of its events: it follows the"),
    "an outcome": (
        b'{"event": "outcome", "status": "ok", "reason": null, "exit_code": 0, "begin": 0,'
        b' "end": 1, "cpu_seconds": 1}\n',
        "the outcome is for the supervisor to write",
    ),
    "not a number": (MEMORY.replace(b"null", b"NaN") + RESULT, "NaN is not JSON"),
    "infinite": (MEMORY.replace(b"null", b"1e999") + RESULT, "line 1 of its events: "),
    "infinite loss": (CHUNK % b"1e999" + RESULT, "a loss is no finite number"),
    "many digits": (MEMORY.replace(b"null", b"9" * 5000) + RESULT, "line 1 of its events: "),
    "steps beyond any": (
        (CHUNK % b"1").replace(b'"steps": 1', b'"steps": 1' + b"0" * 400) + RESULT,
        "a count is negative or too large",
    ),
    "time backwards": ((CHUNK % b"1").replace(b'"end": 2', b'"end": 0') + RESULT, "it ends before"),
    "deep": (b"[" * 100_000 + b"\n" + RESULT, "line 1 of its events: "),
    "a long event": (
        b'{"event": "software", "framework": "%s", "version": "", "others": {}}\n' % (b"x" * 2**17),
        "line 1 of its events: it is longer than 65536 bytes",
    ),
}  # fmt: skip
"""What a runner leaves as its events, and a part of the reason of the error that it ends in."""


@pytest.mark.parametrize("name", WRITTEN)
def test_whatever_a_runner_writes_its_run_has_a_typed_outcome(watch, tmp_path, name):
    content, words = WRITTEN[name]
    (tmp_path / "written").write_bytes(content)
    text = f"import shutil; shutil.copy({str(tmp_path / 'written')!r}, sys.argv[1])"
    run = watch(text, final=True)
    assert run.status == "error" and words in run.events[-1]["reason"]
    require_error(tmp_path, words)


@pytest.mark.parametrize("ending", ["oom", "diverged", "unsupported"])
def test_what_a_runner_says_well_is_its_outcome(watch, ending):
    run = watch(f"say(event='result', status={ending!r}, reason='a' * 5000)", final=True)
    assert run.status == ending and run.events[-1]["reason"] == "a" * 999 + "…"


def require_error(folder, words):
    """Fail unless the run in `folder` has a record `error` that says so."""
    done = call("parse", folder, "--output", folder / "record.json")
    assert done.returncode == 0, done.stderr
    record = json.loads((folder / "record.json").read_text())
    require_valid(record)
    assert record["status"] == "error" and words in record["reason"]


def test_a_result_that_the_events_contradict_is_an_error(watch, tmp_path):
    """The supervisor takes each line; the record is judged by all of them."""
    run = watch("say(event='result', status='ok', reason=None)")
    assert run.status == "ok"
    before = attempts.faults(str(tmp_path))
    require_error(tmp_path, "the outcome is ok, but there is no first_step phase")
    assert attempts.faults(str(tmp_path)) == before + 1  # the next execution repeats the run


@pytest.mark.parametrize(
    "text, status, words",
    [
        (
            "block = b'a line of a log, thirty-one byt\\n' * 2**15\n"
            "for i in range(200): os.write(1, block)\n"
            "say(event='result', status='ok', reason=None)",
            "ok",
            None,
        ),
        ("os.write(2, b'x' * 50_000_000); sys.exit(1)", "error", "exit status 1 and no result"),
        (
            "events.write('x' * 50_000_000); events.flush()\ntime.sleep(0.5)",
            "error",
            "line 1 of its events: it is longer than 4194304 bytes",
        ),
        (
            "say(event='chunk', phase='measured', first_step=0, steps=1, begin=0.0, end=1.0,"
            " losses=[0.25] * 600_000)\n"
            "time.sleep(0.5); say(event='result', status='ok', reason=None)",
            "ok",
            None,
        ),
    ],
    ids=["200 MB of output", "a line of 50 MB", "an event of 50 MB", "a long chunk"],
)
def test_a_supervisor_stays_small_whatever_its_runner_writes(tmp_path, root, text, status, words):
    """In a Python of its own, by the kernel's mark of its largest size."""
    (tmp_path / "runner.py").write_text(START + text)
    program = (
        "import re, sys; sys.path[:0] = sys.argv[1:3]\n"
        "import touchstone.commands.run\n"
        "from pathlib import Path\n"
        "from touchstone.measure.supervisor import supervise\n"
        "from fixtures.specs import changed, training_spec\n"
        "spec = changed(training_spec(), execution__threads=1, sampling_interval=0.1)\n"
        "command = [sys.executable, 'runner.py', 'events.jsonl']\n"
        "print(supervise(spec, command, Path('.'), Path('log'), final=True))\n"
        "status = Path('/proc/self/status').read_text()\n"
        "print(int(re.search(r'VmHWM:\\s+(\\d+) kB', status)[1]) / 1024)\n"
    )
    folders = [root / "workflow/scripts", root / "tests"]
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, folders)],
        cwd=tmp_path, capture_output=True, text=True, check=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    said, peak_mib = done.stdout.split()
    assert said == status and float(peak_mib) < 100
    last = json.loads((tmp_path / "events.jsonl").read_text().splitlines()[-1])
    assert words is None or words in last["reason"]
    assert len(json.dumps(last)) < 20 * runner_output.LONGEST_TEXT
    assert (tmp_path / "log").stat().st_size <= 2 * runner_output.KEPT_BYTES + 100


def test_a_long_log_keeps_its_begin_and_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(runner_output, "KEPT_BYTES", 10)
    log = tmp_path / "log"
    log.write_bytes(b"0123456789" * 2)
    runner_output.shorten_log(log)
    assert log.read_bytes() == b"0123456789" * 2
    log.write_bytes(b"begin 6789" + b"x" * 90 + b"0123 ended")
    runner_output.shorten_log(log)
    kept = b"begin 6789\n... 90 bytes are left out here ...\n0123 ended"
    assert log.read_bytes() == kept
    assert runner_output.log_tail(log) == ["0123 ended"]


def test_a_runner_that_never_stops_writing_is_ended(watch, monkeypatch):
    monkeypatch.setattr(runner_output, "MOST_BYTES", 1 << 20)
    run = watch("while True: os.write(1, b'x' * 2**16); time.sleep(0.01)", final=True)
    assert run.status == "error"
    assert "it wrote more than 1 MiB to " in run.events[-1]["reason"]


def test_a_runner_whose_python_is_broken_has_a_record(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(order, "_last", lambda: tmp_path / "last")
    spec = changed(training_spec(), execution__threads=1, cell="cell")
    (tmp_path / "spec.json").write_text(json.dumps(spec_to_json(spec)))
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho broken; exit 1\n")
    python.chmod(0o755)
    log = tmp_path / "train.log"
    assert supervise(spec, [str(python)], tmp_path, log, final=True) == "error"
    require_error(tmp_path, "exit status 1 and no result")
    env = json.loads((tmp_path / "env.json").read_text())
    assert env["software"]["packages"] is None
    assert "exit status 1" in env["unknown"]["software.packages"]


def test_a_runner_that_closes_its_pipe_costs_no_cpu_time(watch):
    def cpu_seconds(seconds):
        before = time.process_time()
        watch(
            f"os.close(int(os.environ['TOUCHSTONE_SAMPLE_NOW'])); time.sleep({seconds})\n"
            "say(event='result', status='ok', reason=None)",
            interval=60.0,
        )
        return time.process_time() - before

    assert cpu_seconds(1) - cpu_seconds(0) < 0.5
