"""Rigid chains from first principles in extended precision, Featherstone's pass, Pinocchio.

Nothing here imports ``fixman``: a chain is anything with its attributes.  Motions from first
principles are truncated Taylor series (value, first and second derivative) of world-frame poses,
so that no formula for twist rates, Coriolis or centripetal terms is needed; forces are sums over
the outer bodies.
"""

from __future__ import annotations

import mpmath
import numpy as np

DIGITS = 40
SIZES = {
    "revolute": (1, 1), "prismatic": (1, 1), "spherical": (4, 3), "free": (7, 6),
    "helical": (1, 1), "planar": (3, 3),
}  # fmt: skip


def random_q(arm, rng, scale=1.0):
    """Return normal coordinates with unit quaternions."""
    q, at = rng.normal(size=arm.nq) * scale, 0
    for joint in arm.joints:
        end = at + SIZES[joint][0]
        if joint in ("spherical", "free"):
            q[end - 4 : end] /= np.linalg.norm(q[end - 4 : end])
        at = end
    return q


def move(arm, q, qd, dt):
    """Follow the rates qd, constant in the bodies' frames, for a short time."""
    out, at, rate = q.copy(), 0, 0
    for joint in arm.joints:
        nq, nv = SIZES[joint]
        v = qd[rate : rate + nv]
        if nv == 1:
            out[at] += v[0] * dt
        if joint == "planar":
            c, s = np.cos(q[at + 2]), np.sin(q[at + 2])
            out[at : at + 3] += np.array([c * v[0] - s * v[1], s * v[0] + c * v[1], v[2]]) * dt
        if nv == 6:
            out[at : at + 3] += quaternion_matrix(q[at + 3 : at + 7]) @ v[:3] * dt
        if joint in ("spherical", "free"):
            w, e = v[-3:] * dt / 2, q[at + nq - 4 : at + nq]
            angle = np.linalg.norm(w)
            d = np.append(w * np.sinc(angle / np.pi), np.cos(angle))
            turned = np.append(e[3] * d[:3] + d[3] * e[:3] + np.cross(e[:3], d[:3]), 0.0)
            turned[3] = e[3] * d[3] - e[:3] @ d[:3]
            out[at + nq - 4 : at + nq] = turned
        at, rate = at + nq, rate + nv
    return out


def quaternion_matrix(e):
    """Rotation matrix of a unit quaternion, scalar last."""
    x, y, z, w = e
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


# --- extended precision ----------------------------------------------------------------------


def _exact(array):
    return np.vectorize(mpmath.mpf, otypes=[object])(np.asarray(array))


def _skew(w):
    zero = 0 * w[0]
    return np.array([[zero, -w[2], w[1]], [w[2], zero, -w[0]], [-w[1], w[0], zero]])


def _times(a, b):
    """Product of two series (value, first, second derivative)."""
    return (a[0] @ b[0], a[1] @ b[0] + a[0] @ b[1], a[2] @ b[0] + 2 * a[1] @ b[1] + a[0] @ b[2])


def _joint_series(joint, q, qd, qdd, pitch):
    """Series of the rotation and of the shift of one joint, in its frame."""
    eye, zero = _exact(np.eye(3)), _exact(np.zeros(3))
    z = _exact([0, 0, 1])
    still = (eye, 0 * eye, 0 * eye)
    if joint == "prismatic":
        return still, (z * q[0], z * qd[0], z * qdd[0])
    if joint in ("revolute", "helical", "planar"):
        c, s = mpmath.cos(q[-1]), mpmath.sin(q[-1])
        R = _exact(np.eye(3))
        R[0, 0], R[0, 1], R[1, 0], R[1, 1] = c, -s, s, c
        w, dw = z * qd[-1], z * qdd[-1]
    else:
        e = q[-4:]
        R = quaternion_matrix(e / mpmath.sqrt((e * e).sum()))
        w, dw = qd[-3:], qdd[-3:]
    turn = (R, R @ _skew(w), R @ (_skew(w) @ _skew(w) + _skew(dw)))
    if joint == "helical":
        return turn, tuple(_exact(pitch) * z * x[0] for x in (q, qd, qdd))
    if joint in ("revolute", "spherical"):
        return turn, (zero, zero, zero)
    if joint == "planar":
        p, v, dv = (np.array([x[0], x[1], 0 * x[0]]) for x in (q, qd, qdd))
    else:
        p, v, dv = q[:3], qd[:3], qdd[:3]
    # v is in the body's frame: ṗ = R v
    return turn, (p, turn[0] @ v, turn[1] @ v + turn[0] @ dv)


