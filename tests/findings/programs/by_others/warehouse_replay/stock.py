"""Stock ledger with all-or-nothing orders."""
import copy
from dataclasses import dataclass, field


class OutOfStock(Exception):
    pass


@dataclass
class Bin:
    sku: str
    on_hand: int
    reserved: int = 0


@dataclass
class Ledger:
    bins: dict = field(default_factory=dict)
    shipped: int = 0
    rejected: int = 0

    def stock(self, sku, quantity):
        if sku in self.bins:
            self.bins[sku].on_hand += quantity
        else:
            self.bins[sku] = Bin(sku, quantity)

    def take(self, sku, quantity):
        slot = self.bins[sku]
        if slot.on_hand < quantity:
            raise OutOfStock(sku)
        slot.on_hand -= quantity
        slot.reserved += quantity

    def place_order(self, lines):
        snapshot = copy.deepcopy(self.bins)
        try:
            for sku, quantity in lines:
                self.take(sku, quantity)
        except OutOfStock:
            self.bins = snapshot
            self.rejected += 1
            return False
        self.shipped += 1
        return True
