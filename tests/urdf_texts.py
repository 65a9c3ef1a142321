"""URDF texts for tests: elements, a small robot with branches, random trees."""

from __future__ import annotations

import numpy as np

KINDS = ("revolute", "continuous", "prismatic")


def numbers(values):
    return " ".join(f"{x:.17g}" for x in np.ravel(values))


def link(name, mass=None, centre=(0, 0, 0), moments=(1, 1, 1), rpy=(0, 0, 0), products=(0, 0, 0)):
    if mass is None:
        return f'<link name="{name}"/>'
    (xx, yy, zz), (xy, xz, yz) = moments, products
    return f"""<link name="{name}"><inertial>
      <origin xyz="{numbers(centre)}" rpy="{numbers(rpy)}"/><mass value="{mass:.17g}"/>
      <inertia ixx="{xx:.17g}" ixy="{xy:.17g}" ixz="{xz:.17g}" iyy="{yy:.17g}" iyz="{yz:.17g}"
        izz="{zz:.17g}"/></inertial></link>"""


def joint(name, kind, parent, child, xyz=(0, 0, 0), rpy=(0, 0, 0), axis=(0, 0, 1), more=""):
    return f"""<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>
      <origin xyz="{numbers(xyz)}" rpy="{numbers(rpy)}"/><axis xyz="{numbers(axis)}"/>{more}
      <limit lower="-1" upper="1" effort="1" velocity="1"/></joint>"""


def robot(*elements):
    return '<?xml version="1.0"?>\n<robot name="r">\n' + "\n".join(elements) + "\n</robot>\n"


def random_tree(n, rng, kinds=KINDS, floating=False):
    """Return a text with n links l0 … below the root, and the name of the one furthest from it."""
    elements, depth, named = [link("root")], [0], ["root"]
    for i in range(n):
        cloud = rng.normal(size=(6, 3)) * 0.2
        second = np.cov(cloud.T)
        tensor = np.trace(second) * np.eye(3) - second
        parent = int(rng.integers(max(floating and i > 0, len(named) - 2), len(named)))
        kind = kinds[rng.integers(len(kinds))]
        if i == 0:
            kind = "floating" if floating else "fixed"
        elif rng.random() < 0.3:
            kind = "fixed"
        moments, products = np.diag(tensor), tensor[[0, 0, 1], [1, 2, 2]]
        rest = rng.normal(size=3), moments, rng.normal(size=3), products
        elements.append(link(f"l{i}", rng.uniform(0.5, 2.0), *rest))
        if kind == "fixed" and i > 0:
            elements[-1] = link(f"l{i}") if rng.random() < 0.3 else elements[-1]
        place = rng.normal(size=3), rng.normal(size=3), rng.normal(size=3)
        elements.append(joint(f"j{i}", kind, named[parent], f"l{i}", *place))
        depth.append(depth[parent] + 1)
        named.append(f"l{i}")
    shuffled = [elements[k] for k in rng.permutation(len(elements))]
    return robot(*shuffled), named[int(np.argmax(depth))]
