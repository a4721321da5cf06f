"""Kinds of sources by the plug-in interface: the contract, the template, WebDAV."""

import importlib
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import urllib3
from google.protobuf.json_format import ParseDict
from groundline.v1 import collector_service_pb2 as pb
from groundline.v1 import source_pb2
from groundline_collector.adapters.registry import SourceRegistry, kind_of
from groundline_collector.adapters.secrets import Secrets
from groundline_collector.adapters.sources.confluence import readers_of
from groundline_collector.adapters.sources.contract import NoPages, check_kind
from groundline_collector.adapters.sources.webdav import WebdavSettings, address_of, readers_in
from groundline_collector.adapters.threads import OwnThread
from groundline_collector.settings import CollectorSettings
from groundline_extraction.readers.common import ReaderLimits
from groundline_extraction.sandbox import Sandbox
from groundline_runtime.errors import FailedPreconditionError, InvalidArgumentError
from groundline_tests.ingestor.confluence import ConfluencePage, serving_confluence
from groundline_tests.ingestor.webdav import DENY, GRANT, WebdavServer, serving_webdav

TEMPLATE = Path(__file__).parents[3] / "templates/source"


type Install = Callable[[str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install packages with an entry point, as pip does."""

    def install(name: str, target: str) -> None:
        folder = tmp_path / f"{name.replace('-', '_')}-0.1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
        (folder / "entry_points.txt").write_text(f"[groundline.sources]\n{target}\n")

    monkeypatch.syspath_prepend(str(tmp_path))
    return install


def source_of(kind: str, **settings: Any) -> source_pb2.DocumentSource:
    plugin = ParseDict({"kind": kind, "settings": settings}, source_pb2.PluginSource())
    return source_pb2.DocumentSource(name="files", plugin=plugin)


def refused_settings(kind: str, **settings: Any) -> set[str]:
    with pytest.raises(InvalidArgumentError) as refused:
        kind_of(source_of(kind, **settings))
    return {one.field.removeprefix("source.plugin.settings.") for one in refused.value.violations}


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("old", "is for version 99"),
        ("other", "names something other than a SourceKind"),
        ("gone", r"cannot be loaded \(ModuleNotFoundError\)"),
        ("twice", "2 packages have a kind 'twice'"),
        # A kind that was removed is not available either.
        ("s3", "no kind 's3' is installed; there are: "),
    ],
)
def test_what_is_not_a_kind_of_this_interface_is_not_available(
    kind: str, why: str, install: Install, tmp_path: Path
) -> None:
    (tmp_path / "plug_old.py").write_text(
        "from groundline_collector.adapters.sources.common import SourceKind\n"
        "KIND = SourceKind(interface_version=99, changes=lambda run: iter(()))\n"
    )
    install("old", "old = plug_old:KIND")
    install("other", "other = plug_old:__name__")
    install("gone", "gone = plug_gone:KIND")
    install("one", "twice = plug_old:KIND")
    install("two", "twice = plug_old:KIND")
    with pytest.raises(FailedPreconditionError, match=why) as refused:
        kind_of(source_of(kind))
    assert refused.value.reason == "SOURCE_NOT_AVAILABLE"


async def test_settings_that_a_new_version_of_a_plug_in_refuses_end_the_run(tmp_path: Path) -> None:
    with Sandbox(ReaderLimits()) as sandbox:
        registry = SourceRegistry(CollectorSettings(), Secrets(tmp_path), sandbox)
        start = pb.CollectStart(source=source_of("webdav", url="https://files.test", depth=1))
        with pytest.raises(FailedPreconditionError, match=r"settings\.depth") as refused:
            registry.batches(start, NoPages(), OwnThread())
    assert refused.value.reason == "SOURCE_NOT_AVAILABLE"


def test_all_wrong_settings_are_named() -> None:
    assert refused_settings("webdav", url="ftp://files.test/", colour="red") == {"url", "colour"}
    wrong = {"username": "ann", "password_secret": "../../etc/passwd"}
    assert refused_settings("webdav", url="https://files.test", **wrong) == {"password_secret"}


async def test_the_template_holds_the_contract(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    points = tomllib.loads((TEMPLATE / "pyproject.toml").read_text())["project"]["entry-points"]
    [(name, target)] = points["groundline.sources"].items()
    install("groundline-source-listing", f"{name} = {target}")
    monkeypatch.syspath_prepend(str(TEMPLATE))
    monkeypatch.syspath_prepend(str(TEMPLATE / "tests"))
    module = importlib.import_module("test_listing")
    await module.test_the_kind_holds_the_contract()


async def test_a_webdav_folder_holds_the_contract_and_says_who_may_read() -> None:
    dav = WebdavServer()
    with serving_webdav(dav) as url:
        settings = {"url": url, "username": "ann", "password_secret": "password"}
        found = await check_kind("webdav", settings, secrets={"password": "hidden"})
        assert {uri: (one.allowed_principals, content) for uri, (one, content) in found.items()} == {
            "contract/plan.txt": (("group:staff",), b"First things first."),
            "contract/2026/über uns.txt": (None, b"We make pumps."),
        }
        content, _ = dav.files["/dav/handbook/plan.txt"]
        dav.files["/dav/handbook/plan.txt"] = content, DENY
        again = await check_kind("webdav", settings, secrets={"password": "hidden"})
    before, after = found["contract/plan.txt"][0], again["contract/plan.txt"][0]
    assert after.allowed_principals == ()
    assert (after.version, after.stated_version) != (before.version, before.stated_version)


async def test_confluence_s_pages_hold_the_contract_and_inherit_restrictions() -> None:
    pages = {
        "1": ConfluencePage("Home", "<p>Überall.</p>"),
        "2": ConfluencePage("Pay", "<p>Pay of all.</p>", above="1", users=("ann", "bob"), groups=("hr",)),
        "3": ConfluencePage("Bonus", "<p>Ann's.</p>", above="2", users=("ann",)),
        "4": ConfluencePage("Board", "<p>Nobody's.</p>", above="3", groups=("board",)),
        "5": ConfluencePage("Old", "<p>Old.</p>", groups=("all staff",)),
    }
    secrets = {"token": "hidden"}
    with serving_confluence(pages) as url:
        settings = {"url": url, "spaces": ["DOC"], "token_secret": "token"}
        found = await check_kind("confluence", settings, secrets=secrets)
        assert {uri.removeprefix("contract/"): one.allowed_principals for uri, (one, _) in found.items()} == {
            "1": None,
            "2": ["group:hr", "user:ann", "user:bob"],
            "3": ["user:ann"],
            "4": [],
            "5": [],  # a group whose name no principal can have
        }
        assert found["contract/1"][1].decode().endswith("<p>Überall.</p>")
        del pages["5"]
        pages["2"].version, pages["2"].users = 2, ()
        again = await check_kind("confluence", settings, secrets=secrets)
        assert sorted(again) == [f"contract/{one}" for one in "1234"]
        assert again["contract/2"][0].version == "2"
        # Ann may no longer see the page above hers, whose own version is the same.
        assert again["contract/3"][0].stated_version != found["contract/3"][0].stated_version
        with pytest.raises(FailedPreconditionError, match="answered 400"):
            await check_kind("confluence", {**settings, "spaces": ["DOC", "GONE"]}, secrets=secrets)


def test_a_page_of_which_it_is_not_said_who_may_view_it_is_not_taken_as_open() -> None:
    hidden = {"ancestors": [{"id": "1"}], "restrictions": {"read": {"restrictions": {}}}}
    with pytest.raises(KeyError):
        readers_of(hidden)
    wrong = {"url": "https://wiki.test/", "token_secret": "token", "spaces": ['DOC" or type = page']}
    assert refused_settings("confluence", **wrong) == {"spaces.0"}


ANN = "<principal><href>/principals/users/ann/</href></principal>"
ALL, OWNER = (f"<principal>{one}</principal>" for one in ("<all/>", "<property><owner/></property>"))


def test_no_path_that_a_webdav_server_shows_leads_to_another_server() -> None:
    settings = WebdavSettings(url="https://files.test:8443/")
    for path in ("//evil.test/", "///evil.test/", "/@evil.test/", "/\\evil.test/", "/a?b#c/"):
        address = urllib3.util.parse_url(address_of(settings, path))
        assert (address.scheme, address.host, address.port, address.query) == (
            "https",
            "files.test",
            8443,
            None,
        )


@pytest.mark.parametrize(
    ("entries", "readers"),
    [
        ((ANN + GRANT, ALL + DENY, ALL + GRANT), ("user:ann",)),
        ((ALL + GRANT,), ("*",)),
        ((ANN + "<grant><privilege><write/></privilege></grant>",), ()),
        ((ANN + GRANT, OWNER + GRANT), ("user:ann",)),
        ((ALL + GRANT, ANN + DENY), ()),
        ((f"<invert>{ANN}</invert>{GRANT}",), ()),
    ],
)
def test_an_access_control_list_never_lets_more_read_than_the_server(
    entries: tuple[str, ...], readers: tuple[str, ...]
) -> None:
    acl = ET.fromstring('<acl xmlns="DAV:">' + "".join(f"<ace>{one}</ace>" for one in entries) + "</acl>")
    assert readers_in(acl, WebdavSettings(url="https://files.test/")) == readers
