import { afterEach, expect, test, vi } from "vitest";
import {
  applyMask,
  createFrameReader,
  createMask,
  encodeFrame,
  MAX_FRAME_BYTES,
} from "../../../keyvault/token/frames.ts";

afterEach(() => vi.restoreAllMocks());

const header = (length: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(length);
  return bytes;
};

test("createFrameReader returns whole messages in order, however the pipe splits them", () => {
  const messages = [{ id: 1, text: "one" }, { id: 2, bytes: new Uint8Array(200) }, { id: 3 }];
  const stream = Buffer.concat(messages.map(encodeFrame));
  for (const size of [1, 3, 64, stream.length]) {
    const reader = createFrameReader();
    const read: unknown[] = [];
    for (let at = 0; at < stream.length; at += size) {
      read.push(...reader.push(stream.subarray(at, at + size)));
    }
    expect(
      read.map((message) => (message as { id: number }).id),
      `pieces of ${size}`,
    ).toEqual([1, 2, 3]);
  }
});

test("createFrameReader rejects an oversized message as soon as its length is announced", () => {
  expect(createFrameReader().push(header(MAX_FRAME_BYTES))).toEqual([]);
  expect(() => createFrameReader().push(header(MAX_FRAME_BYTES + 1))).toThrow(/too large/);
  expect(() => encodeFrame(new Uint8Array(MAX_FRAME_BYTES))).toThrow(/too large/);
});

test("createFrameReader overwrites a partial message after joining it with the next chunk", () => {
  const concat = vi.spyOn(Buffer, "concat");
  const reader = createFrameReader();
  const frame = encodeFrame({ secret: Buffer.alloc(64, 7) });
  concat.mockClear();
  expect(reader.push(frame.subarray(0, -1))).toEqual([]);
  const begun = concat.mock.results[0]?.value as Buffer;
  expect(begun).toEqual(frame.subarray(0, -1));
  expect(reader.push(frame.subarray(-1))).toHaveLength(1);
  expect(begun).toEqual(Buffer.alloc(frame.length - 1));
});

test("encodeFrame leaves no copy of a message except its frame", () => {
  const concat = vi.spyOn(Buffer, "concat");
  const frame = encodeFrame({ secret: Buffer.alloc(64, 7) });
  expect(frame.includes(Buffer.alloc(64, 7))).toBe(true);
  const body = concat.mock.calls[0]?.[0][1] as Buffer;
  expect(body).toEqual(Buffer.alloc(frame.length - 4));
});

const SECRET_BYTES = 32;
const NONCE_AND_TAG_BYTES = 28;
const wrapped = { kek: "kek-1", box: Buffer.alloc(NONCE_AND_TAG_BYTES + SECRET_BYTES) };

test("applyMask hides a secret differently each time, and restores it when the same mask is applied again", () => {
  const secret = Buffer.alloc(SECRET_BYTES, 7);
  const masks = [createMask(wrapped), createMask(wrapped)] as const;
  const [one, other] = masks.map((mask) => applyMask(Buffer.from(secret), mask)) as [Uint8Array, Uint8Array];
  for (const masked of [one, other]) expect(masked.filter((byte) => byte === 7).length).toBeLessThan(8);
  expect(one).not.toEqual(other);
  expect(applyMask(one, masks[0])).toEqual(secret);
  expect(applyMask(other, masks[1])).toEqual(secret);
});

test("applyMask rejects a mask that is too short", () => {
  const secret = Buffer.alloc(SECRET_BYTES, 7);
  expect(createMask(wrapped)).toHaveLength(SECRET_BYTES);
  expect(() => applyMask(secret, createMask(wrapped).subarray(1))).toThrow(/shorter/);
  expect(() => applyMask(secret, Buffer.alloc(0))).toThrow(/shorter/);
});
