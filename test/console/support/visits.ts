import { randomUUID } from "node:crypto";
import { addSeconds } from "../../../src/clock.ts";
import { delegated, type PlatformApi, registerPlatform, selfRequest } from "../../support/platform_world.ts";
import { type Browser, browserOf, signIn } from "./console.ts";

/** Who looks at a page in a test. */
export type Viewer = "nobody" | "unnamed" | "typeless" | "complete" | "busy";

/** A browser, and the ids that its pages are about. */
export type Seen = Browser & { ids: Record<string, string> };

type Reached = { viewer: Viewer; path: string | ((ids: Record<string, string>) => string) };

/** How each page is reached, by its id; a page that is not here fails the tests of them all. */
export const visits: Record<string, Reached> = {
  home: { viewer: "busy", path: "/console" },
  request: { viewer: "busy", path: ({ request }) => `/console/requests/${request}` },
  sign_in: { viewer: "nobody", path: "/v1/auth/email/console?return_to=%2Fconsole" },
  enter_code: {
    viewer: "nobody",
    path: "/v1/auth/email/console/code?email=ada%40example.test&notice=code_sent",
  },
  renew: { viewer: "complete", path: "/v1/auth/refresh/console" },
  sign_out: { viewer: "complete", path: "/console/sign-out" },
  welcome_name: { viewer: "unnamed", path: "/console/welcome/name" },
  welcome_account: { viewer: "typeless", path: "/console/welcome/account" },
};

/** A browser of such a viewer, with fresh accounts; `busy` has agents, requests and a history. */
export async function viewerOf(api: PlatformApi, viewer: Viewer, texts: Partial<Texts> = {}): Promise<Seen> {
  if (viewer === "nobody") return { ...browserOf(api), ids: {} };
  if (viewer === "complete") return { ...browserOf(api, (await api.person()).client), ids: {} };
  if (viewer === "busy") return busyViewer(api, { ...ORDINARY, ...texts });
  const browser = browserOf(api);
  const name = await signIn(browser, `${viewer}-${randomUUID().slice(0, 8)}@example.test`);
  if (viewer === "typeless") await name.send("profile", { first_name: "Ada", last_name: "Lovelace" });
  return { ...browser, ids: {} };
}

/** Text of strangers on pages. */
export type Texts = { scope: string; denied: string };

const ORDINARY: Texts = {
  scope: "custom:orders:refund",
  denied: "not_delegated",
};

async function busyViewer(api: PlatformApi, { scope, denied }: Texts): Promise<Seen> {
  const person = await api.person();
  const platform = await registerPlatform(person);
  const given = { person, platform };
  const { agentId } = await delegated(api, ["data:read", "payments:send"], given);
  const requestId = await selfRequest(person, platform.connectionId, {
    requested_scope: ["data:read", "custom:orders:refund"],
    expires_in: 86_400,
  });
  const rows = Array.from({ length: 60 }, (_, place) => ({
    account_id: person.accountId,
    occurred_at: addSeconds(api.clock.now(), -place * 20_000 - 60),
    event_id: randomUUID(),
    event_type: "proof.verified" as const,
    connection_id: platform.connectionId,
    agent_id: agentId,
    human_id: person.humanId,
    decision: place % 7 === 3 ? ("deny" as const) : ("allow" as const),
    decision_reason: place % 7 === 3 ? denied : "authorized",
    required_scope: scope,
  }));
  await api.db("audit_events").insert(rows);
  return { ...browserOf(api, person.client), ids: { request: requestId } };
}

/** Where a viewer finds a page. */
export function pathOf(id: string, { ids }: Seen): string {
  const path = visits[id]?.path;
  if (path === undefined) throw new Error(`test/console/support/visits.ts does not say how to reach ${id}`);
  return typeof path === "string" ? path : path(ids);
}
