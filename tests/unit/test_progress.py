"""The account of an execution, and the line that closes it."""

import io

import pytest

from fixtures.specs import changed, training_spec
from touchstone.measure import progress
from touchstone.schema.events import Chunk, Phase, event_to_line

SPEC = changed(
    training_spec(), cell="one", factors__batch_size=10, data__train_examples=100, phases__epochs=2
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def follow(folder, seconds, **phases):
    """Follow a run whose measured phase took `seconds`; what was printed."""
    events = folder / "events.jsonl"
    events.write_text(event_to_line(Phase("measured", 5.0, 5.0 + seconds, steps=10)))
    printed = io.StringIO()
    spec = SPEC._replace(phases=SPEC.phases._replace(**phases))
    progress.Progress(spec, events, printed).finish("ok")
    return printed.getvalue()


def test_the_closing_line_sets_wall_time_against_measured_time(folder, monkeypatch):
    now = iter([1000.0, 1010.0, 1016.0, 1020.0, 1029.0, 1036.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    progress.start(2)  # at 1000
    assert "run 1 of 2" in follow(folder, 4.0)  # 1010 to 1016
    assert "run 2 of 2" in follow(folder, 8.0)  # 1020 to 1029
    assert progress.closing() == (
        "36 s in all, 15 s of them in 2 runs, 12 s in measured phases: wall time / measured = 3.00"
    )


def test_nothing_measured_is_nothing_to_say(folder):
    assert progress.closing() is None
    progress.start(1)
    assert progress.closing() is None


def test_a_probe_says_what_it_tries(folder):
    progress.start(3)
    assert follow(folder, 4.0, probe_steps=6).startswith("does a batch of 10 fit?  pytorch  ok")


def test_a_limit_of_steps_is_counted_from_the_end_of_warm_up(folder):
    phases = SPEC.phases._replace(epochs=100, warmup_steps=5, measured_steps=20)
    events, printed = folder / "events.jsonl", io.StringIO()
    followed = progress.Progress(SPEC._replace(phases=phases), events, printed)
    assert followed.steps == 26
    begin, end = followed.begin, followed.begin + 1
    written = [Chunk("warmup", 1, 30, begin, end, [None] * 30), Phase("warmup", begin, end)]
    events.write_text("".join(map(event_to_line, written)))
    followed.update()
    assert followed.steps == 51
    assert f"{31 / 51:.0%}" in printed.getvalue()
