import { z } from "zod";
import type { Pending } from "../db/rows.ts";

/**
 * The last state of a key or tenant. `digest` is SHA-256 of the state's bytes, one character per byte, or
 * undefined if the record lacks it. `coded` is true if the row has a code.
 */
export type Last = { seq: number; digest: string | undefined; coded: boolean; erased: boolean };

/** One part of the register: the keys, tenants and root keys whose names hash to it. */
export type RegisterPart = {
  key: Map<string, Last>;
  tenant: Map<string, Last>;
  roots: Map<string, string[]>;
  lists: Map<string, { digest: string; updatedAt: number; listed: string | null }>;
};

/** Data of the register that does not belong to a single key or tenant. */
export type RegisterRest = {
  /** Numbers of the adoption records that earlier versions wrote automatically. */
  earlierAdoptions: Set<number>;
  /** True if every row has a code because an earlier version completed its automatic adoption. */
  allCoded: boolean;
  wish: Pending | null;
};

/** Number of parts of the register, without {@link RegisterRest}. */
export const PARTS = 256;

/** Returns the part that a name belongs to, by its FNV-1a hash. */
export function partOf(name: string): number {
  let sum = 0x811c9dc5;
  for (let index = 0; index < name.length; index += 1) {
    sum = Math.imul(sum ^ name.charCodeAt(index), 0x01000193);
  }
  return (sum ^ (sum >>> 8) ^ (sum >>> 16) ^ (sum >>> 24)) & (PARTS - 1);
}

/** Returns a part without entries. */
export function emptyPart(): RegisterPart {
  return { key: new Map(), tenant: new Map(), roots: new Map(), lists: new Map() };
}

/** Returns an empty {@link RegisterRest}. */
export function emptyRest(): RegisterRest {
  return { earlierAdoptions: new Set(), allCoded: false, wish: null };
}

const CODED = 1;
const ERASED = 2;

type WrittenLast = [name: string, seq: number, digest: string | null, flags: number];

/** Serializes a part. */
export function writePart({ key, tenant, roots, lists }: RegisterPart): string {
  const written = (states: Map<string, Last>): WrittenLast[] =>
    Array.from(states, ([name, { seq, digest, coded, erased }]) => [
      name,
      seq,
      digest === undefined ? null : toBase64(digest),
      (coded ? CODED : 0) | (erased ? ERASED : 0),
    ]);
  return JSON.stringify({
    key: written(key),
    tenant: written(tenant),
    roots: [...roots],
    lists: Array.from(lists, ([keyId, { digest, updatedAt, listed }]) => [
      keyId,
      toBase64(digest),
      updatedAt,
      listed,
    ]),
  });
}

/** Parses the text of {@link writePart}. Throws for any other text. */
export function readPart(text: string): RegisterPart {
  const { key, tenant, roots, lists } = partSchema.parse(JSON.parse(text));
  const states = (list: readonly WrittenLast[]): Map<string, Last> =>
    new Map(
      list.map(([name, seq, digest, flags]) => [
        name,
        {
          seq,
          digest: digest === null ? undefined : fromBase64(digest),
          coded: (flags & CODED) !== 0,
          erased: (flags & ERASED) !== 0,
        },
      ]),
    );
  return {
    key: states(key),
    tenant: states(tenant),
    roots: new Map(roots),
    lists: new Map(
      lists.map(([keyId, digest, updatedAt, listed]) => [
        keyId,
        { digest: fromBase64(digest), updatedAt, listed },
      ]),
    ),
  };
}

/** Serializes the rest of a register. */
export function writeRest({ earlierAdoptions, allCoded, wish }: RegisterRest): string {
  return JSON.stringify({
    earlierAdoptions: [...earlierAdoptions],
    allCoded,
    wish,
  });
}

/** Parses the text of {@link writeRest}. Throws for any other text. */
export function readRest(text: string): RegisterRest {
  const { earlierAdoptions, allCoded, wish } = restSchema.parse(JSON.parse(text));
  return {
    earlierAdoptions: new Set(earlierAdoptions),
    allCoded,
    wish,
  };
}

const last = z.tuple([z.string(), z.int(), z.string().nullable(), z.int()]);
const partSchema = z.strictObject({
  key: z.array(last),
  tenant: z.array(last),
  roots: z.array(z.tuple([z.string(), z.array(z.string())])),
  lists: z.array(z.tuple([z.string(), z.string(), z.number(), z.string().nullable()])),
});
const restSchema = z.strictObject({
  earlierAdoptions: z.array(z.int()),
  allCoded: z.boolean(),
  wish: z
    .strictObject({
      action: z.literal("adopt"),
      admin: z.string(),
      asked_at: z.string(),
      rows: z.string(),
      certificate: z.string().exactOptional(),
    })
    .nullable(),
});

function toBase64(digest: string): string {
  return Buffer.from(digest, "latin1").toString("base64");
}

function fromBase64(text: string): string {
  return Buffer.from(text, "base64").toString("latin1");
}
