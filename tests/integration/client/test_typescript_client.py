"""The TypeScript client's own tests, by Node.js."""

import shutil
import subprocess
from pathlib import Path

from groundline_tests.programs import needs_program

ROOT = Path(__file__).resolve().parents[3]


@needs_program("nodejs", found=shutil.which("node") is not None)
def test_its_own_tests_pass() -> None:
    command = ["node", "--test", "clients/typescript/test/client.test.js"]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
