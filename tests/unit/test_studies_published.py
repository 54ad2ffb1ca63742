"""Published tables: strict reading, and what arithmetic finds in them."""

import pytest

from fixtures.commands import call
from touchstone.published.arithmetic import CONTRADICTION, DOUBTFUL, NO_DATA, examine
from touchstone.published.dossier import DossierError, read_dossier
from touchstone.published.table import PublishedError, convert, read_table

HEAD = "# title: A table\n# source: A paper, 2020, table 1\n"
MEANINGS = {
    "100 epochs, training and validation",
    "load weights and predict the test set",
    "typed in from a web calculator, not measured",
    "the first column has no header in the study; read as 4",
    "the text repeats the cell of table 5",
    "marked as abnormally slow: static padding of sequences",
}
"""Notes that say what a figure is or how it was read: nothing in them contradicts a figure."""


@pytest.fixture
def write(tmp_path):
    def write(text, head=HEAD):
        path = tmp_path / "table.csv"
        path.write_text(head + text)
        return path

    return write


def refused(path):
    with pytest.raises(PublishedError) as error:
        read_table(path)
    return str(error.value)


@pytest.fixture(scope="module")
def published(root):
    return {path.stem: read_table(path) for path in (root / "config/published").glob("*.csv")}


def findings(path, check):
    return [one for one in examine(read_table(path)) if one.check == check]


# Reading


def test_a_table_is_read_with_the_factors_of_its_head(write):
    path = write(
        "metric,unit,batch_size,value,note\ntraining_speed,images/s,64,1e3,\npower,W,8,,none\n",
        HEAD + "# framework: caffe\n# examples_per_epoch: 50000\n",
    )
    table = read_table(path)
    assert (table.title, table.examples_per_epoch) == ("A table", 50000)
    first, second = table.rows
    assert first.factors == {"framework": "caffe", "batch_size": 64.0}
    assert (first.line, first.value, first.unit) == (6, 1000.0, "images/s")
    assert (second.value, second.note) == (None, "none")


def test_all_faults_of_a_table_are_reported_at_once_with_their_lines(write):
    path = write(
        "metric,unit,value,batch_size\n"
        "speed,image/s,12,4\nspeed,images/s,1_000,4\nspeed,images/s,nan,x\n,s,1,4\nspeed,s,1\n",
        "# title: A table\n",
    )
    text = refused(path)
    assert "7 faults" in text and f"{path}:1: no `# source:" in text
    assert f"{path}:3: unknown unit 'image/s'; did you mean 'images/s'?" in text
    assert f"{path}:4: value '1_000' is no number" in text
    assert f"{path}:5: value 'nan' is no number" in text
    assert f"{path}:5: batch_size 'x' is no number" in text
    assert f"{path}:6: no metric" in text
    assert f"{path}:7: 3 fields for 4 columns" in text


@pytest.mark.parametrize(
    "columns, told",
    [
        ("metric,unit,valeu", "unknown column 'valeu'; did you mean 'value'?"),
        ("metric,value", "no column 'unit'"),
        ("metric,unit,value,value", "column 'value' is there twice"),
        ("metric,unit,value", "no row"),
        ("metric,unit,value,against\nspeed_ratio,x,2,cpu", "against 'cpu' is no `factor=level`"),
    ],
)
def test_wrong_columns_are_refused(write, columns, told):
    assert told in refused(write(columns + "\n"))


def test_a_head_that_is_not_understood_is_refused(write):
    text = refused(write("metric,unit,value\na,s,1\n", HEAD + "# sauce: x\n# nothing\n"))
    assert "unknown key 'sauce'; did you mean 'source'?" in text and ":4: not one more" in text


