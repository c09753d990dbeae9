"""A service that writes each request to its debugging log, which is off."""

import json
import logging

log = logging.getLogger("service")


def handle(request):
    if log.isEnabledFor(logging.DEBUG):
        log.debug("request %s", json.dumps(request))
    return sum(request["numbers"])


logging.basicConfig(level=logging.INFO)
request = {"numbers": list(range(3_000)), "user": "u"}
print(sum(handle(request) for _ in range(900)))
