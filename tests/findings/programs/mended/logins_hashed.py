"""A service that checks passwords, while other requests ask for little."""

import asyncio
import hashlib


def check(password):
    return hashlib.pbkdf2_hmac("sha256", password.encode(), b"salt", 60_000).hex()


async def handle(reader, writer):
    operation, _, text = (await reader.readline()).decode().strip().partition(" ")
    answer = await asyncio.to_thread(check, text) if operation == "login" else text
    writer.write(answer.encode() + b"\n")
    await writer.drain()
    writer.close()


async def ask(port, line):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(line.encode() + b"\n")
    answer = await reader.readline()
    writer.close()
    return len(answer)


async def client(port, number):
    operation = "login" if number % 4 == 0 else "ping"
    return [await ask(port, f"{operation} {number}.{turn}") for turn in range(10)]


async def main():
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    answers = await asyncio.gather(*(client(port, number) for number in range(24)))
    server.close()
    print(sum(map(sum, answers)))


asyncio.run(main())
