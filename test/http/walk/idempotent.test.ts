import { describe, expect, test } from "vitest";
import { declaredRoutes } from "./documented.ts";

/** Calls that change an account but accept no `Idempotency-Key`, each with its reason. */
const WITHOUT: Record<string, string> = {
  end_session: "ending a sign-in twice ends it once",
  delete_account: "its answer clears cookies, which are not kept; its code can be used once",
  logout: "its answer clears cookies, which are not kept; ending a session twice ends it once",
  approve_connect_request: "approving again replaces the code, which works for a minute",
  change_history_filters: "saving or deleting a filter again changes nothing",
  create_challenge: "a kept challenge would be a spent one",
  present_proof: "a kept proof would be a spent or stale one",
  verify_proof: "a kept allow would permit an action twice; the challenge and invocation_id decide once",
  report_outcome: "a repeated report returns the same answer, and another outcome returns 409",
  check_receipt: "it changes nothing: a receipt is too long for an address",
  access_evaluation: "as verify_proof",
  access_evaluations: "as verify_proof",
};

const isAccounts = ({ access }: { access: string }) => ["session", "api_key", "account"].includes(access);

describe("an Idempotency-Key", () => {
  test("works with every call that changes an account", () => {
    const changing = declaredRoutes.filter((route) => isAccounts(route) && route.method !== "GET");
    const without = changing.filter(({ idempotent }) => idempotent !== true).map(({ id }) => id);
    expect(without.sort()).toEqual(Object.keys(WITHOUT).sort());
  });

  test("does not work with calls that only read, have no account, or set cookies", () => {
    const taking = declaredRoutes.filter(({ idempotent }) => idempotent === true);
    expect(taking.filter((route) => route.method === "GET" || !isAccounts(route))).toEqual([]);
    const cookies = taking.filter(({ answer }) =>
      Object.keys(answer?.headers ?? {}).some((name) => name.toLowerCase() === "set-cookie"),
    );
    expect(cookies).toEqual([]);
  });

  test("belongs to the application if a gateway forwards it", () => {
    const foreign = declaredRoutes.filter(({ idempotent }) => idempotent === "foreign").map(({ id }) => id);
    expect(foreign.length).toBeGreaterThan(0);
    expect(foreign.filter((id) => !id.startsWith("ext_auth_"))).toEqual([]);
  });
});
