# The Chronolake server. Build: docker build -t chronolake .   Whole set-up: docker compose up
FROM python:3.13-slim AS build
WORKDIR /src
RUN python -m venv /opt/chronolake
COPY pyproject.toml hatch_build.py constraints.txt README.md LICENSE ./
COPY tools/async_to_sync.py tools/
COPY client client
COPY metastore metastore
COPY migrations migrations
COPY spark_integration spark_integration
RUN /opt/chronolake/bin/pip install --no-cache-dir --disable-pip-version-check \
    --constraint constraints.txt '.[oidc,server,storage,vending]'

FROM python:3.13-slim
# A number that no user of the host has; the folder is for the embedded database, when no DSN is given.
RUN useradd --uid 10001 --user-group --create-home --home-dir /var/lib/chronolake chronolake
COPY --from=build /opt/chronolake /opt/chronolake
ENV PATH=/opt/chronolake/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    CHRONOLAKE_DATA_DIR=/var/lib/chronolake/data \
    CHRONOLAKE_HOST=0.0.0.0 \
    CHRONOLAKE_LOG_FORMAT=json
USER chronolake
WORKDIR /var/lib/chronolake
EXPOSE 7077
# Inside a container the loopback interface reaches nobody, so the server listens at all interfaces. It refuses to
# start unless callers need tokens (CHRONOLAKE_ACCESS=on, see docs/security.md), or CHRONOLAKE_ALLOW_ANONYMOUS=true
# lets every client do everything.
#
# The check reads the variables, and verifies no certificate: that is seldom one for 127.0.0.1. A server that asks
# for certificates of clients (CHRONOLAKE_TLS_CLIENT_CA) needs another check.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import os, ssl, urllib.request as r; c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE; r.urlopen(('https' if os.environ.get('CHRONOLAKE_TLS_CERTIFICATE') else 'http') + '://127.0.0.1:' + os.environ.get('CHRONOLAKE_PORT', '7077') + '/ready', timeout=4, context=c)"]
ENTRYPOINT ["chronolake-metastore"]
CMD ["serve"]
