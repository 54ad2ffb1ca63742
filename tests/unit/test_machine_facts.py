"""What env.json says of the machine's settings, and the warning where they change between runs."""

import pytest

from fixtures.runs import FACTORS, cell_name, edit_json, make_record, make_run, write_plan
from fixtures.studies import gathered
from touchstone.analysis.again import Kept
from touchstone.measure import environment
from touchstone.report.sections import warnings
from touchstone.results.files import write_json
from touchstone.results.record import build_record

FACTS = (
    "governor", "frequency_limits_mhz", "smt", "turbo", "huge_pages", "reserved_huge_pages",
    "numa_nodes", "numa_balancing", "numa_nodes_allowed", "cpu_quota_cores", "memory_limit_mib",
    "swap_mib", "kernel", "microcode", "container", "virtualization", "board", "disks",
)  # fmt: skip


def test_every_fact_has_a_value_or_a_reason():
    unknown = {}
    machine = environment.machine(unknown)
    for name in FACTS:
        assert (machine[name] is None) == (f"machine.{name}" in unknown), name


def test_every_fact_is_in_the_contracts(root):
    text = (root / "docs/contracts.md").read_text(encoding="utf-8")
    section = text.split("## env.json")[1].split("## record.json")[0]
    assert not [name for name in environment.machine({}) if f'"{name}":' not in section]


def test_facts_are_read_from_the_kernels_files(tmp_path, monkeypatch):
    for core, high in ((0, 3_600_000), (1, 3_600_000), (2, 2_000_000)):
        folder = tmp_path / f"cpu{core}/cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_min_freq").write_text("400000\n")
        (folder / "scaling_max_freq").write_text(f"{high}\n")
    (tmp_path / "enabled").write_text("always [madvise] never\n")
    monkeypatch.setattr(environment, "CPUS", tmp_path)
    monkeypatch.setattr(environment, "HUGE_PAGES", tmp_path)
    machine = environment.machine({})
    assert machine["frequency_limits_mhz"] == "400-2000, 400-3600"
    assert machine["huge_pages"] == "madvise"


def test_disks_and_board_are_those_of_the_firmware_and_no_loop(tmp_path, monkeypatch):
    for name, size, rotates in (("sda", 2_000_000_000, "1"), ("nvme0n1", 1_000_000_000, "0")):
        (tmp_path / name / "device").mkdir(parents=True)
        (tmp_path / name / "queue").mkdir()
        (tmp_path / name / "size").write_text(f"{size}\n")
        (tmp_path / name / "queue/rotational").write_text(f"{rotates}\n")
    (tmp_path / "sda/device/model").write_text("ST1000  \n")
    (tmp_path / "loop0").mkdir()
    for what, text in (("vendor", "Dell Inc."), ("name", "0XY")):
        (tmp_path / f"board_{what}").write_text(f"{text}\n")
    monkeypatch.setattr(environment, "DISKS", tmp_path)
    monkeypatch.setattr(environment, "FIRMWARE", tmp_path)
    machine = environment.machine({})
    assert machine["disks"] == "nvme0n1, 512 GB, solid state; ST1000, 1024 GB, rotating"
    assert machine["board"] == "Dell Inc. 0XY"
    monkeypatch.setattr(environment, "DISKS", tmp_path / "none")
    assert environment.machine(unknown := {})["disks"] is None and "machine.disks" in unknown


@pytest.mark.parametrize(
    "name, text", [("scaling_max_freq", "garbage"), ("scaling_min_freq", ""), ("enabled", "never")]
)
def test_what_no_kernel_writes_is_unknown(name, text, tmp_path, monkeypatch):
    folder = tmp_path / "cpu0/cpufreq"
    folder.mkdir(parents=True)
    for file in ("scaling_min_freq", "scaling_max_freq"):
        (folder / file).write_text("400000\n")
    for place in (folder, tmp_path):
        (place / name).write_text(text)
    monkeypatch.setattr(environment, "CPUS", tmp_path)
    monkeypatch.setattr(environment, "HUGE_PAGES", tmp_path)
    unknown = {}
    fact = "huge_pages" if name == "enabled" else "frequency_limits_mhz"
    assert environment.machine(unknown)[fact] is None and f"machine.{fact}" in unknown


def alerts(root, **changed):
    """The warnings on the page of two runs, of which the second has changed facts."""
    for repeat in (1, 2):
        make_record(root / "runs", root / "records", repeat=repeat)
    name = cell_name(FACTORS)
    run = make_run(root / f"runs/{name}/rep2", repeat=2)
    edit_json(run / "env.json", **changed)
    write_json(root / f"records/{name}/rep2.json", build_record(run))
    write_plan(root / "plan.tsv", [{}], repeats=2)
    study = gathered(root)
    machines = [run.provenance["machine"] for run in study.runs]
    return [one.fault for one in warnings.of_machines(machines, Kept("one"))]


def test_a_machine_that_changed_between_runs_is_warned_about(tmp_path):
    (fault,) = alerts(tmp_path, machine__kernel="6.9.0", machine__governor="powersave")
    assert fault.startswith("Do not trust these numbers: the machine changed between runs: ")
    assert "kernel (6.1.0 and 6.9.0)" in fault and "governor (– and powersave)" in fault


def test_another_machine_is_no_change(tmp_path):
    assert alerts(tmp_path, machine__kernel="6.9.0", machine__hostname="other") == []


def test_the_same_machine_is_no_change(tmp_path):
    assert alerts(tmp_path) == []
