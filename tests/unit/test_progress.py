"""The account of an execution, and the line that closes it."""

import io
import time

import pytest

from fixtures.specs import changed, training_spec
from touchstone.measure import progress
from touchstone.schema.events import Chunk, Phase, event_to_line
from touchstone.schema.variables import DRIVER

SPEC = changed(
    training_spec(), cell="one", factors__batch_size=10, data__train_examples=100, phases__epochs=2
)
LONG = "pytorch-lenet5-mnist-5k-cpu-fp32-b128-lr0.01"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def follow(folder, seconds, **phases):
    """Follow a run whose measured phase took `seconds`; what was printed."""
    events = folder / "events.jsonl"
    events.write_text(event_to_line(Phase("measured", 5.0, 5.0 + seconds, steps=10, examples=100)))
    printed = io.StringIO()
    spec = SPEC._replace(phases=SPEC.phases._replace(**phases))
    progress.Progress(spec, events, printed).finish("ok")
    return printed.getvalue()


def test_the_closing_line_sets_wall_time_against_measured_time(folder, monkeypatch):
    now = iter([1000.0, 1010.0, 1016.0, 1020.0, 1029.0, 1036.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    progress.start(["one", "two"])  # at 1000
    assert "run 1 of 2" in follow(folder, 4.0)  # 1010 to 1016
    assert "run 2 of 2" in follow(folder, 8.0)  # 1020 to 1029
    assert progress.closing() == ("2 runs in 36 s: 15 s in runs, 12 s measured")


def test_the_closing_line_says_how_long_the_machine_was_waited_for(folder, monkeypatch):
    progress.start(["one"])
    progress.add_wait(5.0)  # by no execution
    monkeypatch.setenv(DRIVER, "an execution")
    progress.add_wait(100.0)
    follow(folder, 4.0)
    progress.add_wait(20.0)
    assert progress.closing().endswith("4 s measured, 2 min of waiting for the machine")


def test_nothing_measured_is_nothing_to_say(folder):
    assert progress.closing() is None
    progress.start(["one"])
    assert progress.closing() is None


def test_a_probe_says_what_it_tries(folder):
    progress.start(["one"] * 3)
    assert follow(folder, 4.0, probe_steps=6).startswith("does a batch of 10 fit?  pytorch  ok")


def test_names_in_the_terminal_are_what_the_cells_have_not_in_common(folder):
    names = [f"{f}-resnet20-cifar-fp32-b{b}" for f in ("mxnet", "jax") for b in (32, 64)]
    short = ["mxnet-b32", "mxnet-b64", "jax-b32", "jax-b64"]
    assert list(progress.short_names(names).values()) == short
    progress.start(names[:1], names)
    assert progress._account().begun.names == {names[0]: "mxnet-b32"}
    for cells in ([], names[:1], ["a", "a-b"], ["a-a-b", "a-b-a"]):
        assert progress.short_names(cells) == dict(zip(cells, cells, strict=True))


def test_the_first_speeds_are_shown_together_when_each_configuration_has_run_once(folder):
    cells = ["one-fp32", "three-fp32"]
    progress.start(cells * 2)
    printed = []
    for repeat, cell in enumerate(cells * 2):
        events = folder / "events.jsonl"
        events.write_text(event_to_line(Phase("measured", 5.0, 9.0, steps=10, examples=100)))
        out = io.StringIO()
        progress.Progress(SPEC._replace(cell=cell, repeat=repeat // 2 + 1), events, out).finish(
            "ok"
        )
        printed.append(out.getvalue().splitlines())
    assert [len(lines) for lines in printed] == [1, 2, 1, 1]
    assert printed[0][0].startswith("run 1 of 4  one   rep1  ok  25 images/s")
    assert printed[1][1] == (
        "so far, one run each, which is no answer yet: one 25 images/s, three 25 images/s"
    )


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


def test_a_limit_of_steps_is_counted_from_the_end_of_warm_up(folder):
    phases = SPEC.phases._replace(epochs=100, warmup_steps=5, measured_steps=20)
    events, printed = folder / "events.jsonl", Terminal()
    followed = progress.Progress(SPEC._replace(phases=phases), events, printed)
    assert followed.steps == 26
    begin, end = followed.begin, followed.begin + 1
    written = [Chunk("warmup", 1, 30, begin, end, [None] * 30), Phase("warmup", begin, end)]
    events.write_text("".join(map(event_to_line, written)))
    followed.update()
    assert followed.steps == 51
    assert f"{31 / 51:.0%}" in printed.getvalue()


def lines_at(columns, folder, monkeypatch, out):
    """What a run of a long-named cell prints on a terminal of that width, line by line."""
    monkeypatch.setenv("COLUMNS", str(columns))
    progress.start([LONG] * 18)
    spec = SPEC._replace(cell=LONG, repeat=3)
    events = folder / "events.jsonl"
    followed = progress.Progress(spec, events, out)
    followed.update()
    events.write_text(event_to_line(Phase("measured", 5.0, 6.0, steps=1298, examples=12980)))
    followed.update()
    followed.finish("ok")
    return out.getvalue().removesuffix("\n").replace("\n", "").split("\r\033[K")[1:]


@pytest.mark.parametrize("columns", [40, 80, 139])
def test_progress_fits_the_terminal(columns, folder, monkeypatch):
    printed = lines_at(columns, folder, monkeypatch, Terminal())
    assert len(printed) == 3 and max(map(len, printed)) < columns
    assert all(line.startswith("run  1 of 18  p") for line in printed)
    if columns >= 80:
        assert printed[-1].endswith("128-lr0.01 rep3  ok  12,980 images/s  0 s")
    assert ("…" in printed[-1]) == (columns < 139)


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.1, "1,000"), (3.0, "33.3"), (300.0, "0.333"), (3e-5, "3,333,333")]
)
def test_small_speeds_have_digits(folder, seconds, said):
    assert f"  ok  {said} images/s  " in follow(folder, seconds)


