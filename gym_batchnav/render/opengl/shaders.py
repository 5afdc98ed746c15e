"""The GLSL programs, and the storage buffers that they share.

OpenGL 4.3 promises only eight bindings, so they are used again: 0 holds the views; 1 to 3 hold triangles, materials and
layers for drawing; 1 to 4 commands, instances, chunks and slot lists for culling; 1 to 3 the pictures (depth, rgb,
semantic) for packing.
"""

from __future__ import annotations

VERSION = "#version 430\n"

# One view for the vertex shader; it must match VIEW_RECORD in culling.py.
_VIEWS = """
struct View {
    vec4 rows[3];    // of the world-to-camera matrix; culling copies them into every instance
    vec4 light;      // unit vector towards the light, in world space
    ivec4 offsets;   // first material of the slot, slot, tile, semantic id of a body plus 1, or 0
};
layout(std430, binding = 0) readonly buffer Views { View views[]; };
"""

VERTEX = (
    _VIEWS
    + """
layout(location = 0) in vec3 in_position;
layout(location = 1) in uvec3 in_instance;    // view, first triangle of the chunk, tile
layout(location = 2) in vec4 in_row_x;        // of the world-to-camera matrix
layout(location = 3) in vec4 in_row_y;
layout(location = 4) in vec4 in_row_z;
uniform vec2 tan_half;                        // of the field of view, across and up
uniform float near;
uniform bool clip_control;
uniform ivec2 grid;                           // tiles in a row and in a column of the framebuffer
flat out uint first_triangle;
invariant gl_Position;    // equal in the programs of all sensors
#ifdef SURFACE
layout(location = 5) in vec2 in_uv;
layout(location = 6) in vec4 in_color;
out vec2 uv;
out vec4 color;
flat out int first_material;
flat out vec3 light;
#endif
#ifdef SEMANTIC
flat out int body;
#endif

void main() {
    int index = int(in_instance.x);
    vec4 world = vec4(in_position, 1.0);
    vec3 camera = vec3(dot(in_row_x, world), dot(in_row_y, world), dot(in_row_z, world));
    float depth = -camera.z;
    vec2 inside = camera.xy / tan_half;
    gl_ClipDistance[0] = depth + inside.x;
    gl_ClipDistance[1] = depth - inside.x;
    gl_ClipDistance[2] = depth + inside.y;
    gl_ClipDistance[3] = depth - inside.y;
    // The depth buffer holds near / depth: 1 at the near plane, 0 infinitely far away.
    float z = clip_control ? near : 2.0 * near - depth;
    int place = int(in_instance.z);
    vec2 tile = vec2(place % grid.x, place / grid.x);
    gl_Position = vec4((inside + depth * (2.0 * tile + 1.0)) / vec2(grid) - depth, z, depth);
    first_triangle = in_instance.y;
#ifdef SURFACE
    uv = in_uv;
    color = in_color;
    first_material = views[index].offsets.x;
    light = views[index].light.xyz;
#endif
#ifdef SEMANTIC
    body = views[index].offsets.w;
#endif
}
"""
)

