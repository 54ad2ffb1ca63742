"""The command `touchstone`: runs a study in any folder, and has the commands for users.

The workflow is that of the checkout, or of the package; results are in the working folder. A module
of `commands/` is for users if it has a `GROUP`; the others are for rules and developers, and
`workflow/scripts/cli.py` starts them.
"""

import ast
import itertools
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from touchstone import cli, started
from touchstone.paths import ROOT
from touchstone.schema import variables

RUN, MACHINE_CHECK = "run", "machine-check"
STUDIES = "Studies"
GROUPS = (STUDIES, "Results", "Data", "Machines")
"""The groups of commands, in the order of the help."""
PROFILES = {"--profile", "--workflow-profile"}
"""Options that name a profile."""
DRY_RUN = {"-n", "--dry-run", "--dryrun"}
"""Options with which Snakemake only says what it would do."""
SHORT = {"check": "check-config"}
"""Commands that users call by a shorter name."""
OWN = {
    RUN: "Run a study: the default one, or `touchstone run my-study.yaml`. Further words go to"
    " Snakemake; `-n` says what would run.",
    MACHINE_CHECK: "Measure in minutes what this machine can do, beside four published machines.",
}


def commands() -> dict[str, dict[str, str]]:
    """By group, the commands with the first sentence of what they do."""
    texts: dict[str, dict[str, str]] = {group: {} for group in GROUPS}
    users = {whole: short for short, whole in SHORT.items()}
    texts[STUDIES] |= OWN
    for name in cli.names():
        path = Path(cli.__file__).parent / f"commands/{name.replace('-', '_')}.py"
        module = ast.parse(path.read_text(encoding="utf-8"))
        for node in module.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "GROUP":
                text = " ".join((ast.get_docstring(module) or "").split())
                texts[ast.literal_eval(node.value)][users.get(name, name)] = text.partition(". ")[0]
    return texts


def help_text() -> str:
    """All commands in groups."""
    lines = ["usage: touchstone COMMAND ...", ""]
    for group, listed in commands().items():
        lines += [group, *(f"  {name:16} {text.rstrip('.')}" for name, text in listed.items()), ""]
    return "\n".join([*lines, "`touchstone COMMAND --help` has the options of a command."])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command that the first argument names."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    name, *rest = given or ["--help"]
    if name in ("--help", "-h", "help"):
        print(help_text())
        return
    if os.environ.get(variables.STARTED) != started.MAKE:
        os.environ[variables.STARTED] = started.TOUCHSTONE
    if name == MACHINE_CHECK:
        _run([str(ROOT / "config/studies/machine-check.yaml"), *rest])
    elif name == RUN:
        _run(rest)
    else:
        cli.main([SHORT.get(name, name), *rest])


def _run(words: Sequence[str]) -> None:
    """Replace this process by Snakemake, after the study was checked.

    The first of the words is the study's file, unless it is an option and does not follow `--`;
    only the option of a dry run may come before it. The rest goes to Snakemake.
    """
    dry = list(itertools.takewhile(DRY_RUN.__contains__, words))
    rest = list(words[len(dry) :])
    if rest[:1] == ["--"]:
        study, *others = rest[1:]
    else:
        study, *others = rest if rest and not rest[0].startswith("-") else ("", *rest)
    others = dry + others
    if not {"--help", "-h"}.isdisjoint(others):
        print(f"usage: touchstone run [STUDY] [OPTIONS OF SNAKEMAKE]\n\n{OWN[RUN]}")
        return
    if study:
        _ours("check-config", "--quiet", "--", study)
    if DRY_RUN.isdisjoint(others):
        _ours("release-lock")
    if not (ROOT / "Makefile").exists():  # no checkout: a package has no room for environments
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        os.environ.setdefault(variables.ENVS, str(cache / "touchstone"))
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")]
    if not PROFILES & {word.partition("=")[0] for word in others}:
        command += _profile_options()
    command += ["--cores", "all"] * (not {"--cores", "-c", "--profile"} & set(others))
    command += [f"--configfile={study}"] if study else []
    sys.stdout.flush()
    os.execv(command[0], [*command, *others])


def _profile_options() -> list[str]:
    """The options of the project's profile, which Snakemake would read itself, but with a line in
    the terminal; none where the working folder, or the environment, has a profile."""
    path = ROOT / "profiles/default"
    here = Path("profiles/default")
    if variables.PROFILE in os.environ or (here.exists() and not here.samefile(path)):
        return []
    words = ["--workflow-profile", "none"]
    for name, value in yaml.safe_load((path / "config.yaml").read_text(encoding="utf-8")).items():
        if value is not False:
            words.append(f"--{name}")
            words += (
                [] if value is True else map(str, value if isinstance(value, list) else [value])
            )
    return words


def _ours(*words: str) -> None:
    """Run a command of ours, which ends this process if it fails."""
    try:
        cli.main(list(words))
    except SystemExit as ended:
        if ended.code:
            raise
