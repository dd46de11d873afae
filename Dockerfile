# tests/deployment/test_image.py reads this file and takes its steps by hand, with /src and /opt/headcount elsewhere.
FROM python:3.13-slim AS build
WORKDIR /src
RUN python -m venv /opt/headcount
COPY requirements.lock ./
RUN /opt/headcount/bin/python -m pip install --require-hashes --only-binary :all: -r requirements.lock
COPY pyproject.toml ./
COPY service service
COPY migrations migrations
RUN /opt/headcount/bin/python -m pip wheel --no-build-isolation --no-deps --no-index --wheel-dir dist . \
    && /opt/headcount/bin/python -m pip install --no-deps --no-index dist/headcount-*.whl

FROM python:3.13-slim
COPY --from=build /opt/headcount /opt/headcount
# There is no such user in the image, so it has no home: what asks for one gets the one folder that can be written.
ENV PATH=/opt/headcount/bin:/usr/local/bin:/usr/bin:/bin HOME=/tmp PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 8750:8750
EXPOSE 8750
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8750/livez', timeout=2)"]
CMD ["headcount", "serve", "--host", "0.0.0.0", "--port", "8750"]
