import { randomUUID } from "node:crypto";
import { unixSeconds } from "../../../src/clock.ts";
import type { Database } from "../../../src/db/database.ts";
import { newApiKey } from "../../../src/platforms/api_keys/api_key.ts";
import { NO_EXPIRY_SENTINEL, PROTOCOL_VERSION } from "../../../src/protocol/encoding/constants.ts";
import type { CreatedKey, VaultClient } from "../../../src/vault/client.ts";
import { insertAccount, insertApproval } from "../../support/account_rows.ts";
import { times } from "../timing.ts";

const AGENTS_AN_ACCOUNT = 10;
const KEYS_AT_ONCE = 8;
const CREDIT_MICRO_USD = 1e12;
const SCOPE = ["data:read"];

/** An agent whose key is in the vault, with the API key and the ids that its platform uses. */
export type Agent = { apiKey: string; connectionId: string; agentId: string };

type Place = { db: Database; vault: VaultClient };
type Account = { accountId: string; connectionId: string; apiKey: string; root: CreatedKey };

/** Creates accounts with ten agents each until there are `count` agents. Every agent has a certificate. */
export async function openAgents(place: Place, count: number): Promise<Agent[]> {
  const agents: Agent[] = [];
  await times(Math.ceil(count / AGENTS_AN_ACCOUNT), KEYS_AT_ONCE, async () => {
    const { account, first } = await openAccount(place);
    agents.push(await lend(place, account, first));
    for (let n = 1; n < AGENTS_AN_ACCOUNT; n += 1) {
      const key = await makeAgentKey(place.vault, account.accountId);
      await insertAgent(place.db, account, key);
      agents.push(await lend(place, account, key));
    }
  });
  return agents;
}

async function openAccount({ db, vault }: Place): Promise<{ account: Account; first: CreatedKey }> {
  const [accountId, connectionId, now] = [randomUUID(), randomUUID(), new Date()];
  const root = await vault.createKey(
    { tenant: accountId, purpose: "account_root", label: "root", ceiling: SCOPE },
    randomUUID(),
  );
  const first = await makeAgentKey(vault, accountId);
  const owned = { accountId, connectionId, agentId: first.key_id };
  await insertAccount(db, {
    ...owned,
    humanId: root.key_id,
    rootPublicKey: root.public_key,
    agentPublicKey: first.public_key,
    balanceMicroUsd: CREDIT_MICRO_USD,
    scope: SCOPE,
    now,
  });
  await db("agents").where({ agent_id: first.key_id }).update({ vault_key_id: first.key_id });
  const apiKey = newApiKey();
  await db("api_keys").insert({
    account_id: accountId,
    connection_id: connectionId,
    key_prefix: apiKey.prefix,
    key_hash: apiKey.hash,
    created_at: now,
  });
  return { account: { accountId, connectionId, apiKey: apiKey.apiKey, root }, first };
}

function makeAgentKey(vault: VaultClient, tenant: string): Promise<CreatedKey> {
  return vault.createKey({ tenant, purpose: "agent", label: "agent", ceiling: SCOPE }, randomUUID());
}

async function insertAgent(
  db: Database,
  { accountId, connectionId }: Account,
  { key_id, public_key }: CreatedKey,
): Promise<void> {
  await db("agents").insert({
    agent_id: key_id,
    account_id: accountId,
    connection_id: connectionId,
    name: key_id,
    agent_type: "api_agent",
    custody_mode: "custodial",
    public_key,
    vault_key_id: key_id,
    created_at: new Date(),
  });
}

async function lend({ db, vault }: Place, account: Account, agent: CreatedKey): Promise<Agent> {
  const { accountId, connectionId, apiKey, root } = account;
  const [agentId, now] = [agent.key_id, new Date()];
  const certificate = await vault.signDelegation(
    { tenant: accountId, keyId: root.key_id },
    {
      cert_id: `cert-${randomUUID()}`,
      version: PROTOCOL_VERSION,
      issuer_id: root.key_id,
      subject_id: agentId,
      subject_pub_key: agent.public_key,
      scope: SCOPE,
      constraints: [],
      issued_at: unixSeconds(now),
      expires_at: NO_EXPIRY_SENTINEL,
    },
    { ceiling: SCOPE, request_id: "bench", approved_by: accountId },
  );
  await insertApproval(
    db,
    { accountId, connectionId, agentId },
    { certId: certificate.cert_id, json: JSON.stringify(certificate), scope: SCOPE, now },
  );
  return { apiKey, connectionId, agentId };
}