def _pose_series(arm, q, qd, qdd):
    """Yield the series of each body's rotation and origin in the base frame."""
    q, qd, qdd = (_exact(a) for a in (q, qd, qdd))
    eye, zero = _exact(np.eye(3)), _exact(np.zeros(3))
    R, x = (eye, 0 * eye, 0 * eye), (zero, zero, zero)
    at, rate = 0, 0
    for i, joint in enumerate(arm.joints):
        nq, nv = SIZES[joint]
        turn, shift = _joint_series(
            joint, q[at : at + nq], qd[rate : rate + nv], qdd[rate : rate + nv], arm.pitch[i]
        )
        fixed = _exact(arm.rotations[i])
        step = tuple(fixed @ s for s in shift)
        step = (step[0] + _exact(arm.translations[i]), *step[1:])
        x = tuple(a + b for a, b in zip(x, _times(R, step), strict=True))
        R = _times(R, tuple(fixed @ t for t in turn))
        yield R, x
        at, rate = at + nq, rate + nv


def exact_motion(arm, q, qd, qdd, point):
    """Return R, x, velocity and acceleration (linear, angular) at a point of every body.

    Of each body also its momentum, angular momentum about the base's origin, and mass centre.
    """
    with mpmath.workdps(DIGITS):
        bodies = []
        for i, (R, x) in enumerate(_pose_series(arm, q, qd, qdd)):
            p, c = (
                tuple(x[k] + R[k] @ _exact(a) for k in range(3)) for a in (point, arm.centres[i])
            )
            S, dS = R[1] @ R[0].T, R[2] @ R[0].T + R[1] @ R[1].T
            w, dw = S[[2, 0, 1], [1, 2, 0]], dS[[2, 0, 1], [1, 2, 0]]
            spin = R[0] @ _exact(arm.inertias[i]) @ R[0].T @ w
            momentum = _exact(arm.masses[i]) * c[1]
            energy = (momentum @ c[1] + w @ spin) / 2
            parts = {
                "rotation": R[0],
                "position": p[0],
                "velocity": np.append(p[1], w),
                "acceleration": np.append(p[2], dw),
                "momentum": np.append(momentum, spin + np.cross(c[0], momentum)),
                "centre": c[0],
                "energy": energy,
            }
            bodies.append({name: np.asarray(a).astype(float) for name, a in parts.items()})
        return {name: np.array([body[name] for body in bodies]) for name in bodies[0]}


def exact_dynamics(arm, q, qd, qdd, gravity=(0, 0, 0), wrenches=None):
    """Joint forces (nv,) and joint wrenches (n, 6) from Newton's and Euler's laws, as mpf.

    The second law for each mass centre in the base frame, d/dt (R I Rᵀ ω) for its moment.
    """
    with mpmath.workdps(DIGITS):
        g = _exact(gravity)
        zero = _exact(np.zeros(3))
        bodies = []
        for i, (R, x) in enumerate(_pose_series(arm, q, qd, qdd)):
            centre = tuple(x[k] + R[k] @ _exact(arm.centres[i]) for k in range(3))
            body = _exact(arm.inertias[i])
            S, dS = R[1] @ R[0].T, R[2] @ R[0].T + R[1] @ R[1].T  # [ω×] and its derivative
            w, dw = S[[2, 0, 1], [1, 2, 0]], dS[[2, 0, 1], [1, 2, 0]]
            inertia = R[0] @ body @ R[0].T
            moment = (S @ inertia - inertia @ S) @ w + inertia @ dw
            bodies.append((R[0], x[0], centre[0], _exact(arm.masses[i]) * (centre[2] - g), moment))
        tau, joints = [], []
        force, about_base = zero, zero  # of everything outwards, moment about the base's origin
        for i in reversed(range(len(bodies))):
            R, x, centre, f, moment = bodies[i]
            force = force + f
            about_base = about_base + moment + np.cross(centre, f)
            if wrenches is not None:
                w = _exact(wrenches[i])
                force = force - R @ w[:3]
                about_base = about_base - R @ w[3:] - np.cross(x, R @ w[:3])
            wrench = np.concatenate([R.T @ force, R.T @ (about_base - np.cross(x, force))])
            joints.insert(0, wrench)
            pick = {"revolute": [5], "prismatic": [2], "spherical": [3, 4, 5], "free": range(6)}
            pick |= {"helical": [5], "planar": [0, 1, 5]}
            if arm.joints[i] == "helical":
                tau = [wrench[5] + _exact(arm.pitch[i]) * wrench[2], *tau]
            else:
                tau = [wrench[k] for k in pick[arm.joints[i]]] + tau
        return np.array(tau), np.array(joints)


