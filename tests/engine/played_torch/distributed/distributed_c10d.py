"""Plays the module of this name: groups of one process, whose backend works on threads."""

import torch

_pg_names = {}
_pg_group_ranks = {}


class Group:
    def __init__(self, name, ranks):
        self.name = name.encode()
        torch._C.played_group(self.name)
        _pg_names[self] = name
        _pg_group_ranks[self] = {rank: at for at, rank in enumerate(ranks)}


class World:
    def __init__(self):
        self._default_pg = None


_world = World()


class HashStore:
    pass


def init_process_group(backend, ranks=(0,), **_):
    _world._default_pg = new_group(ranks)
    return _world._default_pg


def destroy_process_group():
    _world._default_pg = None
    _pg_names.clear()
    _pg_group_ranks.clear()


def new_group(ranks):
    return Group(str(len(_pg_names)), ranks)


def ask(name, size, group=None):
    group = group or next(iter(_pg_names))
    torch._C.played_ask(group.name, name, size)
    return group


def all_reduce(tensor, group=None, async_op=False):
    group = ask(b"gloo:all_reduce", tensor.nbytes, group)
    if not async_op:
        torch._C.played_wait(group.name)


def barrier(group=None):
    torch._C.played_wait(ask(b"gloo:barrier", 0, group).name)


def send(tensor, to):
    ask(b"gloo:send", tensor.nbytes)


def isend(tensor, dst=None, group=None, tag=0, group_dst=None):
    ask(b"gloo:send", tensor.nbytes, group)


def irecv(tensor, src=None, group=None, tag=0, group_src=None):
    ask(b"gloo:recv", tensor.nbytes, group)


def recv(tensor, src=None, group=None, tag=0, group_src=None):
    irecv(tensor, src, group, tag, group_src)
