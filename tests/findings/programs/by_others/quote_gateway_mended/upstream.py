"""A local stand-in for the market-data vendor's REST interface."""
import json
import threading
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlparse

VENDOR_LATENCY = 0.035


class VendorHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        url = urlparse(self.path)
        symbol = parse_qs(url.query).get("symbol", ["?"])[0]
        time.sleep(VENDOR_LATENCY)
        base = zlib.crc32(symbol.encode()) % 50_000 / 100 + 5
        body = json.dumps({
            "symbol": symbol,
            "bid": round(base * 0.999, 4),
            "ask": round(base * 1.001, 4),
            "volume": zlib.crc32(symbol[::-1].encode()) % 10_000,
        }).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class VendorServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


def start_vendor():
    server = VendorServer(("127.0.0.1", 0), VendorHandler)
    threading.Thread(target=server.serve_forever, name="vendor", daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_address[1]}"