def exact_acceleration(arm, q, qd, tau, start, inverse, gravity=(0, 0, 0), wrenches=None):
    """Refine the accelerations ``start`` until `exact_dynamics` returns tau; rounded at the end.

    ``inverse`` is the inverse of the inertia matrix to a few digits: each pass gains as many.
    """
    with mpmath.workdps(DIGITS):
        qdd = _exact(start)
        for _ in range(20):
            r = _exact(tau) - exact_dynamics(arm, q, qd, qdd, gravity, wrenches)[0]
            step = inverse @ r.astype(float)
            qdd = qdd + _exact(step)
            if np.abs(step).max() <= 1e-22 * np.abs(qdd).max():
                return qdd.astype(float)
    raise AssertionError("the refinement does not converge")


# --- Featherstone's book ---------------------------------------------------------------------


def _motion(E, r):
    """ⁱXλ: motion vectors from λ to axes turned by E about a point displaced by r."""
    return np.block([[E, np.zeros((3, 3))], [-E @ _skew(r), E]])


def _cross_motion(v):
    """v × of motion vectors; −(v ×)ᵀ is v ×* of forces."""
    return np.block([[_skew(v[:3]), np.zeros((3, 3))], [_skew(v[3:]), _skew(v[:3])]])


def _jcalc(joint, q, pitch):
    """X_J and S of a joint; S does not change in the axes of the body, so c_J = 0."""
    e, still = np.eye(6), np.zeros(3)
    c, s = np.cos(q[-1]), np.sin(q[-1])
    about_z = np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])
    if joint == "revolute":
        return _motion(about_z, still), e[:, 2:3]
    if joint == "helical":
        return _motion(about_z, np.array([0.0, 0.0, pitch * q[0]])), e[:, 2:3] + pitch * e[:, 5:6]
    if joint == "planar":
        return _motion(about_z, np.array([q[0], q[1], 0.0])), e[:, [3, 4, 2]]
    if joint == "prismatic":
        return _motion(np.eye(3), np.array([0.0, 0.0, q[0]])), e[:, 5:6]
    E = quaternion_matrix(q[-4:]).T
    if joint == "spherical":
        return _motion(E, still), e[:, :3]
    return _motion(E, q[:3]), e[:, [3, 4, 5, 0, 1, 2]]  # rates come linear before angular


