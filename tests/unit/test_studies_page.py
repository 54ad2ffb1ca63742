"""A study's page: claims, scales, and what a browser makes of it."""

import html
import re
import shutil
import subprocess

import pytest

from fixtures.published import made, rows_of, verdicts


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
    found = verdicts(yin)
    assert found["gpu-faster"] == "not measured"
    assert found["larger-batches"] == "not measured"  # of the GPU's part
    assert found["accuracy-by-batch"] == "reproduced"
    assert found["accuracy-by-rate"] == "reproduced"
    assert found["epoch-time-by-rate"] == "reproduced"


def test_a_scale_says_so_on_every_table_it_touches(smoke, yin):
    said = "This is not the whole study but its scale 'smoke'"
    for name in ("table-6", "table-9", "table-10"):
        for kind in ("md", "tex"):
            assert said in smoke.files[f"tables/{name}.{kind}"]
            assert said not in yin.files[f"tables/{name}.{kind}"]
    assert (
        "dataset mnist-5k for cifar10; epochs 4 for 10 and 6 for 30; repeats 1 for 3"
        in (smoke.files["tables/table-9.md"])
    )
    assert said in html.unescape(smoke.page) and said not in html.unescape(yin.page)
    rows = [len(rows_of(one, "table-9")) for one in (smoke, yin)]
    assert rows[0] == rows[1]
    found = verdicts(smoke)
    assert found["accuracy-by-rate"] == "not comparable"
    assert found["epoch-time-by-rate"] == "ratio only"  # one run a cell


def test_the_page_needs_no_network_and_tells_its_evidence(yin):
    assert not re.findall(
        r"""(?:src|href)=["'](?!data:|\.\./studies/yin2020/|index.html|#)""", yin.page
    )
    assert "The published figures themselves contradict 1 of the 6: larger batches." in yin.page
    assert "decimal point has slipped" in yin.page
    for name in re.findall(r'href="\.\./studies/yin2020/([^"]+)"', yin.page):
        assert name in yin.files


@pytest.mark.long  # a browser
@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium on PATH")
def test_the_page_sorts_and_filters_in_a_browser_without_a_fault(yin, tmp_path):
    """By table 6's first column: rows ascend, then descend; the filter leaves the rows it names."""
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
    told.push(table.tBodies[0].rows.length, faults.length);
    document.body.replaceChildren("told:" + told.join(";") + ".");
    </script></body>"""
    page = yin.page.replace("<head>", head).replace("</body>", clicks)
    (tmp_path / "page.html").write_text(page)
    done = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
        + [f"--user-data-dir={tmp_path}/browser", f"file://{tmp_path}/page.html"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    up, down, kept, faults = re.search(r"told:([^<]*)\.\s*<", done.stdout)[1].split(";")
    values = [float(one) for one in up.split(",")]
    assert values == sorted(values) and len(values) > 4
    assert [float(one) for one in down.split(",")] == sorted(values, reverse=True)
    rows = {
        (r["device"], r["unit"]) for r in rows_of(yin, "table-6") if r["metric"] == "cpu_memory"
    }
    assert (int(kept), faults) == (len(rows), "0")


def test_the_check_says_what_is_comparable_and_claims_nothing(check, yin):
    assert "What is comparable, and what is not" in check.page
    assert "how many calls its time is of is not at hand" in check.page
    assert "The claims</h2>" not in check.page and "The claims</h2>" in yin.page
    assert "Of 0 claims" not in check.page
    told = "This machine reached 100 GFLOP/s in matrix products and 10 GB/s in copies on the cpu."
    assert told in check.page
    assert "What is comparable" not in yin.page
