"""Claims: what published figures, as they stand, and measured ones, by intervals, make of them."""

import dataclasses
from types import SimpleNamespace

import pytest
import yaml
from pydantic import ValidationError

from fixtures.claims import FASTER, claim, judged, pair, point, sweep
from fixtures.published import STUDIES
from touchstone.published.claim_model import Claim
from touchstone.published.claims import (
    CONTRADICTED,
    NOT_COMPARABLE,
    NOT_MEASURED,
    REPRODUCED,
    UNDECIDED,
    Judge,
)
from touchstone.published.contrast import contrast
from touchstone.published.dossier import DossierError, read_dossier
from touchstone.published.evidence import FAILS, HOLDS, OPEN
from touchstone.published.points import counterpart, published_points
from touchstone.published.table import read_table
from touchstone.published.verdicts import OWN_WORDS
from touchstone.workflow.inputs import JobInputs


def test_a_ratio_is_paired_by_blocks_with_students_interval():
    found = contrast(point([2, 4, 8]), point([1, 2, 2]))
    assert found is not None and found.n == 3
    assert found.value == pytest.approx(16 ** (1 / 3))
    low, high = found.interval()
    # mean of ln 2, ln 2, ln 4 = 0.924, sd / sqrt(3) = 0.231, t(97.5 %, 2) = 4.303
    assert (low, high) == pytest.approx((0.9323, 6.809), rel=1e-3)


def test_accuracies_are_subtracted_not_divided():
    found = contrast(point([0.6, 0.7], unit="1"), point([0.5, 0.5], unit="1"))
    assert found is not None and found.value == pytest.approx(0.15)
    assert found.interval() == pytest.approx((0.15 - 12.706 * 0.05, 0.15 + 12.706 * 0.05), rel=1e-3)


@pytest.mark.parametrize(
    "gpu, cpu, verdict, outcome",
    [
        ([10, 10.1, 9.9], [5, 5, 5.1], REPRODUCED, HOLDS),
        ([5, 5, 5.1], [10, 10.1, 9.9], CONTRADICTED, FAILS),
        ([5, 8, 5], [6, 5, 5], UNDECIDED, OPEN),  # the interval contains 1
        ([10], [5], UNDECIDED, OPEN),  # one run has no interval
        ([10, 11], [], NOT_MEASURED, None),
    ],
)
def test_intervals_decide_on_measured_figures(gpu, cpu, verdict, outcome):
    found = judged(pair(gpu, cpu), FASTER)
    assert found.verdict == verdict
    assert [group.outcome for group in found.groups] == ([outcome] if outcome else [])


def test_published_figures_are_taken_as_they_stand():
    assert judged(pair([10], [5]), FASTER, exact=True).verdict == REPRODUCED
    assert judged(pair([5], [10]), FASTER, exact=True).verdict == CONTRADICTED


def test_one_group_that_fails_contradicts_unless_the_claim_allows_a_share():
    points = [p for i in range(9) for p in pair([10], [5], f"f{i}")] + pair([4], [5], "g")
    found = judged(points, FASTER, exact=True)
    assert found.verdict == CONTRADICTED
    assert found.why == "throughput: holds in 9, fails in 1 of 10, values 0.8 to 2"
    assert judged(points, {**FASTER, "share": 0.9}, exact=True).verdict == REPRODUCED


def test_a_group_that_only_just_fails_among_many_stays_open():
    """0.05 / 10 is what each of ten groups may err with before it contradicts a claim."""
    lower = pair([9.0, 9.1, 9.0, 9.3], [9.5, 9.4, 9.6, 9.45], "late")
    assert judged(lower, FASTER).verdict == CONTRADICTED
    others = [p for i in range(40) for p in pair([20, 20.1, 20.2, 20], [5, 5, 5, 5.1], f"f{i}")]
    found = judged(others + lower, FASTER)
    assert found.verdict == UNDECIDED
    assert [g.outcome for g in found.groups if "late" in g.label] == [OPEN]


