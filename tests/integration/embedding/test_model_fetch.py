"""A model comes from a server that serves as the hub does, whole and verified, and runs without it."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import numpy as np
import pytest
from groundline_embedding import EmbeddingSettings, ModelError, create_embedder
from groundline_embedding.local.catalog import KnownModel
from groundline_embedding.local.download import fetch_model, read_checksums
from groundline_tests.http_server import Answering, listening

FILES = ("1_Pooling/config.json", "config.json", "model.onnx", "model.onnx.data", "tokenizer.json")
OTHERS = ("special_tokens_map.json", "tokenizer_config.json")
MODEL = KnownModel("acme/mini", "MIT", 384, 256, "English", 91, "", (*FILES, *OTHERS), "query: ", "passage: ")

COMMIT = "614241f622f53c4eeff9890bdc4f31cfecc418b3"


@dataclass
class Hub:
    """Redirects large files to a store, as the hub does, and states their checksums on the way."""

    root: Path
    url: str = ""
    revisions: list[str] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    """Paths in the store, with the range that was asked for."""
    breaks_off_at: int = 0
    """Bytes after which the connection ends, once."""
    damages: bool = False
    commits: list[str] = field(default_factory=lambda: [COMMIT])
    """That files are of, one after the other; the last one goes on."""
    states_checksums: bool = True

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        _, _, named = request.path.partition("/acme/mini/resolve/")
        revision, _, rest = named.partition("/")
        if rest:
            self.revisions.append(revision)
            data = (self.root / rest).read_bytes()
            etag = hashlib.sha256(data).hexdigest()
            if len(data) < 100_000:
                etag = hashlib.sha1(f"blob {len(data)}\0".encode() + data).hexdigest()
            request.send_response(302)
            request.send_header("location", f"/store/{rest}")
            if self.states_checksums:
                request.send_header("x-linked-etag", f'"{etag}"')
            commit = self.commits.pop(0) if len(self.commits) > 1 else self.commits[0]
            request.send_header("x-repo-commit", commit)
            request.send_header("content-length", "0")
            request.end_headers()
            return
        file = request.path.removeprefix("/store/")
        data = (self.root / file).read_bytes()
        wanted = request.headers.get("range", "")
        self.asked.append((file, wanted))
        first = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        request.send_response(206 if wanted else 200)
        request.send_header("content-length", str(len(data) - first))
        request.end_headers()
        body = data[first:]
        if self.damages:
            body = bytes(len(body))
        if self.breaks_off_at and len(body) > self.breaks_off_at:
            body, self.breaks_off_at = body[: self.breaks_off_at], 0
            request.close_connection = True
        request.wfile.write(body)


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    class Handler(Answering):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:  # noqa: N802
            hub.answer(self)

    with listening(Handler) as hub.url:
        yield hub


@pytest.fixture
def hub(minilm_directory: Path) -> Iterator[Hub]:
    with serving(Hub(minilm_directory)) as hub:
        yield hub


def fetched(hub: Hub, cache_dir: Path, **options: object) -> Path:
    return fetch_model(MODEL, cache_dir, base_url=hub.url, wait_seconds=0.01, **options)  # type: ignore[arg-type]


def test_a_damaged_file_is_refused_and_does_not_stay(hub: Hub, tmp_path: Path) -> None:
    hub.damages = True
    with pytest.raises(ModelError, match="is not what its checksum"):
        fetched(hub, tmp_path)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_what_nobody_states_a_checksum_of_is_refused_unless_one_is_given(hub: Hub, tmp_path: Path) -> None:
    hub.states_checksums = False
    with pytest.raises(ModelError, match="states no checksum"):
        fetched(hub, tmp_path)
    known = {file: hashlib.sha256((hub.root / file).read_bytes()).hexdigest() for file in MODEL.files}
    with pytest.raises(ModelError, match=r"is not what its checksum 0000"):
        fetched(hub, tmp_path, checksums=known | {"config.json": "0" * 64})
    with pytest.raises(ModelError, match=r"lack tokenizer\.json"):
        fetched(
            hub, tmp_path, checksums={file: one for file, one in known.items() if file != "tokenizer.json"}
        )
    recorded = read_checksums(fetched(hub, tmp_path, checksums=known) / "SHA256SUMS")
    assert {file: recorded[file] for file in known} == known


def test_all_files_are_of_the_commit_that_the_branch_was_at_first(hub: Hub, tmp_path: Path) -> None:
    fetched(hub, tmp_path)
    assert hub.revisions == ["main", *[COMMIT] * (len(MODEL.files) - 1)]


def test_files_of_two_commits_are_refused_and_those_of_the_first_are_kept(hub: Hub, tmp_path: Path) -> None:
    hub.commits = [COMMIT, "0" * 40, COMMIT]
    with pytest.raises(ModelError, match=f"is of commit {'0' * 40}, others are of {COMMIT}"):
        fetched(hub, tmp_path)
    arrived: list[str] = []
    fetched(hub, tmp_path, on_progress=lambda file, done, total: arrived.append(file))
    assert "tokenizer.json" in arrived
    assert "config.json" not in arrived


async def test_a_model_that_was_not_fetched_says_how_to(tmp_path: Path) -> None:
    chosen = EmbeddingSettings(model="intfloat/multilingual-e5-base", cache_dir=tmp_path)
    with pytest.raises(ModelError, match="groundline models fetch intfloat/multilingual-e5-base"):
        async with create_embedder(chosen):
            pass


def test_an_unreachable_server_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"could not be fetched from http://127\.0\.0\.1:9 "):
        fetch_model(MODEL, tmp_path, base_url="http://127.0.0.1:9", wait_seconds=0.01)


def test_a_file_goes_on_where_it_broke_off(hub: Hub, tmp_path: Path) -> None:
    hub.breaks_off_at = 40_000_000
    directory = fetched(hub, tmp_path)
    ranges = [wanted for file, wanted in hub.asked if file == "model.onnx.data"]
    assert ranges[0] == ""
    assert 0 < int(ranges[1].removeprefix("bytes=").rstrip("-")) <= 40_000_000
    for file in MODEL.files:
        assert (directory / file).read_bytes() == (hub.root / file).read_bytes()
    assert not list(directory.rglob("*.part"))


async def test_a_fetched_model_runs_offline_with_its_prompts_and_is_not_fetched_again(
    hub: Hub, tmp_path: Path, minilm_settings: EmbeddingSettings
) -> None:
    directory = fetched(hub, tmp_path)
    asked = len(hub.asked)
    chosen = EmbeddingSettings(model=MODEL.name, cache_dir=tmp_path, threads=2)
    (directory / "config.json").write_text("changed")
    with pytest.raises(ModelError, match=r"/config\.json is not what was fetched"):
        async with create_embedder(chosen):
            pass
    assert fetched(hub, tmp_path) == directory
    assert [file for file, _ in hub.asked[asked:]] == ["config.json"]
    async with create_embedder(chosen) as embedder, create_embedder(minilm_settings) as plain:
        assert embedder.dimensions == MODEL.dimensions
        query = await embedder.embed_query("lease of a replica")
        [document, long] = await embedder.embed_documents(["lease of a replica", "lease " * 600])
        assert np.allclose(query, await plain.embed_query("query: lease of a replica"), atol=1e-4)
        [expected] = await plain.embed_documents(["passage: lease of a replica"])
        assert np.allclose(document, expected, atol=1e-4)
        assert abs(np.linalg.norm(long) - 1) < 1e-5
