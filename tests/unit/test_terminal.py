"""Which of Snakemake's messages reach the terminal, and how a study's answer is printed."""

import logging
from types import SimpleNamespace

import pytest
from snakemake.logging import logger
from snakemake_interface_logger_plugins.common import LogEvent

from touchstone.measure import attempts
from touchstone.workflow import interruption, start, terminal


def record(text, level=logging.INFO, **more):
    """A message of Snakemake's."""
    return logging.makeLogRecord({"msg": text, "levelno": level, **more})


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (record("Rule: train", event=LogEvent.JOB_INFO), False),
        (record(None, event=LogEvent.PROGRESS), False),
        (record("Select jobs to execute..."), False),
        (record("Complete log(s): a.log"), False),
        (record("Error in rule gather", logging.ERROR, event=LogEvent.JOB_ERROR), True),
        (record("a warning", logging.WARNING), True),
        (record("Assuming unrestricted shared filesystem usage.", logging.WARNING), False),
        (record("Config file a.yaml is extended by additional config"), False),
        (record("Nothing to be done (all requested files are present)."), True),
        (record("Trying to restart job 5."), True),
        (record("Creating conda environment envs/base.yaml..."), True),
    ],
)
def test_errors_and_rare_messages_are_shown(message, shown):
    assert terminal.Filter().filter(message) is shown


def test_after_an_error_the_complete_log_is_named():
    one = terminal.Filter()
    one.filter(record("Error in rule gather", logging.ERROR))
    assert one.filter(record("Complete log(s): a.log"))


def test_a_long_step_is_announced_once(capsys):
    steps = terminal.Steps()
    for framework in ("pytorch", "mxnet"):
        wildcards = {"network": "lenet5", "framework": framework, "single": ""}
        steps.emit(
            record("", event=LogEvent.JOB_INFO, rule_name="parity_steps", wildcards=wildcards)
        )
    steps.emit(record("", event=LogEvent.JOB_INFO, rule_name="train", wildcards={"cell": "a"}))
    assert capsys.readouterr().err == "checking that the frameworks compute lenet5 equally\n"


def test_where_nothing_is_to_be_done_the_answer_is_shown(capsys):
    handler = terminal.NothingToDo(lambda: print("the answer"))
    handler.emit(record("Building DAG of jobs..."))
    handler.emit(record("Nothing to be done (all requested files are present)."))
    assert capsys.readouterr().out == "the answer\n"


def test_a_dry_run_prints_its_preview_once_and_faults(monkeypatch):
    handler = logging.StreamHandler()
    handler.set_name("DefaultStreamHandler")
    monkeypatch.setattr(logger, "handlers", [handler])
    asked = SimpleNamespace(dryrun=True, verbose=False, printshellcmds=False)
    shown = []
    workflow = SimpleNamespace(is_main_process=True, output_settings=asked)
    terminal.quieten(workflow, lambda: None, lambda: shown.append("preview"))
    _, preview = logger.handlers
    for _ in range(2):
        preview.emit(record("", event=LogEvent.RUN_INFO))
    assert shown == ["preview"]
    assert not handler.filter(record("Rule: train", event=LogEvent.JOB_INFO))
    assert not handler.filter(record("This was a dry-run"))
    assert handler.filter(record("Error in rule gather", logging.ERROR))
    assert handler.filter(record("Nothing to be done"))


@pytest.mark.parametrize(
    ("planned", "missing", "ended", "line"),
    [
        (8, 3, ["train", "parse_run"], "6 of 8 runs are kept"),
        (2, 2, ["train", "mine_train"], "all 2 runs are kept"),
        (2, 2, ["train", "disturbed_train"], "1 of 2 runs are kept"),
        (0, 0, ["report"], "finished runs are kept"),
    ],
)
def test_an_interruption_counts_the_runs_that_are_kept(
    planned, missing, ended, line, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(interruption, "_runs", [])
    monkeypatch.setattr(interruption, "_finished", [])
    assert interruption.kept_text() == "finished runs are kept"
    interruption.expect(planned, missing)
    handler = terminal.Finished()
    for number, rule in enumerate(ended):
        run = tmp_path / f"results/runs/one/rep{number}"
        run.mkdir(parents=True)
        attempts.note(run, "an older one")
        of_job = {"jobid": number, "wildcards": {"cell": "one", "repeat": str(number)}}
        handler.emit(record("", event=LogEvent.JOB_INFO, rule_name=rule, **of_job))
        if rule == "disturbed_train":
            attempts.note(run, "other programs used the cores")
        handler.emit(record("", event=LogEvent.JOB_FINISHED, job_id=number))
    assert interruption.kept_text() == line


@pytest.mark.parametrize("asked", ["dryrun", "verbose", "printshellcmds", None])
def test_who_asks_for_details_gets_them(asked, monkeypatch):
    handler = logging.StreamHandler()
    handler.set_name("DefaultStreamHandler")
    monkeypatch.setattr(logger, "handlers", [handler])
    settings = dict.fromkeys(("dryrun", "verbose", "printshellcmds"), False)
    if asked:
        settings[asked] = True
    workflow = SimpleNamespace(is_main_process=True, output_settings=SimpleNamespace(**settings))
    terminal.quieten(workflow, lambda: None)
    added = [type(one) for one in logger.handlers[1:]]
    usual = [terminal.NothingToDo, terminal.Finished, terminal.Steps]
    assert added == usual[: {"dryrun": 0, None: 3}.get(asked, 2)]
    assert bool(handler.filters) == (asked is None)


def test_the_end_shows_the_answer_and_the_pages(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "40")
    answer = "TensorFlow is 1.5 times as fast as PyTorch."
    monkeypatch.setattr(start, "answer_of", lambda path: [answer, "Trust: high."])
    context = SimpleNamespace(report="results/report/one", pages=["results/report/one/study.html"])

    def jobs(*rules):
        each = [SimpleNamespace(rule=SimpleNamespace(name=name)) for name in rules]
        return SimpleNamespace(dag=SimpleNamespace(jobs=each))

    start.print_answer(jobs("plan", "verify"), context)
    assert capsys.readouterr().err == ""
    claims = tmp_path / "results/studies/one/claims.csv"
    claims.parent.mkdir(parents=True)
    claims.write_text("claim,figures,verdict\na,measured,reproduced\na,published,holds\n")
    start.print_answer(jobs("train", "report"), context)
    assert capsys.readouterr().err.splitlines() == [
        "",
        "TensorFlow is 1.5 times as fast as",
        "PyTorch.",
        "Trust: high.",
        "Of the source's 1 claims, the runs here",
        "reproduce 1.",
        f"Report: {tmp_path}/results/report/one/index.html",
        f"Page of the study: {tmp_path}/results/report/one/study.html",
    ]


def test_without_findings_there_is_no_answer(tmp_path):
    assert start.answer_of(tmp_path / "findings.json") == []
