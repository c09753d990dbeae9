"""Asks one server over one connection, one question after another."""

import asyncio, struct, hashlib


async def serve(reader, writer):
    try:
        while True:
            head = await reader.readexactly(4)
            body = await reader.readexactly(struct.unpack("!I", head)[0])
            await asyncio.sleep(0.008)
            writer.write(hashlib.sha256(body).digest())
            await writer.drain()
    except asyncio.IncompleteReadError:
        writer.close()


class Client:
    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    async def ask(self, body):
        self.writer.write(struct.pack("!I", len(body)) + body)
        await self.writer.drain()
        return await self.reader.readexactly(32)


async def session(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    client = Client(reader, writer)
    seen = 0
    for k in range(120):
        digest = await client.ask(b"block %d" % k)
        seen ^= digest[0]
    writer.close()
    return seen


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    one = await session(port)
    server.close()
    print(one)


asyncio.run(main())
