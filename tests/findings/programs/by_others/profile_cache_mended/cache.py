"""Read-through cache in front of the profile backend."""
import asyncio
from collections import OrderedDict


class ProfileCache:
    """Every user is looked up at most once while the entry stays in the cache."""

    def __init__(self, client, capacity=1000):
        self.client = client
        self.capacity = capacity
        self.entries = OrderedDict()
        self.pending = {}
        self.hits = 0
        self.misses = 0

    async def get(self, user_id):
        if user_id in self.entries:
            self.hits += 1
            self.entries.move_to_end(user_id)
            return self.entries[user_id]
        pending = self.pending.get(user_id)
        if pending is not None:
            self.hits += 1
            return await asyncio.shield(pending)
        self.misses += 1
        pending = asyncio.ensure_future(self._load(user_id))
        self.pending[user_id] = pending
        return await asyncio.shield(pending)

    async def _load(self, user_id):
        try:
            profile = await self.client.fetch(user_id)
            self._store(user_id, profile)
            return profile
        finally:
            del self.pending[user_id]

    def _store(self, user_id, profile):
        self.entries[user_id] = profile
        while len(self.entries) > self.capacity:
            self.entries.popitem(last=False)
