import { randomBytes } from "node:crypto";
import type { Database } from "../../../src/db/database.ts";
import { newApiKey } from "../../../src/platforms/api_keys/api_key.ts";
import { encodeProofRef } from "../../../src/proofs/present/proof_ref.ts";
import type { ProofBundle } from "../../../src/protocol/documents/proof_bundle.ts";
import { createSecretBox } from "../../../src/secret_box.ts";
import { acceptPrincipal } from "../../support/accepted_principals.ts";
import { connectCustomer } from "../../support/customer_rows.ts";
import { createProofWorld, type ProofWorld } from "../../support/proof_world.ts";

const WORLDS = 10;

/** Verifying accounts, each with a connection. Each account also accepts the next account's authority. */
export type Verifiers = { worlds: ProofWorld[]; sealingKey: Buffer };

/** A proof, and the verifier that receives it. */
export type Proven = { world: ProofWorld; bundle: ProofBundle };

/** The authority behind a proof: the verifier's own, or that of an accepted principal. */
export type Authority = "own" | "accepted";

/** Inserts verifiers into a database. */
export async function createVerifiers(db: Database): Promise<Verifiers> {
  const sealingKey = randomBytes(32);
  const secretBox = createSecretBox(sealingKey);
  const worlds = await Promise.all(Array.from({ length: WORLDS }, () => createProofWorld(db, secretBox)));
  for (const [n, world] of worlds.entries()) {
    await acceptPrincipal(db, world, other(worlds, n), { created_at: new Date() });
  }
  return { worlds, sealingKey };
}

/**
 * Inserts a customer of each verifier's platform. In the returned accounts, connection and API key are those
 * of the customer connection, at which the customer's own authority counts.
 */
export async function createCustomers(db: Database, { worlds, sealingKey }: Verifiers): Promise<Verifiers> {
  const secretBox = createSecretBox(sealingKey);
  const customers = worlds.map(async ({ accountId: publisherId, ...publisher }) => {
    const customer = await createProofWorld(db, secretBox, { balanceMicroUsd: 0 });
    const certId = customer.certificate.cert_id;
    const connectionId = await connectCustomer(db, { ...customer, certId }, publisher);
    const { apiKey, prefix, hash } = newApiKey();
    const key = { key_prefix: prefix, key_hash: hash, created_at: new Date() };
    await db("api_keys").insert({ ...key, account_id: publisherId, connection_id: connectionId });
    return { ...customer, connectionId, apiKey };
  });
  return { worlds: await Promise.all(customers), sealingKey };
}

/** Creates new proofs for the verifiers in turn. */
export async function prove(
  { worlds }: Verifiers,
  count: number,
  authority: Authority = "own",
): Promise<Proven[]> {
  await Promise.all(worlds.map((world) => world.prove()));
  return Promise.all(
    Array.from({ length: count }, async (_, n) => {
      const world = worlds[n % worlds.length] as ProofWorld;
      const prover = authority === "own" ? world : other(worlds, n);
      return { world, bundle: await prover.prove({ shownTo: world.connectionId }) };
    }),
  );
}

/** Returns the account whose authority the account `n` accepts in addition to its own. */
function other(worlds: readonly ProofWorld[], n: number): ProofWorld {
  return worlds[(n + 1) % worlds.length] as ProofWorld;
}

/** Returns a verify call as the bytes of an HTTP request, with the whole proof or a reference to it. */
export function requestOf({ world, bundle }: Proven, form: "bundle" | "reference"): Buffer {
  const proof = form === "bundle" ? { proof_bundle: bundle } : { proof_ref: encodeProofRef(bundle) };
  return httpRequest("/v1/service/verify", world.apiKey, { ...proof, required_scope: "data:read" });
}

/** Returns a call with an API key as the bytes of an HTTP request. */
export function httpRequest(path: string, apiKey: string, members: object): Buffer {
  const body = JSON.stringify(members);
  const head = [
    `POST ${path} HTTP/1.1`,
    "host: 127.0.0.1",
    "content-type: application/json",
    `content-length: ${Buffer.byteLength(body)}`,
    `x-service-api-key: ${apiKey}`,
  ];
  return Buffer.from(`${head.join("\r\n")}\r\n\r\n${body}`);
}
