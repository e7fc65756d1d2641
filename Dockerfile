# The scheduler image: no compiler, no root, works with a read-only root file system. It installs the wheel in dist/,
# which has the compiled kernels:
#
#   make dist && docker build -t kai-sched .
#   docker run --rm --read-only -v "$PWD/examples:/examples:ro" kai-sched simulate /examples/teams
#
# `kai-sched run` is how the chart starts it: 8080 for probes and metrics, 9443 for the webhooks. Reservation pods run
# `kai-sched reserve`; the container runtime of NVIDIA gives it the management library that it asks.

ARG BASE=python:3.11-slim

FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
RUN python3 -m venv /opt/build && python3 -m venv --without-pip /opt/kai-sched
COPY requirements/runtime.txt packaging/trim.py ./
RUN /opt/build/bin/pip --python /opt/kai-sched/bin/python install --require-hashes -r runtime.txt \
 && /opt/build/bin/python trim.py /opt/kai-sched
COPY dist/*.whl ./
RUN /opt/build/bin/pip --python /opt/kai-sched/bin/python install --no-deps --no-index *.whl

FROM ${BASE}
LABEL org.opencontainers.image.title="kai-sched" org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/kai-sched /opt/kai-sched
# The user has no entry in /etc/passwd, and libraries ask for a home at import time.
ENV PATH=/opt/kai-sched/bin:$PATH HOME=/tmp PYTHONDONTWRITEBYTECODE=1 NVIDIA_DRIVER_CAPABILITIES=utility
EXPOSE 8080 9443
USER 10000:10000
ENTRYPOINT ["kai-sched"]
