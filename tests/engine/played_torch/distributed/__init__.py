from torch.distributed.distributed_c10d import (  # noqa: F401
    HashStore,
    all_reduce,
    barrier,
    destroy_process_group,
    init_process_group,
    new_group,
)
