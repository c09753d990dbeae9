"""Shortest paths on a grid of roads, strongly connected parts, and a spanning tree."""
import heapq
import random

SIDE = 110


def make_grid(seed):
    rng = random.Random(seed)
    graph = [[] for _ in range(SIDE * SIDE)]
    for y in range(SIDE):
        for x in range(SIDE):
            here = y * SIDE + x
            for dx, dy in ((1, 0), (0, 1)):
                nx, ny = x + dx, y + dy
                if nx < SIDE and ny < SIDE and rng.random() > 0.12:
                    there, length = ny * SIDE + nx, rng.randrange(1, 50)
                    graph[here].append((there, length))
                    if rng.random() > 0.2:
                        graph[there].append((here, length))
    return graph


def dijkstra(graph, source):
    best = {source: 0}
    heap, done = [(0, source)], set()
    while heap:
        cost, node = heapq.heappop(heap)
        if node in done:
            continue
        done.add(node)
        for other, length in graph[node]:
            total = cost + length
            if total < best.get(other, 1 << 60):
                best[other] = total
                heapq.heappush(heap, (total, other))
    return best


def reversed_graph(graph):
    back = [[] for _ in graph]
    for node, edges in enumerate(graph):
        for other, length in edges:
            back[other].append((node, length))
    return back


def finish_order(graph):
    seen, order = bytearray(len(graph)), []
    for root in range(len(graph)):
        if seen[root]:
            continue
        seen[root] = 1
        stack = [(root, iter(graph[root]))]
        while stack:
            node, edges = stack[-1]
            for other, _ in edges:
                if not seen[other]:
                    seen[other] = 1
                    stack.append((other, iter(graph[other])))
                    break
            else:
                stack.pop()
                order.append(node)
    return order


def components(graph):
    back, label = reversed_graph(graph), [-1] * len(graph)
    sizes = []
    for root in reversed(finish_order(graph)):
        if label[root] >= 0:
            continue
        label[root], stack, size = len(sizes), [root], 0
        while stack:
            node = stack.pop()
            size += 1
            for other, _ in back[node]:
                if label[other] < 0:
                    label[other] = len(sizes)
                    stack.append(other)
        sizes.append(size)
    return sizes


def main():
    graph = make_grid(6)
    rng = random.Random(7)
    total = reached = far = 0
    for source in rng.sample(range(SIDE * SIDE), 36):
        best = dijkstra(graph, source)
        reached += len(best)
        far = max(far, max(best.values()))
        total += sum(best.values())
    sizes = components(graph)
    print(f"reached={reached} far={far} total={total} parts={len(sizes)} largest={max(sizes)}")


if __name__ == "__main__":
    main()