def test_bounds_and_their_tolerance():
    within = {**FASTER, "least": 3.0, "most": 9.0}
    assert judged(pair([28.4], [10]), within, exact=True).verdict == CONTRADICTED
    assert (
        judged(pair([28.4], [10]), {**within, "tolerance": 0.1}, exact=True).verdict == REPRODUCED
    )
    assert judged(pair([95], [10]), within, exact=True).verdict == CONTRADICTED


@pytest.mark.parametrize("repeats, exact", [(1, True), (3, False)])
@pytest.mark.parametrize(
    "expect, values, verdict",
    [
        ("rises", [1, 2, 3, 3.1], REPRODUCED),
        ("rises", [1, 2, 1.95, 3], REPRODUCED),  # within the tolerance
        ("rises", [1, 2, 1.5, 3], CONTRADICTED),
        ("rises", [3, 2, 1, 1], CONTRADICTED),
        ("falls", [3, 2, 1, 0.5], REPRODUCED),
        ("falls", [1, 2, 3, 4], CONTRADICTED),
        ("peaks", [1, 2, 3, 2], REPRODUCED),
        ("peaks", [1, 2, 3, 4], CONTRADICTED),
        ("level", [1, 1.04, 1, 1.02], REPRODUCED),
        ("level", [1, 1.2, 1, 1], CONTRADICTED),
    ],
)
def test_trends(expect, values, verdict, repeats, exact):
    trend = {"kind": "trend", "metric": "throughput", "along": "batch_size", "expect": expect}
    found = judged(sweep(values, repeats=repeats), {**trend, "tolerance": 0.1}, exact=exact)
    assert found.verdict == verdict, found


def test_a_trend_needs_three_levels_and_repeats():
    trend = {"kind": "trend", "metric": "throughput", "along": "batch_size", "expect": "rises"}
    assert judged(sweep([1, 2]), trend, exact=True).verdict == NOT_MEASURED
    assert judged(sweep([1, 2, 3]), trend).verdict == UNDECIDED


@pytest.mark.parametrize(
    "expect, verdict", [("largest", CONTRADICTED), ("not largest", REPRODUCED)]
)
def test_the_largest_of_a_group(expect, verdict):
    points = [point([v], framework=f) for f, v in (("a", 3), ("b", 4), ("c", 1))]
    test = {
        "kind": "extreme",
        "metric": "throughput",
        "factor": "framework",
        "level": "a",
        "expect": expect,
    }
    assert judged(points, test, exact=True).verdict == verdict


def test_a_spread_and_a_second_gain():
    points = [point([v], framework=f) for f, v in (("a", 50), ("b", 60))]
    spread = {"kind": "spread", "metric": "throughput", "across": "framework"}
    assert judged(points, {**spread, "most": 1.25}, exact=True).verdict == REPRODUCED
    assert judged(points, {**spread, "most": 1.1}, exact=True).verdict == CONTRADICTED
    assert judged(points[:1], {**spread, "most": 1.25}, exact=True).verdict == NOT_MEASURED
    steps = [{"devices": count} for count in (1, 2, 4)]
    gain = {"kind": "gain", "metric": "throughput", "steps": steps}
    for last, verdict in ((15, REPRODUCED), (90, CONTRADICTED)):
        points = [point([v], devices=float(n)) for n, v in ((1, 1), (2, 9), (4, last))]
        assert judged(points, gain, exact=True).verdict == verdict


def test_steps_of_a_gain_stay_with_one_kind_of_device():
    steps = [{"device": "cpu"}, {"replicas": 1}, {"replicas": 2}]
    gain = {"kind": "gain", "metric": "throughput", "steps": steps, "alike": ["gpu"]}
    points = [point([1], device="cpu")]
    for gpu, one, two in (("K20m", 5, 8), ("P100", 20, 30)):
        points += [point([v], gpu=gpu, replicas=float(n)) for n, v in ((1, one), (2, two))]
    found = judged(points, gain, exact=True)
    assert found.verdict == REPRODUCED
    assert [group.value for group in found.groups] == pytest.approx([8 / 25, 30 / 400])


