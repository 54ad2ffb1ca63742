"""A study's page: claims, scales, and what a browser makes of it."""

import csv
import html
import io
import re

import pytest

from fixtures.browser import NEEDED, dump
from fixtures.published import made, rows_of, verdicts

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def yin(root):
    return made(root, "yin2020")


@pytest.fixture(scope="module")
def smoke(root):
    return made(root, "yin2020", scale="smoke")


@pytest.fixture(scope="module")
def check(root):
    return made(root, "machine-check")


def test_claims_are_judged_by_the_generated_numbers(yin):
    """The generated PyTorch is twice as fast; every speed rises with the fourth root of b."""
    found = verdicts(yin)
    assert found["gpu-3-times"] == "not measured"
    assert found["batch-accuracy-peaks"] == "reproduced"
    assert found["rate-accuracy-peaks"] == "reproduced"
    assert found["rate-epoch-time"] == "reproduced"
    assert found["pytorch-fastest-small-batch"] == "reproduced"
    assert found["mxnet-fastest-above-64"] == "contradicted"
    assert found["pytorch-fast-as-tensorflow"] == "contradicted"
    assert found["pytorch-no-less"] == "reproduced"
    assert found["batch-speed"] == "reproduced"


def test_a_claim_of_a_gpu_that_a_cpu_repeats_is_marked(yin):
    rows = list(csv.DictReader(io.StringIO(yin.files["claims.csv"])))
    marks = {row["claim"]: row["mark"] for row in rows if row["figures"] == "measured"}
    assert marks["pytorch-fastest-small-batch"] == "stand-in"
    assert marks["pytorch-no-less"] == "" and marks["mxnet-fastest-gpu"] == ""
    row = re.search(r"<tr>\s*<td[^>]*pytorch-fastest-small-batch.*?</tr>", yin.page, re.S)[0]
    assert re.search(r"reproduced</span>: 5 of 5, stand-in, n = 3", row)


def test_the_verdicts_are_a_table_with_counts_first_that_words_filter(yin):
    """Without JavaScript all rows are there; the filter keeps rows by the words in them."""
    text = html.unescape(yin.page)
    assert text.index("Of the source's 57 claims, the runs here reproduce ") < text.index(
        "The claims</h2>"
    )
    table = text[text.index('aria-label="Claims"') : text.index("</table>")]
    assert table.count("<tr>") == 1 + 57
    row = next(r for r in table.split("<tr>") if "mxnet-fastest-above-64" in r)
    cells = [" ".join(re.sub("<[^>]+>", " ", c).split()) for c in row.split("<td")[1:]]
    assert cells[1].endswith("mxnet") and cells[2].endswith("all")
    assert "fails : 2 of 4" in cells[3] and "contradicted : 0 of 4" in cells[4]


def test_other_machines_count_for_the_claims_and_change_no_table(root, yin):
    both = made(root, "yin2020", others=("office",))

    def groups(result):
        rows = csv.DictReader(io.StringIO(result.files["claims.csv"]))
        name = "pytorch-fastest-small-batch"
        return [r for r in rows if (r["claim"], r["figures"]) == (name, "measured")]

    assert len(groups(both)) == 2 * len(groups(yin)) == 10
    assert sum("office" in row["group"] for row in groups(both)) == 5
    tables = [name for name in yin.files if name.startswith("tables/")]
    assert all(both.files[name] == yin.files[name] for name in tables)


def test_a_scale_says_so_on_every_table_it_touches(smoke, yin):
    said = "This is not the whole study but its scale 'smoke'"
    for name in ("table-6", "table-9", "table-10"):
        for kind in ("md", "tex"):
            assert said in smoke.files[f"tables/{name}.{kind}"]
            assert said not in yin.files[f"tables/{name}.{kind}"]
    assert (
        "dataset mnist-5k for cifar10; epochs 4 for 10 and 6 for 30; repeats 5 for 3."
        in (smoke.files["tables/table-9.md"])
    )
    assert said in html.unescape(smoke.page) and said not in html.unescape(yin.page)
    assert (
        "; 24 configurations left out." in smoke.page and "configurations left out" not in yin.page
    )
    rows = [[r for r in rows_of(one, "table-9") if r["line"]] for one in (smoke, yin)]
    assert len(rows[0]) == len(rows[1])
    found = verdicts(smoke)
    assert found["rate-accuracy-peaks"] == "not comparable"
    assert found["rate-epoch-time"] == "reproduced"


