"""`snakemake --profile profiles/slurm` on a real Slurm, with what goes wrong on a cluster.

The shipped profile is used as a site would: its names and sizes filled in. Two nodes make a
study; two others meet with failures at the same time.
"""

import itertools
import json
import re
import signal
import threading
from pathlib import Path

import pytest
import yaml

from slurm.cluster import CPUS, Cluster, NoSlurm, install, obstacle, wait_for
from workflow.project import ENVIRONMENTS, Project

OBSTACLE = obstacle()
pytestmark = [pytest.mark.skip(f"no cluster is tested: {OBSTACLE}")] if OBSTACLE else []

CELL = {
    "network": "lenet5", "dataset": "mnist-5k", "epochs": 10, "batch_size": 128,
    "warmup_seconds": 0.0, "learning_rate": 0.01,
}  # fmt: skip
"""Runs of some 5 s: two jobs begin within a second or two, and Slurm suspends within two more. They
have one thread where other tests run: two would wait for each other at every operation."""
LOOP = """
import time
from touchstone_steps import steps

for _ in steps(iter(int, 1), examples=2):
    time.sleep(0.01)
"""
"""A script whose loop does not end."""
MEMORY = 1500
"""MiB that a job asks for."""


class OnCluster(Project):
    """A project that is run by the shipped profile with a site's own settings of `train`."""

    def __init__(
        self, folder: Path, cluster: Cluster, frameworks: list[str], partition="study", **train
    ) -> None:
        self.study = {
            "study": "cluster", "title": "Small runs on a cluster", "repeats": 1, "parity": False,
            "defaults": CELL, "sweeps": [{"framework": frameworks, "threads": 1}],
        }  # fmt: skip
        super().__init__(folder, ENVIRONMENTS, self.study)
        self.variables.update(cluster.variables)
        self.cluster = cluster
        path = self.folder / "profiles/slurm/config.yaml"
        profile = yaml.safe_load(path.read_text())
        profile["default-resources"]["mem_mb"] = MEMORY
        profile["default-resources"]["slurm_partition"] = partition
        profile["set-resources"]["train"].update(train)
        # Here no file is seen late; and who waits for tests wants to know soon.
        profile.update({"latency-wait": 5, "slurm-init-seconds-before-status-checks": 1})
        path.write_text(yaml.safe_dump(profile))

    def repeat(self, repeats: int) -> None:
        """Let the study have this many repeats."""
        self.study["repeats"] = repeats
        self.configure(self.study)

    def options(self) -> list[str]:
        return ["--profile", "profiles/slurm"]

    def both_running(self) -> dict[str, str]:
        """Wait until a run is under way on each node: number of the job -> node."""
        order = self.folder / "results/.order.jsonl"
        begun = len(order.read_text().splitlines()) + 2
        wait_for("two runs", lambda: len(order.read_text().splitlines()) == begun)
        jobs = self.cluster.jobs(self.folder, "RUNNING")
        assert {job["node"] for job in jobs.values()} == {"loopback1", "loopback2"}
        return {number: job["node"] for number, job in jobs.items()}

    def runs(self) -> dict[Path, int]:
        """The runs that have ended -> when their events were written, ns."""
        ended = self.folder.glob("results/runs/*/rep*/env.json")
        return {path.parent: (path.parent / "events.jsonl").stat().st_mtime_ns for path in ended}

    def records(self) -> list[dict]:
        """All records."""
        paths = self.folder.glob("results/records/*/rep*.json")
        return [json.loads(path.read_text()) for path in paths]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, python_of):
    """A running Slurm, and environments from which frameworks were imported: in a job, the first
    import would meet with the job's limits and with adapters that fail."""
    try:
        install()
    except NoSlurm as reason:
        pytest.skip(f"no cluster is tested: {reason}")
    for framework in "pytorch", "tensorflow", "mxnet":
        python_of(framework)
    with Cluster(tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


class Doomed(OnCluster):
    """Runs that fail, exceed their memory and exceed their time, on nodes of their own.

    They go on beside all else, since Slurm notices a limit of time only after a minute.
    """

    ENDS = {
        "tensorflow": "1 / 0",
        "mxnet": "held = [b'x' * 2**24 for _ in range(32 if '-b64-' in sys.argv[1] else 128)]; "
        "time.sleep(600)",
        "pytorch": "time.sleep(600)",
    }
    """What their adapters do when they are imported. The run that the study limits takes 512 MiB,
    which Slurm allows, and the other one 2 GiB: only one of the limits can end it."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        super().__init__(folder, cluster, list(self.ENDS), partition="faults", runtime=1)
        limited = {"framework": "mxnet", "batch_size": 64, "memory_limit": 300.0}
        self.study["sweeps"].append(limited)
        self.configure(self.study)
        for framework, end in self.ENDS.items():
            adapter = f"workflow/scripts/touchstone/runner/adapters/{framework}/adapter.py"
            self.edit(adapter, "\n\nclass Adapter(", f"\nimport sys, time; {end}\n\nclass Adapter(")
        self.lines: list[str] = []
        self.driver = self.start()
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self) -> None:
        for line in self.driver.stdout:
            self.lines.append(line)

    def output(self) -> str:
        """What the driver has printed so far."""
        return "".join(self.lines)

    def logs(self, framework: str) -> list[Path]:
        """Slurm's logs of a framework's jobs with batches of 128, in order."""
        pattern = f"results/logs/slurm/rule_train/{framework}-*-b128-*/*.log"
        return sorted(self.folder.glob(pattern), key=lambda path: int(path.stem))

    def record(self, framework: str, batch_size: int = 128) -> dict:
        """The record of a framework's cell, which is waited for, or for the driver's end."""

        def found():
            asked = {"framework": framework, "batch_size": batch_size}
            return [each for each in self.records() if asked.items() <= each["factors"].items()]

        def known():
            return self.driver.poll() is not None or found()

        wait_for(f"a record of {framework}", known)
        assert len(found()) == 1, self.output()[-5000:]
        return found()[0]

    def end(self) -> None:
        """End each driver; the nodes end its jobs."""
        self.driver.kill()
        self.driver.wait()
        self.reader.join()


@pytest.fixture(scope="module", autouse=True)
def doomed(cluster, tmp_path_factory):
    """Doomed runs, begun before all else."""
    project = Doomed(tmp_path_factory.mktemp("doomed") / "project", cluster)
    yield project
    project.end()


@pytest.fixture(scope="module")
def project(cluster, doomed, tmp_path_factory):
    """A study of two repeats that was run on the cluster."""
    folder = tmp_path_factory.mktemp("study") / "project"
    project = OnCluster(folder, cluster, ["pytorch", "mxnet"])
    project.repeat(2)
    project.run()
    return project


def test_a_study_runs_through_the_cluster(project, cluster):
    records = project.records()
    made = sorted((record["factors"]["framework"], record["repeat"]) for record in records)
    assert made == [("mxnet", 1), ("mxnet", 2), ("pytorch", 1), ("pytorch", 2)]
    assert {record["status"] for record in records} == {"ok"}
    assert (project.folder / "results/report/index.html").exists()
    jobs = cluster.ended(project.folder)
    # Two conversions and four runs: what is short was done where Snakemake runs.
    assert [job["JobState"] for job in jobs] == ["COMPLETED"] * 6
    assert project.jobs() == {}


def test_a_run_has_a_node_to_itself(project, cluster):
    runs = [job for job in cluster.ended(project.folder) if job["TimeLimit"] == "70"]
    assert len(runs) == 4
    assert {job["ProcCnt"] for job in runs} == {str(CPUS)}
    for node in "loopback1", "loopback2":
        times = sorted(
            (job["StartTime"], job["EndTime"]) for job in runs if job["NodeList"] == node
        )
        assert times
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(times))


def test_the_record_tells_of_the_node(project, cluster):
    machines = [record["provenance"]["machine"] for record in project.records()]
    assert {machine["hostname"] for machine in machines} == {"loopback1", "loopback2"}
    if cluster.kills:
        assert {machine["memory_limit_mib"] for machine in machines} == {MEMORY}


def test_a_driver_that_is_killed(project, cluster):
    """What is finished is kept; nothing starts beside what still runs; nothing runs twice."""
    project.repeat(3)
    driver = project.start()
    one, other = project.both_running()
    cluster.ask("scontrol", "suspend", one)  # it would soon be through, as the other may be
    driver.kill()
    driver.communicate()
    project.run("--unlock")
    status, output = project.snakemake()
    assert status != 0 and "Traceback" not in output
    assert "Slurm still has jobs of this folder" in output
    (remedy,) = re.findall(r"or: scancel ([\d ]+)", output)
    assert {one} <= set(remedy.split()) <= {one, other}
    assert set(cluster.jobs(project.folder, "SUSPENDED")) == {one}
    assert set(cluster.jobs(project.folder)) <= {other}
    cluster.ask("scancel", one)
    states = "PENDING,RUNNING,COMPLETING,SUSPENDED"
    wait_for("the other run", lambda: not cluster.jobs(project.folder, states))
    ended = len(cluster.ended(project.folder))
    kept = project.runs()
    assert len(kept) == 5  # the one that came to its end with nobody looking is finished too
    project.run()
    assert len(cluster.ended(project.folder)) == ended + 1
    now = project.runs()
    assert len(now) == 6 and {path: now[path] for path in kept} == kept
    for path in now:
        lines = [json.loads(line) for line in (path / "events.jsonl").read_text().splitlines()]
        assert [line["event"] for line in lines].count("start") == 1
        assert lines[-1]["event"] == "outcome" and lines[-1]["status"] == "ok"


def test_a_cancelled_job_and_a_node_that_goes_down(project, cluster):
    project.repeat(4)
    driver = project.start()
    jobs = {node: number for number, node in project.both_running().items()}
    cluster.switch_off("loopback2")
    cluster.ask("scancel", jobs["loopback1"])
    lost = jobs["loopback2"]
    wait_for("the requeued job", lambda: lost in cluster.jobs(project.folder, "PENDING"))
    # Slurm waits two minutes before it starts such a job again, this test does not.
    cluster.ask("scontrol", "update", f"JobId={lost}", "StartTime=now")
    output, _ = driver.communicate()
    assert driver.returncode == 0, output[-5000:]
    assert f"SLURM-job '{jobs['loopback1']}' failed, SLURM status is: 'CANCELLED'" in output
    states = [job["JobState"] for job in cluster.ended(project.folder) if job["JobId"] == lost]
    assert states == ["NODE_FAIL", "COMPLETED"]
    new = [record for record in project.records() if record["repeat"] == 4]
    assert [record["status"] for record in new] == ["ok", "ok"]
    assert {each["provenance"]["machine"]["hostname"] for each in new} == {"loopback1"}
    assert project.jobs() == {}


@pytest.fixture
def both(cluster):
    """The nodes of the study, of which a test before may have left one without power."""
    cluster.boot(("loopback1", "loopback2"))


NODES = {"batch_size": 64, "weight_decay": 0.001, "framework": "pytorch"}  # as in contract tests
ENDS = (
    "        if self.group and self.group.rank == 1 and self.batch_size:\n"
    "            import os, time\n"
    "            os.kill(os.getpid(), 9) if rates[0] < 0.015 else time.sleep(600)\n"
)
"""What the replica on the second node does in its second chunk: it is killed, or it hangs."""


def losses(project, record):
    """Of the first ten steps of a run."""
    run = project.folder / record["provenance"]["run"]
    lines = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    return [loss for line in lines if line["event"] == "chunk" for loss in line["losses"]][:10]


@pytest.mark.usefixtures("both")
def test_a_run_on_two_nodes(cluster, tmp_path):
    project = OnCluster(tmp_path / "project", cluster, ["pytorch"])
    project.study["sweeps"] = [{**NODES, "nodes": [1, 2]}]
    project.configure(project.study)
    project.run()
    both, alone = sorted(project.records(), key=lambda one: "nodes" not in one["provenance"])
    assert (both["status"], alone["status"]) == ("ok", "ok")
    assert losses(project, both) == pytest.approx(losses(project, alone), abs=1e-5)
    assert len(losses(project, both)) == 10
    machines = [node["machine"]["hostname"] for node in both["provenance"]["nodes"]]
    assert sorted(machines) == ["loopback1", "loopback2"]
    settings = both["provenance"]["settings"]["effective"]
    assert (settings["replicas"], settings["nodes"], settings["batch_size"]) == (2, 2, 64)
    assert settings["threads"] == CPUS
    assert both["metrics"]["cpu_cores"]["value"] > 0
    (other,) = (project.folder / both["provenance"]["run"]).glob("nodes/*/env.json")
    own = [record["provenance"]["environment"]["affinity"] for record in (both, alone)]
    for affinity in (*own, json.loads(other.read_text())["run"]["affinity"]):
        assert len(affinity) == CPUS
    (job,) = [job for job in cluster.ended(project.folder) if job["NodeCnt"] == "2"]
    assert job["JobState"] == "COMPLETED" and job["ProcCnt"] == str(2 * CPUS)
    rows = (project.folder / "results/tables/scaling.csv").read_text().splitlines()
    assert len(rows) == 2 and ",strong,2,1,2," in rows[1]
    assert project.jobs() == {}


@pytest.mark.usefixtures("both")
def test_a_script_of_the_user_is_measured(cluster, tmp_path):
    project = OnCluster(tmp_path / "project", cluster, [])
    (project.folder / "loop.py").write_text(LOOP)
    project.study["programs"] = {"loop": {"file": "loop.py", "framework": "scipy"}}
    project.study["defaults"] = {"threads": 1, "warmup_seconds": 0.0, "program_seconds": 1.0}
    project.study["sweeps"] = [{"program": "loop"}]
    project.configure(project.study)
    project.run()
    (record,) = project.records()
    assert record["status"] == "ok" and record["metrics"]["throughput"]["value"] > 0
    assert record["provenance"]["machine"]["hostname"] in ("loopback1", "loopback2")
    assert project.jobs() == {}


@pytest.mark.usefixtures("both")
def test_what_ends_a_replica_on_the_second_node_is_recorded(cluster, tmp_path):
    project = OnCluster(tmp_path / "project", cluster, ["pytorch"])
    begin = "        losses = []\n        if draws is not None:\n"
    project.edit(
        "workflow/scripts/touchstone/runner/adapters/pytorch/adapter.py", begin, ENDS + begin
    )
    project.study["sweeps"] = [
        {**NODES, "nodes": 2, "epochs": 4},
        {**NODES, "nodes": 2, "epochs": 4, "learning_rate": 0.02, "time_limit": 20.0},
    ]
    project.configure(project.study)
    project.run()
    killed, hung = sorted(project.records(), key=lambda one: one["status"])
    assert (killed["status"], hung["status"]) == ("error", "timeout")
    second = killed["provenance"]["nodes"][1]["machine"]["hostname"]
    why = f"node {second}: the runner ended with signal SIGKILL and no result"
    assert killed["reason"] == why
    assert "it ran longer than the limit of 20 s" in hung["reason"]
    wait_for("the jobs' ends", lambda: not cluster.jobs(project.folder))


def test_a_gpu_cell_asks_for_a_gpu(cluster, tmp_path):
    """As far as this machine can tell: the job is held in the queue."""
    project = OnCluster(
        tmp_path / "project", cluster, ["pytorch"], slurm_extra="'--exclusive --hold'",
        gpu_model="'fake' if '-gpu-' in wildcards.cell else ''",
    )  # fmt: skip
    project.study["sweeps"][0].update(device=["cpu", "gpu"], input="synthetic")
    project.study["sweeps"].append(
        {"framework": "pytorch", "device": "gpu", "input": "synthetic", "nodes": 2}
    )
    project.configure(project.study)
    driver = project.start()
    wait_for("three jobs", lambda: len(cluster.jobs(project.folder)) == 3)
    asked = [cluster.ask("scontrol", "show", "job", n) for n in cluster.jobs(project.folder)]
    (cpu,) = [told for told in asked if "TresPerJob" not in told]
    assert "gpu" not in cpu.partition("TRES=")[2].splitlines()[0]
    (one,) = [told for told in asked if "TresPerJob=gres:gpu:fake:1" in told]
    assert "NumNodes=1" in one
    (two,) = [told for told in asked if "TresPerJob=gres:gpu:fake:2" in told]
    assert "NumNodes=2" in two
    driver.send_signal(signal.SIGINT)
    output, _ = driver.communicate()
    assert driver.returncode != 0
    assert not cluster.jobs(project.folder)


def test_what_no_node_can_give_is_refused_before_anything_is_submitted(cluster, tmp_path):
    project = OnCluster(tmp_path / "project", cluster, ["mxnet"], partition="nowhere")
    status, output = project.snakemake()
    assert status != 0 and "Traceback" not in output
    assert "train: slurm_partition: there is no 'nowhere'; there are: faults, study" in output
    assert "convert_dataset: slurm_partition: there is no 'nowhere'" in output
    project.study["sweeps"] = [{**NODES, "nodes": 3, "batch_size": 96}]
    project.configure(project.study)
    status, output = project.snakemake("--default-resources", f"mem_mb={MEMORY}")
    assert status != 0
    assert "train: nodes: 3 asked, the default partition has 2 that can give it" in output
    status, output = project.snakemake("--default-resources", f"mem_mb={MEMORY + 2000}", "gpu=2")
    assert status != 0
    assert (
        "train: mem_mb: 3500 MiB asked of a node, the default partition has at most 3000" in output
    )
    assert "convert_dataset: gpu: 2 asked of a node, the default partition has at most 1" in output
    assert not cluster.ended(project.folder) and not cluster.jobs(project.folder)


def test_a_job_that_fails(doomed):
    """It is tried again as another job; what the second one finds is recorded."""
    record = doomed.record("tensorflow")
    assert record["status"] == "error" and "ZeroDivisionError" in record["log_tail"][-1]
    (log,) = doomed.logs("tensorflow")
    assert f"SLURM-job '{log.stem}' failed, SLURM status is: 'FAILED'" in doomed.output()
    assert "the runner ended with exit status 1 and no result" in log.read_text()


def test_memory_that_the_study_limits(doomed):
    record = doomed.record("mxnet", batch_size=64)
    assert record["status"] == "oom"
    assert record["reason"].endswith("exceeds the limit of 300 MiB")


def test_memory_that_slurm_limits(doomed, cluster):
    """Slurm counts such a job as failed, whatever it wrote: the next one records its word."""
    if not cluster.kills:
        pytest.skip("this machine lets us hold no job to its memory (control groups, version 1)")
    record = doomed.record("mxnet")
    (log,) = doomed.logs("mxnet")
    assert f"SLURM-job '{log.stem}' failed, SLURM status is: 'FAILED'" in doomed.output()
    assert record["status"] == "oom"
    assert record["reason"].startswith(f"Slurm ended job {log.stem}: ")
    assert record["reason"].partition(": ")[2] in log.read_text()


def test_a_job_that_exceeds_its_time(doomed):
    """So does the time that Slurm limits; with it the study is through, and its tables are made."""
    record = doomed.record("pytorch")
    (log,) = doomed.logs("pytorch")
    assert f"SLURM-job '{log.stem}' failed, SLURM status is: 'TIMEOUT'" in doomed.output()
    assert record["status"] == "timeout"
    assert record["reason"].startswith(f"Slurm ended job {log.stem}: ")
    assert record["reason"].endswith("DUE TO TIME LIMIT ***")
    assert doomed.driver.wait(120) == 0, doomed.output()[-3000:]
    assert (doomed.folder / "results/report/index.html").exists()
    assert not doomed.cluster.jobs(doomed.folder)
