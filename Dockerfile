# One image for every role: operator, brain, trainer, master and parameter server. It runs as an unprivileged user on a read-only
# root file system (mount something writable at /tmp), and holds no compiler, no pip and no source tree.
#   docker build -t edl .
#   docker build -t edl --build-arg BASE=registry.example.com/python:3.11 .    # any base with Python 3.11 or newer
ARG BASE=docker.io/library/python:3.11-slim

# What we depend on, in a layer of its own: it changes seldom. The empty package stands in for ours, so that pip reads the
# dependencies from where they are declared.
FROM ${BASE} AS dependencies
ARG PIP_INDEX_URL
ARG PIP_CERT
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /source
RUN python3 -m venv /opt/edl
COPY pyproject.toml constraints.txt README.md LICENSE ./
RUN mkdir -p src/edl && echo '__version__ = "0"' > src/edl/__init__.py \
 && /opt/edl/bin/pip install --quiet --constraint constraints.txt '.[postgres]' \
 && /opt/edl/bin/pip uninstall --quiet --yes edl

FROM dependencies AS package
COPY src src
RUN /opt/edl/bin/pip install --quiet --no-deps --prefix /staging .

FROM dependencies AS runtime
RUN /opt/edl/bin/pip uninstall --quiet --yes pip setuptools \
 && find /opt/edl/lib -type d -name tests -prune -exec rm -r {} +

FROM ${BASE}
COPY --from=runtime /opt/edl /opt/edl
COPY --from=package /staging /opt/edl
# Bytecode was compiled at installation; nothing could be written beside it at run time.
ENV PATH=/opt/edl/bin:/usr/local/bin:/usr/bin:/bin HOME=/tmp PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /tmp
USER 65532:65532
ENTRYPOINT ["edl"]
