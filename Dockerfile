# The service in a container: models are mounted at /models, nothing else is written.
#
#   docker build -t ensue .
#   docker run --read-only --tmpfs /tmp -p 8000:8000 -e ENSUE_TOKEN=… -v ./models:/models ensue serve /models/next --host 0.0.0.0
# The full image has the compiler that the kernels want; nothing of it stays.
FROM python:3.13 AS build
WORKDIR /build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
# Networks need torch. Where only baselines are served, EXTRAS=serve,redis makes an image without it.
ARG EXTRAS=serve,redis,torch
# Where torch comes from, if not from pip's own index: one with CPU builds makes an image of a fifth of the size.
ARG TORCH_INDEX=
COPY constraints.txt pyproject.toml README.md LICENSE ./
RUN python -m venv /opt/ensue \
    && case ",$EXTRAS," in *,torch,*) /opt/ensue/bin/pip install \
        "$(grep '^torch==' constraints.txt)" ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} ;; esac
COPY native native
COPY src src
RUN /opt/ensue/bin/pip install ".[$EXTRAS]" --constraint constraints.txt

FROM python:3.13-slim
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin ensue \
    && mkdir /models && chown ensue:ensue /models
COPY --from=build /opt/ensue /opt/ensue
ENV PATH=/opt/ensue/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /models
VOLUME /models
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/readyz', timeout=2)"]
ENTRYPOINT ["ensue"]
CMD ["serve", "/models/next", "--host", "0.0.0.0", "--port", "8000"]
