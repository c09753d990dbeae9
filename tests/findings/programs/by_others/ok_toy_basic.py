"""A little language: tokenizer, parser to closures, and a few programs run in it."""
import re

TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_]\w*)|(<=|==|[-+*/%<(){}=;]))")

PROGRAM = """
n = 1; best = 0; at = 0; sum = 0;
while n <= LIMIT {
    x = n; steps = 0;
    while 1 < x {
        if x % 2 == 0 { x = x / 2; } else { x = 3 * x + 1; } steps = steps + 1;
    }
    if best < steps { best = steps; at = n; } else { }
    sum = (sum * 7 + steps) % 1000003; n = n + 1;
}
"""

OPERATORS = {
    "+": lambda a, b: lambda e: a(e) + b(e),
    "-": lambda a, b: lambda e: a(e) - b(e),
    "*": lambda a, b: lambda e: a(e) * b(e),
    "/": lambda a, b: lambda e: a(e) // b(e),
    "%": lambda a, b: lambda e: a(e) % b(e),
    "<": lambda a, b: lambda e: a(e) < b(e),
    "<=": lambda a, b: lambda e: a(e) <= b(e),
    "==": lambda a, b: lambda e: a(e) == b(e),
}
LEVELS = [("<", "<=", "=="), ("+", "-"), ("*", "/", "%")]


def tokenize(text):
    return [m.group(m.lastindex) for m in TOKEN.finditer(text)]


class Parser:
    def __init__(self, tokens):
        self.tokens = tokens
        self.at = 0

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self, wanted=None):
        token = self.tokens[self.at]
        if wanted is not None and token != wanted:
            raise SyntaxError(f"{wanted!r} expected, {token!r} found")
        self.at += 1
        return token

    def expression(self, level=0):
        if level == len(LEVELS):
            return self.atom()
        left = self.expression(level + 1)
        while self.peek() in LEVELS[level]:
            left = OPERATORS[self.take()](left, self.expression(level + 1))
        return left

    def atom(self):
        token = self.take()
        if token == "(":
            inner = self.expression()
            self.take(")")
            return inner
        if token.isdigit():
            value = int(token)
            return lambda env: value
        return lambda env: env[token]

    def block(self, end):
        body = []
        while self.peek() != end:
            body.append(self.statement())
        if end:
            self.take(end)

        def run(env):
            for statement in body:
                statement(env)
        return run

    def statement(self):
        word = self.take()
        if word in ("while", "if"):
            test = self.expression()
            self.take("{")
            body = self.block("}")
            return self.loop(test, body) if word == "while" else self.branch(test, body)
        self.take("=")
        value = self.expression()
        self.take(";")
        return lambda env: env.__setitem__(word, value(env))

    def loop(self, test, body):
        def run(env):
            while test(env):
                body(env)
        return run

    def branch(self, test, body):
        self.take("else")
        self.take("{")
        other = self.block("}")
        return lambda env: body(env) if test(env) else other(env)


if __name__ == "__main__":
    run = Parser(tokenize(PROGRAM)).block(None)
    memory = {"LIMIT": 10000}
    run(memory)
    print(f"best={memory['best']} at={memory['at']} sum={memory['sum']}")
