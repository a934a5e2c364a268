import {
  createCipheriv,
  createDecipheriv,
  createPrivateKey,
  createPublicKey,
  diffieHellman,
  generateKeyPairSync,
  hkdfSync,
  type KeyObject,
} from "node:crypto";
import { UserError } from "../errors.ts";

const MAGIC = Buffer.from("deputize keyvault backup 1\n");
const POINT_BYTES = 32;
const LENGTH_BYTES = 4;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const FRAME_BYTES = 65_536;
const LAST = 1;

/** Creates an X25519 key pair (PEM) for the recovery of backups. The vault stores only the public half. */
export function createRecoveryKey(): { publicKey: string; privateKey: string } {
  const { publicKey, privateKey } = generateKeyPairSync("x25519");
  return {
    publicKey: publicKey.export({ type: "spki", format: "pem" }).toString(),
    privateKey: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
  };
}

/**
 * Encrypts text to a recovery key. The format is magic ‖ one-time X25519 key (32 bytes) ‖ frames. A frame is
 * a u32be length and an AES-256-GCM ciphertext with its tag. HKDF-SHA256 derives the AES key from the shared
 * secret and both public keys. A frame's nonce contains its number and whether it is the last. So nobody can
 * move or omit frames, or cut off the end.
 */
export async function* encryptStream(
  texts: AsyncIterable<string>,
  recoveryKey: string,
): AsyncGenerator<Buffer> {
  const recipient = createPublicKey(recoveryKey);
  const once = generateKeyPairSync("x25519");
  const key = deriveKey(once.privateKey, recipient, pointOf(once.publicKey), pointOf(recipient));
  yield Buffer.concat([MAGIC, pointOf(once.publicKey)]);
  let number = 0;
  let rest = Buffer.alloc(0);
  for await (const text of texts) {
    rest = Buffer.concat([rest, Buffer.from(text)]);
    for (; rest.length > FRAME_BYTES; rest = rest.subarray(FRAME_BYTES)) {
      yield encryptFrame(key, number++, 0, rest.subarray(0, FRAME_BYTES));
    }
  }
  yield encryptFrame(key, number, LAST, rest);
}

/**
 * Decrypts the text of {@link encryptStream}, in chunks. Throws a `UserError` if the stream was altered, is
 * cut off, or is for another recovery key.
 */
export async function* decryptStream(
  bytes: AsyncIterable<Buffer>,
  recoveryKey: string,
): AsyncGenerator<Buffer> {
  const take = createTaker(bytes);
  if (!(await take(MAGIC.length)).equals(MAGIC)) throw new UserError("This is not a backup of a key vault");
  const point = await take(POINT_BYTES);
  const own = readRecoveryKey(recoveryKey);
  const key = openKey(own, point);
  for (let number = 0, last = false; !last; number += 1) {
    const length = (await take(LENGTH_BYTES)).readUInt32BE();
    if (length > FRAME_BYTES + TAG_BYTES || length < TAG_BYTES) throw damaged(number);
    const box = await take(length);
    const opened = decryptFrame(key, number, 0, box) ?? decryptFrame(key, number, LAST, box);
    if (opened === undefined) throw damaged(number);
    yield opened.text;
    last = opened.last;
  }
  if (!(await take.isAtEnd())) {
    throw new UserError("The backup has data after its end: use another copy of the backup");
  }
}

function readRecoveryKey(pem: string): KeyObject {
  try {
    const key = createPrivateKey(pem);
    if (key.asymmetricKeyType === "x25519") return key;
  } catch {}
  throw new UserError("The file of --recovery-key is not the private half of a recovery key");
}

function encryptFrame(key: Buffer, number: number, last: number, text: Buffer): Buffer {
  const cipher = createCipheriv("aes-256-gcm", key, nonceOf(number, last));
  const box = Buffer.concat([cipher.update(text), cipher.final(), cipher.getAuthTag()]);
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32BE(box.length);
  return Buffer.concat([length, box]);
}

function decryptFrame(
  key: Buffer,
  number: number,
  last: number,
  box: Buffer,
): { text: Buffer; last: boolean } | undefined {
  const decipher = createDecipheriv("aes-256-gcm", key, nonceOf(number, last));
  decipher.setAuthTag(box.subarray(-TAG_BYTES));
  try {
    const text = Buffer.concat([decipher.update(box.subarray(0, -TAG_BYTES)), decipher.final()]);
    return { text, last: last === LAST };
  } catch {
    return undefined;
  }
}

function nonceOf(number: number, last: number): Buffer {
  const nonce = Buffer.alloc(NONCE_BYTES);
  nonce.writeUIntBE(number, NONCE_BYTES - 7, 6);
  nonce[NONCE_BYTES - 1] = last;
  return nonce;
}

function deriveKey(privateKey: KeyObject, publicKey: KeyObject, once: Buffer, recipient: Buffer): Buffer {
  const secret = diffieHellman({ privateKey, publicKey });
  return Buffer.from(hkdfSync("sha256", secret, Buffer.concat([once, recipient]), MAGIC, 32));
}

/**
 * Derives a stream's AES key from its one-time key. Throws a `UserError` for a point without a shared secret.
 */
function openKey(own: KeyObject, point: Buffer): Buffer {
  const recipient = pointOf(createPublicKey(own));
  try {
    return deriveKey(own, publicOf(point), point, recipient);
  } catch {
    throw damaged(0);
  }
}

function pointOf(key: KeyObject): Buffer {
  return Buffer.from(key.export({ format: "jwk" }).x ?? "", "base64url");
}

function publicOf(point: Buffer): KeyObject {
  return createPublicKey({
    key: { kty: "OKP", crv: "X25519", x: point.toString("base64url") },
    format: "jwk",
  });
}

const damaged = (frame: number): UserError =>
  new UserError(
    frame === 0
      ? "The backup is damaged at part 1, or it is for another recovery key"
      : `The backup is damaged at part ${frame + 1}`,
  );

type Taker = ((length: number) => Promise<Buffer>) & { isAtEnd(): Promise<boolean> };

function createTaker(bytes: AsyncIterable<Buffer>): Taker {
  const source = bytes[Symbol.asyncIterator]();
  let rest = Buffer.alloc(0);
  async function fill(length: number): Promise<boolean> {
    while (rest.length < length) {
      const next = await source.next();
      if (next.done === true) return false;
      rest = Buffer.concat([rest, next.value]);
    }
    return true;
  }
  const take = async (length: number): Promise<Buffer> => {
    if (!(await fill(length))) throw new UserError("The backup was cut off: use a complete copy");
    const taken = rest.subarray(0, length);
    rest = rest.subarray(length);
    return taken;
  };
  return Object.assign(take, { isAtEnd: async () => !(await fill(1)) });
}
