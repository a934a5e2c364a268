import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { createAuthority, issueCertificate } from "../../keyvault/tls/authority.ts";
import { publicUrlChecks } from "../../src/doctor/public_url.ts";
import { SEEN_CLIENT_HEADER, SEEN_CLIENT_PATH, seenClientProof } from "../../src/http/server/seen_client.ts";
import { createSecretBox } from "../../src/secret_box.ts";
import { startApi, type TestApi } from "../support/api.ts";
import { startHttpProxy } from "../support/surroundings/http_proxy.ts";
import { rowsOf } from "./support.ts";

const PROXY = "127.0.0.9";
const OUTER = "127.0.0.8";

let api: TestApi;
const running: { stop(): Promise<unknown> }[] = [];

/** The API trusts the inner proxy only. */
beforeAll(async () => {
  api = await startApi({ config: { TRUSTED_PROXIES: [PROXY] } });
});
afterAll(() => api.stop());
afterEach(async () => {
  for (const each of running.splice(0)) await each.stop();
});

const look = (BASE_URL: string, change: Record<string, string> = {}) =>
  rowsOf(publicUrlChecks(), {
    BASE_URL,
    SEALING_KEY: api.sealingKey.toString("base64"),
    ...change,
  });

async function proxied(target: string, options: Parameters<typeof startHttpProxy>[1]) {
  const proxy = await startHttpProxy(target, options);
  running.push(proxy);
  return proxy.url;
}

describe("the check of the proxy headers", () => {
  const headersOf = async (url: string) => (await look(url))["proxy headers"];

  test("passes without a proxy", async () => {
    expect(await headersOf(api.url)).toMatchObject({
      status: "ok",
      detail: "requests arrive from 127.0.0.1, and no proxy adds X-Forwarded-For",
    });
  });

  test.each(["append", "replace"] as const)(
    "passes behind a trusted proxy that %ss the header",
    async (forwarding) => {
      const url = await proxied(api.url, { connectFrom: PROXY, forwarding });
      expect(await headersOf(url)).toMatchObject({
        status: "ok",
        detail: `the proxy at ${PROXY} is trusted, and the API sees this client as 127.0.0.1`,
      });
    },
  );

  test("fails behind a proxy that is not trusted", async () => {
    const url = await proxied(api.url, { connectFrom: OUTER });
    expect(await headersOf(url)).toMatchObject({
      status: "failed",
      detail: expect.stringContaining(
        `a proxy at ${OUTER} forwards requests, but TRUSTED_PROXIES does not contain it`,
      ),
    });
  });

  test("fails if another proxy before the trusted one is not trusted", async () => {
    const inner = await proxied(api.url, { connectFrom: PROXY });
    const outer = await proxied(inner, { connectFrom: OUTER });
    expect(await headersOf(outer)).toMatchObject({
      status: "failed",
      detail: expect.stringContaining(`another proxy at ${OUTER} is not in TRUSTED_PROXIES`),
    });
  });

  test("does not decide if the trusted proxy passes on what the client wrote", async () => {
    const url = await proxied(api.url, { connectFrom: PROXY, forwarding: "pass on" });
    expect(await headersOf(url)).toMatchObject({ status: "skipped" });
  });
});

describe("the check of the public URL", () => {
  const urlOf = async (url: string, change?: Record<string, string>) =>
    (await look(url, change))["public URL"];

  test("passes if the URL leads to this API", async () => {
    expect(await urlOf(api.url)).toMatchObject({
      status: "ok",
      detail: `${api.url} leads to this installation's API`,
    });
  });

  test("fails at the API of another installation", async () => {
    const SEALING_KEY = Buffer.alloc(32, 7).toString("base64");
    expect(await urlOf(api.url, { SEALING_KEY })).toMatchObject({
      status: "failed",
      detail: `${api.url} answers 404, but this installation's API did not answer`,
    });
  });

  test("fails behind a proxy that reaches no API", async () => {
    const url = await proxied("http://127.0.0.1:1", {});
    expect(await urlOf(url)).toMatchObject({
      status: "failed",
      action: expect.stringContaining("no ready API"),
    });
  });

  test("does not decide if the URL cannot be reached from here", async () => {
    const rows = await look("http://127.0.0.1:1");
    expect(rows["public URL"]).toMatchObject({
      status: "skipped",
      action: expect.stringContaining("outside"),
    });
    expect(rows["proxy headers"]?.status).toBe("skipped");
  });

  test("fails for a certificate that nobody issued", async () => {
    const always = { notBefore: new Date(0), notAfter: new Date(Date.now() + 1e10) };
    const { certificate, privateKey } = await issueCertificate(
      await createAuthority(always),
      { kind: "server", names: ["127.0.0.1"] },
      always,
    );
    const server = createServer({ cert: certificate, key: privateKey }, (_, reply) => void reply.end());
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    running.push({ stop: () => new Promise((resolve) => void server.close(resolve)) });
    const row = await urlOf(`https://127.0.0.1:${(server.address() as AddressInfo).port}`);
    expect(row).toMatchObject({
      status: "failed",
      detail: expect.stringContaining("the authority of the server's"),
    });
  });
});

test("idle connections are named as not checked, with the value to compare", async () => {
  const rows = await look(api.url);
  expect(rows["idle connections"]).toMatchObject({
    status: "skipped",
    detail: expect.stringContaining("620 s"),
    action: expect.stringContaining("KEEP_ALIVE_SECONDS"),
  });
});

describe("the page that shows how a request arrived", () => {
  const ask = async (header?: string) => {
    const headers: Record<string, string> = header === undefined ? {} : { [SEEN_CLIENT_HEADER]: header };
    return fetch(`${api.url}${SEEN_CLIENT_PATH}`, { headers });
  };
  const proof = (seconds: number, key = api.sealingKey) =>
    seenClientProof(createSecretBox(key), new Date(api.clock.now().getTime() + seconds * 1000));

  test("exists only for a caller who knows the sealing key", async () => {
    expect((await ask(proof(0))).status).toBe(200);
    expect((await ask()).status).toBe(404);
    expect((await ask("garbage")).status).toBe(404);
    expect((await ask(proof(0, Buffer.alloc(32, 9)))).status).toBe(404);
  });

  test.each([
    [600, 200],
    [601, 404],
    [-600, 200],
    [-601, 404],
  ])("accepts a proof made %d s from now with %d", async (seconds, status) => {
    expect((await ask(proof(seconds))).status).toBe(status);
  });
});
