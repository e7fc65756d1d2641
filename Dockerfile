# The scheduler image: no compiler, no root, works with a read-only root file system.
#
#   docker build -t kai-sched .
#   docker run --rm --read-only -v "$PWD/examples:/examples:ro" kai-sched simulate /examples/teams
#
# `kai-sched run` is how manifests/ starts it: 8080 for probes and metrics, 9443 for the webhooks. Reservation pods run
# `kai-sched reserve`; the container runtime of NVIDIA gives it the management library that it asks.

FROM python:3.11-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
COPY requirements requirements
RUN python -m venv /opt/build \
 && /opt/build/bin/pip install --require-hashes -r requirements/build.txt \
 && python -m venv /opt/kai-sched \
 && /opt/kai-sched/bin/pip install --require-hashes -r requirements/runtime.txt
COPY LICENSE README.md pyproject.toml ./
COPY kai_sched kai_sched
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir dist . \
 && /opt/kai-sched/bin/pip install --no-deps --no-index dist/*.whl \
 && /opt/kai-sched/bin/pip uninstall --yes pip setuptools
# Compiled for any CPU of the architecture, as the machine that runs the image is seldom the one that builds it.
ENV KAI_SCHED_CACHE_DIR=/opt/kai-sched/cache NUMBA_CPU_NAME=generic
RUN /opt/kai-sched/bin/kai-sched warmup

FROM python:3.11-slim
LABEL org.opencontainers.image.title="kai-sched" org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/kai-sched /opt/kai-sched
ENV PATH=/opt/kai-sched/bin:$PATH PYTHONDONTWRITEBYTECODE=1 \
    KAI_SCHED_CACHE_DIR=/opt/kai-sched/cache NUMBA_CPU_NAME=generic NVIDIA_DRIVER_CAPABILITIES=utility
EXPOSE 8080 9443
USER 10000:10000
ENTRYPOINT ["kai-sched"]
