import { randomUUID } from "node:crypto";
import { unixSeconds } from "../../src/clock.ts";
import type { Database } from "../../src/db/database.ts";
import { newApiKey } from "../../src/platforms/api_keys/api_key.ts";
import { challengeDay, createChallengeKeys, issueChallenge } from "../../src/proofs/present/challenge.ts";
import type { Constraint } from "../../src/protocol/constraints/constraints.ts";
import { type DelegationCert, delegationSignBytes } from "../../src/protocol/documents/certificate.ts";
import { challengeSignBytes } from "../../src/protocol/documents/challenge.ts";
import type { ProofBundle } from "../../src/protocol/documents/proof_bundle.ts";
import { encodeBase64 } from "../../src/protocol/encoding/base64.ts";
import { NO_EXPIRY_SENTINEL, PROTOCOL_VERSION } from "../../src/protocol/encoding/constants.ts";
import {
  generateSeeds,
  importSeeds,
  keyId,
  publicKeyOf,
  signHybrid,
} from "../../src/protocol/keys/hybrid.ts";
import type { SecretBox } from "../../src/secret_box.ts";
import { insertAccount, insertApproval } from "./account_rows.ts";

/** An account with a platform, an API key, an agent and a certificate. The test knows all private keys. */
export type ProofWorld = {
  accountId: string;
  connectionId: string;
  apiKey: string;
  agentId: string;
  humanId: string;
  certificate: DelegationCert;
  /** Returns a signed bundle over the given challenge or over a new challenge. */
  prove(options?: ProveOptions): Promise<ProofBundle>;
};

export type ProveOptions = {
  now?: Date;
  challenge?: Uint8Array;
  /** The connection that requests a new challenge. Default: this account's connection. */
  shownTo?: string;
  /** Session context of the proof: 32 bytes. */
  sessionContext?: Uint8Array;
  certificate?: DelegationCert;
};

export type WorldOptions = {
  balanceMicroUsd?: number;
  scope?: string[];
  constraints?: Constraint[];
  expiresAt?: Date;
  now?: Date;
};

/** Inserts into a migrated database the rows that the service would write. */
export async function createProofWorld(
  db: Database,
  secretBox: SecretBox,
  options: WorldOptions = {},
): Promise<ProofWorld> {
  const now = options.now ?? new Date();
  const scope = options.scope ?? ["data:read", "payments:send"];
  const [rootKey, agentKey] = [importSeeds(generateSeeds()), importSeeds(generateSeeds())];
  const [rootPublic, agentPublic] = [publicKeyOf(rootKey), publicKeyOf(agentKey)];
  const [humanId, agentId] = [keyId(rootPublic), keyId(agentPublic)];
  const [accountId, connectionId] = [randomUUID(), randomUUID()];
  const apiKey = newApiKey();
  const fields = {
    cert_id: `cert-${randomUUID()}`,
    version: PROTOCOL_VERSION,
    issuer_id: humanId,
    issuer_pub_key: rootPublic,
    subject_id: agentId,
    subject_pub_key: agentPublic,
    scope,
    constraints: options.constraints ?? [],
    issued_at: unixSeconds(now) - 60,
    expires_at: options.expiresAt ? unixSeconds(options.expiresAt) : NO_EXPIRY_SENTINEL,
  };
  const certificate = { ...fields, signature: await signHybrid(rootKey, delegationSignBytes(fields)) };

  const owned = { accountId, connectionId, agentId };
  await insertAccount(db, {
    ...owned,
    humanId,
    rootPublicKey: rootPublic,
    agentPublicKey: agentPublic,
    balanceMicroUsd: options.balanceMicroUsd ?? 1e12,
    scope,
    now,
  });
  await db("api_keys").insert({
    account_id: accountId,
    connection_id: connectionId,
    key_prefix: apiKey.prefix,
    key_hash: apiKey.hash,
    created_at: now,
  });
  await insertApproval(db, owned, {
    certId: certificate.cert_id,
    json: JSON.stringify(certificate),
    scope,
    now,
  });

  const keys = createChallengeKeys({ db, secretBox });

  async function prove(given: ProveOptions = {}): Promise<ProofBundle> {
    const at = given.now ?? new Date();
    const challenge =
      given.challenge ??
      issueChallenge(await keys.forIssuing(challengeDay(at), at), given.shownTo ?? connectionId, at);
    const binding = {
      challenge: encodeBase64(challenge),
      challenge_at: unixSeconds(at),
      ...(given.sessionContext ? { session_context: encodeBase64(given.sessionContext) } : {}),
    };
    return {
      agent_id: agentId,
      agent_pub_key: agentPublic,
      delegations: [given.certificate ?? certificate],
      ...binding,
      challenge_sig: await signHybrid(agentKey, challengeSignBytes(binding)),
    };
  }

  return { accountId, connectionId, apiKey: apiKey.apiKey, agentId, humanId, certificate, prove };
}
