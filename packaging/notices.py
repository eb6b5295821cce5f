#!/usr/bin/env python3
"""Prints the licences of all crates that the program is made of, as their authors ask of those who distribute it.

Each text appears once, below the crates that have it. A crate without a text of its own gets the text of Apache-2.0 if
that is one of its licences, or that of a crate from the same repository; otherwise this fails."""

import re

from crates import ROOT, Crate, crates

# Names of files with a licence or a notice. They may be in any folder of a crate, because some crates contain the
# sources of other projects.
LEGAL = re.compile(r"^(licen[sc]e|copying|copyright|notice|unlicense)([-_. ].*)?$", re.IGNORECASE)
# A file with source code is not a licence, even if it has such a name.
CODE = {".rs", ".py", ".c", ".h", ".toml", ".json", ".go", ".sh"}
# Crates without a text, and for each the crate of the same repository whose text applies.
SAME_AS = {"tonic-prost": "tonic"}
RULE = "-" * 100


def texts(crate: Crate) -> list[str]:
    files = sorted(path for path in crate.folder.rglob("*") if LEGAL.match(path.name) and path.suffix not in CODE)
    return [path.read_text(errors="replace").strip() for path in files if path.is_file()]


def main() -> None:
    _, used = crates()
    own = (ROOT / "LICENSE").read_text().strip()
    # For each text with normalized spaces: the text as it was first found, and the crates that have it.
    by_text: dict[str, tuple[str, list[str]]] = {}
    by_name = {crate.name: crate for crate in used}
    for crate in used:
        found = texts(crate) or texts(by_name[SAME_AS.get(crate.name, crate.name)])
        if not found and "Apache-2.0" in crate.license:
            found = [own]
        if not found:
            raise SystemExit(
                f"error: {crate.name} {crate.version} ({crate.license}) has no text of its licence\n"
                "hint: find it in its repository, and let this script name it"
            )
        for text in found:
            # Texts that differ only in spaces and line ends are the same.
            _, names = by_text.setdefault(" ".join(text.split()), (text, []))
            line = f"{crate.name} {crate.version} ({crate.license})"
            if line not in names:
                names.append(line)

    print(f"linkerd-mc is made with {len(used)} crates of others. These are their licences and notices.")
    for text, names in by_text.values():
        print(f"\n{RULE}\n" + "\n".join(names) + f"\n{RULE}\n\n{text}")


main()
