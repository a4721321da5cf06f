"""Relations between the parts of an Office Open XML file."""

import posixpath
import zipfile

from groundline_extraction.readers.data.xml import parsed


def relations_of(archive: zipfile.ZipFile, path: str) -> dict[str, tuple[str, str]]:
    """Return the kind and the path of each part that a part refers to, by the relation's id; without those
    that the file lacks. `path` "": of the file itself."""
    folder, name = posixpath.split(path)
    relations = posixpath.join(folder, "_rels", f"{name}.rels")
    if relations not in archive.NameToInfo:
        return {}
    found = {
        relation.get("Id"): (
            relation.get("Type", "").rpartition("/")[2],
            posixpath.normpath(posixpath.join("/", folder, relation.get("Target", ""))).lstrip("/"),
        )
        for relation in parsed(archive.read(relations)).iterchildren("{*}Relationship")
        if relation.get("TargetMode") != "External"
    }
    return {identifier: part for identifier, part in found.items() if part[1] in archive.NameToInfo}
