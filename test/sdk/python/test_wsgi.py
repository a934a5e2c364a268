"""The guard in Flask and Django, with a service that answers as each test says."""

import json
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

import pytest
from conftest import ALLOW, ASKABLE, Service, http
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.urls import clear_url_caches, path, set_urlconf
from django.views.decorators.csrf import csrf_exempt
from flask import Flask, abort, request
from flask.typing import ResponseReturnValue
from werkzeug.test import Client, TestResponse

from deputize.frameworks.django import guard_django
from deputize.frameworks.flask import guard_flask
from deputize.frameworks.wsgi import target_of
from deputize.guard import ABSENT, Authority, Guard, Operation, Route

PROOF = {"x-service-proof": "AQ", "x-service-agent-id": "aa", "x-service-invocation-id": "inv-1"}
JSON = {"content-type": "application/json"}
FAILURES = {13: 409, 15: 404}


def flask_application(guard: Guard, ran: list[Any]) -> Any:
    app = Flask(__name__)
    app.config["PROPAGATE_EXCEPTIONS"] = False

    @app.post("/orders")
    @guard_flask(guard, Route("data:write", operation=True))
    def place(who: Authority) -> ResponseReturnValue:
        order = request.get_json()
        ran.append((order["amount"], who.payload["amount"]))
        if order["amount"] == 14:
            raise LookupError
        if order["amount"] in FAILURES:
            abort(FAILURES[order["amount"]])
        return {}, 201

    @app.post("/orders/<order>/refund")
    @guard_flask(
        guard,
        Route("data:write", operation=lambda found: Operation(action="refund", resource_id=order_of(found))),
    )
    async def refund(who: Authority, order: str) -> str:
        ran.append((order, who.payload))
        return "done"

    def order_of(found: Any) -> str:
        return str(found.view_args["order"])

    return app


URLS: list[Any] = []
settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], LOGGING_CONFIG=None, SECRET_KEY="s")
urlpatterns = URLS


def django_application(guard: Guard, ran: list[Any]) -> Any:
    @csrf_exempt
    @guard_django(guard, Route("data:write", operation=True))
    def place(found: HttpRequest, who: Authority) -> HttpResponse:
        amount = json.loads(found.body)["amount"]
        ran.append((amount, who.payload["amount"]))
        if amount == 14:
            raise LookupError
        if amount == 15:
            raise Http404
        return JsonResponse({}, status=FAILURES.get(amount, 201))

    def refund_of(found: HttpRequest) -> Operation:
        match = found.resolver_match
        return Operation(action="refund", resource_id=None if match is None else match.kwargs["order"])

    @csrf_exempt
    @guard_django(guard, Route("data:write", operation=refund_of))
    def refund(_: HttpRequest, who: Authority, order: str) -> HttpResponse:
        ran.append((order, who.payload))
        return HttpResponse("done")

    URLS[:] = [path("orders", place), path("orders/<str:order>/refund", refund)]
    clear_url_caches()
    set_urlconf(None)
    return WSGIHandler()


Make = Callable[[Guard, list[Any]], Any]


@pytest.fixture(params=[flask_application, django_application], ids=["flask", "django"])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    yield request.param


def post(app: Any, target: str, body: Any, headers: dict[str, str]) -> TestResponse:
    return Client(app).post(target, data=body, headers=headers)


def test_runs_the_view_only_after_allow(service: Service, make: Make) -> None:
    ran: list[Any] = []
    app = make(service.guard(), ran)
    assert post(app, "/orders", '{"amount":5.0}', {**JSON, **PROOF}).status_code == 201
    assert ran == [(5.0, 5.0)]
    refused = post(app, "/orders", '{"amount":5}', JSON)
    message = "No authority was demonstrated for this action"
    error = {"code": "no_authority_demonstrated", "message": message, "status": 403}
    assert (refused.status_code, refused.json) == (403, {"error": error})
    assert (refused.headers["cache-control"], refused.mimetype) == ("no-store", "application/json")
    service.answer = lambda _: [http(200, ASKABLE)]
    refused = post(app, "/orders", '{"amount":5}', {**JSON, **PROOF})
    assert (refused.status_code, refused.json and refused.json["error"]["code"]) == (403, "not_delegated")
    assert refused.json and refused.json["evaluation_id"] == "id-1"
    service.answer = lambda _: [http(500, ALLOW)]
    assert post(app, "/orders", '{"amount":5}', {**JSON, **PROOF}).status_code == 503
    assert len(ran) == 1


