"""A product to which customers connect: uvicorn shop:app --port 3000"""

import os

from authlib.integrations.starlette_client import OAuth, OAuthError
from fastapi import FastAPI, Request, Response
from fastapi.responses import PlainTextResponse
from starlette.middleware.sessions import SessionMiddleware

base_url = os.environ["BASE_URL"]
here = f"http://127.0.0.1:{os.environ.get('PORT', '3000')}"
oauth = OAuth()
oauth.register(
    "deputize",
    client_id=os.environ["PLATFORM_ID"],
    client_secret=os.environ["SIGNING_SECRET"],
    server_metadata_url=f"{base_url}/.well-known/oauth-authorization-server",
    client_kwargs={"code_challenge_method": "S256"},
)
customers: dict[str, dict[str, str]] = {}  # by connection; encrypt the API keys in your database

app = FastAPI()
app.add_middleware(SessionMiddleware, secret_key=os.environ["SESSION_SECRET"], same_site="lax")


@app.get("/connect")
async def connect(request: Request) -> Response:
    return await oauth.deputize.authorize_redirect(request, f"{here}/connected")


@app.get("/connected")
async def connected(request: Request) -> Response:
    if request.query_params.get("iss") != base_url:
        return PlainTextResponse("Not connected: another issuer", 400)
    try:
        # Compares `state` with the session of this browser. Otherwise a stranger could connect their account.
        answer = await oauth.deputize.authorize_access_token(request)
    except OAuthError as error:
        return PlainTextResponse(f"Not connected: {error.error}", 400)
    customers[answer["connection_id"]] = {"key": answer["access_token"], "name": answer["org_name"]}
    return PlainTextResponse(f"Connected {answer['org_name']} with {answer['scope']}")
