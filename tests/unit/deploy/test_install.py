"""Where packages come from: uv is told what pip is configured to do."""

from pathlib import Path

from install import variables


def test_uv_gets_what_pip_is_configured_to_do(tmp_path: Path) -> None:
    configured = (
        f":env:.find-links='{tmp_path} {tmp_path}/missing https://wheels.example/list'\n"
        "global.index-url='https://packages.example/simple?a=b'\n"
        "global.extra-index-url='\\nhttps://one.example/simple\\nhttps://two.example/simple'\n"
        "global.disable-pip-version-check='1'\n"
        "install.cert='/etc/ssl/own.pem'\n"
    )
    assert variables(configured) == {
        "UV_DEFAULT_INDEX": "https://packages.example/simple?a=b",
        "UV_FIND_LINKS": f"{tmp_path},https://wheels.example/list",
        "UV_INDEX": "https://one.example/simple https://two.example/simple",
        "SSL_CERT_FILE": "/etc/ssl/own.pem",
    }
    assert variables(f"install.find-links='{tmp_path}/missing'") == variables("") == {}
