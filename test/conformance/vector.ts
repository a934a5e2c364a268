import { isDeepStrictEqual } from "node:util";
import { z } from "zod";
import { ProtocolError } from "../../src/protocol/encoding/errors.ts";
import type { HybridPublicKey } from "../../src/protocol/keys/hybrid.ts";
import type { Mismatch } from "./run.ts";

const publicKey = z.object({ ed25519: z.string(), ml_dsa_65: z.string() });

const entity = z.object({
  role: z.string(),
  ed25519_seed_hex: z.string(),
  ml_dsa_65_seed_hex: z.string(),
  public_key: publicKey,
  id: z.string(),
});

/** The members that all vectors have, and the members of each kind. */
export const vectorSchema = z.object({
  name: z.string(),
  kind: z.string(),
  entities: z.array(entity).default([]),
  timestamps: z.record(z.string(), z.number()).default({}),
  scope_input: z.array(z.string()).optional(),
  verifier_context: z.record(z.string(), z.union([z.number(), z.string()])).optional(),
  expected: z.record(z.string(), z.unknown()),
});

export type Vector = z.infer<typeof vectorSchema>;

/** Collects the unmet expectations of a vector. */
export class Expectations {
  readonly mismatches: Mismatch[] = [];

  equal(check: string, expected: unknown, got: unknown): void {
    if (!isDeepStrictEqual(expected, got)) this.mismatches.push({ check, expected, got });
  }

  /** Compares only the stable part of two reasons. The detail after a code is for human readers. */
  reason(name: string, expected: string, got: string): void {
    this.equal(`code of ${name}`, reasonKey(expected), reasonKey(got));
  }

  /** Compares bytes with hex. If the value is malformed so that there are no bytes, the comparison fails. */
  bytes(check: string, expectedHex: unknown, make: () => Uint8Array): void {
    this.equal(check, expectedHex, hexOrError(make));
  }
}

const CODE = /^[a-z][a-z0-9_]*(?=:)/;

/** Returns the code at the start of a reason, or the whole sentence if there is no code. */
export function reasonKey(reason: string): string {
  return CODE.exec(reason)?.[0] ?? reason;
}

/** Returns the key of the vector's entity with this id. */
export function keyOf(vector: Vector, id: string): HybridPublicKey {
  const found = vector.entities.find((candidate) => candidate.id === id);
  if (found === undefined) throw new Error(`the vector has no entity ${id}`);
  return found.public_key;
}

function hexOrError(make: () => Uint8Array): string {
  try {
    return Buffer.from(make()).toString("hex");
  } catch (error) {
    if (error instanceof ProtocolError) return error.message;
    throw error;
  }
}
