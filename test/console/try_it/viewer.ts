import type { Person, TestApi } from "../../support/api.ts";
import { approve, createAgent, registerPlatform, selfRequest } from "../../support/platform_world.ts";
import { browserOf } from "../support/console.ts";
import type { Seen } from "../support/visits.ts";

type Made = {
  person?: Person;
  agent?: string;
  platform?: string;
  scope?: string[];
  constraints?: Record<string, unknown>[];
};

/** Creates a person who has a delegation with a constraint, for trials. */
export async function triedViewer(api: TestApi, made: Made = {}): Promise<Seen> {
  const {
    person = await api.person(),
    scope = ["data:read", "payments:send"],
    constraints = [AMOUNT],
  } = made;
  const given = { name: made.platform ?? "Webshop" };
  const platform = await registerPlatform(person, given).catch(() =>
    registerPlatform(person, given, "/v1/service/platforms"),
  );
  const agent = await createAgent(api.client(), platform, { name: made.agent ?? "refund-bot" });
  const fields = { agent_id: agent, requested_scope: scope, constraints };
  const request = await selfRequest(person, platform.connectionId, fields);
  const { status, body, text } = await approve(person, request, scope);
  if (status !== 200) throw new Error(text);
  const ids = { cert: String(body.cert_id), agent, connection: platform.connectionId, key: platform.apiKey };
  return { ...browserOf(api, person.client), ids };
}

const AMOUNT = { type: "max_amount", max_amount: 250, currency: "EUR" };
