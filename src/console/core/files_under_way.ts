import { rateLimited } from "../../errors.ts";
import type { Requested } from "./visit.ts";

/** Files that one person may be sent at once. Each holds a part of its content for as long as it is read. */
export const FILES_AT_ONCE = 3;
const AGAIN_MS = 10_000;

/** Counts a page that is a file for who asked for it, from before it is made until its response is over. */
export type TakeFile = (requested: Requested, person: string | undefined) => void;

/** Counts in this process. Throws `rate_limited` when a person has as many files under way as they may. */
export function createFilesUnderWay(): TakeFile {
  const counts = new Map<string, number>();
  return ({ page, exchange: { response } }, person) => {
    if (!("file" in page) || person === undefined) return;
    const count = counts.get(person) ?? 0;
    if (count >= FILES_AT_ONCE) {
      throw rateLimited(`You are being sent ${count} files already: wait until one is whole`, AGAIN_MS);
    }
    if (response.destroyed) return;
    counts.set(person, count + 1);
    response.once("close", () => {
      const left = (counts.get(person) ?? 1) - 1;
      if (left > 0) counts.set(person, left);
      else counts.delete(person);
    });
  };
}
