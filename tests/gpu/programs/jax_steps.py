"""JAX: twenty steps of a compiled function, whose kernels a pool of XLA's launches.

python tests/gpu/programs/jax_steps.py            runs them
python tests/gpu/programs/jax_steps.py --expected prints what a profile must say, without a GPU
"""

import json
import sys

STEPS = 20
EXPECTED = {
    "module": "jit_step",  # of XLA's ranges, which its kernels belong under
    "launches of each kernel are a multiple of": STEPS,
    "share of GPU time with a call path": 0.99,
}


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
