"""Turn a synthetic grey image into a printable halftone with error diffusion."""
import numpy as np


def make_image(height, width, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    image = 0.5 + 0.3 * np.sin(x / 23.0) * np.cos(y / 31.0)
    for _ in range(25):
        cy, cx = rng.uniform(0, height), rng.uniform(0, width)
        image += rng.uniform(-0.2, 0.2) * np.exp(-((y - cy) ** 2 + (x - cx) ** 2) / 900.0)
    return np.clip(image, 0, 1)


def sharpen(image, amount):
    padded = np.pad(image, 1, mode="edge")
    blurred = sum(padded[1 + dy: padded.shape[0] - 1 + dy, 1 + dx: padded.shape[1] - 1 + dx]
                  for dy in (-1, 0, 1) for dx in (-1, 0, 1)) / 9.0
    return np.clip(image + amount * (image - blurred), 0, 1)


def diffuse(image):
    height, width = image.shape
    work = np.pad(image, ((0, 1), (1, 1)))
    out = np.zeros((height, width))
    for y in range(height):
        for x in range(1, width + 1):
            old = work[y, x]
            new = 1.0 if old > 0.5 else 0.0
            out[y, x - 1] = new
            error = old - new
            work[y, x + 1] += error * 0.4375
            work[y + 1, x - 1] += error * 0.1875
            work[y + 1, x] += error * 0.3125
            work[y + 1, x + 1] += error * 0.0625
    return out


def run_lengths(row):
    edges = np.flatnonzero(np.diff(row)) + 1
    return np.diff(np.concatenate([[0], edges, [len(row)]]))


def ink_report(halftone):
    lengths = np.concatenate([run_lengths(row) for row in halftone])
    return halftone.mean(), lengths.mean(), int(lengths.max())


def spectrum_slope(image):
    power = np.abs(np.fft.rfft2(image - image.mean())) ** 2
    radius = np.hypot(*np.meshgrid(np.fft.fftfreq(image.shape[0]), np.fft.rfftfreq(image.shape[1]), indexing="ij"))
    keep = (radius > 0.01) & (radius < 0.4)
    return np.polyfit(np.log(radius[keep]), np.log(power[keep] + 1e-12), 1)[0]


def main():
    image = sharpen(make_image(640, 900, seed=61), amount=0.8)
    halftone = diffuse(image)
    mean, run, longest = ink_report(halftone)
    print(f"mean {mean:.6f} run {run:.4f} longest {longest} slope {spectrum_slope(halftone):.4f}")


if __name__ == "__main__":
    main()
