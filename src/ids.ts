import { randomFillSync } from "node:crypto";
import { v7 as uuidv7 } from "uuid";

const uuidText = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const keyIdText = /^[0-9a-f]{32}$/;

/** Returns whether a string is a UUID in lower case. Compare only such a string with a `uuid` column. */
export function isUuid(text: string): boolean {
  return uuidText.test(text);
}

/** Returns whether a string has the form of an agent's or a human's id: 32 lower-case hex digits. */
export function isKeyId(text: string): boolean {
  return keyIdText.test(text);
}

/** Returns a new id of a resource. It is a UUID v7, so ids increase with time. */
export function newId(): string {
  return uuidv7();
}

const RANDOM_BYTES = 16;
/** Random bytes for many ids, generated in advance. Each byte is used once. */
const drawn = Buffer.alloc(400 * RANDOM_BYTES);
let used = drawn.length;
/** Within a millisecond, the sequence starts at a random value below 2^31 and counts up. */
let last = { msecs: -1, seq: 0 };

/**
 * Returns a new id that contains `time` in whole milliseconds, for records that are found by time and id. Ids
 * of consecutive calls in this process with the same millisecond increase. The id ends with
 * {@link ENDING a part} of `random`.
 */
export function newIdAt(time: Date, random: Buffer = drawRandom()): string {
  const msecs = time.getTime();
  const seq = last.msecs === msecs ? last.seq + 1 : random.readUInt32BE() >>> 1;
  last = { msecs, seq };
  return uuidv7({ msecs, seq, random });
}

/** Start and end of the 5 random bytes with which an id ends. */
const ENDING = [11, RANDOM_BYTES] as const;

/** Returns whether {@link newIdAt} made an id with these random bytes. Compares 40 bits. */
export function isMadeWith(id: string, random: Buffer): boolean {
  return id.endsWith(random.toString("hex", ...ENDING));
}

function drawRandom(): Buffer {
  if (used === drawn.length) {
    randomFillSync(drawn);
    used = 0;
  }
  used += RANDOM_BYTES;
  return drawn.subarray(used - RANDOM_BYTES, used);
}

/** Returns the time in an id from {@link newIdAt}, or `undefined` if the id has a different UUID version. */
export function timeOfId(id: string): Date | undefined {
  return id[14] === "7" ? new Date(Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16)) : undefined;
}

/** Returns a new id of a delegation request. */
export function newRequestId(): string {
  return `req-${uuidv7()}`;
}

/** Returns a new id of a certificate (specification §2: `cert-<uuid>`). */
export function newCertificateId(): string {
  return `cert-${uuidv7()}`;
}

/** Returns whether a string has the form of a delegation request's id. */
export function isRequestId(text: string): boolean {
  return text.startsWith("req-") && isUuid(text.slice(4));
}

/** Returns whether a string has the form of a certificate's id. */
export function isCertificateId(text: string): boolean {
  return text.startsWith("cert-") && isUuid(text.slice(5));
}
