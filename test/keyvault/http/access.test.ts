import { connect } from "node:tls";
import { afterAll, beforeAll, expect, test } from "vitest";
import { REMOTE_ROLES } from "../../../keyvault/audit/record.ts";
import { createAuthority, issueCertificate } from "../../../keyvault/tls/authority.ts";
import { issueIdentity, readIdentity, startVault, type TestVault } from "../fixture.ts";
import { type Client, call } from "./caller_support.ts";

let vault: TestVault;
let api: Client;
let admin: Client;
let testers: Record<(typeof REMOTE_ROLES)[number], Client>;

const HOUR = 3_600_000;
const around = (from: number, to: number) => ({
  notBefore: new Date(Date.now() + from),
  notAfter: new Date(Date.now() + to),
});
const ready = (client: Client) => call(`${vault.url}/readyz`, client);

beforeAll(async () => {
  vault = await startVault();
  api = vault.api;
  admin = vault.admin;
  const identities = REMOTE_ROLES.map(async (role) => {
    return [role, await issueIdentity(vault.home, { kind: "client", role, name: "tester" })] as const;
  });
  testers = Object.fromEntries(await Promise.all(identities)) as typeof testers;
});
afterAll(() => vault.close());

test("the vault answers a client with the authority's certificate over TLS 1.3", async () => {
  expect(await ready(api)).toEqual({ status: 200, body: { status: "ready" } });
  const socket = connect({ port: vault.port, host: "localhost", ...api });
  await new Promise((resolve) => socket.once("secureConnect", resolve));
  expect(socket.getProtocol()).toBe("TLSv1.3");
  socket.destroy();
});

test("the vault drops a client without a certificate", async () => {
  await expect(ready({ ca: api.ca })).rejects.toThrow(/certificate required/i);
});

test("the vault drops a client with a self-signed certificate or one from a different authority", async () => {
  const authority = await createAuthority(around(-HOUR, HOUR));
  const foreign = await issueCertificate(
    authority,
    { kind: "client", role: "api", name: "api" },
    around(-HOUR, HOUR),
  );
  await expect(ready({ ca: api.ca, cert: foreign.certificate, key: foreign.privateKey })).rejects.toThrow();
  await expect(
    ready({ ca: api.ca, cert: authority.certificate, key: authority.privateKey }),
  ).rejects.toThrow();
});

test("the vault drops clients with a certificate that is expired or not valid yet, or with the vault's own certificate", async () => {
  const subject = { kind: "client", role: "api", name: "api" } as const;
  await expect(ready(await issueIdentity(vault.home, subject, around(-2 * HOUR, -1000)))).rejects.toThrow();
  await expect(ready(await issueIdentity(vault.home, subject, around(HOUR, 2 * HOUR)))).rejects.toThrow();
  await expect(ready(readIdentity(vault.home, "server"))).rejects.toThrow();
  expect((await ready(await issueIdentity(vault.home, subject))).status).toBe(200);
});

test("the vault rejects a certificate that is not valid by the vault's clock, even if it is valid by the machine's clock", async () => {
  const path = `${vault.url}/v1/keys/${"0".repeat(32)}?tenant=a`;
  const second = Math.floor(Date.now() / 1000) * 1000;
  const [notBefore, notAfter] = [new Date(second - HOUR), new Date(second + HOUR)];
  const identity = await issueIdentity(
    vault.home,
    { kind: "client", role: "api", name: "api" },
    { notBefore, notAfter },
  );
  const before = vault.clock.at;
  for (const [ms, code] of [
    [notBefore.getTime() - 1, "forbidden"],
    [notBefore.getTime(), "key_not_found"],
    [notAfter.getTime(), "key_not_found"],
    [notAfter.getTime() + 1000, "forbidden"],
  ] as const) {
    vault.clock.at = new Date(ms);
    expect((await call(path, identity)).body.error?.code, vault.clock.at.toISOString()).toBe(code);
  }
  vault.clock.at = before;
});

test("the vault drops connections with TLS 1.2 and older versions", async () => {
  await expect(ready({ ...api, maxVersion: "TLSv1.2" })).rejects.toThrow(/protocol version/i);
  await expect(ready({ ...api, minVersion: "TLSv1", maxVersion: "TLSv1.1" })).rejects.toThrow();
});

