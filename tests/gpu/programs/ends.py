"""How a program that uses a GPU may end, or what may happen in it: `ends.py MODE`.

Whatever the mode, `train` adds to a tensor LAUNCHES times: as many kernels of its must be in the
trial (with `sigkill` those that were flushed, once a second; with `profiler` twice as many).
"""

import os
import signal
import sys
import time

LAUNCHES = 5501
MODES = ("exit", "_exit", "fork", "dataloader", "sigkill", "profiler")


def train(torch):
    x = torch.zeros(16, device="cuda")
    for _ in range(LAUNCHES):
        x += 1
    torch.cuda.synchronize()
    assert x[0].item() == LAUNCHES


def fork():
    """A child that never touches CUDA, and ends with Python's own clean-up."""
    if os.fork() == 0:
        sys.exit(0)
    os.wait()


def dataloader(torch):
    data = torch.utils.data.TensorDataset(torch.arange(64))
    for (batch,) in torch.utils.data.DataLoader(data, batch_size=8, num_workers=2):
        batch.cuda()


def main(mode):
    import needs

    torch = needs.torch()
    if mode == "profiler":
        with torch.profiler.profile(activities=list(torch.profiler.supported_activities())) as own:
            train(torch)
        print(len(own.events()), "events of torch.profiler's own")
    train(torch)
    if mode == "fork":
        fork()
    elif mode == "dataloader":
        dataloader(torch)
    elif mode == "_exit":
        os._exit(3)
    elif mode == "sigkill":
        time.sleep(2.5)
        os.kill(os.getpid(), signal.SIGKILL)
    sys.exit(0 if mode != "exit" else 3)


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in MODES:
        sys.exit(f"usage: ends.py {'|'.join(MODES)}")
    main(sys.argv[1])
