import { isDeepStrictEqual } from "node:util";
import {
  checkIssuable,
  type DelegationFields,
  delegationSignBytes,
} from "../../src/protocol/documents/certificate.ts";
import { challengeSignBytes } from "../../src/protocol/documents/challenge.ts";
import { coversScopes } from "../../src/protocol/documents/scopes.ts";
import {
  generateSeeds,
  type HybridPrivateKey,
  type HybridPublicKey,
  importSeeds,
  keyId,
  publicKeyOf,
  signHybrid,
} from "../../src/protocol/keys/hybrid.ts";
import {
  issueRevocationList,
  type RevocationListFields,
} from "../../src/protocol/statements/revocation_list.ts";
import type { CreatedKey, KeyReference, VaultClient } from "../../src/vault/client.ts";
import { type VaultRefusalCode, VaultRefused } from "../../src/vault/transport.ts";

/** A key of the fake vault. Unlike the real vault, the fake reveals the private half. */
export type FakeKey = {
  tenant: string;
  purpose: string;
  privateKey: HybridPrivateKey;
  publicKey: HybridPublicKey;
  ceiling: string[] | null;
  disabled: boolean;
};

export type FakeVault = Omit<VaultClient, "getKey" | "statements"> & {
  statements: Pick<VaultClient["statements"], "revocationList">;
  /** If set, every call rejects with this error. */
  failure: Error | undefined;
  keys: Map<string, FakeKey>;
  /** Names of all calls, in order. */
  calls: string[];
  /** Every call first awaits this function, with which a test can create a race. */
  pause: (() => Promise<void>) | undefined;
};

/**
 * Creates an in-memory vault with real keys and the real vault's rules, except for times. A repeated
 * idempotency key returns the same key.
 */
export function createFakeVault(): FakeVault {
  const made = new Map<string, { body: string; created: CreatedKey }>();

  async function enter(call: string): Promise<void> {
    vault.calls.push(call);
    await vault.pause?.();
    if (vault.failure !== undefined) throw vault.failure;
  }

  function keyOfTenant({ tenant, keyId: id }: KeyReference): FakeKey {
    const key = vault.keys.get(id);
    if (key === undefined || key.tenant !== tenant) throw refused("key_not_found");
    return key;
  }

  function signing(reference: KeyReference, purpose: string): FakeKey {
    const key = keyOfTenant(reference);
    if (key.purpose !== purpose) throw refused("purpose_mismatch");
    if (key.disabled) throw refused("key_disabled");
    return key;
  }

  function checkDelegation(fields: DelegationFields, ceilings: (string[] | null | undefined)[]): void {
    if (checkIssuable(fields) !== undefined) throw refused("invalid_request");
    const subject = vault.keys.get(fields.subject_id);
    if (subject?.purpose !== "agent") throw refused("policy_violation");
    if (subject.disabled) throw refused("key_disabled");
    for (const ceiling of [...ceilings, subject.ceiling]) {
      if (ceiling && coversScopes(ceiling, fields.scope).length > 0) throw refused("policy_violation");
    }
  }

  const lists = new Map<string, RevocationListFields>();

  const vault: FakeVault = {
    failure: undefined,
    keys: new Map(),
    calls: [],
    pause: undefined,
    async createKey(order, idempotencyKey) {
      await enter("createKey");
      const body = JSON.stringify(order);
      const known = made.get(idempotencyKey);
      if (known !== undefined && known.body !== body) throw refused("idempotency_conflict");
      if (known !== undefined) return known.created;
      const { tenant, purpose, ceiling = null } = order;
      const privateKey = importSeeds(generateSeeds());
      const publicKey = publicKeyOf(privateKey);
      const id = keyId(publicKey);
      vault.keys.set(id, { tenant, purpose, privateKey, publicKey, ceiling, disabled: false });
      const attestation = { key_id: id, attested_by: "fake", signature: { ed25519: "", ml_dsa_65: "" } };
      const created = { key_id: id, public_key: publicKey, attestation };
      made.set(idempotencyKey, { body, created });
      return created;
    },
    async signDelegation(reference, certificate, approval) {
      await enter("signDelegation");
      const issuer = signing(reference, "account_root");
      const fields = { ...certificate, issuer_pub_key: issuer.publicKey };
      checkDelegation(fields, [approval.ceiling, issuer.ceiling]);
      return { ...fields, signature: await signHybrid(issuer.privateKey, delegationSignBytes(fields)) };
    },
    async signChallenge(reference, binding) {
      await enter("signChallenge");
      const { privateKey, publicKey } = signing(reference, "agent");
      return {
        agent_id: reference.keyId,
        agent_pub_key: publicKey,
        challenge_sig: await signHybrid(privateKey, challengeSignBytes(binding)),
      };
    },
    statements: {
      async revocationList(reference, { updatedAt, revoked }) {
        await enter("revocationList");
        const { privateKey } = signing(reference, "account_root");
        const revoked_certs = revoked.map(({ certId }) => certId);
        const fields = { issuer_id: reference.keyId, updated_at: updatedAt, revoked_certs };
        const last = lists.get(reference.keyId);
        const follows = last === undefined || fields.updated_at > last.updated_at;
        if (!follows && !isDeepStrictEqual(last, fields)) throw refused("policy_violation");
        lists.set(reference.keyId, fields);
        return issueRevocationList(fields, privateKey);
      },
    },
    async health() {
      if (vault.failure !== undefined) throw vault.failure;
    },
    close: async () => {},
    async disableKey(reference) {
      await enter("disableKey");
      keyOfTenant(reference).disabled = true;
    },
    async shrinkCeiling(reference, ceiling) {
      await enter("shrinkCeiling");
      const key = keyOfTenant(reference);
      if (key.ceiling && coversScopes(key.ceiling, ceiling).length > 0) throw refused("policy_violation");
      key.ceiling = ceiling;
    },
  };
  return vault;
}

function refused(code: VaultRefusalCode): VaultRefused {
  return new VaultRefused(code, `The fake vault refused: ${code}`, 400);
}
