import { spawn } from "node:child_process";
import { once } from "node:events";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { createAuthority, issueCertificate, type Subject } from "../../../keyvault/tls/authority.ts";
import { runCommand } from "../command_line.ts";
import { issueIdentity, readIdentity, startVault, type TestVault } from "../fixture.ts";

vi.setConfig({ testTimeout: 120_000 });

const MAIN = fileURLToPath(new URL("../../../keyvault/main.ts", import.meta.url));
const HOUR = 3_600_000;

let vault: TestVault;

beforeAll(async () => {
  vault = await startVault();
});
afterAll(() => vault.close());

const run = (args: string[], environment: object = vault.home.environment) => runCommand(args, environment);

async function complaint(args: string[], status = 1): Promise<string> {
  const { code, stdout, stderr } = await run(["status", "--url", vault.url, ...args]);
  expect({ code, stdout }).toEqual({ code: status, stdout: "" });
  expect(stderr).toMatch(/^keyvault: [^\n]+\n$/);
  return stderr;
}

/** Writes a client's certificate and key to the same folder. Returns the certificate's path. */
async function identityFile(name: string, subject: Subject, hours = 1): Promise<string> {
  const now = Date.now();
  const validity = { notBefore: new Date(now - 48 * HOUR), notAfter: new Date(now + hours * HOUR) };
  const { cert, key } = await issueIdentity(vault.home, subject, validity);
  await writeFile(join(vault.home.dir, `${name}.pem`), cert);
  await writeFile(join(vault.home.dir, `${name}.key`), key);
  return join(vault.home.dir, `${name}.pem`);
}

const client = (role: "api" | "admin" | "auditor", name: string) => ({ kind: "client", role, name }) as const;

test("the command line finds a certificate's key in the same folder, and names a key that does not match", async () => {
  const alice = await identityFile("alice", client("admin", "alice"));
  expect((await run(["status", "--url", vault.url, "--cert", alice])).code).toBe(0);
  const admin = join(vault.home.config.tlsDir, "admin.key");
  expect(await complaint(["--cert", alice, "--key", admin])).toContain(`${admin} is not the key of ${alice}`);
  await copyFile(alice, join(vault.home.dir, "alone.pem"));
  expect(await complaint(["--cert", join(vault.home.dir, "alone.pem")])).toMatch(/alone\.key cannot be read/);
  expect(await complaint(["--cert", admin, "--key", admin])).toMatch(/admin\.key is not a PEM certificate/);
});

test("the command line needs no settings if it has an address, an authority and a certificate", async () => {
  const alice = await identityFile("alice", client("admin", "alice"));
  const own = ["--url", vault.url, "--ca", join(vault.home.config.tlsDir, "ca.pem"), "--cert", alice];
  expect((await run(["status", ...own], {})).code).toBe(0);
});

/** Runs a command that reads its certificate from standard input. Returns its output on both streams. */
async function withInput(input: string, ...args: string[]): Promise<string> {
  const child = spawn(process.execPath, [MAIN, ...args, "--url", vault.url, "--cert", "-"], {
    env: vault.home.environment,
  });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (text: Buffer) => (said += text));
  child.stdin.end(input);
  await once(child, "close");
  return said;
}

test("the command line reads certificate and key from standard input in either order, and a PIN after them", async () => {
  const { cert, key } = vault.admin;
  const pin = await readFile(vault.home.config.token.pinFile, "utf8");
  expect(await withInput(cert + key, "status")).toMatch(/audit/);
  expect(await withInput(key + cert, "seal")).toMatch(/The vault has been sealed since/);
  expect(await withInput(`${cert}${key}${"0".repeat(64)}\n`, "unseal")).toMatch(/does not accept the PIN/);
  await expect
    .poll(() => withInput(cert + key + pin, "unseal"), { timeout: 20_000 })
    .toBe("The vault is open.\n");
  const alice = await issueIdentity(vault.home, client("admin", "alice"));
  for (const [input, complaint] of [
    ["", /Standard input does not begin with a certificate and its key/],
    [cert, /Standard input does not begin with/],
    [`${cert}${alice.key}`, /standard input.* is not the key of standard input|is not the key of/],
  ] as const) {
    expect(await withInput(input, "status")).toMatch(complaint);
  }
});

test("the command line explains an expired certificate, an unknown authority and an address without a vault", async () => {
  const late = await identityFile("late", client("admin", "late"), -24);
  expect(await complaint(["--cert", late], 3)).toMatch(
    /late\.pem expired on \d{4}-\d\d-\d\d: issue another certificate/,
  );
  const now = new Date();
  const validity = { notBefore: new Date(now.getTime() - HOUR), notAfter: new Date(now.getTime() + HOUR) };
  const authority = await createAuthority(validity);
  const strange = await issueCertificate(authority, client("admin", "strange"), validity);
  for (const [file, text] of [
    ["strange.pem", strange.certificate],
    ["strange.key", strange.privateKey],
    ["strange_ca.pem", authority.certificate],
  ] as const) {
    await writeFile(join(vault.home.dir, file), text);
  }
  expect(await complaint(["--cert", join(vault.home.dir, "strange.pem")], 3)).toMatch(
    /may refuse .*strange\.pem/,
  );
  expect(await complaint(["--ca", join(vault.home.dir, "strange_ca.pem")], 3)).toMatch(
    /its certificate was not issued by the authority in .*strange_ca\.pem/,
  );
  expect(await complaint(["--url", "https://localhost:1"], 3)).toMatch(
    /nothing listens there; is "keyvault serve"/,
  );
  for (const url of ["localhost:8443", "http://localhost:8443", "vault", "https://"]) {
    expect(await complaint(["--url", url], 2)).toContain(`${url} is not a vault address: give https://`);
  }
});

