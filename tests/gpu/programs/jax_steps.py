"""JAX: twenty steps of a compiled function.

The program's own thread launches its kernels. While XLA compiles, its pool of threads tries kernels
of its own and of cuBLAS: these have no call path, only XLA's ranges.

python tests/gpu/programs/jax_steps.py            runs them
python tests/gpu/programs/jax_steps.py --expected prints what a profile must say, without a GPU
"""

import json
import sys

STEPS = 20
EXPECTED = {"routine": "train", "launches of each kernel of the step": STEPS}


def train(jax):
    @jax.jit
    def step(weights, x):
        def loss(w):
            return jax.numpy.mean((jax.numpy.tanh(x @ w) - 1) ** 2)

        return weights - 0.1 * jax.grad(loss)(weights)

    weights, x = jax.numpy.ones((1024, 1024)), jax.numpy.ones((512, 1024))
    for _ in range(STEPS):
        weights = step(weights, x)
    weights.block_until_ready()


if __name__ == "__main__":
    if sys.argv[1:] == ["--expected"]:
        print(json.dumps(EXPECTED, indent=1))
    else:
        import needs

        train(needs.jax())
