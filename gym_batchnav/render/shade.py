"""Kernels that find the colour of what a packet of rays has hit."""

from __future__ import annotations

import numpy as np
from numba import njit

from gym_batchnav.render.packet import (
    ACTIVE,
    ALPHA,
    BLUE,
    DIRECTION,
    FAR,
    GREEN,
    HIT,
    NEAR,
    NORMAL,
    NOTHING,
    RED,
    SHINE,
    STEP_X,
    STEP_Y,
    TRIANGLE,
    U,
    V,
)
from gym_batchnav.render.surface import (
    COLOR,
    CUTOFF,
    GRADIENT_U,
    GRADIENT_V,
    MATERIAL,
    TEXTURE,
    U0,
    U1,
    U2,
    V0,
    V1,
    V2,
    WHITE,
    WRAP_U,
    WRAP_V,
)
from gym_batchnav.scene.mesh import MIRROR, REPEAT

_STEP_ON = np.float32(1 + 4e-6)  # a ray that passes through a surface starts again this much farther on


@njit(cache=True, nogil=True)
def find_steps(floats: np.ndarray, view: np.ndarray, pixel: np.float32) -> None:
    """Write how far the hit points move on their triangles' planes, in metres, when the rays move by one pixel.

    With D a ray's direction, one long along the view axis, t its length and n the normal, the exact differential is
    t (dD - D (n . dD) / (n . D)). Rays that hit nothing get numbers that mean nothing.
    """
    for axis in range(2):
        step = STEP_X if axis == 0 else STEP_Y
        ax, ay, az = view[axis, 0] * pixel, view[axis, 1] * pixel, view[axis, 2] * pixel
        for lane in range(16):
            nx, ny, nz = floats[NORMAL + lane], floats[NORMAL + 16 + lane], floats[NORMAL + 32 + lane]
            dx, dy, dz = floats[DIRECTION + lane], floats[DIRECTION + 16 + lane], floats[DIRECTION + 32 + lane]
            slope = np.divide(nx * ax + ny * ay + nz * az, nx * dx + ny * dy + nz * dz)
            t = floats[FAR + lane]
            floats[step + lane] = t * (ax - dx * slope)
            floats[step + 16 + lane] = t * (ay - dy * slope)
            floats[step + 32 + lane] = t * (az - dz * slope)


@njit(cache=True, nogil=True)
def find_shine(floats: np.ndarray, light: np.ndarray, brightness: np.ndarray) -> None:
    """Write the light that the surfaces get; the normal is the triangle's, turned to the viewer."""
    ambient, diffuse = brightness[0], brightness[1]
    lx, ly, lz = light[0], light[1], light[2]
    for lane in range(16):
        nx, ny, nz = floats[NORMAL + lane], floats[NORMAL + 16 + lane], floats[NORMAL + 32 + lane]
        away = nx * floats[DIRECTION + lane] + ny * floats[DIRECTION + 16 + lane]
        away += nz * floats[DIRECTION + 32 + lane]
        cosine = np.divide(nx * lx + ny * ly + nz * lz, np.sqrt(nx * nx + ny * ny + nz * nz))
        cosine = -cosine if away > np.float32(0.0) else cosine
        floats[SHINE + lane] = ambient + diffuse * max(np.float32(0.0), cosine)


@njit(cache=True, nogil=True)
def pass_through(
    packet: np.ndarray,
    floats: np.ndarray,
    triangles: np.ndarray,
    materials: np.ndarray,
    far: np.float32,
) -> bool:
    """Send rays that have hit a transparent texel on and let the others rest; returns whether any goes on.

    ``find_colors(..., masked_only=True)`` has found the alpha.
    """
    passing = False
    for lane in range(16):
        if packet[ACTIVE + lane] == 0:
            continue
        packet[ACTIVE + lane] = 0
        if packet[HIT + lane] != NOTHING:
            cutoff = materials[triangles[packet[TRIANGLE + lane], MATERIAL]].view(np.float32)[CUTOFF]
            if cutoff > np.float32(0.0) and floats[ALPHA + lane] < cutoff:
                floats[NEAR + lane] = floats[FAR + lane] * _STEP_ON
                floats[FAR + lane] = far
                packet[HIT + lane] = NOTHING
                packet[ACTIVE + lane] = -1
                passing = True
    return passing