@pytest.mark.parametrize("speeds, verdict", [((150, 160), REPRODUCED), ((80, 70), CONTRADICTED)])
def test_a_second_device_is_judged_on_measured_cells(dossiers, speeds, verdict):
    cell = {"framework": "mxnet", "network": "vgg16", "dataset": "cifar10", "device": "gpu"}
    pairs = [point([100, 101, 99, 100], replicas=1.0, **cell)]
    pairs.append(point([*speeds, *speeds], replicas=2.0, **cell))
    claims = {claim.id: claim for claim in dossiers["piccione2018"].claims}
    judge = Judge(pairs, exact=False)
    assert judge.judge(claims["second-gpu-helps"]).verdict == verdict
    assert judge.judge(claims["second-gpu-gains-less"]).verdict == NOT_MEASURED


def test_two_rankings_of_machines():
    def figures(task, values):
        return [
            point([v], "training_time", "s", machine=m, task=task)
            for m, v in zip("abc", values, strict=True)
        ]

    rank = {"kind": "rank", "metric": "training_time", "over": "machine"}
    rank |= {"of": {"task": "gemm"}, "to": {"task": "model"}}
    alike = figures("gemm", [1, 2, 3]) + figures("model", [10, 20, 30])
    assert judged(alike, rank, exact=True).verdict == REPRODUCED
    assert judged(alike, {**rank, "opposite": True}, exact=True).verdict == CONTRADICTED
    swapped = figures("gemm", [1, 2, 3]) + figures("model", [10, 30, 20])
    found = judged(swapped, rank, exact=True)
    assert [group.outcome for group in found.groups] == [HOLDS, HOLDS, FAILS]


def test_what_a_scale_changed_may_make_a_claim_not_comparable():
    points = pair([10, 10.1, 9.9], [5, 5, 5.1])
    points = [dataclasses.replace(one, cell="a") for one in points]
    changed = {"a": {"dataset": "dataset mnist-5k for cifar10"}, "b": {"epochs": "epochs 1 for 2"}}
    found = judged(points, FASTER, changed=changed, needs=["dataset"])
    assert found.verdict == NOT_COMPARABLE and "mnist-5k for cifar10" in found.why
    assert judged(points, FASTER, changed=changed, needs=["epochs"]).verdict == REPRODUCED


def test_why_nothing_was_measured_is_reported():
    reason = "no NVIDIA driver"
    missing = [point([], reason=reason, device="gpu", framework="caffe")]
    assert reason in judged(missing, FASTER).why
    alone = pair([10], [5])[1:]
    assert judged(alone, FASTER).why == "throughput: no figure with device gpu"
    untested = Claim.model_validate(
        {"id": "a", "statement": "b", "source": "c", "untested": "needs two machines"}
    )
    found = Judge([], exact=False).judge(untested)
    assert (found.verdict, found.why, found.n) == (NOT_MEASURED, "needs two machines", None)


# The published claims


@pytest.fixture(scope="module")
def dossiers(root):
    return {name: read_dossier(root / f"config/claims/{name}.yaml") for name in STUDIES}


@pytest.fixture(scope="module")
def published(root, dossiers):
    return {
        name: published_points(read_table(root / "config/published" / one.published), one)
        for name, one in dossiers.items()
    }


