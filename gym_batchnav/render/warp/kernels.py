"""The kernel that traces a ray per pixel through the meshes of NVIDIA Warp and shades what it hits.

The same source is compiled for CUDA and for Warp's CPU device, on which tests run it. Light, texture coordinates and
mip levels are computed as by Embree's kernels in ``render/embree/shade.py``, so that pictures agree.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import warp as wp

from gym_batchnav.render.optics import AHEAD, END, ORIGIN_RIGHT, ORIGIN_UP, PACKET, RIGHT, UP
from gym_batchnav.render.records import NEAREST_BIT
from gym_batchnav.scene.scene import MIRROR, REPEAT

wp.set_module_options({"enable_backward": False})

RAY = wp.types.vector(length=6, dtype=wp.float32)
TILE = (4, 8)  # rows and columns of pixels


@wp.struct
class Triangle:
    """A row of ``records.TRIANGLE_RECORD``."""

    uv: wp.vec2
    to_1: wp.vec2
    to_2: wp.vec2
    gradient_u: wp.vec3
    gradient_v: wp.vec3
    color_0: wp.uint32
    color_1: wp.uint32
    color_2: wp.uint32
    material: wp.int32


@wp.struct
class Material:
    """A row of ``records.MATERIAL_RECORD``."""

    factor: wp.vec4
    cutoff: wp.float32
    texture: wp.int32
    wrap_u: wp.int32
    wrap_v: wp.int32


@wp.struct
class Slot:
    """A scene or the shape of a body; arrays that no kernel reads are empty."""

    mesh: wp.uint64  # the triangles that no ray passes; 0 for an empty slot
    passable: wp.uint64  # the tree of the other triangles, 0 without any
    faces: wp.array(dtype=wp.int32)  # [P], the numbers of the other triangles
    corners: wp.array2d(dtype=wp.vec3)  # [P, 3], their corners
    objects: wp.array(dtype=wp.int32)  # [T], what the sensor "semantic" draws
    single_sided: wp.array(dtype=wp.uint8)  # [T], 1 if rays pass through from behind; empty if all are two-sided
    triangles: wp.array(dtype=Triangle)  # [T]
    materials: wp.array(dtype=Material)  # [M]
    texels: wp.array(dtype=wp.uint32)  # the texture pool, RGBA bytes
    num_textures: wp.int32
    masked: wp.int32  # 1 if rays may pass through some triangles where their alpha is low


@wp.struct
class Views:
    """N views."""

    slot: wp.array(dtype=wp.int32)  # [N]
    matrix: wp.array(dtype=wp.mat44)  # [N], world-to-camera
    eye: wp.array(dtype=wp.vec3)  # [N], metres
    light: wp.array(dtype=wp.vec3)  # [N], towards the light


@wp.struct
class Bodies:
    """The moving bodies of N views; see ``render.bodies.BodyViews``."""

    spheres: wp.array(dtype=wp.vec4)  # [S], centre and radius, metres, in the body's frame
    first: wp.array(dtype=wp.int32)  # [N + 1], the first row of every view
    slot: wp.array(dtype=wp.int32)  # [E]
    pose: wp.array(dtype=wp.mat44)  # [E], body to world
    object_id: wp.array(dtype=wp.int32)  # [E]


@wp.struct
class Lens:
    """A camera: the rays of its pixels, and how depth and colours are encoded; see ``render.optics``."""

    rays: wp.array2d(dtype=RAY)  # [4 h, 4 w]
    axes: wp.array3d(dtype=wp.vec3)  # [h, w, 2]
    width: wp.int32
    height: wp.int32
    parallel: wp.float32
    near: wp.float32
    miss: wp.float32
    min_depth: wp.float32
    max_depth: wp.float32
    offset: wp.float32
    unit: wp.float32
    ambient: wp.float32
    diffuse: wp.float32
    side: wp.int32  # texels per side of level 0
    last_level: wp.int32
    decode: wp.array(dtype=wp.float32)  # [256], linear light of sRGB bytes
    encode: wp.array(dtype=wp.uint8)  # sRGB bytes of evenly spaced linear light


@wp.struct
class Pictures:
    """The pictures to write; those of absent sensors are empty."""

    depth: wp.array3d(dtype=wp.float32)  # [N, H, W]
    rgb: wp.array4d(dtype=wp.uint8)  # [N, H, W, 3]
    semantic: wp.array3d(dtype=wp.int32)  # [N, H, W]
    normals: wp.array3d(dtype=wp.vec3)  # [N, H, W]
    points: wp.array3d(dtype=wp.vec3)  # [N, H, W]


@wp.struct
class Ray:
    """A ray in the frame of a scene or body, with the changes of its direction to the neighbouring pixels."""

    origin: wp.vec3
    direction: wp.vec3  # of length 1 along the view axis, so that distances along pinholes' rays are depth
    right: wp.vec3
    up: wp.vec3
    parallel: wp.float32


@wp.struct
class Hit:
    """A hit of a ray on a triangle."""

    face: wp.int32  # -1 for none
    length: wp.float32  # in lengths of the ray's direction
    u: wp.float32  # weight of the triangle's second corner
    v: wp.float32  # weight of the third corner
    normal: wp.vec3


@wp.func
def footprint(triangle: Triangle, ray: Ray, hit: Hit) -> wp.float32:
    """Return the square of the longer axis of a pixel's footprint, in textures; see ``shade.find_footprints``."""
    length = hit.length
    if ray.parallel > 0.0:
        length = 1.0
    facing = wp.dot(hit.normal, ray.direction)
    a = length * (ray.right - ray.direction * (wp.dot(hit.normal, ray.right) / facing))
    b = length * (ray.up - ray.direction * (wp.dot(hit.normal, ray.up) / facing))
    along_a = wp.vec2(wp.dot(triangle.gradient_u, a), wp.dot(triangle.gradient_v, a))
    along_b = wp.vec2(wp.dot(triangle.gradient_u, b), wp.dot(triangle.gradient_v, b))
    return wp.max(wp.dot(along_a, along_a), wp.dot(along_b, along_b))


