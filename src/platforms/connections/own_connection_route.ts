import { z } from "zod";
import { type Route, route } from "../../route.ts";
import { verifierName } from "../platform_answers.ts";

const answer = z.object({
  connection_id: z.string(),
  verifier_id: verifierName.describe("The connection's registered name, to which operations are bound"),
  workspace_id: z.string().describe("The account of the connection, to which operations are bound"),
});

/** `GET /v1/service/connection`: the ids that an application needs to bind operations to its connection. */
export function getOwnConnectionRoute(): Route {
  return route({
    id: "get_own_connection",
    method: "GET",
    path: "/v1/service/connection",
    summary: "Read the ids of the API key's own connection",
    access: "api_key",
    answer: { status: 200, schema: answer, description: "The ids that name this verifier in an operation" },
    errors: [],
    async handle({ caller }) {
      const { connectionId, verifierId, accountId } = caller;
      return { body: { connection_id: connectionId, verifier_id: verifierId, workspace_id: accountId } };
    },
  });
}
