import { randomUUID } from "node:crypto";
import { addSeconds } from "../../../src/clock.ts";
import { proposeConnect } from "../../../src/connect/proposals.ts";
import { connectScene } from "../../connect/scene.ts";
import type { TestApi } from "../../support/api.ts";
import { addMember } from "../../support/members.ts";
import { delegated, registerPlatform, selfRequest } from "../../support/platform_world.ts";
import { connect, publisher } from "../../support/two_companies.ts";
import { delegationViewer } from "../delegations/delegation_viewer.ts";
import { historyViewer } from "../history/viewer.ts";
import { organizationOf } from "../organization/organization.ts";
import { platformViewer } from "../platforms/platform_viewer.ts";
import { administratorViewer } from "../service/viewer.ts";
import { triedViewer } from "../try_it/viewer.ts";
import { ofConnection, sendingViewer } from "../webhooks/sending_viewer.ts";
import { type Browser, browserOf, signIn } from "./console.ts";

/** The kinds of people who view a page in a test. */
export type Viewer = "nobody" | "unnamed" | "typeless" | "complete" | "busy";

/** A browser, and the ids of the objects that its pages show. */
export type Seen = Browser & { ids: Record<string, string> };

/** Creates a viewer with the data that an area's pages need. */
export type MakeViewer = (api: TestApi) => Promise<Seen>;

type Reached = { viewer: Viewer | MakeViewer; path: string | ((ids: Record<string, string>) => string) };

async function channelViewer(api: TestApi): Promise<Seen> {
  const seen = await viewerOf(api, "complete");
  const body = { app: "slack", url: "https://hooks.example.com/services/secret" };
  await seen.client.call("PUT", "/v1/service/request-channel", { body });
  return seen;
}

/** A customer who has connected a product. */
async function connectedViewer(api: TestApi): Promise<Seen> {
  const person = await api.person();
  const { product, code, exchange } = connectScene(api);
  const shop = await product();
  const { body } = await exchange(shop, await code(shop, person));
  return { ...browserOf(api, person.client), ids: { connection: String(body.connection_id) } };
}

/** An owner of an organization, in which a developer has proposed a product. */
async function proposalViewer(api: TestApi): Promise<Seen> {
  const person = await api.person({ organization_name: "Analytical Engines" });
  const developer = await addMember(api, person.accountId, "developer");
  const { product, begun, deps } = connectScene(api);
  const { requestId } = await begun(await product());
  const member = { accountId: person.accountId, personId: developer.accountId };
  const { proposal } = await proposeConnect(deps(), member, requestId, { scopes: ["data:read"] });
  return { ...browserOf(api, person.client), ids: { proposal: proposal.proposal_id } };
}

/** A publisher with a customer. */
async function publisherViewer(api: TestApi): Promise<Seen> {
  const { person, platform } = await publisher(api);
  const { connectionId } = await connect(api, { platform });
  const ids = { platform: platform.platformId, connection: connectionId };
  return { ...browserOf(api, person.client), ids };
}

async function customerViewer(api: TestApi): Promise<Seen> {
  const seen = await viewerOf(api, "complete");
  const { product, begun } = connectScene(api);
  const { requestId } = await begun(await product());
  return { ...seen, ids: { request: requestId } };
}

/** A person with a history and a saved filter. */
async function filterViewer(api: TestApi): Promise<Seen> {
  const seen = await historyViewer(api);
  const body = { name: "Denials", query: "result=deny" };
  await seen.client.call("PATCH", "/v1/service/audit/filters", { body });
  return seen;
}