@wp.func
def mip_level(square: wp.float32, last: wp.int32) -> wp.float32:
    """Return the mip level on which a footprint's longer axis is one texel, between the levels 0 and ``last``."""
    if wp.isnan(square):
        return wp.float32(last)
    return wp.clamp(0.5 * wp.log2(wp.max(square, 1.0e-30)) + wp.float32(last), 0.0, wp.float32(last))


@wp.func
def wrapped(texel: wp.int32, side: wp.int32, mode: wp.int32) -> wp.int32:
    """Return a texel's row or column wrapped into a texture; ``side`` is a power of two."""
    if mode == wp.static(int(REPEAT)):
        return texel & (side - 1)
    if mode == wp.static(int(MIRROR)):
        turned = texel & (2 * side - 1)
        return wp.min(turned, 2 * side - 1 - turned)
    return wp.clamp(texel, 0, side - 1)


@wp.func
def neighbours(
    at: wp.float32, side: wp.int32, mode: wp.int32, finest: wp.bool
) -> tuple[wp.int32, wp.int32, wp.float32]:
    """Return the two texels along an axis around a texture coordinate, and its position; see ``shade.neighbours``."""
    x = at * wp.float32(side) - 0.5
    before = wp.floor(x)
    first = wp.int32(before)
    position = x - before
    if finest and mode >= wp.static(NEAREST_BIT):
        position = wp.where(position >= 0.5, 1.0, 0.0)
    wrap = mode & wp.static(NEAREST_BIT - 1)
    return wrapped(first, side, wrap), wrapped(first + 1, side, wrap), position


@wp.func
def channel(texel: wp.uint32, shift: wp.uint32) -> wp.int32:
    """Return a byte of a texel."""
    return wp.int32((texel >> shift) & wp.uint32(255))


