import { Socket } from "node:net";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { openToken, type Token } from "../../../keyvault/token/client.ts";
import { encodeFrame } from "../../../keyvault/token/frames.ts";
import { tokenSettings } from "../../../keyvault/token/install.ts";
import { createHome, SILENT, type VaultHome } from "../fixture.ts";

/* What is left in this process of what went over the pipe to the token's. */

let home: VaultHome;
let token: Token;

beforeAll(async () => {
  home = await createHome();
  token = await openToken(await tokenSettings(home.config.token), SILENT);
});
afterEach(() => vi.restoreAllMocks());
afterAll(async () => {
  await token.close();
  await home.remove();
});

const context = Buffer.from("tenant acc-1");
const isZero = (bytes: Uint8Array) => bytes.every((byte) => byte === 0);

test("every frame that was sent and every piece that came is overwritten", async () => {
  const sent: Buffer[] = [];
  const came: Buffer[] = [];
  const { write, emit } = Socket.prototype;
  vi.spyOn(Socket.prototype, "write").mockImplementation(function (this: Socket, ...args: unknown[]) {
    if (Buffer.isBuffer(args[0])) sent.push(args[0]);
    return Reflect.apply(write, this, args);
  });
  vi.spyOn(Socket.prototype, "emit").mockImplementation(function (this: Socket, ...args: unknown[]) {
    if (args[0] === "data" && Buffer.isBuffer(args[1])) came.push(args[1]);
    return Reflect.apply(emit, this, args);
  });
  const wrapped = await token.wrap(Buffer.alloc(32, 7), context);
  expect(Buffer.from(await token.unwrap(wrapped, context))).toEqual(Buffer.alloc(32, 7));
  expect([sent.length, came.length > 1]).toEqual([2, true]);
  await expect.poll(() => [...sent, ...came].every(isZero)).toBe(true);
});

test("of a message only its frame is kept", () => {
  const concat = vi.spyOn(Buffer, "concat");
  const frame = encodeFrame({ secret: Buffer.alloc(64, 7) });
  expect(frame.includes(Buffer.alloc(64, 7))).toBe(true);
  const body = concat.mock.calls[0]?.[0][1] as Buffer;
  expect(body).toHaveLength(frame.length - 4);
  expect(isZero(body)).toBe(true);
});
