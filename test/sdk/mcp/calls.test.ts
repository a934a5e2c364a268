import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createAgent } from "../../../src/sdk/agent/agent.ts";
import { createGuard, type Guard } from "../../../src/sdk/guard.ts";
import { AUTHORITY, authorityOf, withAuthority } from "../../../src/sdk/mcp/mcp.ts";
import { type Application, proofApi } from "../../proofs/application.ts";
import { type BankClient, CLIENTS, PAYMENT, type Paid, SCOPE, SERVERS, type Served } from "./bank.ts";

const world = proofApi();
const tools: { paid: Paid[]; pay?: ((paid: Paid) => unknown) | undefined } = { paid: [] };
let app: Application;
let guard: Guard;

const verifierOf = ({ platform, person }: Application) => ({
  verifierId: platform.connectionId,
  workspaceId: person.accountId,
});
const agentOf = ({ platform, agentId }: Application) =>
  createAgent({
    baseUrl: world.api.url,
    apiKey: platform.apiKey,
    agentId,
    verifiers: { "mcp:bank": verifierOf(app) },
    pausesMs: [],
  });

beforeAll(async () => {
  app = await world.application();
  guard = createGuard({ baseUrl: world.api.url, apiKey: app.platform.apiKey, verifier: verifierOf(app) });
});
beforeEach(() => {
  tools.paid = [];
  tools.pay = undefined;
});

const outcomeOf = async (receiptId = "") => {
  await guard.flush();
  const row = await world.api.db("outcomes").where({ event_id: receiptId }).first();
  return row?.outcome;
};

const PAIRS = (Object.keys(SERVERS) as (keyof typeof SERVERS)[]).flatMap((server) =>
  (Object.keys(CLIENTS) as (keyof typeof CLIENTS)[]).map((client) => [server, client] as const),
);

describe.each(PAIRS)("%s and %s", (server, client) => {
  let served: Served;
  let bank: BankClient;

  beforeAll(async () => {
    served = await SERVERS[server]({ guard, tools });
    const scopes = { send_payment: { scope: SCOPE, resource: "to" }, hidden: SCOPE };
    bank = await CLIENTS[client](served, (transport) =>
      withAuthority(transport, agentOf(app), { server: "bank", scopes }),
    );
  });
  afterAll(async () => {
    await bank?.close();
    await served?.stop();
  });

  test("run an allowed call with its authority, and refuse calls without a rule", async () => {
    const { length } = await world.api.db("audit_events").whereNotNull("decision");
    expect(await bank.callTool({ name: "send_payment", arguments: PAYMENT })).toMatchObject({
      content: [{ text: `paid for ${app.person.humanId}` }],
    });
    expect(tools.paid.map(({ arguments: given }) => given)).toEqual([PAYMENT]);
    const { operation, agentId, receiptId } = authorityOf(tools.paid[0]?.context ?? {});
    expect(agentId).toBe(app.agentId);
    expect(operation).toMatchObject({ action: "bank/send_payment", resource_id: "bob" });
    expect(await outcomeOf(receiptId)).toBe("executed");
    expect(await world.api.db("audit_events").whereNotNull("decision")).toHaveLength(length + 1);

    expect(await bank.callTool({ name: "health" })).toMatchObject({ content: [{ text: "healthy" }] });
    expect(await bank.callTool({ name: "hidden", arguments: PAYMENT })).toMatchObject({
      isError: true,
      _meta: { [AUTHORITY]: { code: "tool_without_rule" } },
    });
    await expect(bank.readResource({ uri: "bank://notes" })).rejects.toMatchObject({ code: -32602 });
    expect(bank.getServerCapabilities()).toMatchObject({ extensions: { [AUTHORITY]: {} } });
    expect(tools.paid).toHaveLength(1);
  });
});
