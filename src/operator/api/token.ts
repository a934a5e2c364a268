import { readFile } from "node:fs/promises";
import type { Clock } from "../../clock.ts";

/**
 * The operator's bearer token. A token in a file is read again at least every minute, as it may be replaced.
 */
export type TokenSource = {
  /** The current token. Rejects when the file cannot be read. */
  current(): Promise<string>;
  /** Reads the file again next time: the token was refused. */
  forget(): void;
};

const MAX_AGE_MS = 60_000;

/** A token given as text or, when there is a file, in that. */
export function createTokenSource(
  clock: Clock,
  { token, file }: { token: string; file?: string | undefined },
): TokenSource {
  let read: { value: string; at: number } | undefined;
  return {
    async current() {
      if (file === undefined) return token;
      const now = clock.now().getTime();
      if (read === undefined || now - read.at >= MAX_AGE_MS || now < read.at) {
        read = { value: (await readFile(file, "utf8")).trim(), at: now };
      }
      return read.value;
    },
    forget() {
      read = undefined;
    },
  };
}
