"""Forgeries of a run folder, by seed: whatever is changed, check sums and identity are made good.

What no reader could notice is left out: other finite numbers in an old block, another seed, or
another time step, each signed anew.
"""

from __future__ import annotations

import json
import shutil

import numpy as np

from fixman.simulation.archives import pack
from fixman.simulation.runfiles import identify

JUNK = (None, "abc", -1, 0, 1.5, 1e30, [], {}, 2**60, True, [[]], {"": None}, "x" * 1000, -(2**70))
LAST = "block_000003.npz"


def arrays_of(path):
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def sign_anew(folder, about):
    """Give run.json an identity that fits it, and all files the same."""
    about = identify(about)
    (folder / "run.json").write_text(json.dumps(about))
    for path in folder.glob("*.npz"):
        path.write_bytes(pack(arrays_of(path) | {"run": np.array(about["id"])}))


def a_file(folder, rng):
    return folder / rng.choice(sorted(path.name for path in folder.glob("*.npz")))


def an_array(arrays, rng, *without):
    return str(rng.choice(sorted(set(arrays) - set(without))))


def shapes(folder, rng):
    path = a_file(folder, rng)
    arrays = arrays_of(path)
    name = an_array(arrays, rng)
    array = arrays[name]
    change = rng.integers(6)
    if change == 0 or array.ndim == 0:
        array = array[None]
    elif change == 1:
        array = array[:-1]
    elif change == 2:
        array = array[..., :1] if array.shape[-1] != 1 else array[..., :0]
    elif change == 3:
        array = np.concatenate([array, array[-1:]])
    elif change == 4:
        array = array.reshape(-1)[:, None]
    else:
        array = array[:0]
    path.write_bytes(pack(arrays | {name: array}))
    return f"{path.name} {name} {array.shape}"


def types(folder, rng):
    path = a_file(folder, rng)
    arrays = arrays_of(path)
    name = an_array(arrays, rng, "run")
    kind = rng.choice(["float32", "int32", "uint64", "complex128", "<U5", "bool", ">f8", "float64"])
    with np.errstate(all="ignore"):
        array = arrays[name].astype(kind)
    path.write_bytes(pack(arrays | {name: array}))
    return f"{path.name} {name} as {kind}"


def values(folder, rng):
    point = bool(rng.integers(2))
    path = folder / ("checkpoint.npz" if point else LAST)
    arrays = arrays_of(path)
    name = an_array(arrays, rng, "run", "state_targets")
    array = arrays[name].copy()
    if name == "state_random":  # other streams are as good as these; dead ones are not
        array[rng.integers(len(array))] = 0
    elif array.dtype.kind == "f":
        bad = [np.nan, np.inf, -1e300, 1e300, 0.0, 1.0]
        # Of a block the last frame, which is the state.
        array[-1].reshape(-1)[rng.integers(array[-1].size)] = rng.choice(bad)
    else:
        bad = [-1, 10**18, -(2**63), 2**63 - 1, 1000, 3]
        flat = array.reshape(-1)
        flat[rng.integers(flat.size)] = rng.choice(bad)
    path.write_bytes(pack(arrays | {name: array}))
    return f"{path.name} {name} forged"


def targets(folder, rng):
    path = folder / "checkpoint.npz"
    arrays = arrays_of(path)
    array = arrays["state_targets"].copy()
    array.reshape(-1)[rng.integers(array.size)] *= rng.choice([-1.0, 0.0, 1.01, np.inf, np.nan])
    path.write_bytes(pack(arrays | {"state_targets": array}))
    return "targets"


def members(folder, rng):
    path = a_file(folder, rng)
    arrays = arrays_of(path)
    name = an_array(arrays, rng)
    if rng.integers(2):
        arrays[f"{name}_more"] = arrays[name]
    else:
        del arrays[name]
    path.write_bytes(pack(arrays))
    return f"{path.name}: {name} left out or doubled"


def compressed(folder, rng):
    path = a_file(folder, rng)
    np.savez_compressed(path, **arrays_of(path))
    return f"{path.name} compressed"


def swaps(folder, rng):
    one, two = a_file(folder, rng), a_file(folder, rng)
    content = one.read_bytes(), two.read_bytes()
    one.write_bytes(content[1])
    if rng.integers(2):
        two.write_bytes(content[0])
    return f"{one.name} {two.name}"


def order(folder, rng):
    path = folder / f"block_{rng.integers(4):06d}.npz"
    arrays = arrays_of(path)
    turned = arrays["step"][::-1]
    path.write_bytes(pack(arrays | {"step": turned} if rng.integers(2) else arrays))
    if path.name == LAST:
        path.write_bytes(pack(arrays | {"x": arrays["x"][::-1]}))
    return f"{path.name} in another order"


def bits(folder, rng):
    path = folder / rng.choice(sorted(p.name for p in folder.iterdir() if p.name != ".lock"))
    content = bytearray(path.read_bytes())
    for _ in range(rng.integers(1, 4)):
        content[rng.integers(len(content))] ^= 1 << rng.integers(8)
    path.write_bytes(content if rng.integers(4) else content[: rng.integers(len(content))])
    return f"bits of {path.name}"


def things(folder, rng):
    names = sorted(p.name for p in folder.iterdir())
    path = folder / rng.choice([*names, "block_000009.npz.tmp", "checkpoint.npz.tmp"])
    path.unlink(missing_ok=True)
    what = rng.integers(3)
    if what == 0:
        path.mkdir()
    elif what == 1:
        path.symlink_to(path.name)
    return f"{path.name} is {['a folder', 'a loop', 'gone'][what]}"


def entries(folder, rng):
    about = json.loads((folder / "run.json").read_text())
    name = str(rng.choice(sorted(set(about) - {"id"})))
    inner = about[name]
    value = JUNK[rng.integers(len(JUNK))]
    if isinstance(inner, dict) and inner and rng.integers(2):
        key = str(rng.choice(sorted(inner)))
        if name in ("stepper", "chain") and value in (1.5, 1e30, True, 2**60):
            value = None if key != "potential" else 0  # another dt is no forgery
        if name != "chain" or key not in ("extra", "redundant", "hard"):
            inner[key] = value
    elif rng.integers(4):
        about[name] = value
    else:
        del about[name]
    if rng.integers(3):
        sign_anew(folder, about)
    else:
        (folder / "run.json").write_text(json.dumps(about))
    return f"{name} in run.json, {value!r:.30}"


def documents(folder, rng):
    path = folder / "run.json"
    text = path.read_bytes()
    kinds = [
        b"[" * 100_000,
        b'{"fixman_run": 1, "a": ' + b"[" * 100_000,
        text.replace(b'"steps"', b'"st\xff\xfe"'),
        text.replace(b"0.02", b"NaN"),
        text.replace(b"0.02", b"1e999"),
        text.replace(b"20", b"9" * 5000),
        b"",
        b"null",
        text[: len(text) // 2],
        text.replace(b'"fixman_run": 1', b'"fixman_run": true'),
        text.replace(b'"fixman_run": 1', b'"fixman_run": "one"'),
    ]
    which = int(rng.integers(len(kinds)))
    path.write_bytes(kinds[which])
    return f"document {which}"


FORGERS = (
    shapes,
    types,
    values,
    targets,
    members,
    compressed,
    swaps,
    order,
    bits,
    things,
    entries,
    documents,
)


def forge(source, folder, seed):
    """Copy a run folder, and change the copy; returns by which forger, and what."""
    shutil.copytree(source, folder)
    rng = np.random.default_rng(seed)
    forger = FORGERS[seed % len(FORGERS)]
    return forger.__name__, forger(folder, rng)
