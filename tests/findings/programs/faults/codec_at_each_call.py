"""Numbers are packed by a codec that is looked for at every call, in two places."""

import struct


class Packer:
    def pack(self, number):
        try:
            from fast_codec import pack
        except ImportError:
            pack = struct.pack
        return pack("<q", number)


packer = Packer()
print(sum(packer.pack(number)[0] for number in range(3_000)))