test("the vault does not resume sessions, so it checks the certificate of every connection", async () => {
  const tickets: Buffer[] = [];
  const socket = connect({ port: vault.port, host: "localhost", ...api });
  socket.on("session", (session) => tickets.push(session));
  await new Promise((resolve) => socket.once("secureConnect", resolve));
  socket.write("GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
  socket.resume();
  await new Promise((resolve) => socket.once("close", resolve));
  for (const session of tickets) {
    const again = connect({ port: vault.port, host: "localhost", ...api, session });
    await new Promise((resolve) => again.once("secureConnect", resolve));
    expect(again.isSessionReused()).toBe(false);
    again.destroy();
  }
});

test("the vault gives no role to a certificate without exactly one role URI", async () => {
  const { webcrypto } = await import("node:crypto");
  const x509 = await import("@peculiar/x509");
  const { readFileSync } = await import("node:fs");
  const read = (file: string) => readFileSync(`${vault.home.config.tlsDir}/${file}`, "utf8");
  const algorithm = { name: "ECDSA", namedCurve: "P-256" };
  const signingKey = await webcrypto.subtle.importKey(
    "pkcs8",
    x509.PemConverter.decodeFirst(read("ca.key")),
    algorithm,
    false,
    ["sign"],
  );
  const role = (path: string) => ({ type: "url", value: `deputize://role/${path}` }) as const;
  const names: { type: "url" | "dns"; value: string }[][] = [
    [{ type: "dns", value: "localhost" }],
    [role("api/one"), role("admin/one")],
    [role("api/one"), role("api/one")],
    [role("api/one"), { type: "url", value: "https://example.com" }],
    [role("api/one\n")],
    [{ type: "url", value: `x${role("api/one").value}` }],
    [{ type: "dns", value: role("api/one").value }],
    [role("root/one")],
    [role("api/")],
    [role("api/one/two")],
    [role(`api/${"a".repeat(65)}`)],
    [{ type: "url", value: "https://role/api/one" }],
    [{ type: "dns", value: "URI:deputize://role/api/one" }],
  ];
  const answerTo = async (alternatives: (typeof names)[number]) => {
    const keys = await webcrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
    const certificate = await x509.X509CertificateGenerator.create({
      serialNumber: "01",
      subject: "CN=deputize://role/api/one",
      issuer: new x509.X509Certificate(api.ca).subject,
      ...around(-HOUR, HOUR),
      signingKey,
      publicKey: keys.publicKey,
      signingAlgorithm: { name: "ECDSA", hash: "SHA-256" },
      extensions: [new x509.SubjectAlternativeNameExtension(alternatives)],
    });
    const key = x509.PemConverter.encode(
      await webcrypto.subtle.exportKey("pkcs8", keys.privateKey),
      "PRIVATE KEY",
    );
    const client = { ca: api.ca, cert: certificate.toString("pem"), key };
    return call(`${vault.url}/v1/keys/${"0".repeat(32)}?tenant=acc-1`, client);
  };
  for (const alternatives of names) {
    expect(await answerTo(alternatives), JSON.stringify(alternatives)).toMatchObject({
      status: 403,
      body: { error: { code: "forbidden", message: "The certificate gives no role" } },
    });
  }
  const named = [role("api/one"), { type: "dns", value: "localhost" } as const];
  expect((await answerTo(named)).body.error?.code).toBe("key_not_found");
});

const KEY = `/v1/keys/${"0".repeat(32)}`;
const CALLS: [method: string, path: string, roles: string[]][] = [
  ["POST", "/v1/keys", ["api"]],
  ["GET", "/v1/keys", ["admin", "auditor"]],
  ["GET", `${KEY}?tenant=acc-1`, ["api", "admin", "auditor"]],
  ["POST", `${KEY}/disable`, ["api", "admin"]],
  ["POST", `${KEY}/ceiling`, ["api"]],
  ["POST", `${KEY}/sign/delegation`, ["api"]],
  ["POST", `${KEY}/sign/challenge`, ["api"]],
  ["GET", "/v1/status", ["admin", "auditor"]],
  ["GET", "/v1/unseal", ["admin"]],
  ["POST", "/v1/unseal", ["admin"]],
  ["POST", `${KEY}/enable`, ["admin"]],
  ["POST", "/v1/keys/no-id/enable", ["admin"]],
  ["POST", `${KEY}/destroy`, ["admin"]],
  ["POST", `${KEY}/destroy/cancel`, ["admin"]],
  ["POST", "/v1/tenants/acc-1/destroy", ["admin"]],
  ["POST", "/v1/tenants/acc-1/destroy/cancel", ["admin"]],
  ["POST", "/v1/kek/rewrap", ["admin"]],
  ["POST", "/v1/kek/rotate", ["admin"]],
  ["POST", "/v1/kek/retire", ["admin"]],
  ["GET", "/v1/audit", ["admin", "auditor"]],
  ["POST", "/v1/backup", ["admin", "backup"]],
  ["POST", `${KEY}/sign/revocation-list`, ["api"]],
  ["POST", `${KEY}/sign/revocation-push`, []],
  ["POST", `${KEY}/sign/key-rotation`, []],
  ["POST", `${KEY}/sign/receipt`, []],
  ["POST", `${KEY}/sign/checkpoint`, []],
];

test.each(CALLS)(
  "%s %s accepts only its roles, and records attempts by other roles",
  async (method, path, allowed) => {
    const before = vault.vault.journal.head().seq;
    for (const role of REMOTE_ROLES) {
      const body = method === "POST" ? {} : undefined;
      const answer = await call(`${vault.url}${path}`, testers[role], { method, body });
      if (allowed.includes(role)) {
        expect([200, 400, 403, 404], role).toContain(answer.status);
        expect(answer.body.error?.code, role).not.toBe("forbidden");
      } else {
        expect(answer.status, role).toBe(403);
      }
    }
    const refused = await vault.home.sql(
      "select caller, role, statement from audit where seq > $1 and outcome = 'forbidden' order by seq",
      [before],
    );
    const others = REMOTE_ROLES.filter((role) => !allowed.includes(role));
    expect(refused).toEqual(others.map((role) => ({ caller: "tester", role, statement: "call" })));
  },
);

test("the vault answers not_found to calls that do not exist, such as an export, a raw signature or a DELETE", async () => {
  const tries: [string, string][] = [
    ["GET", `${KEY}/seeds`],
    ["POST", `${KEY}/export`],
    ["POST", `${KEY}/sign`],
    ["POST", `${KEY}/sign/raw`],
    ["DELETE", KEY],
    ["PUT", KEY],
    ["GET", "/"],
  ];
  for (const [method, path] of tries) {
    for (const client of [api, admin]) {
      expect(await call(`${vault.url}${path}`, client, { method }), `${method} ${path}`).toMatchObject({
        status: 404,
        body: { error: { code: "not_found" } },
      });
    }
  }
});
