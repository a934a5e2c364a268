import { setTimeout as sleep } from "node:timers/promises";
import { addSeconds, type Clock, unixSeconds } from "../clock.ts";
import type { Database } from "../db/connection.ts";
import { ApiError } from "../errors.ts";
import { isKeyId, newId } from "../ids.ts";
import { canonicalJson } from "../protocol/canonical.ts";
import type { HybridPublicKey } from "../protocol/hybrid.ts";
import {
  decodeRevocationList,
  type RevocationList,
  type RevocationListFields,
  revocationListSignBytes,
  verifyRevocationList,
} from "../protocol/revocation_list.ts";
import type { VaultStatements } from "../vault/client.ts";

/** What revocation lists are made with. */
export type RevocationListDeps = {
  db: Database;
  clock: Clock;
  vault: { statements: Pick<VaultStatements, "revocationList"> };
};

/**
 * The signed list of a root identity (wire format §4) as canonical JSON, with every certificate in it whose revocation was
 * answered before the call; nothing when there is no such identity. Throws `vault_unavailable`, and what the vault
 * throws, when a new list is needed and cannot be had: a list that lacks a certificate is never given.
 */
export type FindRevocationList = (humanId: string) => Promise<string | undefined>;

/** Seconds for which a revoked certificate stays listed after its own end, from which on it grants nothing anyhow. */
export const LISTED_AFTER_END_SECONDS = 24 * 60 * 60;

/** Longer than a call to the vault can take. */
const LOCK_SECONDS = 10;
const MOST_TURNS = 120;
const TURN_MS = 50;

type Root = { accountId: string; keyId: string; publicKey: HybridPublicKey; humanId: string };
type State = { root: Root; listJson: string | null; revoked: string[] };

/**
 * Keeps the last list of each identity and has the next one signed only when something was revoked since: once, however
 * many calls on however many replicas ask at that moment. `updated_at` grows with each list. No transaction stays open
 * while the vault signs.
 */
export function createRevocationLists(deps: RevocationListDeps): FindRevocationList {
  const underWay = new Map<string, Promise<void>>();

  function renewOnce(root: Root): Promise<void> {
    const known = underWay.get(root.humanId);
    if (known !== undefined) return known;
    const renewal = renew(deps, root).finally(() => underWay.delete(root.humanId));
    underWay.set(root.humanId, renewal);
    return renewal;
  }

  return async (humanId) => {
    if (!isKeyId(humanId)) return undefined;
    for (let turn = 0; turn < MOST_TURNS; turn += 1) {
      const state = await readState(deps, humanId);
      if (state === undefined) return undefined;
      if (state.listJson !== null && isWhole(state.listJson, state.revoked)) return state.listJson;
      await renewOnce(state.root);
    }
    throw new ApiError("vault_unavailable");
  };
}

/** Has the next list signed and keeps it, unless somebody else is doing so: then a moment passes. */
async function renew(deps: RevocationListDeps, root: Root): Promise<void> {
  const { db, clock } = deps;
  const [runId, now] = [newId(), clock.now()];
  const locked = await db("revocation_lists")
    .insert({ account_id: root.accountId, run_id: runId, locked_until: addSeconds(now, LOCK_SECONDS) })
    .onConflict("account_id")
    .merge(["run_id", "locked_until"])
    .where((list) =>
      list.whereNull("revocation_lists.run_id").orWhere("revocation_lists.locked_until", "<=", now),
    )
    .returning("account_id");
  if (locked.length === 0) {
    await sleep(TURN_MS);
    return;
  }
  let signed: RevocationList | undefined;
  try {
    signed = await signNext(deps, root);
  } finally {
    await db("revocation_lists")
      .where({ account_id: root.accountId, run_id: runId })
      .update({ run_id: null, locked_until: null, ...(signed && { list_json: canonicalJson(signed) }) });
  }
}

/** The next list; nothing when another process has just made it. */
async function signNext(
  { db, clock, vault }: RevocationListDeps,
  { accountId, keyId, publicKey, humanId }: Root,
): Promise<RevocationList | undefined> {
  const state = await readState({ db, clock }, humanId);
  if (state === undefined) return undefined;
  const { listJson, revoked } = state;
  if (listJson !== null && isWhole(listJson, revoked)) return undefined;
  const last = listJson === null ? 0 : parseList(listJson).updated_at;
  const fields: RevocationListFields = {
    issuer_id: humanId,
    updated_at: Math.max(unixSeconds(clock.now()), last + 1),
    revoked_certs: revoked,
  };
  const { issuer_id: _, ...order } = fields;
  const signed = await vault.statements.revocationList({ tenant: accountId, keyId }, order);
  const isOrdered = Buffer.compare(revocationListSignBytes(signed), revocationListSignBytes(fields)) === 0;
  if (!isOrdered || (await verifyRevocationList(signed, publicKey)) !== undefined) {
    throw new Error("The vault signed another revocation list than the one it was asked for");
  }
  return signed;
}

function isWhole(listJson: string, revoked: readonly string[]): boolean {
  const listed = new Set(parseList(listJson).revoked_certs);
  return revoked.every((certId) => listed.has(certId));
}

function parseList(listJson: string): RevocationList {
  const bytes = Buffer.from(listJson);
  return decodeRevocationList(bytes, { maxBytes: bytes.length });
}

type StateRow = {
  account_id: string;
  root_key_id: string;
  root_public_key: HybridPublicKey;
  list_json: string | null;
  revoked: string[];
};

/** What is revoked and what was last signed, in one snapshot. */
async function readState(
  { db, clock }: Pick<RevocationListDeps, "db" | "clock">,
  humanId: string,
): Promise<State | undefined> {
  const { rows } = await db.raw<{ rows: StateRow[] }>(
    `select a.account_id, a.root_key_id, a.root_public_key, l.list_json, array(
       select c.cert_id from certificates c where c.account_id = a.account_id and c.status = 'revoked'
         and (c.expires_at is null or c.expires_at > :listedFrom) order by c.cert_id) as revoked
     from accounts a left join revocation_lists l on l.account_id = a.account_id
     where a.human_id = :humanId and a.root_key_id is not null and a.root_public_key is not null`,
    { humanId, listedFrom: addSeconds(clock.now(), -LISTED_AFTER_END_SECONDS) },
  );
  const [row] = rows;
  if (row === undefined) return undefined;
  const { account_id: accountId, root_key_id: keyId, root_public_key: publicKey } = row;
  return { root: { accountId, keyId, publicKey, humanId }, listJson: row.list_json, revoked: row.revoked };
}