def test_binds_a_proof_to_the_request_as_it_arrived(service: Service, make: Make) -> None:
    ran: list[Any] = []
    app = make(service.guard(), ran)
    target = "/orders/a%20b/refund?fast=%31"
    assert post(app, target, '{"amount":1e2}', {**JSON, **PROOF}).status_code == 200
    [sent] = service.verified()
    assert (sent["operation"]["requested_path"], sent["operation"]["resource_id"]) == (target, "a b")
    assert post(app, target, b"", PROOF).status_code == 200
    assert "payload_digest" not in service.verified()[1]["operation"]
    assert ran == [("a b", {"amount": 100.0}), ("a b", ABSENT)]
    for body, headers, status in (
        ('{"amount":1,"amount":2}', JSON, 400),
        ('{"amount":9007199254740993}', JSON, 400),
        (b"\xef\xbb\xbf{}", JSON, 400),
        ('{"amount":1}', {"content-type": "text/plain"}, 403),
    ):
        refused = post(app, target, body, {**headers, **PROOF})
        assert (refused.status_code, len(ran)) == (status, 2), body
    assert len(service.verified()) == 2


def test_gives_a_challenge_only_to_a_caller_who_asks(service: Service, make: Make) -> None:
    challenge = {"challenge": "AQ==", "expires_at": "2026-01-01T00:00:00Z"}
    service.answer = lambda _: [http(200, challenge)]
    app = make(service.guard(), [])
    assert "challenge" not in (post(app, "/orders", "{}", JSON).json or {})
    assert service.requests == []
    asking = {**JSON, "x-service-challenge": "wanted"}
    assert (post(app, "/orders", "{}", asking).json or {})["challenge"] == challenge


def test_reports_the_status_of_each_response(service: Service, make: Make) -> None:
    guard = service.guard()
    app = make(guard, [])
    for amount, status, outcome, detail in (
        (1, 201, "executed", "HTTP 201"),
        (13, 409, "refused_by_receiver", "HTTP 409"),
        (15, 404, "refused_by_receiver", "HTTP 404"),
        (14, 500, "failed", "LookupError"),
    ):
        body = json.dumps({"amount": amount})
        assert post(app, "/orders", body, {**JSON, **PROOF}).status_code == status
        guard.flush()
        report = service.reported()[-1]
        assert (report["outcome"], report["detail"]) == (outcome, detail)
        assert service.verified()[-1]["operation"]["action"] == "POST"


def test_reads_no_body_without_a_proof_and_no_large_one(service: Service, make: Make) -> None:
    ran: list[Any] = []
    app = make(service.guard(), ran)
    large = b" " * 3_000_000
    reads: list[object] = []

    class Watched(BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            reads.append(size)
            return super().read(size)

    refused = Client(app).post("/orders", input_stream=Watched(large), headers=JSON)
    assert (refused.status_code, reads) == (403, [])
    assert post(app, "/orders", large, {**JSON, **PROOF}).status_code in (400, 413)
    assert (ran, service.requests) == ([], [])


def test_encodes_a_path_that_the_server_has_decoded() -> None:
    def found(**environ: str) -> str:
        return target_of(environ)

    assert found(PATH_INFO="/orders/a b", QUERY_STRING="fast=%31") == "/orders/a%20b?fast=%31"
    assert found(SCRIPT_NAME="/shop", PATH_INFO="/é;v=1/x:y@z".encode().decode("latin-1")) == (
        "/shop/%C3%A9;v=1/x:y@z"
    )
    assert found(REQUEST_URI="/a%62?", PATH_INFO="/ab") == "/a%62?"
    assert found(RAW_URI="http://shop.example/a", PATH_INFO="/a") == "/a"


def test_refuses_an_async_view_in_django(service: Service) -> None:
    async def view(_: HttpRequest, __: Authority) -> HttpResponse:
        return HttpResponse()

    with pytest.raises(TypeError, match="must be sync"):
        guard_django(service.guard(), Route("data:write"))(view)  # type: ignore[arg-type]
