"""Replays a burst of API traffic through the entitlement service."""
import asyncio
import random
from collections import Counter

from backend import ProfileClient, start_backend
from cache import ProfileCache

SESSIONS = 40
REQUESTS_PER_SESSION = 30
USERS = 150
LIMITS = {"free": 10, "team": 50, "business": 200, "enterprise": 1000}


async def authorise(cache, user_id, action):
    profile = await cache.get(user_id)
    limit = LIMITS[profile["plan"]] + profile["seats"]
    allowed = action["cost"] <= limit and action["feature"] not in profile["flags"]
    return profile["plan"], allowed


async def run_session(cache, number, tally):
    rng = random.Random(1000 + number)
    for _ in range(REQUESTS_PER_SESSION):
        user_id = min(int(rng.paretovariate(0.6) * 3), 10_000) % USERS
        action = {"cost": rng.randint(1, 400), "feature": f"f{rng.randrange(8)}"}
        plan, allowed = await authorise(cache, user_id, action)
        tally[plan, allowed] += 1


async def replay():
    server, port = await start_backend()
    client = ProfileClient(port)
    await client.connect()
    cache = ProfileCache(client)
    tally = Counter()
    await asyncio.gather(*(run_session(cache, n, tally) for n in range(SESSIONS)))
    await client.close()
    server.close()
    return cache, client, tally


def main():
    cache, client, tally = asyncio.run(replay())
    for (plan, allowed), count in sorted(tally.items()):
        print(f"{plan:<11}{'allow' if allowed else 'deny':<6}{count}")
    print(f"hits={cache.hits} misses={cache.misses} backend_calls={client.calls}")


if __name__ == "__main__":
    main()
