"""Containers as environments, by an engine that stands in for Podman and Apptainer."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from fixtures.engines import plant
from fixtures.interpreters import install
from fixtures.interpreters import plant as plant_python
from fixtures.scripted import START
from fixtures.specs import changed, training_spec
from touchstone import containers
from touchstone.containers import Container, NoContainer, find, is_launcher
from touchstone.contents import contents
from touchstone.environments import EnvironmentFault
from touchstone.measure.supervisor import supervise
from touchstone.paths import SCRIPTS
from touchstone.plan import environment
from touchstone.plan.environment import Place
from touchstone.plan.read import ConfigError
from touchstone.plan.study import make_plan
from touchstone.schema.spec import spec_to_json

IMAGE = "registry.example/pytorch:26.01-py3"
SAYS = "say(pid=os.getpid()); time.sleep(3600)"


@pytest.fixture(autouse=True)
def forget(tmp_path, monkeypatch):
    """Every test is a planning process of its own, in a folder of its own, with no engine."""
    contents.cache_clear()
    environment._container.cache_clear()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(containers.shutil, "which", own_engines(tmp_path / "engines"))


def own_engines(folder):
    def which(name):
        return str(folder / name) if (folder / name).exists() else None

    return which


@pytest.fixture
def python(tmp_path):
    """The Python of an image, which has what PyTorch's runs need, as far as a plan can tell."""
    found = plant_python(tmp_path / "image")
    (site,) = found.parent.parent.glob("lib/*/site-packages")
    for module in ("torch", "numpy", "lmdb"):
        (site / f"{module}.py").touch()
        install(found, module, "1.0")
    return found


@pytest.fixture
def podman(tmp_path, python):
    """Plants Podman with the image under another id, if one is given."""

    def planted(identity="sha256:aa"):
        plant(tmp_path / "engines", "podman", {IMAGE: (identity, str(python))})
        environment._container.cache_clear()
        contents.cache_clear()

    planted()
    return planted


def study(image=IMAGE, **cell):
    sweep = {"framework": "pytorch", "environment": ["pinned", "ngc"], **cell}
    defaults = {"network": "lenet5", "dataset": "mnist-5k", "batch_size": 64}
    own = {"ngc": {"framework": "pytorch", "container": image}}
    return {
        "study": "own", "title": "t", "environments": own, "defaults": defaults, "sweeps": [sweep],
    }  # fmt: skip


def faults_of(config, root):
    with pytest.raises(ConfigError) as refused:
        make_plan(config, root)
    return [line.strip() for line in str(refused.value).splitlines()[1:]]


def test_a_container_is_planned_like_an_interpreter(podman, root):
    cells = list(make_plan(study(), root).cells)
    assert cells[1] == "pytorch-ngc-lenet5-mnist-5k-cpu-fp32-b64-lr0.01"
    place = Place("container", IMAGE)
    assert place.options("ngc") == ["--environment", "ngc", "container", IMAGE]
    first = place.digest()
    podman("sha256:bb")
    assert place.digest() != first
    podman()
    assert place.digest() == first


def test_the_digest_is_of_the_packages_in_the_image_too(podman, python):
    first = Place("container", IMAGE).digest()
    install(python, "numpy", "2.0")
    podman()
    assert Place("container", IMAGE).digest() != first


def test_without_an_engine_the_study_is_refused(root):
    (fault,) = faults_of(study(), root)
    assert fault == (
        f"environments.ngc: container: {IMAGE} needs a container engine, and neither apptainer nor "
        "podman is on PATH; install one of them"
    )


def test_docker_is_refused_with_the_reason(tmp_path, root):
    plant(tmp_path / "engines", "docker", {})
    (fault,) = faults_of(study(), root)
    assert "its daemon starts a container's processes" in fault
    assert fault.endswith("install apptainer or podman")


def test_a_missing_image_has_the_command_that_gets_it(podman, tmp_path, root):
    (fault,) = faults_of(study("registry.example/other:1"), root)
    assert "is not on this machine (Error: registry.example/other:1: image not known)" in fault
    assert fault.endswith("get it with `podman pull registry.example/other:1`")
    plant(tmp_path / "engines", "apptainer", {})
    environment._container.cache_clear()
    (fault,) = faults_of(study(), root)
    assert f"registry.example_pytorch_26.01-py3.sif docker://{IMAGE}`" in fault