def articulated_body(arm, q, qd, tau, gravity=(0, 0, 0), wrenches=None):
    """q̈ of one state by table 7.1 of Featherstone (2008), with 6×6 matrices as they stand there."""
    N = len(arm.joints)
    X, S, c, I_A, p_A, U, D, u = ([None] * N for _ in range(8))
    ends = np.cumsum([SIZES[joint] for joint in arm.joints], axis=0)
    q, qd, tau = (np.split(x, ends[:-1, k]) for x, k in ((q, 0), (qd, 1), (tau, 1)))

    # First sweep, outwards: velocities, and the bias of each body alone.
    v = np.zeros(6)
    for i in range(N):
        X_J, S[i] = _jcalc(arm.joints[i], q[i], arm.pitch[i])
        X[i] = X_J @ _motion(arm.rotations[i].T, arm.translations[i])
        v_J = S[i] @ qd[i]
        v = X[i] @ v + v_J
        c[i] = _cross_motion(v) @ v_J
        m, mc = arm.masses[i], arm.masses[i] * _skew(arm.centres[i])
        about_origin = arm.inertias[i] + mc @ _skew(arm.centres[i]).T
        I_A[i] = np.block([[about_origin, mc], [mc.T, m * np.eye(3)]])
        p_A[i] = -_cross_motion(v).T @ I_A[i] @ v
        if wrenches is not None:
            p_A[i] -= np.roll(wrenches[i], 3)  # moment before force

    # Second sweep, inwards: articulated inertias.  Take a joint out of its body's, go on to λ.
    for i in reversed(range(N)):
        U[i] = I_A[i] @ S[i]
        D[i] = S[i].T @ U[i]
        u[i] = tau[i] - S[i].T @ p_A[i]
        if i > 0:
            I_a = I_A[i] - U[i] @ np.linalg.solve(D[i], U[i].T)
            p_a = p_A[i] + I_a @ c[i] + U[i] @ np.linalg.solve(D[i], u[i])
            I_A[i - 1] += X[i].T @ I_a @ X[i]
            p_A[i - 1] += X[i].T @ p_a

    # Third sweep, outwards: accelerations, of a base that rises where gravity points down.
    a, qdd = np.append(np.zeros(3), np.negative(gravity)), [None] * N
    for i in range(N):
        a = X[i] @ a + c[i]
        qdd[i] = np.linalg.solve(D[i], u[i] - U[i].T @ a)
        a = a + S[i] @ qdd[i]
    return np.concatenate(qdd)


# --- closed chains, dense ----------------------------------------------------------------------


def dense_chain(arm, q, qd, gravity=(0, 0, 0), wrenches=None):
    """M, h of M q̈ + h = τ, and (R, x, J, twist, acceleration at q̈ = 0) of the bodies' origins.

    Everything in the axes of the base, linear before angular.
    """
    nv, at, rate, cross = qd.size, 0, 0, np.cross
    base = np.eye(3), np.zeros(3), np.zeros((6, nv)), np.zeros(6), np.zeros(6)
    M, h, bodies = np.zeros((nv, nv)), np.zeros(nv), [base]
    for i, joint in enumerate(arm.joints):
        R, x, J, V, a = bodies[-1]
        (nq, f), fixed = SIZES[joint], R @ arm.rotations[i]
        s, turn, rows = np.zeros(3), np.eye(3), np.zeros((6, f))
        if joint in ("revolute", "helical", "planar"):
            c, d = np.cos(q[at + nq - 1]), np.sin(q[at + nq - 1])
            turn, rows[3:, -1] = np.array([[c, -d, 0], [d, c, 0], [0, 0, 1]]), fixed[:, 2]
            if joint == "helical":
                s, rows[:3, 0] = arm.pitch[i] * q[at] * fixed[:, 2], arm.pitch[i] * fixed[:, 2]
            if joint == "planar":
                s, rows[:3, :2] = fixed[:, :2] @ q[at : at + 2], (fixed @ turn)[:, :2]
        elif joint == "prismatic":
            s, rows[:3, 0] = fixed[:, 2] * q[at], fixed[:, 2]
        else:
            turn = quaternion_matrix(q[at + nq - 4 : at + nq])
            rows[3:, -3:] = fixed @ turn
            if joint == "free":
                s, rows[:3, :3] = fixed @ q[at : at + 3], fixed @ turn
        r, relative = R @ arm.translations[i] + s, rows @ qd[rate : rate + f]
        u, spin, w, dw = relative[:3], relative[3:], V[3:], a[3:]
        J = np.vstack([J[:3] - cross(r, J[3:], axisb=0).T, J[3:]])
        J[:, rate : rate + f] = rows
        more = cross(dw, r) + cross(w, cross(w, r)) + 2 * cross(w, u)
        more += cross(spin, u)  # a velocity beside a turn is in axes that turn
        V = np.append(V[:3] + cross(w, r), w) + relative
        a = a + np.append(more, cross(w, spin))
        R, x = fixed @ turn, x + r
        bodies.append((R, x, J, V, a))
        c, inertia, w = R @ arm.centres[i], R @ arm.inertias[i] @ R.T, V[3:]
        Jc = J[:3] - cross(c, J[3:], axisb=0).T
        M += arm.masses[i] * Jc.T @ Jc + J[3:].T @ inertia @ J[3:]
        fall = a[:3] + cross(a[3:], c) + cross(w, cross(w, c)) - gravity
        h += arm.masses[i] * Jc.T @ fall
        h += J[3:].T @ (inertia @ a[3:] + cross(w, inertia @ w))
        if wrenches is not None:
            h -= J.T @ np.append(R @ wrenches[i][:3], R @ wrenches[i][3:])
        at, rate = at + nq, rate + f
    return M, h, [*bodies[1:], base]  # so that body −1 is the base


