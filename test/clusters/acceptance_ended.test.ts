import { beforeEach, describe, expect, test } from "vitest";
import type { Transaction } from "../../src/db/database.ts";
import { lockConnection } from "../../src/platforms/platform_record.ts";
import { type Person, runningApi } from "../support/api.ts";
import type { HttpAnswer } from "../support/http.ts";
import { until } from "../support/process.ts";
import { BINDINGS, namespaces, newId, seen } from "./namespaces.ts";

const api = runningApi();
let person: Person;
const { declare, accept } = namespaces(api, () => person);

describe("a namespace whose acceptance is withdrawn or narrowed during a call", () => {
  const takeBack = async () =>
    expect((await person.client.call("DELETE", `${BINDINGS}/c1/shop`)).status).toBe(200);
  beforeEach(async () => {
    person = await api.person();
    await accept("c1/shop");
  });

  /** Withdraws the acceptance while the call waits for a lock. Returns the call's answer. */
  async function waiting(
    lock: (tx: Transaction) => Promise<unknown>,
    work: () => Promise<HttpAnswer>,
    meanwhile: () => Promise<void> = takeBack,
  ) {
    const answer = await api.db.transaction(async (tx) => {
      await lock(tx);
      const answered = work();
      await until("it waits", async () => {
        const { rows } = await api.db.raw("select 1 from pg_locks where not granted");
        return rows.length > 0;
      });
      await meanwhile();
      return { answered };
    });
    return seen(await answer.answered);
  }
  const notBound = [404, "namespace_not_bound"];

  test("registers nothing after the withdrawal", async () => {
    const { accountId } = person;
    const account = (tx: Transaction) =>
      tx("accounts").where({ account_id: accountId }).select("account_id").forNoKeyUpdate();
    expect(await waiting(account, () => declare("shop"))).toEqual(notBound);
    expect(await api.db("platforms").where({ account_id: accountId })).toEqual([]);
  });

  test("registers no platform that exceeds the narrowed ceiling", async () => {
    const { accountId } = person;
    const account = (tx: Transaction) =>
      tx("accounts").where({ account_id: accountId }).select("account_id").forNoKeyUpdate();
    const narrow = async () => {
      const place = { account_id: accountId, namespace: "shop" };
      await api
        .db("namespace_bindings")
        .where(place)
        .update({ ceiling: ["data:read"] });
    };
    expect(await waiting(account, () => declare("shop"), narrow)).toEqual([400, "ceiling_exceeded"]);
    expect(await api.db("platforms").where({ account_id: accountId })).toEqual([]);
  });

  test("receives no agent and can make no request after the withdrawal", async () => {
    const [platform, agent] = [newId(), newId()];
    const { connection_id } = (await declare("shop", { id: platform })).body;
    const object = (name: string) => ({ namespace: "shop", name });
    const putAgent = (id: string) =>
      api.operator("PUT", `/internal/v1/agents/${id}`, {
        object: object("bot"),
        platform_external_id: platform,
        name: "bot",
        agent_type: "robot",
      });
    const connection = (tx: Transaction) => lockConnection(tx, String(connection_id));
    expect(await waiting(connection, () => putAgent(agent))).toEqual(notBound);
    await accept("c1/shop");
    expect((await putAgent(agent)).status).toBe(200);
    const ask = () =>
      api.operator("PUT", `/internal/v1/delegations/${newId()}`, {
        object: object("help"),
        platform_external_id: platform,
        agent_external_id: agent,
        requested_scope: ["data:read"],
      });
    expect(await waiting(connection, ask)).toEqual(notBound);
    expect(await api.db("delegation_requests").where({ account_id: person.accountId })).toEqual([]);
  });
});