FRAGMENT = """
flat in uint first_triangle;
struct Triangle {
    uint material;
    int object;
    uvec2 normal;    // x, y and z as snorm16
};
layout(std430, binding = 1) readonly buffer Triangles { Triangle triangles[]; };

#ifdef RGB
layout(location = 0) out vec4 out_rgb;
#endif
#if defined(RGB) && defined(SEMANTIC)
layout(location = 1) out int out_object;
#elif defined(SEMANTIC)
layout(location = 0) out int out_object;
#endif

#ifdef SEMANTIC
flat in int body;
#endif

#ifdef SURFACE
in vec2 uv;
in vec4 color;
flat in int first_material;
flat in vec3 light;
struct Material {
    vec4 base_color;
    float alpha_cutoff;
    int texture;            // in the scene; layers[] has its place
    uint wrap_u, wrap_v;    // 0 repeat, 1 clamp, 2 mirror; plus 4 if level 0 is not interpolated
};
layout(std430, binding = 2) readonly buffer Materials { Material materials[]; };
layout(std430, binding = 3) readonly buffer Layers { int layers[]; };
layout(binding = 0) uniform sampler2DArray textures[PAGES];
uniform float texture_size;
uniform vec2 brightness;    // ambient, diffuse

float wrapped(float x, uint mode, float half_texel) {
    mode &= 3u;
    if (mode == 0u) return x;
    if (mode == 2u) x = 1.0 - abs(1.0 - mod(x, 2.0));
    return clamp(x, half_texel, 1.0 - half_texel);
}

// A sampler must be selected by a constant, since neighbouring pixels may need different ones.
vec4 texel(vec2 at, int layer, float level) {
#if PAGES > 1
    vec3 place = vec3(at, layer % PAGE_LAYERS);
    switch (layer / PAGE_LAYERS) {
        FURTHER_PAGES
    }
    return textureLod(textures[0], place, level);
#else
    return textureLod(textures[0], vec3(at, layer), level);
#endif
}

vec4 bilinear(Material material, int layer, float level) {
    float half_texel = 0.5 * exp2(level) / texture_size;
    vec2 at = vec2(wrapped(uv.x, material.wrap_u, half_texel), wrapped(uv.y, material.wrap_v, half_texel));
    if (material.wrap_u >= 4u && level == 0.0) at = (floor(at * texture_size) + 0.5) / texture_size;
    return texel(at, layer, level);
}

vec4 trilinear(Material material, int layer, vec2 across, vec2 up) {
    float longest = max(dot(across, across), dot(up, up)) * texture_size * texture_size;
    float last = log2(texture_size);
    float level = clamp(0.5 * log2(max(longest, 1e-20)), 0.0, last);
    float finer = floor(level);
    vec4 fine = bilinear(material, layer, finer);
    vec4 coarse = bilinear(material, layer, min(finer + 1.0, last));
    return mix(fine, coarse, level - finer);
}

vec3 srgb(vec3 linear) {
    return mix(1.055 * pow(linear, vec3(1.0 / 2.4)) - 0.055, 12.92 * linear, lessThanEqual(linear, vec3(0.0031308)));
}
#endif

void main() {
#if defined(SURFACE) || defined(SEMANTIC)
    Triangle triangle = triangles[first_triangle + uint(gl_PrimitiveID)];
#endif
#ifdef SURFACE
    // How uv changes to the next pixel, exactly and not on average over four: uv / depth and 1 / depth change evenly
    // over the picture. Before any branch, or neighbours may be missing.
    float nearness = gl_FragCoord.w;
    vec2 across = (dFdx(uv * nearness) - uv * dFdx(nearness)) / nearness;
    vec2 up = (dFdy(uv * nearness) - uv * dFdy(nearness)) / nearness;
    int index = first_material + int(triangle.material);
    Material material = materials[index];
    vec4 albedo = material.base_color * color;
    if (layers[index] >= 0) albedo *= trilinear(material, layers[index], across, up);
#ifdef MASKED
    if (albedo.a < material.alpha_cutoff) discard;
#endif
#endif
#ifdef RGB
    vec3 normal = vec3(unpackSnorm2x16(triangle.normal.x), unpackSnorm2x16(triangle.normal.y).x);
    float cosine = dot(gl_FrontFacing ? normal : -normal, light);
    float shade = brightness.x + brightness.y * max(cosine, 0.0);
    out_rgb = vec4(srgb(clamp(albedo.rgb * shade, 0.0, 1.0)), 1.0);
#endif
#ifdef SEMANTIC
    out_object = body != 0 ? body - 1 : triangle.object;
#endif
}
"""