def dense_closures(linkage, chains):
    """Rows A, accelerations Ȧ θ̇, values of dot products that vanish, and forces on b of unit f.

    Every closure is written as u·(p_b − p_a) = 0 and u·w = 0, with u fixed in a and w in b, and
    differentiated twice.  ``chains``: `dense_chain` of each.
    """
    starts = np.cumsum([0, *(M.shape[0] for M, _, _ in chains)])
    A, b, g, forces, cross = [], [], [], [], np.cross

    def end(e):
        R, x, J, V, a = chains[e.chain][2][-1 if e.body is None else e.body]
        r, w = R @ np.array(e.point), V[3:]
        full = np.zeros((6, starts[-1]))
        J = np.vstack([J[:3] - cross(r, J[3:], axisb=0).T, J[3:]])
        full[:, starts[e.chain] : starts[e.chain + 1]] = J
        at = cross(a[3:], r) + cross(w, cross(w, r))
        axes = (R @ np.array(e.axes)).T
        return axes, x + r, full, np.append(V[:3] + cross(w, r), w), a + np.append(at, 0 * at)

    for k, closure in enumerate(linkage.closures):
        (Qa, xa, Ja, Va, aa), (Qb, xb, Jb, Vb, ab) = end(closure.a), end(closure.b)
        held = [["x", "y", "z", "rx", "ry", "rz"].index(name) for name in closure.directions]
        free = [d for d in range(3) if 3 + d not in held]
        for d in held:
            row = np.zeros((len(linkage.closures), 6))
            if d < 3:
                u, r, v = Qa[d], xb - xa, Vb[:3] - Va[:3]
                A.append(u @ (Jb[:3] - Ja[:3]) + cross(u, r) @ Ja[3:])
                du, ddu = cross(Va[3:], u), cross(aa[3:], u) + cross(Va[3:], cross(Va[3:], u))
                b.append(ddu @ r + 2 * du @ v + u @ (ab[:3] - aa[:3]))
                g.append(u @ r)
                row[k, :3] = u
            else:
                other = free[0] if free else 1 if d == 5 else 2
                u, w = Qa[3 - (d - 3) - other], Qb[other]
                n = cross(w, u)
                A.append(n @ (Jb[3:] - Ja[3:]))
                dn = cross(cross(Vb[3:], w), u) + cross(w, cross(Va[3:], u))
                b.append(n @ (ab[3:] - aa[3:]) + dn @ (Vb[3:] - Va[3:]))
                g.append(u @ w)
                row[k, 3:] = n
            forces.append(row)
    return np.array(A), np.array(b), np.array(g), np.array(forces)


def dense_closed(linkage, q, qd, tau, gravity=(0, 0, 0), wrenches=None):
    """Accelerations and the closures' wrenches on b, by one dense solve for both (KKT)."""
    M, h, A, b, forces = dense_system(linkage, q, qd, gravity, wrenches)
    zero = np.zeros((len(b), len(b)))
    solved = np.linalg.solve(np.block([[M, -A.T], [A, zero]]), np.append(tau - h, -b))
    return solved[: len(M)], np.einsum("m,mke->ke", solved[len(M) :], forces)


