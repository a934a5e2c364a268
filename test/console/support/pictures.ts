import type { TestApi } from "../../support/api.ts";
import { selfRequest } from "../../support/platform_world.ts";
import { triedViewer } from "../try_it/viewer.ts";
import type { Seen } from "./visits.ts";

/** The screenshots in README.md. `npm run screenshots -- -t README` creates them. */
export const PICTURES = [
  { name: "request", height: 1080, path: ({ request }: Seen["ids"]) => `/console/requests/${request}` },
  { name: "decision", height: 1449, path: ({ event }: Seen["ids"]) => `/console/history/${event}` },
];

/** Creates a person with a pending request that has limits, and a decision that was denied by a limit. */
export async function pictured(api: TestApi): Promise<Seen> {
  const client = api.client();
  const email = "ada@webshop.example";
  const { account_id, human_id } = await client.onboard(email);
  const person = { client, accountId: account_id, humanId: human_id, email };
  const seen = await triedViewer(api, { person, scope: ["data:read", "custom:orders:refund"] });
  const { connection = "", agent, cert } = seen.ids;
  const tried = await client.post(`/v1/service/connections/${connection}/agents/${agent}/try`, {
    cert_id: cert,
    required_scope: "custom:orders:refund",
    context: { amount: 300, currency: "EUR" },
  });
  if (tried.status !== 200) throw new Error(tried.text);
  const { body } = await client.get("/v1/service/audit/personal?decision=deny");
  const [denied] = body.events as { event_id: string }[];
  const { body: agents } = await client.get("/v1/service/agents");
  const [shown] = agents.items as { platform: { platform_id: string } }[];
  const described = await client.call("PATCH", `/v1/service/platforms/${shown?.platform.platform_id}`, {
    body: {
      scope_descriptions: {
        "custom:orders:refund": {
          label: "Refund orders",
          description: "Pay customers back what they paid for an order",
          sensitive: true,
        },
      },
    },
  });
  if (described.status !== 200) throw new Error(described.text);
  const request = await selfRequest(person, connection, {
    agent_id: agent,
    purpose: "Refund customers who cancel within 14 days",
    requested_scope: ["data:read", "custom:orders:refund"],
    expires_in: 7 * 86_400,
    constraints: [
      { type: "max_amount", max_amount: 250, currency: "EUR" },
      { type: "time_window", start: "08:00", end: "18:30", tz: "Europe/Berlin" },
    ],
  });
  return { ...seen, ids: { ...seen.ids, request, event: denied?.event_id ?? "" } };
}
