import { randomFillSync } from "node:crypto";
import { v7 as uuidv7 } from "uuid";

const uuidText = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const keyIdText = /^[0-9a-f]{32}$/;

/** Whether a text is a UUID in lower case. Anything else names nothing and never reaches a `uuid` column. */
export function isUuid(text: string): boolean {
  return uuidText.test(text);
}

/** Whether a text has the form of an agent's or a human's id: 32 lower-case hex digits. */
export function isKeyId(text: string): boolean {
  return keyIdText.test(text);
}

/** A new id of a resource: UUID v7, so ids grow with time. */
export function newId(): string {
  return uuidv7();
}

const RANDOM_BYTES = 16;
/** Drawn for many ids at a time; each byte is used once. */
const drawn = Buffer.alloc(400 * RANDOM_BYTES);
let used = drawn.length;
/** The time of the last id, and the 32 bits behind it, which begin in their lower half and count up. */
let last = { msecs: -1, seq: 0 };

/**
 * A new id that carries exactly `time`, in whole milliseconds: what it names is found by its time and itself.
 * Ids that this process makes one after the other for the same millisecond grow.
 */
export function newIdAt(time: Date): string {
  const [msecs, random] = [time.getTime(), drawRandom()];
  const seq = last.msecs === msecs ? last.seq + 1 : random.readUInt32BE() >>> 1;
  last = { msecs, seq };
  return uuidv7({ msecs, seq, random });
}

function drawRandom(): Buffer {
  if (used === drawn.length) {
    randomFillSync(drawn);
    used = 0;
  }
  used += RANDOM_BYTES;
  return drawn.subarray(used - RANDOM_BYTES, used);
}

/** The moment that an id of {@link newIdAt} carries; nothing when the id is of another version. */
export function timeOfId(id: string): Date | undefined {
  return id[14] === "7" ? new Date(Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16)) : undefined;
}

/** A new id of a delegation request. */
export function newRequestId(): string {
  return `req-${uuidv7()}`;
}

/** A new id of a certificate (specification §2: `cert-<uuid>`). */
export function newCertificateId(): string {
  return `cert-${uuidv7()}`;
}

/** Whether a text has the form of a delegation request's id. */
export function isRequestId(text: string): boolean {
  return text.startsWith("req-") && isUuid(text.slice(4));
}

/** Whether a text has the form of a certificate's id. */
export function isCertificateId(text: string): boolean {
  return text.startsWith("cert-") && isUuid(text.slice(5));
}
