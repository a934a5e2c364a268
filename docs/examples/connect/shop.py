"""A product to which customers connect: uvicorn shop:app --port 3000"""

import os
from typing import Any

import httpx2
from authlib.integrations.starlette_client import OAuth, OAuthError
from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse
from starlette.middleware.sessions import SessionMiddleware

base_url = os.environ["BASE_URL"]
port = os.environ.get("PORT", "3000")
origin = os.environ.get("ORIGIN", f"http://127.0.0.1:{port}")  # as browsers know it
SCOPE = "data:read"
PAGE = """<!doctype html><html lang="en"><meta name="viewport" content="width=device-width">
<title>Shop</title><main><h1>Shop</h1><p><a href="/connect">Connect an account</a></p>
<form method="post" action="/read"><button>Let the agent read</button></form></main></html>"""
oauth = OAuth()
oauth.register(
    "deputize",
    client_id=os.environ["PLATFORM_ID"],
    client_secret=os.environ["SIGNING_SECRET"],
    server_metadata_url=f"{base_url}/.well-known/oauth-authorization-server",
    client_kwargs={"code_challenge_method": "S256"},
)
connections: dict[str, dict[str, str]] = {}  # by id; encrypt the API keys in your database

app = FastAPI()
app.add_middleware(
    SessionMiddleware,
    secret_key=os.environ["SESSION_SECRET"],
    same_site="lax",
    https_only=origin.startswith("https:"),
)


@app.get("/")
async def home() -> Response:
    return HTMLResponse(PAGE)


@app.get("/connect")
async def connect(request: Request) -> Response:
    request.session.clear()
    return await oauth.deputize.authorize_redirect(request, f"{origin}/connected")


@app.get("/connected")
async def connected(request: Request) -> Response:
    if request.query_params.get("iss") != base_url:
        return PlainTextResponse("Not connected: another issuer", 400)
    try:
        # Compares `state` with the session of this browser. Otherwise a stranger could connect their account.
        answer = await oauth.deputize.authorize_access_token(request)
    except OAuthError as error:
        return PlainTextResponse(f"Not connected: {error.error}", 400)
    connection = {"id": answer["connection_id"], "key": answer["access_token"]}
    known = connections.get(connection["id"])
    agent = known["agent"] if known else await make_agent(connection)
    connections[connection["id"]] = {**connection, "agent": agent}
    request.session["connection"] = connection["id"]
    return PlainTextResponse(f"Connected {answer['org_name']} with {answer['scope']}")


@app.post("/read")
async def read(request: Request) -> Response:
    connection = connections.get(request.session.get("connection", ""))
    if connection is None:
        return PlainTextResponse("This browser has not connected an account.", 400)
    path = f"/connections/{connection['id']}/agents/{connection['agent']}/present"
    challenge = (await call(connection, "/challenge")).get("challenge")
    proof = await call(connection, path, {"challenge": challenge, "required_scope": SCOPE})
    if "evaluation_id" in proof:
        return await ask(connection, proof["evaluation_id"])
    if "error" in proof:
        return PlainTextResponse(proof["error"]["code"], 403)
    question = {"proof_bundle": proof["proof_bundle"], "required_scope": SCOPE}
    decided = await call(connection, "/verify", question)
    if "error" in decided:
        return PlainTextResponse(decided["error"]["code"], 403)
    if decided["decision"] != "allow":
        return PlainTextResponse(f"Denied: {decided['decision_reason']}", 403)
    return PlainTextResponse("Allowed. The agent has read your orders.")


async def make_agent(connection: dict[str, str]) -> str:
    bot = {"name": "Shop bot", "agent_type": "api_agent"}
    return (await call(connection, f"/connections/{connection['id']}/agents", bot))["agent_id"]


async def ask(connection: dict[str, str], evaluation_id: str) -> Response:
    """Asks the customer to lend the agent what it lacks, and leads the browser to the page that decides."""
    question = {
        "subject": {"type": "agent", "id": connection["agent"]},
        "denial": {"evaluation_id": evaluation_id},
        "requested_access": {"scopes": [SCOPE]},
        "context": {"purpose": "Read your orders"},
    }
    asked = await call(connection, "/access-requests", question)
    if "error" in asked:
        return PlainTextResponse(asked["error"]["code"], 403)
    return RedirectResponse(asked["task"]["links"]["console"], 303)


async def call(connection: dict[str, str], path: str, body: object = None) -> dict[str, Any]:
    """Calls the service with the API key of a customer's connection."""
    headers = {"x-service-api-key": connection["key"]}
    async with httpx2.AsyncClient(base_url=f"{base_url}/v1/service") as client:
        return (await client.post(path, json=body or {}, headers=headers)).json()
