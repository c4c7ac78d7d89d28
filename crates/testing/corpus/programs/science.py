"""Small numerical programs whole."""

import numpy as np

from harness import DEBUG, given, made, program, s32, updated


@program("science", grid=2, block=128, variants=DEBUG)
def fft(random):
    z = random.standard_normal((2, 256)) + 1j * random.standard_normal((2, 256))
    z = z.astype(np.complex64)
    out = np.fft.fft(z.astype(np.complex128), axis=1).astype(np.complex64)
    return [given(z.view(np.float32)), made(out.view(np.float32), rtol=1e-4, atol=1e-4)]


@program("science", grid=2, block=32, shared=8 * 17 * 17, variants=DEBUG)
def cholesky(random):
    b = random.standard_normal((2, 17, 17))
    a = b @ b.transpose(0, 2, 1) + 17 * np.eye(17)
    return [given(a), made(np.linalg.cholesky(a), rtol=1e-12, atol=1e-12), s32(17)]


@program("science", grid=3, block=32, variants=DEBUG)
def solve(random):
    a, b = random.standard_normal((3, 16, 16), np.float32), random.standard_normal((3, 16), np.float32)
    x = np.linalg.solve(a.astype(np.float64), b.astype(np.float64)[..., None])[..., 0]
    return [given(a), given(b), made(x.astype(np.float32), rtol=2e-3, atol=2e-3)]


@program("science", grid=2, block=64, variants=DEBUG)
def n_body(random):
    bodies = random.standard_normal((100, 4), np.float32)
    p = bodies[:, :3].astype(np.float64)
    d = p[None] - p[:, None]
    s = bodies[:, 3] * ((d ** 2).sum(2) + 0.01) ** -1.5
    return [given(bodies), made((d * s[..., None]).sum(1).astype(np.float32), rtol=1e-3, atol=1e-2), s32(100)]


@program("science", grid=1, block=128, variants=DEBUG)
def floyd_warshall(random):
    n = 20
    d = np.where(random.random((n, n)) < 0.2, random.integers(1, 50, (n, n)), 10000).astype(np.int32)
    np.fill_diagonal(d, 0)
    out = d.copy()
    for k in range(n):
        out = np.minimum(out, out[:, k:k + 1] + out[k:k + 1])
    return [updated(d, out), s32(n)]


@program("science", grid=1, block=64, variants=DEBUG)
def breadth_first(random):
    n = 200
    edges = [[] for _ in range(n)]
    for a, b in random.integers(0, n, (300, 2)):
        edges[a].append(b)
        edges[b].append(a)
    level, frontier, depth = np.full(n, -1, np.int32), [0], 0
    level[0] = 0
    while frontier:
        depth += 1
        following = []
        for v in frontier:
            for u in edges[v]:
                if level[u] == -1:
                    level[u] = depth
                    following.append(u)
        frontier = following
    rows = np.cumsum([0] + [len(e) for e in edges]).astype(np.int32)
    columns = np.array([u for e in edges for u in e], np.int32)
    return [given(rows), given(columns), updated(np.full(n, -1, np.int32), level), s32(n)]


@program("science", grid=1, block=64, shared=3 * 4 * 71, variants=DEBUG)
def edit_distance(random):
    a, b = random.integers(0, 4, (2, 70), np.uint8)
    row = np.arange(71)
    for i in range(70):
        following = [i + 1]
        for j in range(70):
            following.append(min(row[j + 1] + 1, following[j] + 1, row[j] + (a[i] != b[j])))
        row = np.array(following)
    return [given(a), given(b), made(np.array([row[70]], np.int32)), s32(70)]


@program("science", grid=7, block=96, variants=DEBUG)
def sparse(random):
    dense = np.where(random.random((20, 150)) < 0.3, random.standard_normal((20, 150)), 0)
    rows = np.cumsum([0] + [np.count_nonzero(r) for r in dense]).astype(np.int32)
    columns, x = np.nonzero(dense)[1].astype(np.int32), random.standard_normal(150)
    return [given(rows), given(columns), given(dense[dense != 0]), given(x), made(dense @ x, rtol=1e-12, atol=1e-12), s32(20)]


@program("science", grid=3, block=64, variants=DEBUG)
def monte_carlo(random):
    t = np.arange(192, dtype=np.uint64)
    s, hits, low = np.uint64(88172645463325252) + t * np.uint64(0x9E3779B97F4A7C15), 0, np.uint64(0xffff)
    for _ in range(50):
        s = s ^ s << np.uint64(13)
        s = s ^ s >> np.uint64(7)
        s = s ^ s << np.uint64(17)
        x, y = s >> np.uint64(11) & low, s >> np.uint64(40) & low
        hits += int((x * x + y * y < 2**32).sum())
    return [updated(np.zeros(1, np.uint64), np.array([hits], np.uint64)), s32(50)]


@program("science", grid=(3, 2), block=256, variants=DEBUG)
def blur(random):
    image = random.standard_normal((30, 41), np.float32)
    taps = np.array([0.03125, 0.109375, 0.21875, 0.28125, 0.21875, 0.109375, 0.03125])
    wide = np.pad(image.astype(np.float64), 3)
    across = sum(taps[k] * wide[:, k:k + 41] for k in range(7))
    out = sum(taps[k] * across[k:k + 30] for k in range(7))
    return [given(image), made(out.astype(np.float32), rtol=1e-5, atol=1e-5), s32(30), s32(41)]
