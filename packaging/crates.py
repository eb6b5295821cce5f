"""The crates of which the program is made, as cargo resolves them for the platforms of releases."""

import json
import os
import subprocess
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = "linkerd-mc"


@dataclass
class Crate:
    """A crate, with what its manifest and the lock file say of it."""

    id: str
    name: str
    version: str
    license: str
    repository: str | None
    authors: list[str]
    description: str
    folder: Path
    checksum: str | None
    # True if only a build runs the crate: for build scripts and macros, and for the crates that they use.
    build_only: bool
    uses: list[str] = field(default_factory=list)


def platforms() -> list[str]:
    """Those of releases, which deny.toml lists for its own check."""
    return tomllib.loads((ROOT / "deny.toml").read_text())["graph"]["targets"]


def resolved(platform: str) -> tuple[str, dict, dict[str, tuple[bool, set[str]]]]:
    """The program's id, all packages, and for each crate of the program on a platform, whether only its build needs it,
    and what it uses. Platforms together would add what only a crate of one uses on another."""
    command = ["cargo", "metadata", "--format-version=1", "--locked", "--features=jemalloc", f"--filter-platform={platform}"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    root = next(id for id in metadata["workspace_members"] if packages[id]["name"] == PROGRAM)

    def is_macro(id: str) -> bool:
        return any("proc-macro" in target["kind"] for target in packages[id]["targets"])

    def is_on(id: str, used: str) -> bool:
        """Whether a crate uses another one with the features that it has. cargo also lists optional crates that only a
        weak feature (`bit-vec?/std`) names."""
        declared = [entry for entry in packages[id]["dependencies"] if entry["name"] == packages[used]["name"]]
        if not all(entry["optional"] for entry in declared):
            return True
        names = {entry["rename"] or entry["name"] for entry in declared}
        features = nodes[id]["features"]
        named = {item for feature in features for item in packages[id]["features"].get(feature, [])}
        return any(
            name in features or name in named or f"dep:{name}" in named or any(item.startswith(f"{name}/") for item in named)
            for name in names
        )

    def uses(id: str) -> dict[str, bool]:
        """What a crate uses, and whether only its build does."""
        found = {}
        for dependency in nodes[id]["deps"]:
            kinds = {kind["kind"] for kind in dependency["dep_kinds"]} - {"dev"}
            used = dependency["pkg"]
            if not is_on(id, used):
                continue
            if kinds and used in metadata["workspace_members"]:
                found |= uses(used)
            elif kinds:
                found[used] = None not in kinds or is_macro(used)
        return found

    # A crate is part of the program if at least one path to it has no build dependency and no macro.
    build_only: dict[str, bool] = {}
    waiting = [(root, False)]
    while waiting:
        id, building = waiting.pop()
        if build_only.get(id, True) and (id not in build_only or not building):
            build_only[id] = building
            waiting += [(used, building or only) for used, only in uses(id).items()]

    return root, packages, {id: (only, set(uses(id))) for id, only in build_only.items()}


def crates() -> tuple[Crate, list[Crate]]:
    """The program, and the crates of others that it needs, sorted; tests and benchmarks need more. What a crate of this
    workspace uses counts as used by the program."""
    packages: dict = {}
    build_only: dict[str, bool] = {}
    uses: dict[str, set[str]] = {}
    for platform in platforms():
        root, more, needed = resolved(platform)
        packages |= more
        for id, (only, used) in needed.items():
            build_only[id] = build_only.get(id, True) and only
            uses[id] = uses.get(id, set()) | used

    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    checksums = {(entry["name"], entry["version"]): entry.get("checksum") for entry in lock}

    def crate(id: str) -> Crate:
        package = packages[id]
        name, version = package["name"], package["version"]
        if not package["license"]:
            raise SystemExit(f"error: {name} {version} names no licence\nhint: read its source, and add what it says here")
        return Crate(
            id=id,
            name=name,
            version=version,
            license=package["license"].replace(" / ", " OR ").replace("/", " OR "),
            repository=package["repository"],
            authors=package["authors"],
            description=" ".join((package["description"] or "").split()),
            folder=Path(package["manifest_path"]).parent,
            checksum=checksums[name, version],
            build_only=build_only[id],
            uses=sorted(uses[id]),
        )

    found = sorted((crate(id) for id in build_only), key=lambda crate: (crate.name, crate.version))
    program = next(crate for crate in found if crate.id == root)
    return program, [crate for crate in found if crate.id != root]


def build_time() -> int:
    """SOURCE_DATE_EPOCH if it is set, else the time of the commit, so that the same source gives the same files."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    commit = subprocess.run(command, capture_output=True, text=True)
    if commit.returncode:
        raise SystemExit("error: the time of the source is unknown\nhint: set SOURCE_DATE_EPOCH, where there is no git")
    return int(commit.stdout)
