import { createSocket, type Socket } from "node:dgram";
import { afterEach, expect, test } from "vitest";
import { createResolve } from "../../../src/webhooks/callback_address.ts";

let server: Socket | undefined;
afterEach(() => server?.close());

const A = 1;
const AAAA = 28;
const OK = 0x8180;
const NO_NAME = 0x8183;

/** A name server on loopback: a record's bytes to answer a type with, or undefined for "no such name". */
async function nameServer(answer: (type: number) => number[] | undefined | "silent"): Promise<string> {
  const socket = createSocket("udp4");
  server = socket;
  socket.on("message", (query, peer) => {
    const question = query.subarray(12, query.indexOf(0, 12) + 5);
    const type = question.readUInt16BE(question.length - 4);
    const data = answer(type);
    if (data === "silent") return;
    const head = Buffer.alloc(12);
    query.copy(head, 0, 0, 2);
    head.writeUInt16BE(data === undefined ? NO_NAME : OK, 2);
    head.writeUInt16BE(1, 4);
    head.writeUInt16BE(data === undefined ? 0 : 1, 6);
    const record = data === undefined ? [] : [0xc0, 12, 0, type, 0, 1, 0, 0, 0, 60, 0, data.length, ...data];
    socket.send(Buffer.concat([head, question, Buffer.from(record)]), peer.port, peer.address);
  });
  await new Promise<void>((resolve) => socket.bind(0, "127.0.0.1", resolve));
  return `127.0.0.1:${socket.address().port}`;
}

const loopback6 = [...Array(15).fill(0), 1];

test("gives the addresses of both families", async () => {
  const resolve = createResolve([await nameServer((type) => (type === A ? [192, 0, 2, 1] : loopback6))]);
  expect(await resolve("hooks.example.test")).toEqual(["192.0.2.1", "::1"]);
});

test.each([
  ["IPv4", A, [192, 0, 2, 1], "192.0.2.1"],
  ["IPv6", AAAA, loopback6, "::1"],
] as const)("is content with %s alone", async (_, only, data, address) => {
  const resolve = createResolve([await nameServer((type) => (type === only ? [...data] : undefined))]);
  expect(await resolve("hooks.example.test")).toEqual([address]);
});

test("rejects a name that does not exist", async () => {
  const resolve = createResolve([await nameServer(() => undefined)]);
  await expect(resolve("hooks.example.test")).rejects.toMatchObject({ code: "ENOTFOUND" });
});

test("gives up on a name server that stays silent", async () => {
  const resolve = createResolve([await nameServer(() => "silent")]);
  await expect(resolve("hooks.example.test")).rejects.toMatchObject({
    code: expect.stringMatching(/ETIMEOUT|ECANCELLED/),
  });
});
