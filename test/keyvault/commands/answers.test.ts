import { copyFile, mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { SecureContextOptions } from "node:tls";
import type { Command } from "commander";
import { afterEach, beforeAll, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { readAccess } from "../../../keyvault/commands/access.ts";
import { ask, download } from "../../../keyvault/commands/ask_vault.ts";
import { kekCommand } from "../../../keyvault/commands/kek.ts";
import { keysCommand } from "../../../keyvault/commands/keys.ts";
import { issueCertificate } from "../../../keyvault/tls/authority.ts";
import { installTls } from "../../../keyvault/tls/issue.ts";

/* A server with a vault's certificates sends responses that a vault seldom sends. */

let dir: string;
let server: Server | undefined;
let said: string;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "keyvault-answers-"));
  await installTls(dir, ["localhost"], new Date());
  return () => rm(dir, { recursive: true });
});
beforeEach(() => {
  said = "";
  vi.spyOn(process.stdout, "write").mockImplementation((text) => {
    said += String(text);
    return true;
  });
});
afterEach(() => {
  vi.restoreAllMocks();
  process.exitCode = undefined;
  server?.closeAllConnections();
  server?.close();
});

const inDir = (file: string) => join(dir, file);
const own = (url: string) => ({ url, ca: inDir("ca.pem"), cert: inDir("admin.pem") });

type Asked = { method: string; url: string; body: string };
type Given = { status?: number; body: unknown } | "silence";

/**
 * Starts a server that returns these responses, one for each call. Returns its address and the received
 * calls.
 */
async function answering(
  answers: readonly Given[],
  context: SecureContextOptions = {},
): Promise<{ url: string; asked: Asked[] }> {
  const asked: Asked[] = [];
  const left = [...answers];
  const cert = await readFile(inDir("server.pem"));
  const key = await readFile(inDir("server.key"));
  const made = createServer({ cert, key, ...context }, (request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => {
      body += chunk.toString();
    });
    request.on("end", () => {
      asked.push({ method: request.method ?? "", url: request.url ?? "", body });
      const next = left.shift() ?? "silence";
      if (next === "silence") return;
      response.writeHead(next.status ?? 200, { "content-type": "application/json" });
      response.end(JSON.stringify(next.body));
    });
  });
  server = made;
  await new Promise<void>((resolve) => made.listen(0, "localhost", resolve));
  return { url: `https://localhost:${(made.address() as AddressInfo).port}`, asked };
}

async function run(command: Command, args: string[], url: string): Promise<void> {
  const { ca, cert } = own(url);
  await command.parseAsync([...args, "--url", url, "--ca", ca, "--cert", cert], { from: "user" });
}

const progress = { kek: "kek-2", running: false, done: 3, remaining: 0, damaged: [], fault: null };
const rewrap = async (...bodies: object[]) => {
  const { url, asked } = await answering(bodies.map((body) => ({ body })));
  await run(kekCommand(), ["rewrap"], url);
  return asked;
};

test("kek rewrap prints the number of rewrapped data keys when it has finished", async () => {
  const asked = await rewrap({ ...progress, running: true, done: 1, remaining: 2 }, { kek: progress });
  expect(asked).toEqual([
    { method: "POST", url: "/v1/kek/rewrap", body: "{}" },
    { method: "GET", url: "/v1/status", body: "" },
  ]);
  expect(said).toBe("3 data keys rewrapped under kek-2, 0 remaining.\n");
  expect(process.exitCode).toBeUndefined();
});

test("kek rewrap reports that there is nothing to do", async () => {
  await rewrap({ ...progress, done: 0 });
  expect(said).toBe("All data keys are under kek-2 already.\n");
});

test("kek rewrap names the tenants of damaged data keys and exits with 2", async () => {
  await rewrap({ ...progress, damaged: ["acc-1", "acc-2"] });
  expect(said).toMatch(/\n2 do not open: tenants acc-1, acc-2\n$/);
  expect(process.exitCode).toBe(1);
});

test("kek rewrap fails if the rewrapping stopped early, whatever the reason", async () => {
  await expect(rewrap({ ...progress, remaining: 1, fault: "token_unavailable" })).rejects.toThrow(
    "Not finished (token_unavailable): run the command again to continue",
  );
  await expect(rewrap({ ...progress, remaining: 1 })).rejects.toThrow(
    "Not finished: run the command again to continue",
  );
  await expect(rewrap({ ...progress, running: true }, { kek: null })).rejects.toThrow(
    "Not finished: the vault was sealed",
  );
});

test("keys list reads all pages", async () => {
  const key = (id: string, damaged = false) => ({
    key_id: id.repeat(32),
    tenant: "acc-1",
    label: "agent",
    state: "active",
    tenant_state: "active",
    purpose: "agent",
    created_at: "2026-11-21T10:00:00.000Z",
    pending: null,
    damaged,
  });
  const { url, asked } = await answering([
    { body: { keys: [key("a")], next: "a".repeat(32) } },
    { body: { keys: [key("b", true)], next: null } },
  ]);
  await run(keysCommand(), ["list", "--tenant", "acc-1"], url);
  expect(asked.map((one) => one.url)).toEqual([
    "/v1/keys?limit=500&tenant=acc-1",
    `/v1/keys?limit=500&after=${"a".repeat(32)}&tenant=acc-1`,
  ]);
  expect(said).toMatch(/^a{32} .*\n^b{32} .* DAMAGED /m);
  expect(process.exitCode).toBe(1);
});

