import { Pool } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { declaredRoutes } from "../http/walk/documented.ts";
import { runningApi } from "../support/api.ts";
import { heldRows } from "../support/held_rows.ts";
import { createSlowServers } from "../support/surroundings/slow_servers.ts";
import { clusterRaces } from "./cluster_races.ts";
import { connectRaces } from "./connect_races.ts";
import { delegationRaces } from "./delegation_races.ts";
import { organizationRaces } from "./organization_races.ts";
import { platformRaces } from "./platform_races.ts";
import { type RaceRow, shown } from "./races.ts";
import { signInRaces } from "./sign_in_races.ts";

/** All races by operation. */
const races: Record<string, RaceRow[]> = {
  ...signInRaces,
  ...organizationRaces,
  ...platformRaces,
  ...connectRaces,
  ...delegationRaces,
  ...clusterRaces,
};

/** Changing operations that need no lock, and why. */
const withoutLock: Record<string, string> = {
  end_session: "ends one sign-in in one statement, whatever its state",
  logout: "ends sessions in one statement, whatever their state",
  send_address_codes: "writes the person's own codes, of which the last ones count",
  send_deletion_code: "writes the person's own code, of which the last one counts",
  change_profile: "writes the person's own name, of which the last one counts",
  change_mail_choices: "writes the person's own rows, of which the last choice counts",
  stop_mails: "writes one row of the person, of which the last choice counts",
  withdraw_invitation: "deletes one row",
  read_invitation: "changes nothing",
  unpublish_platform: "updates one row",
  withdraw_platform_adoption: "deletes one row",
  withdraw_agent_adoption: "deletes one row",
  create_challenge: "changes nothing",
  present_proof: "inserts one row",
  report_outcome: "inserts one row",
  check_receipt: "changes nothing",
  oauth_push_request: "changes nothing",
  internal_read_state: "changes nothing",
  internal_list_delegations: "changes nothing",
  ...Object.fromEntries(
    [
      "verify_proof",
      "try_proof",
      "access_evaluation",
      "access_evaluations",
      ...["post", "put", "patch", "delete"].flatMap((method) => [
        `ext_auth_${method}`,
        `ext_auth_${method}_scope`,
      ]),
    ].map((id) => [id, "decides in one statement, whose locks test/proofs/locked_rows.test.ts checks"]),
  ),
};

const servers = createSlowServers();
const api = runningApi(servers.options);
let pool: Pool;
beforeAll(() => {
  pool = new Pool({ connectionString: api.databaseUrl, max: 2 });
});
afterAll(() => pool.end());
const { hold, untilBlocked } = heldRows(() => pool);

describe("operations that change something", () => {
  test("each have a race below, or a reason why they need no lock", () => {
    const changing = declaredRoutes.filter(({ method }) => method !== "GET").map(({ id }) => id);
    expect([...Object.keys(races), ...Object.keys(withoutLock)].sort()).toEqual(changing.sort());
  });

  const rows = Object.entries(races).flatMap(([id, each]) => each.map((row) => ({ id, ...row })));
  test.each(rows)(
    "$id $title: waits until the competing change ends, and then returns $gets",
    async ({ prepare, gets }) => {
      const { holds, meanwhile, call, times = 1, waitsFor, check } = await prepare(api);
      const [text, ...values] = holds;
      const slow = waitsFor && servers.holdBack(waitsFor);
      const early = slow && call();
      await slow?.isReached;
      const held = await hold(text, values);
      slow?.release();
      const calls = early ? [early] : Array.from({ length: times }, call);
      const answered = Promise.race(calls).then((answer) => `answered ${shown(answer)}`);
      expect(await Promise.race([untilBlocked(times), answered])).toBe(undefined);
      if (meanwhile !== undefined) {
        const [change, ...given] = meanwhile;
        await held.run(change, given);
      }
      await held.commit();
      const answers = await Promise.all(calls);
      expect(answers.map(shown).sort()).toEqual(gets);
      await check?.(answers);
    },
  );
});
