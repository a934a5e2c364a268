import { setTimeout as sleep } from "node:timers/promises";
import { LRUCache } from "lru-cache";
import { z } from "zod";
import { addSeconds, type Clock, unixSeconds } from "../../clock.ts";
import { shareNextRun } from "../../concurrency/per_key_queue.ts";
import type { Database } from "../../db/database.ts";
import { ApiError } from "../../errors.ts";
import { etagOf, isNamed } from "../../etag.ts";
import { isKeyId, newId } from "../../ids.ts";
import { idText } from "../../input/schemas.ts";
import { canonicalJson } from "../../protocol/encoding/canonical.ts";
import {
  MAX_CERTS_PER_REVOCATION_LIST,
  type RevocationList,
  verifyRevocationList,
} from "../../protocol/statements/revocation_list.ts";
import { type Route, route } from "../../route.ts";
import type { VaultStatements } from "../../vault/client.ts";
import { isComplete, type Root, readState, readStored } from "./revocation_state.ts";

/** Dependencies of revocation lists. */
export type RevocationListDeps = {
  db: Database;
  clock: Clock;
  vault: { statements: Pick<VaultStatements, "revocationList"> };
};

/**
 * Returns the signed revocation list of a root identity (wire format §4) as canonical JSON, or `undefined` if
 * there is no such identity. The list contains every certificate whose revocation was confirmed before this
 * call. Throws `vault_unavailable`, and what the vault throws, if a new list cannot be signed. Throws
 * `too_many_revoked` if the revoked certificates do not fit in one list.
 */
export type FindRevocationList = (humanId: string) => Promise<string | undefined>;

/** Seconds after which a second process may renew the list, longer than a call to the vault can take. */
const LOCK_SECONDS = 10;
const MOST_TURNS = 120;
const TURN_MS = 50;

/** Maximum total length of all cached lists, in characters. */
const KEPT_LENGTH = 32 * 1_048_576;

/**
 * Creates a finder that caches the last list of each identity. The vault signs each list once, even if many
 * calls on many replicas request it concurrently. Each list has a later `updated_at` than the previous list.
 * No transaction stays open while the vault signs.
 */
function createRevocationLists(deps: RevocationListDeps): FindRevocationList {
  const underWay = new Map<string, Promise<void>>();
  const completeLists = new LRUCache<string, { mark: string; listJson: string }>({
    maxSize: KEPT_LENGTH,
    sizeCalculation: ({ listJson }) => listJson.length,
  });

  function renewOnce(root: Root): Promise<void> {
    const known = underWay.get(root.humanId);
    if (known !== undefined) return known;
    const renewal = renew(deps, root).finally(() => underWay.delete(root.humanId));
    underWay.set(root.humanId, renewal);
    return renewal;
  }

  /** Returns the stored list if it is complete, otherwise the root that must sign the next list. */
  async function findComplete(humanId: string): Promise<string | Root | undefined> {
    const kept = completeLists.get(humanId);
    const state = await readState(deps, humanId, kept?.mark);
    if (state === undefined) return undefined;
    const { root, mark, contents } = state;
    if (contents === undefined) return kept?.listJson;
    const { listJson, revoked } = contents;
    if (listJson !== null && isComplete(listJson, revoked)) {
      completeLists.set(humanId, { mark, listJson });
      return listJson;
    }
    if (revoked.length > MAX_CERTS_PER_REVOCATION_LIST) throw new ApiError("too_many_revoked");
    return root;
  }

  const find = shareNextRun(findComplete);
  return async (humanId) => {
    if (!isKeyId(humanId)) return undefined;
    for (let turn = 0; turn < MOST_TURNS; turn += 1) {
      const found = await find(humanId);
      if (typeof found !== "object") return found;
      await renewOnce(found);
    }
    throw new ApiError("vault_unavailable");
  };
}

/** Signs and stores the next list. If another call or process is already doing this, only waits briefly. */
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

/** Returns the next list, verified, or `undefined` if another process has just created it. */
async function signNext(
  { db, clock, vault }: RevocationListDeps,
  { accountId, keyId, publicKey, humanId }: Root,
): Promise<RevocationList | undefined> {
  const contents = (await readState({ db, clock }, humanId))?.contents;
  if (contents === undefined) return undefined;
  const { listJson, revoked } = contents;
  if (listJson !== null && isComplete(listJson, revoked)) return undefined;
  const last = listJson === null ? 0 : readStored(listJson).updated_at;
  const updatedAt = Math.max(unixSeconds(clock.now()), last + 1);
  const order = { updatedAt, revoked };
  const { signature } = await vault.statements.revocationList({ tenant: accountId, keyId }, order);
  const revoked_certs = revoked.map(({ certId }) => certId);
  const signed = { issuer_id: humanId, updated_at: updatedAt, revoked_certs, signature };
  if ((await verifyRevocationList(signed, publicKey)) !== undefined) {
    throw new Error("The vault signed another revocation list than the one it was asked for");
  }
  return signed;
}

const answer = z.object({
  issuer_id: z.string(),
  updated_at: z.int().describe("Unix seconds; grows with every list of the issuer"),
  revoked_certs: z
    .array(z.string())
    .max(MAX_CERTS_PER_REVOCATION_LIST)
    .describe("A certificate leaves the list when it ended more than a day ago"),
  signature: z.object({ ed25519: z.string(), ml_dsa_65: z.string() }),
});

const VALIDATORS = {
  "Cache-Control": "How long the answer may be cached",
  ETag: "Identifies this state of the list",
};

/** `GET …/revocations/{human_id}`: returns a root identity's revocation list, signed with its key. */
export function revocationsRoute(deps: RevocationListDeps): Route {
  const findList = createRevocationLists(deps);
  return route({
    id: "get_revocation_list",
    method: "GET",
    path: "/v1/service/revocations/{human_id}",
    summary: "Read the signed revocation list of a root identity",
    access: "public",
    params: z.object({ human_id: idText }),
    headers: { "If-None-Match": "ETag of an earlier answer" },
    answer: { status: 200, schema: answer, description: "The list, of the wire format", headers: VALIDATORS },
    otherAnswers: {
      304: { description: "Not changed since the answer with this ETag", headers: VALIDATORS },
    },
    errors: ["not_found", "too_many_revoked", "vault_unavailable"],
    async handle({ params, header }) {
      const list = await findList(params.human_id);
      if (list === undefined) throw new ApiError("not_found");
      const etag = etagOf(list);
      const headers = { "cache-control": "public, max-age=60", etag };
      if (isNamed(header("if-none-match"), etag)) return { status: 304, body: undefined, headers };
      return { body: JSON.parse(list), headers };
    },
  });
}