def test_a_page_of_single_runs_begins_with_a_warning(root, yin):
    warning = "Do not trust these numbers: every configuration ran only once"
    once = made(root, "lawrence2017", scale="smoke").page
    assert once.index(warning) < once.index('<section class="answer"')
    assert warning not in yin.page


def test_the_page_needs_no_network_and_tells_its_evidence(yin):
    assert not re.findall(
        r"""(?:src|href)=["'](?!data:|\.\./studies/yin2020/|(?:\.\./)?index.html|#)""", yin.page
    )
    own = r"By the source's own table, \d+ hold, \d+ fail and \d+ have no figures"
    assert re.search(own, html.unescape(yin.page))
    assert "decimal point has slipped" in yin.page
    for name in re.findall(r'href="\.\./studies/yin2020/([^"]+)"', yin.page):
        assert name in yin.files


@NEEDED
def test_the_page_sorts_and_filters_in_a_browser_without_a_fault(yin, tmp_path):
    """By table 6's first column: rows descend, then ascend; the filter leaves the rows it names."""
    head = """<head><script>
    window.faults = [];
    addEventListener("error", (event) => faults.push(event.message));
    console.error = (...words) => faults.push(words.join(" "));
    </script>"""
    clicks = """<script>
    const table = document.querySelector("#table-6 ~ .scroll table");
    const keys = () => [...table.tBodies[0].rows].map((row) => row.cells[2].dataset.key);
    const button = table.tHead.rows[0].cells[2].querySelector("button");
    const told = [];
    for (const click of [1, 2]) { button.click(); told.push(keys().filter(Boolean).join()); }
    const field = document.querySelector("#table-6 ~ label.filter input");
    field.value = "MEMORY cpu";
    field.dispatchEvent(new Event("input"));
    told.push(table.tBodies[0].rows.length);
    const claims = document.querySelector("#claims ~ .scroll table");
    const words = document.querySelector("#claims ~ label.filter input");
    words.value = "pytorch Contradicted";
    words.dispatchEvent(new Event("input"));
    told.push(claims.tBodies[0].rows.length, faults.length);
    document.body.replaceChildren("told:" + told.join(";") + ".");
    </script></body>"""
    page = yin.page.replace("<head>", head).replace("</body>", clicks)
    shown = dump(page, tmp_path)
    down, up, kept, claims, faults = re.search(r"told:([^<]*)\.\s*<", shown)[1].split(";")
    values = [float(one) for one in up.split(",")]
    assert values == sorted(values) and len(values) > 4
    assert [float(one) for one in down.split(",")] == sorted(values, reverse=True)
    rows = {
        (r["device"], r["read as"]) for r in rows_of(yin, "table-6") if r["metric"] == "cpu_memory"
    }
    assert (int(kept), faults) == (len(rows), "0")
    table = yin.page[yin.page.index('aria-label="Claims"') :].split("</table>")[0]
    texts = [re.sub("<[^>]+>", " ", row).lower() for row in table.split("<tr>")[2:]]
    asked = [text for text in texts if "pytorch" in text and "contradicted" in text]
    assert int(claims) == len(asked) > 0


def test_the_check_says_what_is_comparable_and_claims_nothing(check, yin):
    assert "What is comparable, and what is not" in check.page
    assert "the source does not say how many calls its time is of" in check.page
    assert "The claims</h2>" not in check.page and "The claims</h2>" in yin.page
    assert "source's 0 claims" not in check.page
    told = "This machine reached 100 GFLOP/s in matrix products and 10 GB/s in copies on the CPU."
    assert told in check.page
    assert "its chapter 5 calls it training accuracy" in yin.page


DIFFERENCES = {
    "piccione2018": (
        "momentum",
        "938 steps",
        "one thread per core",
        "reserves",
        "noise",
        "CNTK 2.5.1",
    ),
    "yin2020": (
        "names no network",
        "over the whole run",
        "whole training set",
        "no unit",
        "steps/s",
    ),
    "vo2021": (
        "mixed precision",
        "batch size",
        "best validation",
        "one call",
        "ResNet50V2",
        "random",
    ),
    "lawrence2017": ("not public", "optimizer", "several systems"),
    "keras3": ("Trainer", "TF32", "no dropout", "AdamW", "64 tokens", "an A100"),
}
"""What each page says of how its study differs from the source, in these words."""


@pytest.mark.parametrize("name", DIFFERENCES)
def test_a_studys_page_says_how_it_differs_from_the_source(root, name):
    page = made(root, name).page
    said = re.search(r"What is comparable, and what is not(.*?)</table>", page, re.S)[1]
    said = " ".join(said.split())
    assert [words for words in DIFFERENCES[name] if words not in said] == []
