"""Names that hurt whoever prints them, and code that is made and thrown away."""

from ..cases import WORK, Case

_RENAME = """
def work(): return 1
def call(name):
    code = work.__code__.replace(co_name=name, co_qualname=name)
    return type(work)(code, globals())()
"""


def _named(title: str, name: str) -> Case:
    return Case(f"name_{title}", _RENAME + f"print(call({ascii(name)}))\n", says="1", keeps={name: 1})


CASES = [
    _named("quotes", "a'b\"c`d"),
    _named("newline", "a\nb\r\nc"),
    _named("escape", "\x1b[31mred\x1b[0m\x07"),
    _named("bidi", "abc\u202edef\u2066x"),
    _named("spaces", "  a  b  "),
    _named("arrow", "a => b => c"),
    _named("tau_brackets", "f [{x.py}{3}]"),
    _named("html", "<script>alert(1)</script>&amp;"),
    _named("sql", "x'); DROP TABLE trial; --"),
    _named("formula", "=1+1"),
    _named("unicode", "日本語_é_𝔘𝔫𝔦"),
    _named("percent", "%s%n{}{0}$HOME"),
    Case("name_empty", _RENAME + "print(call(''))\n", says="1", keeps=()),
    Case("name_nul", _RENAME + "print(call('a\\0b'))\ndef later(): return 1\nlater()\n", says="1", keeps={"later": 1}),
    Case("name_surrogate", _RENAME + "print(call('a\\udc80b'))\ndef later(): return 1\nlater()\n", says="1", keeps={"later": 1}),
    Case("name_of_100_kb", _RENAME + "print(call('x' * 100_000))\ndef later(): return 1\nlater()\n", says="1", keeps={"later": 1}),
    Case("file_name_of_100_kb", WORK + "scope = {}\nexec(compile('def inner(): return 1\\ninner()', 'y' * 100_000, 'exec'), scope)\nprint(scope['inner']())\n", says="1", keeps={"work": 1, "inner": 2}),
    Case("file_names_odd", WORK + "for n, name in enumerate(('', 'a\\nb', '\\x1b[1m', '<string>', '/dev/null', 'a\\udc80', '..', 'C:\\\\x', 'http://x/y?z=1#f', '{}{1}')):\n    exec(compile(f'def inner_{n}(): return 1\\ninner_{n}()', name, 'exec'))\n", keeps={"work": 1, "inner_9": 1}),
    Case("first_line_odd", WORK + "for n in (0, 1, 2**30, 2**31 - 1):\n    type(work)(work.__code__.replace(co_firstlineno=n), globals())()\n"),
    Case("lambdas_and_comprehensions", "work = lambda n: [x for x in (lambda m: range(m))(n)]\nprint(work(3), (lambda: (lambda: 5)())())\n", says="[0, 1, 2] 5", keeps="<lambda>"),
    Case("same_names_in_many_places", "class A:\n    def work(self): return 1\nclass B(A):\n    def work(self): return super().work() + 1\ndef work(): return B().work()\nprint(work())\n", says="2", keeps={"A.work": 1, "B.work": 1, "work": 1}),
    Case("code_made_and_freed", "import gc\ndef work(n):\n    scope = {}\n    exec(f'def made(): return {n}', scope)\n    return scope['made']()\nprint(sum(work(n) for n in range(3000)))\ngc.collect()\n", says="4498500", keeps={"work": 3000, "made": 3000}),
    Case("code_at_the_same_address", "def work():\n    total = 0\n    for n in range(500):\n        for name in ('one', 'two'):\n            scope = {}\n            exec(f'def {name}(): return 1', scope)\n            total += scope[name]()\n    return total\nprint(work())\n", says="1000", keeps={"one": 500, "two": 500, "work": 1}),
    Case("ten_thousand_routines", "scope = {}\nsource = ''.join(f'def made_{n}(): return {n}\\n' for n in range(10000))\nexec(source, scope)\ndef work(): return sum(scope[f'made_{n}']() for n in range(10000))\nprint(work())\n", says="49995000", keeps={"work": 1, "made_0": 1, "made_9999": 1}),
    Case("huge_function", "body = ''.join(f'    x += {n}\\n' for n in range(20000))\nexec('def work():\\n    x = 0\\n' + body + '    return x\\n')\nprint(work())\n", says="199990000"),
    Case("many_arguments", "def work(*a, **k): return len(a) + len(k)\nprint(work(*range(100000), **{f'k{n}': n for n in range(1000)}))\n", says="101000"),
    Case("code_replaced_while_running", "def other(): return 'other'\ndef work():\n    work.__code__ = other.__code__\n    return 'work'\nprint(work(), work())\n", says="work other"),
    Case("function_attributes_lie", "def work(): return 1\nwork.__name__ = 'x'; work.__qualname__ = 'y'; work.__module__ = None; work.__doc__ = 5\nprint(work(), work)\n", says="<function y at", keeps={"work": 1}),
    Case("globals_lie", "code = compile('def work(): return __name__\\nprint(work())', 'f', 'exec')\nexec(code, {'__name__': 5, '__file__': [], '__builtins__': {'print': print}})\n", says="5"),
    Case("globals_are_a_subclass", "class D(dict):\n    def __missing__(self, key): return print\n    def __getitem__(self, key): return dict.get(self, key, print)\ndef work(): return 1\nexec('thing(1)', D())\nwork()\n"),
    Case("deep_nesting_of_names", "def work():\n    def a():\n        class B:\n            def c(self): return (lambda: 1)()\n        return B().c()\n    return a()\nprint(work())\n", says="1", keeps={"work.<locals>.a": 1}),
    Case("decorated_and_partial", "import functools\ndef deco(f):\n    @functools.wraps(f)\n    def inner(*a): return f(*a)\n    return inner\n@deco\n@functools.lru_cache\ndef work(n): return n\nclass C:\n    @property\n    def p(self): return work(2)\n    @staticmethod\n    def s(): return work(1)\n    @classmethod\n    def k(cls): return cls.s()\n    @functools.cached_property\n    def c(self): return 4\nprint(C().p, C.s(), C.k(), C().c, functools.partial(work, 3)())\n", says="2 1 1 4 3", keeps=("work", "C.s", "C.k")),
    Case("metaclasses_and_descriptors", "class Meta(type):\n    def __call__(cls, *a): return super().__call__(*a)\n    def __prepare__(name, bases): return {}\n    def __instancecheck__(cls, x): return True\nclass D:\n    def __get__(self, a, b): return 5\n    def __set_name__(self, o, n): self.n = n\n    def __init_subclass__(cls): print('sub')\nclass work(D, metaclass=Meta):\n    d = D()\nprint(work().d, isinstance(3, work))\n", says="sub\n5 True", keeps=("Meta.__call__",)),
]
