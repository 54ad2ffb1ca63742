"""The verdict in plain words, its intervals, and the table at a glance."""

import pytest

from fixtures.studies import plot, report, studied, text_of
from touchstone.report.sections.verdict import glance, intervals, verdicts

PYTORCH, MXNET, TENSORFLOW = ({"framework": n} for n in ("pytorch", "mxnet", "tensorflow"))


def around(speed, spread=0.01):
    return [(1 - spread) * speed, speed, (1 + spread) * speed]


@pytest.mark.parametrize(
    ("cells", "speeds", "verdict"),
    [
        (
            [PYTORCH, MXNET, TENSORFLOW],
            [around(200), around(100), around(150)],
            "PyTorch is 1.33 times as fast as TensorFlow and 2.00 times as fast as MXNet.",
        ),
        (
            [PYTORCH, MXNET, TENSORFLOW],
            [around(200), around(100), around(200)],
            "PyTorch and TensorFlow are equally fast. PyTorch is 2.00 times as fast as MXNet.",
        ),
        (
            [PYTORCH, MXNET],
            [[200, 205, 190], [180, 199, 194]],
            "Cannot tell whether PyTorch is faster than MXNet.",
        ),
        ([PYTORCH, MXNET], [[900, 300, 500], [400, 800, 100]],
         "No answer, the machine was too noisy."),
        ([PYTORCH, MXNET], [[200], [100]], "Too few runs to tell which is fastest."),
        (
            [{"batch_size": size} for size in (32, 64, 128)],
            [around(100), around(200), around(150)],
            "Batch size 64 is 1.33 times as fast as batch size 128 and 2.00 times as fast as batch"
            " size 32.",
        ),
        (
            [{"framework": "pytorch", "mode": mode} for mode in ("eager", "compile")],
            [around(100), around(200)],
            "PyTorch (compile) is 2.00 times as fast as PyTorch (eager).",
        ),
        (
            [{**PYTORCH, "precision": precision} for precision in ("fp32", "bf16")],
            [around(100), around(200)],
            "bf16 is 2.00 times as fast as fp32.",
        ),
    ],
)  # fmt: skip
def test_a_verdict_says_who_is_faster_in_plain_words(tmp_path, cells, speeds, verdict):
    findings = studied(tmp_path, cells, speeds)
    assert verdicts(findings) == [verdict]
    ratio = findings.comparisons[0].leads[0].ratio
    has_intervals = ratio and ratio.low is not None and not findings.comparisons[0].too_noisy
    assert bool(intervals(findings)) == bool(has_intervals)


def test_several_comparisons_have_a_verdict_each_and_many_one(tmp_path):
    cells = [
        {**framework, "batch_size": size, "learning_rate": rate}
        for size in (32, 64)
        for rate in (0.1, 0.2)
        for framework in (PYTORCH, MXNET)
    ]
    speeds = [around(200), around(100)] * 4
    two = verdicts(studied(tmp_path / "two", cells[:2] + cells[4:6], speeds[:4]))
    assert len(two) == 2 and all("PyTorch is 2.00 times as fast as MXNet." in text for text in two)
    (many,) = verdicts(studied(tmp_path / "many", cells, speeds))
    assert many == (
        "PyTorch (channels last) was fastest in 4 of 4 comparisons, 2.00 times as fast as the next."
    )


def test_the_table_at_a_glance_has_what_was_measured(tmp_path):
    findings = studied(tmp_path, [PYTORCH, MXNET], [around(100), around(200)])
    table = glance(findings)
    headings = [column.heading for column in table.columns]
    assert headings[:2] == ["Configuration", "Speed"] and headings[-1] == "Start-up"
    assert not [heading for heading in headings if "GPU" in heading or "Latency" in heading]
    rows = [[str(column.drawn(row).text) for column in table.columns] for row in table.rows]
    assert "MXNet" in rows[0][0] and rows[0][1] == "200.0" and rows[1][1] == "100.0"


def test_the_table_at_a_glance_has_the_cost_where_a_price_is_known(tmp_path):
    """At 100 images/s a million takes 10,000 s, which cost 2.78 USD at 1 USD an hour."""
    findings = studied(tmp_path, [PYTORCH, MXNET], [around(100), around(200)])
    assert "Cost" not in [column.heading for column in glance(findings).columns]
    table = glance(findings, "1.00 USD")
    (cost,) = (column for column in table.columns if column.heading == "Cost")
    assert cost.unit == "USD / million images"
    assert [str(cost.drawn(row).text) for row in table.rows] == ["1.39", "2.78"]
    (tmp_path / "config.resolved.yaml").write_text("title: Priced\nprice_per_hour: 1.00 USD\n")
    for done in (plot(tmp_path, images=False), report(tmp_path)):
        assert (done.returncode, done.stderr) == (0, "")
    page = text_of(tmp_path)
    assert "1.39" in page and "Cost: 1.00 USD an hour / the examples of an hour" in page
