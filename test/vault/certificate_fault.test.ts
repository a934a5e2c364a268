import { once } from "node:events";
import { createServer } from "node:https";
import { type AddressInfo, createServer as createTcpServer } from "node:net";
import { describe, expect, test } from "vitest";
import { createAuthority, issueCertificate } from "../../keyvault/tls/authority.ts";
import { VaultCertificateExpired } from "../../src/vault/certificate_fault.ts";
import { createTransport } from "../../src/vault/transport.ts";
import { startApi } from "../support/api.ts";

const HOUR_MS = 3_600_000;
const valid = { notBefore: new Date(Date.now() - 48 * HOUR_MS), notAfter: new Date(Date.now() + HOUR_MS) };
const ended = { ...valid, notAfter: new Date(Date.now() - HOUR_MS) };
const authority = await createAuthority(valid);

/** Calls a server that requires a client's certificate, and returns the error of the call. */
async function failureOf({
  server = valid,
  client = valid,
  status = 0,
  trusted = authority.certificate,
}): Promise<unknown> {
  const [own, peer] = await Promise.all([
    issueCertificate(authority, { kind: "server", names: ["127.0.0.1"] }, server),
    issueCertificate(authority, { kind: "client", role: "api", name: "api" }, client),
  ]);
  const { certificate: ca } = authority;
  const vault = createServer(
    { ca, cert: own.certificate, key: own.privateKey, requestCert: true, rejectUnauthorized: status === 0 },
    (_, response) => {
      response.writeHead(status).end(JSON.stringify({ error: { code: "forbidden", message: "no" } }));
    },
  );
  vault.listen(0, "127.0.0.1");
  await once(vault, "listening");
  const url = `https://127.0.0.1:${(vault.address() as AddressInfo).port}`;
  try {
    return await callOf(url, trusted, peer);
  } finally {
    vault.close();
    vault.closeAllConnections();
  }
}

async function callOf(
  url: string,
  ca: string,
  own?: { certificate: string; privateKey: string },
): Promise<unknown> {
  const subject = { kind: "client", role: "api", name: "api" } as const;
  const { certificate: cert, privateKey: key } = own ?? (await issueCertificate(authority, subject, valid));
  const transport = createTransport({ url, ca, cert, key });
  try {
    return await transport.call({ method: "GET", path: "/readyz" }).catch((error: unknown) => error);
  } finally {
    await transport.close();
  }
}

/** Returns a port of this machine at which nothing listens. */
async function closedPort(): Promise<number> {
  const server = createTcpServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

describe("a failed call to the vault", () => {
  test.each([
    ["the vault ends the handshake", {}],
    ["the vault refuses the call on an open connection", { status: 403 }],
  ])("names the client's expired certificate if %s", async (_, how) => {
    const error = await failureOf({ client: ended, ...how });
    expect(error).toBeInstanceOf(VaultCertificateExpired);
    expect(String(error)).toContain("This process's certificate for the key vault expired at 20");
  });

  test("names the vault's expired certificate", async () => {
    const error = await failureOf({ server: ended });
    expect(error).toBeInstanceOf(VaultCertificateExpired);
    expect(String(error)).toContain("The key vault's certificate has expired");
  });

  test("names the cause if nothing listens at the vault's address", async () => {
    const port = await closedPort();
    const error = await callOf(`https://127.0.0.1:${port}`, authority.certificate);
    expect(error).toMatchObject({ name: "VaultUnavailable", code: "unreachable" });
    expect(String(error)).toContain("the connection is refused: nothing listens there (ECONNREFUSED)");
  });

  test("names the cause if the vault's authority is unknown", async () => {
    const other = await createAuthority(valid);
    const error = await failureOf({ trusted: other.certificate });
    expect(error).not.toBeInstanceOf(VaultCertificateExpired);
    expect(String(error)).toContain("the authority of the server's certificate is unknown (");
  });

  test("names the cause in the API's log, but not in its response", async () => {
    const VAULT_URL = `https://127.0.0.1:${await closedPort()}`;
    const api = await startApi({ ownClients: true, config: { VAULT_URL } });
    try {
      const client = api.client();
      await client.signIn("ada@example.com");
      await client.post("/v1/auth/onboarding/profile", { first_name: "Ada", last_name: "Lovelace" });
      const answer = await client.post("/v1/auth/onboarding/account-type", { account_type: "individual" });
      expect(answer).toMatchObject({ status: 503, body: { error: { code: "vault_unavailable" } } });
      expect(answer.text).not.toContain("ECONNREFUSED");
      expect(api.lines.find((line) => line.includes("The key vault did not answer"))).toContain(
        "ECONNREFUSED",
      );
    } finally {
      await api.stop();
    }
  });

  test("blames no certificate while both are valid", async () => {
    const error = await failureOf({ status: 403 });
    expect(error).not.toBeInstanceOf(VaultCertificateExpired);
    expect(error).toMatchObject({ name: "VaultRefused", code: "forbidden" });
  });
});
