# The server alone, without Spark and tables: docker build -t headrace .
# docker run -p 4222:4222 -v headrace:/data headrace
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY requirements/base.txt requirements/base.txt
RUN python -m venv /opt/headrace \
    && /opt/headrace/bin/pip install --no-cache-dir -r requirements/base.txt
COPY . .
# pip is of no use in the image, and what it leaves out cannot be misused.
RUN /opt/headrace/bin/pip install --no-cache-dir --no-deps . \
    && /opt/headrace/bin/pip uninstall -y pip

FROM python:${PYTHON}-slim
COPY --from=build /opt/headrace /opt/headrace
RUN useradd --system --uid 10001 --user-group --no-create-home headrace \
    && install -d -o headrace -g headrace -m 700 /data
ENV PATH=/opt/headrace/bin:$PATH PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
VOLUME /data
EXPOSE 4222 8222
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8222/healthz', timeout=2)"]
ENTRYPOINT ["headrace"]
CMD ["serve", "-js", "-sd", "/data", "-m", "8222"]
