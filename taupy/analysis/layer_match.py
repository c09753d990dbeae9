"""Match the layers of different trials.

Qualified names are compared first, without the prefixes of wrappers: `torch.compile` adds
`_orig_mod.`, `DistributedDataParallel` and similar classes add `module.`. Layers still without a
counterpart are matched by class and order, if the sides have equally many of that class left.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence

from taupy.analysis.match import Key, Rule

_WRAPPERS = ("_orig_mod", "module")


def matched_layers(sides: Sequence[Mapping[str, str]]) -> list[dict[str, Key]]:
    """Each side's layers -> the keys under which their values are added up.

    Args:
        sides: qualified name -> class of each layer, in the order of their first calls.
    """
    plain = [{name: unwrapped(name, kind) for name, kind in side.items()} for side in sides]
    keys: list[dict[str, Key]] = [{} for _ in sides]
    for at, side in enumerate(sides):
        others = [{*names.values()} for other, names in enumerate(plain) if other != at]
        for name in side:
            short = plain[at][name]
            if any(short in names for names in others):
                keys[at][name] = _key(short, "same" if all_have(sides, name) else "prefix")
    left = [
        [(name, kind) for name, kind in side.items() if name not in keyed]
        for side, keyed in zip(sides, keys, strict=True)
    ]
    for kind in dict.fromkeys(kind for side in left for _, kind in side):
        alike = [[name for name, its in side if its == kind] for side in left]
        if len({*map(len, alike)}) == 1:
            for names in zip(*alike, strict=True):
                for keyed, name in zip(keys, names, strict=True):
                    keyed[name] = _key(names[0], "position")
    for side, keyed in zip(sides, keys, strict=True):
        keyed.update({name: _key(name, "same") for name in side if name not in keyed})
    return keys


def all_have(sides: Sequence[Collection[str]], name: str) -> bool:
    return all(name in side for side in sides)


def unwrapped(name: str, kind: str) -> str:
    """A name without wrappers: `layer1.0` for `module._orig_mod.layer1.0`. For the wrapped model
    itself, its class, which is also its name without a wrapper."""
    first, _, rest = name.partition(".")
    while first in _WRAPPERS:
        if not rest:
            return kind
        name = rest
        first, _, rest = name.partition(".")
    return name


def _key(name: str, rule: Rule) -> Key:
    identity: Hashable = ("layer", name)
    return Key(identity, name, name, None, None, "", rule)
