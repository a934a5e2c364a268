import { execFile } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { appendFile, copyFile, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, type TLSSocket } from "node:tls";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { createAuthority } from "../../keyvault/tls/authority.ts";
import { requireTls } from "../../keyvault/tls/inventory.ts";
import { issueFiles, revokeCertificate } from "../../keyvault/tls/issue.ts";
import { normaliseSerial } from "../../keyvault/tls/material.ts";
import { issueIdentity, readIdentity, startVault, type TestVault } from "./fixture.ts";
import { type Client, call } from "./http/caller_support.ts";

const MAIN = fileURLToPath(new URL("../../keyvault/main.ts", import.meta.url));
const HOUR = 3_600_000;

vi.setConfig({ testTimeout: 120_000 });

let vault: TestVault;
let api: Client;
const sockets: TLSSocket[] = [];

beforeAll(async () => {
  vault = await startVault();
  api = readIdentity(vault.home, "api");
});
afterAll(() => vault.close());
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await writeFile(vault.home.config.tls.revokedFile, "");
  await vault.trust.refresh();
});

const inTls = (file: string) => join(vault.home.config.tlsDir, file);
const ready = (client: Client) => call(`${vault.url}/readyz`, client);
const client = (name: string, role: "api" | "admin" | "auditor" = "api") =>
  issueIdentity(vault.home, { kind: "client", role, name });
const serialOf = (pem: string) => normaliseSerial(new X509Certificate(pem).serialNumber);

/** A connection that stays open, and requests on it. */
async function open(identity: Client): Promise<(path: string) => Promise<number>> {
  const socket = connect({ port: vault.port, host: "localhost", ...identity });
  sockets.push(socket);
  await new Promise((resolve, reject) => socket.once("secureConnect", resolve).once("error", reject));
  return (path) =>
    new Promise((resolve, reject) => {
      const asked = request(
        { createConnection: () => socket, path, headers: { connection: "keep-alive" } },
        (answer) => {
          answer.resume().on("end", () => resolve(answer.statusCode ?? 0));
        },
      );
      asked.on("error", reject).end();
    });
}

test("takes up another server certificate without dropping connections", async () => {
  const ask = await open(api);
  expect(await ask("/livez")).toBe(200);
  const seen = async () => {
    const socket = connect({ port: vault.port, host: "localhost", ...api });
    sockets.push(socket);
    await new Promise((resolve) => socket.once("secureConnect", resolve));
    return serialOf(socket.getPeerX509Certificate()!.toString());
  };
  const before = await seen();
  const subject = { kind: "server", names: ["localhost"] } as const;
  const issued = await issueFiles(
    vault.home.config.tlsDir,
    { subject, days: 30, stem: inTls("server"), replace: true },
    new Date(),
  );
  await expect.poll(seen, { timeout: 15_000 }).toBe(issued.serial);
  expect(issued.serial).not.toBe(before);
  expect(await ask("/livez")).toBe(200);
});

test("keeps what it has while the files on disk do not belong together, or are damaged", async () => {
  const key = await readFile(inTls("server.key"));
  for (const damage of [await readFile(inTls("api.key")), Buffer.from("-----BEGIN")]) {
    await writeFile(inTls("server.key"), damage);
    await vault.trust.refresh();
    expect((await ready(api)).status).toBe(200);
  }
  await writeFile(inTls("server.key"), key);
  await writeFile(vault.home.config.tls.revokedFile, `${serialOf(api.cert!)}\nnot a serial number\n`);
  const generation = vault.trust.generation();
  await vault.trust.refresh();
  expect(vault.trust.generation()).toBe(generation);
});

test("refuses a revoked certificate at the handshake, and on a connection that was open before", async () => {
  const identity = await client("leaving");
  const other = await client("staying");
  const [ask, askOther] = [await open(identity), await open(other)];
  expect(await ask("/livez")).toBe(200);
  await appendFile(
    vault.home.config.tls.revokedFile,
    `# left\n${serialOf(identity.cert).toUpperCase()} # one\n`,
  );
  await vault.trust.refresh();
  expect(await ask("/livez")).toBe(403);
  await expect(ready(identity)).rejects.toThrow();
  expect(await askOther("/livez")).toBe(200);
  expect((await ready(other)).status).toBe(200);
});

test("takes up an added authority, and stops believing one that was taken away, on open connections too", async () => {
  const own = await readFile(inTls("ca.pem"), "utf8");
  const around = { notBefore: new Date(Date.now() - HOUR), notAfter: new Date(Date.now() + HOUR) };
  const second = await createAuthority(around);
  const { issueCertificate } = await import("../../keyvault/tls/authority.ts");
  const made = await issueCertificate(second, { kind: "client", role: "api", name: "new" }, around);
  const identity = { ca: own, cert: made.certificate, key: made.privateKey };
  await expect(ready(identity)).rejects.toThrow();
  await writeFile(inTls("ca.pem"), own + second.certificate);
  await vault.trust.refresh();
  const ask = await open(identity);
  expect(await ask("/livez")).toBe(200);
  expect((await ready(api)).status).toBe(200);
  await writeFile(inTls("ca.pem"), own);
  await vault.trust.refresh();
  expect(await ask("/livez")).toBe(403);
  await expect(ready(identity)).rejects.toThrow();
});

