import { expect, test } from "vitest";
import { runningApi } from "../support/api.ts";
import { createSlowServers } from "../support/surroundings/slow_servers.ts";
import { organizationLooks } from "./organization_looks.ts";
import { shown } from "./races.ts";
import { vaultLooks } from "./vault_looks.ts";

const servers = createSlowServers();
const api = runningApi(servers.options);

test.each([...organizationLooks, ...vaultLooks])(
  "$operation $title: checks again after $waitsFor, returns $gets, and stores nothing",
  async ({ prepare, waitsFor, gets }) => {
    const { call, meanwhile, stored } = await prepare(api);
    const { isReached, release } = servers.holdBack(waitsFor);
    const calling = call();
    const answered = calling.then((answer) => `answered ${shown(answer)}`);
    expect(await Promise.race([isReached, answered])).toBe(undefined);
    await meanwhile();
    release();
    expect([shown(await calling), await stored()]).toEqual([gets, []]);
  },
);
