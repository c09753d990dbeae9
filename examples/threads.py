"""Compress a text with a pool of threads, block by block, and check the result.

    python threads.py --threads 4 --blocks 24

Each block becomes one member of a gzip file, so the joined members are a valid gzip
file. zlib releases the interpreter's lock, so the threads run in parallel.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import random
from concurrent.futures import ThreadPoolExecutor

BLOCK_BYTES = 128 * 1024
VOWELS = "aeiou"
CONSONANTS = "bdfgklmnprst"


def make_words(count: int, source: random.Random) -> list[str]:
    return [
        "".join(
            source.choice(CONSONANTS) + source.choice(VOWELS) for _ in range(source.randint(1, 4))
        )
        for _ in range(count)
    ]


def make_block(number: int) -> bytes:
    """A block of text; the same number always gives the same text."""
    source = random.Random(number)
    words = make_words(500, source)
    text = " ".join(source.choices(words, k=BLOCK_BYTES // 4))
    return text.encode()[:BLOCK_BYTES]


def compress_block(block: bytes) -> bytes:
    return gzip.compress(block, compresslevel=9, mtime=0)


def checksum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def main() -> None:
    parser = argparse.ArgumentParser(description="Compress a text with a pool of threads.")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--blocks", type=int, default=24)
    arguments = parser.parse_args()

    blocks = [make_block(number) for number in range(arguments.blocks)]
    text = b"".join(blocks)
    with ThreadPoolExecutor(arguments.threads, thread_name_prefix="compress") as pool:
        members = list(pool.map(compress_block, blocks))
    compressed = b"".join(members)

    print(f"{arguments.blocks} blocks, {len(text)} bytes, sha256 {checksum(text)}")
    print(f"compressed to {len(compressed)} bytes, {100 * len(compressed) / len(text):.1f} %")
    print("restored:", "same text" if gzip.decompress(compressed) == text else "DIFFERENT TEXT")


if __name__ == "__main__":
    main()