@njit(cache=True, nogil=True)
def find_colors(
    packet: np.ndarray,
    floats: np.ndarray,
    triangles: np.ndarray,
    materials: np.ndarray,
    texels: np.ndarray,
    size: int,
    num_textures: int,
    decode: np.ndarray,
    masked_only: bool,
) -> None:
    """Write the linear RGBA of what the active rays of a packet have hit; ``find_steps`` comes before.

    Args:
        packet: The packet as int32.
        floats: The packet as float32.
        triangles: [T, TRIANGLE_WORDS] int32.
        materials: [M, MATERIAL_WORDS] int32.
        texels: [bytes / 4] int32, a texture pool's flat array.
        size: Texels along a side of the pool's level 0.
        num_textures: Textures in the pool.
        decode: [256] float32, linear light of an sRGB byte.
        masked_only: Leave out surfaces that rays do not pass through.
    """
    one, top_level = np.float32(1.0), np.log2(np.float32(size))
    for lane in range(16):
        if packet[HIT + lane] == NOTHING or packet[ACTIVE + lane] == 0:
            continue
        triangle = triangles[packet[TRIANGLE + lane]]
        record = triangle.view(np.float32)
        material = materials[triangle[MATERIAL]]
        factors = material.view(np.float32)
        masked = factors[CUTOFF] > np.float32(0.0)
        if masked_only and not masked:
            continue
        red, green, blue, alpha = factors[0], factors[1], factors[2], factors[3]
        u, v = floats[U + lane], floats[V + lane]

        # Stage 1: the colours of the corners.
        color_0, color_1, color_2 = triangle[COLOR], triangle[COLOR + 1], triangle[COLOR + 2]
        if (color_0 & color_1 & color_2) != WHITE:
            w = one - u - v
            red *= _mix_byte(color_0, color_1, color_2, 0, w, u, v)
            green *= _mix_byte(color_0, color_1, color_2, 8, w, u, v)
            blue *= _mix_byte(color_0, color_1, color_2, 16, w, u, v)
            alpha *= _mix_byte(color_0, color_1, color_2, 24, w, u, v)

        # Stage 2: the texture, on the two mip levels nearest to the footprint's longer axis.
        if material[TEXTURE] >= 0:
            level = _mip_level(record, floats, lane, np.float32(size), top_level)
            at_u = record[U0] + u * record[U1] + v * record[U2]
            at_v = record[V0] + u * record[V1] + v * record[V2]
            fine = int(level)
            blend = level - np.float32(fine)
            r, g, b, a = _bilinear(texels, material, size, num_textures, decode, masked, fine, at_u, at_v)
            if blend > np.float32(0.0):
                r1, g1, b1, a1 = _bilinear(texels, material, size, num_textures, decode, masked, fine + 1, at_u, at_v)
                r += blend * (r1 - r)
                g += blend * (g1 - g)
                b += blend * (b1 - b)
                a += blend * (a1 - a)
            red, green, blue, alpha = red * r, green * g, blue * b, alpha * a
        floats[RED + lane] = red
        floats[GREEN + lane] = green
        floats[BLUE + lane] = blue
        floats[ALPHA + lane] = alpha


@njit(cache=True, nogil=True)
def _mix_byte(
    color_0: int, color_1: int, color_2: int, shift: int, w: np.float32, u: np.float32, v: np.float32
) -> np.float32:
    """One channel of the corners' colours, weighted; bytes are linear."""
    mixed = w * np.float32((color_0 >> shift) & 255)
    mixed += u * np.float32((color_1 >> shift) & 255) + v * np.float32((color_2 >> shift) & 255)
    return mixed * np.float32(1 / 255)


