"""Rolls prices and lead times up through the bill of materials."""


class Costing:
    def __init__(self, items, labour_rate=1.15):
        self.items = items
        self.labour_rate = labour_rate
        self.known = {}

    def roll_up(self, code):
        """Return (unit cost, lead time in days) of an item."""
        if code in self.known:
            return self.known[code]
        item = self.items[code]
        cost = item.price + item.labour * self.labour_rate
        lead = 0
        for child, quantity in item.components:
            child_cost, child_lead = self.roll_up(child)
            cost += child_cost * quantity
            lead = max(lead, child_lead)
        self.known[code] = cost, lead + item.lead_days
        return self.known[code]

    def margin(self, code, markup):
        cost, _ = self.roll_up(code)
        return cost * markup - cost
