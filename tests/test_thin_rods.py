"""Rods that turn about themselves: every algorithm is right or refuses, whatever the moment."""

import numpy as np
import pytest

import rigid_oracles as oracles
from fixman.errors import SingularConstraintError
from fixman.rigid import (
    SerialChain,
    articulated_body,
    composite_body,
    denoc,
    newton_euler,
    partition,
    spatial_operators,
)

ALGORITHMS = {
    "articulated body": (articulated_body, {}),
    "composite body": (composite_body, {}),
    "denoc": (denoc, {}),
    "partition": (partition, {}),
    "partition, refined": (partition, {"refine": 1}),
    **{f: (spatial_operators, {"method": f}) for f in ("fd1", "fd3")},
}
MOMENTS = (1e-4, 1.1e-6, 1e-8, 1e-10, 1e-12, 1e-14, 0.0)  # at 1e-6 rounding would decide
EPS = 2.0**-52


def turns(n, rng):
    found, _ = np.linalg.qr(rng.normal(size=(n, 3, 3)))
    return found * np.sign(np.linalg.det(found))[:, None, None]


def rods(first, moment, rng):
    """Three rods on balls in their axes, tilted in their bodies' frames."""
    tilt = turns(3, rng)
    axis = tilt[:, :, 2]
    inertias = tilt @ np.diag([1.0, 1.0, moment]) @ tilt.swapaxes(1, 2)
    return SerialChain(
        joints=(first, "spherical", "spherical"),
        rotations=turns(3, rng),
        translations=np.vstack([[0.1, 0.2, 0.3], 0.8 * axis[:-1]]),
        masses=np.ones(3),
        centres=0.4 * axis,
        inertias=(inertias + inertias.swapaxes(1, 2)) / 2,
    )


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("first", ["spherical", "free"])
def test_right_or_refused(first, moment):
    rng = np.random.default_rng(13)
    arm = rods(first, moment, rng)
    q, qd, wanted = oracles.random_q(arm, rng), *rng.normal(size=(2, arm.nv))
    tau = newton_euler.inverse_dynamics(arm, q, qd, wanted)
    exact, right = None, set()
    for name, (room, options) in ALGORITHMS.items():
        try:
            got = room.forward_dynamics(arm, q, qd, tau, **options)
        except SingularConstraintError as error:
            assert "body " in str(error)  # noqa: PT017 - refusals may but need not come
            continue
        right.add(name)
        if exact is None:
            still = np.zeros(arm.nv)
            columns = [newton_euler.inverse_dynamics(arm, q, still, c) for c in np.eye(arm.nv)]
            exact = oracles.exact_acceleration(arm, q, qd, tau, got, np.linalg.inv(columns).T)
        # The matrix has condition 1 / moment; of eight such sets of rods the worst is off by 44.
        assert np.abs(got - exact).max() <= 100.0 * EPS / moment * np.abs(exact).max(), name
    if moment >= 1e-6:
        assert right == set(ALGORITHMS)
    elif moment >= 1e-10:
        assert {"articulated body", "composite body"} <= right
    else:
        assert not right


@pytest.mark.parametrize("first", ["spherical", "free"])
def test_batches_refuse_as_single_states_do(first):
    rng = np.random.default_rng(14)
    arm = rods(first, 1e-14, rng)
    q = np.array([oracles.random_q(arm, rng) for _ in range(9)])
    rates = np.zeros((9, arm.nv))
    with pytest.raises(SingularConstraintError, match="body "):
        articulated_body.forward_dynamics(arm, q, rates, rates)
