"""Numbers are packed by a codec that is looked for at every call, in two places."""

import struct


class Packer:
    try:
        from fast_codec import pack as _pack
    except ImportError:
        _pack = staticmethod(struct.pack)

    def pack(self, number):
        return self._pack("<q", number)


packer = Packer()
print(sum(packer.pack(number)[0] for number in range(3_000)))
