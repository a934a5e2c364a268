import { type ApiOptions, runningApi, startApi, type TestApi } from "../../support/api.ts";

/** Every person is a service administrator. Names with `missing` have no TXT records. */
const wholeOptions = (options: ApiOptions = {}): ApiOptions => ({
  lookupTxt: async (name) => (name.includes("missing") ? "absent" : "found"),
  authenticators: { isServiceAdministrator: () => true },
  ...options,
  config: { ALPHA_CREDITS_MICRO_USD: 1_000_000_000, ...options.config },
});

/** Starts an API for tests that make calls to every operation. */
export async function startWholeApi(options?: ApiOptions): Promise<TestApi> {
  return startApi(wholeOptions(options));
}

/** Starts this API before the first test of a file, and stops it after the last test. */
export function wholeApi(options?: ApiOptions): TestApi {
  return runningApi(wholeOptions(options));
}
