import { X509Certificate } from "node:crypto";
import { appendFile, copyFile, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, type TLSSocket } from "node:tls";
import type { Command } from "commander";
import { afterAll, afterEach, beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { ask as askVault } from "../../keyvault/commands/ask_vault.ts";
import { certCommand } from "../../keyvault/commands/cert.ts";
import { createAuthority, issueCertificate } from "../../keyvault/tls/authority.ts";
import { requireTls } from "../../keyvault/tls/inventory.ts";
import { installTls, issueFiles, revokeCertificate, validity } from "../../keyvault/tls/issue.ts";
import { normalizeSerial } from "../../keyvault/tls/revocations.ts";
import { issueIdentity, startVault, type TestVault } from "./fixture.ts";
import type { Client } from "./http/caller_support.ts";

vi.setConfig({ testTimeout: 120_000 });

let vault: TestVault;
const sockets: TLSSocket[] = [];

beforeAll(async () => {
  vault = await startVault();
});
afterAll(() => vault.close());
afterEach(async () => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
  for (const socket of sockets.splice(0)) socket.destroy();
  await writeFile(vault.home.config.tls.revokedFile, "");
  await vault.trust.refresh();
});

const inTls = (file: string) => join(vault.home.config.tlsDir, file);
const ready = (client: Client) => vault.get("/readyz", client);
const client = (name: string, role: "api" | "admin" | "auditor" = "api") =>
  issueIdentity(vault.home, { kind: "client", role, name });
const serialOf = (pem: string) => normalizeSerial(new X509Certificate(pem).serialNumber);
const aDay = () => validity(new Date(), 1);

async function ownFolder(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), "keyvault-authority-"));
  onTestFinished(() => rm(dir, { recursive: true }));
  return dir;
}

/** Opens a connection and keeps it open. Returns a function that sends requests on it. */
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

