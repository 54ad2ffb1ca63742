"""Bundles: the same bytes again, refused when they are not what was packed; machines compared."""

import csv
import hashlib
import io
import json
import random
import re
import shutil
import stat
import tracemalloc
import zipfile
from pathlib import Path

import pytest
import yaml

from fixtures.commands import call
from fixtures.runs import FACTORS, cell_name, edit_json, make_record, write_plan
from touchstone.analysis.machines import COLUMNS, all_cells, read_machines, speedup
from touchstone.results import bundle, digests
from touchstone.results.bundle import machine_name, pack, read_manifest, unpack
from touchstone.results.files import InputError
from touchstone.results.metrics import METRICS
from touchstone.results.planned import read_plan, read_records
from touchstone.results.privacy import KEPT, Names
from touchstone.results.record_model import faults
from touchstone.safe_text import has_control
from touchstone.statistics.intervals import unpaired_ratio

CELLS = [{"framework": f, "batch_size": 64} for f in ("pytorch", "mxnet")]
PYTORCH, MXNET = (cell_name({**FACTORS, **cell}) for cell in CELLS)


def results(root, rate=9000.0, model="AMD EPYC 9B14 48-Core Processor", seed=1, oom=False):
    """A results folder of two cells with three repeats on a machine of that model and speed."""
    rng = random.Random(seed)
    for cell in CELLS:
        for repeat in (1, 2, 3):
            r = rate * rng.gauss(1, 0.02)
            options = {"status": "oom", "steps": 0, "reason": "bench ran out, see /tmp/bench-2"}
            failed = oom and cell["framework"] == "mxnet"
            make_record(
                root / "runs",
                root / "records",
                repeat=repeat,
                step_seconds=lambda step, r=r: 64 / r,
                correct=rng.choice([96, 97]),
                **(options if failed else {}),
                **cell,
            )
    for path in [*root.glob("records/*/*.json")]:
        edit_json(path, provenance__machine__cpu_model=model)
    for path in [*root.glob("runs/*/*/env.json")]:
        edit_json(path, machine__cpu_model=model)
    write_plan(root / "plan.tsv", CELLS, 3)
    (root / "config.resolved.yaml").write_text("results_format: 3\nstudy: fake\ntitle: Fake\n")
    path = root / "data" / "mnist-5k" / "lmdb" / "manifest.json"
    path.parent.mkdir(parents=True)
    splits = {"train": {"fingerprint": "a"}, "test": {"fingerprint": "t"}}
    path.write_text(json.dumps({"format": 1, "splits": splits}))
    (path.parent / "train.lmdb").write_bytes(b"no part of a bundle")
    return root


@pytest.fixture(scope="module")
def fast(tmp_path_factory):
    return results(tmp_path_factory.mktemp("fast"))


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    root = tmp_path_factory.mktemp("slow")
    return results(root, 3000.0, "Intel(R) Xeon(R) CPU @ 2.20GHz", seed=2, oom=True)


@pytest.fixture
def packed(fast, tmp_path):
    pack(fast, tmp_path / "fast.zip")
    return tmp_path / "fast.zip"


