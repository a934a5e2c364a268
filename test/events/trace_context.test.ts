import { beforeAll, expect, test } from "vitest";
import { runningApi } from "../support/api.ts";
import { requested, selfRequest } from "../support/platform_world.ts";

const api = runningApi();
const TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

let world: Awaited<ReturnType<typeof requested>>;

beforeAll(async () => {
  world = await requested(api);
});

async function headersAfter(traceparent?: string): Promise<unknown> {
  const { person, platform, agentId } = world;
  const requestId = await selfRequest(person, platform.connectionId, { agent_id: agentId });
  const path = `/v1/service/delegations/requests/${requestId}/approve`;
  const headers = traceparent === undefined ? {} : { traceparent };
  const answer = await person.client.post(path, { approved_scope: ["data:read"] }, { headers });
  if (answer.status !== 200) throw new Error(answer.text);
  const row = await api
    .db("outbox")
    .where({ type: "delegation.approved" })
    .whereLike("payload", `%${requestId}%`)
    .first("headers");
  return row?.headers;
}

test("an event has the trace of the request that caused it", async () => {
  expect(await headersAfter(TRACE)).toEqual({ traceparent: TRACE });
});

test.each([
  undefined,
  "",
  "no trace",
  TRACE.toUpperCase(),
  TRACE.replace("00-", "01-"),
  `${TRACE}-more`,
  `00-${"0".repeat(32)}-b7ad6b7169203331-01`,
  `00-0af7651916cd43dd8448eb211c80319c-${"0".repeat(16)}-01`,
])("an event has no trace if the request has an invalid trace: %s", async (header) => {
  expect(await headersAfter(header)).toEqual({});
});

test("concurrent requests keep separate traces", async () => {
  const traces = Array.from({ length: 3 }, (_, n) => TRACE.replace("b7ad6b716920333", `b7ad6b71692033${n}`));
  const seen = await Promise.all(traces.map((trace) => headersAfter(trace)));
  expect(seen).toEqual(traces.map((traceparent) => ({ traceparent })));
});
