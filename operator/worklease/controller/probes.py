"""/healthz, /readyz and /metrics: what the kubelet and Prometheus ask."""

from collections.abc import Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

Check = Callable[[], str | None]
"""Says what is wrong; None when nothing is."""


async def serve(
    host: str | None, port: int, *, health: Check, readiness: Check, registry: CollectorRegistry
) -> web.AppRunner:
    """Start serving; port 0 takes a free one, host None every interface. The caller cleans the runner up."""

    def probe(check: Check) -> Callable[[web.Request], "web.Response | object"]:
        async def answer(_: web.Request) -> web.Response:
            wrong = check()
            return web.Response(text=(wrong or "ok") + "\n", status=503 if wrong else 200)

        return answer

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    application = web.Application()
    application.router.add_get("/healthz", probe(health))  # type: ignore[arg-type]
    application.router.add_get("/readyz", probe(readiness))  # type: ignore[arg-type]
    application.router.add_get("/metrics", metrics)
    runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=0.2)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    return runner
