"""The renderer that needs only CUDA: NVIDIA Warp traces and shades rays. Importing it needs the extra ``[warp]``."""
