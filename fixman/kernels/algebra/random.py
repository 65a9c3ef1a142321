"""Streams of normal numbers, one a replica: xoshiro256++ and a ziggurat of 256 layers.

A stream is four uint64 of a flat array, so that a checkpoint holds it and no other stream has a
part in it (Blackman & Vigna 2021; Marsaglia & Tsang 2000, with 52 random bits and the layer from
eight others).
"""

import math

import numpy as np
from numpy.typing import NDArray

from fixman.kernels.compiler.lanes import exact_kernel
from fixman.kernels.compiler.steps import step

TAIL = 3.6541528853610088  # where the bottom layer ends, and the area of each
AREA = 0.00492867323399
WORDS = 4


def _layers() -> tuple[NDArray[np.uint64], NDArray[np.float64], NDArray[np.float64]]:
    """Return what is inside each layer without a test, its width, and the density at its top."""
    edges = np.empty(257)
    edges[256] = AREA * math.exp(0.5 * TAIL * TAIL)
    edges[255] = TAIL
    for k in range(254, 0, -1):
        x = edges[k + 1] if k < 254 else TAIL
        edges[k] = math.sqrt(-2.0 * math.log(AREA / x + math.exp(-0.5 * x * x)))
    edges[0] = 0.0
    # Layer 0 is the bottom, with the tail; layer k from 1 on reaches to edges[k].
    outer = np.append(edges[256], edges[1:256])
    inner = np.append(TAIL, edges[:255])
    inside = (inner / outer * 2.0**52).astype(np.uint64)
    return inside, outer * 2.0**-52, np.exp(-0.5 * np.append(0.0, edges[1:256]) ** 2)


INSIDE, WIDTH, DENSITY = _layers()


@step
def rotated(x, k):
    return (x << k) | (x >> (64 - k))


@step
def following(a, b, c, d):
    """Return the next 64 bits and the four words after them."""
    bits = rotated(a + d, 23) + a
    t = b << 17
    c ^= a
    d ^= b
    b ^= c
    a ^= d
    c ^= t
    d = rotated(d, 45)
    return bits, a, b, c, d


@step
def fraction(bits):
    """Return a number in [0, 1) of 53 bits."""
    return (bits >> 11) * (1.0 / 9007199254740992.0)


@step
def words(streams, at):
    return streams[at], streams[at + 1], streams[at + 2], streams[at + 3]


@step
def put_words(streams, at, words):
    for k in range(WORDS):
        streams[at + k] = words[k]


@exact_kernel
def accepts(streams, at, change):
    """Metropolis: accept a change of the energy over kT with min(1, e^(−change)), never NaN."""
    a, b, c, d = words(streams, at)
    bits, a, b, c, d = following(a, b, c, d)
    put_words(streams, at, (a, b, c, d))
    return -math.inf < change and fraction(bits) < math.exp(-change)


@exact_kernel
def fill_normals(streams, at, count, out, first, stride):
    """Put ``count`` normal numbers of the stream at ``at`` into ``out[first::stride]``."""
    a, b, c, d = words(streams, at)
    for _ in range(count):
        while True:
            bits, a, b, c, d = following(a, b, c, d)
            layer = np.int64(bits & np.uint64(255))
            depth = (bits >> np.uint64(9)) & np.uint64(0x000FFFFFFFFFFFFF)
            x = np.float64(np.int64(depth)) * WIDTH[layer]
            if bits & np.uint64(256):
                x = -x
            if depth < INSIDE[layer]:
                break
            bits, a, b, c, d = following(a, b, c, d)
            u = fraction(bits)
            if layer > 0:
                low = DENSITY[layer]
                if low + (DENSITY[layer - 1] - low) * u < math.exp(-0.5 * x * x):
                    break
                continue
            while True:
                bits, a, b, c, d = following(a, b, c, d)
                excess = -math.log1p(-u) / TAIL
                y = -math.log1p(-fraction(bits))
                if y + y > excess * excess:
                    break
                bits, a, b, c, d = following(a, b, c, d)
                u = fraction(bits)
            x = math.copysign(TAIL + excess, x)
            break
        out[first] = x
        first += stride
    put_words(streams, at, (a, b, c, d))