test("the vault loads a replaced server certificate without dropping connections", async () => {
  const ask = await open(vault.api);
  expect(await ask("/livez")).toBe(200);
  const seen = async () => {
    const socket = connect({ port: vault.port, host: "localhost", ...vault.api });
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

test("the vault keeps using the TLS files that it has loaded while the files on disk are damaged or do not belong together", async () => {
  const key = await readFile(inTls("server.key"));
  for (const damage of [await readFile(inTls("api.key")), Buffer.from("-----BEGIN")]) {
    await writeFile(inTls("server.key"), damage);
    await vault.trust.refresh();
    expect((await ready(vault.api)).status).toBe(200);
  }
  await writeFile(inTls("server.key"), key);
  await writeFile(vault.home.config.tls.revokedFile, `${serialOf(vault.api.cert)}\nnot a serial number\n`);
  const generation = vault.trust.generation();
  await vault.trust.refresh();
  expect(vault.trust.generation()).toBe(generation);
});

test("the vault refuses a revoked certificate at the handshake and on open connections", async () => {
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

test("the vault accepts an added authority and rejects a removed one, even on open connections", async () => {
  const own = await readFile(inTls("ca.pem"), "utf8");
  const second = await createAuthority(aDay());
  const made = await issueCertificate(second, { kind: "client", role: "api", name: "new" }, aDay());
  const identity = { ca: own, cert: made.certificate, key: made.privateKey };
  await expect(ready(identity)).rejects.toThrow();
  await writeFile(inTls("ca.pem"), own + second.certificate);
  await vault.trust.refresh();
  const ask = await open(identity);
  expect(await ask("/livez")).toBe(200);
  expect((await ready(vault.api)).status).toBe(200);
  await writeFile(inTls("ca.pem"), own);
  await vault.trust.refresh();
  expect(await ask("/livez")).toBe(403);
  await expect(ready(identity)).rejects.toThrow();
});

/** Runs `keyvault cert …` in this process with only these settings. */
async function cert(settings: Record<string, string>, ...args: string[]) {
  for (const [name, value] of Object.entries(settings)) vi.stubEnv(name, value);
  const told = { stdout: "", stderr: "" };
  const spies = (["stdout", "stderr"] as const).map((stream) =>
    vi.spyOn(process[stream], "write").mockImplementation((text) => {
      told[stream] += text;
      return true;
    }),
  );
  const strict = (command: Command): Command => {
    for (const sub of command.commands) strict(sub);
    return command.exitOverride();
  };
  try {
    await strict(certCommand()).parseAsync(args, { from: "user" });
    return told;
  } finally {
    for (const spy of spies) spy.mockRestore();
    vi.unstubAllEnvs();
  }
}

const readPair = async ({ certificate, key }: { certificate: string; key: string }) => ({
  ca: vault.api.ca,
  cert: await readFile(certificate, "utf8"),
  key: await readFile(key, "utf8"),
});

test("keyvault cert issues certificates with their role and revokes them", async () => {
  const run = (...args: string[]) => cert(vault.home.environment, ...args);
  const auditor = ["issue", "--role", "auditor", "--name", "bank.audit"];
  const issued = JSON.parse((await run(...auditor, "--json")).stdout);
  const stem = inTls("auditor-bank.audit");
  expect(issued).toMatchObject({
    certificate: `${stem}.pem`,
    key: `${stem}.key`,
    serial: expect.any(String),
  });
  expect((await stat(issued.key)).mode & 0o777).toBe(0o600);
  const identity = await readPair(issued);
  expect((await vault.get("/v1/status", identity)).status).toBe(200);
  expect((await vault.post("/v1/keys", {}, identity)).status).toBe(403);
  await expect(run(...auditor)).rejects.toThrow(/--replace/);
  await expect(run("issue", "--role", "api")).rejects.toThrow(/--name is needed/);
  await expect(run("issue", "--role", "root", "--name", "x")).rejects.toThrow(/Allowed choices/);
  await expect(run("issue", "--role", "api", "--name", "a/b")).rejects.toThrow(/letters, digits/);
  const { revokedFile } = vault.home.config.tls;
  await rm(revokedFile, { force: true });
  const revoked = { stdout: `Revoked ${issued.serial}\n` };
  expect(await run("revoke", issued.certificate)).toEqual({
    ...revoked,
    stderr: expect.stringMatching(/^There was no .*revoked, so a new list was created/),
  });
  expect(await run("revoke", issued.certificate)).toEqual({ ...revoked, stderr: "" });
  expect(await revokeCertificate(revokedFile, issued.certificate, new Date())).toBe(issued.serial);
  expect((await readFile(revokedFile, "utf8")).split("\n")).toHaveLength(2);
  await vault.trust.refresh();
  await expect(vault.get("/v1/status", identity)).rejects.toThrow();
});

test("keyvault cert issues certificates in the folder of ca.key without any setting", async () => {
  const offline = await ownFolder();
  const issue = (...args: string[]) =>
    cert({}, "issue", "--role", "admin", "--name", "ada", "--json", ...args);
  for (const file of ["ca.pem", "ca.key"]) {
    await expect(issue("--ca", offline)).rejects.toThrow(
      `${file} is not in ${offline}: run this command where that file is kept`,
    );
    await copyFile(inTls(file), join(offline, file));
  }
  const issued = JSON.parse((await issue("--ca", offline)).stdout);
  expect(issued.certificate).toBe(join(offline, "admin-ada.pem"));
  expect((await vault.get("/v1/status", await readPair(issued))).status).toBe(200);
  await expect(issue()).rejects.toThrow(/KEYVAULT_DATA_DIR: is missing/);
});

test("issueFiles uses the authority that matches ca.key if ca.pem contains two", async () => {
  const dir = await ownFolder();
  const [former, next] = [await createAuthority(aDay()), await createAuthority(aDay())];
  await writeFile(join(dir, "ca.pem"), former.certificate + next.certificate);
  await writeFile(join(dir, "ca.key"), next.privateKey);
  const order = { subject: { kind: "client", role: "api", name: "api" }, days: 1, replace: false } as const;
  const { certificate } = await issueFiles(dir, { ...order, stem: join(dir, "api") }, new Date());
  const issued = new X509Certificate(await readFile(certificate));
  expect(issued.verify(new X509Certificate(next.certificate).publicKey)).toBe(true);
  await requireTls(dir);
  await writeFile(join(dir, "ca.pem"), former.certificate);
  await expect(requireTls(dir)).rejects.toThrow(/ca\.pem or its key is damaged/);
});

test.each(["", "\n"])(
  "the vault accepts both authorities after a second one is appended to ca.pem, whose last line ended in %j",
  async (end) => {
    const next = await ownFolder();
    await installTls(next, ["localhost"], new Date());
    const { tls } = vault.home.config;
    const status = (cert: string) => askVault({ url: vault.url, ca: inTls("ca.pem"), cert }, "/v1/status");
    const old = await readFile(tls.caFile, "utf8");
    const server = [await readFile(tls.certFile), await readFile(tls.keyFile)] as const;
    await writeFile(tls.caFile, old.trimEnd() + end + (await readFile(join(next, "ca.pem"))));
    await copyFile(join(next, "server.key"), tls.keyFile);
    await copyFile(join(next, "server.pem"), tls.certFile);
    await vault.trust.refresh();
    await status(inTls("admin.pem"));
    await status(join(next, "admin.pem"));
    await copyFile(join(next, "ca.pem"), tls.caFile);
    await vault.trust.refresh();
    await status(join(next, "admin.pem"));
    await expect(status(inTls("admin.pem"))).rejects.toThrow(/may refuse .*admin\.pem/);
    await writeFile(tls.caFile, old);
    await writeFile(tls.keyFile, server[1]);
    await writeFile(tls.certFile, server[0]);
    await vault.trust.refresh();
    await status(inTls("admin.pem"));
  },
);

test("the vault refuses a call if its caller's certificate is revoked before the body is complete", async () => {
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
  await ready(vault.api);
  await writeFile(vault.home.config.tls.revokedFile, `${serialOf(stolen.cert)}\n`);
  await vault.trust.refresh();
  const before = vault.head();
  socket.write(body.slice(9));
  await expect.poll(() => answer).toContain("\r\n\r\n");
  expect(answer).toMatch(/^HTTP\/1\.1 403 .*"code":"forbidden"/s);
  expect(vault.head()).toBe(before);
  await expect.poll(() => socket.closed).toBe(true);
});
