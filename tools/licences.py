"""Collect the licences of what is installed into a folder, one folder for each distribution.

    licences.py TARGET SITE_PACKAGES…

A distribution without the text of its licence gets what its metadata says of it. Needs only Python, since the
build of an image runs it.
"""

import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Final

NAMES: Final = ("LICEN", "COPYING", "NOTICE", "AUTHORS", "COPYRIGHT")
DECLARED: Final = "DECLARED.txt"


def texts(distribution: Distribution) -> dict[str, bytes]:
    """Return the files of its licence, by their paths below its metadata or its package."""
    found = {}
    for path in distribution.files or ():
        is_metadata = path.parts[0].endswith(".dist-info")
        if path.name.upper().startswith(NAMES) or (is_metadata and "licenses" in path.parts):
            shown = path.parts[1:] if is_metadata else path.parts
            file = Path(str(distribution.locate_file(path)))
            if file.suffix not in (".py", ".pyc") and file.is_file():
                found["/".join(shown)] = file.read_bytes()
    return found


def declared(distribution: Distribution) -> str:
    """Return what the metadata says of the licence."""
    metadata = distribution.metadata
    said = [one for name in ("License-Expression", "License") for one in metadata.get_all(name) or ()]
    said += [one for one in metadata.get_all("Classifier") or () if one.startswith("License ::")]
    said += [one for one in metadata.get_all("Project-URL") or () if "://" in one]
    return "\n".join([f"{metadata['Name']} {metadata['Version']} brings no text of its licence.", *said, ""])


def main() -> int:
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    target = Path(sys.argv[1])
    for distribution in distributions(path=sys.argv[2:]):
        folder = target / f"{distribution.metadata['Name']}-{distribution.version}"
        for name, text in (texts(distribution) or {DECLARED: declared(distribution).encode()}).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
