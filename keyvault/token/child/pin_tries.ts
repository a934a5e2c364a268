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
const SALT_BYTES = 16;
const REMEMBERED_PINS = 16;

type Notes = {
  salt: string;
  /** Hash of no PIN, which recognizes the key of the hashes. Empty if there are none. */
  check: string;
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
  const nothing = { salt: "", check: "", refused: [], refuses: false };
  let notes: Notes = readNotes(file) ?? { ...nothing, unanswered: 0 };

  function hash(salt: string, ...texts: string[]): string {
    const text = createHmac("sha256", key).update(texts.join("\n")).digest();
    return scryptSync(text, salt, HASH_BYTES, SCRYPT).toString("hex");
  }

  function hasThisKey({ salt, check }: Notes): boolean {
    return check === hash(salt, "check");
  }

  function save(change: Partial<Notes>): void {
    notes = { ...notes, ...change };
    writeNotes(file, notes);
  }

  /** Returns salt, check and refused PINs other than this one, if they belong to this key. */
  function others(pin: string): Pick<Notes, "salt" | "check" | "refused"> {
    const { salt, check, refused } = notes;
    if (refused.length === 0 || !hasThisKey(notes)) return nothing;
    const own = hash(salt, token, pin);
    return { salt, check, refused: refused.filter((known) => known !== own) };
  }

  return {
    isRefused(pin) {
      if (notes.refused.length === 0) return false;
      return hasThisKey(notes) ? notes.refused.includes(hash(notes.salt, token, pin)) : notes.refuses;
    },
    unanswered: () => notes.unanswered,
    begin: () => save({ unanswered: notes.unanswered + 1 }),
    takeBack: () => save({ unanswered: notes.unanswered - 1 }),
    refuse(pin) {
      const known = others(pin);
      const salt = known.salt || randomBytes(SALT_BYTES).toString("hex");
      const check = known.check || hash(salt, "check");
      const refused = [...known.refused.slice(1 - REMEMBERED_PINS), hash(salt, token, pin)];
      save({ salt, check, refused, refuses: true, unanswered: 0 });
    },
    accept(pin) {
      save({ ...others(pin), refuses: false, unanswered: 0 });
    },
  };
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
    const { salt, check, refused, refuses, unanswered } = JSON.parse(text);
    const texts = [salt, check, ...refused].every((value) => typeof value === "string");
    if (!texts || typeof refuses !== "boolean" || !Number.isSafeInteger(unanswered)) return undefined;
    return { salt, check, refused, refuses, unanswered };
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
