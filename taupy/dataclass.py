"""Dataclasses and named tuples that are defined in a tenth of the time, for the storer of a run.

The prompt waits for it, and for an empty program it waited longest for the definition of classes:
`dataclasses` imports `inspect` and compiles six functions for each, `typing.NamedTuple` compiles
each annotation and a constructor. Here the constructor is compiled when there are more than a few
objects, the other methods are the same for all, and annotations stay text. For the type checker,
and for `replace` and `astuple` of `dataclasses`, they are the usual ones. What is left out is not
used: classes without slots, inheritance of fields, `__post_init__`, `ClassVar`, generic tuples.
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
    from _collections import _tuplegetter

    _FEW = 16
    """Objects that are made without a compiled constructor. To compile it takes as long as to make
    some 60 objects so, and most classes of an empty run have one or two."""

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

            left = _FEW

            def __init__(self, /, *args, **kwargs):
                nonlocal left
                left -= 1
                may_fit = left >= 0 and not (kw_only and args)
                in_order = _in_order(args, kwargs, names, defaults) if may_fit else None
                if in_order is None:
                    cls.__init__ = _constructor(cls, names, defaults, frozen, kw_only)
                    cls.__init__(self, *args, **kwargs)
                    return
                for name, value in zip(names, in_order, strict=True):
                    object.__setattr__(self, name, value)

            cls.__init__ = __init__
            return cls

        return with_slots

    def replace(instance, **changes):
        # One of the standard library's may have no slots.
        for name in getattr(instance, "__slots__", None) or instance.__dataclass_fields__:
            if name not in changes:
                changes[name] = getattr(instance, name)
        return type(instance)(**changes)

    def _alone(value):
        return lambda instance: (value(instance),)

    def _in_order(args, kwargs, names, defaults):
        """The values of all fields in order; None if the arguments do not fit, which the compiled
        constructor explains."""
        given = {**dict(zip(names, args)), **kwargs}  # noqa: B905 - there may be too many
        values = {**defaults, **given}
        fit = len(given) == len(args) + len(kwargs) and values.keys() == {*names}
        return (
            [
                value.default_factory()
                if isinstance(value := values[name], field) and name not in given
                else value
                for name in names
            ]
            if fit
            else None
        )

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
        """Makes the class of named tuples that a class statement describes, as
        `collections.namedtuple` would."""

        def __new__(mcs, name, bases, members):
            if not bases:
                return super().__new__(mcs, name, bases, members)
            names = tuple(members["__annotations__"])
            defaults = {field: members.pop(field) for field in names if field in members}

            left = _FEW

            def __new__(cls, /, *args, **kwargs):
                nonlocal left
                left -= 1
                in_order = _in_order(args, kwargs, names, defaults) if left >= 0 else None
                if in_order is None:
                    complete.__new__ = _tuple_constructor(complete, names, defaults)
                    return complete.__new__(cls, *args, **kwargs)
                return tuple.__new__(cls, in_order)

            fields = {field: _tuplegetter(at, "") for at, field in enumerate(names)}
            facts = {"_fields": names, "_field_defaults": defaults, "__match_args__": names}
            members = {**_TUPLE_METHODS, **fields, **facts, **members}
            complete = type(name, (tuple,), {"__slots__": (), "__new__": __new__, **members})
            return complete

    def _tuple_constructor(cls, names, defaults):
        scope = {"_new": tuple.__new__, **{f"_{name}": defaults[name] for name in defaults}}
        parameters = [f"{name}=_{name}" if name in defaults else name for name in names]
        values = "".join(f"{name}, " for name in names)
        exec(f"def __new__(_cls, {', '.join(parameters)}): return _new(_cls, ({values}))", scope)
        constructor = scope["__new__"]
        constructor.__qualname__ = f"{cls.__qualname__}.__new__"
        return constructor

    def _make(cls, values):
        row = tuple.__new__(cls, values)
        if len(row) != len(cls._fields):
            raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(row)}")
        return row

    def _replace(self, /, **changes):
        row = self._make(map(changes.pop, self._fields, self))
        if changes:
            raise ValueError(f"Got unexpected field names: {list(changes)!r}")
        return row

    def _as_dict(self):
        return dict(zip(self._fields, self, strict=True))

    def _tuple_repr(self):
        pairs = zip(self._fields, self, strict=True)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in pairs)})"

    def _new_arguments(self):
        return tuple(self)

    _TUPLE_METHODS = {
        "_make": classmethod(_make),
        "_replace": _replace,
        "_asdict": _as_dict,
        "__replace__": _replace,
        "__repr__": _tuple_repr,
        "__getnewargs__": _new_arguments,
    }

    class NamedTuple(metaclass=_NamedTuples):
        """The base that a named tuple names in its class statement."""
