"""The TypeScript client's adapter with the real AI SDK, over the running suite."""

import asyncio
import shutil

from groundline_tests.programs import needs_program
from groundline_tests.suite import ROOT, Stack

TYPESCRIPT = ROOT / "clients/typescript"


async def run(*command: str, stack: Stack) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        *command, cwd=TYPESCRIPT, env=stack.environment, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    return process.returncode, out.decode()


@needs_program("nodejs", found=shutil.which("node") is not None)
async def test_the_adapter_passes_its_tests(stack: Stack) -> None:
    code, out = await run("node", "--test", "test/ai-sdk.test.js", stack=stack)
    assert code == 0, out


@needs_program("nodejs", found=shutil.which("node") is not None)
async def test_its_types_fit_those_of_the_ai_sdk(stack: Stack) -> None:
    options = ["--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2023"]
    code, out = await run("node", "node_modules/typescript/bin/tsc", *options, "test/types.ts", stack=stack)
    assert code == 0, out
