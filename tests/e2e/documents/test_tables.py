"""Tables of documents, asked through the gateway: who may ask what, and of which revision."""

import base64
import io
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import httpx
import openpyxl
import pytest
from groundline_tests.suite import Stack, ended_job

type Json = dict[str, Any]

COLLECTION: Final = "tables"
DOCUMENTS: Final = f"/api/collections/{COLLECTION}/documents"
CITIES: Final = "Stadt;Einwohner;Fläche (km²)\nBerlin;3.677.472;891,1\nWien;1.931.593;414,8\n"


def pumps(price: float = 412.5) -> bytes:
    book = openpyxl.Workbook()
    sheet: Any = book.active
    sheet.title = "Pumps"
    for row in (
        ["Model", "Weight (kg)", "Price", "Region"],
        ["DN-4", 1.9, 199, "North"],
        ["DN-6", 2.756, 300, "South"],
        ["DN-8", 3.1, price, "North"],
        ["DN-10", 4, None, "West"],
        ["Total", None, 499 + price, None],
    ):
        sheet.append(row)
    for row_number in range(2, 7):
        sheet.cell(row_number, 2).number_format = "0.0"
        sheet.cell(row_number, 3).number_format = '#,##0.00 "EUR"'
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


async def store(client: httpx.AsyncClient, **document: Any) -> str:
    response = await client.post(DOCUMENTS, json={"documents": [document]})
    assert response.status_code == 200, response.text
    job = await ended_job(client, response.json()["job"]["jobId"])
    assert job["state"] == "JOB_STATE_DONE", job
    found = await client.get(DOCUMENTS)
    return next(str(one["documentId"]) for one in found.json()["documents"] if one["uri"] == document["uri"])


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


@pytest.fixture(scope="module")
async def ids(stack: Stack) -> AsyncIterator[Mapping[str, str]]:
    async with stack.client() as client:
        body = {"collectionId": COLLECTION, "settings": {"history": {"revisions": 5}}}
        assert (await client.post("/api/collections", json=body)).status_code == 200
        yield {
            "pumps": await store(client, uri="pumps.xlsx", data=encoded(pumps())),
            "cities": await store(client, uri="cities.csv", text=CITIES),
        }
        await client.delete(f"/api/collections/{COLLECTION}")


async def ask(client: httpx.AsyncClient, question: str = "", **body: Any) -> Json:
    request = {"question": question, "collectionIds": [COLLECTION], **body}
    response = await client.post("/api/tables/query", json=request)
    assert response.status_code == 200, response.text
    answer: Json = response.json()
    return answer


def shown(answer: Json) -> list[list[str]]:
    return [[cell.get("text", "") for cell in row["cells"]] for row in answer.get("rows", ())]


def cells(answer: Json) -> list[list[str]]:
    return [[each["reference"] for each in row["sources"]] for row in answer["rows"]]


async def test_a_cell_is_found_and_named(client: httpx.AsyncClient, ids: Mapping[str, str]) -> None:
    answer = await ask(client, "How heavy is a DN-6?")
    assert shown(answer) == [["DN-6", "2.8"]]
    assert cells(answer) == [["A3", "B3"]]
    assert answer["rows"][0]["cells"][1] == {"text": "2.8", "number": 2.756, "unit": "kg"}
    assert (answer["table"]["documentId"], answer["table"]["sheet"]) == (ids["pumps"], "Pumps")
    text = await client.get(f"{DOCUMENTS}/{ids['pumps']}/text")
    start = answer["rows"][0]["sources"][0]["startOffset"]
    assert text.json()["text"][start:].startswith("Model: DN-6")


async def test_sums_leave_out_total_rows_and_say_what_is_missing(
    client: httpx.AsyncClient, ids: Mapping[str, str]
) -> None:
    answer = await ask(client, "total price by region")
    assert shown(answer) == [["North", "611.5"], ["South", "300"], ["West", ""]]
    assert cells(answer) == [["C2", "C4"], ["C3"], []]
    assert [row.get("missingCount", 0) for row in answer["rows"]] == [0, 0, 1]
    assert answer["explanation"] == "sum of Price, by Region"
    above = [{"operator": "TABLE_OPERATOR_GREATER", "value": "400 EUR"}]
    large = await ask(client, plan=answer["plan"] | {"groupConditions": above})
    assert shown(large) == [["North", "611.5"]]
    compared = await ask(client, "difference in weight between the DN-6 and the DN-8")
    assert (shown(compared), cells(compared)) == ([["0.344"]], [["B3", "B4"]])
    [average] = (await ask(client, "average weight"))["rows"]
    assert average["cells"] == [{"text": "2.939", "number": 2.939, "unit": "kg"}]


async def test_units_and_german_numbers_are_read(client: httpx.AsyncClient, ids: Mapping[str, str]) -> None:
    assert shown(await ask(client, "Which models weigh less than 2,800 g?")) == [
        ["DN-4", "1.9"],
        ["DN-6", "2.8"],
    ]
    assert shown(await ask(client, "Wie viele Einwohner hat Wien?")) == [["Wien", "1.931.593"]]
    assert shown(await ask(client, "Summe der Einwohner")) == [["5609065"]]


