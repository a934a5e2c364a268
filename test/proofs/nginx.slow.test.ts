import { once } from "node:events";
import { createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freePort } from "../../src/dev/ports.ts";
import { findNginx, type Nginx, startNginx } from "../support/nginx.ts";
import { type Application, proofApi } from "./application.ts";

const program = await findNginx();
if (program === undefined)
  console.warn("nginx is missing (Debian: nginx-light): the gateway hook is not tried behind it");

/** An application that knows nothing of proofs, and counts what reaches it. */
let upstream: Server;
let reached: string[];
let nginx: Nginx;
let app: Application;
let port: number;
/** Where nginx looks for the service; a port on which nobody listens stands for a service that is away. */
let awayPort: number;

const world = proofApi();

/** The configuration of docs/gateways.md. */
const locations = (service: string, key: string, to: number) => `
  location /orders/ {
    auth_request /deputize/data:read;
    auth_request_set $reason $upstream_http_x_service_decision_reason;
    error_page 500 =503 /no-decision;
    error_page 403 = @refused;
    proxy_pass http://127.0.0.1:${to};
  }
  location /refunds/ {
    auth_request /deputize/custom:orders:refund;
    auth_request_set $reason $upstream_http_x_service_decision_reason;
    error_page 500 =503 /no-decision;
    error_page 403 = @refused;
    proxy_pass http://127.0.0.1:${to};
  }
  location /deputize/ {
    internal;
    proxy_pass ${service}/v1/service/ext-auth/;
    proxy_method GET;
    proxy_pass_request_body off;
    proxy_set_header Content-Length "";
    proxy_set_header X-Service-API-Key ${key};
    proxy_connect_timeout 2s;
    proxy_read_timeout 10s;
  }
  location @refused { add_header X-Reason $reason always; return 403; }
  location = /no-decision { internal; return 503; }`;

beforeAll(async () => {
  if (program === undefined) return;
  reached = [];
  upstream = createServer((incoming, response) => {
    reached.push(`${incoming.method} ${incoming.url}`);
    incoming.resume().on("end", () => response.end("done"));
  }).listen(0, "127.0.0.1");
  await once(upstream, "listening");
  app = await world.application(["data:read"]);
  [port, awayPort] = [await freePort(), await freePort()];
  const to = (upstream.address() as AddressInfo).port;
  const key = app.platform.apiKey;
  const nobody = `http://127.0.0.1:${await freePort()}`;
  nginx = await startNginx(
    program,
    port,
    `server { listen 127.0.0.1:${port}; ${locations(world.api.url, key, to)} }
     server { listen 127.0.0.1:${awayPort}; ${locations(nobody, key, to)} }`,
  );
});

afterAll(async () => {
  await nginx?.stop();
  upstream?.close();
});

type Asked = {
  path?: string;
  method?: string;
  proof?: string;
  at?: number;
  headers?: Record<string, string>;
};

async function ask({ path = "/orders/7", method = "GET", proof, at = port, headers = {} }: Asked) {
  const sent = request({
    port: at,
    host: "127.0.0.1",
    path,
    method,
    headers: { ...headers, ...(proof === undefined ? {} : { "x-service-proof": proof }) },
  });
  sent.end(method === "GET" ? undefined : "a body");
  const [response] = await once(sent, "response");
  response.resume();
  await once(response, "end");
  return `${response.statusCode}${response.headers["x-reason"] ? ` ${response.headers["x-reason"]}` : ""}`;
}

const proofRef = async () => String((await app.present()).body.proof_ref);

describe.skipIf(program === undefined)("nginx with auth_request and its default header limits", () => {
  test("lets a request with a good proof pass, once", async () => {
    const proof = await proofRef();
    expect(await ask({ proof })).toBe("200");
    expect(await ask({ proof })).toBe("403 invalid_challenge");
    expect(reached).toEqual(["GET /orders/7"]);
  });

  test("lets one with a body and any method pass, and the body reach the application", async () => {
    reached.length = 0;
    for (const method of ["POST", "PUT", "PATCH", "DELETE"]) {
      expect(await ask({ method, proof: await proofRef() })).toBe("200");
    }
    expect(reached).toEqual(["POST", "PUT", "PATCH", "DELETE"].map((method) => `${method} /orders/7`));
  });

  test("stops what is not granted, not proven or revoked, with the reason", async () => {
    reached.length = 0;
    expect(await ask({ path: "/refunds/7", method: "POST", proof: await proofRef() })).toBe(
      "403 not_delegated",
    );
    expect(await ask({})).toBe("403 proof_missing");
    expect(await ask({ proof: "abc" })).toBe("403 invalid_proof");
    expect(reached).toEqual([]);
  });

  test("passes no key, scope or decision of the client's on", async () => {
    reached.length = 0;
    const stranger = await world.application(["custom:orders:refund"]);
    const proof = String((await stranger.present()).body.proof_ref);
    const headers = {
      "x-service-api-key": stranger.platform.apiKey,
      "x-service-required-scope": "data:read",
      "x-service-decision": "allow",
    };
    expect(await ask({ path: "/refunds/7", proof, headers })).toBe("403 invalid_challenge");
    expect(await ask({ path: "/refunds/7", proof: await proofRef(), headers })).toBe("403 not_delegated");
    expect(reached).toEqual([]);
  });

  test("stops everything while the service is away: 503", async () => {
    reached.length = 0;
    expect(await ask({ at: awayPort, proof: await proofRef() })).toBe("503");
    await world.api
      .db("balances")
      .where({ account_id: app.person.accountId })
      .update({ balance_micro_usd: 0 });
    expect(await ask({ proof: await proofRef() })).toBe("503");
    expect(reached).toEqual([]);
  });

  test("stops a request once the delegation is revoked", async () => {
    await world.api
      .db("balances")
      .where({ account_id: app.person.accountId })
      .update({ balance_micro_usd: 1e6 });
    const proof = await proofRef();
    await app.person.client.post(`/v1/service/delegations/${app.certId}/revoke`, {});
    expect(await ask({ proof })).toBe("403 delegation_revoked");
  });
});
