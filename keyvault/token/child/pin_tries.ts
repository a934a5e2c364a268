import { createHmac, randomBytes, scryptSync } from "node:crypto";
import {
  chownSync,
  closeSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname } from "node:path";
import { reasonOf } from "../../errors.ts";
import { type PinTriesPlace, TokenError } from "../messages.ts";

/** Cost of a hash: 32 MiB and about 0.1 s. */
const SCRYPT = { N: 2 ** 15, r: 8, p: 1, maxmem: 2 ** 26 };
const HASH_BYTES = 32;
const REMEMBERED_PINS = 16;

type Notes = {
  /** Recognizes the key of the hashes. */
  key: string;
  salt: string;
  /** Hashes of refused PINs with the token's label and serial number, oldest first. */
  refused: string[];
  /** True if the token has refused a PIN and has accepted none since. */
  refuses: boolean;
  /** Number of consecutive logins without an answer. */
  unanswered: number;
};

/**
 * Notes about the vault's tries of a PIN, in a file that only the vault writes. They outlive this process.
 * The file contains no PIN, and no hash of an accepted PIN. A hash of a refused PIN needs a key that is not
 * in the file, because a PIN may have so few digits that somebody could try all of them.
 */
export type PinTries = {
  /**
   * Returns whether the token refused this PIN. If the hashes have another key, returns whether the token
   * has accepted no PIN since the last refused one.
   */
  isRefused(pin: string): boolean;
  /** Returns the number of consecutive logins without an answer. */
  unanswered(): number;
  /** Notes a login before it happens. Throws a `TokenError` if the note cannot be written. */
  begin(): void;
  /** Takes back the note of a login with which the token did not check the PIN. */
  takeBack(): void;
  refuse(pin: string): void;
  accept(pin: string): void;
};

/**
 * Returns the notes about the token with this serial number. Throws a `TokenError` if the file is damaged.
 */
export function openPinTries({ file, key }: PinTriesPlace, token: string): PinTries {
  const keyCheck = hmac(key, "key").toString("hex");
  let notes = readNotes(file) ?? freshNotes();

  function freshNotes(): Notes {
    const salt = randomBytes(16).toString("hex");
    return { key: keyCheck, salt, refused: [], refuses: false, unanswered: 0 };
  }

  function hash(pin: string): string {
    return scryptSync(hmac(key, `${token}\n${pin}`), notes.salt, HASH_BYTES, SCRYPT).toString("hex");
  }

  function save(change: Partial<Notes>): void {
    notes = { ...notes, ...change };
    writeNotes(file, notes);
  }

  function startOver(): void {
    if (notes.key !== keyCheck) notes = { ...freshNotes(), unanswered: notes.unanswered };
  }

  return {
    isRefused(pin) {
      if (notes.key !== keyCheck) return notes.refuses;
      return notes.refused.length > 0 && notes.refused.includes(hash(pin));
    },
    unanswered: () => notes.unanswered,
    begin: () => save({ unanswered: notes.unanswered + 1 }),
    takeBack: () => save({ unanswered: notes.unanswered - 1 }),
    refuse(pin) {
      startOver();
      const others = notes.refused.filter((known) => known !== hash(pin)).slice(1 - REMEMBERED_PINS);
      save({ refused: [...others, hash(pin)], refuses: true, unanswered: 0 });
    },
    accept(pin) {
      startOver();
      const refused = notes.refused.length === 0 ? [] : notes.refused.filter((known) => known !== hash(pin));
      save({ refused, refuses: false, unanswered: 0 });
    },
  };
}

function hmac(key: Uint8Array, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}

function readNotes(file: string): Notes | undefined {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new TokenError(`The notes about PINs cannot be read, so no PIN is tried: ${reasonOf(error)}`);
  }
  const notes = parse(text);
  if (notes !== undefined) return notes;
  throw new TokenError(
    `${file} is damaged, so no PIN is tried: check the PIN, then remove the file to allow one try`,
  );
}

function parse(text: string): Notes | undefined {
  try {
    const { key, salt, refused, refuses, unanswered } = JSON.parse(text);
    const texts = [key, salt, ...refused].every((value) => typeof value === "string");
    if (!texts || typeof refuses !== "boolean" || !Number.isSafeInteger(unanswered)) return undefined;
    return { key, salt, refused, refuses, unanswered };
  } catch {
    return undefined;
  }
}

/**
 * Waits until the notes are on disk. If root runs a command, the file still belongs to the folder's owner.
 */
function writeNotes(file: string, notes: Notes): void {
  const unfinished = `${file}.unfinished`;
  try {
    rmSync(unfinished, { force: true });
    const handle = openSync(unfinished, "wx", 0o600);
    try {
      writeFileSync(handle, `${JSON.stringify(notes)}\n`);
      fsyncSync(handle);
    } finally {
      closeSync(handle);
    }
    const { uid, gid } = statSync(dirname(file));
    if (process.getuid?.() === 0) chownSync(unfinished, uid, gid);
    renameSync(unfinished, file);
    const folder = openSync(dirname(file), "r");
    fsyncSync(folder);
    closeSync(folder);
  } catch (error) {
    throw new TokenError(`A try of the PIN cannot be noted, so it is not made: ${reasonOf(error)}`);
  }
}
