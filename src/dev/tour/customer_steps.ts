import { createHash, randomBytes } from "node:crypto";
import {
  type Application,
  call,
  delivered,
  expectDecision,
  expectEqual,
  expectError,
  proofOf,
  Surprise,
  verify,
} from "./calls.ts";
import { findInMailbox, signIn } from "./person.ts";
import { type Customer, type TourState, type TourStep, type TourWorld, USED_SCOPE } from "./steps.ts";

const COMPANY = "Corner Bakery";
/** The mailbox of the company's owner. The steps read it, so they need the API's development mailbox. */
const COMPANY_EMAIL = "bakery@example.test";
const SESSION = "/v1/auth/session";
const ORGANIZATION = "/v1/service/organization";
const INVITATION_CODE = /\/console\/invitations\/accept#code=(\S+)/;
/** The tour plays the browser, so nothing listens there. A redirect URI of a draft may be on this machine. */
const REDIRECT_URI = "http://127.0.0.1:3000/connected";
const CALL_TIMEOUT_MS = 10_000;

type Session = { account_id: string; accounts: { account_id: string }[] };

/**
 * Another company exists, and the person acts for it. Only the publisher's own people can connect to a draft,
 * so the company makes the person its approver.
 */
const companyJoined: TourStep = {
  name: "company_joined",
  title: `Another company, ${COMPANY}, makes the person its approver`,
  async run({ baseUrl, email }, state) {
    const { person } = state;
    const { person: founder } = await signIn(baseUrl, COMPANY_EMAIL, undefined, COMPANY);
    const { account_id: account } = await founder.call<Session>("GET", SESSION);
    state.customer = { account } as Customer;
    const { accounts } = await person.call<Session>("GET", SESSION);
    if (accounts.some(({ account_id }) => account_id === account)) return `${email} is its approver already`;
    await founder.call("POST", `${ORGANIZATION}/members`, { email, role: "approver" });
    const token = await findInMailbox(person, INVITATION_CODE);
    await person.call("POST", `${ORGANIZATION}/invitations/accept`, { token });
    return `${COMPANY_EMAIL} invited ${email}`;
  },
};

type Connected = { access_token: string; connection_id: string; org_name: string; scope: string };

const companyConnected: TourStep = {
  name: "company_connected",
  title: `${COMPANY} connects to the platform by OAuth, to test the draft`,
  async run(world, state) {
    const { baseUrl } = world;
    const [secret, verifier] = [randomBytes(32), randomBytes(32)].map((bytes) => bytes.toString("base64url"));
    const client = await clientOf(world, state);
    const address = await decided(world, state, {
      response_type: "code",
      client_id: client.id,
      redirect_uri: client.redirectUri,
      scope: USED_SCOPE,
      state: String(secret),
      code_challenge: createHash("sha256").update(String(verifier)).digest("base64url"),
      code_challenge_method: "S256",
    });
    expectEqual("the state", address.searchParams.get("state"), secret);
    expectEqual("the issuer", address.searchParams.get("iss"), await issuerOf(baseUrl));
    const connected = await exchange(baseUrl, client, {
      grant_type: "authorization_code",
      code: address.searchParams.get("code") ?? "",
      redirect_uri: client.redirectUri,
      code_verifier: String(verifier),
    });
    const { connection_id: connectionId, access_token: apiKey, org_name, scope } = connected;
    const application: Application = { baseUrl, connectionId, apiKey, agentId: "" };
    state.customer = { ...state.customer, application };
    return `connection ${connectionId} of ${org_name}, at most ${scope}`;
  },
};

type Client = { id: string; secret: string; redirectUri: string };

/** Returns the platform as a client of OAuth. Registers a redirect URI if the platform has none. */
async function clientOf({ quickstart }: TourWorld, { person }: TourState): Promise<Client> {
  const credentials = await quickstart.credentials();
  if (credentials === undefined) throw new Surprise("The operator has published no credentials");
  const { platform_id: id, signing_secret: secret } = credentials;
  const path = `/v1/service/platforms/${id}`;
  const { redirect_uris } = await person.call<{ redirect_uris: string[] }>("GET", path);
  const [redirectUri = REDIRECT_URI] = redirect_uris;
  if (redirect_uris.length === 0) await person.call("PATCH", path, { redirect_uris: [redirectUri] });
  return { id, secret, redirectUri };
}

