import { readFile } from "node:fs/promises";
import type { Access } from "./access_file.ts";

const CALL_TIMEOUT_MS = 15_000;
const KEPT = /^VERIFY_KEY=(\S+)$/m;

/**
 * Returns a verify key of the connection: the one in the file `values` if it is still valid, or else a new
 * one. Each start would otherwise add a key that nobody ends.
 */
export async function verifyKeyOf(access: Access, values: string): Promise<string> {
  const kept = KEPT.exec(await readFile(values, "utf8").catch(() => ""))?.[1];
  if (kept !== undefined && (await isValid(kept, access))) return kept;
  const path = `/v1/service/connections/${access.connection_id}/keys`;
  const { status, body } = await call(access.base_url, path, access.api_key, { role: "verify" });
  const key = body.api_key;
  if (status !== 201 || typeof key !== "string") throw new Error(`POST ${path} answered ${status}`);
  return key;
}

async function isValid(key: string, access: Access): Promise<boolean> {
  const { status, body } = await call(access.base_url, "/v1/service/keys/self", key);
  return status === 200 && body.role === "verify" && body.connection_id === access.connection_id;
}

async function call(baseUrl: string, path: string, apiKey: string, posted?: object) {
  const response = await fetch(new URL(path, baseUrl), {
    headers: { "X-Service-API-Key": apiKey, "Content-Type": "application/json" },
    ...(posted !== undefined && { method: "POST", body: JSON.stringify(posted) }),
    signal: AbortSignal.timeout(CALL_TIMEOUT_MS),
  });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}
