"""A study's figures, from generated results."""

import re
from xml.etree import ElementTree

import pytest

from fixtures.published import made
from touchstone.published.dossier import FigureSpec, read_dossier
from touchstone.published.entries import Entry
from touchstone.published.figures import draw

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def yin(root):
    return made(root, "yin2020", images=True)


def test_figures_are_svg_and_png_and_draw_every_run(yin):
    names = {name for name in yin.files if name.startswith("figures/")}
    assert len(names) == 2 * 15 and "figures/figure-9-speed.svg" in names
    for name in names:
        content = yin.files[name]
        assert (
            content[:4] == b"\x89PNG" if name.endswith("png") else ElementTree.fromstring(content)
        )
    caption = re.search(r"speed by batch size, in images/s</h3>(.*?)<a", yin.page, re.S)[1]
    assert "n = 3 a cell" in caption and "AMD EPYC 9B14, 2 logical cores" in caption
    assert "measured phase / its time" in caption and "read as images/s" in caption


FIGURES = {
    "2": "step_rate", "3": "cpu_utilization", "4": "gpu_utilization", "5": "cpu_utilization",
    "6": "gpu_utilization", "7": "host_memory", "8": "gpu_memory", "9": "step_rate",
    "10": "time_to_accuracy", "11": "training_accuracy", "12": "training_accuracy",
}  # fmt: skip
"""What the figures of the thesis show, from its list of figures and text."""


def test_the_figures_of_yin2020_have_the_numbers_of_the_thesis(root):
    specs = read_dossier(root / "config/claims/yin2020.yaml").figures
    found = {}
    for spec in specs:
        if numbered := re.match(r"figure-(\d+)-", spec.id):
            found.setdefault(numbered[1], spec.metric)
            assert spec.number == numbered[1]
    assert found == FIGURES


SECTIONS = {
    "mnist-lenet": "5.2",
    "cifar10-alexnet": "5.3.1", "cifar10-resnet50": "5.3.2", "cifar10-googlenet": "5.3.3",
    "cifar10-vgg16": "5.3.4",
    "imagenet-alexnet": "5.4.1", "imagenet-resnet50": "5.4.2", "imagenet-googlenet": "5.4.3",
    "imagenet-vgg16": "5.4.4",
}  # fmt: skip
"""The sections of the thesis of Piccione on a network, each with figures a, b and c."""


def test_the_27_figures_of_piccione2018_have_numbers_that_claims_cite(root):
    page = made(root, "piccione2018").page
    found = dict(re.findall(r'<figure id="([^"]+)">\s*<h3>Figure ([0-9.]+[abc]): ', page))
    letters = {"speed": "a", "memory": "b", "power": "c"}
    assert found == {
        f"{place}-{name}": f"{number}.{letter}"
        for place, number in SECTIONS.items()
        for name, letter in letters.items()
    }
    claims = read_dossier(root / "config/claims/piccione2018.yaml").claims
    cited = {number for one in claims for number in re.findall(r"figure (\S+)", one.source)}
    assert len(cited) > 20 and cited <= set(found.values())
    assert '<a href="#imagenet-vgg16-power">figure 5.4.4.c</a>' in page


def test_the_losses_of_every_learning_rate_are_drawn(yin):
    assert ElementTree.fromstring(yin.files["figures/figure-13-loss.svg"]) is not None
    text = re.search(r"training loss by learning rate</h3>(.*?)<a", yin.page, re.S)[1]
    assert "n = 3 a cell" in text and "curves without figures" in text


def test_a_bar_that_is_missing_is_crossed_and_explained(root, yin):
    text = re.search(r"speed at batch size 128, as printed.*?</h3>(.*?)<a", yin.page, re.S)[1]
    assert "3 of 6 figures were not measured, a cross each: no cell with device gpu" in text
    spec = FigureSpec(id="f", title="F", metric="step_rate", x="device", series="framework")
    factors = {"framework": "mxnet", "device": "gpu"}
    there = Entry(
        "speed", "step_rate", "steps/s", {**factors, "device": "cpu"}, 3.0, {1: 2.0}, None, None,
        (), "c", 2,
    )  # fmt: skip
    gone = Entry("speed", "step_rate", "steps/s", factors, 4.0, {}, "no GPU", None, (), None, 3)
    left, right = draw(spec, [there, gone]).axes
    crosses = [[line for line in ax.lines if line.get_marker() == "x"] for ax in (left, right)]
    assert [len(found) for found in crosses] == [0, 1]


def test_a_figure_of_which_nothing_was_measured_says_only_why(yin):
    """It said that each point is a run, of which there was none."""
    text = re.search(r"Figure 4: GPU utilisation.*?</h3>.*?<figcaption>(.*?)<a", yin.page, re.S)[1]
    assert text.strip() == "Nothing was measured here: no cell with device gpu in this study."


def test_a_figure_repeated_for_factors_has_only_our_own_cells_of_these(root):
    """JAX is not in the source; its bars are in the figures of their network and data set."""
    names = ("mnist-execution-time", "fashion-mnist-execution-time")
    found = made(root, "vo2021").files
    assert {name for name in found if name.endswith(".svg")} == {f"figures/{n}.svg" for n in names}
    page = made(root, "piccione2018").page
    text = re.search(r"Figure 5.3.4.a: training speed, cifar10, vgg16</h3>(.*?)<a", page, re.S)[1]
    assert "n = 3 a cell" in text
    counts = re.search(r"(\d+) of (\d+) figures were not measured", text)
    assert int(counts[2]) - int(counts[1]) == 6  # all of our frameworks, on the CPU