async def test_an_answer_of_a_table_cites_cells(client: httpx.AsyncClient, ids: Mapping[str, str]) -> None:
    async def answered(query: str) -> Json:
        body = {"query": query, "collectionIds": [COLLECTION], "store": False}
        response = await client.post("/api/answer", json=body)
        assert response.status_code == 200, response.text
        answer: Json = response.json()
        return answer

    one = await answered("How heavy is a DN-6?")
    assert one["answer"] == "DN-6: Weight (kg) 2.8 (A3, B3) [1]"
    assert (one["completed"]["model"], one["completed"]["validation"]["grounded"]) == ("tables", True)
    [citation] = one["completed"]["citations"]
    assert citation["supportingText"] == "Model: DN-6\nWeight (kg): 2.8\nPrice: 300.00 EUR\nRegion: South"
    assert one["sources"][0]["documentId"] == ids["pumps"]
    total = await answered("Summe der Einwohner")
    assert total["answer"] == "Summe Einwohner: 5609065 (B2, B3) [1]"
    refused = await answered("What colour is the DN-6?")
    assert refused["completed"]["model"] != "tables"


def orders(*, twice: bool = False) -> bytes:
    book = openpyxl.Workbook()
    sold: Any = book.active
    sold.title = "Orders"
    for row in (["Part", "Quantity"], ["dn-4", 3], ["DN-6", 2], ["DN-9", 5], ["Total", 10]):
        sold.append(row)
    parts = book.create_sheet("Parts")
    second = "DN-4" if twice else "DN-6"
    for row in (
        ["Number", "Price", "Maker"],
        ["DN-4", 199, "Acme"],
        [second, 300, "Bolt"],
        ["Total", 499, ""],
    ):
        parts.append(row)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


async def test_rows_look_up_another_sheets_by_key(client: httpx.AsyncClient, ids: Mapping[str, str]) -> None:
    document = await store(client, uri="orders.xlsx", data=encoded(orders()))
    join = {"tableIndex": 1, "column": 0, "joinedColumn": 0}
    table: Json = {"documentId": document, "tableIndex": 0, "join": join}
    try:
        rows = await ask(client, plan=table | {"columns": [0, 1, 3]})
        assert shown(rows) == [["dn-4", "3", "199"], ["DN-6", "2", "300"], ["DN-9", "5", ""]]
        assert cells(rows) == [["A2", "B2", "Parts!B2"], ["A3", "B3", "Parts!B3"], ["A4", "B4"]]
        assert rows["explanation"].endswith(", joined with Parts by Part")
        sums = {"function": "TABLE_FUNCTION_SUM", "functionColumn": 1, "groupBy": 4}
        by_maker = await ask(client, plan=table | sums)
        assert shown(by_maker) == [["Acme", "3"], ["Bolt", "2"], ["", "5"]]
        of_acme = {"column": 4, "operator": "TABLE_OPERATOR_EQUAL", "values": ["acme"]}
        most = {"function": "TABLE_FUNCTION_MAXIMUM", "functionColumn": 3, "conditions": [of_acme]}
        dearest = await ask(client, plan=table | most)
        assert (shown(dearest), cells(dearest)) == ([["199"]], [["Parts!B2"]])
        await store(client, uri="orders.xlsx", data=encoded(orders(twice=True)))
        for wrong, status in ((join, 400), (join | {"column": 9}, 400), (join | {"tableIndex": 7}, 404)):
            response = await client.post("/api/tables/query", json={"plan": table | {"join": wrong}})
            assert response.status_code == status, response.text
    finally:
        await client.delete(f"{DOCUMENTS}/{document}")


async def test_a_question_that_is_not_covered_is_refused_with_the_tables_there_are(
    client: httpx.AsyncClient, ids: Mapping[str, str]
) -> None:
    answer = await ask(client, "What colour is the DN-6?")
    assert "plan" not in answer
    assert (answer["refusal"], answer["unknownWords"]) == ("TABLE_REFUSAL_NOT_UNDERSTOOD", ["colour"])
    assert {table["documentId"] for table in answer["tables"]} == set(ids.values())


async def test_a_documents_tables_are_asked_alone(client: httpx.AsyncClient, ids: Mapping[str, str]) -> None:
    [table] = (await ask(client, documentId=ids["pumps"]))["tables"]
    assert (table["documentId"], table["sheet"], table["rowCount"]) == (ids["pumps"], "Pumps", 5)
    assert [(each["name"], each.get("unit", "")) for each in table["columns"]] == [
        ("Model", ""),
        ("Weight (kg)", "kg"),
        ("Price", "EUR"),
        ("Region", ""),
    ]
    answer = await ask(client, "How heavy is a DN-6?", documentId=ids["cities"])
    assert {each["documentId"] for each in answer["tables"]} == {ids["cities"]}


