"""What the reason of an error says of versions that no test has trained with."""

import pytest

from fixtures.runs import make_run
from touchstone.plan import names
from touchstone.results.record import build_record
from touchstone.results.untested import remark

OLDEST, NEWEST = names.tested_versions("pytorch")[0], names.tested_versions("pytorch")[-1]


@pytest.mark.parametrize(
    "version", [OLDEST, NEWEST, f"{NEWEST}+cpu", f"{OLDEST}a0+git1234", "2.10.0.dev20251120", None]
)
def test_nothing_is_said_of_tested_and_unknown_versions(version):
    assert remark("pytorch", version, ["numpy==2.4.6"]) is None


@pytest.mark.parametrize("version", ["1.13.1", "2.5.1", "3.0.0", "10.0"])
def test_others_are_named_with_those_that_are_tested(version):
    assert remark("pytorch", version, []) == (
        f"this is PyTorch {version}, and the adapter was tested with {OLDEST} to {NEWEST} "
        "(docs/environments.md)"
    )


def test_of_a_run_that_gave_no_version_the_packages_count():
    assert "this is TensorFlow 2.1.0," in (
        remark("tensorflow", None, ["tensorflow_cpu==2.1.0"]) or ""
    )
    assert remark("tensorflow", None, ["tensorflow-estimator==2.1.0"]) is None


def test_a_framework_that_says_nothing_is_left_alone():
    assert remark("my_framework", "0.1", []) is None


def test_only_the_reason_of_an_error_says_it(tmp_path, monkeypatch):
    monkeypatch.setattr("touchstone.results.untested.tested_versions", lambda name: ("99.0",))
    record = build_record(make_run(tmp_path / "error", status="error", reason="it broke"))
    assert record["reason"].startswith("it broke; this is ")
    assert "the adapter was tested with 99.0 (docs" in record["reason"]
    record = build_record(make_run(tmp_path / "timeout", status="timeout", reason="too long"))
    assert record["reason"] == "too long"