test("the command line reports a server that is not a vault", async () => {
  const identity = readIdentity(vault.home, "server");
  const server = createTlsServer({ cert: identity.cert, key: identity.key }, (_, response) => {
    response.writeHead(200, { "content-type": "text/html" }).end("<html>");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const plain = createServer((_, response) => response.end("hello"));
  await new Promise<void>((resolve) => plain.listen(0, "127.0.0.1", resolve));
  const portOf = (one: { address(): unknown }) => (one.address() as AddressInfo).port;
  try {
    expect(await complaint(["--url", `https://localhost:${portOf(server)}`], 3)).toMatch(
      /is not a key vault/,
    );
    expect(await complaint(["--url", `https://localhost:${portOf(plain)}`], 3)).toMatch(/does not speak TLS/);
  } finally {
    server.close();
    plain.close();
  }
});

test("the command line names the certificate whose role is refused, and for a sealed vault the command that unseals it", async () => {
  const auditor = await identityFile("auditor", client("auditor", "eve"));
  const refused = await run(["kek", "rotate", "--url", vault.url, "--cert", auditor]);
  expect(refused.stderr).toBe(
    `keyvault: The caller's role may not make this call: ${auditor} is for auditor/eve\n`,
  );
  expect((await run(["seal", "--url", vault.url])).code).toBe(0);
  try {
    const tail = await run(["audit", "tail", "--url", vault.url]);
    expect(tail).toEqual({
      code: 3,
      stdout: "",
      stderr: 'keyvault: The vault is sealed: "keyvault unseal" opens it\n',
    });
    const wrong = join(vault.home.dir, "wrong");
    await writeFile(wrong, "0".repeat(64));
    const unseal = () => run(["unseal", "--url", vault.url, "--pin-file", wrong]);
    expect((await unseal()).stderr).toMatch(/does not accept the PIN/);
    const again = async () => expect((await unseal()).stderr).toMatch(/Too many tries: wait \d+ s\n/);
    await vi.waitFor(again, { timeout: 30_000 });
  } finally {
    const pin = vault.home.config.token.pinFile;
    const open = async () =>
      expect((await run(["unseal", "--url", vault.url, "--pin-file", pin])).code).toBe(0);
    await vi.waitFor(open, { timeout: 30_000 });
  }
});

test("unseal waits while the token's process starts, but not for other failures", async () => {
  const { cert, key } = readIdentity(vault.home, "server");
  const answers = [
    { status: 503, code: "token_unavailable" },
    { status: 503, code: "token_unavailable" },
    { status: 503, code: "unavailable" },
    { status: 200 },
  ];
  const server = createTlsServer({ cert, key }, (_, response) => {
    const { status, code } = answers.shift()!;
    const said = code === undefined ? { offer: "" } : { error: { code, message: code } };
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(said));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const empty = join(vault.home.dir, "empty");
  await writeFile(empty, "\n");
  const url = `https://localhost:${(server.address() as AddressInfo).port}`;
  const unseal = () => run(["unseal", "--url", url, "--pin-file", empty]);
  try {
    expect((await unseal()).stderr).toBe("keyvault: unavailable\n");
    expect(answers, "asked three times").toHaveLength(1);
    expect((await unseal()).stderr).toBe("keyvault: No PIN was given\n");
  } finally {
    server.close();
  }
});

test("the command line prints one line with the name of a file that it cannot read or write", async () => {
  const folder = join(vault.home.dir, "folder");
  await mkdir(folder);
  const own = ["--url", vault.url];
  const tries: [string[], RegExp][] = [
    [["audit", "export", folder, ...own], /folder: it is a folder/],
    [["audit", "export", join(folder, "none", "heads"), ...own], /none: there is no such folder/],
    [["backup", "key", join(folder, "none", "key")], /none: there is no such folder/],
    [["unseal", "--pin-file", folder, ...own], /is not sealed/],
    [
      ["cert", "issue", "--role", "admin", "--name", "x", "--out", join(folder, "none", "x")],
      /no such folder/,
    ],
  ];
  for (const [args, expected] of tries) {
    const { code, stderr } = await run(args);
    expect(code, args.join(" ")).toBe(1);
    expect(stderr).toMatch(/^keyvault: [^\n]+\n$/);
    expect(stderr).toMatch(expected);
  }
});

test("a command exits silently if the reader of its output closes the pipe, as `head` does", async () => {
  const child = spawn(process.execPath, [MAIN, "audit", "tail", "--url", vault.url], {
    env: vault.home.environment,
  });
  child.stdout.destroy();
  let said = "";
  child.stderr.on("data", (text: Buffer) => {
    said += text.toString();
  });
  const [code] = (await once(child, "close")) as [number];
  expect({ code, said }).toEqual({ code: 141, said: "" });
});
