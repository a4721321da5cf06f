"""The contract keeps the rules of CONTRIBUTING.md, and the tools that watch over it do notice."""

import importlib
import importlib.util
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import FieldDescriptor

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def protos() -> ModuleType:
    spec = importlib.util.spec_from_file_location("protos_tool", ROOT / "tools/protos.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def before(protos: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The contract as it is, as buf takes it."""
    return str(protos.image(ROOT / "protos", tmp_path_factory.mktemp("before") / "image.binpb"))


@pytest.fixture
def edited(tmp_path: Path) -> Path:
    """A copy of protos/ to break."""
    return Path(shutil.copytree(ROOT / "protos", tmp_path / "protos"))


def edit(folder: Path, name: str, old: str, new: str) -> None:
    path = folder / "groundline/v1" / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def buf(protos: ModuleType, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(protos.BIN / "buf"), *arguments, "--config", str(ROOT / "buf.yaml")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_lint_notices_an_rpc_without_comment(protos: ModuleType, edited: Path, tmp_path: Path) -> None:
    edit(edited, "thread.proto", "// A stored message of a thread.\n", "")
    done = buf(protos, "lint", str(protos.image(edited, tmp_path / "image.binpb")))
    assert done.returncode != 0
    assert "Message" in done.stdout


@pytest.mark.parametrize(
    ("old", "new", "is_breaking"),
    [
        pytest.param("string thread_id = 1;", "string thread_id = 9;", True, id="moved field"),
        pytest.param("int32 message_count = 3;", "string message_count = 3;", True, id="changed type"),
        pytest.param("string title = 2;", "string heading = 2;", True, id="renamed in JSON"),
        pytest.param(
            "string title = 2;", "string title = 2;\n  // New.\n  string extra = 99;", False, id="new"
        ),
    ],
)
def test_breaking_notices_all_but_what_is_new(
    protos: ModuleType, before: str, edited: Path, tmp_path: Path, old: str, new: str, is_breaking: bool
) -> None:
    edit(edited, "thread.proto", old, new)
    after = str(protos.image(edited, tmp_path / "new.binpb"))
    assert (buf(protos, "breaking", after, "--against", before).returncode != 0) == is_breaking


def test_a_missing_idempotency_level_is_noticed(protos: ModuleType, edited: Path, tmp_path: Path) -> None:
    edit(edited, "reranker_service.proto", "    option idempotency_level = NO_SIDE_EFFECTS;\n", "")
    descriptors = protos.image(edited, tmp_path / "image.binpb").read_bytes()
    assert protos.rpcs_without_idempotency(descriptors) == ["RerankerService.Rerank"]


def test_no_message_that_json_clients_see_has_a_64_bit_integer() -> None:
    """JSON clients lose precision of 64-bit integers, so proto3 JSON writes them as strings."""
    wide = {
        FieldDescriptor.TYPE_INT64,
        FieldDescriptor.TYPE_UINT64,
        FieldDescriptor.TYPE_SINT64,
        FieldDescriptor.TYPE_FIXED64,
        FieldDescriptor.TYPE_SFIXED64,
    }
    pool = descriptor_pool.Default()
    checked = 0
    for path in sorted((ROOT / "protos/groundline/v1").glob("*.proto")):
        importlib.import_module(f"groundline.v1.{path.stem}_pb2")
        for message in pool.FindFileByName(f"groundline/v1/{path.name}").message_types_by_name.values():
            for field in message.fields:
                checked += 1
                assert field.type not in wide, field.full_name
    assert checked > 100


@pytest.mark.parametrize(
    "path", sorted((ROOT / "protos").rglob("*_service.proto")), ids=lambda path: path.stem
)
def test_every_rpc_comment_lists_its_status_codes(path: Path) -> None:
    rpcs = re.findall(r"((?:  //.*\n)+)  rpc (\w+)", path.read_text())
    assert rpcs
    for comment, name in rpcs:
        assert re.search(r"INVALID_ARGUMENT|Status codes as for", comment), name
