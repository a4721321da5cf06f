"""Pages of a web site."""

from collections.abc import AsyncGenerator
from typing import Final

from groundline_collector.adapters.sources.common import INTERFACE_VERSION, Run, SourceKind
from groundline_collector.changes import Change


def changes(run: Run) -> AsyncGenerator[Change, None]:
    """Return the pages as a crawl finds them."""
    return run.crawler().crawl(run.source, private_addresses=run.private_addresses, pages=run.pages)


KIND: Final = SourceKind(interface_version=INTERFACE_VERSION, changes=changes)
