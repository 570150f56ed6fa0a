"""Fetches what VENDOR.json names, and writes down the SHA-256 of every file.

    python static/vendor/refresh.py                    fetch again; shows what differs
    python static/vendor/refresh.py htmx.org=4.0.2     move one package to a version

Needs npm, whose own settings say where packages come from. Only file names, versions
and hashes change in VENDOR.json; read the diff of the fetched files before committing.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

STATIC = Path(__file__).resolve().parent.parent
VENDOR = STATIC / "vendor" / "VENDOR.json"


def fetch(package: str, version: str, folder: Path) -> tarfile.TarFile:
    """The published archive of one version, unpacked by the caller file by file."""
    answer = subprocess.run(  # noqa: S603  the names come from VENDOR.json
        ["npm", "pack", "--json", f"{package}@{version}"],  # noqa: S607  npm of PATH
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    return tarfile.open(folder / json.loads(answer.stdout)[0]["filename"])


def refresh(entry: dict[str, Any], folder: Path) -> list[str]:
    """Writes the files of one package; returns those whose bytes changed."""
    changed = []
    version = entry["version"]
    with fetch(entry["package"], version, folder) as archive:
        for file in entry["files"]:
            member = archive.extractfile(f"package/{file['from']}")
            if member is None:
                raise SystemExit(f"{entry['package']} {version} has no {file['from']}.")
            content = member.read()
            digest = hashlib.sha256(content).hexdigest()
            path = file["path"].replace("{version}", version)
            if digest != file.get("sha256"):
                changed.append(path)
            file["sha256"] = digest
            target = STATIC / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    return changed


def main(arguments: list[str]) -> None:
    wanted = dict(argument.split("=", 1) for argument in arguments)
    vendor = json.loads(VENDOR.read_text())
    unknown = wanted.keys() - {entry["package"] for entry in vendor}
    if unknown:
        raise SystemExit(f"VENDOR.json does not name {', '.join(sorted(unknown))}.")
    with tempfile.TemporaryDirectory() as folder:
        for entry in vendor:
            old = entry["version"]
            entry["version"] = wanted.get(entry["package"], old)
            changed = refresh(entry, Path(folder))
            if entry["version"] != old:
                for file in entry["files"]:
                    if "{version}" in file["path"]:
                        stale = file["path"].replace("{version}", old)
                        (STATIC / stale).unlink()
            sys.stdout.writelines(f"changed: {path}\n" for path in changed)
    VENDOR.write_text(json.dumps(vendor, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