def test_every_claim_has_the_verdict_by_its_own_table_that_was_counted_by_hand(dossiers, published):
    wrong = []
    for name, dossier in dossiers.items():
        for one in dossier.claims:
            found = Judge(published[name], exact=True).judge(one)
            if OWN_WORDS[found.verdict] != one.own_table:
                wrong.append(f"{name}/{one.id}: {one.own_table}, not {found.verdict}: {found.why}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "name, count",
    [
        ("piccione2018/gpu-beats-cpu", "156 of 156"),
        ("piccione2018/second-gpu-helps", "68 of 78"),
        ("piccione2018/second-gpu-gains-less", "77 of 78"),
        ("piccione2018/newer-device-speed", "77 of 78"),
        ("piccione2018/newer-device-resources", "65 of 78 and 2 of 78"),
        ("piccione2018/more-gpus-memory", "71 of 78"),
        ("piccione2018/more-gpus-power", "60 of 78"),
        ("piccione2018/tensorflow-memory", "24 of 28"),
        ("piccione2018/power-alike", "20 of 32"),
        ("piccione2018/memory-alike", "17 of 36"),
        ("piccione2018/caffe-scales-at-times", "6 of 18"),
        ("piccione2018/mxnet-average", "20 of 36"),
        ("piccione2018/caffe-slow", "19 of 45"),
        ("piccione2018/deeper-slower", "140 of 150"),  # 3 of them ties
        ("piccione2018/deeper-memory", "91 of 120"),  # 1 of them a tie
        ("piccione2018/deeper-power", "93 of 120"),  # 1 of them a tie
        ("piccione2018/imagenet-slower", "20 of 20, 25 of 25, 15 of 15 and 15 of 15"),
        ("piccione2018/lenet-caffe-mxnet-ahead", "24 of 24"),
        ("piccione2018/lenet-cpu-pytorch-cntk", "6 of 6"),
        ("piccione2018/alexnet-imagenet-memory", "4 of 4"),
        ("piccione2018/vgg16-imagenet-order", "0 of 5"),
        ("yin2020/gpu-nearly-5-times", "1 of 3"),
        ("yin2020/pytorch-fastest-small-batch", "5 of 5"),
        ("yin2020/mxnet-fastest-above-64", "2 of 4"),
        ("yin2020/tensorflow-cpu-use-by-batch", "7 of 9"),
        ("yin2020/pytorch-least-host-memory", "8 of 9"),
        ("yin2020/batch-memory", "1 of 3 and 2 of 3"),
        ("yin2020/rate-fastest-range", "8 of 8"),
        ("piccione2018/above-cpu", "39 of 39"),
        ("piccione2018/lenet-20-30-times", "0 of 4"),
        ("piccione2018/lenet-second-gpu-less", "4 of 4"),
        ("piccione2018/lenet-rest-scale", "12 of 12"),
        ("piccione2018/lenet-memory-alike", "0 of 4"),
        ("piccione2018/lenet-cntk-memory", "3 of 4"),
        ("piccione2018/lenet-power-alike", "3 of 4"),
        ("piccione2018/lenet-newer-device-power", "10 of 10"),
        ("piccione2018/lenet-pytorch-power", "5 of 5"),
        ("piccione2018/alexnet-cifar-tensorflow-pytorch", "0 of 5"),
        ("piccione2018/alexnet-cifar-memory", "4 of 4"),
        ("piccione2018/alexnet-cifar-pytorch-mxnet-power", "1 of 4"),
        ("piccione2018/resnet50-cifar-extremes", "1 of 5"),
        ("piccione2018/resnet50-cifar-power", "2 of 4"),
        ("piccione2018/googlenet-cifar-mxnet", "5 of 5"),
        ("piccione2018/alexnet-imagenet-power-alike", "1 of 4"),
        ("piccione2018/resnet50-imagenet-caffe", "5 of 5"),
        ("piccione2018/resnet50-imagenet-memory", "4 of 4, 4 of 4, 2 of 2 and 2 of 2"),
        ("piccione2018/googlenet-imagenet-tensorflow", "0 of 2"),
        ("piccione2018/vgg16-imagenet-scale", "8 of 8 and 2 of 2"),
        ("piccione2018/vgg16-imagenet-power", "4 of 4"),
        ("yin2020/gpu-3-times", "1 of 2"),
        ("yin2020/gpu-growth", "3 of 3"),
        ("yin2020/pytorch-fast-as-tensorflow", "0 of 2"),
        ("yin2020/pytorch-no-less", "2 of 4"),
        ("yin2020/tensorflow-cpu-use", "2 of 2"),
        ("yin2020/cpu-use-by-device", "3 of 3"),
        ("yin2020/host-memory-by-device", "2 of 3"),
        ("yin2020/tensorflow-cpu-use-25", "3 of 9"),
        ("yin2020/gpu-use-small-batch", "3 of 3 and 2 of 3"),
        ("yin2020/gpu-use-large-batch", "4 of 5 and 5 of 5"),
        ("yin2020/gpu-use-by-batch", "2 of 3"),
        ("yin2020/mxnet-most-host-memory", "9 of 9"),
        ("yin2020/others-host-memory-flat", "1 of 2"),
        ("yin2020/others-gpu-memory-flat", "1 of 2"),
        ("yin2020/mxnet-most-gpu-memory", "5 of 9"),
        ("yin2020/batch-saturates", "1 of 3"),
        ("vo2021/implied-flops", "24 of 24"),
        ("vo2021/implied-operations", "24 of 24"),
        ("vo2021/operations-quicker", "16 of 16"),
        ("vo2021/bottleneck-slows", "12 of 24"),
        # Not the fastest of 12: TensorFlow 7 times, JAX 5 times, PyTorch 12 times.
        ("keras3/no-best-backend", "7 of 12, 5 of 12 and 12 of 12"),
        # Eager / best: 3.67, 4.18, 1.23, 1.27, 3.23, 4.42, 1.09, 2.43, 2.45, 1.17, 1.69, 2.37.
        ("keras3/faster-than-eager", "12 of 12"),
        # Eager / TensorFlow: 3.67, 3.59, 1.23, 1.27, 3.23, 3.97, 1.09, 2.42, 1.17, 1.68.
        ("keras3/twice-as-fast-as-eager", "5 of 10"),
        # 1849.80 / 418.72 = 4.418, the largest of 12 x 3.
        ("keras3/largest-gain-over-eager", "1 of 1 and 36 of 36"),
        # Best / compiled: 391.21 / 385.58 = 1.015, 214.49 / 202.43 = 1.060,
        # 232.52 / 211.73 = 1.098, 185.92 / 176.04 = 1.056; each is at least 1.01 and at most 1.1.
        ("keras3/slower-than-compiled", "4 of 4 and 4 of 4"),
        # Compiled / best: 3.44, 3.89, 1.25, 1.75, 2.42, 2.37, 1.71, 2.32.
        ("keras3/faster-than-compiled", "8 of 8"),
        # Compiled / TensorFlow: 3.44, 3.34, 0.98, 1.25, 0.94, 1.57, 0.91, 2.41, 0.95, 1.70; and
        # 1463.85 / 376.34 = 3.89, the largest of 12 x 3.
        ("keras3/half-faster-than-compiled", "5 of 10 and 36 of 36"),
        # Keras 2 / best: 1.09, 4.94, 2.62, 1.05, 2.27, 1.12.
        ("keras3/faster-than-keras-2", "6 of 6"),
        # Keras 2 / TensorFlow: 1.09, 4.24, 2.61, 1.05, 2.27, 1.01.
        ("keras3/tensorflow-faster-than-keras-2", "6 of 6"),
        # 1859.27 / 376.34 = 4.94: 394 % faster, and not 380 %.
        ("keras3/keras-2-segment-anything", "0 of 1"),
        # 1023.21 / 391.21 = 2.62, 486.00 / 214.49 = 2.27.
        ("keras3/keras-2-training", "1 of 1 and 1 of 1"),
        # Training: 3.67 before 3.23, 1.23, 1.17, 1.09. Inference: 3.97 of BERT, then 3.59.
        ("keras3/segment-anything-gap", "2 of 2"),
        # 7952.67 / 2745.18 = 2.90, 4.44, 6.76, 6.86.
        ("keras3/pytorch-backend-generation", "4 of 4"),
    ],
)
def test_the_counts_are_those_counted_by_hand(dossiers, published, name, count):
    study, _, wanted = name.partition("/")
    one = next(claim for claim in dossiers[study].claims if claim.id == wanted)
    assert Judge(published[study], exact=True).judge(one).count == count


