"""Compile what the suite's programs import, and keep it.

The processes that read files may write nothing, and would compile their libraries anew each time: those are
compiled whole.
"""

import compileall
import importlib
import pkgutil
import sys
from pathlib import Path

from groundline_extraction import readers
from project import SERVICES


def main() -> None:
    for found in pkgutil.walk_packages(readers.__path__, f"{readers.__name__}."):
        importlib.import_module(found.name)
    for name in {name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names:
        for folder in getattr(sys.modules.get(name), "__path__", ()):
            if "site-packages" in Path(folder).parts:
                compileall.compile_dir(folder, quiet=2)
    for name in ("cli", *SERVICES):
        importlib.import_module(f"groundline_{name}.__main__")


if __name__ == "__main__":
    main()