def test_the_same_results_are_the_same_bytes_and_come_back(fast, packed, tmp_path):
    pack(fast, tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == packed.read_bytes()
    manifest = unpack(packed, tmp_path / "out")
    assert manifest["counts"] == {"cells": 2, "runs": 6, "outcomes": {"ok": 6}}
    assert manifest["study"] == "fake" and manifest == read_manifest(packed)
    files = {p.relative_to(tmp_path / "out").as_posix() for p in (tmp_path / "out").rglob("*.*")}
    files = {name for name in files if (tmp_path / "out" / name).is_file()}
    runs = [f"{cell}/rep{n}" for cell in (PYTORCH, MXNET) for n in (1, 2, 3)]
    assert files == {
        *("plan.tsv", "config.resolved.yaml", "data/mnist-5k/lmdb/manifest.json"),
        *(f"records/{run}.json" for run in runs),
        *(f"runs/{run}/env.json" for run in runs),
    }
    for name in files:
        mine, theirs = (tmp_path / "out" / name).read_bytes(), manifest["files"][name]
        assert theirs == {"bytes": len(mine), "sha256": hashlib.sha256(mine).hexdigest()}


def test_the_host_name_stays_at_home_unless_asked_for(slow, tmp_path):
    pack(slow, tmp_path / "hidden.zip")
    with zipfile.ZipFile(tmp_path / "hidden.zip") as archive:
        record = json.loads(archive.read(f"records/{MXNET}/rep1.json"))
        assert record["provenance"]["machine"]["hostname"] is None
        assert record["provenance"]["unknown"]["machine.hostname"] == "left out of the bundle"
        assert record["reason"] == "HOST ran out, see /tmp/bench-2"
        env = json.loads(archive.read(f"runs/{MXNET}/rep1/env.json"))
        assert env["machine"]["hostname"] is None and "machine.hostname" in env["unknown"]
        assert b"bench" not in archive.read("manifest.json")
    pack(slow, tmp_path / "told.zip", hostname=True)
    with zipfile.ZipFile(tmp_path / "told.zip") as archive:
        record = json.loads(archive.read(f"records/{MXNET}/rep1.json"))
        assert record["provenance"]["machine"]["hostname"] == "bench"


def test_names_of_the_user_and_of_folders_stay_at_home(slow, tmp_path, monkeypatch):
    monkeypatch.setenv("LOGNAME", "maria")
    monkeypatch.setenv("HOME", "/users/maria")
    root = tmp_path / "results"
    shutil.copytree(slow, root)
    path = root / f"records/{MXNET}/rep1.json"
    record = json.loads(path.read_text())
    record["reason"] = f"MARIA on Bench.example.org: no room in /users/maria/tmp or {root}/x"
    record["provenance"]["unknown"]["a"] = "maria's job on bench"
    path.write_text(json.dumps(record))
    with (root / "config.resolved.yaml").open("a") as file:
        file.write("compare_with: [/users/maria/other.zip]\n")
    pack(root, tmp_path / "hidden.zip")
    with zipfile.ZipFile(tmp_path / "hidden.zip") as archive:
        found = json.loads(archive.read(f"records/{MXNET}/rep1.json"))
        assert found["reason"] == "USER on HOST: no room in FOLDER/tmp or FOLDER/x"
        assert found["provenance"]["unknown"]["a"] == "USER's job on HOST"
        for name in archive.namelist():
            text = archive.read(name).decode().lower()
            assert "maria" not in text and str(root).lower() not in text, name


TOLD = "maria on Bench.example.org: {0}/x, /home/alice/lab/y, file:///users/maria/z; alice's job"
SECRETS = ("maria", "alice", "bench", "example.org")


def planted(value, text, accepts, kept=False):
    """A value of JSON with that text in each place of a text that accepts it; where what was
    measured is said, the text is a path only."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            part = value[key]
            if isinstance(part, dict | list):
                planted(part, text, accepts, kept or key in KEPT)
            elif isinstance(part, str):
                value[key] = text[1] if kept or key in KEPT else text[0]
                if not accepts():
                    value[key] = part
    return value


def test_names_planted_in_every_text_stay_at_home(slow, tmp_path, monkeypatch):
    monkeypatch.setenv("LOGNAME", "maria")
    root = tmp_path / "results"
    shutil.copytree(slow, root)
    text = TOLD.format(root), f"{root}/x:/home/alice/y"
    count = 0
    for path in root.glob("records/*/*.json"):
        record = json.loads(path.read_text())
        record["provenance"]["data"] = {"folder": "x", "files": 1, "bytes": 1, "verified": "file"}
        record["provenance"]["deviations"] = ["x"]
        if record["status"] == "error":
            record["log_tail"] = ["x"]
        if faults(record):
            del record["provenance"]["data"]
        assert not faults(record)
        path.write_text(json.dumps(planted(record, text, lambda it=record: not faults(it))))
        count += path.read_text().count("alice's job")
        assert record["status"] == "ok" or record["metrics"]["throughput"]["reason"] == text[0]
        where = root / f"runs/{record['cell']}/rep{record['repeat']}/env.json"
        env = planted(json.loads(where.read_text()), text, lambda: True)
        where.write_text(json.dumps(env | {"format": 1}))
    assert count > 200
    config = {"study": "fake", "title": text[0], "compare_with": ["/home/alice/lab/Other.zip"]}
    config["environments"] = {"mine": {"python": "~maria/bin/python", "file": "../lab of 7/e.yaml"}}
    config["mirror"] = "https://mirror.example/of-the-lab"
    (root / "config.resolved.yaml").write_text(yaml.safe_dump(config))
    (root / "parity").mkdir()
    (root / "parity/lenet5.json").write_text(json.dumps({"reason": text[0], "more": [text[0]]}))
    data = root / "data/mnist-5k/lmdb/manifest.json"
    data.write_text(json.dumps(json.loads(data.read_text()) | {"source": text[0]}))
    pack(root, tmp_path / "hidden.zip")
    with zipfile.ZipFile(tmp_path / "hidden.zip") as archive:
        for name in archive.namelist():
            content = archive.read(name).decode().lower()
            told = [secret for secret in (*SECRETS, str(root).lower()) if secret in content]
            assert told == [], (name, content[:600])
        packed = yaml.safe_load(archive.read("config.resolved.yaml"))
    assert packed["compare_with"] == ["FOLDER/Other.zip"] and packed["mirror"] == config["mirror"]
    assert packed["environments"]["mine"] == {"python": "FOLDER/python", "file": "FOLDER/e.yaml"}


def test_what_was_measured_keeps_its_name_on_a_host_of_that_name(slow, tmp_path, monkeypatch):
    """A host that is called as a framework, or a user as an optimizer."""
    names = Names(("mxnet", "b64"), (), {"mxnet", "adam"})
    value = {"framework": "mxnet", "reason": "mxnet, adam and b64"}
    assert names.of_value(value) == {"framework": "mxnet", "reason": "mxnet, adam and HOST"}


HOSTILE = [
    lambda m: m.pop("study"),
    lambda m: m["counts"].update(runs="many"),
    lambda m: m["machine"].update(kinds=3),
    lambda m: m["machine"]["kinds"][0].update(gpus=[7]),
    lambda m: m["machine"].update(name="\ud800"),
    lambda m: m["machine"].update(name="\x1b]0;PWNED\x07"),
]
HOSTILE_RECORDS = [
    lambda r: r["metrics"].update({"\x1b]0;PWNED\x07\x1b[2J": 1}),
    lambda r: r["provenance"]["software"].update(packages=7),
    lambda r: r["provenance"]["software"].update(packages=[7]),
    lambda r: r["metrics"]["throughput"].update(value=1e308),
    lambda r: r["provenance"].update(run="\udfff"),
]
HOSTILE_PLANS = [
    lambda rows: rows[1].__setitem__(rows[0].index("repeats"), "999999999"),
    *(
        lambda rows, text=text: rows[1].__setitem__(rows[0].index("epochs"), text)
        for text in ("0", "abc", "9" * 400)
    ),
]


def edited(edit, member, packed, target):
    def of_json(data):
        value = json.loads(data)
        edit(value)
        return json.dumps(value).encode()

    def of_rows(data):
        rows = [line.split("\t") for line in data.decode().splitlines()]
        edit(rows)
        return "".join("\t".join(row) + "\n" for row in rows).encode()

    change = alter(member, of_rows if member == "plan.tsv" else of_json)
    return rewritten(packed, target, change)


@pytest.mark.parametrize(
    "member, edit",
    [
        *(("manifest.json", edit) for edit in HOSTILE),
        *((f"records/{PYTORCH}/rep1.json", edit) for edit in HOSTILE_RECORDS),
        *(("plan.tsv", edit) for edit in HOSTILE_PLANS),
    ],
)
def test_a_hostile_bundle_is_one_harmless_message(packed, tmp_path, member, edit):
    bad = edited(edit, member, packed, tmp_path / "bad.zip")
    before = tracemalloc.start() or tracemalloc.get_traced_memory()[0]
    done = merge(packed, bad, "--output", tmp_path / "merged")
    most = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "bad.zip" in done.stderr and not has_control(done.stderr.rstrip("\n"))
    assert most < 200e6


def test_a_bundle_of_a_version_with_other_metrics_is_read_and_merged(slow, packed, tmp_path):
    root = tmp_path / "results"
    shutil.copytree(slow, root)
    for path in root.glob("records/*/*.json"):
        record = json.loads(path.read_text())
        del record["metrics"]["core_latency"]
        record["metrics"]["images_per_joule"] = {"value": 1.5, "unit": "images/J"}
        path.write_text(json.dumps(record))
    pack(root, tmp_path / "other.zip")
    unpack(tmp_path / "other.zip", tmp_path / "other")
    plan = read_plan(tmp_path / "other/plan.tsv")
    for _, records in read_records(plan, tmp_path / "other/records"):
        for record in records:
            assert list(record["metrics"]) == list(METRICS)
            latency = record["metrics"]["core_latency"]
            assert (latency["value"], latency["reason"]) == (None, "not measured by this version")
    done = merge(packed, tmp_path / "other.zip", "--output", tmp_path / "merged")
    assert done.returncode == 0, done.stderr


def test_what_an_h100_did_is_shown_beside_a_machine_without_a_gpu(packed, tmp_path):
    h100 = Path(__file__).parents[1] / "fixtures/h100.zip"
    done = merge(packed, h100, "--output", tmp_path / "merged")
    assert done.returncode == 0, done.stderr
    with (tmp_path / "merged/machines.csv").open(newline="") as file:
        speeds = {
            row["cell"]: float(row["median"])
            for row in csv.DictReader(file)
            if "H100" in row["machine"] and row["metric"] == "throughput" and row["median"]
        }
    training = "resnet50-synthetic-224-gpu-"
    named = {
        f"{cell.partition('-here')[0]} {cell.partition(training)[2].rpartition('-lr')[0]}": speed
        for cell, speed in speeds.items()
        # The settings of those rows of docs/measured.md that have no mode and no records.
        if cell.endswith(("4f501441", "fb8644aa")) and training in cell
    }
    assert sorted(named, key=named.__getitem__, reverse=True) == [
        "jax bf16-b64", "pytorch bf16-b256", "pytorch tf32-b256", "pytorch bf16-b64",
        "pytorch fp16-amp-b64", "pytorch tf32-b64", "pytorch fp32-b64",
    ]  # fmt: skip
    assert "NVIDIA H100 80GB HBM3" in (tmp_path / "merged/index.html").read_text()
    unpack(h100, tmp_path / "h100")
    records = [json.loads(one.read_text()) for one in (tmp_path / "h100").rglob("rep1.json")]
    for metrics in (record["metrics"] for record in records if record["status"] == "ok"):
        counted, integrated = (
            metrics[name]["value"] for name in ("gpu_energy", "gpu_energy_integrated")
        )
        assert integrated == pytest.approx(counted, rel=0.05)


def test_control_characters_in_a_bundle_are_refused(slow, tmp_path, monkeypatch):
    root = tmp_path / "results"
    shutil.copytree(slow, root)
    path = root / f"records/{MXNET}/rep1.json"
    record = json.loads(path.read_text())
    record["reason"] = "out of\x1b[2J memory"
    path.write_text(json.dumps(record))
    pack(root, tmp_path / "cleaned.zip")
    unpack(tmp_path / "cleaned.zip", tmp_path / "cleaned")
    monkeypatch.setattr(bundle, "one_line", lambda text: text)
    pack(root, tmp_path / "hostile.zip")
    with pytest.raises(InputError, match=f"records/{MXNET}/rep1.json has control characters"):
        unpack(tmp_path / "hostile.zip", tmp_path / "hostile")


def test_a_machine_is_named_by_what_computes_and_a_digest_of_its_kind(fast, slow):
    def records(root):
        return [json.loads(path.read_text()) for path in root.glob("records/*/*.json")]

    names = [machine_name(records(root)) for root in (fast, slow)]
    assert names[0].startswith("AMD EPYC 9B14 (") and names[1].startswith("Intel Xeon (")
    other = records(fast)
    for record in other:
        record["provenance"]["machine"] |= {"hostname": "x", "kernel": "7.0", "memory_mib": 24071}
    assert machine_name(other) == names[0]
    other[0]["provenance"]["machine"]["logical_cores"] = 4
    assert machine_name(other) != names[0]
    for record in other:
        record["factors"]["device"] = "gpu"
        record["provenance"]["machine"]["gpus"] = [{"name": "NVIDIA H200", "memory_mib": 1}]
    assert machine_name(other).startswith("NVIDIA H200 (")


def rewritten(path, target, change):
    """A copy of a bundle whose members `change` has edited: a list of [ZipInfo, bytes]."""
    with zipfile.ZipFile(path) as archive:
        members = [[info, archive.read(info)] for info in archive.infolist()]
    change(members)
    with zipfile.ZipFile(target, "w") as archive:
        for info, data in members:
            archive.writestr(info, data, zipfile.ZIP_DEFLATED)
    return target


def add(name, data=b"{}", mode=stat.S_IFREG | 0o644):
    def change(members):
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        members.append([info, data])

    return change


def alter(name, edit, honest=True):
    """Edit one member; `honest`: the manifest is made to agree."""

    def change(members):
        (member,) = [one for one in members if one[0].filename == name]
        member[1] = edit(member[1])
        if honest and name != "manifest.json":
            manifest = json.loads(members[0][1])
            digest = hashlib.sha256(member[1]).hexdigest()
            manifest["files"][name] = {"bytes": len(member[1]), "sha256": digest}
            members[0][1] = json.dumps(manifest).encode()

    return change


def manifest(edit):
    def changed(data):
        value = json.loads(data)
        edit(value)
        return json.dumps(value).encode()

    return alter("manifest.json", changed)


RECORD = f"records/{PYTORCH}/rep1.json"


@pytest.mark.parametrize(
    "change, cause",
    [
        (add("/etc/passwd"), "'/etc/passwd' is no member of a bundle"),
        (add("records/../../evil.json"), "'records/../../evil.json' is no member"),
        (add("records/x/rep1.json", b"/etc/passwd", stat.S_IFLNK | 0o777), "is a link"),
        (add("run.sh"), "'run.sh' is no member"),
        (add("parity/x.json"), "parity/x.json is not in its manifest"),
        (
            add("parity/x.json", b"0" * (bundle.MOST_BYTES_OF_JSON + 1)),
            "at most 8,388,608 are read",
        ),
        (lambda members: members.pop(2), "is missing"),
        (lambda members: members.pop(0), "no bundle of Touchstone: it has no manifest.json"),
        (alter(RECORD, lambda data: data + b" ", honest=False), f"{RECORD} was changed"),
        (alter(RECORD, lambda data: data[:-9]), f"{RECORD} is not valid JSON"),
        (alter(RECORD, lambda data: b"\xff"), f"{RECORD} is not valid JSON"),
        (
            alter(RECORD, lambda data: data.replace(b'"ok"', b'"fine"')),
            f"{RECORD} is no record: $.status",
        ),
        (
            alter("plan.tsv", lambda data: data.replace(b"\t3\n", b"\t4\n", 1)),
            f"records/{PYTORCH}/rep4.json is missing",
        ),
        (alter("plan.tsv", lambda data: b"nothing"), "columns are missing"),
        (manifest(lambda m: m.update(format=9)), "of format 9, this version reads"),
        (manifest(lambda m: m.update(kind="cake")), "it is a 'cake'"),
        (manifest(lambda m: m.pop("files")), "its manifest.json is damaged"),
        (alter("manifest.json", lambda data: b"[]"), "its manifest.json is damaged"),
    ],
)
def test_what_was_not_packed_so_is_refused_by_name(packed, tmp_path, change, cause):
    bad = rewritten(packed, tmp_path / "bad.zip", change)
    with pytest.raises(InputError) as fault:
        unpack(bad, tmp_path / "out")
    assert str(fault.value).startswith(f"{bad}: ") and cause in str(fault.value)
    assert str(tmp_path / "out") not in str(fault.value)
    assert not list(tmp_path.rglob("evil*"))


def test_a_bomb_is_refused_before_it_is_unpacked(packed, tmp_path, monkeypatch):
    monkeypatch.setattr(bundle, "MOST_BYTES_OF_ALL", 10_000)
    with pytest.raises(InputError, match="at most 10,000 are read"):
        read_manifest(packed)


@pytest.mark.parametrize("share", [0, 0.3, 0.6, 0.999])
def test_a_file_cut_short_is_refused(packed, tmp_path, share):
    data = packed.read_bytes()
    packed.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(InputError, match="not a ZIP archive, or a damaged one"):
        unpack(packed, tmp_path / "out")


def test_flipped_bytes_are_refused_wherever_they_are(packed, tmp_path):
    data = packed.read_bytes()
    rng = random.Random(7)
    for at in rng.sample(range(len(data)), 60):
        packed.write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        try:
            read = unpack(packed, tmp_path / f"out{at}")
        except InputError:
            continue
        # Dates and the like carry no content: what was read is what was packed.
        for name, one in read["files"].items():
            content = (tmp_path / f"out{at}" / name).read_bytes()
            assert hashlib.sha256(content).hexdigest() == one["sha256"]


def merge(*arguments):
    return call("merge", *arguments)


def test_machines_side_by_side(fast, slow, packed, tmp_path):
    pack(slow, tmp_path / "slow.zip")
    done = merge(packed, tmp_path / "slow.zip", "--output", tmp_path / "merged")
    assert (done.returncode, done.stderr) == (0, "")
    made = {path.name for path in (tmp_path / "merged").iterdir()}
    pages = {"index.html", "section.html", "machines.csv", "machines.svg", "machines.png"}
    assert made == {*pages, digests.NAME}
    with (tmp_path / "merged/machines.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert tuple(table[0]) == COLUMNS
    rows = {(r["cell"], r["machine"][:3], r["metric"]): r for r in table}
    one = rows[PYTORCH, "Int", "throughput"]
    values = [
        [
            json.loads((root / f"records/{PYTORCH}/rep{n}.json").read_text())["metrics"][
                "throughput"
            ]["value"]
            for n in (1, 2, 3)
        ]
        for root in (slow, fast)
    ]
    ratio = unpaired_ratio(*values)
    assert float(one["ratio"]) == pytest.approx(ratio.value) and one["verdict"] == "slower"
    assert [float(one[k]) for k in ("low", "high")] == pytest.approx(ratio.interval())
    assert "cpu_model: AMD EPYC 9B14" in one["differences"] and one["n"] == "3"
    assert rows[PYTORCH, "AMD", "throughput"]["ratio"] == ""
    assert rows[PYTORCH, "Int", "test_accuracy"]["ratio"] == ""
    failed = rows[MXNET, "Int", "throughput"]
    assert (failed["verdict"], failed["median"]) == ("not comparable", "")
    assert failed["status"] == "oom 3" and "Intel Xeon" in failed["why"]
    page = (tmp_path / "merged/index.html").read_text()
    assert "<title>fake on 2 machines" in page and str(tmp_path) not in page
    assert (tmp_path / "merged/section.html").read_text() in page
    again = merge(packed, tmp_path / "slow.zip", "--output", tmp_path / "again")
    assert again.returncode == 0
    for name in made:
        same = (tmp_path / "again" / name).read_bytes() == (tmp_path / "merged" / name).read_bytes()
        assert same, name


def test_a_command_of_another_machines_page_is_for_that_machine(packed, tmp_path):
    root = results(tmp_path / "hot", model="Intel(R) Xeon(R) CPU @ 2.20GHz", seed=3)
    for path in root.glob("records/*/*.json"):
        edit_json(path, flags=["throttled"])
    pack(root, tmp_path / "hot.zip")
    assert merge(packed, tmp_path / "hot.zip", "--output", tmp_path / "merged").returncode == 0
    page = (tmp_path / "merged/index.html").read_text()
    (warning,) = re.findall(r'<p class="warning">(.*?)</p>', page)
    assert "Intel Xeon" in warning and warning.endswith(
        "To repeat these runs on that machine, before you make its bundle again: "
        "<code>make run CONFIG=results/report/fake/config.yaml RERUN=disturbed</code>"
    )


def test_a_results_folder_comes_before_the_bundles(slow, packed, tmp_path):
    done = merge(packed, "--own", slow, "--machine", "Attic <1>", "--output", tmp_path / "merged")
    assert (done.returncode, done.stderr) == (0, "")
    table = csv.DictReader(io.StringIO((tmp_path / "merged/machines.csv").read_text()))
    assert {row["reference"] for row in table} == {"Attic <1>"}
    page = (tmp_path / "merged/index.html").read_text()
    assert "Attic &lt;1&gt;" in page and "Attic <1>" not in page


def test_one_machine_twice_is_refused(fast, packed, tmp_path):
    pack(fast, tmp_path / "renamed.zip", name="another")
    done = merge(packed, tmp_path / "renamed.zip", "--output", tmp_path / "merged")
    assert done.returncode == 1 and "6 of its runs are those of fast.zip too" in done.stderr
    alike = results(tmp_path / "alike", 8000.0, seed=5)
    pack(alike, tmp_path / "alike.zip")
    done = merge(packed, tmp_path / "alike.zip", "--output", tmp_path / "merged")
    assert done.returncode == 1 and "its machine has the name of the one in fast.zip" in done.stderr
    assert "--config machine=NAME" in done.stderr
    assert not (tmp_path / "merged").exists()
    pack(alike, tmp_path / "alike.zip", name="its twin")
    assert merge(packed, tmp_path / "alike.zip", "--output", tmp_path / "m").returncode == 0


def test_too_few_bundles_or_one_that_is_missing(packed, tmp_path):
    done = merge(packed, "--output", tmp_path / "merged")
    assert done.returncode == 1 and "it takes two" in done.stderr
    done = merge(packed, tmp_path / "none.zip", "--output", tmp_path / "merged")
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {tmp_path / 'none.zip'}: the file is missing")


def test_a_run_without_its_environment_is_not_bundled(fast, tmp_path):
    broken = shutil.copytree(fast, tmp_path / "broken")
    (broken / f"runs/{PYTORCH}/rep2/env.json").unlink()
    with pytest.raises(InputError, match="the file is missing"):
        pack(broken, tmp_path / "broken.zip")
    assert not (tmp_path / "broken.zip").exists()


def test_speedup_is_against_the_slowest(fast, slow, packed, tmp_path):
    pack(slow, tmp_path / "slow.zip")
    machines = read_machines([("a", packed), ("b", tmp_path / "slow.zip")], tmp_path / "out")
    assert all_cells(machines) == [PYTORCH, MXNET]
    found = speedup(machines, PYTORCH)
    assert found.slowest == machines[1].name and found.ratio[found.slowest] is None
    assert sorted(found.runs[found.slowest])[1] == pytest.approx(1)
    assert min(found.runs[machines[0].name]) > 1
    low, high = found.ratio[machines[0].name].interval()
    assert low < found.ratio[machines[0].name].value < high
    assert speedup(machines, MXNET) is None  # one machine has no numbers