/** How to reach each page, by page id. A page that is missing here fails the tests of all pages. */
export const visits: Record<string, Reached> = {
  home: { viewer: "busy", path: "/console" },
  requests: { viewer: "busy", path: "/console/requests" },
  request_channel: { viewer: channelViewer, path: "/console/requests/channel" },
  request: { viewer: "busy", path: ({ request }) => `/console/requests/${request}` },
  try_it: { viewer: triedViewer, path: ({ cert }) => `/console/try?delegation=${cert}` },
  history: { viewer: filterViewer, path: "/console/history?result=deny" },
  history_export: { viewer: historyViewer, path: "/console/history/export?format=csv" },
  history_event: { viewer: historyViewer, path: ({ denied }) => `/console/history/${denied}` },
  history_receipt: { viewer: historyViewer, path: ({ denied }) => `/console/history/${denied}/receipt` },
  check_receipt: { viewer: "complete", path: "/console/receipts/check" },
  callback: {
    viewer: sendingViewer,
    path: (ids) => ofConnection(`callback?test=${ids.delivery}`)(ids),
  },
  webhook_secret: { viewer: sendingViewer, path: ofConnection("webhook-secret") },
  deliveries: { viewer: sendingViewer, path: ofConnection("deliveries") },
  delivery: {
    viewer: sendingViewer,
    path: (ids) => ofConnection(`deliveries/${ids.delivery}`)(ids),
  },
  recoveries: {
    viewer: sendingViewer,
    path: ofConnection("recoveries?look=1&since=2020-01-01T00%3A00&failed=on&rejected=on"),
  },
  platforms: { viewer: platformViewer, path: "/console/platforms" },
  new_platform: { viewer: platformViewer, path: "/console/platforms/new" },
  platform: { viewer: platformViewer, path: ({ platform }) => `/console/platforms/${platform}` },
  change_platform: {
    viewer: platformViewer,
    path: ({ platform }) => `/console/platforms/${platform}/change`,
  },
  signing_secret: {
    viewer: platformViewer,
    path: ({ platform }) => `/console/platforms/${platform}/signing-secret`,
  },
  accepted_identities: {
    viewer: platformViewer,
    path: ({ platform }) => `/console/platforms/${platform}/accepted`,
  },
  platform_adoption: {
    viewer: platformViewer,
    path: ({ platform }) => `/console/platforms/${platform}/adoption`,
  },
  connection: { viewer: platformViewer, path: ({ connection }) => `/console/connections/${connection}` },
  rotate_key: {
    viewer: platformViewer,
    path: ({ connection }) => `/console/connections/${connection}/rotate-key`,
  },
  change_connection: {
    viewer: platformViewer,
    path: ({ connection }) => `/console/connections/${connection}/change`,
  },
  remove_connection: {
    viewer: platformViewer,
    path: ({ connection }) => `/console/connections/${connection}/remove`,
  },
  clusters: { viewer: platformViewer, path: "/console/clusters" },
  cluster_namespace: { viewer: platformViewer, path: "/console/clusters/c1/team-a" },
  account: { viewer: organizationOf, path: "/console/account" },
  account_name: { viewer: organizationOf, path: "/console/account/name" },
  appearance: { viewer: "complete", path: "/console/appearance" },
  account_address: { viewer: organizationOf, path: "/console/account/address" },
  delete_account: { viewer: organizationOf, path: "/console/account/delete" },
  credit: { viewer: "busy", path: "/console/credit" },
  products: { viewer: connectedViewer, path: "/console/products" },
  product: { viewer: connectedViewer, path: ({ connection }) => `/console/products/${connection}` },
  proposals: { viewer: proposalViewer, path: "/console/proposals" },
  proposal: { viewer: proposalViewer, path: ({ proposal }) => `/console/proposals/${proposal}` },
  customers: { viewer: publisherViewer, path: ({ platform }) => `/console/platforms/${platform}/customers` },
  customer: {
    viewer: publisherViewer,
    path: ({ platform, connection }) => `/console/platforms/${platform}/customers/${connection}`,
  },
  connect_refused: { viewer: "nobody", path: "/console/connect-refused?reason=invalid_redirect_uri" },
  connect: { viewer: customerViewer, path: ({ request }) => `/console/connect/${request}` },
  organization: { viewer: organizationOf, path: "/console/organization" },
  organization_settings: { viewer: organizationOf, path: "/console/organization/settings" },
  organization_member: {
    viewer: organizationOf,
    path: ({ member }) => `/console/organization/members/${member}`,
  },
  organization_invite: { viewer: organizationOf, path: "/console/organization/invite" },
  organization_invitation: {
    viewer: organizationOf,
    path: ({ invitation }) => `/console/organization/invitations/${invitation}`,
  },
  organization_leave: { viewer: organizationOf, path: "/console/organization/leave" },
  accept_invitation: { viewer: organizationOf, path: "/console/invitations/accept" },
  organization_domains: { viewer: organizationOf, path: "/console/organization/domains" },
  organization_domain: {
    viewer: organizationOf,
    path: ({ domain }) => `/console/organization/domains/${domain}`,
  },
  activity: { viewer: organizationOf, path: "/console/activity" },
  activity_export: { viewer: organizationOf, path: "/console/activity/export?format=csv" },
  delegations: { viewer: delegationViewer, path: "/console/delegations" },
  delegation: { viewer: delegationViewer, path: ({ cert }) => `/console/delegations/${cert}` },
  revoke_delegation: { viewer: delegationViewer, path: ({ cert }) => `/console/delegations/${cert}/revoke` },
  revoke_delegations: { viewer: delegationViewer, path: "/console/delegations/revoke" },
  certificate_file: {
    viewer: delegationViewer,
    path: ({ cert }) => `/console/delegations/${cert}/certificate.json`,
  },
  agents: { viewer: delegationViewer, path: "/console/agents" },
  agent: { viewer: delegationViewer, path: ({ agent }) => `/console/agents/${agent}` },
  agent_adoption: { viewer: delegationViewer, path: ({ agent }) => `/console/agents/${agent}/adoption` },
  delete_agent: { viewer: delegationViewer, path: ({ agent }) => `/console/agents/${agent}/delete` },
  ask: { viewer: delegationViewer, path: ({ agent }) => `/console/agents/${agent}/ask` },
  sign_in: { viewer: "nobody", path: "/v1/auth/email/console?return_to=%2Fconsole" },
  enter_code: {
    viewer: "nobody",
    path: "/v1/auth/email/console/code?email=ada%40example.test&notice=code_sent",
  },
  renew: { viewer: "complete", path: "/v1/auth/refresh/console" },
  stop_mails: { viewer: "complete", path: "/console/stop-mails?token=none" },
  undo_address: { viewer: "complete", path: "/console/address/undo" },
  sign_out: { viewer: "complete", path: "/console/sign-out" },
  welcome_name: { viewer: "unnamed", path: "/console/welcome/name" },
  welcome_account: { viewer: "typeless", path: "/console/welcome/account" },
  service: { viewer: administratorViewer, path: "/console/service" },
  service_suspended: { viewer: administratorViewer, path: "/console/service/suspended" },
};