def test_every_claim_says_what_its_own_table_makes_of_it_and_where_it_is(dossiers):
    claims = [one for dossier in dossiers.values() for one in dossier.claims]
    assert len(claims) == 193
    assert not [one.id for one in claims if one.own_table is None or not one.source]


def test_every_published_figure_is_read_at_least_once(root, dossiers, published):
    for name, dossier in dossiers.items():
        rows = read_table(root / "config/published" / dossier.published).rows
        lines = {one.row.line for one in published[name]}
        assert lines == {row.line for row in rows}


def test_units_are_converted_and_steps_read_as_images_where_the_dossier_says(published):
    by_metric = {one.metric: one for one in published["yin2020"] if one.row.line in (28, 172)}
    assert by_metric["step_rate"].values == {1: 32.22}
    assert by_metric["throughput"].values == {1: 32.22}
    assert "contradicts itself" in by_metric["throughput"].reading.why
    for metric in ("training_accuracy", "test_accuracy"):
        accuracy = [one for one in published["yin2020"] if one.metric == metric]
        assert accuracy[0].values[1] == pytest.approx(0.4781) and accuracy[0].unit == "1"


def test_a_published_figure_finds_its_cell_or_says_why_there_is_none(published):
    rows = {one.row.line: one for one in published["piccione2018"]}
    cpu = rows[4]  # mnist, lenet, caffe, cpu-12-cores
    cell = dict(
        framework="caffe", network="lenet-caffe", dataset="mnist", device="cpu", replicas=1.0
    )
    measured = [point([9], batch_size=64.0, **cell)]
    assert counterpart(cpu, measured) == (measured, None)
    others = [point([9], **{**cell, "framework": "mxnet"})]
    assert counterpart(cpu, others) == ([], "no cell with framework caffe in this study")
    assert counterpart(rows[5], measured) == ([], "no cell with device gpu in this study")
    one = [point([9], **{**cell, "device": "gpu"})]
    assert counterpart(rows[7], one) == ([], "no cell with replicas 2 in this study")  # 2 GPUs


