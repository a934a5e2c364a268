import { randomUUID } from "node:crypto";
import express from "express";
import * as oauth from "openid-client";

const { BASE_URL = "", PLATFORM_ID = "", SIGNING_SECRET = "", PORT = "3000" } = process.env;
/** The address of this product, as browsers know it. */
const { ORIGIN = `http://127.0.0.1:${PORT}` } = process.env;
const SCOPE = "data:read";
const deputize = await oauth.discovery(new URL(BASE_URL), PLATFORM_ID, SIGNING_SECRET, undefined, {
  algorithm: "oauth2",
  execute: BASE_URL.startsWith("http:") ? [oauth.allowInsecureRequests] : [],
});
/** The sessions of browsers, by the value of their cookie. Your application has its own sessions. */
const sessions = new Map();
/** The connections of customers. Encrypt their API keys in your database. */
const connections = new Map();

const app = express();
app.get("/", (_request, response) => {
  response.send(`<!doctype html><html lang="en"><meta name="viewport" content="width=device-width">
    <title>Shop</title><main><h1>Shop</h1><p><a href="/connect">Connect an account</a></p>
    <form method="post" action="/read"><button>Let the agent read</button></form></main></html>`);
});

app.get("/connect", async (_request, response) => {
  const [session, state, verifier] = [randomUUID(), oauth.randomState(), oauth.randomPKCECodeVerifier()];
  sessions.set(session, { state, verifier });
  const address = oauth.buildAuthorizationUrl(deputize, {
    redirect_uri: `${ORIGIN}/connected`,
    state,
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: "S256",
  });
  const cookie = { httpOnly: true, sameSite: "lax", secure: ORIGIN.startsWith("https:") };
  response.cookie("session", session, cookie).redirect(address.href);
});

app.get("/connected", async (request, response) => {
  const session = sessionOf(request);
  const begun = sessions.get(session);
  sessions.delete(session);
  // Only the browser that began may end. Otherwise a stranger could connect their account to your customer.
  if (begun?.verifier === undefined) return say(response, 400, "This browser has not begun to connect.");
  try {
    const answer = await oauth.authorizationCodeGrant(deputize, new URL(request.originalUrl, ORIGIN), {
      expectedState: begun.state,
      pkceCodeVerifier: begun.verifier,
    });
    const connection = { id: answer.connection_id, key: answer.access_token };
    const agent = connections.get(connection.id)?.agent ?? (await makeAgent(connection));
    connections.set(connection.id, { ...connection, agent });
    sessions.set(session, { connection: connection.id });
    return say(response, 200, `Connected ${answer.org_name} with ${answer.scope}`);
  } catch (error) {
    return say(response, 400, `Not connected: ${error.error ?? error.code}`);
  }
});

app.post("/read", async (request, response) => {
  const connection = connections.get(sessions.get(sessionOf(request))?.connection);
  if (connection === undefined) return say(response, 400, "This browser has not connected an account.");
  const path = `/connections/${connection.id}/agents/${connection.agent}/present`;
  const { challenge } = await call(connection, "/challenge");
  const proof = await call(connection, path, { challenge, required_scope: SCOPE });
  if (proof.evaluation_id !== undefined) return ask(connection, proof.evaluation_id, response);
  if (proof.error !== undefined) return say(response, 403, proof.error.code);
  const { proof_bundle } = proof;
  const decided = await call(connection, "/verify", { proof_bundle, required_scope: SCOPE });
  if (decided.error !== undefined) return say(response, 403, decided.error.code);
  if (decided.decision !== "allow") return say(response, 403, `Denied: ${decided.decision_reason}`);
  return say(response, 200, "Allowed. The agent has read your orders.");
});

async function makeAgent(connection) {
  const bot = { name: "Shop bot", agent_type: "api_agent" };
  return (await call(connection, `/connections/${connection.id}/agents`, bot)).agent_id;
}

/** Asks the customer to lend the agent what it lacks, and leads the browser to the page that decides. */
async function ask(connection, evaluation_id, response) {
  const { task, error } = await call(connection, "/access-requests", {
    subject: { type: "agent", id: connection.agent },
    denial: { evaluation_id },
    requested_access: { scopes: [SCOPE] },
    context: { purpose: "Read your orders" },
  });
  return task ? response.redirect(303, task.links.console) : say(response, 403, error.code);
}

/** Calls the service with the API key of a customer's connection. */
async function call({ key }, path, body = {}) {
  const headers = { "content-type": "application/json", "x-service-api-key": key };
  const sent = { method: "POST", headers, body: JSON.stringify(body) };
  return (await fetch(`${BASE_URL}/v1/service${path}`, sent)).json();
}

function sessionOf(request) {
  return /(?:^|; )session=([\w-]+)/.exec(request.headers.cookie ?? "")?.[1];
}

/** Answers with plain text, because it may contain what others have written. */
function say(response, status, text) {
  response.status(status).type("text").send(text);
}

app.listen(Number(PORT), "127.0.0.1", () => console.log(ORIGIN));
