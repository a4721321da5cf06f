"""The commands of the pages work, page by page in the order shown, and print the output that they show.

A page's commands share one shell and an empty folder, in which the suite runs as `make run` runs it. A block
behind a `<!-- not run: … -->` is left out; tests/unit/docs checks its form.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Final

import pytest
from groundline_tests.commands.forked import write_command
from groundline_tests.shown import ROOT, Block, Command, blocks
from groundline_tests.suite import EXAMPLES, Stack

PAGES: Final = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SECONDS: Final = 300
# It is what the fixture has done.
STARTED: Final = "make run"
# Ends with the bytes that a terminal would not show.
MARK: Final = "\x01"


def runnable(page: Path, *languages: str) -> list[Block]:
    return [block for block in blocks(page) if block.is_run and block.language in languages]


async def run(program: list[str], folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Return the exit code, and all output."""
    process = await asyncio.create_subprocess_exec(
        *program,
        cwd=folder,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(SECONDS):
            printed, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return process.returncode, printed.decode()


@pytest.fixture
def environment(stack: Stack, tmp_path: Path) -> dict[str, str]:
    """Return the environment of a newcomer's terminal in the project's folder, which `tmp_path` stands for:
    nothing of it names the gateway or a key."""
    programs = tmp_path / ".venv/bin"
    programs.mkdir(parents=True)
    write_command(programs / "groundline")
    (tmp_path / ".groundline").symlink_to(stack.data_dir)
    (tmp_path / "examples").symlink_to(EXAMPLES)
    # A page's curl has no need of it, but an error is to be seen.
    (tmp_path / ".curlrc").write_text("fail-with-body\n")
    return {"HOME": str(tmp_path), "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "LANG": "C.UTF-8"}


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if runnable(page, "sh", "console")],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
async def test_a_page_s_commands_do_as_shown(page: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    commands: list[tuple[Block, Command]] = [
        (block, command)
        for block in runnable(page, "sh", "console")
        for command in block.commands()
        if command.text != STARTED
    ]
    script = "\n".join(f"{command.text}\nprintf '{MARK}%s{MARK}' $?" for _, command in commands)

    _, printed = await run(["bash", "-c", script], tmp_path, environment)

    parts = printed.split(MARK)
    for (block, command), output, code in zip(commands, parts[0::2], parts[1::2], strict=False):
        assert code == "0", f"{block.place}: {command.text}\nended with {code}:\n{output[-2000:]}"
        left = iter(line.strip() for line in output.splitlines())
        for shown in command.printed:
            assert shown.strip() in left, (
                f"{block.place}: {command.text}\ndid not print {shown}:\n{output[-2000:]}"
            )
    assert len(parts) == 2 * len(commands) + 1, f"the shell ended before the page:\n{printed[-2000:]}"


@pytest.mark.parametrize(
    "block", [block for page in PAGES for block in runnable(page, "python")], ids=lambda block: block.place
)
async def test_shown_code_runs(
    block: Block, stack: Stack, tmp_path: Path, environment: dict[str, str]
) -> None:
    known = f"url, api_key = {stack.ready['gateway']!r}, {stack.ready['api_key']!r}\n"

    code, printed = await run([sys.executable, "-c", known + block.body], tmp_path, environment)

    assert code == 0, f"{block.place}:\n{printed[-2000:]}"
    assert printed.strip()
