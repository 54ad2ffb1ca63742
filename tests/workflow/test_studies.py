"""A published study in the workflow: it is judged and has a page, and no other study has one."""

import re

import pytest
import yaml

from workflow.project import ENVIRONMENTS, ROOT, Project


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    config = yaml.safe_load((ROOT / "config/config.yaml").read_text())
    return Project(folder, ENVIRONMENTS, config)


def test_a_published_study_is_judged(project):
    assert "judge_study" not in project.jobs()
    file = "config/studies/yin2020.yaml"
    output = project.run("--dry-run", "--configfile", file, "--config", "scale=smoke")
    assert "results/report/yin2020/study.html" in output
    assert re.search(r"^train +125$", output, re.M) and re.search(r"^judge_study +1$", output, re.M)