test("the command line issues certificates that are accepted with their role, and revokes them", async () => {
  const cert = (...args: string[]) =>
    promisify(execFile)(process.execPath, [MAIN, "cert", ...args], { env: vault.home.environment });
  const run = async (...args: string[]) => (await cert(...args)).stdout;
  const issued = JSON.parse(await run("issue", "--role", "auditor", "--name", "bank.audit", "--json"));
  const stem = inTls("auditor-bank.audit");
  expect(issued).toMatchObject({
    certificate: `${stem}.pem`,
    key: `${stem}.key`,
    serial: expect.any(String),
  });
  expect((await stat(issued.key)).mode & 0o777).toBe(0o600);
  const identity = {
    ca: api.ca,
    cert: await readFile(issued.certificate, "utf8"),
    key: await readFile(issued.key, "utf8"),
  };
  expect((await call(`${vault.url}/v1/status`, identity)).status).toBe(200);
  expect((await call(`${vault.url}/v1/keys`, identity, { method: "POST", body: {} })).status).toBe(403);
  await expect(run("issue", "--role", "auditor", "--name", "bank.audit")).rejects.toThrow(/--replace/);
  await expect(run("issue", "--role", "api")).rejects.toThrow(/--name is needed/);
  await expect(run("issue", "--role", "root", "--name", "x")).rejects.toThrow(/Allowed choices/);
  await expect(run("issue", "--role", "api", "--name", "a/b")).rejects.toThrow(/letters, digits/);
  await rm(vault.home.config.tls.revokedFile, { force: true });
  const revoked = { stdout: `Revoked ${issued.serial}\n` };
  expect(await cert("revoke", issued.certificate)).toEqual({
    ...revoked,
    stderr: expect.stringMatching(/^There was no .*revoked, so this begins one/),
  });
  expect(await cert("revoke", issued.certificate)).toEqual({ ...revoked, stderr: "" });
  expect(await revokeCertificate(vault.home.config.tls.revokedFile, issued.certificate, new Date())).toBe(
    issued.serial,
  );
  expect((await readFile(vault.home.config.tls.revokedFile, "utf8")).split("\n")).toHaveLength(2);
  await vault.trust.refresh();
  await expect(call(`${vault.url}/v1/status`, identity)).rejects.toThrow();
});

test("certificates are issued where ca.key is, with no token, database or setting", async () => {
  const offline = await mkdtemp(join(tmpdir(), "keyvault-authority-"));
  const run = (...args: string[]) =>
    promisify(execFile)(process.execPath, [MAIN, "cert", "issue", ...args, "--json"], {
      env: {},
      cwd: offline,
    });
  try {
    await expect(run("--ca", offline, "--role", "admin", "--name", "ada")).rejects.toThrow(
      /ca\.pem is not in .*: run this where it is kept/,
    );
    await copyFile(inTls("ca.pem"), join(offline, "ca.pem"));
    await expect(run("--ca", offline, "--role", "admin", "--name", "ada")).rejects.toThrow(
      /ca\.key is not in .*: run this where it is kept/,
    );
    await copyFile(inTls("ca.key"), join(offline, "ca.key"));
    const issued = JSON.parse((await run("--ca", ".", "--role", "admin", "--name", "ada")).stdout);
    expect(issued.certificate).toBe(join(offline, "admin-ada.pem"));
    const [cert, key] = await Promise.all(
      [issued.certificate, issued.key].map((file) => readFile(file, "utf8")),
    );
    expect((await call(`${vault.url}/v1/status`, { ca: api.ca, cert: cert!, key: key! })).status).toBe(200);
    await expect(run("--role", "admin", "--name", "ada")).rejects.toMatchObject({ code: 78 });
  } finally {
    await rm(offline, { recursive: true });
  }
});

test("while authorities are exchanged, certificates come from the one whose key is there", async () => {
  const dir = await mkdtemp(join(tmpdir(), "keyvault-authority-"));
  try {
    const around = { notBefore: new Date(Date.now() - HOUR), notAfter: new Date(Date.now() + HOUR) };
    const [former, next] = [await createAuthority(around), await createAuthority(around)];
    await writeFile(join(dir, "ca.pem"), former.certificate + next.certificate);
    await writeFile(join(dir, "ca.key"), next.privateKey);
    const order = { subject: { kind: "client", role: "api", name: "api" }, days: 1, replace: false } as const;
    const { certificate } = await issueFiles(dir, { ...order, stem: join(dir, "api") }, new Date());
    const issued = new X509Certificate(await readFile(certificate));
    expect(issued.verify(new X509Certificate(next.certificate).publicKey)).toBe(true);
    await requireTls(dir);
    await writeFile(join(dir, "ca.pem"), former.certificate);
    await expect(requireTls(dir)).rejects.toThrow(/ca\.pem or its key is damaged/);
  } finally {
    await rm(dir, { recursive: true });
  }
});

test("a call that was begun before its certificate was revoked does nothing when the rest of it comes", async () => {
  const stolen = await client("stolen");
  const body = JSON.stringify({ tenant: "acc-late", purpose: "account_root", label: "late" });
  const head = `POST /v1/keys HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nidempotency-key: begun-before\r\n`;
  const socket = connect({ port: vault.port, host: "localhost", ...stolen });
  sockets.push(socket);
  let answer = "";
  socket.on("data", (chunk) => {
    answer += chunk.toString();
  });
  await new Promise((resolve) => socket.once("secureConnect", resolve));
  socket.write(`${head}content-length: ${body.length}\r\n\r\n${body.slice(0, 9)}`);
  await ready(api);
  await writeFile(vault.home.config.tls.revokedFile, `${serialOf(stolen.cert)}\n`);
  await vault.trust.refresh();
  const before = vault.vault.journal.head().seq;
  socket.write(body.slice(9));
  await expect.poll(() => answer).toContain("\r\n\r\n");
  expect(answer).toMatch(/^HTTP\/1\.1 403 .*"code":"forbidden"/s);
  expect(vault.vault.journal.head().seq).toBe(before);
  await expect.poll(() => socket.closed).toBe(true);
});
