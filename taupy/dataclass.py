"""Dataclasses and named tuples that are defined in a tenth of the time, for the storer of a run.

The prompt waits for it, and for an empty program it waited longest for the definition of classes:
`dataclasses` imports `inspect` and compiles six functions for each, and `typing.NamedTuple`
compiles each annotation. Here `__init__` is compiled when the first object is made, the other
methods of dataclasses are the same for all, and annotations stay text. For the type checker, and
for `replace` and `astuple` of `dataclasses`, they are the usual ones. What is left out is not used:
classes without slots, inheritance of fields, `__post_init__`, `ClassVar`, generic tuples.
"""

from __future__ import annotations

from _operator import attrgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import replace as replace
    from typing import NamedTuple as NamedTuple
else:
    from collections import namedtuple

    class field:
        """A field whose default is created for each object."""

        __slots__ = ("default_factory",)

        def __init__(self, *, default_factory):
            self.default_factory = default_factory

    def dataclass(*, slots, frozen=False, order=False, kw_only=False):
        assert slots

        def with_slots(plain):
            names = tuple(plain.__annotations__)
            members = dict(plain.__dict__)
            defaults = {name: members.pop(name) for name in names if name in members}
            for name in ("__dict__", "__weakref__"):
                members.pop(name, None)
            values = attrgetter(*names) if len(names) > 1 else _alone(attrgetter(*names))
            members |= _methods(names, values, frozen, order)
            members |= {
                "__slots__": names,
                "__match_args__": () if kw_only else names,
                "__qualname__": plain.__qualname__,
                "__dataclass_fields__": _Fields(plain, defaults, kw_only),
            }
            cls = type(plain)(plain.__name__, plain.__bases__, members)

            def __init__(self, *args, **kwargs):
                cls.__init__ = _constructor(cls, names, defaults, frozen, kw_only)
                cls.__init__(self, *args, **kwargs)

            cls.__init__ = __init__
            return cls

        return with_slots

    def replace(instance, **changes):
        for name in instance.__slots__:
            if name not in changes:
                changes[name] = getattr(instance, name)
        return type(instance)(**changes)

    def _alone(value):
        return lambda instance: (value(instance),)

    def _constructor(cls, names, defaults, frozen, kw_only):
        parameters, body, scope = [], [], {"_set": object.__setattr__}
        for name in names:
            value, parameter = name, name
            if name in defaults:
                default = defaults[name]
                parameter = f"{name}=_{name}"
                scope[f"_{name}"] = default
                if isinstance(default, field):
                    scope[f"_new_{name}"] = default.default_factory
                    value = f"_new_{name}() if {name} is _{name} else {name}"
            parameters.append(parameter)
            body.append(f" _set(self, {name!r}, {value})" if frozen else f" self.{name} = {value}")
        first = ["self", "*"] if kw_only else ["self"]
        lines = [f"def __init__({', '.join(first + parameters)}):", *body]
        exec("\n".join(lines), scope)
        constructor = scope["__init__"]
        constructor.__qualname__ = f"{cls.__qualname__}.__init__"
        return constructor

    def _methods(names, values, frozen, order):
        def __eq__(self, other):
            if self is other:
                return True
            return values(self) == values(other) if _are_alike(self, other) else NotImplemented

        def __repr__(self):
            pairs = zip(names, values(self), strict=True)
            inside = ", ".join(f"{name}={value!r}" for name, value in pairs)
            return f"{type(self).__qualname__}({inside})"

        def __getstate__(self):
            return values(self)

        def __setstate__(self, state):
            for name, value in zip(names, state, strict=True):
                object.__setattr__(self, name, value)

        methods = [__eq__, __repr__, __getstate__, __setstate__]
        if frozen:

            def __hash__(self):
                return hash(values(self))

            methods += [__hash__, __setattr__, __delattr__]
        if order:

            def __lt__(self, other):
                return values(self) < values(other) if _are_alike(self, other) else NotImplemented

            def __le__(self, other):
                return values(self) <= values(other) if _are_alike(self, other) else NotImplemented

            def __gt__(self, other):
                return values(self) > values(other) if _are_alike(self, other) else NotImplemented

            def __ge__(self, other):
                return values(self) >= values(other) if _are_alike(self, other) else NotImplemented

            methods += [__lt__, __le__, __gt__, __ge__]
        return {**({} if frozen else {"__hash__": None}), **{m.__name__: m for m in methods}}

    def _are_alike(left, right):
        return left.__class__ is right.__class__

    def __setattr__(self, name, value):
        raise AttributeError(f"cannot assign to field {name!r}")

    def __delattr__(self, name):
        raise AttributeError(f"cannot delete field {name!r}")

    class _Fields:
        """`__dataclass_fields__`, as `dataclasses` would describe them, once it is asked for."""

        def __init__(self, plain, defaults, kw_only):
            self.plain, self.defaults, self.kw_only = plain, defaults, kw_only

        def __get__(self, instance, owner):
            import dataclasses

            members = {
                name: dataclasses.field(default_factory=default.default_factory)
                if isinstance(default, field)
                else default
                for name, default in self.defaults.items()
            }
            members["__annotations__"] = self.plain.__annotations__
            described = dataclasses.dataclass(
                type(self.plain.__name__, (), members), kw_only=self.kw_only
            )
            owner.__dataclass_fields__ = described.__dataclass_fields__
            return owner.__dataclass_fields__

    class _NamedTuples(type):
        """Makes the class of named tuples that a class statement describes."""

        def __new__(mcs, name, bases, members):
            if not bases:
                return super().__new__(mcs, name, bases, members)
            fields = members.pop("__annotations__")
            defaults = [members.pop(field) for field in fields if field in members]
            cls = namedtuple(name, fields, defaults=defaults, module=members["__module__"])
            cls.__annotations__ = fields
            for member, value in members.items():
                if member not in ("__module__", "__classcell__"):
                    setattr(cls, member, value)
            return cls

    class NamedTuple(metaclass=_NamedTuples):
        """The base that a named tuple names in its class statement."""