async function issuerOf(baseUrl: string): Promise<string> {
  const address = new URL("/.well-known/oauth-authorization-server", baseUrl);
  const metadata = await fetch(address, { signal: AbortSignal.timeout(CALL_TIMEOUT_MS) });
  return ((await metadata.json()) as { issuer: string }).issuer;
}

/** Begins at the product, and approves for the company. Returns the address to which the browser returns. */
async function decided(
  { baseUrl }: TourWorld,
  { person, customer: { account } }: TourState,
  parameters: Record<string, string>,
): Promise<URL> {
  const authorize = new URL(`/v1/service/oauth/authorize?${new URLSearchParams(parameters)}`, baseUrl);
  const begun = await fetch(authorize, { redirect: "manual", signal: AbortSignal.timeout(CALL_TIMEOUT_MS) });
  const [, id] = begun.headers.get("location")?.split("/console/connect/") ?? [];
  if (id === undefined) throw new Surprise(`authorize answered ${begun.status}`);
  const path = `/v1/service/connect-requests/${id}`;
  const { scopes, consent_hash } = await person.call<{ scopes: string[]; consent_hash: string }>(
    "GET",
    path,
    undefined,
    account,
  );
  const { redirect_to } = await person.call<{ redirect_to: string }>(
    "POST",
    `${path}/approve`,
    { scopes, consent_hash },
    account,
  );
  return new URL(redirect_to);
}

async function exchange(
  baseUrl: string,
  { id, secret }: Client,
  form: Record<string, string>,
): Promise<Connected> {
  const answer = await fetch(new URL("/v1/service/oauth/token", baseUrl), {
    method: "POST",
    body: new URLSearchParams({ ...form, client_id: id, client_secret: secret }),
    signal: AbortSignal.timeout(CALL_TIMEOUT_MS),
  });
  if (!answer.ok) throw new Surprise(`the token endpoint answered ${answer.status} ${await answer.text()}`);
  return (await answer.json()) as Connected;
}

const companyLent: TourStep = {
  name: "company_lent",
  title: `${COMPANY} lends ${USED_SCOPE} to an agent of the platform`,
  async run(_, state) {
    const { person, customer } = state;
    const connection = `/v1/service/connections/${customer.application.connectionId}`;
    const made = await call(customer.application, `${connection}/agents`, {
      name: "Shop bot",
      agent_type: "api_agent",
    });
    const application = { ...customer.application, agentId: String(made.body.agent_id) };
    const asked = await call(application, `${connection}/delegation-requests`, {
      agent_id: application.agentId,
      requested_scope: [USED_SCOPE],
      purpose: "Read what the bakery ordered",
    });
    if (asked.status !== 201) throw new Surprise(`asking answered ${asked.status}`);
    const path = `/v1/service/delegations/requests/${asked.body.request_id}/approve`;
    const { cert_id } = await person.call<{ cert_id: string }>(
      "POST",
      path,
      { approved_scope: [USED_SCOPE] },
      customer.account,
    );
    const proof = await proofOf(application, cert_id, USED_SCOPE);
    const answer = await verify(application, proof);
    const spare = await proofOf(application, cert_id, USED_SCOPE);
    state.customer = { ...customer, application, proof: spare };
    return `${expectDecision(answer, "allow", "authorized")}, receipt ${String(answer.body.receipt_hash)}`;
  },
};

const companyLeft: TourStep = {
  name: "company_left",
  title: `${COMPANY} ends the connection, and the application hears of it`,
  async run(world, { person, customer, declaredCallback }) {
    const { account, application, proof } = customer;
    const { connectionId } = application;
    const path = `/v1/service/connected-products/${connectionId}`;
    await person.call("DELETE", path, undefined, account);
    const refused = expectError(await verify(application, proof), 401, "invalid_api_key");
    const event = await delivered(world, { id: connectionId, declaredCallback }, "connection.removed");
    return `${event}; a proof made before gets ${refused}`;
  },
};

/**
 * The steps in which another company connects to the platform, lends, gets a decision and leaves. They follow
 * the steps of the tour, and need the API's development mailbox.
 */
export const customerSteps: readonly TourStep[] = [companyJoined, companyConnected, companyLent, companyLeft];
