import { once } from "node:events";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { describe, expect, test } from "vitest";
import { createAuthority, issueCertificate } from "../../keyvault/tls/authority.ts";
import { VaultCertificateExpired } from "../../src/vault/certificate_fault.ts";
import { createTransport } from "../../src/vault/transport.ts";

const HOUR_MS = 3_600_000;
const valid = { notBefore: new Date(Date.now() - 48 * HOUR_MS), notAfter: new Date(Date.now() + HOUR_MS) };
const ended = { ...valid, notAfter: new Date(Date.now() - HOUR_MS) };
const authority = await createAuthority(valid);

/** Calls a server that requires a client's certificate, and returns the error of the call. */
async function failureOf({ server = valid, client = valid, status = 0 }): Promise<unknown> {
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
  const transport = createTransport({ url, ca, cert: peer.certificate, key: peer.privateKey });
  try {
    return await transport.call({ method: "GET", path: "/readyz" }).catch((error: unknown) => error);
  } finally {
    await transport.close();
    vault.close();
    vault.closeAllConnections();
  }
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

  test("blames no certificate while both are valid", async () => {
    const error = await failureOf({ status: 403 });
    expect(error).not.toBeInstanceOf(VaultCertificateExpired);
    expect(error).toMatchObject({ name: "VaultRefused", code: "forbidden" });
  });
});
