import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { openLines } from "../../soak/lines.ts";
import { createVisitor, must, type Visitor } from "../../specification/visitor.ts";
import { type Answer, insist, newTally, type Tally } from "./attempts.ts";

/** A connection of the load's organization, and its agent. */
export type Shop = { connectionId: string; apiKey: string; secret: string; agentId: string };

/** The mailbox answers only under one host name of this machine. */
export type Addresses = { apiUrl: string; mailboxUrl: string };

const SCOPES = ["data:read", "payments:send"];

/** Creates a new organization, and returns its owner, who signed in with a code from the mailbox. */
export async function openOwner({ apiUrl, mailboxUrl }: Addresses): Promise<Visitor> {
  const settings = { mailbox: `${mailboxUrl}/dev/mailbox`, word: "service", limits: false };
  const first = createVisitor({ ...settings, baseUrl: mailboxUrl });
  must(await first.signIn(`load-${randomUUID()}@example.test`));
  must(await first.call("POST", "/v1/auth/onboarding/profile", { first_name: "Ada", last_name: "Lovelace" }));
  const type = { account_type: "organization", organization_name: "Load" };
  must(await first.call("POST", "/v1/auth/onboarding/account-type", type));
  return createVisitor({ ...settings, baseUrl: apiUrl }, first.state());
}

/** Registers a platform with one agent. Its events have no callback URL yet. */
export async function openShop(owner: Visitor, { apiUrl }: Addresses): Promise<Shop> {
  const { connection_id, api_key, webhook_signing_secret } = must(
    await owner.call("POST", "/v1/service/platforms", {
      name: `Shop ${randomUUID()}`,
      surface_type: "agentic_api",
      default_allowed_scopes: SCOPES,
    }),
  );
  const connection = { connectionId: String(connection_id), apiKey: String(api_key) };
  const agentId = await makeAgent(applicationOf(connection, apiUrl), connection);
  return { ...connection, secret: String(webhook_signing_secret), agentId };
}

export function applicationOf({ apiKey }: Pick<Shop, "apiKey">, baseUrl: string): Visitor {
  const settings = { baseUrl, mailbox: "", word: "service", limits: false };
  return createVisitor(settings, {}, { "x-service-api-key": apiKey });
}

export async function makeAgent(
  application: Visitor,
  { connectionId }: Pick<Shop, "connectionId">,
): Promise<string> {
  const path = `/v1/service/connections/${connectionId}/agents`;
  const { agent_id } = must(await application.call("POST", path, { name: "bot", agent_type: "api_agent" }));
  return String(agent_id);
}

export async function sendEventsTo(url: string, owner: Visitor, { connectionId }: Shop): Promise<void> {
  must(await owner.call("PUT", `/v1/service/connections/${connectionId}/callback`, { callback_url: url }));
}

type Appended = Pick<ReturnType<typeof openLines<"appended">>, "write">;

/**
 * Makes people decide on requests. The people of a shop decide one after another, so the shop's events have
 * the recorded order. They deny every third request, and revoke every second approved one. They repeat a call
 * with the same idempotency key until it is answered.
 */
export function startPeople(owner: Visitor, shops: readonly Shop[], lines: Appended, pauseMs: number) {
  const tally: Tally = newTally();
  let isOver = false;

  async function post(path: string, body: object = {}): Promise<Record<string, unknown>> {
    const headers = { "idempotency-key": randomUUID() };
    const call = (): Promise<Answer & { body: Record<string, unknown> }> =>
      owner.call("POST", `/v1/service/delegations/${path}`, body, headers);
    const { status, text, body: answer } = await insist(path, tally, call);
    if (status >= 300) throw new Error(`${path} answered ${status}: ${text}`);
    return answer;
  }

  async function decideOne({ connectionId, agentId }: Shop, nth: number): Promise<void> {
    const wrote = (id: unknown) =>
      lines.write({ id: String(id), kind: "event", of: connectionId, outcome: "committed" });
    const wish = { connection_id: connectionId, agent_id: agentId, requested_scope: SCOPES };
    const { request_id } = await post("self-request", wish);
    if (nth % 3 === 0) {
      await post(`requests/${request_id}/deny`);
      wrote(request_id);
      return;
    }
    const { cert_id } = await post(`requests/${request_id}/approve`, { approved_scope: ["data:read"] });
    wrote(request_id);
    if (nth % 2 === 0) return;
    await post(`${cert_id}/revoke`, { reason: "no longer needed" });
    wrote(cert_id);
  }

  async function keepDeciding(shop: Shop): Promise<void> {
    for (let nth = 0; !isOver; nth += 1) {
      await decideOne(shop, nth);
      await sleep(pauseMs);
    }
  }

  const done = Promise.all(shops.map(keepDeciding));
  done.catch(() => undefined);
  return {
    tally,
    async stop() {
      isOver = true;
      await done;
    },
  };
}
