import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, connect as plainConnect, type Server, type Socket } from "node:net";
import { connect, type TLSSocket } from "node:tls";
import { afterAll, beforeAll, expect, test } from "vitest";
import { codeOf, startVault, type TestVault } from "./fixture.ts";

/*
 * Input that is not a well-formed call, from somebody with the API's certificate or with access to the
 * network.
 */

let vault: TestVault;
let agent: string;
let root: string;

beforeAll(async () => {
  vault = await startVault();
  root = (await vault.makeKey({ tenant: "acc-1", purpose: "account_root", label: "root" })).key_id;
  agent = (await vault.makeAgent("acc-1")).key_id;
});
afterAll(() => vault.close());

const head = () => vault.head();
const granted = async (after: number) =>
  (await vault.recordsAfter(after)).filter(({ outcome }) => outcome === "granted");
const challenge = () => JSON.stringify(vault.challenge());

const READ: [what: string, body: string | Buffer][] = [
  ["no content", ""],
  ["invalid JSON", "{"],
  ["incomplete JSON", '{"tenant":"acc-1","challenge":'],
  ["an array", "[]"],
  ["null", "null"],
  ["invalid UTF-8", Buffer.from([0x7b, 0xff, 0x7d])],
  ["two documents", '{"tenant":"acc-1"}{"tenant":"acc-1"}'],
  ["a duplicate key", '{"tenant":"acc-1","challenge":1,"challenge":2}'],
  ["deep nesting", `{"challenge":${"[".repeat(5000)}${"]".repeat(5000)}}`],
];

/** Calls with a body, and the name of one field in each body. */
const CALLS: [path: () => string, field: string][] = [
  [() => "/v1/keys", "purpose"],
  [() => `/v1/keys/${root}/sign/delegation`, "certificate"],
  [() => `/v1/keys/${agent}/sign/challenge`, "challenge"],
  [() => `/v1/keys/${root}/sign/revocation-list`, "revoked_certs"],
  [() => `/v1/keys/${root}/ceiling`, "ceiling"],
  [() => `/v1/keys/${agent}/disable`, "tenant"],
];

const UNDERSTOOD: [what: string, body: (field: string) => string][] = [
  ["a wrong type", (field) => JSON.stringify({ tenant: 7, [field]: { $gt: "" } })],
  ["a __proto__ key", (field) => `{"__proto__":{"tenant":"acc-1"},"${field}":1}`],
  ["an unknown field", () => JSON.stringify({ tenant: "acc-1", bytes: "AAAA" })],
  ["U+0000", (field) => JSON.stringify({ tenant: "acc-1\u0000", [field]: "\u0000" })],
  ["too many bytes", (field) => JSON.stringify({ tenant: "acc-1", [field]: "x".repeat(131_072) })],
];

async function expectRefused(path: string, body: string | Buffer): Promise<void> {
  const before = head();
  const headers = { "content-type": "application/json", "idempotency-key": randomUUID() };
  const answer = await vault.post(path, body, vault.api, headers);
  expect(answer, path).toMatchObject({ status: 400, body: { error: { code: "invalid_request" } } });
  expect(head(), path).toBe(before + 1);
  expect(await granted(before), path).toEqual([]);
}

test.each(READ)("the JSON reader rejects a body with %s, and the attempt is recorded", (_, body) =>
  expectRefused(path(), body),
);

test.each(UNDERSTOOD)("every call rejects a body with %s and records the attempt", async (_, bodyWith) => {
  for (const [pathOf, field] of CALLS) await expectRefused(pathOf(), bodyWith(field));
});

async function open(port = vault.port): Promise<TLSSocket> {
  const socket = connect({ port, host: "localhost", ...vault.api });
  await once(socket, "secureConnect");
  return socket;
}

