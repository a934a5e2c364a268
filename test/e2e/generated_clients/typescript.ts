/**
 * Does the main job with openapi-fetch and the types from openapi-typescript: `shop.ts <base URL> <email>`.
 * Prints `code`, reads the mailed code from standard input, and prints what it saw as one line of JSON.
 */
export const TYPESCRIPT_SHOP = `
import { createInterface } from "node:readline/promises";
import createClient from "openapi-fetch";
import type { paths } from "./api.ts";

const SCOPE = "payments:send";
const [, , baseUrl = "", email = ""] = process.argv;
const cookies = new Map<string, string>();

/** Keeps cookies as a browser does. */
async function browse(request: Request): Promise<Response> {
  request.headers.set("cookie", [...cookies].map((pair) => pair.join("=")).join("; "));
  const response = await fetch(request);
  for (const cookie of response.headers.getSetCookie()) {
    const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(cookie) ?? [];
    cookies.set(name, value);
  }
  return response;
}

/** Returns the answer of a call. Throws if the call failed. */
function ok<T>({ data, error }: { data?: T; error?: unknown }): T {
  if (data === undefined) throw new Error(JSON.stringify(error));
  return data;
}

const person = createClient<paths>({ baseUrl, fetch: browse });
person.use({
  onRequest({ request }) {
    const csrf = cookies.get("service_csrf");
    if (csrf !== undefined) request.headers.set("X-Service-CSRF", csrf);
  },
});

ok(await person.POST("/v1/auth/email/send-code", { body: { email } }));
const input = createInterface({ input: process.stdin, output: process.stdout });
const code = await input.question("code\\n");
input.close();
ok(await person.POST("/v1/auth/email/verify-code", { body: { email, code } }));
ok(await person.POST("/v1/auth/onboarding/profile", { body: { first_name: "Ada", last_name: "Lovelace" } }));
ok(await person.POST("/v1/auth/onboarding/account-type", { body: { account_type: "individual" } }));
const platform = ok(
  await person.POST("/v1/service/platforms/personal", {
    body: { name: "Shop", surface_type: "agentic_api", default_allowed_scopes: [SCOPE] },
  }),
);

const application = createClient<paths>({ baseUrl, headers: { "X-Service-API-Key": platform.api_key } });
const { connection_id } = platform;
const { agent_id } = ok(
  await application.POST("/v1/service/connections/{connection_id}/agents", {
    params: { path: { connection_id } },
    body: { name: "bot", agent_type: "api_agent" },
  }),
);
const { request_id } = ok(
  await person.POST("/v1/service/delegations/self-request", {
    body: { connection_id, requested_scope: [SCOPE] },
  }),
);
const { cert_id } = ok(
  await person.POST("/v1/service/delegations/requests/{request_id}/approve", {
    params: { path: { request_id } },
    body: { approved_scope: [SCOPE] },
  }),
);

async function present() {
  const { challenge } = ok(await application.POST("/v1/service/challenge"));
  const { proof_ref } = ok(
    await application.POST("/v1/service/connections/{connection_id}/agents/{agent_id}/present", {
      params: { path: { connection_id, agent_id } },
      body: { challenge },
    }),
  );
  return { required_scope: SCOPE, proof_ref };
}

const [first, second] = [await present(), await present()];
const allowed = ok(await application.POST("/v1/service/verify", { body: first }));
const { error: again } = await application.POST("/v1/service/verify", { body: first });
ok(
  await person.POST("/v1/service/delegations/{cert_id}/revoke", {
    params: { path: { cert_id } },
    body: {},
  }),
);
const denied = ok(await application.POST("/v1/service/verify", { body: second }));

// @ts-expect-error a decision is a text
export const wrong: number = allowed.decision;
console.log(
  JSON.stringify({
    allowed: [allowed.decision, allowed.decision_reason],
    denied: [denied.decision, denied.decision_reason],
    again: [again?.error.code, again?.error.status],
    added: (allowed as Record<string, unknown>).added_later ?? null,
  }),
);
`;
