"""Make the rules of the service level objectives with sloth, which Go builds at first: objectives.py"""

import subprocess

from groundline_tests.observability.programs import programs
from monitoring import FOLDER, OBJECTIVES

if __name__ == "__main__":
    rules = FOLDER / "rules/objectives.yaml"
    subprocess.run([programs() / "bin/sloth", "generate", "--input", OBJECTIVES, "--out", rules], check=True)