# Files of claims


def test_a_faulty_file_of_claims_is_refused_with_every_fault(tmp_path):
    path = tmp_path / "claims.yaml"
    good = {
        "published": "a.csv",
        "metrics": {"speed": [{"metric": "throughput", "when": {"shape": "round"}}]},
        "cells": [{"when": {"colour": "red"}}],
        "totals": [{"metric": "calls", "where": {"weight": 1}, "is": {}}],
        "curves": [{"id": "c", "title": "C", "where": {}, "series": "size", "source": "none"}],
        "further": ["beauty"],
        "claims": [
            {"id": "a", "statement": "s", "source": "t", "tests": [{**FASTER, "metric": "x"}]},
            {"id": "a", "statement": "s", "source": "t", "untested": "why"},
        ],
    }
    path.write_text(yaml.safe_dump(good))
    with pytest.raises(DossierError) as error:
        read_dossier(path)
    factors = [f"unknown factor {name!r}" for name in ("colour", "shape", "weight", "size")]
    others = ["'x' is not among the metrics", "claim a: there twice", "read as 'calls'"]
    for told in [*factors, *others, "further: no metric is named 'beauty'"]:
        assert told in str(error.value)
    path.write_text(yaml.safe_dump({**good, "claim": 1}))
    with pytest.raises(DossierError, match="claim: Extra inputs"):
        read_dossier(path)
    path.write_text("a: [")
    with pytest.raises(DossierError, match="mend that file"):
        read_dossier(path)
    path.write_text("claims: []\nclaims: []\n")
    with pytest.raises(DossierError, match=r"more than once in one mapping: claims \(lines 1, 2\)"):
        read_dossier(path)


