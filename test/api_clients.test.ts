import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TLSSocket } from "node:tls";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createAuthority, type Identity, issueCertificate } from "../keyvault/tls/authority.ts";
import { startApi, type TestApi } from "./support/api.ts";
import { createAgent, registerPlatform } from "./support/platform_world.ts";
import { until } from "./support/process.ts";

const validity = { notBefore: new Date(Date.now() - 60_000), notAfter: new Date(Date.now() + 3_600_000) };
const OPERATOR = "system:serviceaccount:deputize-system:deputize-operator";
/** A token in the form of Kubernetes. Only the cluster checks its signature. */
const TOKEN = ["e30", Buffer.from(JSON.stringify({ exp: 4_000_000_000 })).toString("base64url"), "sig"].join(
  ".",
);

let folder: string;
let authority: Identity;
let server: Server;
let url: string;
/** The calls to the server: the path, the client's name in its certificate, and its token. */
const calls: { path: string; client: string; token: string | undefined }[] = [];
let first: TestApi;

const inFolder = (name: string) => join(folder, name);

beforeAll(async () => {
  first = await startApi();
  folder = await mkdtemp(join(tmpdir(), "deputize-api-"));
  authority = await createAuthority(validity);
  const own = await issueCertificate(authority, { kind: "server", names: ["127.0.0.1"] }, validity);
  const options = {
    cert: own.certificate,
    key: own.privateKey,
    ca: authority.certificate,
    requestCert: true,
  };
  server = createServer({ ...options, rejectUnauthorized: false }, (request, response) => {
    const client = (request.socket as TLSSocket).getPeerCertificate().subject?.CN ?? "";
    calls.push({ path: request.url ?? "", client: String(client), token: request.headers.authorization });
    request.resume();
    const status = { authenticated: true, user: { username: OPERATOR }, audiences: ["deputize-api"] };
    response.setHeader("content-type", "application/json");
    response.end(
      JSON.stringify({ kind: "TokenReview", apiVersion: "authentication.k8s.io/v1", spec: {}, status }),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await writeFile(inFolder("ca.pem"), authority.certificate);
});
afterAll(async () => {
  await first.stop();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await rm(folder, { recursive: true });
});

/** Starts an API with its own clients, and runs `use`. */
async function withOwnClients(config: object, use: (api: TestApi) => Promise<void>): Promise<void> {
  const identity = await issueCertificate(authority, { kind: "client", role: "api", name: "desk" }, validity);
  await writeFile(inFolder("api.pem"), identity.certificate);
  await writeFile(inFolder("api.key"), identity.privateKey);
  const files = {
    VAULT_CA_FILE: inFolder("ca.pem"),
    VAULT_CERT_FILE: inFolder("api.pem"),
    VAULT_KEY_FILE: inFolder("api.key"),
  };
  const api = await startApi({
    shares: first,
    ownClients: true,
    config: { VAULT_URL: url, ...files, ...config },
  });
  try {
    await use(api);
  } finally {
    await api.stop();
  }
}

test("the API calls the vault at VAULT_URL with its own certificate, and shows when the certificate ends", async () => {
  const person = await first.person();
  const agentId = await createAgent(first.client(), await registerPlatform(person));
  await first.db("agents").where({ agent_id: agentId }).update({ vault_due_at: first.clock.now() });
  await withOwnClients({}, async (api) => {
    await until("the vault is called", () => calls.length > 0);
    expect(calls[0]).toMatchObject({ path: expect.stringMatching(/^\/v1\/keys\/.*\/ceiling$/) });
    expect(calls[0]?.client).toContain("desk");
    const metric = "deputize_vault_certificate_expiry_timestamp_seconds";
    const text = await api.metrics.registry.getSingleMetricAsString(metric);
    expect(text).toContain(`${metric} ${Math.floor(validity.notAfter.getTime() / 1000)}`);
  });
});

test("the API asks a cluster in CLUSTERS_FILE about the token of its operator", async () => {
  const kubeconfig = {
    "current-context": "one",
    contexts: [{ name: "one", context: { cluster: "one", user: "api" } }],
    clusters: [{ name: "one", cluster: { server: url, "certificate-authority": inFolder("ca.pem") } }],
    users: [{ name: "api", user: { token: "token-of-the-api" } }],
  };
  await writeFile(inFolder("kubeconfig"), JSON.stringify(kubeconfig));
  await writeFile(inFolder("clusters.yaml"), "clusters: [{ id: prod, kubeconfig: kubeconfig }]\n");
  await withOwnClients(
    { OPERATOR_TOKEN: undefined, CLUSTERS_FILE: inFolder("clusters.yaml") },
    async (api) => {
      const read = (cluster: string) =>
        api.operator("POST", "/internal/v1/state", { external_ids: [] }, { cluster, token: TOKEN });
      expect((await read("prod")).status).toBe(200);
      const asked = calls.at(-1);
      expect(asked?.path).toContain("/tokenreviews");
      expect(asked?.token).toBe("Bearer token-of-the-api");
      expect((await read("unknown")).status).toBe(401);
    },
  );
});
