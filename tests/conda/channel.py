"""Make a conda channel of two packages from this machine's own Python and pip.

    channel.py FOLDER

FOLDER/conda-forge then serves `python` and `pip` as a file:// channel, which is all that
`envs/*.yaml` ask of conda: what a framework needs comes from pip's own source. The Python
package is thin: its interpreter is a copy of this machine's and finds the standard library
where this machine has it, as in a virtual environment made with copies. So it can be made
from any Python, Debian's too, which cannot be moved.
"""

import asyncio
import hashlib
import importlib.metadata
import io
import json
import os
import platform
import sys
import sysconfig
import tarfile
from pathlib import Path

from rattler.index import index_fs

SUBDIRS = {"x86_64": "linux-64", "aarch64": "linux-aarch64"}
CHANNEL = "conda-forge"


def pack(
    folder: Path,
    name: str,
    version: str,
    subdir: str,
    files: dict[str, bytes],
    links: dict[str, str] | None = None,
    depends: tuple[str, ...] = (),
) -> None:
    """Write one conda package (.tar.bz2) with `files` and symbolic `links`, by their paths.

    A package of the `noarch` subdir is a Python package. The layout is that of
    conda-build's documentation, "Conda package specification".
    """
    links = links or {}
    index = {
        "name": name, "version": version, "build": "0", "build_number": 0,
        "depends": depends, "subdir": subdir,
    }  # fmt: skip
    paths = [
        {
            "_path": path,
            "path_type": "hardlink",
            "sha256": hashlib.sha256(content).hexdigest(),
            "size_in_bytes": len(content),
        }
        for path, content in files.items()
    ]
    paths += [{"_path": path, "path_type": "softlink"} for path in links]
    info: dict[str, object] = {
        "index.json": index,
        "paths.json": {"paths": paths, "paths_version": 1},
    }
    if subdir == "noarch":
        index["noarch"] = "python"
        info["link.json"] = {"package_metadata_version": 1, "noarch": {"type": "python"}}
    members = {f"info/{key}": json.dumps(value).encode() for key, value in info.items()}
    members["info/files"] = "".join(f"{path}\n" for path in [*files, *links]).encode()
    target = folder / subdir / f"{name}-{version}-0.tar.bz2"
    target.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(target, "w:bz2", compresslevel=1) as archive:
        for path, content in {**members, **files}.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            member.mode = 0o755 if path.startswith("bin/") else 0o644
            archive.addfile(member, io.BytesIO(content))
        for path, destination in links.items():
            member = tarfile.TarInfo(path)
            member.type, member.linkname = tarfile.SYMTYPE, destination
            archive.addfile(member)


def pack_python(folder: Path) -> None:
    """The package `python`: the interpreter that this one was made from."""
    interpreter = Path(sys.base_prefix, "bin", f"python{sysconfig.get_python_version()}")
    settings = f"home = {interpreter.parent}\ninclude-system-site-packages = false\n"
    files = {f"bin/{interpreter.name}": interpreter.read_bytes(), "pyvenv.cfg": settings.encode()}
    links = {f"bin/{name}": interpreter.name for name in ("python", "python3")}
    subdir = SUBDIRS[platform.machine()]
    pack(folder, "python", platform.python_version(), subdir, files, links)


def pack_pip(folder: Path) -> None:
    """The package `pip`: the one that is installed beside this interpreter."""
    pip = importlib.metadata.distribution("pip")
    modules = [path for path in pip.files or () if path.suffix != ".pyc" and ".." not in path.parts]
    files = {f"site-packages/{path}": Path(path.locate()).read_bytes() for path in modules}
    pack(folder, "pip", pip.version, "noarch", files, depends=("python",))


def main() -> None:
    folder = Path(sys.argv[1]) / CHANNEL
    pack_python(folder)
    pack_pip(folder)
    asyncio.run(index_fs(folder, write_zst=False, write_shards=False))


if __name__ == "__main__":
    main()
    # The library's own threads sometimes abort the interpreter at its exit.
    sys.stdout.flush()
    os._exit(0)
