import numpy as np

from flow import Flow, patches

SIZE = 192
STEPS = 330
DT = 0.004


def main():
    flow = Flow(SIZE, viscosity=8e-4)
    w_hat = np.fft.rfft2(patches(SIZE, seed=6)) * flow.keep
    for n in range(STEPS + 1):
        if n % 55 == 0:
            w = flow.back(w_hat)
            i, j = np.unravel_index(np.argmax(np.abs(w)), w.shape)
            print(
                f"t {n * DT:6.3f} energy {flow.energy(w_hat):.6f} enstrophy {flow.enstrophy(w_hat):.4f} "
                f"strongest {w[i, j]:.3f} at ({i}, {j})"
            )
        w_hat = flow.step(w_hat, DT)
    print("done")


if __name__ == "__main__":
    main()
