import { z } from "zod";
import { unixSeconds } from "../clock.ts";
import type { Database } from "../db/database.ts";
import { etagOf, isNamed } from "../etag.ts";
import { isKeyId } from "../ids.ts";
import { type Route, route } from "../route.ts";

const publicKey = z.object({ ed25519: z.string(), ml_dsa_65: z.string() });

const anchor = z.object({
  type: z.enum(["email", "enterprise_sso", "government_id"]),
  provider: z.string(),
  reference: z.string(),
  verified_at: z.int().describe("Unix seconds"),
});

const answer = z.object({
  human_id: z.string(),
  public_key: publicKey.describe("The root's current public key, both halves in base64"),
  rotations: z
    .array(z.record(z.string(), z.unknown()))
    .describe("Key rotation statements from the first key to the current one; empty while it is the first"),
  anchor: anchor.nullable().describe("The identity outside this service; null if the account published none"),
  updated_at: z.int().describe("Unix seconds, as all times of this record"),
});

const LIFETIME = { "Cache-Control": "How long the answer may be cached" };
const VALIDATORS = { ...LIFETIME, ETag: "Identifies this version of the record" };
const CACHE = { "cache-control": "public, max-age=60" };

/**
 * `GET /v1/registry/principals/{human_id}`: the root key that certificates derive from. All ids without a
 * root key receive the same answer.
 */
export function registryRoute({ db }: { db: Database }): Route {
  return route({
    id: "get_principal",
    method: "GET",
    path: "/v1/registry/principals/{human_id}",
    summary: "Read the public key of a root identity",
    access: "public",
    params: z.object({ human_id: z.string() }),
    headers: { "If-None-Match": "ETag of an earlier answer" },
    answer: { status: 200, schema: answer, description: "The root identity", headers: VALIDATORS },
    otherAnswers: {
      304: { description: "Not changed since the answer with this ETag", headers: VALIDATORS },
      404: { schema: z.object({}), description: "No such root identity", headers: LIFETIME },
    },
    errors: [],
    async handle({ params, header }) {
      const root = await findRootKey(db, params.human_id);
      if (root === undefined) return { status: 404, body: {}, headers: CACHE };
      const etag = etagOf(JSON.stringify(root));
      const headers = { ...CACHE, etag };
      if (isNamed(header("if-none-match"), etag)) return { status: 304, body: undefined, headers };
      return { body: root, headers };
    },
  });
}

/**
 * This service never rotates root keys, so each record has the account's creation time. No account has an
 * anchor: the sign-in address belongs to a person and is not published.
 */
async function findRootKey(db: Database, humanId: string): Promise<z.infer<typeof answer> | undefined> {
  if (!isKeyId(humanId)) return undefined;
  const row = await db("accounts").where({ human_id: humanId }).first("root_public_key", "created_at");
  if (!row?.root_public_key) return undefined;
  const { root_public_key: public_key, created_at } = row;
  return { human_id: humanId, public_key, rotations: [], anchor: null, updated_at: unixSeconds(created_at) };
}