@wp.func
def linear(texel: wp.uint32, lens: Lens) -> wp.vec4:
    """Return the linear light of a texel's colour and its alpha from 0 to 255."""
    return wp.vec4(
        lens.decode[channel(texel, wp.uint32(0))],
        lens.decode[channel(texel, wp.uint32(8))],
        lens.decode[channel(texel, wp.uint32(16))],
        wp.float32(channel(texel, wp.uint32(24))),
    )


@wp.func
def bilinear(slot: Slot, lens: Lens, material: Material, at: wp.vec2, level: wp.int32) -> wp.vec4:
    """Return a texture's linear colour and alpha at texture coordinates on one mip level."""
    side = lens.side >> level
    # The levels before hold side_0^2 + (side_0 / 2)^2 + ... + (2 side)^2 texels of every texture.
    before = (4 * (lens.side * lens.side - side * side)) / 3
    start = slot.num_textures * before + material.texture * side * side
    left, right, across = neighbours(at[0], side, material.wrap_u, level == 0)
    high, low, down = neighbours(at[1], side, material.wrap_v, level == 0)
    upper = start + side * high
    lower = start + side * low
    above = wp.lerp(linear(slot.texels[upper + left], lens), linear(slot.texels[upper + right], lens), across)
    below = wp.lerp(linear(slot.texels[lower + left], lens), linear(slot.texels[lower + right], lens), across)
    return wp.lerp(above, below, down)


@wp.func
def texture(slot: Slot, lens: Lens, triangle: Triangle, material: Material, ray: Ray, hit: Hit) -> wp.vec4:
    """Return a texture's linear colour and alpha (from 0 to 255) where a ray hits a triangle, trilinear."""
    at = triangle.uv + hit.u * triangle.to_1 + hit.v * triangle.to_2
    level = mip_level(footprint(triangle, ray, hit), lens.last_level)
    fine = wp.int32(level)
    color = bilinear(slot, lens, material, at, fine)
    blend = level - wp.float32(fine)
    if blend > 0.0:
        color = wp.lerp(color, bilinear(slot, lens, material, at, fine + 1), blend)
    return color


@wp.func
def mixed(triangle: Triangle, hit: Hit, shift: wp.uint32) -> wp.float32:
    """Return a channel of the corners' colours between the corners, from 0 to 1."""
    first = wp.float32(channel(triangle.color_0, shift))
    second = wp.float32(channel(triangle.color_1, shift))
    third = wp.float32(channel(triangle.color_2, shift))
    return ((1.0 - hit.u - hit.v) * first + hit.u * second + hit.v * third) / 255.0


@wp.func
def passes(slot: Slot, lens: Lens, ray: Ray, hit: Hit) -> wp.bool:
    """Return whether a ray passes a triangle: from behind if it is single-sided, or where its alpha is low."""
    if slot.single_sided.shape[0] > 0:
        if slot.single_sided[hit.face] != wp.uint8(0) and wp.dot(hit.normal, ray.direction) > 0.0:
            return True
    if slot.masked == 0:
        return False
    triangle = slot.triangles[hit.face]
    material = slot.materials[triangle.material]
    if material.cutoff <= 0.0:
        return False
    alpha = material.factor[3] * mixed(triangle, hit, wp.uint32(24))
    if material.texture >= 0:
        alpha *= texture(slot, lens, triangle, material, ray, hit)[3] / 255.0
    return alpha < material.cutoff


@wp.func
def meet(ray: Ray, first: wp.vec3, second: wp.vec3, third: wp.vec3) -> Hit:
    """Return where a ray hits a triangle (Moeller and Trumbore 1997); ``face`` is 0 if it does."""
    hit = Hit()
    hit.face = -1
    a = second - first
    b = third - first
    across = wp.cross(ray.direction, b)
    determinant = wp.dot(a, across)
    if determinant == 0.0:
        return hit
    to = ray.origin - first
    turn = wp.cross(to, a)
    hit.u = wp.dot(to, across) / determinant
    hit.v = wp.dot(ray.direction, turn) / determinant
    hit.length = wp.dot(b, turn) / determinant
    hit.normal = wp.normalize(wp.cross(a, b))
    if hit.u >= 0.0 and hit.v >= 0.0 and hit.u + hit.v <= 1.0:
        hit.face = 0
    return hit


