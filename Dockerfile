# docker build --tag gym_batchnav . && docker run --rm gym_batchnav demo
# With an NVIDIA GPU: docker build --build-arg EXTRAS=train,warp ..., and docker run --gpus all.
FROM python:3.12-slim
RUN apt-get update && apt-get install -y --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/*
ARG EXTRAS=view
WORKDIR /batchnav
COPY . .
ENV NUMBA_CACHE_DIR=/cache/numba GYM_BATCHNAV_CACHE=/cache/scenes
RUN pip install --no-cache-dir ".[${EXTRAS}]" && gym-batchnav warmup --renderer embree
ENTRYPOINT ["gym-batchnav"]
CMD ["doctor"]
