import { z } from "zod";
import { ApiError } from "../../errors.ts";
import { etagOf, isNamed } from "../../etag.ts";
import { idText } from "../../input/schemas.ts";
import { MAX_CERTS_PER_REVOCATION_LIST } from "../../protocol/statements/revocation_list.ts";
import { type Route, route } from "../../route.ts";
import { createRevocationLists, type RevocationListDeps } from "./revocation_list.ts";

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
  "Cache-Control": "How long the answer may be kept",
  ETag: "Names this state of the list",
};

/**
 * `GET /v1/service/revocations/{human_id}`: the certificates that a root identity has revoked, signed by its
 * key.
 */
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