def test_the_last_line_has_the_throughput_of_the_whole_measured_phase(folder):
    """What comes after it, batches one by one, counts as little as evaluations within it; its last
    batch may be a partial one."""
    events, printed = folder / "events.jsonl", io.StringIO()
    followed = progress.Progress(SPEC, events, printed)
    written = [
        Chunk("measured", 0, 10, 0.0, 1.0, [None] * 10),
        Phase("measured", 0.0, 1.0, steps=10, examples=100),
        Phase("evaluation", 1.0, 5.0),
        Chunk("measured", 10, 10, 5.0, 8.0, [None] * 10),
        Phase("measured", 5.0, 8.0, steps=10, examples=96),
        *(Chunk("latency", 20 + n, 1, 8.0 + n / 1e3, 8.001 + n / 1e3, [None]) for n in range(9)),
        Phase("latency", 8.0, 8.009, steps=9, examples=90),
    ]
    events.write_text("".join(map(event_to_line, written)))
    followed.finish("ok")
    assert "  ok  49 images/s  " in printed.getvalue()


def test_a_log_has_whole_names_and_one_line_of_a_run(folder, monkeypatch):
    out = io.StringIO()
    lines_at(40, folder, monkeypatch, out)
    assert out.getvalue().splitlines() == [
        "run  1 of 18  pytorch-lenet5-mnist-5k-cpu-fp32-b128-lr0.01 rep3  ok  12,980 images/s  0 s",
    ]


def test_a_long_run_has_a_line_a_minute_in_a_log(folder):
    followed = progress.Progress(SPEC, folder / "events.jsonl", out := io.StringIO())
    for minutes in (0.5, 1.1, 1.5, 2.2):
        followed.begin = time.monotonic() - 60 * minutes
        followed.update()
    assert out.getvalue().count("import") == 2


@pytest.mark.parametrize(
    ("name", "rest", "width", "line"),
    [
        ("short", "  ok", 20, "short  ok"),
        ("abcdefghijklmnopqrst", "  ok", 16, "abcdef…pqrst  ok"),
        ("abcdefghijklmnopqrst", "  a long rest", 16, "abcde…qrst  a l…"),
    ],
)
def test_a_name_loses_its_middle(name, rest, width, line):
    assert progress.fitted(name, rest, width) == line
