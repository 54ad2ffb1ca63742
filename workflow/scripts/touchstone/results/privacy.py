"""Takes the names of hosts, users and folders out of results that leave their machine."""

import contextlib
import os
import pwd
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from touchstone.paths import ROOT
from touchstone.safe_text import mapped

KEPT = frozenset({"cell", "status", "flags", "factors", "unit", "cpu_model", "gpus", "framework"})
"""Keys whose text is no free text: it says what was measured, and is the same everywhere."""
HOME = re.compile(r"/(?:home|Users|users|export/home|mnt/home|nfs/home)/([^/\s'\",:;()\[\]]+)")
ABSOLUTE = re.compile(r"(?:~|/|\.\./)")
SYSTEM = frozenset({"", "root", "nobody", "users", "user", "home"})
"""Names of users that say nothing."""


class Names:
    """What is not to leave this machine."""

    def __init__(self, hosts: Iterable[str], folders: Iterable[Path], words: Iterable[str]) -> None:
        """
        Args:
            hosts: names of hosts, whole or short.
            folders: of the study.
            words: what results are called, which no name of a host or a user may change.
        """
        common = {word.lower() for word in words}
        self._hosts = {host.partition(".")[0] for host in hosts} - {""}
        self._hosts = {host for host in self._hosts if host.lower() not in common}
        self._users = {name for name in _users() - SYSTEM if name.lower() not in common}
        paths = {str(path.absolute()) for path in (*folders, ROOT, Path.home())} - {"/"}
        self._folders = sorted(paths, key=len, reverse=True)

    def look_for_homes(self, text: str) -> None:
        """Learn the names of users from the paths of their homes in a text."""
        self._users |= set(HOME.findall(text)) - SYSTEM

    def hide(self, text: str) -> str:
        """A text with FOLDER, HOST and USER in the place of names."""
        for folder in self._folders:
            text = re.sub(re.escape(folder) + r"(?![\w-])", "FOLDER", text)
        text = HOME.sub("FOLDER", text)
        for name in sorted(self._hosts):
            word = rf"(?<![\w-]){re.escape(name)}(\.[\w-]+)*(?![\w-])"
            text = re.sub(word, "HOST", text, flags=re.IGNORECASE)
        for name in sorted(self._users):
            word = rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])"
            text = re.sub(word, "USER", text, flags=re.IGNORECASE)
        return text

    def of_value(self, value: Any) -> Any:
        """A value of JSON without names in any text, but for what stands at a key of `KEPT`."""
        if isinstance(value, dict):
            return {
                key: mapped(part, self._folders_only) if key in KEPT else self.of_value(part)
                for key, part in value.items()
            }
        if isinstance(value, list):
            return [self.of_value(part) for part in value]
        return self.hide(value) if isinstance(value, str) else value

    def _folders_only(self, text: str) -> str:
        for folder in self._folders:
            text = re.sub(re.escape(folder) + r"(?![\w-])", "FOLDER", text)
        return HOME.sub("FOLDER", text)

    def of_plan(self, text: str) -> str:
        """A plan without folders."""
        return self._folders_only(text)

    def of_configuration(self, config: Any) -> str:
        """A configuration without names; of paths that begin at the root or a home, or lead out of
        the study's folder, only the last part stays. A `mirror` stays."""

        def hide(text: str) -> str:
            path = ABSOLUTE.match(text) and "FOLDER/" + text.rstrip("/").rpartition("/")[2]
            return self.hide(path or text)

        hidden = mapped(config, hide)
        if config.get("mirror"):
            hidden["mirror"] = config["mirror"]
        return str(yaml.safe_dump(hidden, sort_keys=False, allow_unicode=True))


def _users() -> set[str]:
    """The names by which this machine knows who runs this."""
    users = {os.environ.get(name, "") for name in ("LOGNAME", "USER", "LNAME", "SUDO_USER")}
    with contextlib.suppress(KeyError):  # a container's user may have no name
        users.add(pwd.getpwuid(os.getuid()).pw_name)
    return users