@wp.func
def trace(slot: Slot, lens: Lens, ray: Ray, near: wp.float32, far: wp.float32) -> Hit:
    """Return the first hit of a ray between two lengths on a triangle that it does not pass."""
    hit = Hit()
    hit.face = -1
    query = wp.mesh_query_ray(slot.mesh, ray.origin + near * ray.direction, ray.direction, far - near)
    if query.result:
        hit.face = query.face
        hit.length = near + query.t
        hit.u = query.v  # Warp counts the weights of the first and the second corner
        hit.v = 1.0 - query.u - query.v
        hit.normal = query.normal
    if slot.passable == wp.uint64(0):
        return hit
    nearest = wp.where(hit.face >= 0, hit.length, far)
    boxes = wp.bvh_query_ray(slot.passable, ray.origin, ray.direction)
    row = wp.int32(0)
    while wp.bvh_query_next(boxes, row):
        found = meet(ray, slot.corners[row, 0], slot.corners[row, 1], slot.corners[row, 2])
        if found.face >= 0 and found.length >= near and found.length < nearest:
            found.face = slot.faces[row]
            if not passes(slot, lens, ray, found):
                hit = found
                nearest = found.length
    return hit


@wp.func
def byte(lens: Lens, value: wp.float32) -> wp.uint8:
    """Return the sRGB byte of linear light; 0 for NaN."""
    steps = wp.float32(lens.encode.shape[0] - 1)
    if not value > 0.0:
        return lens.encode[0]
    return lens.encode[wp.int32(wp.min(value * steps, steps) + 0.5)]


@wp.func
def turned_back(matrix: wp.mat44, vector: wp.vec3) -> wp.vec3:
    """Return a direction turned by the inverse rotation of a matrix."""
    return wp.transform_vector(wp.transpose(matrix), vector)


@wp.func
def aim(lens: Lens, views: Views, n: wp.int32, y: wp.int32, x: wp.int32) -> Ray:
    """Return the ray of a pixel of view n in the world."""
    matrix = views.matrix[n]
    local = lens.rays[y, x]
    ray = Ray()
    ray.origin = views.eye[n] + turned_back(
        matrix, wp.vec3(local[wp.static(ORIGIN_RIGHT)], local[wp.static(ORIGIN_UP)], 0.0)
    )
    ray.direction = turned_back(
        matrix, wp.vec3(local[wp.static(RIGHT)], local[wp.static(UP)], -local[wp.static(AHEAD)])
    )
    right = lens.axes[y / wp.static(PACKET), x / wp.static(PACKET), 0]
    up = lens.axes[y / wp.static(PACKET), x / wp.static(PACKET), 1]
    ray.right = turned_back(matrix, wp.vec3(right[0], right[1], -right[2]))
    ray.up = turned_back(matrix, wp.vec3(up[0], up[1], -up[2]))
    ray.parallel = lens.parallel
    return ray


@wp.func
def in_body(ray: Ray, pose: wp.mat44) -> Ray:
    """Return a ray of the world in a body's frame."""
    own = Ray()
    own.origin = turned_back(pose, ray.origin - wp.vec3(pose[0, 3], pose[1, 3], pose[2, 3]))
    own.direction = turned_back(pose, ray.direction)
    own.right = turned_back(pose, ray.right)
    own.up = turned_back(pose, ray.up)
    own.parallel = ray.parallel
    return own


@wp.func
def may_meet(ray: Ray, sphere: wp.vec4) -> wp.bool:
    """Return whether the line of a ray meets a sphere."""
    to = wp.vec3(sphere[0], sphere[1], sphere[2]) - ray.origin
    square = wp.dot(ray.direction, ray.direction)
    along = wp.dot(to, ray.direction)
    outside = wp.dot(to, to) - sphere[3] * sphere[3]
    return outside <= 0.0 or (along > 0.0 and outside * square <= along * along)


