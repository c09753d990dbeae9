"""A server that logs every request, to a file."""

import logging
import tempfile


class Server:
    def __init__(self, log):
        self.log = log
        self.served = 0

    def serve(self, path):
        self.served += len(path)
        if self.served % 20_000 < len(path):
            self.log.info("served %s, %d bytes so far", path, self.served)


with tempfile.NamedTemporaryFile("w", suffix=".log") as file:
    logging.basicConfig(filename=file.name, level=logging.INFO)
    server = Server(logging.getLogger("server"))
    for number in range(25_000):
        server.serve(f"/{number % 90}")
print(server.served)
