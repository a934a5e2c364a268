import { beforeAll, expect } from "vitest";
import type { MemberRole } from "../../src/route.ts";
import type { Person, TestApi } from "../support/api.ts";
import type { HttpAnswer } from "../support/http.ts";
import { actingFor, addMember } from "../support/members.ts";
import { errorCode } from "../support/platform_world.ts";
import { connectScene, type Product } from "./scene.ts";

export const ORGANIZATION = "/v1/service/organization";
export const PROPOSALS = "/v1/service/connect-proposals";
export const DAY = 24 * 3_600;

/** A member's calls for an organization. */
export type Acting = ReturnType<typeof actingFor>;

/** A proposal as an answer shows it. */
export type Shown = {
  proposal_id: string;
  consent_hash: string;
  state: string;
  platform: { platform_id: string };
};

/** Returns an answer's status and error code. */
export const seen = (answer: HttpAnswer) => [answer.status, errorCode(answer)];

/** Functions that play the members of an organization, who propose and approve products. */
export function proposalScene(api: TestApi) {
  const scene = connectScene(api);
  const { product, begun, exchange } = scene;
  let shop: Product;
  beforeAll(async () => {
    shop = await product();
  });

  /** An organization with a member of each role. */
  async function organization() {
    const owner = await api.person({ organization_name: "Analytical Engines" });
    const id = owner.accountId;
    const joined = async (role: MemberRole) => {
      const person = await addMember(api, id, role);
      return { person, acting: actingFor(person, id) };
    };
    const [approver, developer, auditor] = [
      await joined("approver"),
      await joined("developer"),
      await joined("auditor"),
    ];
    const rule = (connecting: string) => owner.client.call("PATCH", ORGANIZATION, { body: { connecting } });
    return { id, owner, approver, developer, auditor, rule };
  }

  /** Begins a request at a product, and reads it for an organization. */
  async function read(acting: Acting, of = shop, more: Record<string, string> = {}) {
    const { verifier, requestId } = await begun(of, more);
    const path = `/v1/service/connect-requests/${requestId}`;
    const { body } = await acting.get(path);
    const decide = (verb: string, fields: object = {}) =>
      acting.post(`${path}/${verb}`, { scopes: ["data:read"], consent_hash: body.consent_hash, ...fields });
    return { path, verifier, body, decide };
  }

  async function propose(acting: Acting, scopes = ["data:read", "custom:shop:refund"], of = shop) {
    const answer = await (await read(acting, of)).decide("propose", { scopes });
    if (answer.status !== 200) throw new Error(answer.text);
    const { items } = (await acting.get(PROPOSALS)).body as { items: Shown[] };
    return { answer, proposal: items.find(({ platform }) => platform.platform_id === of.platformId)! };
  }

  const approve = ({ post: send }: Acting, { proposal_id, consent_hash }: Shown, scopes = ["data:read"]) =>
    send(`${PROPOSALS}/${proposal_id}/approve`, { scopes, consent_hash });

  /** Connects as far as the exchange. Returns the answers of the decision and of the exchange. */
  async function connect(acting: Acting, scopes = ["data:read"], of = shop, fields: object = {}) {
    const { verifier, body, decide } = await read(acting, of);
    const decided = await decide("approve", { scopes, ...fields });
    const code = URL.parse(String(decided.body.redirect_to))?.searchParams.get("code") ?? "";
    return { shown: body, decided, verifier, code, exchanged: () => exchange(of, { code, verifier }) };
  }

  /** Lets time pass, after which people sign in again. */
  async function later(seconds: number, ...people: Person[]) {
    api.clock.advance(seconds);
    for (const { client, email } of people) await client.signIn(email);
  }

  const stored = (accountId: string) => api.db("connect_proposals").where({ account_id: accountId });

  /** An organization with an approval of the shop, and the approval. */
  async function approved(scopes = ["data:read", "custom:shop:refund"], of = shop) {
    const team = await organization();
    const { proposal } = await propose(team.developer.acting, scopes, of);
    const answer = await approve(team.approver.acting, proposal, scopes);
    if (answer.status !== 200) throw new Error(answer.text);
    return { ...team, proposal, answer };
  }

  /** Expects that a developer cannot connect any longer, neither from now on nor with a code. */
  async function expectEnded(acting: Acting, code: { exchanged(): Promise<HttpAnswer> }, of = shop) {
    const { shown, decided } = await connect(acting, ["data:read"], of);
    expect([shown.permission, ...seen(decided)]).toEqual(["propose", 403, "forbidden"]);
    expect((await code.exchanged()).body.error).toBe("invalid_grant");
  }

  return {
    ...scene,
    ...{ organization, read, propose, approve, connect, later, stored, approved, expectEnded },
    /** The product of the calls that name none. It exists while tests run. */
    get shop() {
      return shop;
    },
  };
}