def test_a_lacking_module_has_the_line_that_builds_an_image_with_it(podman, python, root):
    (site,) = python.parent.parent.glob("lib/*/site-packages")
    (site / "lmdb.py").unlink()
    (fault,) = faults_of(study(), root)
    assert fault.startswith(
        f"sweeps[0].environment: ngc, {IMAGE}, lacks what a run needs: lmdb; build an image from it"
        " with `RUN python3 -m pip install lmdb`"
    )
    contents.cache_clear()
    assert len(make_plan(study(input="synthetic"), root).cells) == 2


def test_an_image_whose_python_does_not_start_is_refused(tmp_path, root):
    plant(tmp_path / "engines", "podman", {IMAGE: ("sha256:aa", "/bin/false")})
    (fault,) = faults_of(study(), root)
    assert f"container: {IMAGE}: it ends with exit status 1" in fault
    assert fault.endswith("give an image that has python3, and an engine that starts it")


def test_an_image_that_is_gone_when_a_run_begins_is_an_environments_fault():
    with pytest.raises(EnvironmentFault, match="environment ngc: .* needs a container engine"):
        Place("container", IMAGE).python("ngc", "cpu")


def test_apptainer_is_taken_before_podman_and_an_image_is_named_by_its_file(
    podman, tmp_path, python, root
):
    file = tmp_path / "own.sif"
    file.write_bytes(b"first")
    plant(tmp_path / "engines", "apptainer", {str(file): ("", str(python))})
    environment._container.cache_clear()
    first = find("own.sif", tmp_path)
    assert (first.engine, first.image) == ("apptainer", str(file))
    assert len(make_plan(study("own.sif"), root).cells) == 2
    assert contents(first.python("cpu")).image == first.identity
    file.write_bytes(b"again")
    assert find("own.sif", tmp_path).identity != first.identity
    pulled = tmp_path / "registry.example_pytorch_26.01-py3.sif"
    pulled.write_bytes(b"pulled")
    assert find(IMAGE, tmp_path).image == str(pulled)


def test_a_file_of_apptainer_is_nothing_for_podman(podman, tmp_path):
    with pytest.raises(NoContainer, match=r"own.sif is an image of Apptainer, and only podman"):
        find("own.sif", tmp_path)


@pytest.mark.parametrize(
    ("engine", "flag"), [("apptainer", "--nv"), ("podman", "--device=nvidia.com/gpu=all")]
)
def test_the_gpus_are_given_where_the_device_is_one(engine, flag):
    one = Container(engine, f"/bin/{engine}", "image", "id")
    assert flag in containers.engine_command(one, "gpu", 0, ["/work"])
    assert flag not in containers.engine_command(one, "cpu", 0, ["/work"])