# Gathers the tiles of the framebuffer into consecutive pictures, rows from the top; four pixels per invocation.
PACK = """
layout(local_size_x = 128) in;
layout(binding = 0) uniform sampler2D depth_buffer;
layout(binding = 1) uniform sampler2D rgb_buffer;
layout(binding = 2) uniform isampler2D object_buffer;
uniform ivec2 size;          // of a picture
uniform int columns;         // tiles in a row of the framebuffer
uniform int num_pixels;
uniform float near_scaled;   // near plane in the unit of the depth that is written
uniform float depth_offset;  // subtracted from it, in that unit
uniform vec2 depth_range;    // smallest and largest depth that is written
uniform float depth_miss;    // depth of pixels without a hit
#ifdef DEPTH
layout(std430, binding = 1) writeonly buffer DepthPictures { float depth_pictures[]; };
#endif
#ifdef RGB
layout(std430, binding = 2) writeonly buffer RgbPictures { uint rgb_pictures[]; };
#endif
#ifdef SEMANTIC
layout(std430, binding = 3) writeonly buffer SemanticPictures { int semantic_pictures[]; };
#endif

void main() {
    int first = int(gl_GlobalInvocationID.x) * 4;
    if (first >= num_pixels) return;
    uvec3 colors[4];
    for (int k = 0; k < 4; k++) {
        colors[k] = uvec3(0u);
        int pixel = first + k;
        if (pixel >= num_pixels) break;
        int view = pixel / (size.x * size.y), inside = pixel % (size.x * size.y);
        int x = inside % size.x, y = size.y - 1 - inside / size.x;
        ivec2 at = ivec2(view % columns, view / columns) * size + ivec2(x, y);
        float nearness = texelFetch(depth_buffer, at, 0).r;
        bool hit = nearness > 0.0;
#ifdef DEPTH
        float depth = clamp(near_scaled / nearness - depth_offset, depth_range.x, depth_range.y);
        depth_pictures[pixel] = hit ? depth : depth_miss;
#endif
#ifdef RGB
        if (hit) colors[k] = uvec3(texelFetch(rgb_buffer, at, 0).rgb * 255.0 + 0.5);
#endif
#ifdef SEMANTIC
        semantic_pictures[pixel] = hit ? texelFetch(object_buffer, at, 0).r : 0;
#endif
    }
#ifdef RGB
    // Twelve bytes, three words.
    int word = first / 4 * 3;
    rgb_pictures[word] = colors[0].r | colors[0].g << 8 | colors[0].b << 16 | colors[1].r << 24;
    rgb_pictures[word + 1] = colors[1].g | colors[1].b << 8 | colors[2].r << 16 | colors[2].g << 24;
    rgb_pictures[word + 2] = colors[2].b | colors[3].r << 8 | colors[3].g << 16 | colors[3].b << 24;
#endif
}
"""

# One invocation per chunk and view: it adds an instance to the chunk's command if the chunk may be visible.
CULL = (
    _VIEWS
    + """
layout(local_size_x = 64) in;
struct Command {
    uint count, instance_count, first_index;
    int base_vertex;
    uint base_instance;
};
struct Chunk {
    vec3 center;
    uint triangle;
    vec3 half_sides;
    uint unused;
};
layout(std430, binding = 1) buffer Commands { Command commands[]; };
struct Instance {
    vec4 rows[3];
    uint view, triangle, tile, unused;
};
layout(std430, binding = 2) writeonly buffer Instances { Instance instances[]; };
layout(std430, binding = 3) readonly buffer Chunks { Chunk chunks[]; };
layout(std430, binding = 4) readonly buffer SlotLists { int slot_lists[]; };    // K + 1 starts, then the chunks
uniform vec2 tan_half;    // of the field of view, across and up
uniform vec2 near_far;    // the two planes, metres
uniform int first_view;
uniform int num_slots;

void main() {
    int view = first_view + int(gl_WorkGroupID.y);
    int slot = views[view].offsets.y;
    int index = slot_lists[slot] + int(gl_GlobalInvocationID.x);
    if (index >= slot_lists[slot + 1]) return;
    int chunk = slot_lists[num_slots + 1 + index];
    vec4 x = views[view].rows[0], y = views[view].rows[1], z = views[view].rows[2];
    vec4 left = x - tan_half.x * z, right = -x - tan_half.x * z, low = y - tan_half.y * z, high = -y - tan_half.y * z;
    vec4 front = vec4(0.0, 0.0, 0.0, near_far.x) + z, back = vec4(0.0, 0.0, 0.0, near_far.y) + z;
    vec4 planes[6] = vec4[](left, right, low, high, -front, back);
    for (int k = 0; k < 6; k++) {
        float reach = dot(planes[k].xyz, chunks[chunk].center) + dot(abs(planes[k].xyz), chunks[chunk].half_sides);
        if (reach + planes[k].w < 0.0) return;
    }
    uint instance = commands[chunk].base_instance + atomicAdd(commands[chunk].instance_count, 1u);
    instances[instance].rows = views[view].rows;
    instances[instance].view = uint(view);
    instances[instance].triangle = chunks[chunk].triangle;
    instances[instance].tile = uint(views[view].offsets.z);
}
"""
)


def fragment(num_pages: int, page_layers: int, **features: bool) -> str:
    """Return the fragment shader for textures in ``num_pages`` arrays, with a ``#define`` per true keyword."""
    cases = "".join(f"case {k}: return textureLod(textures[{k}], place, level); " for k in range(1, num_pages))
    defines = f"#define PAGES {num_pages}\n#define PAGE_LAYERS {page_layers}\n"
    return with_defines(defines + FRAGMENT.replace("FURTHER_PAGES", cases), **features)


def with_defines(source: str, **features: bool) -> str:
    """Return a shader with its version line and a ``#define`` per true keyword."""
    return VERSION + "".join(f"#define {name}\n" for name, define in features.items() if define) + source
