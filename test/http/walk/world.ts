import { afterAll, beforeAll } from "vitest";
import { type ApiOptions, startApi, type TestApi } from "../../support/api.ts";

/** Starts an API. Every person is a service administrator. Names with `missing` have no TXT records. */
export async function startWholeApi(options: ApiOptions = {}): Promise<TestApi> {
  return startApi({
    lookupTxt: async (name) => (name.includes("missing") ? "absent" : "found"),
    authenticators: { isServiceAdministrator: () => true },
    ...options,
    config: { ALPHA_CREDITS_MICRO_USD: 1_000_000_000, ...options.config },
  });
}

/** Calls `startWholeApi` before the first test of a file, and stops the API after the last test. */
export function wholeApi(options?: ApiOptions): TestApi {
  const api = {} as TestApi;
  beforeAll(async () => {
    Object.assign(api, await startWholeApi(options));
  });
  afterAll(() => api.stop());
  return api;
}
