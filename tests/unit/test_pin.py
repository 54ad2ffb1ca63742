"""`make pin` resolves an environment file, with hashes for both kinds of machine."""

import hashlib
import platform
import sys
import zipfile

import pytest

from fixtures.commands import call
from touchstone.commands.pin import MARKER

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
TAG = f"cp{PYTHON.replace('.', '')}"
HERE, THERE = (f"{TAG}-{TAG}-manylinux2014_{machine}" for machine in ("x86_64", "aarch64"))
FILE = f"""# A comment that stays.
channels:
  - nodefaults
dependencies:
  - python={PYTHON}
  - pip
  - pip:
      - fast==1.0 ; platform_machine == "x86_64" --hash=sha256:old
      - other==1.0 ; platform_machine == "aarch64"
"""


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """A folder of wheels that pip searches and nothing else; gives the sha256 of each file."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))

    def wheel(name, tag, needs=""):
        path = folder / f"{name}-1.0-{tag}.whl"
        with zipfile.ZipFile(path, "w") as archive:
            about = f"{name}-1.0.dist-info"
            text = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needs}"
            archive.writestr(f"{about}/METADATA", text)
            archive.writestr(f"{about}/WHEEL", f"Wheel-Version: 1.0\nTag: {tag}\n")
            archive.writestr(f"{about}/RECORD", "")
        return f" --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"

    return {
        "fast": wheel("fast", HERE, "Requires-Dist: deep\nRequires-Dist: pure\n"),
        "deep": wheel("deep", HERE) + wheel("deep", THERE),
        "pure": wheel("pure", "py3-none-any"),
        "other": wheel("other", THERE, "Requires-Dist: deep\n"),
    }


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the wheels are for x86-64")
def test_each_machine_has_its_hash(registry, tmp_path):
    path = tmp_path / "toy.yaml"
    path.write_text(FILE)
    ended = call("pin", path)
    assert ended.returncode == 0, ended.stderr
    first, rest = path.read_text().split(f"{MARKER}\n")
    assert first == FILE.replace(" --hash=sha256:old", registry["fast"]).replace(
        '"aarch64"\n', f'"aarch64"{registry["other"]}\n'
    )
    assert rest.splitlines() == [
        f"      - deep==1.0{registry['deep']}",
        f"      - pure==1.0{registry['pure']}",
    ]