@cache
def draw_kernel(colored: bool, moving: bool) -> Any:
    """Return the kernel that draws views, one thread per pixel.

    Threads are numbered by view, by tile of TILE pixels, and within the tile, so that the 32 threads that a GPU runs
    together trace neighbouring rays. The kernel is compiled with or without colours and moving bodies.
    """

    @wp.kernel(module="unique", enable_backward=False)
    def draw(
        scenes: wp.array(dtype=Slot),
        shapes: wp.array(dtype=Slot),
        views: Views,
        bodies: Bodies,
        lens: Lens,
        out: Pictures,
    ) -> None:
        n, row, column, place = wp.tid()
        y = row * wp.static(TILE[0]) + place / wp.static(TILE[1])
        x = column * wp.static(TILE[1]) + place % wp.static(TILE[1])
        if y >= lens.height or x >= lens.width:
            return
        ray = aim(lens, views, n, y, x)
        slot = scenes[views.slot[n]]
        hit = trace(slot, lens, ray, lens.near, lens.rays[y, x][wp.static(END)])
        id = wp.int32(0)
        if hit.face >= 0:
            id = slot.objects[hit.face]
        normal = hit.normal
        seen = ray
        towards = views.light[n]
        if wp.static(moving):
            for body in range(bodies.first[n], bodies.first[n + 1]):
                pose = bodies.pose[body]
                own = in_body(ray, pose)
                if may_meet(own, bodies.spheres[bodies.slot[body]]):
                    far = hit.length
                    if hit.face < 0:
                        far = lens.rays[y, x][wp.static(END)]
                    shape = shapes[bodies.slot[body]]
                    nearer = trace(shape, lens, own, lens.near, far)
                    if nearer.face >= 0:
                        hit = nearer
                        slot = shape
                        seen = own
                        towards = turned_back(pose, views.light[n])
                        normal = wp.transform_vector(pose, nearer.normal)
                        id = bodies.object_id[body]
        if wp.static(colored):
            color = wp.vec3(0.0, 0.0, 0.0)
            if hit.face >= 0:
                triangle = slot.triangles[hit.face]
                material = slot.materials[triangle.material]
                cosine = wp.dot(hit.normal, towards)
                if wp.dot(hit.normal, seen.direction) > 0.0:  # the normal is turned to the viewer
                    cosine = -cosine
                shine = lens.ambient + lens.diffuse * wp.max(cosine, 0.0)
                color = shine * wp.vec3(
                    material.factor[0] * mixed(triangle, hit, wp.uint32(0)),
                    material.factor[1] * mixed(triangle, hit, wp.uint32(8)),
                    material.factor[2] * mixed(triangle, hit, wp.uint32(16)),
                )
                if material.texture >= 0:
                    texel = texture(slot, lens, triangle, material, seen, hit)
                    color = wp.cw_mul(color, wp.vec3(texel[0], texel[1], texel[2]))
            for k in range(3):
                out.rgb[n, y, x, k] = byte(lens, color[k])
        found = hit.face >= 0
        if out.depth.shape[0] > 0:
            metres = wp.clamp(hit.length, lens.min_depth, lens.max_depth)
            out.depth[n, y, x] = wp.where(found, (metres - lens.offset) / lens.unit, lens.miss)
        if out.semantic.shape[0] > 0:
            out.semantic[n, y, x] = wp.where(found, id, 0)
        if out.normals.shape[0] > 0:
            normal = wp.where(wp.dot(normal, ray.direction) > 0.0, -normal, normal)
            out.normals[n, y, x] = wp.where(found, wp.transform_vector(views.matrix[n], normal), wp.vec3(0.0, 0.0, 0.0))
        if out.points.shape[0] > 0:
            point = ray.origin + hit.length * ray.direction
            out.points[n, y, x] = wp.where(found, point, wp.vec3(0.0, 0.0, 0.0))

    return draw
