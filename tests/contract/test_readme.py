"""What README.md and docs/ tell a newcomer to type, open or set is there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rlhf_pipeline.errors import ParamsError
from rlhf_pipeline.params import parse
from rlhf_pipeline.params.load import read_yaml

ROOT = Path(__file__).parents[2]
PAGES = sorted({page for pattern in ("*.md", "docs/**/*.md", "data/**/*.md") for page in ROOT.glob(pattern)})
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
MAKE_TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, flags=re.MULTILINE))
PARAMS = read_yaml(ROOT / "presets/tiny-cpu.yaml")
SOURCES = re.compile(r"(src|docs|presets|stages|flows|scripts|tests|requirements|benchmarks|data)/[\w./-]*")
MADE_BY_RUNS = ("data/prepared", "data/validated")
SETTING = re.compile(rf"(({'|'.join(PARAMS)})\.[a-z_.0-9]+)(: .*|=.*)?")
FILE = re.compile(r".*\.(py|json|csv|yaml|safetensors)")
DVC_GROUPS = ("exp", "metrics", "params", "plots", "queue", "remote", "stage")


class Command(NamedTuple):
    """A command line as a page shows it."""

    page: str
    line: str


def commands(page: Path) -> list[Command]:
    found = []
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    for block in re.findall(r"```(?:bash|sh|console)\n(.*?)```", text, flags=re.S):
        for line in block.splitlines():
            command = line.split(" #")[0].removeprefix("$ ").strip()
            if command and not command.startswith("#"):
                found.append(Command(page.name, command))
    return found


COMMANDS = [command for page in PAGES for command in commands(page)]


def test_the_readme_shows_the_two_commands_first() -> None:
    shown = [command.line for command in COMMANDS if command.page == "README.md"]
    assert shown[:2] == ["make demo", "make test"]


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_a_command_exists(command: Command) -> None:
    line = command.line
    for target in re.findall(r"\bmake ([a-z-]+)", line):
        assert target in MAKE_TARGETS, line
    for name in re.findall(r"\bNAME=(\S+)", line):
        assert (ROOT / "presets" / f"{name}.yaml").is_file(), line
    for module in re.findall(r"python -m ((?:stages|flows|scripts|benchmarks|rlhf_pipeline)[\w.]*)", line):
        source = ROOT / "src" if module.startswith("rlhf_pipeline") else ROOT
        assert (source / f"{module.replace('.', '/')}.py").is_file(), line
    for tests in re.findall(r"\btests/[\w/.-]+", line):
        assert (ROOT / tests.split("::")[0]).exists(), line


@pytest.mark.parametrize(
    "command", [command for command in COMMANDS if re.search(r"\bdvc ", command.line)], ids=str
)
def test_a_dvc_command_is_one_that_dvc_has(command: Command) -> None:
    words = re.sub(r"^\S*dvc ", "", command.line).split()
    subcommand = words[: 2 if words[0] in DVC_GROUPS else 1]
    done = subprocess.run(
        [str(Path(sys.executable).with_name("dvc")), *subcommand, "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, command.line
    for setting in re.findall(r"-S '?([\w.]+)=", command.line):
        assert key_exists(setting), command.line


def key_exists(dotted: str) -> bool:
    place: Any = PARAMS
    for part in dotted.split("."):
        if isinstance(place, list) and part.isdigit():
            place = place[int(part)] if int(part) < len(place) else None
        elif isinstance(place, dict) and part in place:
            place = place[part]
        else:
            return False
    return True


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?://|#|mailto:)([^)#\s]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


# docs/params.md is made from the models, and its last column holds keys of verl's.
WRITTEN = [page for page in PAGES if page.name != "params.md"]


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_and_keys_in_backticks_exist(page: Path) -> None:
    missing = []
    for word in re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8")):
        if SOURCES.fullmatch(word):
            found = (ROOT / word).exists() or word.startswith(MADE_BY_RUNS)
        elif FILE.fullmatch(word):
            found = True
        else:
            setting = SETTING.fullmatch(word)
            found = setting is None or key_exists(setting[1])
        if not found:
            missing.append(word)
    assert missing == []


def test_every_preset_is_in_the_readme() -> None:
    for path in (ROOT / "presets").glob("*.yaml"):
        assert f"`{path.stem}`" in README or f"`{path.stem.removesuffix('-long')}`" in README, path.stem


def test_every_stage_is_in_the_readme() -> None:
    for stage in read_yaml(ROOT / "dvc.yaml")["stages"]:
        assert f"| {stage} |" in README


def test_the_error_in_the_readme_is_the_one_that_is_printed() -> None:
    shown = re.search(r"```\nerror: params\.yaml.*?\n(.*?)```", README, flags=re.S)
    assert shown
    values = read_yaml(ROOT / "presets/tiny-cpu.yaml")
    values["ppo"]["gama"] = 1.0
    values["ppo"]["mini_batch_size"] = "32"
    with pytest.raises(ParamsError) as caught:
        parse(values)
    assert shown[1].splitlines() == str(caught.value).splitlines()[1:]