async def test_a_plan_is_run_as_it_is_and_checked(client: httpx.AsyncClient, ids: Mapping[str, str]) -> None:
    plan = {
        "documentId": ids["pumps"],
        "conditions": [
            {"column": 2, "operator": "TABLE_OPERATOR_AT_LEAST", "values": ["200"]},
            {"column": 0, "operator": "TABLE_OPERATOR_CONTAINS", "values": ["dn-", "%"]},
        ],
        "columns": [0, 2],
        "orderBy": 2,
        "isDescending": True,
    }
    answer = await ask(client, plan=plan)
    assert shown(answer) == [["DN-8", "412.50 EUR"], ["DN-6", "300.00 EUR"]]
    answer = await ask(client, plan={**plan, "limit": 1})
    assert (shown(answer), answer["hasMore"]) == ([["DN-8", "412.50 EUR"]], True)
    wrong = {
        "documentId": ids["pumps"],
        "conditions": [
            {"column": 9, "operator": "TABLE_OPERATOR_EQUAL", "values": ["x"]},
            {"column": 0, "operator": "TABLE_OPERATOR_LESS", "values": ["x"]},
            {"column": 1, "operator": "TABLE_OPERATOR_LESS", "values": ["3 EUR"]},
            {"column": 2, "operator": "TABLE_OPERATOR_LESS", "values": ["1", "2"]},
        ],
        "function": "TABLE_FUNCTION_SUM",
        "functionColumn": 0,
    }
    response = await client.post("/api/tables/query", json={"plan": wrong})
    [violations] = [
        each["fieldViolations"] for each in response.json()["details"] if "fieldViolations" in each
    ]
    assert response.status_code == 400
    assert {each["field"] for each in violations} == {
        "plan.conditions[0].column",
        "plan.conditions[1].operator",
        "plan.conditions[2].values[0]",
        "plan.conditions[3].values",
        "plan.functionColumn",
    }


async def test_what_a_document_holds_is_data(client: httpx.AsyncClient, ids: Mapping[str, str]) -> None:
    name = "'; DROP TABLE documents; --"
    await store(client, uri="hostile.csv", text=f'Name,Price\n"{name}",5\n"x""y",6\n')
    found = await client.get(DOCUMENTS)
    document = next(one for one in found.json()["documents"] if one["uri"] == "hostile.csv")
    condition = {"column": 0, "operator": "TABLE_OPERATOR_EQUAL", "values": [name]}
    answer = await ask(client, plan={"documentId": document["documentId"], "conditions": [condition]})
    assert shown(answer) == [[name, "5"]]
    await client.delete(f"{DOCUMENTS}/{document['documentId']}")


async def test_the_present_is_asked_and_a_restored_revision_has_its_table_again(
    client: httpx.AsyncClient, ids: Mapping[str, str]
) -> None:
    before = await ask(client, "What does the DN-8 cost?")
    await store(client, uri="pumps.xlsx", data=encoded(pumps(price=500)))
    changed = await ask(client, "What does the DN-8 cost?")
    assert (shown(before), shown(changed)) == ([["DN-8", "412.50 EUR"]], [["DN-8", "500.00 EUR"]])
    assert before["table"]["revision"] != changed["table"]["revision"]
    restored = await client.post(
        f"{DOCUMENTS}/{ids['pumps']}/revisions/{before['table']['revision']}:restore", json={}
    )
    assert restored.status_code == 200, restored.text
    await ended_job(client, restored.json()["job"]["jobId"])
    assert shown(await ask(client, "What does the DN-8 cost?")) == [["DN-8", "412.50 EUR"]]


async def test_who_may_not_read_asks_no_table(client: httpx.AsyncClient, ids: Mapping[str, str]) -> None:
    document = {"uri": "secret.csv", "text": "Part,Price\nzwonk,7\n", "allowedPrincipals": ["user:another"]}
    response = await client.post(DOCUMENTS, json={"documents": [document]})
    job = await ended_job(client, response.json()["job"]["jobId"])
    answer = await ask(client, "price of zwonk")
    assert answer["unknownWords"] == ["zwonk"]
    assert {table["documentId"] for table in answer["tables"]} == set(ids.values())
    items = (await client.get(f"/api/jobs/{job['jobId']}")).json()["items"]
    hidden = await client.post("/api/tables/query", json={"plan": {"documentId": items[0]["documentId"]}})
    assert (hidden.status_code, hidden.json()["details"][0]["reason"]) == (404, "TABLE_NOT_FOUND")
    assert (await ask(client, documentId=items[0]["documentId"]))["tables"] == []


async def test_a_deleted_document_has_no_table(client: httpx.AsyncClient, ids: Mapping[str, str]) -> None:
    document_id = await store(client, uri="gone.csv", text="Part,Price\nzwonk,7\n")
    assert shown(await ask(client, "price of zwonk")) == [["zwonk", "7"]]
    await client.delete(f"{DOCUMENTS}/{document_id}")
    response = await client.post("/api/tables/query", json={"plan": {"documentId": document_id}})
    assert (response.status_code, response.json()["details"][0]["reason"]) == (404, "TABLE_NOT_FOUND")
