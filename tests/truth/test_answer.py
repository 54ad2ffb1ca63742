"""What a study's tables and page say, compared with a second computation of it.

`answer.py`, `page.py` and `quantiles.py` import nothing of the project. The studies are those of
other tests: runs with speeds that are written down, through records and tables to the page.
"""

import ast
import json
import math
import random
import sys
from pathlib import Path

import numpy as np
import pytest

from fixtures.runs import make_study
from fixtures.studies import built, page_of, speeds
from truth import answer, page, quantiles

BATCHES = (16, 32, 64, 128)
TABLES = "tables/measurements.csv"


def studies(folder):
    """A clear study, one with failures, and one of four batch sizes, whose page has a matrix."""
    return {
        "clear": built(make_study(folder / "clear"), images=False),
        "failures": built(make_study(folder / "failures", failures=True), images=False),
        "matrix": built(make_study(folder / "matrix", batches=BATCHES), images=False),
    }


@pytest.fixture(scope="module")
def roots(tmp_path_factory):
    return studies(tmp_path_factory.mktemp("truth"))


def noisy(folder, sd, mxnet):
    """A study of three frameworks whose runs scatter by `sd`."""
    draw = random.Random(1)
    true = {"pytorch": 1000.0, "mxnet": mxnet, "tensorflow": 900.0}
    rates = {f: [rate * math.exp(draw.gauss(0, sd)) for _ in range(3)] for f, rate in true.items()}
    speeds(folder, rates)
    (folder / "config.resolved.yaml").write_text("title: Noisy\n")
    return built(folder, images=False)


def test_the_second_computation_imports_nothing_of_ours():
    allowed = sys.stdlib_module_names | {"numpy", "truth"}
    for path in Path(__file__).parent.glob("*.py"):
        if path.name.startswith("test_"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in getattr(node, "names", [])]
            modules = [node.module] if isinstance(node, ast.ImportFrom) else names
            if isinstance(node, ast.Import | ast.ImportFrom):
                assert {m.partition(".")[0] for m in modules} <= allowed, path


def test_the_quantiles_are_those_of_printed_tables():
    """Student: 2.776 and 2.228; studentised range: 5.040 (3, 4) and 3.877 (3, 10); F: 6.94 for
    2 and 4 degrees of freedom at 5 %."""
    assert quantiles.student(0.95, 4) == pytest.approx(2.776, abs=1e-3)
    assert quantiles.student(0.95, 10) == pytest.approx(2.228, abs=1e-3)
    assert quantiles.studentised_range(0.95, 3, 4) == pytest.approx(5.040, abs=2e-3)
    assert quantiles.studentised_range(0.95, 3, 10) == pytest.approx(3.877, abs=2e-3)
    assert quantiles.f_tail(6.944, 2, 4) == pytest.approx(0.05, abs=1e-4)


@pytest.mark.parametrize("name", ["clear", "failures", "matrix"])
def test_speeds_are_those_of_the_events(roots, name):
    """Examples of the measured phase / its time, from each run's events."""
    values = answer.measured(roots[name] / TABLES)
    by_run = {
        (c, b): x for cells in values.values() for c, v in cells.items() for b, x in v.items()
    }
    assert len(by_run) > 12
    for (cell, block), value in by_run.items():
        events = (roots[name] / f"runs/{cell}/rep{block}/events.jsonl").read_text().splitlines()
        (phase,) = [e for e in map(json.loads, events) if e.get("name") == "measured"]
        assert value == pytest.approx(phase["examples"] / (phase["end"] - phase["begin"]), rel=1e-9)


@pytest.mark.parametrize("name", ["clear", "failures", "matrix"])
def test_the_summary_is_that_of_the_values(roots, name):
    metrics = {row["metric"] for row in answer.rows_of(roots[name] / TABLES)}
    values = {
        (cell, metric): list(blocks.values())
        for metric in metrics
        for cells in answer.measured(roots[name] / TABLES, metric).values()
        for cell, blocks in cells.items()
    }
    compared = 0
    for row in answer.rows_of(roots[name] / "tables/summary.csv"):
        found = values.get((row["cell"], row["metric"]), [])
        assert int(row["n"]) == len(found)
        if row["sd"]:
            expected = [np.median(found), np.mean(found), np.std(found, ddof=1)]
            told = [float(row[key]) for key in ("median", "mean", "sd")]
            assert told == pytest.approx(expected, rel=1e-9, abs=1e-12)
            compared += 1
    assert compared > 50