/** Returns the browser of a new viewer. A `busy` viewer has agents, requests and a history. */
export async function viewerOf(
  api: TestApi,
  viewer: Viewer | MakeViewer,
  texts: Partial<Texts> = {},
): Promise<Seen> {
  if (typeof viewer === "function") return viewer(api);
  if (viewer === "nobody") return { ...browserOf(api), ids: {} };
  if (viewer === "complete") return { ...browserOf(api, (await api.person()).client), ids: {} };
  if (viewer === "busy") return busyViewer(api, { ...ORDINARY, ...texts });
  const browser = browserOf(api);
  const name = await signIn(browser, `${viewer}-${randomUUID().slice(0, 8)}@example.test`);
  if (viewer === "typeless") await name.send("profile", { first_name: "Ada", last_name: "Lovelace" });
  return { ...browser, ids: {} };
}

/** Text from untrusted parties on pages. */
export type Texts = { scope: string; denied: string };

const ORDINARY: Texts = {
  scope: "custom:orders:refund",
  denied: "not_delegated",
};

async function busyViewer(api: TestApi, { scope, denied }: Texts): Promise<Seen> {
  const person = await api.person();
  const platform = await registerPlatform(person);
  const given = { person, platform };
  const { agentId } = await delegated(api, ["data:read", "payments:send"], given);
  const requestId = await selfRequest(person, platform.connectionId, {
    requested_scope: ["data:read", "custom:orders:refund"],
    expires_in: 86_400,
    constraints: [
      { type: "max_amount", max_amount: 500, currency: "EUR" },
      { type: "time_window", start: "08:00", end: "18:30", tz: "Europe/Berlin" },
      { type: "geo_circle", lat: 52.52, lon: 13.4, radius_m: 50_000 },
    ],
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

const readers = new WeakMap<TestApi, Map<Viewer | MakeViewer, Promise<Seen>>>();

/** Returns a viewer of a page, for tests that only read pages. Pages of the same kind share a viewer. */
export function readerOf(api: TestApi, id: string): Promise<Seen> {
  const known = readers.get(api) ?? new Map<Viewer | MakeViewer, Promise<Seen>>();
  readers.set(api, known);
  const viewer = visits[id]?.viewer ?? "nobody";
  const reader = known.get(viewer) ?? viewerOf(api, viewer);
  known.set(viewer, reader);
  return reader;
}

/** Returns the path under which a viewer reaches a page. */
export function pathOf(id: string, { ids }: Seen): string {
  const path = visits[id]?.path;
  if (path === undefined) throw new Error(`test/console/support/visits.ts does not say how to reach ${id}`);
  return typeof path === "string" ? path : path(ids);
}
