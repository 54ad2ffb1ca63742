"""parse_run, tables and report on inference: exact numbers."""

import json

import pytest

from fixtures.records import require_valid, value
from fixtures.runs import FACTORS, START, edit_json, read_events, write_events, write_plan
from fixtures.specs import timed
from fixtures.studies import BLANK
from touchstone.analysis.again import Kept
from touchstone.analysis.findings import compute
from touchstone.plan.setting import INFERENCE
from touchstone.report.page import FIGURES, make_report
from touchstone.results.files import InputError, write_json
from touchstone.results.gathering import gather
from touchstone.results.metrics import METRICS
from touchstone.results.record import build_record
from touchstone.results.study import read_study
from touchstone.schema.spec import InferenceSpec, spec_from_json, spec_to_json

BATCH = 64


def make_inference(folder, latencies=None, status="ok", deviation=2.0**-20, **options):
    """The files of an inference run: 2 batches of a test set of 100, 4 of warm-up, 15 measured.

    `latencies` are of the batches that are waited for (s).
    """
    from fixtures.runs import make_run

    factors = {**FACTORS, **options}
    make_run(folder, **{key: factors[key] for key in FACTORS})
    spec = spec_from_json(json.loads((folder / "spec.json").read_text()))
    factors = spec.factors._replace(workload="inference", weights="trained")
    spec = timed(spec, InferenceSpec, factors=factors, weights="weights.npz")
    (folder / "spec.json").write_text(json.dumps(spec_to_json(spec)))
    latencies = [2.0**-6] * 64 if latencies is None else latencies
    events = [
        event
        for event in read_events(folder)
        if event["event"] in ("start", "software", "settings")
    ]

    def phase(name, begin, end, steps=None):
        work = {} if steps is None else {"steps": steps, "examples": steps * BATCH}
        events.append({"event": "phase", "name": name, "begin": begin, "end": end, **work})

    made = 0

    def batches(name, begin, times):
        nonlocal made
        for seconds in times:
            chunk = {"phase": name, "first_step": made, "steps": 1, "losses": []}
            events.append({"event": "chunk", **chunk, "begin": begin, "end": begin + seconds})
            begin, made = begin + seconds, made + 1
        return begin

    phase("import", START, 101.0)
    phase("load", 101.0, 101.5)
    phase("build", 101.5, 102.0)
    clock = batches("first_step", 102.0, [1.0])
    phase("first_step", 102.0, clock, 1)
    begin, clock = clock, batches("evaluation", clock, [0.25])
    phase("evaluation", begin, clock, 1)
    told = {"epoch": 0, "step": made, "examples": 100, "correct": 90, "loss": 0.25}
    events.append({"event": "evaluation", **told})
    begin, clock = clock, batches("warmup", clock, [0.5] * 4)
    phase("warmup", begin, clock, 4)
    begin, clock = clock, batches("measured", clock, [0.25] * 15)
    phase("measured", begin, clock, 15)
    if status == "ok":
        begin, clock = clock, batches("latency", clock, latencies)
        phase("latency", begin, clock, len(latencies))
        if deviation is not None:
            events.append({"event": "deviation", "value": deviation, "tolerance": 1e-3})
        events.append({"event": "memory", "device_peak_mib": None})
        events.append({"event": "result", "status": status, "reason": None})
    outcome = {"status": status, "reason": None if status == "ok" else "too long", "exit_code": 0}
    begin = {"begin": START, "end": clock, "cpu_seconds": 9.0}
    events.append({"event": "outcome", **outcome, **begin})
    write_events(folder, events)
    return folder