@njit(cache=True, nogil=True)
def _mip_level(
    record: np.ndarray, floats: np.ndarray, lane: int, size: np.float32, top_level: np.float32
) -> np.float32:
    """The mip level at which the longer axis of a pixel's footprint is one texel."""
    ax, ay, az = floats[STEP_X + lane], floats[STEP_X + 16 + lane], floats[STEP_X + 32 + lane]
    bx, by, bz = floats[STEP_Y + lane], floats[STEP_Y + 16 + lane], floats[STEP_Y + 32 + lane]
    gx, gy, gz = record[GRADIENT_U], record[GRADIENT_U + 1], record[GRADIENT_U + 2]
    hx, hy, hz = record[GRADIENT_V], record[GRADIENT_V + 1], record[GRADIENT_V + 2]
    u_x, u_y = gx * ax + gy * ay + gz * az, gx * bx + gy * by + gz * bz
    v_x, v_y = hx * ax + hy * ay + hz * az, hx * bx + hy * by + hz * bz
    square = max(u_x * u_x + v_x * v_x, u_y * u_y + v_y * v_y) * size * size
    if square <= np.float32(1.0):
        return np.float32(0.0)
    if square < size * size:
        return np.float32(0.5) * np.log2(square)
    return top_level  # also where the footprint is not finite


@njit(cache=True, nogil=True)
def _bilinear(
    texels: np.ndarray,
    material: np.ndarray,
    size: int,
    num_textures: int,
    decode: np.ndarray,
    with_alpha: bool,
    level: int,
    u: np.float32,
    v: np.float32,
) -> tuple[np.float32, np.float32, np.float32, np.float32]:
    """The linear RGBA of a texture at (u, v) on one mip level; alpha is 1 unless asked for."""
    side = size >> level
    # The levels before this one hold size^2 + (size / 2)^2 + ... texels of every texture.
    start = num_textures * ((size * size - side * side) // 3 * 4) + material[TEXTURE] * side * side
    x, y = u * np.float32(side) - np.float32(0.5), v * np.float32(side) - np.float32(0.5)
    left, top = int(np.floor(x)), int(np.floor(y))
    fx, fy = x - np.float32(left), y - np.float32(top)
    x0, x1 = _wrap(left, side, material[WRAP_U]), _wrap(left + 1, side, material[WRAP_U])
    y0, y1 = start + side * _wrap(top, side, material[WRAP_V]), start + side * _wrap(top + 1, side, material[WRAP_V])
    a, b, c, d = texels[y0 + x0], texels[y0 + x1], texels[y1 + x0], texels[y1 + x1]
    one = np.float32(1.0)
    wa, wb, wc, wd = (one - fx) * (one - fy), fx * (one - fy), (one - fx) * fy, fx * fy
    red = wa * decode[a & 255] + wb * decode[b & 255] + wc * decode[c & 255] + wd * decode[d & 255]
    green = wa * decode[(a >> 8) & 255] + wb * decode[(b >> 8) & 255]
    green += wc * decode[(c >> 8) & 255] + wd * decode[(d >> 8) & 255]
    blue = wa * decode[(a >> 16) & 255] + wb * decode[(b >> 16) & 255]
    blue += wc * decode[(c >> 16) & 255] + wd * decode[(d >> 16) & 255]
    alpha = one
    if with_alpha:
        alpha = wa * np.float32((a >> 24) & 255) + wb * np.float32((b >> 24) & 255)
        alpha += wc * np.float32((c >> 24) & 255) + wd * np.float32((d >> 24) & 255)
        alpha *= np.float32(1 / 255)
    return red, green, blue, alpha


@njit(cache=True, nogil=True)
def _wrap(texel: int, side: int, mode: int) -> int:
    """A texel's row or column inside the texture; ``side`` is a power of two."""
    if mode == REPEAT:
        return texel & (side - 1)
    if mode == MIRROR:
        texel &= 2 * side - 1
        return min(texel, 2 * side - 1 - texel)
    return min(max(texel, 0), side - 1)
