# One image for every role: operator, brain, trainer, master and parameter server. It runs as an unprivileged user on a read-only
# root file system (mount something writable at /tmp), and holds no compiler, no pip and no source tree.
#   docker build -t edl .
#   docker build -t edl --build-arg BASE=registry.example.com/python:3.11 .    # any base with Python 3.11 or newer
# A release names its base by digest, so that the same sources make the same image:
#   docker build -t edl --build-arg BASE=docker.io/library/python@sha256:... .
ARG BASE=docker.io/library/python:3.11-slim

# What we depend on, in a layer of its own: it changes seldom. Every file must have a hash that `make pins` wrote down.
FROM ${BASE} AS dependencies
ARG PIP_INDEX_URL
ARG PIP_CERT
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /source
RUN python3 -m venv /opt/edl
COPY constraints-image.txt ./
RUN /opt/edl/bin/pip install --quiet --require-hashes --no-deps --requirement constraints-image.txt

FROM dependencies AS package
COPY constraints-build.txt ./
RUN python3 -m venv /opt/build \
 && /opt/build/bin/pip install --quiet --require-hashes --no-deps --requirement constraints-build.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
COPY examples examples
RUN /opt/build/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir /wheel . \
 && /opt/edl/bin/pip install --quiet --no-deps --no-index --prefix /staging /wheel/*.whl

FROM dependencies AS runtime
RUN /opt/edl/bin/pip uninstall --quiet --yes pip setuptools \
 && find /opt/edl/lib -type d -name tests -prune -exec rm -r {} +

FROM ${BASE}
ARG BASE
LABEL org.opencontainers.image.base.name=${BASE}
COPY --from=runtime /opt/edl /opt/edl
COPY --from=package /staging /opt/edl
# Bytecode was compiled at installation; nothing could be written beside it at run time.
ENV PATH=/opt/edl/bin:/usr/local/bin:/usr/bin:/bin HOME=/tmp PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# Manifests of the examples name their scripts by this path, as in a checkout.
COPY examples /edl/examples
WORKDIR /edl
USER 65532:65532
ENTRYPOINT ["edl"]