test("keys show prints the ceiling, the pending request and the erasure date", async () => {
  const key = {
    key_id: "a".repeat(32),
    tenant: "acc-1",
    purpose: "agent",
    label: "agent",
    state: "active",
    tenant_state: "active",
    ceiling: ["data:read", "data:write"],
    created_at: "2026-11-21T10:00:00.000Z",
    attestation: { attested_by: "b".repeat(32) },
    pending: null,
    destroy_at: null,
  };
  const shown = async (change: object) => {
    said = "";
    const { url } = await answering([{ body: { ...key, ...change } }]);
    await run(keysCommand(), ["show", key.key_id], url);
    server?.closeAllConnections();
    return said;
  };
  expect(await shown({})).toBe(
    `key          ${key.key_id}
tenant       acc-1
purpose      agent
label        agent
state        active
ceiling      data:read, data:write
created      2026-11-21T10:00:00.000Z
attested by  ${key.attestation.attested_by}
`,
  );
  expect(await shown({ ceiling: null })).toMatch(/^ceiling +none recorded$/m);
  expect(await shown({ ceiling: [] })).toMatch(/^ceiling +nothing$/m);
  expect(await shown({ tenant_state: "destroying" })).toMatch(/^state +destroying, with its tenant$/m);
  const asked_at = "2026-11-22T10:00:00.000Z";
  const wish = { admin: "ada", action: "destroy", days: 7, asked_at };
  expect(await shown({ pending: wish })).toMatch(
    /^waits +ada asked to destroy it after 7 days, 2026-11-22T10:00:00\.000Z$/m,
  );
  expect(await shown({ pending: { ...wish, action: "enable", days: undefined } })).toMatch(
    /^waits +ada asked to enable it, 2026/m,
  );
  const ending = { state: "destroying", destroy_at: "2026-12-01T10:00:00.000Z" };
  expect(await shown(ending)).toMatch(/^erased +2026-12-01T10:00:00\.000Z$/m);
});

test("readAccess uses, by default, this machine, the vault's configured port and the first admin's certificate", async () => {
  await mkdir(inDir("data/tls"), { recursive: true });
  for (const file of ["ca.pem", "admin.pem", "admin.key"]) {
    await copyFile(inDir(file), inDir(`data/tls/${file}`));
  }
  for (const [file, to] of [
    ["api.pem", "api.crt"],
    ["api.pem", "api.cer"],
  ] as const) {
    await copyFile(inDir(file), inDir(to));
  }
  vi.stubEnv("KEYVAULT_DATA_DIR", inDir("data"));
  vi.stubEnv("KEYVAULT_DATABASE_URL", "postgres://u@h/d");
  vi.stubEnv("KEYVAULT_PKCS11_MODULE", process.execPath);
  vi.stubEnv("KEYVAULT_PORT", "9443");
  onTestFinished(() => void vi.unstubAllEnvs());
  const access = readAccess({});
  expect(access.url.href).toBe("https://localhost:9443/");
  expect(access.certFile).toBe(inDir("data/tls/admin.pem"));
  expect(access.caFile).toBe(inDir("data/tls/ca.pem"));
  const key = await readFile(inDir("api.key"));
  for (const end of ["pem", "crt", "cer"]) {
    expect(readAccess({ cert: inDir(`api.${end}`) }).key, end).toEqual(key);
  }
});

test("ask gives up on a vault that does not answer", async () => {
  const { url } = await answering(["silence"]);
  await expect(ask(own(url), "/v1/status", undefined, 100)).rejects.toThrow(
    `The vault at ${url} does not answer: it took too long to answer`,
  );
});

test("ask reports the status of an answer without an error code", async () => {
  const { url } = await answering([{ status: 502, body: {} }]);
  await expect(ask(own(url), "/v1/status")).rejects.toThrow("The vault answered 502");
});

test("ask sends nothing to a server without TLS 1.3", async () => {
  const { url, asked } = await answering([{ body: {} }], { maxVersion: "TLSv1.2" });
  await expect(ask(own(url), "/v1/status")).rejects.toThrow(/does not answer/);
  expect(asked).toEqual([]);
});

test("ask names the remedy for a server certificate that has expired or contains a different name", async () => {
  const authority = {
    certificate: await readFile(inDir("ca.pem"), "utf8"),
    privateKey: await readFile(inDir("ca.key"), "utf8"),
  };
  const issue = async (names: string[], notAfter: Date) => {
    const validity = { notBefore: new Date(Date.now() - 120_000), notAfter };
    const made = await issueCertificate(authority, { kind: "server", names }, validity);
    return { cert: made.certificate, key: made.privateKey };
  };
  const late = await answering([], await issue(["localhost"], new Date(Date.now() - 60_000)));
  await expect(ask(own(late.url), "/v1/status")).rejects.toThrow(
    'its certificate has expired: renew it with "keyvault cert issue --role server --replace"',
  );
  server?.close();
  const other = await answering([], await issue(["vault.internal"], new Date(Date.now() + 60_000)));
  await expect(ask(own(other.url), "/v1/status")).rejects.toThrow(
    "its certificate does not have that name, only the names in KEYVAULT_SERVER_NAMES",
  );
});

test("download writes a new file readable by its owner only, and removes it if the response is incomplete", async () => {
  const { url } = await answering([{ body: "backup" }, { status: 500, body: {} }, { body: "another" }]);
  const file = inDir("fetched");
  onTestFinished(() => rm(file, { force: true }));
  const before = process.umask(0);
  await download(own(url), "/v1/backup", file).finally(() => process.umask(before));
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  await expect(download(own(url), "/v1/backup", inDir("refused"))).rejects.toThrow("The vault answered 500");
  await expect(stat(inDir("refused"))).rejects.toMatchObject({ code: "ENOENT" });
  await writeFile(file, "precious");
  await expect(download(own(url), "/v1/backup", file)).rejects.toMatchObject({ code: "EEXIST" });
  expect(await readFile(file, "utf8")).toBe("precious");
});
