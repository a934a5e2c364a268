import * as client2 from "@modelcontextprotocol/client";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { createAgent } from "../../../src/sdk/agent/agent.ts";
import { AUTHORITY } from "../../../src/sdk/mcp/mcp.ts";
import { createJournal } from "../../../src/sdk/proxy/journal.ts";
import { createDecider } from "../../../src/sdk/proxy/proxy.ts";
import { readRulesFile, rulesText } from "../../../src/sdk/proxy/rules_file.ts";
import { proofApi } from "../../proofs/application.ts";
import { createKey } from "../../support/narrow_keys.ts";
import { approve } from "../../support/platform_world.ts";
import { type BankClient, listen, PAYMENT, SCOPE } from "../mcp/bank.ts";
import { BARE_SERVERS, hashesOf, type Reached, rulesOf, throughProxy } from "./proxied.ts";

const world = proofApi();
const RULES = { send_payment: { scope: SCOPE, amount: "amount" } };
const ASK = { purpose: "Pay the invoices of the office" };
const reached: Reached[] = [];
const note = (each: Reached) => void reached.push(each);
let hashes: object;
let baseUrl: string;
let stopService: () => Promise<void>;
let closing: (() => unknown)[] = [];

type Client = BankClient & { listTools(): Promise<{ tools: object[] }> };

/** Connects a client that negotiates the newest revision. `open` gets the pages that it is asked to open. */
async function connect(transport: object, open?: (url: string) => unknown): Promise<Client> {
  const client = new client2.Client(
    { name: "host", version: "1" },
    {
      versionNegotiation: { mode: "auto" },
      capabilities: open === undefined ? {} : { elicitation: { url: {} } },
    },
  );
  if (open !== undefined) {
    client.setRequestHandler("elicitation/create", async ({ params }) => {
      await open(String(Reflect.get(params, "url")));
      return { action: "accept" };
    });
  }
  await client.connect(transport as client2.Transport);
  closing.push(() => client.close());
  return client as never;
}

/** Serves the service at an address that its links have, too: in tests, they lead to another port. */
async function atItsAddress() {
  const served = await listen(async ({ url, method, headers, body }) => {
    const { pathname, search } = new URL(url);
    const sent = method === "GET" ? null : await new Response(body).text();
    const answer = await fetch(`${world.api.url}${pathname}${search}`, { method, headers, body: sent });
    const text = (await answer.text()).replaceAll('"http://127.0.0.1/', `"${baseUrl}/`);
    return new Response(text || null, {
      status: answer.status,
      headers: { "content-type": "application/json" },
    });
  });
  baseUrl = served.url.origin;
  stopService = served.stop;
}

beforeAll(async () => {
  await atItsAddress();
  const { transport } = throughProxy(await BARE_SERVERS["SDK 2.x"](note), {});
  const client = await connect(transport);
  hashes = hashesOf((await client.listTools()).tools);
});
afterAll(() => stopService());
afterEach(async () => {
  for (const close of closing) await close();
  closing = [];
  reached.length = 0;
});

/** A proxy whose agent has no authority yet. */
async function asking({ ask = ASK as object | null, mode = "enforce" } = {}) {
  const app = await world.application([]);
  const keys = await Promise.all([
    createKey(world.api, app.platform, { role: "agent", agent_id: app.agentId }),
    createKey(world.api, app.platform, { role: "verify" }),
  ]);
  const [agentKey, verifyKey] = keys.map(({ body }) => String(body.api_key));
  const quiet = createJournal("bank", "enforce", () => undefined);
  const service = { baseUrl, word: undefined };
  const decider = createDecider({ service, verifyKey: () => `${verifyKey}` }, quiet);
  const bare = rulesOf(RULES, { hashes, mode });
  const rules = readRulesFile(
    Buffer.from(rulesText({ ...bare, ask: (ask ?? undefined) as never }, bare.written)),
  );
  const agent = createAgent({ baseUrl, apiKey: `${agentKey}`, verifiers: {}, pausesMs: [] });
  const proxied = throughProxy(await BARE_SERVERS["SDK 2.x"](note), { rules, decider, agent });
  const requests = () => world.api.db("delegation_requests").where({ agent_id: app.agentId });
  const decide = async () => {
    const [found] = await requests();
    const approved = await approve(app.person, String(found?.request_id), [SCOPE], { once: true });
    expect(approved.status, approved.text).toBe(200);
  };
  return { ...proxied, app, requests, decide };
}

const pay = (bank: BankClient) => bank.callTool({ name: "send_payment", arguments: { ...PAYMENT } });

describe("a proxy with ask in its rules", () => {
  test("answers with the page on which a person decides, and runs the call after the approval", async () => {
    const { transport, requests, decide, lines } = await asking();
    const bank = await connect(transport);
    const refused = (await pay(bank)) as { content: [{ text: string }]; _meta: Record<string, never> };
    const { code, url } = refused._meta[AUTHORITY] as unknown as Record<string, string>;
    expect(code).toBe("awaiting_approval");
    expect(new URL(`${url}`).origin).toBe(baseUrl);
    expect(refused.content[0].text).toContain(`Nothing was done. A person can decide at ${url} `);
    expect(await requests()).toMatchObject([{ purpose: ASK.purpose }]);
    await decide();
    expect(await pay(bank)).toMatchObject({ content: [{ text: "did send_payment" }] });
    expect(reached).toHaveLength(1);
    expect(JSON.stringify(lines)).not.toContain(`${url}`);
  });

  test("has a client open the page that declares it, and then decides again", async () => {
    const { transport, decide, sent } = await asking();
    const opened: string[] = [];
    const bank = await connect(transport, async (url) => {
      opened.push(url);
      await decide();
    });
    expect(await pay(bank)).toMatchObject({ content: [{ text: "did send_payment" }] });
    expect(opened.map((url) => new URL(url).origin)).toEqual([baseUrl]);
    const calls = sent.filter(({ method }) => method === "tools/call");
    expect(calls).toHaveLength(1);
    expect(calls[0]?.params).not.toHaveProperty("inputResponses");
  });

  test("asks the client once if the person has not decided", async () => {
    const { transport } = await asking();
    const opened: string[] = [];
    const bank = await connect(transport, (url) => void opened.push(url));
    expect(await pay(bank)).toMatchObject({ _meta: { [AUTHORITY]: { code: "awaiting_approval" } } });
    expect([opened.length, reached]).toEqual([1, []]);
  });

  test("asks nobody in observe, and without ask", async () => {
    for (const settings of [{ mode: "observe" }, { ask: null }]) {
      const { transport, requests, lines } = await asking(settings);
      const bank = await connect(transport, () => expect.unreachable());
      await pay(bank);
      await expect.poll(() => lines.filter(({ msg }) => msg === "call")).toHaveLength(1);
      expect(await requests()).toEqual([]);
    }
  });
});

test("a rules file refuses an invalid ask", () => {
  for (const ask of [{}, { purpose: " " }, { purpose: "Pay", wait: 5 }, "Pay"]) {
    const file = { server: "bank", mode: "observe", ask, tools: {} };
    expect(() => readRulesFile(Buffer.from(JSON.stringify(file)))).toThrow(TypeError);
  }
});
