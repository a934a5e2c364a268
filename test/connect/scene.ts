import { createHash, randomBytes, randomUUID } from "node:crypto";
import { approveConnect, type ConnectChoice } from "../../src/connect/approve_connect.ts";
import type { Person, TestApi } from "../support/api.ts";
import type { HttpAnswer } from "../support/http.ts";
import { registerPlatform } from "../support/platform_world.ts";

export const ISSUER = "http://127.0.0.1";
export const CEILING = ["data:read", "data:share", "custom:shop:refund"];
const PLATFORMS = "/v1/service/platforms";
const OAUTH = "/v1/service/oauth";

export type Product = {
  owner: Person;
  platformId: string;
  connectionId: string;
  secret: string;
  webhookSecret: string;
  domain: string;
  redirect: string;
};

/** Functions that play a product, its customers and strangers at a test API. */
export function connectScene(api: TestApi) {
  const deps = () => ({ db: api.db, secretBox: api.secretBox, clock: api.clock, baseUrl: ISSUER });

  /** Registers a platform with one redirect URI, and publishes it. */
  async function product({
    isDraft = false,
    path: landing = "/connected",
    redirect: given = "",
  } = {}): Promise<Product> {
    const domain = `d${randomUUID()}.example.com`;
    const redirect = given || `https://${domain}${landing}`;
    const owner = await api.person({ organization_name: "Shop Works" });
    const words = { label: "Refund an order", description: "Pays money back" };
    const { platformId, connectionId, answer } = await registerPlatform(
      owner,
      { default_allowed_scopes: CEILING, scope_descriptions: { "custom:shop:refund": words } },
      PLATFORMS,
    );
    const path = `${PLATFORMS}/${platformId}`;
    const changed = await owner.client.call("PATCH", path, { body: { redirect_uris: [redirect] } });
    if (changed.status !== 200) throw new Error(changed.text);
    const secret = String(answer.body.signing_secret);
    const webhookSecret = String(answer.body.webhook_signing_secret);
    const made = { owner, platformId, connectionId, secret, webhookSecret, domain, redirect };
    if (!isDraft) await publish(made);
    return made;
  }

  async function publish({ owner, platformId, domain }: Product): Promise<void> {
    const now = api.clock.now();
    await api.db("organization_domains").insert({
      ...{ organization_id: owner.accountId, domain, token: "t", created_at: now },
      verified_at: now,
    });
    const published = await owner.client.post(`${PLATFORMS}/${platformId}/publish`);
    if (published.status !== 200) throw new Error(published.text);
  }

  const verifierOf = () => randomBytes(32).toString("base64url");
  const challengeOf = (verifier: string) => createHash("sha256").update(verifier).digest("base64url");

  /** Returns the parameters of an authorization request. */
  const parameters = ({ platformId, redirect }: Product, verifier: string) => ({
    response_type: "code",
    client_id: platformId,
    redirect_uri: redirect,
    state: "xyz",
    code_challenge: challengeOf(verifier),
    code_challenge_method: "S256",
  });

  const authorize = (query: Record<string, string>) =>
    api.client().get(`${OAUTH}/authorize?${new URLSearchParams(query)}`);
  const locationOf = ({ headers }: HttpAnswer) => headers.get("location") ?? "";
  /** Returns the id in the address of the page on which a person decides. */
  const requestIdOf = (answer: HttpAnswer) => locationOf(answer).split("/console/connect/")[1] ?? "";

  /** Starts a request, and returns its id with the verifier. */
  async function begun(shop: Product, more: Record<string, string> = {}) {
    const verifier = verifierOf();
    const answer = await authorize({ ...parameters(shop, verifier), ...more });
    if (answer.status !== 303) throw new Error(answer.text);
    return { verifier, requestId: requestIdOf(answer) };
  }

  const approve = (person: Person, requestId: string, choice: Partial<ConnectChoice> = {}) =>
    approveConnect(deps(), person, requestId, {
      accountId: person.accountId,
      scopes: ["data:read"],
      ...choice,
    });

  /** Lets a person connect up to the code. Returns what the product knows then. */
  async function code(shop: Product, person: Person, choice: Partial<ConnectChoice> = {}) {
    const { verifier, requestId } = await begun(shop);
    const url = new URL(await approve(person, requestId, choice));
    return { verifier, code: url.searchParams.get("code") ?? "", requestId };
  }

  const post = (path: string, form: Record<string, string>, headers: Record<string, string> = {}) =>
    api.client().call("POST", `${OAUTH}/${path}`, {
      body: new URLSearchParams(form).toString(),
      headers: { "content-type": "application/x-www-form-urlencoded", ...headers },
    });

  const exchange = (
    { platformId, secret, redirect }: Product,
    { code, verifier }: { code: string; verifier: string },
    more: Record<string, string> = {},
  ) =>
    post("token", {
      grant_type: "authorization_code",
      code,
      redirect_uri: redirect,
      code_verifier: verifier,
      client_id: platformId,
      client_secret: secret,
      ...more,
    });

  const customers = ({ platformId }: Pick<Product, "platformId">) =>
    api.db("connections").where({ product_id: platformId });

  return {
    ...{ deps, product, publish, parameters, verifierOf, challengeOf, authorize, locationOf, requestIdOf },
    ...{ begun, approve, code, post, exchange, customers },
  };
}
