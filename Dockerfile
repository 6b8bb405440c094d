# The operator, the command and the MCP server in one image. hack/image makes the same without Docker.
# The base is pinned by its version; where you pin by digest, give it as PYTHON_IMAGE=python@sha256:...
ARG PYTHON_IMAGE=python:3.13.9-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
# pip passes over an extra that the project does not have.
ARG EXTRAS=operator,mcp
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY operator operator
RUN python -m venv --without-pip /opt/worklease \
    && pip --disable-pip-version-check --no-cache-dir --python /opt/worklease/bin/python \
        install --no-compile --only-binary=:all: --no-binary=worklease ".[${EXTRAS}]"
# The generated calls and models of the Kubernetes client are loaded by name when one is used, and none is.
RUN cd /opt/worklease/lib/python*/site-packages/kubernetes \
    && rm client/api/[!_]*.py client/models/[!_]*.py aio/client/api/[!_]*.py aio/client/models/[!_]*.py \
    && rm -f /opt/worklease/bin/worklease-fence \
    && /opt/worklease/bin/python -m compileall -q --invalidation-mode=unchecked-hash /opt/worklease/lib

FROM ${PYTHON_IMAGE}
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="worklease" \
      org.opencontainers.image.description="A lease on work: the operator, the command and the MCP server." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
COPY --from=build /opt/worklease /opt/worklease
ENV PATH=/opt/worklease/bin:/usr/local/bin:/usr/bin:/bin PYTHONUNBUFFERED=1
USER 65532:65532
RUN ["worklease-operator", "--version"]
RUN ["worklease", "--version"]
CMD ["worklease-operator"]