@pytest.mark.parametrize("name", ["clear", "failures", "matrix"])
def test_all_ratios_and_intervals_are_those_of_least_squares(roots, name):
    """Every metric of `comparisons.csv`; verdicts follow from the intervals."""
    groups, compared = {}, 0
    for row in answer.rows_of(roots[name] / "tables/comparisons.csv"):
        metric = row["metric"]
        if metric not in groups:
            groups[metric] = answer.groups_of(roots[name] / TABLES, metric)
        pair = row["cell"], row["reference_cell"]
        (group,) = [one for one in groups[metric] if set(pair) <= set(one.cells)]
        found = group.ratio(*pair, groups[metric])
        assert float(row["ratio"]) == pytest.approx(found.value, rel=1e-9)
        if not row["low"]:
            assert found.high == math.inf
            continue
        assert [float(row[end]) for end in ("low", "high")] == pytest.approx(found[1:], rel=1e-3)
        if metric == "throughput":
            shown = "faster" if found.low > 1 else "slower" if found.high < 1 else ""
            assert row["verdict"] == (shown or "cannot tell")
        compared += 1
    assert compared > 20


def compare_with_sentences(root):
    """Compare every sentence of the answer; the kinds of sentences that there were."""
    true, told = answer.answers(root / TABLES), page.sentences(page_of(root))
    assert told.keys() == true.keys()
    for size, (kind, printed_speeds, leads, rivals) in told.items():
        found = true[size]
        assert kind == found.kind
        if kind == "noisy":
            continue
        assert sorted(rivals) == sorted(found.rivals)
        assert next(iter(printed_speeds)) == next(iter(found.speeds))
        for framework, speed in printed_speeds.items():
            assert page.speed_shows(speed, found.speeds[framework])
        for framework, numbers in leads.items():
            assert all(
                number.shows(exact)
                for number, exact in zip(numbers, found.leads[framework], strict=True)
            ), (size, framework, numbers, found.leads[framework])
    return {kind for kind, *_ in told.values()}


@pytest.mark.parametrize("name", ["clear", "failures"])
def test_the_sentences_say_the_numbers(roots, name):
    assert "fastest" in compare_with_sentences(roots[name])


@pytest.mark.parametrize(
    ("kind", "sd", "mxnet"),
    [("alike", 0.003, 1000.0), ("open", 0.05, 985.0), ("noisy", 0.3, 970.0)],
)
def test_the_sentences_on_rivals_say_the_numbers(tmp_path, kind, sd, mxnet):
    assert compare_with_sentences(noisy(tmp_path, sd, mxnet)) == {kind}


def test_a_wrong_sentence_is_found(roots, tmp_path):
    """A ratio that is a hundredth too large, a speed of another framework."""
    text = page_of(roots["clear"])
    folder = tmp_path / "wrong"
    (folder / "report").mkdir(parents=True)
    (folder / "tables").symlink_to(roots["clear"] / "tables")
    first = page.LEAD.search(page.text_of(text))[1]
    wrong = f"{float(first[:4]) + 0.01:.2f}{first[4:]}"
    for old, new in ((first, wrong), ("PyTorch (channels last) was", "MXNet (channels last) was")):
        assert old in text
        (folder / "report/index.html").write_text(text.replace(old, new))
        with pytest.raises(AssertionError):
            compare_with_sentences(folder)


@pytest.mark.parametrize("name", ["clear", "failures", "matrix"])
def test_the_table_of_pairs_has_all_pairs_with_their_verdicts(roots, name):
    true, told = answer.answers(roots[name] / TABLES), page.pairs(page_of(roots[name]))
    expected = {(size, *pair): e for size, one in true.items() for pair, e in one.pairs.items()}
    assert told.keys() == expected.keys()
    for key, (numbers, verdict) in told.items():
        exact = expected[key]
        assert all(n.shows(e) for n, e in zip(numbers, exact, strict=True)), key
        assert verdict == ("faster" if exact.low > 1 else "cannot tell")


def test_the_matrix_and_its_sentence_say_the_numbers(roots):
    text = page_of(roots["matrix"])
    true, told = answer.answers(roots["matrix"] / TABLES), page.matrix(text)
    assert told.keys() == true.keys() == set(BATCHES)
    for size, entries in told.items():
        found = true[size]
        assert entries.keys() == found.speeds.keys()
        for framework, (speed, lead) in entries.items():
            assert page.speed_shows(speed, found.speeds[framework])
            if lead:
                exact = found.leads[framework]
                assert all(n.shows(e) for n, e in zip(lead[0], exact, strict=True))
    wins = [next(iter(one.speeds)) for one in true.values() if one.kind == "fastest"]
    assert page.counts(text) == {name: (wins.count(name), len(true)) for name in set(wins)}
