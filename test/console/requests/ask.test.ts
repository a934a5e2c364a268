import { afterAll, beforeAll, expect, test } from "vitest";
import { startApi, type TestApi } from "../../support/api.ts";
import { delegationViewer } from "../delegations/delegation_viewer.ts";
import { formIn } from "../support/console.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

test("a person can request fewer scopes for an agent than the platform's ceiling has, and then sees the request", async () => {
  const { open, ids, client } = await delegationViewer(api, { agent: "Clerk" });
  const agent = await open(`/console/agents/${ids.agent}`);
  expect(agent.text).toContain(`/console/agents/${ids.agent}/ask`);
  const page = await open(`/console/agents/${ids.agent}/ask`);
  expect(page.words).toContain("Ask for a delegation to Clerk");
  expect(page.words).toContain("orders:refund, as Shop defines it custom:orders:refund");
  expect(formIn(page, "ask").fields).not.toHaveProperty("requested_scope");
  const asked = await page.send("ask", {
    requested_scope: ["data:read", "custom:orders:refund"],
    purpose: "Refund customers who cancel",
    end_number: "3",
    end_unit: "3600",
  });
  expect(asked.path).toMatch(/^\/console\/requests\/req-[0-9a-f-]+\?notice=asked$/);
  expect(asked.words).toContain("Clerk asks to act for Bank");
  expect(asked.words).toContain("3 hours after the approval");
  expect(asked.words).toContain("Refund customers who cancel");
  const requestId = /req-[0-9a-f-]+/.exec(asked.path)?.[0];
  const { body } = await client.get(`/v1/service/delegations/requests/${requestId}`);
  expect(body).toMatchObject({
    agent_id: ids.agent,
    requested_scope: ["data:read", "custom:orders:refund"],
    status: "pending",
  });
});

test("a refused form shows errors at their fields, and keeps the checked boxes", async () => {
  const { open, ids } = await delegationViewer(api);
  const page = await open(`/console/agents/${ids.agent}/ask`);
  const nothing = await page.send("ask");
  expect([nothing.status, nothing.words]).toEqual([400, expect.stringContaining("Tick at least one thing")]);
  const odd = await page.send("ask", { requested_scope: ["data:read"], end_number: "soon" });
  expect(odd.status).toBe(400);
  expect(odd.words).toContain("Write a whole number");
  expect(formIn(odd, "ask").fields).toMatchObject({ requested_scope: "data:read", end_number: "soon" });
  const more = await page.send("ask", { requested_scope: ["identity:delegate"] });
  expect(more.status).toBe(400);
  expect(more.text).toMatch(/id="ask-requested_scope-fault"/);
});

test("the same form sent twice creates one request", async () => {
  const { open, ids } = await delegationViewer(api);
  const page = await open(`/console/agents/${ids.agent}/ask`);
  const values = { requested_scope: ["data:read"] };
  expect((await page.send("ask", values)).path).toBe((await page.send("ask", values)).path);
});

test("a request for a deleted agent is not possible", async () => {
  const { open, ids } = await delegationViewer(api);
  await (await open(`/console/agents/${ids.agent}/delete`)).send("delete", { sure: "on" });
  expect((await open(`/console/agents/${ids.agent}`)).text).not.toContain("/ask");
  const page = await open(`/console/agents/${ids.agent}/ask`);
  expect(page.words).toContain("It is deleted");
  expect(page.text).not.toContain('value="ask"');
});