def test_inference_has_its_times_and_nothing_of_an_update(tmp_path):
    latencies = [2.0**-6] * 50 + [2.0**-5] * 45 + [2.0**-4] * 4 + [2.0**-3]
    record = build_record(make_inference(tmp_path, latencies))
    require_valid(record)
    assert value(record, "model_load_time") == 0.5
    assert value(record, "first_step_time") == 1.0
    assert value(record, "total_inference_time") == 0.5 + 1.0 + 0.25
    assert value(record, "throughput") == 256
    assert [value(record, f"latency_p{p}") for p in (50, 95, 99)] == [15.625, 31.25, 62.5]
    assert value(record, "test_accuracy") == 0.9
    assert value(record, "deviation") == 2.0**-20
    assert value(record, "flop_rate") == 2 * 2**20 * 256 / 1e9
    for name in ("training_time", "final_loss"):
        assert record["metrics"][name]["reason"] == "the cell predicts, and trains nothing"
    assert record["losses"] == record["evaluations"] == []
    assert record["phases"]["latency"] == sum(latencies)


def test_too_few_batches_have_no_high_percentile(tmp_path):
    record = build_record(make_inference(tmp_path, [0.25] * 19))
    assert value(record, "latency_p50") == 250
    assert record["metrics"]["latency_p95"]["reason"] == "too few batches: 19, and it takes 20"


def test_what_a_run_reached_before_its_limit_counts(tmp_path):
    record = build_record(make_inference(tmp_path, status="timeout"))
    require_valid(record)
    assert value(record, "total_inference_time") == 1.75
    assert record["metrics"]["latency_p50"]["reason"] == "timeout: too long"


def test_a_training_run_has_none_of_it(tmp_path):
    from fixtures.runs import make_run

    record = build_record(make_run(tmp_path))
    reasons = {
        record["metrics"][name]["reason"] for name, one in METRICS.items() if one.of == (INFERENCE,)
    }
    assert reasons == {"the cell does not predict"}


def test_an_accuracy_of_another_test_set_is_refused(tmp_path):
    make_inference(tmp_path)
    edit_json(tmp_path / "spec.json", data__test_examples=99)
    with pytest.raises(InputError, match="evaluated 90 / 100 correct, the test set has 99"):
        build_record(tmp_path)


def test_the_report_has_a_table_and_compares_frameworks(tmp_path):
    from fixtures.runs import cell_name

    frameworks = ("pytorch", "mxnet")
    for framework in frameworks:
        for repeat in (1, 2, 3):
            own = {"framework": framework}
            folder = tmp_path / "runs" / f"{framework}{repeat}"
            make_inference(folder, deviation=None if framework == "mxnet" else 2.0**-20, **own)
            edit_json(folder / "spec.json", repeat=repeat)
            place = f"{cell_name({**FACTORS, **own})}/rep{repeat}.json"
            write_json(tmp_path / "records" / place, build_record(folder))
    write_plan(tmp_path / "plan.tsv", [{"framework": name} for name in frameworks])
    lines = (tmp_path / "plan.tsv").read_text().splitlines()
    told = ["workload\tweights", *["inference\ttrained"] * 2]
    lines = [f"{line}\t{more}" for line, more in zip(lines, told, strict=True)]
    (tmp_path / "plan.tsv").write_text("\n".join(lines) + "\n")
    gather(tmp_path / "plan.tsv", tmp_path / "records", tmp_path / "tables", {})
    study = read_study(tmp_path / "plan.tsv", tmp_path / "tables", tmp_path / "records")
    assert len(study.inference.cells) == 2 and not study.trained.cells
    flags = {cell.series.framework: set(cell.flags) for cell in study.cells}
    assert "parity_not_shown" in flags["mxnet"] - flags["pytorch"]
    figures = tmp_path / "figures"
    figures.mkdir()
    texts = {"title": "", "caption": "", "alt": ""}
    (figures / "captions.json").write_text(json.dumps(dict.fromkeys(FIGURES, texts)))
    for name in FIGURES:
        (figures / f"{name}.svg").write_bytes(BLANK["svg"])
    html = make_report(
        compute(study, {}),
        figures,
        title="Predicted",
        kept=Kept("one"),
        config_name="",
        config_text="",
    )
    assert '<h2 id="inference">Inference</h2>' in html
    assert "<td>15.6</td>" in html.replace('<span class="range">15.6</span>', "")
    assert "inference" in html.split("The answer")[1].split("</section>")[0]