@pytest.mark.parametrize(
    "text, told",
    [
        ("\ufeff" + HEAD + "metric,unit,value\na,s,1\n", "begins with a byte order mark"),
        (HEAD + "metric,unit,value\na,s,1\n\nb,s,2\n", ":5: a blank line; delete it"),
        (HEAD + "metric,unit,value\na\0,s,1\n", ":4: a control character"),
        (HEAD + 'metric,unit,value\n"a,s,1\nb,s,2\n', "close every quote"),
        (HEAD + 'metric,unit,value\n"a"b,s,1\n', "close every quote"),
        (HEAD + "# title: again\nmetric,unit,value\na,s,1\n", ":3: not one more"),
        ("", "no `# title"),
        (HEAD, "no column 'metric'"),
    ],
)
def test_a_file_that_is_no_plain_table_is_refused(text, told, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(text, encoding="utf-8")
    assert told in refused(path)


@pytest.mark.parametrize(
    "text, told",
    [
        ("claims: 3\n", "claims"),
        ("claims: {a: b}\n", "claims"),
        ("claims:\n  - {id: a, id: b}\n", "more than once in one mapping: id"),
        ("claims: [\n", "mend that file"),
        ("a: \0\n", "mend that file"),
        ("- 1\n", "has faults"),
        ("", "has faults"),
    ],
)
def test_a_file_that_is_no_list_of_claims_is_refused(text, told, tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text(text, encoding="utf-8")
    (tmp_path / "study").mkdir()
    (tmp_path / "study/more.yaml").write_text("- {id: x}\n")
    with pytest.raises(DossierError, match=told):
        read_dossier(path)


def test_a_missing_file_and_one_that_is_not_utf8_are_refused(tmp_path):
    assert "No such file" in refused(tmp_path / "none.csv")
    (tmp_path / "bad.csv").write_bytes(b"# title: \xff\n")
    assert "not UTF-8 at byte 9" in refused(tmp_path / "bad.csv")


def test_units_convert_within_their_dimension():
    assert convert(2, "h", "s") == 7200
    assert convert(70, "%", "1") == pytest.approx(0.7)
    assert convert(1, "GiB", "MiB") == 1024
    assert convert(1, "images/s", "steps/s") is None
    assert convert(1, "", "s") is None


# Arithmetic


def table(rows, columns="metric,unit,batch_size,value"):
    return columns + "\n" + "\n".join(rows) + "\n"


def test_steps_per_second_that_rise_with_the_batch_are_another_unit(write):
    rows = ["speed,steps/s,4,2", "speed,steps/s,8,3", "speed,steps/s,16,2.9"]
    (found,) = findings(write(table(rows)), "unit")
    assert found.grade == CONTRADICTION and found.lines == (4, 5, 6)
    assert "a step of 2 times the examples cannot be 1.5 times as fast" in found.text
    falling = ["speed,steps/s,4,3", "speed,steps/s,8,3.1", "speed,steps/s,16,1.6"]
    assert not findings(write(table(falling)), "unit")
    assert not findings(write(table(row.replace("steps", "images") for row in rows)), "unit")


@pytest.mark.parametrize(
    "unit, value, wrong",
    [
        ("%", 100, False),
        ("%", 100.5, True),
        ("1", 1, False),
        ("1", 69.6, True),
        ("%", -1, True),
        ("s", 101, False),
    ],
)
def test_a_share_lies_between_nothing_and_all(write, unit, value, wrong):
    found = findings(write(f"metric,unit,value\naccuracy,{unit},{value}\n"), "no share")
    assert bool(found) == wrong


def test_one_cell_has_one_value_in_all_tables(write):
    columns = "table,metric,unit,value"
    rows = ["5,speed,images/s,32.22", "8,speed,images/s,3.222", "9,speed,images/s,32.2"]
    found = findings(write(table(rows, columns)), "two values")
    assert [one.lines for one in found] == [(4, 5), (5, 6)]
    assert all("decimal point" in one.text for one in found)
    twice = write(table(["5,speed,images/s,1.5", "5,speed,images/s,1.5"], columns))
    assert [one.lines for one in findings(twice, "duplicate")] == [(4, 5)]


def test_speed_ups_are_computed_again_from_their_columns(write):
    columns = "device,metric,unit,value,against"
    rows = ["cpu,speed,images/s,3.65,", "gpu,speed,images/s,32.22,"]
    right = write(table([*rows, "gpu,speed_ratio,x,8.8,device=cpu"], columns))
    assert not examine(read_table(right))
    wrong = write(table([*rows, "gpu,speed_ratio,x,5.0,device=cpu"], columns))
    (found,) = findings(wrong, "ratio")
    assert found.grade == CONTRADICTION and "5.0 x printed, 8.827 computed" in found.text
    times = ["cpu,epoch_time,s,100,", "gpu,epoch_time,s,20,"]
    right = write(table([*times, "gpu,epoch_time_ratio,x,5.0,device=cpu"], columns))
    assert not examine(read_table(right))
    alone = write(table(["gpu,speed_ratio,x,5.0,device=cpu"], columns))
    assert findings(alone, "unchecked ratio")[0].grade == NO_DATA


def test_blanks_zeros_and_levels_left_out_are_no_data(write):
    rows = ["speed,images/s,4,0", "speed,images/s,8,", "speed,images/s,16,7"]
    found = examine(read_table(write(table(rows))))
    assert {(one.grade, one.check, one.lines) for one in found} == {
        (NO_DATA, "zero", (4,)),
        (NO_DATA, "blank", (5,)),
    }
    short = ["accuracy,%,2,1", "accuracy,%,4,30", "accuracy,%,16,60"]
    (found,) = findings(write(table([*rows, *short])), "left out")
    assert "8 is left out" in found.text
    negative = findings(write(table(["power,W,4,-5"])), "negative")
    assert negative[0].grade == CONTRADICTION


def test_neighbours_with_the_same_digits_are_doubted(write):
    rows = ["speed,images/s,4,11.812", "speed,images/s,8,11.812", "speed,images/s,16,12"]
    (found,) = findings(write(table(rows)), "copied")
    assert found.grade == DOUBTFUL and found.lines == (4, 5)
    assert not findings(write(table(["t,epochs,4,24", "t,epochs,8,24"])), "copied")


def test_epoch_times_contradict_speeds_that_are_far_from_them(write):
    head = HEAD + "# examples_per_epoch: 50000\n"
    columns = "metric,unit,batch_size,learning_rate,value"
    goal = ["time_to_60_percent,s,,0.1,40", "epochs_to_60_percent,epochs,,0.1,4"]  # 5000 images/s
    for speed, wrong in ((5000, False), (16000, True), (1000, True)):
        path = write(table([f"speed,images/s,64,,{speed}", *goal], columns), head)
        assert bool(findings(path, "epoch time")) == wrong
    path = write(table(["speed,steps/s,128,,40", *goal], columns), head)
    (found,) = findings(path, "epoch time")  # 40 x 128 fits, but 40 images/s do not
    assert "read as images/s 40 to 40" in found.text


@pytest.mark.parametrize(
    "unit, runtime, wrong",
    [("h", "2.473", 0), ("h", "2.478", 1), ("min", "2.473", 1), ("", "2.473", 0), ("", "2.478", 1)],
)
def test_the_time_of_all_steps_is_that_of_one_times_their_number(write, unit, runtime, wrong):
    path = write(
        "framework,metric,unit,value\n,steps,steps,10666\njax,step_time,s,0.835\n"
        f"jax,runtime,{unit},{runtime}\npytorch,runtime,{unit},5\n"
    )
    found = findings(path, "step total")
    assert [one.grade for one in found] == [CONTRADICTION] * wrong
    assert all("10666 steps of 0.835 s are 8,906" in one.text for one in found)


def test_more_devices_and_larger_batches_should_not_give_or_take_less(write):
    columns = "hardware,metric,unit,value"
    rows = ["1xP100,speed,images/s,80", "2xP100,speed,images/s,60", "2xK20m,speed,images/s,70"]
    assert [one.lines for one in findings(write(table(rows, columns)), "more devices")] == [(4, 5)]
    rows = ["gpu_memory,MiB,4,700", "gpu_memory,MiB,8,690", "gpu_memory,MiB,16,500"]
    assert [one.lines for one in findings(write(table(rows)), "memory falls")] == [(5, 6)]
    rows = ["cpu-12-cores,gpu_power,W,33", "1xP100,gpu_power,W,60"]
    assert [one.lines for one in findings(write(table(rows, columns)), "idle device")] == [(4,)]


def test_every_noted_contradiction_is_found_by_arithmetic(published):
    """The checks never see the notes; here they are what they must agree with."""
    noted = 0
    for name, one in published.items():
        found = {line for finding in examine(one) for line in finding.lines}
        for row in one.rows:
            if row.note and row.note not in MEANINGS:
                assert row.line in found, f"{name}: {row.label}: {row.note}"
                noted += 1
    assert noted == 90 + 4 + 4 + 12 + 6  # piccione2018, yin2020, vo2021, lawrence2017, keras3


def test_what_a_note_says_is_what_is_found(published):
    found = {one.check: one for one in examine(published["yin2020"]) if one.grade == CONTRADICTION}
    assert {"unit", "two values", "epoch time"} == set(found)
    grades = {one.grade for one in examine(published["piccione2018"])}
    assert grades == {DOUBTFUL, NO_DATA}
    units = [one for one in examine(published["vo2021"]) if one.check == "no unit"]
    assert [one.text.partition(":")[0].split(", ")[0] for one in units] == ["theoretical_flops"] * 4


def test_a_table_in_which_all_is_well_has_no_finding(published):
    assert not examine(published["nvidia-resnet50"])
    assert not examine(published["nvidia-mlperf30-resnet50"])
    ratios = [row for row in published["nvidia-resnet50"].rows if row.unit == "x"]
    assert len(ratios) == 12 and all(row.against for row in ratios)


def test_the_script_tells_and_writes_its_findings(root, write, tmp_path):
    name = "check-published"
    done = call(name, root / "config/published/yin2020.csv", "--output", tmp_path / "found.csv")
    assert done.returncode == 1 and "contradiction: unit (3)" in done.stdout
    assert "yin2020.csv,contradiction,unit," in (tmp_path / "found.csv").read_text()
    assert call(name, root / "config/published/nvidia-resnet50.csv").returncode == 0
    broken = call(name, write("metric,unit,value\n"), "--output", tmp_path / "none.csv")
    assert broken.returncode == 2 and "error: the table has 1 fault" in broken.stderr
    assert not (tmp_path / "none.csv").exists()
