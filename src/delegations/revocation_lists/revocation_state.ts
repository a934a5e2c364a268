import { addSeconds, type Clock } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import type { HybridPublicKey } from "../../protocol/keys/hybrid.ts";
import {
  MAX_CERTS_PER_REVOCATION_LIST,
  type RevocationList,
} from "../../protocol/statements/revocation_list.ts";
import type { RevokedCertificate } from "../../vault/client.ts";

/** Seconds for which a revoked certificate stays in the list after the certificate expires. */
export const LISTED_AFTER_END_SECONDS = 24 * 60 * 60;

/** A root identity and its signing key. */
export type Root = { accountId: string; keyId: string; publicKey: HybridPublicKey; humanId: string };

/**
 * The revoked certificates and the last signed list, read in one snapshot. Two states have the same `mark`
 * only if certificates and list are the same. `contents` is absent if the mark equals the known mark. If too
 * many certificates are revoked, `revoked` has one entry more than a list may have.
 */
export type RevocationState = {
  root: Root;
  mark: string;
  contents: { listJson: string | null; revoked: RevokedCertificate[] } | undefined;
};

type StateRow = {
  account_id: string;
  root_key_id: string;
  root_public_key: HybridPublicKey;
  mark: string;
  list_json: string | null;
  revoked: string[] | null;
  expires_at: (number | null)[] | null;
};

/** Returns the root's state, or `undefined` if there is none. Omits the contents if the mark is `known`. */
export async function readState(
  { db, clock }: { db: Database; clock: Clock },
  humanId: string,
  known?: string,
): Promise<RevocationState | undefined> {
  const { rows } = await db.raw<{ rows: StateRow[] }>(
    `with state as materialized (
       select a.account_id, a.root_key_id, a.root_public_key, l.list_json, listed.revoked, listed.expires_at
       from accounts a left join revocation_lists l on l.account_id = a.account_id
       cross join lateral (
         select coalesce(array_agg(cert_id order by cert_id), '{}') as revoked,
           array_agg(extract(epoch from expires_at)::bigint order by cert_id) as expires_at
         from (select c.cert_id, c.expires_at from certificates c
           where c.account_id = a.account_id and c.status = 'revoked'
             and (c.expires_at is null or c.expires_at > :listedFrom) order by c.cert_id limit :most) as c) as listed
       where a.human_id = :humanId and a.root_key_id is not null and a.root_public_key is not null),
     marked as materialized (
       select *, encode(sha256(convert_to(concat_ws('|', list_json, array_to_string(revoked, ',')), 'UTF8')), 'hex') as mark
       from state)
     select account_id, root_key_id, root_public_key, mark,
       case when mark is distinct from :known then list_json end as list_json,
       case when mark is distinct from :known then to_json(revoked) end as revoked,
       case when mark is distinct from :known then to_json(expires_at) end as expires_at
     from marked`,
    {
      humanId,
      known: known ?? null,
      listedFrom: addSeconds(clock.now(), -LISTED_AFTER_END_SECONDS),
      most: MAX_CERTS_PER_REVOCATION_LIST + 1,
    },
  );
  const [row] = rows;
  if (row === undefined) return undefined;
  const { account_id: accountId, root_key_id: keyId, root_public_key: publicKey, mark, revoked } = row;
  const ended = revoked?.map((certId, index) => ({ certId, expiresAt: row.expires_at?.[index] ?? null }));
  const contents = ended && { listJson: row.list_json, revoked: ended };
  return { root: { accountId, keyId, publicKey, humanId }, mark, contents };
}

/** Checks whether a stored list, which was verified before, contains all of these certificates. */
export function isComplete(listJson: string, revoked: readonly RevokedCertificate[]): boolean {
  const listed = new Set(readStored(listJson).revoked_certs);
  return revoked.every(({ certId }) => listed.has(certId));
}

/** Parses a stored list, which this service verified before storing it. */
export function readStored(listJson: string): RevocationList {
  return JSON.parse(listJson) as RevocationList;
}
