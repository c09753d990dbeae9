"""Audits a backup folder: sizes, checksums of the system tool, and groups of equal files."""
import collections
import pathlib
import random
import subprocess
import tempfile

FILES = 480


def fill(folder, seed):
    rng = random.Random(seed)
    bodies = [rng.randbytes(rng.randrange(2000, 30000)) for _ in range(FILES // 3)]
    for n in range(FILES):
        sub = folder / f"set{n % 12:02d}"
        sub.mkdir(exist_ok=True)
        (sub / f"blob{n:04d}.bin").write_bytes(rng.choice(bodies))


def parse_line(line):
    crc, size, name = line.split(" ", 2)
    return pathlib.Path(name), (int(crc), int(size))


class Auditor:
    def __init__(self, folder):
        self.folder = folder
        self.sums = {}

    def paths(self):
        return sorted(p for p in self.folder.rglob("*.bin") if p.is_file())

    def checksums(self, paths):
        for path in paths:
            done = subprocess.run(["cksum", str(path)], capture_output=True, text=True, check=True)
            name, entry = parse_line(done.stdout.rstrip("\n"))
            self.sums[name] = entry

    def groups(self):
        groups = collections.defaultdict(list)
        for path, entry in self.sums.items():
            groups[entry].append(path)
        return [sorted(g) for g in groups.values() if len(g) > 1]

    def entropy_class(self, path):
        counts = collections.Counter(path.read_bytes())
        return sum(1 for c in counts.values() if c > 60)


def main():
    with tempfile.TemporaryDirectory() as tmp:
        folder = pathlib.Path(tmp)
        fill(folder, 14)
        auditor = Auditor(folder)
        paths = auditor.paths()
        auditor.checksums(paths)
        groups = auditor.groups()
        spread = sum(auditor.entropy_class(p) for p in paths)
        mark = sum(crc for crc, _ in auditor.sums.values()) % 1000003
        size = sum(size for _, size in auditor.sums.values())
        print(f"files={len(paths)} bytes={size} equal={len(groups)} spread={spread} mark={mark}")


if __name__ == "__main__":
    main()
