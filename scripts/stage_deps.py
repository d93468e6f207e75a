"""Which source files each DVC stage runs, read from the code; keeps dvc.yaml's `deps` and `params` true.

    python -m scripts.stage_deps           say what is missing or too much; exit code 1 if anything is
    python -m scripts.stage_deps --write   put it right

The files are found without running anything: imports (those inside functions too), dotted names of our
own modules in strings (`python -m` and registries), data files named beside a module, and the plugins
that verl and vLLM load by entry point. Packages that a stage needs whole stand in dvc.yaml as a folder.
Not here: data, models and other deps, which are written by hand.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from functools import cache
from pathlib import Path

from ruamel.yaml import YAML

from rlhf_pipeline.params import STAGE_SECTIONS

ROOT = Path(__file__).resolve().parents[1]
SOURCE_ROOTS = {"stages": ROOT, "rlhf_pipeline": ROOT / "src"}
PLUGIN_HOSTS = frozenset({"verl", "vllm"})
_DOTTED = re.compile(r"^(rlhf_pipeline|stages)(\.\w+)+")


def sources(stage: str) -> set[Path]:
    """Every file of this repository that a stage may run or read as code."""
    found: set[Path] = {ROOT / "stages" / "run.sh"}
    queue = [ROOT / "stages" / f"{stage}.py"]
    hosts = False
    while queue:
        path = queue.pop()
        if path in found:
            continue
        found.add(path)
        if path.suffix != ".py":
            continue
        files, outside = references(path)
        queue += files
        if not hosts and outside & PLUGIN_HOSTS:
            hosts = True
            queue += plugins()
    return found


@cache
def references(path: Path) -> tuple[frozenset[Path], frozenset[str]]:
    """The repository's files that a module refers to, and the top-level names of other imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = _module_name(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    names: set[str] = set()
    files = set(_packages_above(path))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names.add(base)
            names.update(f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if match := _DOTTED.match(node.value):
                names.add(match.group())
            elif re.match(r"^(verl|vllm)\.\w", node.value):
                names.add(node.value)
            elif re.fullmatch(r"[\w.-]+", node.value):
                files |= data_files(path.parent / node.value)
    outside = set()
    for name in names:
        ours = module_file(name)
        if ours is not None:
            files.add(ours)
        elif name.split(".")[0] not in SOURCE_ROOTS:
            outside.add(name.split(".")[0])
    return frozenset(files - {path}), frozenset(outside)


def module_file(name: str) -> Path | None:
    """The file of the longest leading part of a dotted name that is one of our modules."""
    parts = name.split(".")
    root = SOURCE_ROOTS.get(parts[0])
    if root is None:
        return None
    for length in range(len(parts), 0, -1):
        place = root.joinpath(*parts[:length])
        for candidate in (place.with_suffix(".py"), place / "__init__.py"):
            if candidate.is_file():
                return candidate
    return None


def data_files(place: Path) -> set[Path]:
    """A file that is no module, or the files of a folder that is no package."""
    if place.is_file() and place.suffix != ".py":
        return {place}
    if place.is_dir() and not any(place.rglob("*.py")):
        return {path for path in place.rglob("*") if path.is_file()}
    return set()


def plugins() -> list[Path]:
    """The modules that verl and vLLM load by entry point in every process."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    targets = [target for group in project["entry-points"].values() for target in group.values()]
    return [file for target in targets if (file := module_file(target.split(":")[0]))]


def _packages_above(path: Path) -> list[Path]:
    parents = [parent / "__init__.py" for parent in path.parents if ROOT in parent.parents]
    return [parent for parent in parents if parent.is_file() and parent.parent.name != "src"]


def _module_name(path: Path) -> str:
    root = ROOT / "src" if ROOT / "src" in path.parents else ROOT
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def as_deps(files: set[Path]) -> list[str]:
    """The files as dvc.yaml names them: a folder where every file below it is needed."""
    files = {path for path in files if path.stat().st_size}
    package_root = ROOT / "src" / "rlhf_pipeline"
    packages = {folder for path in files for folder in path.parents if package_root in folder.parents}
    whole = {package for package in packages if code_files(package) <= files}
    deps = whole | files
    return sorted(str(path.relative_to(ROOT)) for path in deps if not whole & set(path.parents))


def code_files(folder: Path) -> set[Path]:
    """The files of a package that hold something, caches left out."""
    return {
        path
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.stat().st_size
    }


def is_code(dep: str) -> bool:
    return dep.startswith(("src/", "stages/"))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="rewrite the code deps in dvc.yaml")
    write = parser.parse_args().write
    yaml = YAML()
    yaml.width = 120
    yaml.indent(mapping=2, sequence=4, offset=2)
    file = ROOT / "dvc.yaml"
    pipeline = yaml.load(file.read_text(encoding="utf-8"))
    wrong = False
    for name, stage in pipeline["stages"].items():
        if not (ROOT / "stages" / f"{name}.py").is_file():
            print(f"{name}: stages/{name}.py does not exist")
            wrong = True
            continue
        listed = {dep for dep in stage["deps"] if is_code(dep)}
        needed = as_deps(sources(name))
        for dep in sorted(set(needed) - listed):
            print(f"{name}: missing {dep}")
        for dep in sorted(listed - set(needed)):
            print(f"{name}: not used {dep}")
        if list(stage["params"]) != STAGE_SECTIONS[name]:
            print(f"{name}: params are not {STAGE_SECTIONS[name]}")
            wrong = True
            stage["params"] = STAGE_SECTIONS[name]
        if listed != set(needed):
            wrong = True
            stage["deps"] = [dep for dep in stage["deps"] if not is_code(dep)] + needed
    if write and wrong:
        with file.open("w", encoding="utf-8") as out:
            yaml.dump(pipeline, out)
        return 0
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
