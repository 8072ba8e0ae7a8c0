"""Bytes over REST: a body of Arrow in, files out, and where a surface that cannot carry them points to."""

import asyncio
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any
from uuid import UUID, uuid4

import httpx
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from beamwright.adapters.postgres import observations
from tests.acceptance.stage import Stage, done, refusal
from tests.live import LiveServer
from tests.running import start_run
from tests.surfaces.test_mcp import call, post

ARROW = "application/vnd.apache.arrow.stream"
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def stage(server: LiveServer) -> Iterator[Stage]:
    with Stage(server) as stage:
        yield stage


@pytest.fixture
def run_id(server: LiveServer) -> UUID:
    return server.run(lambda app: start_run(app, START))


def samples(count: int, channels: int = 3, **columns: Any) -> pa.Table:
    given = {
        "event_id": pa.array([uuid4().bytes for _ in range(count)], pa.binary(16)),
        "channel_name": pa.array([f"t{number % channels}" for number in range(count)]).dictionary_encode(),
        "value": pa.array([number / 7 for number in range(count)]),
        "sampled_at": pa.array(
            [START + timedelta(milliseconds=number) for number in range(count)], pa.timestamp("us", "UTC")
        ),
        "sampling_procedure": pa.array(["Monitor"] * count).dictionary_encode(),
    }
    return pa.table(given | columns)


def packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def deliver(stage: Stage, run_id: UUID, body: bytes, type: str = ARROW, **query: Any) -> httpx.Response:
    return stage.admin.client.post(
        f"/runs/{run_id}/observations/append", content=body, headers={"content-type": type}, params=query
    )


def exported(stage: Stage, run_id: UUID, format: str, **query: Any) -> httpx.Response:
    answer = stage.admin.get(f"/runs/{run_id}/observations/export", format=format, **query)
    assert answer.is_success, answer.text
    return answer


def read(format: str, content: bytes) -> pa.Table:
    match format:
        case "csv":
            return pyarrow.csv.read_csv(BytesIO(content))
        case "parquet":
            return pyarrow.parquet.read_table(BytesIO(content))
        case _:
            return pa.ipc.open_stream(content).read_all()


def test_an_arrow_body_is_the_entries(stage: Stage, run_id: UUID) -> None:
    body = packed(samples(20_000))
    answer = deliver(stage, run_id, body, source_id="daq-1")
    assert answer.json() == {"received": 20_000, "inserted": 20_000, "duplicates": 0}
    assert deliver(stage, run_id, body).json()["duplicates"] == 20_000
    channels = done(stage.admin.get(f"/runs/{run_id}/channels"))
    assert [channel["count"] for channel in channels["channels"]] == [6667, 6667, 6666]
    assert [source["source_id"] for source in channels["sources"]] == ["daq-1"]
    assert done(stage.admin.get(f"/runs/{run_id}"))["observation_count"] == 20_000


def test_a_repeated_key_replays_an_arrow_body_too(stage: Stage, run_id: UUID) -> None:
    headers = {"content-type": ARROW, "idempotency-key": uuid4().hex}
    path, body = f"/runs/{run_id}/observations/append", packed(samples(3))
    first, again = (stage.admin.client.post(path, content=body, headers=headers) for _ in range(2))
    assert (again.content, again.headers["idempotency-replayed"]) == (first.content, "true")


def test_an_arrow_stream_travels_in_json_as_base64(stage: Stage, run_id: UUID) -> None:
    body = b64encode(packed(samples(5))).decode()
    answer = stage.admin.post(f"/runs/{run_id}/observations/append", entries=body)
    assert answer.json()["inserted"] == 5


@pytest.mark.parametrize(
    ("body", "type", "query", "expected"),
    [
        (b"not a table", ARROW, {}, (400, "InvalidObservationBatchError")),
        (b"", ARROW, {}, (400, "InvalidObservationBatchError")),
        (packed(samples(3)), ARROW, {"entries": "x"}, (400, "MalformedRequestError")),
        (packed(samples(3)), ARROW, {"surprise": "x"}, (422, "ShapeError")),
        (packed(samples(3)), "application/octet-stream", {}, (400, "MalformedRequestError")),
        (
            packed(samples(3, value=pa.array([1.0, float("nan"), 2.0]))),
            ARROW,
            {},
            (400, "InvalidObservationValueError"),
        ),
        (
            packed(samples(3, channel_name=pa.array(["a", "b", ""]))),
            ARROW,
            {},
            (400, "InvalidChannelNameError"),
        ),
        (
            packed(samples(3, sampling_procedure=pa.array(["x"] * 3))),
            ARROW,
            {},
            (400, "InvalidObservationBatchError"),
        ),
        (packed(samples(200_001)), ARROW, {}, (400, "InvalidObservationBatchError")),
        (bytes(33 << 20), ARROW, {}, (413, "BodyTooLargeError")),
    ],
    ids=range(10),
)
def test_a_body_that_is_wrong_is_refused(
    stage: Stage, run_id: UUID, body: bytes, type: str, query: dict[str, str], expected: tuple[int, str]
) -> None:
    assert refusal(deliver(stage, run_id, body, type, **query)) == expected


