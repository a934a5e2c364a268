import { newApiKey } from "../../src/platforms/api_keys/api_key.ts";
import type { TestApi } from "./api.ts";
import type { HttpAnswer } from "./http.ts";
import type { TestPlatform } from "./platform_world.ts";

/** Creates an API key with the platform's full key. */
export function createKey(
  api: TestApi,
  { connectionId, apiKey }: Pick<TestPlatform, "connectionId" | "apiKey">,
  wish: { role: string; agent_id?: string },
): Promise<HttpAnswer> {
  const headers = { "x-service-api-key": apiKey };
  return api.client().post(`/v1/service/connections/${connectionId}/keys`, wish, { headers });
}

/** Stores verify keys of a connection until it has 100 keys. */
export async function fillKeys({ db, clock }: TestApi, connectionId: string): Promise<void> {
  const connection = await db("connections").where({ connection_id: connectionId }).first("account_id");
  const live = await db("narrow_keys").where({ connection_id: connectionId, ended_at: null });
  const rows = Array.from({ length: 100 - live.length }, () => {
    const { prefix, hash } = newApiKey("verify");
    return {
      key_prefix: prefix,
      key_hash: hash,
      role: "verify" as const,
      account_id: String(connection?.account_id),
      connection_id: connectionId,
      agent_id: null,
      made_with: null,
      created_at: clock.now(),
      ended_at: null,
    };
  });
  await db("narrow_keys").insert(rows);
}
