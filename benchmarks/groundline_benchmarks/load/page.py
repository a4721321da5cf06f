"""Report of a load, as a page."""

from xml.etree.ElementTree import SubElement

from groundline_cli.evaluation.plots import curves_plot
from groundline_cli.pages import ReportPage, add, add_table

from groundline_benchmarks.load.figures import LoadFigures
from groundline_benchmarks.load.tables import notes, tables


def page_of(figures: LoadFigures) -> str:
    """Return the page: latency and goodput over time and rate, and the tables."""
    page = ReportPage("Load of " + ", ".join(f"{kind} {weight:g}" for kind, weight in figures.mix.items()))
    for note in notes(figures):
        add(page.body, "p", note)
    windows, seconds = figures.windows, figures.ramp.seconds / len(figures.windows)
    ends = [(one.begin + seconds, one) for one in windows]
    plots = (
        curves_plot(
            "What users waited",
            "seconds since the begin",
            "seconds",
            {
                name: [(end, one.waited[number]) for end, one in ends if one.waited]
                for number, name in enumerate(("p50", "p95", "p99"))
            },
        ),
        curves_plot(
            "Requests a second",
            "seconds since the begin",
            "requests a second",
            {
                "due": [(end, one.offered) for end, one in ends],
                "goodput": [(end, one.goodput) for end, one in ends],
            },
        ),
    )
    for plot in plots:
        SubElement(page.body, "figure").append(plot)
    for title, headings, rows in tables(figures):
        add(page.body, "h2", title)
        add_table(page.body, headings, rows)
    return page.as_html()
