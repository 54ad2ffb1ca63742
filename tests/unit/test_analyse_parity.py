"""What certificates and their table say where there is nothing to compare."""

import csv
import json
import subprocess
import sys

import numpy as np
import pytest

from analyse.certificates import proof, read_certificates
from analyse.parity import compare


@pytest.fixture
def certified(tmp_path):
    """Makes the certificate of a network for files of traces that hold a reason each."""

    def certify(network, **reasons):
        paths = {}
        for framework, told in reasons.items():
            paths[framework] = tmp_path / f"{framework}.npz"
            np.savez(paths[framework], **told)
        path = tmp_path / f"{network}.json"
        path.write_text(json.dumps(compare(network, paths)))
        return path

    return certify


@pytest.mark.parametrize(
    ("reference", "own", "entry", "why"),
    [
        ({}, {"unsupported": "no layer x"}, {"unsupported": "no layer x"},
         "unsupported: no layer x"),
        ({}, {"failed": "see its log"}, {"failed": "see its log"}, "see its log"),
        ({"unsupported": "no layer y"}, {}, {"failed": "a was not traced: no layer y"},
         "a was not traced: no layer y"),
        ({"failed": "see a log"}, {"unsupported": "no layer x"}, {"unsupported": "no layer x"},
         "unsupported: no layer x"),
    ],
)  # fmt: skip
def test_a_certificate_tells_what_cannot_be_done_from_what_failed(
    reference, own, entry, why, certified
):
    path = certified("net", a=reference, b=own)
    found = json.loads(path.read_text())["frameworks"]["b"]
    assert found == {"equal": False, "deviations": {}, "beyond": [], **entry}
    shown = proof(read_certificates([path]), "net", "b")
    assert (shown.verdict, shown.why) == ("not shown", why)


def tabulate(root, folder, **entries):
    """How the table of one certificate ends, and by framework what its row says."""
    certificate = {"network": "net", "reference": "a", "frameworks": entries}
    path, output = folder / "net.json", folder / "parity.csv"
    path.write_text(json.dumps(certificate))
    script = root / "workflow/scripts/tabulate_parity.py"
    command = [sys.executable, script, path, "--output", output]
    ended = subprocess.run(command, capture_output=True, text=True)
    with open(output, newline="") as file:
        return ended, {row["framework"]: row["equal"] for row in csv.DictReader(file)}


NOTHING = {"equal": False, "deviations": {}, "beyond": []}
EQUAL = {"equal": True, "deviations": {}, "beyond": []}


def test_what_a_framework_cannot_do_is_a_row_and_no_difference(root, tmp_path):
    cannot = {**NOTHING, "unsupported": "no layer x"}
    single = {**EQUAL, "single_precision_only": True}
    ended, verdicts = tabulate(root, tmp_path, b=EQUAL, c=cannot, d=single)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "1 networks compared; 0 differences, 1 unsupported\n"
    assert verdicts == {"b": "yes", "c": "unsupported: no layer x", "d": "in single precision"}


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({**NOTHING, "failed": "see its log"}, "see its log"),
        ({**NOTHING, "beyond": ["fp64 update", "adam update"]}, "fp64 update, adam update"),
    ],
)
def test_what_failed_or_differs_ends_the_table_with_an_error(entry, why, root, tmp_path):
    ended, verdicts = tabulate(root, tmp_path, b=EQUAL, c=entry)
    assert ended.returncode == 1
    assert ended.stderr == f"error: not shown to be equal: net in c ({why})\n"
    assert verdicts == {"b": "yes", "c": f"no: {why}"}
