"""structlog without rich, which it imports where that is installed, for tracebacks that no service prints.

That takes 5 MB in each process, on a machine that has the command.
"""

import sys
from importlib import import_module

if "rich" not in sys.modules and "structlog" not in sys.modules:
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        import_module("structlog")
    finally:
        del sys.modules["rich"]
