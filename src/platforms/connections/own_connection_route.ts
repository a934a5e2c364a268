import { z } from "zod";
import { type Database, platformOf } from "../../db/database.ts";
import { ApiError } from "../../errors.ts";
import { type Route, route } from "../../route.ts";
import { verifierName } from "../platform_answers.ts";
import { allowedScopes } from "../platform_record.ts";

const answer = z.object({
  connection_id: z.string(),
  verifier_id: verifierName.describe("The connection's registered name, to which operations are bound"),
  workspace_id: z.string().describe("The account of the connection, to which operations are bound"),
  platform_id: z.string(),
  allowed_scopes: z.array(z.string()).describe("What its agents may be lent now"),
  customer: z.object({ org_id: z.string(), org_name: z.string() }).nullable(),
});

/** `GET /v1/service/connection`: the calling API key's connection, with its ids, scopes and customer. */
export function getOwnConnectionRoute({ db }: { db: Database }): Route {
  return route({
    id: "get_own_connection",
    method: "GET",
    path: "/v1/service/connection",
    summary: "Read the API key's own connection",
    access: "api_key",
    answer: { status: 200, schema: answer, description: "The connection" },
    errors: [],
    async handle({ caller: { connectionId, verifierId, accountId } }) {
      const found = await db("connections as c")
        .join("platforms as p", "p.platform_id", db.raw(platformOf("c")))
        .where({ "c.connection_id": connectionId, "c.removed_at": null })
        .first(
          "p.platform_id",
          "p.default_allowed_scopes",
          "c.allowed_scopes",
          "c.customer_name",
          "c.customer_account_id",
        );
      if (found === undefined) throw new ApiError("invalid_api_key");
      const { platform_id, default_allowed_scopes: ceiling, allowed_scopes: chosen } = found;
      const { customer_account_id: org_id, customer_name: org_name } = found;
      return {
        body: {
          ...{ connection_id: connectionId, verifier_id: verifierId, workspace_id: accountId, platform_id },
          allowed_scopes: allowedScopes(chosen, ceiling),
          customer: org_id === null ? null : { org_id, org_name: org_name ?? "" },
        },
      };
    },
  });
}