def test_only_operations_that_declare_it_take_another_body(stage: Stage) -> None:
    answer = stage.admin.client.post("/zones", content=b"\xff", headers={"content-type": ARROW})
    assert refusal(answer) == (400, "MalformedRequestError")


@pytest.mark.parametrize(
    ("format", "media_type"),
    [("csv", "text/csv; charset=utf-8"), ("parquet", "application/vnd.apache.parquet"), ("arrow", ARROW)],
)
def test_what_was_delivered_is_exported(stage: Stage, run_id: UUID, format: str, media_type: str) -> None:
    unit = {"unit_system": pa.array(["udunits"] * 1000), "unit_code": pa.array(["degC"] * 1000)}
    sent = samples(1000, **unit)
    done(deliver(stage, run_id, packed(sent), source_id="daq, 1"))
    answer = exported(stage, run_id, format)
    assert answer.headers["content-type"] == media_type
    assert answer.headers["content-disposition"] == f'attachment; filename="{run_id}.{format}"'
    got = read(format, answer.content).to_pylist()
    wanted = sorted(sent.to_pylist(), key=lambda row: (row["channel_name"], row["sampled_at"]))
    for name in ("channel_name", "value", "sampled_at", "unit_code"):
        assert [row[name] for row in got] == [row[name] for row in wanted], name
    assert [row["event_id"] for row in got] == [str(UUID(bytes=row["event_id"])) for row in wanted]
    assert {(row["simulated"], row["late"], row["source_id"]) for row in got} == {(False, False, "daq, 1")}


def test_a_selection_is_exported(stage: Stage, run_id: UUID) -> None:
    done(deliver(stage, run_id, packed(samples(300))))
    until = (START + timedelta(milliseconds=30)).isoformat()
    content = exported(stage, run_id, "csv", channel_name=["t0", "t2"], sampled_until=until).content
    assert read("csv", content)["channel_name"].to_pylist() == ["t0"] * 10 + ["t2"] * 10


def test_an_export_of_many_pieces_has_every_sample_once(
    stage: Stage, run_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observations, "ROWS_IN_A_PIECE", 7)
    same = pa.array([START] * 100, pa.timestamp("us", "UTC"))
    sent = samples(100, channels=2, sampled_at=same)
    done(deliver(stage, run_id, packed(sent)))
    for format in ("csv", "parquet", "arrow"):
        got = read(format, exported(stage, run_id, format).content)["event_id"].to_pylist()
        assert sorted(got) == sorted(str(UUID(bytes=id)) for id in sent["event_id"].to_pylist())


@pytest.mark.parametrize("format", ["csv", "parquet", "arrow"])
def test_an_export_of_nothing_is_a_file_with_its_columns(stage: Stage, run_id: UUID, format: str) -> None:
    table = read(format, exported(stage, run_id, format).content)
    assert (table.num_rows, table.column_names[:2]) == (0, ["event_id", "sampled_at"])


def test_a_client_that_leaves_stops_the_export(server: LiveServer, stage: Stage, run_id: UUID) -> None:
    done(deliver(stage, run_id, packed(samples(150_000))))
    with stage.admin.client.stream("GET", f"/runs/{run_id}/observations/export") as answer:
        next(answer.iter_raw())

    async def idle(app: Any) -> bool:
        for _ in range(100):
            rows = await app.database.fetch(
                "SELECT FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'COPY%'"
            )
            if not rows:
                return True
            await asyncio.sleep(0.05)
        return False

    assert server.run(idle)


def test_an_unknown_run_has_no_export(stage: Stage) -> None:
    for what in ("observations", "logbook"):
        assert refusal(stage.admin.get(f"/runs/{uuid4()}/{what}/export")) == (404, "RunNotFoundError")


def note(stage: Stage, run_id: UUID, text: str, **fields: Any) -> str:
    done(stage.admin.post(f"/runs/{run_id}/logbook/append", text=text, **fields))
    return done(stage.admin.get(f"/runs/{run_id}/logbook", sort="-written_at"))["items"][0]["entry_id"]


def test_a_logbook_is_exported_as_markdown(stage: Stage, run_id: UUID) -> None:
    note(stage, run_id, "Beam is back.", tags=["beam"])
    answer = stage.admin.get(f"/runs/{run_id}/logbook/export")
    assert answer.headers["content-type"] == "text/markdown; charset=utf-8"
    assert answer.text.startswith("# Logbook of Run\n")
    assert "```text\nBeam is back.\n```" in answer.text


