"""Linear regression with JAX: two jitted functions, one of them inside a helper."""

import os

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp


def loss(weights, inputs, targets):
    return ((inputs @ weights - targets) ** 2).mean()


@jax.jit
def update(weights, inputs, targets):
    return weights - 0.1 * jax.grad(loss)(weights, inputs, targets)


@jax.jit
def evaluate(weights, inputs, targets):
    return loss(weights, inputs, targets)


def call(function, *arguments):
    return function(*arguments)


keys = jax.random.split(jax.random.key(1), 2)
inputs, weights = jax.random.normal(keys[0], (64, 4)), jnp.zeros(4)
targets = inputs @ jnp.arange(4.0)
for step in range(20):
    weights = call(update, weights, inputs, targets)
    if step % 5 == 4:
        print(float(call(evaluate, weights, inputs, targets)))