/** Sends bytes on a new connection. Returns everything that it receives until the connection closes. */
async function exchange(text: string): Promise<string> {
  const socket = await open();
  let answer = "";
  socket.on("data", (chunk: Buffer) => {
    answer += chunk.toString("latin1");
  });
  socket.on("error", () => {});
  socket.write(text);
  await once(socket, "close");
  return answer;
}

const path = () => `/v1/keys/${agent}/sign/challenge`;
const typed = "host: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n";

test("the vault accepts a well-formed call over a raw connection", async () => {
  const body = challenge();
  const answer = await exchange(
    `POST ${path()} HTTP/1.1\r\n${typed}content-length: ${body.length}\r\n\r\n${body}`,
  );
  expect(answer).toMatch(/^HTTP\/1\.1 200/);
  expect(answer).toContain("challenge_sig");
});

test.each<[string, (body: string) => string]>([
  [
    "two content lengths",
    (body) =>
      `POST ${path()} HTTP/1.1\r\n${typed}content-length: ${body.length}\r\ncontent-length: 0\r\n\r\n${body}`,
  ],
  [
    "a content length and chunks",
    (body) =>
      `POST ${path()} HTTP/1.1\r\n${typed}content-length: ${body.length}\r\ntransfer-encoding: chunked\r\n\r\n${body}`,
  ],
  [
    "a malformed content length",
    (body) => `POST ${path()} HTTP/1.1\r\n${typed}content-length: +5\r\n\r\n${body}`,
  ],
  [
    "a header folded over two lines",
    (body) => `POST ${path()} HTTP/1.1\r\n${typed}x: a\r\n b\r\n\r\n${body}`,
  ],
  ["an overlong header", () => `POST ${path()} HTTP/1.1\r\n${typed}x: ${"a".repeat(40_000)}\r\n\r\n`],
  ["bytes that are not HTTP", () => "\x16\x03\x01\x00\x00hello\r\n\r\n"],
  ["a line feed in the path", () => `POST ${path()}\n HTTP/1.1\r\n${typed}\r\n`],
  [
    "a missing host",
    (body) => `POST ${path()} HTTP/1.1\r\n${typed.slice(17)}content-length: ${body.length}\r\n\r\n${body}`,
  ],
  ["the CONNECT method", () => `CONNECT localhost:443 HTTP/1.1\r\n${typed}\r\n`],
  [
    "an unknown expectation",
    () => `POST ${path()} HTTP/1.1\r\n${typed}expect: wonders\r\ncontent-length: 2\r\n\r\n{}`,
  ],
  [
    "an overlong chunk header",
    () => `POST ${path()} HTTP/1.1\r\n${typed}transfer-encoding: chunked\r\n\r\n2;${"a".repeat(50_000)}`,
  ],
])("the vault rejects a request with %s before any call handles it", async (_, request) => {
  const before = head();
  const answer = await exchange(request(challenge()));
  expect(answer).toMatch(/^HTTP\/1\.1 400 /);
  expect(JSON.parse(answer.slice(answer.indexOf("\r\n\r\n")))).toMatchObject({
    error: { code: "invalid_request", status: 400 },
  });
  expect(answer).not.toMatch(/^HTTP\/1\.1 200/);
  expect(answer).not.toContain("challenge_sig");
  expect(await granted(before)).toEqual([]);
});

test("the vault treats a second request after the first one's body as a separate call with its own record", async () => {
  const body = challenge();
  const first = typed.replace("connection: close\r\n", "");
  const one = `POST ${path()} HTTP/1.1\r\n${first}content-length: ${body.length}\r\n`;
  const before = head();
  const answer = await exchange(`${one}\r\n${body}${one}connection: close\r\n\r\n${body}`);
  expect(answer.match(/challenge_sig/g)).toHaveLength(2);
  expect(await granted(before)).toHaveLength(2);
});