def test_a_folder_is_mounted_once_and_links_are_followed(tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    here = tmp_path / "here"
    (elsewhere / "data").mkdir(parents=True)
    (here / "temporary").mkdir(parents=True)
    (here / "results").symlink_to(elsewhere)
    monkeypatch.chdir(here)
    found = containers.mounts(str(here / "temporary"))
    assert found == sorted([str(SCRIPTS.parent.parent), str(elsewhere), str(here)])


def in_container(tmp_path, text, **settings):
    """Supervise a runner given as Python text in the image's Python."""
    launcher = Place("container", IMAGE).python("ngc", "cpu")
    assert is_launcher(launcher)
    return supervised(tmp_path, [launcher], text, **settings)


def supervised(tmp_path, python, text, variables=None, threads=1):
    """Supervise a runner given as Python text, by this command of a Python."""
    spec = changed(
        training_spec(), cell="cell", execution__threads=threads, factors__environment="ngc",
        execution__variables=variables or {}, sampling_interval=0.1,
        limits={"seconds": 60.0, "memory_mib": None, "factor": None},
    )  # fmt: skip
    (tmp_path / "spec.json").write_text(json.dumps(spec_to_json(spec)))
    events = tmp_path / "events.jsonl"
    command = [*python, "-c", START + text, str(events)]
    status = supervise(spec, command, tmp_path, tmp_path / "train.log", final=True)
    return SimpleNamespace(
        status=status,
        events=[json.loads(line) for line in events.read_text().splitlines()],
        env=json.loads((tmp_path / "env.json").read_text()),
        telemetry=(tmp_path / "telemetry.csv").read_text().splitlines(),
    )


@pytest.fixture
def alone(monkeypatch, tmp_path):
    """The order of runs is kept in this test's folder."""
    from touchstone.measure import order

    monkeypatch.setattr(order, "_last", lambda: tmp_path / "last")


def test_a_run_has_the_images_variables_and_its_own_and_none_of_the_shells(
    podman, tmp_path, monkeypatch, alone
):
    for name in ("LD_LIBRARY_PATH", "CC", "EDITOR", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.setenv(name, "shell")
    run = in_container(
        tmp_path,
        "say(**os.environ); say(event='result', status='ok', reason=None)",
        variables={"ONEDNN_MAX_CPU_ISA": "AVX2"},
    )
    assert run.status == "ok"
    found = run.events[0]["others"]
    assert found["OF_IMAGE"] == "1" and found["ONEDNN_MAX_CPU_ISA"] == "AVX2"
    assert found["OMP_NUM_THREADS"] == "1" and found["CUDA_VISIBLE_DEVICES"] == "shell"
    assert not {"LD_LIBRARY_PATH", "CC", "EDITOR"} & found.keys()
    assert found["PYTHONNOUSERSITE"] == "1"
    recorded = run.env["run"]["environment"]
    assert recorded["CUDA_VISIBLE_DEVICES"] == "shell" and "LD_LIBRARY_PATH" not in recorded


def test_a_run_has_the_cores_of_its_spec_and_the_folder_of_the_study(podman, tmp_path, alone):
    run = in_container(
        tmp_path,
        "say(cores=sorted(os.sched_getaffinity(0)), folder=os.getcwd());"
        "say(event='result', status='ok', reason=None)",
    )
    told = run.events[0]["others"]
    assert told == {"cores": sorted(os.sched_getaffinity(0))[:1], "folder": str(tmp_path)}


def test_the_record_has_the_images_id_and_its_packages(podman, tmp_path, alone):
    run = in_container(tmp_path, "say(event='result', status='ok', reason=None)")
    software = run.env["software"]
    assert software["environment"]["image"] == "sha256:aa"
    assert software["environment"]["digest"] == Place("container", IMAGE).digest()
    assert "torch==1.0" in software["packages"]


def test_its_cpu_time_is_the_runs_and_it_asks_for_samples(podman, tmp_path, follow, alone):
    run = in_container(
        tmp_path,
        "begin = time.process_time()\n"
        "while time.process_time() - begin < 0.5: pass\n"
        "for n in range(5):\n"
        "    os.write(int(os.environ['TOUCHSTONE_SAMPLE_NOW']), b'.'); time.sleep(0.03)\n"
        "say(event='result', status='ok', reason=None)",
    )
    assert run.status == "ok"
    assert 0.5 <= run.events[-1]["cpu_seconds"] < 1.5
    assert len(run.telemetry) > 6


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV"])
def test_a_signal_that_ended_it_is_named(podman, tmp_path, name, alone):
    run = in_container(tmp_path, f"import signal; os.kill(os.getpid(), signal.{name})")
    assert run.status == "error"
    assert f"the runner ended with signal {name}" in run.events[-1]["reason"]


def test_the_engines_processes_are_none_of_the_runs(tmp_path, monkeypatch, follow, alone):
    """Where the container numbers its processes itself, as Podman's does."""
    apart = ["unshare", "--pid", "--fork", "--kill-child"]
    if subprocess.run([*apart, "true"]).returncode:
        pytest.skip("unshare --pid is not permitted here")
    run = supervised(
        tmp_path, [*apart, sys.executable],
        "time.sleep(1); say(event='result', status='ok', reason=None)",
    )  # fmt: skip
    place = run.telemetry[0].split(",").index("processes")
    assert {row.split(",")[place] for row in run.telemetry[3:-2]} == {"1"}


def running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_run_beyond_its_time_is_ended_in_its_container(
    podman, tmp_path, follow, alone, late_after
):
    late_after("\n")
    run = in_container(tmp_path, SAYS)
    assert run.status == "timeout"
    assert not running(run.events[0]["others"]["pid"])


def test_a_run_ends_with_its_supervisor(podman, tmp_path):
    """Also where that is killed, and nobody is left who could end the container."""
    launcher = Place("container", IMAGE).python("ngc", "cpu")
    supervisor = (
        "import sys, time\n"
        "from touchstone.measure.launch import start_runner\n"
        "runner = start_runner(sys.argv[1:], [0], {}, open('log', 'wb'))\n"
        "time.sleep(3600)\n"
    )
    events = tmp_path / "events.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-c", supervisor, launcher, "-c", START + SAYS, str(events)],
        env={**os.environ, "PYTHONPATH": str(SCRIPTS)},
    )
    while not (events.exists() and events.read_text().endswith("\n")):
        assert process.poll() is None
        time.sleep(0.02)
    pid = json.loads(events.read_text())["others"]["pid"]
    assert running(pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    while running(pid):
        time.sleep(0.02)