def dense_system(linkage, q, qd, gravity=(0, 0, 0), wrenches=None):
    """M and h of all chains, A, Ȧ θ̇ and the closures' forces."""
    chains, at, rate, body = [], 0, 0, 0
    for arm in linkage.chains:
        nq, nv = np.sum([SIZES[joint] for joint in arm.joints], axis=0)
        W = None if wrenches is None else wrenches[body : body + len(arm.joints)]
        chains.append(dense_chain(arm, q[at : at + nq], qd[rate : rate + nv], gravity, W))
        at, rate, body = at + nq, rate + nv, body + len(arm.joints)
    A, b, _, forces = dense_closures(linkage, chains)
    M, row = np.zeros((rate, rate)), 0
    for part, _, _ in chains:
        M[row : row + len(part), row : row + len(part)] = part
        row += len(part)
    return M, np.concatenate([h for _, h, _ in chains]), A, b, forces


# --- Pinocchio -------------------------------------------------------------------------------


class Referee:
    """Pinocchio's model of a chain, in the same conventions."""

    def __init__(self, pin, arm, gravity=(0, 0, 0)):
        kinds = {
            "revolute": pin.JointModelRZ,
            "prismatic": pin.JointModelPZ,
            "spherical": pin.JointModelSpherical,
            "free": pin.JointModelFreeFlyer,
            "planar": pin.JointModelPlanar,
        }
        self.pin, self.model, parent = pin, pin.Model(), 0
        self.weight = pin.Motion(np.asarray(gravity, dtype=float), np.zeros(3))
        for i, joint in enumerate(arm.joints):
            place = pin.SE3(arm.rotations[i], arm.translations[i])
            if joint == "helical":
                model = pin.JointModelHelicalUnaligned(np.array([0.0, 0.0, 1.0]), arm.pitch[i])
            else:
                model = kinds[joint]()
            parent = self.model.addJoint(parent, model, place, f"joint {i}")
            body = pin.Inertia(arm.masses[i], arm.centres[i], arm.inertias[i])
            self.model.appendBodyToJoint(parent, body, pin.SE3.Identity())
        self.model.gravity = self.weight
        self.data = self.model.createData()
        ends = np.cumsum([SIZES[joint][0] for joint in arm.joints])
        joints = zip(ends, arm.joints, strict=True)
        self.angles = [end - 1 for end, joint in joints if joint == "planar"]

    def _q(self, q):
        """Cosine and sine for the angles of planar joints."""
        parts = [[np.cos(x), np.sin(x)] if k in self.angles else [x] for k, x in enumerate(q)]
        return np.concatenate(parts)

    def inverse(self, q, qd, qdd, wrenches):
        forces = self._forces(wrenches)
        return self.pin.rnea(self.model, self.data, self._q(q), qd, qdd, forces).copy()

    def joint_wrenches(self, q, qd, qdd, wrenches):
        self.inverse(q, qd, qdd, wrenches)
        return np.array([self.data.f[i].vector for i in range(1, self.model.njoints)])

    def inertia(self, q):
        upper = np.triu(self.pin.crba(self.model, self.data, self._q(q)))
        return upper + np.triu(upper, 1).T

    def coriolis(self, q, qd):
        return self.pin.computeCoriolisMatrix(self.model, self.data, self._q(q), qd).copy()

    def aba(self, q, qd, tau, wrenches):
        forces = self._forces(wrenches)
        return self.pin.aba(self.model, self.data, self._q(q), qd, tau, forces).copy()

    def forward(self, q, qd, tau, wrenches):
        """ABA with one refinement by Pinocchio's own inverse dynamics.

        Without it, ABA loses up to nine digits on chains with many spherical joints, and its own
        inverse dynamics says so.
        """
        qdd = self.aba(q, qd, tau, wrenches)
        residual = tau - self.inverse(q, qd, qdd, wrenches)
        self.model.gravity = self.pin.Motion.Zero()
        qdd += self.pin.aba(self.model, self.data, self._q(q), 0 * qd, residual)
        self.model.gravity = self.weight
        return qdd

    def _forces(self, wrenches):
        forces = self.pin.StdVec_Force()
        forces.append(self.pin.Force.Zero())
        for w in wrenches:
            forces.append(self.pin.Force(w[:3], w[3:]))
        return forces
