import { expect, test } from "vitest";
import {
  createRecoveryKey,
  decryptStream,
  encryptStream,
} from "../../../keyvault/backup/encrypted_stream.ts";

const { publicKey, privateKey } = createRecoveryKey();
const HEADER_BYTES = 27 + 32;
const FRAME_BYTES = 65_536;

async function encrypted(...texts: string[]): Promise<Buffer> {
  async function* all(): AsyncGenerator<string> {
    yield* texts;
  }
  return Buffer.concat(await Array.fromAsync(encryptStream(all(), publicKey)));
}

/**
 * Decrypts a stream of these chunks. Returns its text or the error's message, and the number of chunks read.
 */
async function opened(...pieces: Buffer[]): Promise<{ text: string; taken: number }> {
  let taken = 0;
  async function* all(): AsyncGenerator<Buffer> {
    for (const piece of pieces) {
      taken += 1;
      yield piece;
    }
  }
  try {
    const text = Buffer.concat(await Array.fromAsync(decryptStream(all(), privateKey))).toString();
    return { text, taken };
  } catch (error) {
    return { text: (error as Error).message, taken };
  }
}

test.each([0, 1, FRAME_BYTES - 1, FRAME_BYTES, FRAME_BYTES + 1, 2 * FRAME_BYTES, 2 * FRAME_BYTES + 1])(
  "decryptStream returns a text of %i bytes, whatever the size of the chunks",
  async (length) => {
    const text = "x".repeat(length);
    const stream = await encrypted(text.slice(0, 7), text.slice(7));
    const pieces = Array.from({ length: Math.ceil(stream.length / 9_999) }, (_, index) =>
      stream.subarray(index * 9_999, (index + 1) * 9_999),
    );
    expect((await opened(...pieces)).text === text).toBe(true);
  },
);

test.each([0, 15, FRAME_BYTES + 17, 0xffffffff])(
  "decryptStream rejects a stream as soon as a frame announces %i bytes, and does not read the rest of the stream",
  async (length) => {
    const stream = await encrypted("a line\n");
    stream.writeUInt32BE(length, HEADER_BYTES);
    const more = Array.from({ length: 5 }, () => Buffer.alloc(100_000));
    expect(await opened(stream, ...more)).toEqual({
      text: "The backup is damaged at part 1, or it is for another recovery key",
      taken: 1,
    });
  },
);