/** Starts a network tap. It records everything that the client sends, so that the test can replay it. */
async function tap(): Promise<{ port: number; heard: Buffer[]; server: Server }> {
  const heard: Buffer[] = [];
  const server = createServer((client: Socket) => {
    const behind = plainConnect(vault.port, "localhost");
    client.on("data", (chunk) => heard.push(Buffer.from(chunk)));
    client.pipe(behind).pipe(client);
    for (const socket of [client, behind]) socket.on("error", () => socket.destroy());
  });
  server.listen(0, "localhost");
  await once(server, "listening");
  return { port: (server.address() as { port: number }).port, heard, server };
}

test("a recorded connection signs nothing when it is replayed", async () => {
  const { port, heard, server } = await tap();
  const body = challenge();
  const socket = await open(port);
  let answer = "";
  socket.on("data", (chunk: Buffer) => {
    answer += chunk.toString("latin1");
  });
  socket.write(
    `POST ${path()} HTTP/1.1\r\n${typed}connection: close\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  );
  await once(socket, "close");
  server.close();
  expect(answer).toMatch(/^HTTP\/1\.1 200/);
  const before = head();
  const replayed = plainConnect(vault.port, "localhost");
  let again = "";
  replayed.on("data", (chunk: Buffer) => {
    again += chunk.toString("latin1");
  });
  replayed.on("error", () => {});
  replayed.write(Buffer.concat(heard));
  await once(replayed, "close");
  expect(again).not.toContain("challenge_sig");
  expect(head()).toBe(before);
});

test("a caller that disconnects before the response cannot hide a signature from the audit", async () => {
  const before = head();
  const body = challenge();
  const socket = await open();
  const call = `POST ${path()} HTTP/1.1\r\n${typed}content-length: ${body.length}\r\n\r\n${body}`;
  await new Promise<void>((resolve) => {
    socket.write(call, () => resolve());
  });
  socket.destroy();
  const signed = { statement: "challenge", outcome: "granted" };
  await expect.poll(() => vault.recordsAfter(before), { timeout: 10_000 }).toEqual([signed]);
});

test("a repeated call gets a new record each time, and is refused after one minute", async () => {
  const body = challenge();
  const headers = { "content-type": "application/json" };
  const send = async () => codeOf(await vault.post(path(), body, vault.api, headers));
  const before = head();
  for (let time = 0; time < 3; time += 1) expect(await send()).toBe(200);
  expect(await granted(before)).toHaveLength(3);
  const at = vault.clock.at;
  vault.clock.move(60);
  expect(await send()).toBe(200);
  vault.clock.move(1);
  expect(await send()).toBe("policy_violation");
  vault.clock.at = at;
});

test("the vault closes a connection that pipelines thousands of calls, without affecting others", async () => {
  const socket = await open();
  const closed = new Promise((resolve) => socket.on("error", () => {}).on("close", resolve));
  const one = `POST ${path()} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}`;
  const before = head();
  socket.write(one.repeat(20_000));
  await closed;
  expect((await vault.sign(agent)).status).toBe(200);
  expect(head() - before).toBeLessThan(2_000);
});

test.each([
  ["answers all of them if their number is within the limit", 32, 32],
  ["answers at most the number that the limit allows, and closes the connection", 33, 32],
])("if a client pipelines calls on one connection, the vault %s", async (_, sent, most) => {
  const body = challenge();
  const one = `POST ${path()} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n`;
  const answer = await exchange(
    `${`${one}\r\n${body}`.repeat(sent - 1)}${one}connection: close\r\n\r\n${body}`,
  );
  const answered = answer.match(/challenge_sig/g)?.length ?? 0;
  expect(answered).toBeLessThanOrEqual(most);
  if (sent === most) expect(answered).toBe(most);
});

test("the vault does not answer a call with the error for invalid bytes that follow the call", async () => {
  const body = challenge();
  const one = `POST ${path()} HTTP/1.1\r\n${typed}content-length: ${body.length}\r\n`;
  const answer = await exchange(`${one.replace("connection: close\r\n", "")}\r\n${body}hello\r\n\r\n`);
  expect(answer).not.toContain("invalid_request");
});
