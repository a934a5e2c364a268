import { randomUUID } from "node:crypto";
import express from "express";
import * as oauth from "openid-client";

const { BASE_URL = "", PLATFORM_ID = "", SIGNING_SECRET = "", PORT = "3000" } = process.env;
const here = `http://127.0.0.1:${PORT}`;
const deputize = await oauth.discovery(new URL(BASE_URL), PLATFORM_ID, SIGNING_SECRET, undefined, {
  algorithm: "oauth2",
  execute: BASE_URL.startsWith("http:") ? [oauth.allowInsecureRequests] : [],
});
/** The attempts of browsers, by the value of their cookie. Your application has its own sessions. */
const sessions = new Map();
/** The API keys of customers by connection. Encrypt them in your database. */
const customers = new Map();

const app = express();
app.get("/connect", async (_request, response) => {
  const [session, state, verifier] = [randomUUID(), oauth.randomState(), oauth.randomPKCECodeVerifier()];
  sessions.set(session, { state, verifier });
  const address = oauth.buildAuthorizationUrl(deputize, {
    redirect_uri: `${here}/connected`,
    state,
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: "S256",
  });
  response.cookie("session", session, { httpOnly: true, sameSite: "lax" }).redirect(address.href);
});
app.get("/connected", async (request, response) => {
  const session = /(?:^|; )session=([\w-]+)/.exec(request.headers.cookie ?? "")?.[1];
  const begun = sessions.get(session);
  sessions.delete(session);
  // Only the browser that began may end. Otherwise a stranger could connect their account to your customer.
  if (begun === undefined) return response.status(400).send("This browser has not begun to connect.");
  try {
    const answer = await oauth.authorizationCodeGrant(deputize, new URL(request.originalUrl, here), {
      expectedState: begun.state,
      pkceCodeVerifier: begun.verifier,
    });
    customers.set(answer.connection_id, { key: answer.access_token, name: answer.org_name });
    return response.send(`Connected ${answer.org_name} with ${answer.scope}`);
  } catch (error) {
    return response.status(400).send(`Not connected: ${error.error ?? error.code}`);
  }
});
app.listen(Number(PORT), "127.0.0.1", () => console.log(here));
