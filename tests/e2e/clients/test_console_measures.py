"""The console in a real browser: tables of documents, and sets of questions."""

import json
from pathlib import Path
from typing import Final

import httpx
import pytest
from groundline_tests.browser import CHROMIUM, Tab
from groundline_tests.gateway.console import AXE, go
from groundline_tests.programs import needs_program
from groundline_tests.suite import ROOT, Stack, ended_job

pytestmark = needs_program("chromium", found=CHROMIUM is not None)

EVALUATED: Final = ROOT / "evaluation/examples"
SAVED: Final = """
    const make = URL.createObjectURL;
    URL.createObjectURL = (blob) => {
        blob.text().then((text) => { window.saved = text; });
        return make.call(URL, blob);
    };
"""


async def test_cells_of_a_documents_tables_lead_to_its_text(tab: Tab, client: httpx.AsyncClient) -> None:
    rows = ("DN-4,1.9,199 EUR,North", "DN-6,2.8,300 EUR,South", "<b>,3.1,400 EUR,North")
    text = "\n".join(("Model,Weight (kg),Price,Region", *rows))
    address = "/api/collections/console-prices"
    await client.post("/api/collections", json={"collectionId": "console-prices"})
    body = {"documents": [{"uri": "models.csv", "text": text, "mimeType": "text/csv"}]}
    await ended_job(client, (await client.post(f"{address}/documents", json=body)).json()["job"]["jobId"])
    [document] = (await client.get(f"{address}/documents")).json()["documents"]
    await go(tab, f"documents/console-prices/{document['documentId']}")

    await tab.click("#tables > summary")
    await tab.click("#tables .tables summary")
    await tab.until("document.querySelector('#tables tbody tr')")
    assert (
        await tab.text("#tables th")
        == "Model\nText|Weight (kg)\nNumber|Price (EUR)\nNumber|Region\nText|Cells"
    )
    assert await tab.text("#tables tbody tr:last-child td") == "<b>|3.1|400 EUR|North|A4 … D4"

    await tab.click("#tables .asked-table summary")
    await tab.write("#tables .plan-form select", "TABLE_FUNCTION_SUM")
    await tab.write("#tables .plan-form .setting:nth-child(2) select", "2")
    await tab.write("#tables .plan-form .setting:nth-child(3) select", "3")
    await tab.click("#tables .plan-form .primary")
    await tab.until("document.querySelector('#tables .searched')?.innerText === 'sum of Price, by Region'")
    await tab.until("document.querySelector('#tables tbody')?.innerText.includes('599')")

    await tab.write("#tables > form input", "What colour is the DN-6?")
    await tab.click("#tables > form button")
    await tab.until("document.querySelector('#tables .note.warn')")
    assert "Not known in the tables: colour" in await tab.text("#tables .note.warn")
    await tab.write("#tables > form input", "How heavy is a DN-6?")
    await tab.click("#tables > form button")
    await tab.click("#tables > .asked-table td button")
    await tab.until("document.querySelector('#passage mark.passage')")
    assert (await tab.text("#passage mark.passage")).startswith("Model: DN-6")
    await client.delete(address)


def evaluation_set(folder: Path) -> None:
    """Write a few questions, of which some are passed over, and one whose text is hostile."""
    folder.mkdir()
    rows = [json.loads(line) for line in (EVALUATED / "queries.jsonl").read_text().splitlines()[:6]]
    hostile = {"id": "hostile", "text": "<img src=x onerror=alert(1)> lost laptop", "kind": "<b>typo</b>"}
    rows += [hostile, {"id": "empty", "text": " "}, {"id": "lost", "text": "Where is it?"}]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    wanted = {row["id"] for row in rows}
    heading, *judged = (EVALUATED / "qrels.tsv").read_text().splitlines()
    judged = [line for line in judged if line.split("\t")[0] in wanted]
    judged += ["hostile\tsecurity/policy.md\t2", "hostile\tapi/errors.md\t1", "lost\tgone.md\t1"]
    (folder / "qrels.tsv").write_text("\n".join([heading, *judged]), encoding="utf-8")


async def test_a_set_is_measured_as_the_command_measures_it_and_runs_are_compared(
    stack: Stack, tab: Tab, axe: str, tmp_path: Path
) -> None:
    evaluation_set(tmp_path / "few")
    command = ("eval", "run", str(tmp_path / "few"), "--collection", "examples", "--modes")
    done = await stack.command(*command, "keyword,hybrid", "--output", str(tmp_path / "command.json"))
    assert done.code == 0, done.err
    measured = json.loads((tmp_path / "command.json").read_text())

    await go(tab, "evaluation")
    await tab.choose("#evaluation-files input", tmp_path / "few/queries.jsonl", tmp_path / "few/qrels.tsv")
    await tab.until(
        "[...document.querySelectorAll('#evaluated option')].some((one) => one.value === 'examples')"
    )
    await tab.write("#evaluated", "examples")
    await tab.until("document.querySelector('#measure [role=status]')?.innerText.includes('8 questions')")
    await tab.click("#measure input[type=checkbox]")
    await tab.click("#measure .primary:not(:disabled)")
    await tab.until("document.querySelector('#results table')")
    await tab.js(SAVED)
    await tab.click("#runs li button")
    await tab.until("window.saved")
    own = json.loads(await tab.js("window.saved"))
    assert own["records"] == [{**record, "outcome": None} for record in measured["records"]]
    for part in ("documents", "questions", "skipped", "degraded", "failed"):
        assert own[part] == measured[part], part
    # Intervals too: the same resamples.
    for group, measures in measured["measures"].items():
        for name, estimate in measures.items():
            assert own["measures"][group][name] == pytest.approx(estimate, abs=1e-12), (group, name)
    (tmp_path / "own.json").write_text(json.dumps(own), encoding="utf-8")
    compared = await stack.command(*command, "hybrid", "--baseline", str(tmp_path / "own.json"), "--json")
    assert [one["drop"] for one in json.loads(compared.out)["comparison"]["differences"]] == [0.0] * 5

    for record in measured["records"]:
        record["figures"]["keyword"]["mrr@10"] = 1.0
    (tmp_path / "better.json").write_text(json.dumps(measured), encoding="utf-8")
    await tab.choose("#evaluation-files input", tmp_path / "better.json")
    await tab.until("document.querySelectorAll('#runs li').length === 2")
    newest = await tab.js("document.querySelector('#before').value")
    await tab.write("#after", newest)
    await tab.until(
        "[...document.querySelectorAll('#before option')].some((one) => one.value === 'better.json')"
    )
    await tab.write("#before", "better.json")
    await tab.until("document.querySelector('#questions li')")
    assert "Became worse: Keywords: MRR@10" in await tab.text("#questions h3")
    await tab.js(f"{axe}; 0")
    assert await tab.js(AXE) == []
    await tab.click("#questions .title")
    await tab.until("document.querySelector('#reason')")
    assert "settings=keyword..none." in await tab.js("location.hash")
    await go(tab, "evaluation")
    await tab.until("document.querySelectorAll('#runs li').length === 2")
