"""Ask a gateway until every service answers: GATEWAY names it, ATTEMPTS says how often, with 2 s between."""

import os
import sys
import time
import urllib.request

for _ in range(int(os.environ["ATTEMPTS"])):
    try:
        # The address is the chart's own.
        with urllib.request.urlopen(f"{os.environ['GATEWAY']}/healthz", timeout=10) as answer:  # noqa: S310
            print(answer.read().decode())
            sys.exit()
    except OSError as error:
        # HTTP's refusals are such errors, too.
        print(error, flush=True)
    time.sleep(2)
sys.exit("not every service answers: kubectl get pods tells which is not ready")