def test_what_is_redacted_is_gone_everywhere(stage: Stage, run_id: UUID) -> None:
    secret = f"Ask Dr. {uuid4().hex}"
    key = {"idempotency-key": uuid4().hex}
    path = f"/runs/{run_id}/logbook"
    done(stage.admin.client.post(f"{path}/append", json={"text": secret}, headers=key))
    version = done(stage.admin.get(f"/runs/{run_id}"))["version"]
    entry_id = done(stage.admin.get(path))["items"][0]["entry_id"]
    done(stage.admin.post(f"{path}/redact", entry_id=entry_id, reason="names a person"))
    [entry] = done(stage.admin.get(path))["items"]
    assert (entry["text"], entry["redacted"]) == ("<redacted>", True)
    assert "<redacted>" in stage.admin.get(f"{path}/export").text
    reads = [
        stage.admin.get(path),
        stage.admin.get(f"{path}/export"),
        stage.admin.get(f"/runs/{run_id}"),
        stage.admin.get(f"/runs/{run_id}", as_of_version=version),
        stage.admin.get(f"/runs/{run_id}/events"),
        stage.admin.client.post(f"{path}/append", json={"text": secret}, headers=key),
    ]
    assert not [answer.url for answer in reads if secret in answer.text]
    assert not stage.rows("SELECT FROM erasable_texts WHERE body LIKE $1", f"%{secret}%")
    assert len(done(stage.admin.get(f"/runs/{run_id}/events"))["items"]) == 3
    again = stage.admin.post(f"{path}/redact", entry_id=entry_id, reason="once more")
    assert refusal(again) == (409, "RunLogbookCannotRedactError")


def test_a_logbook_is_listed_by_author_kind_and_tag(stage: Stage, run_id: UUID) -> None:
    first, second = note(stage, run_id, "one", tags=["a"]), note(stage, run_id, "two", tags=["b"])
    path = f"/runs/{run_id}/logbook"

    def ids(**query: Any) -> list[str]:
        return [item["entry_id"] for item in done(stage.admin.get(path, **query))["items"]]

    assert ids() == [first, second]
    assert ids(tag="b") == [second]
    assert ids(author_id=stage.admin.id, kind="Note", sort="-written_at") == [second, first]
    page = done(stage.admin.get(path, limit=1))
    assert ids(cursor=page["next_cursor"]) == [second]


def test_an_entry_refers_to_what_exists(stage: Stage, run_id: UUID) -> None:
    path = f"/runs/{run_id}/logbook/append"
    unknown = [{"kind": "Asset", "id": str(uuid4())}]
    assert refusal(stage.admin.post(path, text="x", references=unknown)) == (404, "AssetNotFoundError")
    strange = [{"kind": "Wish", "id": str(uuid4())}]
    assert refusal(stage.admin.post(path, text="x", references=strange)) == (400, "InvalidObjectTypeError")
    decision = stage.admin.post(path, text="x", decision_id=str(uuid4()))
    assert refusal(decision) == (404, "DecisionNotFoundError")


def test_the_description_names_the_types_of_files(stage: Stage) -> None:
    paths = stage.admin.get("/docs/openapi.json").json()["paths"]
    append = paths["/runs/{run_id}/observations/append"]["post"]
    assert set(append["requestBody"]["content"]) == {"application/json", ARROW}
    export = paths["/runs/{run_id}/observations/export"]["get"]["responses"]["200"]
    assert set(export["content"]) == {"text/csv", "application/vnd.apache.parquet", ARROW}


def test_a_tool_tells_where_the_file_is(server: LiveServer, stage: Stage, run_id: UUID) -> None:
    done(deliver(stage, run_id, packed(samples(9))))
    arguments = {"run_id": str(run_id), "channel_name": ["t1"], "format": "parquet"}
    told = post(server, call("get_run_observations_export", arguments)).json()["result"]["structuredContent"]
    assert told["media_type"] == "application/vnd.apache.parquet"
    path = told["url"].removeprefix(server.settings.base_url)
    assert read("parquet", stage.admin.client.get(path).content).num_rows == 3


def test_the_command_line_writes_the_file(server: LiveServer, stage: Stage, run_id: UUID) -> None:
    note(stage, run_id, "Beam is back.")
    command = [sys.executable, "-m", "beamwright", "call", "get_run_logbook_export", "--run-id", str(run_id)]
    answer = subprocess.run([*command, "--url", server.url, "--token", server.token()], capture_output=True)
    assert b"Beam is back." in answer.stdout, answer.stderr
