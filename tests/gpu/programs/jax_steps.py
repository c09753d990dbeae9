"""JAX: twenty steps of a compiled function, whose kernels a pool of XLA's launches."""

import jax
import jax.numpy as jnp

STEPS = 20


@jax.jit
def step(weights, x):
    gradient = jax.grad(lambda w: jnp.mean((jnp.tanh(x @ w) - 1) ** 2))(weights)
    return weights - 0.1 * gradient


def train():
    weights, x = jnp.ones((1024, 1024)), jnp.ones((512, 1024))
    for _ in range(STEPS):
        weights = step(weights, x)
    weights.block_until_ready()


assert jax.default_backend() == "gpu", "JAX finds no GPU here"
train()