@pytest.mark.parametrize(
    ("test", "told"),
    [
        ({**FASTER, "least": 2.0, "most": 1.0}, "least 2 is more than most 1; swap them"),
        ({**FASTER, "to": {"device": "tpu"}}, "claim a: device: 'tpu' is not among cpu, gpu"),
        (
            {"kind": "trend", "metric": "throughput", "along": "framework", "expect": "rises"},
            "claim a: along: framework has words, and a trend goes along numbers",
        ),
    ],
)
def test_a_comparison_that_can_find_nothing_is_refused(test, told, tmp_path):
    """After hours of runs it would be a claim without figures."""
    claim = {"id": "a", "statement": "s", "source": "t", "tests": [test]}
    path = tmp_path / "claims.yaml"
    path.write_text(yaml.safe_dump({"published": "a.csv", "metrics": {}, "claims": [claim]}))
    with pytest.raises(DossierError) as error:
        read_dossier(path)
    assert told in str(error.value)


@pytest.mark.parametrize("table", [None, "", "# title: t\n# source: s\nmetric,value\n"])
def test_a_published_table_is_read_before_the_first_run(table, tmp_path):
    claim = {"id": "a", "statement": "s", "source": "t", "untested": "why"}
    for folder in ("claims", "published"):
        (tmp_path / "config" / folder).mkdir(parents=True)
    dossier = {"published": "a.csv", "metrics": {}, "claims": [claim]}
    (tmp_path / "config/claims/mine.yaml").write_text(yaml.safe_dump(dossier))
    if table is not None:
        (tmp_path / "config/published/a.csv").write_text(table)
    inputs = SimpleNamespace(context=SimpleNamespace(root=tmp_path))
    with pytest.raises(SystemExit, match="a.csv"):
        JobInputs.study_files(inputs, SimpleNamespace(study="mine"))


def test_the_folder_of_a_study_holds_more_claims(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump({"published": "a.csv", "metrics": {}}))
    (tmp_path / "study").mkdir()
    more = {"id": "more", "statement": "s", "source": "t", "untested": "why"}
    (tmp_path / "study/1.yaml").write_text(yaml.safe_dump([more]))
    assert [one.id for one in read_dossier(path).claims] == ["more"]
    (tmp_path / "study/2.yaml").write_text(yaml.safe_dump([{**more, "id": "b", "own": "holds"}]))
    with pytest.raises(DossierError, match="claim b.own: Extra inputs"):
        read_dossier(path)
    (tmp_path / "study/2.yaml").write_text("id: b\n")
    with pytest.raises(DossierError, match=r"2\.yaml: not a list; begin every claim"):
        read_dossier(path)


@pytest.mark.parametrize(
    "test, fault",
    [
        ({**FASTER, "least": None}, "give least, most or both, or the number"),
        ({**FASTER, "share": "many"}, "Input should be 'most' or 'some'"),
        ({**FASTER, "share": 2.0}, "less than or equal to 1"),
        ({**FASTER, "kind": "best"}, "does not match any of the expected tags"),
        (
            {"kind": "spread", "metric": "throughput", "across": "framework", "tolerance": 0.1},
            "Extra inputs are not permitted",
        ),
    ],
)
def test_a_comparison_that_cannot_be_is_refused(test, fault):
    with pytest.raises(ValidationError, match=fault):
        claim(test)


def test_a_stand_in_needs_a_comparison_of_a_gpu():
    everywhere = {**FASTER, "kind": "ends", "along": "threads", "least": 1}
    del everywhere["of"], everywhere["to"]
    with pytest.raises(ValidationError, match="no test names device gpu"):
        claim(everywhere, stand_in=True)


def test_a_claim_has_tests_or_a_reason_for_none():
    with pytest.raises(ValidationError, match="give tests, or the reason"):
        claim()
