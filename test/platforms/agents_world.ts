import { afterEach } from "vitest";
import { runningApi, type TestApi } from "../support/api.ts";
import type { HttpAnswer } from "../support/http.ts";
import type { TestPlatform } from "../support/platform_world.ts";

/** Calls the platform's agent routes. `path` is the part after `/agents`. */
export type AgentsCall = (
  platform: TestPlatform,
  method: string,
  path?: string,
  body?: unknown,
  headers?: Record<string, string>,
) => Promise<HttpAnswer>;

/** Starts an API for a test file, and repairs its vault after each test. */
export function agentsWorld(): { api: TestApi; call: AgentsCall } {
  const api = runningApi();
  afterEach(() => {
    api.vault.failure = undefined;
    api.vault.pause = undefined;
  });
  const call: AgentsCall = (platform, method, path = "", body, headers = {}) =>
    api.client().call(method, `/v1/service/connections/${platform.connectionId}/agents${path}`, {
      body,
      headers: { "x-service-api-key": platform.apiKey, ...headers },
    });
  return { api, call };
}
