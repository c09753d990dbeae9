"""One rank of NCCL: ten reductions in a group of one.

python tests/gpu/programs/nccl_rank.py            runs it
python tests/gpu/programs/nccl_rank.py --expected prints what a profile must say, without a GPU
"""

import json
import os
import sys

TIMES = 10
EXPECTED = {"routine": "all_reduce", "calls": TIMES}


def reduced(torch, numbers):
    for _ in range(TIMES):
        torch.distributed.all_reduce(numbers)
    torch.cuda.synchronize()
    return numbers


def main():
    import needs

    torch = needs.torch()
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"}
    torch.distributed.init_process_group("nccl", rank=0, world_size=1)
    assert reduced(torch, torch.ones(1 << 20, device="cuda"))[0].item() == 1
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    if sys.argv[1:] == ["--expected"]:
        print(json.dumps(EXPECTED, indent=1))
    else:
        main()
