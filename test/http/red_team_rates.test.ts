import { describe, expect, test } from "vitest";
import { prunePresented } from "../../src/proofs/prune.ts";
import { type Application, errorOf, proofApi } from "../proofs/application.ts";
import { question } from "../proofs/questions.ts";
import type { HttpAnswer } from "../support/http.ts";

const world = proofApi({
  config: { PRESENT_PER_MINUTE: 6, AGENTS_PER_DAY: 3, REFUSED_PROOFS_PER_MINUTE: 20 },
});
const { application } = world;

type Bundle = { challenge_sig: { ed25519: string } };

/** Forged proofs are well-formed and for a valid challenge, but have invalid signatures. */
async function forger(app: Application, changes: Record<string, unknown> = {}) {
  const forged = await forge(app, changes);
  return () => app.verify(forged);
}

async function forge(app: Application, changes: Record<string, unknown> = {}): Promise<Bundle> {
  const proof = (await app.proof()) as Bundle;
  const challenge_sig = { ...proof.challenge_sig, ed25519: Buffer.alloc(64, 1).toString("base64") };
  return { ...proof, challenge_sig, ...changes };
}

async function repeat(times: number, call: () => Promise<HttpAnswer>): Promise<string[]> {
  const seen: string[] = [];
  for (let n = 0; n < times; n += 1) {
    const answer = await call();
    seen.push(answer.status < 400 ? String(answer.status) : errorOf(answer));
  }
  return seen;
}

function countsOf(texts: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const text of texts) counts[text] = (counts[text] ?? 0) + 1;
  return counts;
}

const of = (text: string, times: number) => Array.from({ length: times }, () => text);

describe("one API key that presents proofs in a loop", () => {
  test("gets 429 at its rate limit, and may continue as time passes", async () => {
    const app = await application();
    expect(await repeat(6, app.present)).toEqual(of("200", 6));
    const refused = await app.present();
    expect(errorOf(refused)).toBe("429 rate_limited");
    expect(refused.headers.get("retry-after")).toBe("10");
    expect(refused.headers.get("ratelimit")).toBe('"present";r=0;t=60');
    world.api.clock.advance(9.999);
    expect(errorOf(await app.present())).toBe("429 rate_limited");
    world.api.clock.advance(0.001);
    expect((await app.present()).status).toBe(200);
    expect(errorOf(await app.present())).toBe("429 rate_limited");
  });

  test("receives the number of remaining calls with each answer", async () => {
    const app = await application();
    const { headers } = await app.present();
    expect(headers.get("ratelimit-policy")).toBe('"present";q=6;w=60');
    expect(headers.get("ratelimit")).toBe('"present";r=5;t=10');
  });

  test("does not affect other keys of the same account until the account reaches four times the key's rate limit", async () => {
    const person = await world.api.person({ organization_name: "Shops" });
    const apps = await Promise.all(Array.from({ length: 5 }, () => application(undefined, person)));
    const stranger = await application();
    for (const app of apps.slice(0, 4)) expect(await repeat(7, app.present)).toContain("429 rate_limited");
    expect(errorOf(await (apps[4] as Application).present())).toBe("429 rate_limited");
    expect((await stranger.present()).status).toBe(200);
  });

  test("does not use up the account's rate limit with refused calls", async () => {
    const person = await world.api.person({ organization_name: "Shops" });
    const [app, other] = [await application(undefined, person), await application(undefined, person)];
    expect((await repeat(30, app.present)).slice(6)).toEqual(of("429 rate_limited", 24));
    expect((await other.present()).status).toBe(200);
  });

  test("gains nothing from a new key for the same connection", async () => {
    const app = await application();
    expect(await repeat(6, app.present)).toEqual(of("200", 6));
    const path = `/v1/service/connections/${app.platform.connectionId}`;
    const { body } = await app.person.client.post(`${path}/rotate-key`);
    const keyed = { "x-service-api-key": String(body.api_key) };
    const challenge = (await app.post("/v1/service/challenge", undefined, keyed)).body.challenge;
    const again = await app.post(`${path}/agents/${app.agentId}/present`, { challenge }, keyed);
    expect(errorOf(again)).toBe("429 rate_limited");
  });

  test("leaves no database rows except decisions once the challenges have expired", async () => {
    const app = await application();
    expect((await app.verify(await app.proof())).body.decision).toBe("allow");
    await app.present();
    const types = async () =>
      (
        await world.api.db("audit_events").where({ account_id: app.person.accountId }).pluck("event_type")
      ).sort();
    const prune = () => prunePresented({ db: world.api.db, now: world.api.clock.now(), batch: 2 });
    world.api.clock.advance(300);
    await prune();
    expect(await types()).toEqual(["proof.presented", "proof.presented", "proof.verified"]);
    world.api.clock.advance(0.001);
    expect(await prune()).toBeGreaterThanOrEqual(2);
    expect(await types()).toEqual(["proof.verified"]);
  });

  test("leaves no database rows that a lock or a dying process could keep forever", async () => {
    const app = await application();
    await app.present();
    await app.present();
    const left = () =>
      world.api.db("audit_events").where({ account_id: app.person.accountId, event_type: "proof.presented" });
    world.api.clock.advance(301);
    const prune = (signal?: AbortSignal) =>
      prunePresented({ db: world.api.db, now: world.api.clock.now(), ...(signal && { signal }) });
    expect(await prune(AbortSignal.abort())).toBe(0);
    const [held] = await left();
    const other = await world.api.db.transaction();
    await other("audit_events")
      .where({ event_id: held?.event_id ?? "" })
      .forUpdate();
    await prune();
    expect(await left()).toEqual([held]);
    await other.commit();
    await prune();
    expect(await left()).toEqual([]);
  });
});

describe("one API key that creates agents in a loop", () => {
  const make = (app: Application, key?: string) => () =>
    app.post(
      `/v1/service/connections/${app.platform.connectionId}/agents`,
      { name: "bot", agent_type: "robot" },
      key === undefined ? {} : { "idempotency-key": key },
    );

  test("reaches its daily limit, and repetitions with an idempotency key do not count", async () => {
    const app = await application([]);
    expect(await repeat(4, make(app, "k-1"))).toEqual(of("201", 4));
    const last = await make(app)();
    expect(last.status).toBe(201);
    expect(last.headers.get("ratelimit-policy")).toBe('"agents";q=3;w=86400');
    expect(last.headers.get("ratelimit")).toMatch(/^"agents";r=0;t=86\d\d\d$/);
    const refused = await make(app)();
    expect(errorOf(refused)).toBe("429 rate_limited");
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(86_000);
    expect(await world.api.db("agents").where({ connection_id: app.platform.connectionId })).toHaveLength(3);
  });

  test("shares its daily limit with the account's people, but nobody can use up another account's limit", async () => {
    const app = await application([]);
    const path = "/v1/service/agents";
    const body = { connection_id: app.platform.connectionId, name: "bot", agent_type: "robot" };
    const stranger = await world.api.person();
    const foreign = () => stranger.client.post(path, body);
    expect(await repeat(5, foreign)).toEqual(of("404 not_found", 5));
    const own = () => app.person.client.post(path, body);
    expect(await repeat(2, own)).toEqual(of("201", 2));
    expect(await repeat(2, make(app))).toEqual(of("429 rate_limited", 2));
    expect(errorOf(await own())).toBe("429 rate_limited");
    const withoutToken = { headers: { "x-service-csrf": "" } };
    expect(errorOf(await app.person.client.post(path, body, withoutToken))).toMatch(/^403 /);
  });

  test("may create more the next day", async () => {
    const app = await application([]);
    await repeat(3, make(app));
    await world.api.db("rate_limits").update({ expire: Date.now() - 1 });
    expect((await make(app)()).status).toBe(201);
  });

  test("does not use up its rate limit when the creation of an agent fails", async () => {
    const app = await application([]);
    world.api.vault.failure = new Error("away");
    expect(await repeat(5, make(app))).toEqual(of("500 internal", 5));
    world.api.vault.failure = undefined;
    const keys = [`agents_connection:${app.platform.connectionId}`, `agents_account:${app.person.accountId}`];
    expect(await world.api.db("rate_limits").whereIn("key", keys).pluck("points")).toEqual([1, 1]);
    expect(await repeat(3, make(app))).toEqual(["201", "201", "429 rate_limited"]);
  });

  test("reaches a limit for all connections of the account, and that refusal does not count toward the connection's limit", async () => {
    const person = await world.api.person({ organization_name: "Shops" });
    const apps = await Promise.all(Array.from({ length: 5 }, () => application([], person)));
    for (const app of apps.slice(0, 4)) await repeat(2, make(app));
    const fifth = apps[4] as Application;
    expect(errorOf(await make(fifth)())).toBe("429 rate_limited");
    const key = `agents_connection:${fifth.platform.connectionId}`;
    expect((await world.api.db("rate_limits").where({ key }).first())?.points).toBe(1);
  });
});

describe("one API key that verifies forged proofs", () => {
  test("reaches its limit before signatures are checked, and may continue as time passes", async () => {
    const app = await application();
    const forge = await forger(app);
    expect(await repeat(21, forge)).toEqual([...of("400 invalid_proof", 20), "429 rate_limited"]);
    world.api.clock.advance(2.999);
    expect(errorOf(await forge())).toBe("429 rate_limited");
    world.api.clock.advance(0.001);
    expect(errorOf(await forge())).toBe("400 invalid_proof");
  });

  test("gains nothing from a hundred proofs at the same time, in one call or in many", async () => {
    const app = await application();
    const forged = await forge(app);
    const boxed = await app.post("/access/v1/evaluations", {
      ...question(app),
      context: { proof_bundle: forged },
      evaluations: of("", 100).map(() => ({})),
    });
    const reasons = (boxed.body.evaluations as { context: { reason: string } }[]).map(
      ({ context }) => context.reason,
    );
    expect(countsOf(reasons)).toEqual({ invalid_proof: 20, rate_limited: 80 });
    world.api.clock.advance(30);
    const answers = await Promise.all(of("", 40).map(() => app.verify(forged)));
    expect(countsOf(answers.map(errorOf))).toEqual({ "400 invalid_proof": 10, "429 rate_limited": 30 });
  });

  test("does not exclude valid proofs that arrive together, even if only one more refusal is allowed", async () => {
    const app = await application();
    const good = await Promise.all([app.proof(), app.proof(), app.proof()]);
    expect(await repeat(19, await forger(app))).toEqual(of("400 invalid_proof", 19));
    const answers = await Promise.all(good.map((proof) => app.verify(proof)));
    expect(answers.map(({ body }) => body.decision)).toEqual(of("allow", 3));
  });

  test("does not affect other applications, which still get decisions", async () => {
    const [app, other] = [await application(), await application()];
    expect((await repeat(21, await forger(other))).at(-1)).toBe("429 rate_limited");
    expect((await app.verify(await app.proof())).body.decision).toBe("allow");
  });

  test("cannot be used by an attacker against the agents that an application knows", async () => {
    const app = await application();
    const good = await app.proof();
    expect((await app.verify(await app.proof())).body.decision).toBe("allow");
    const forge = await forger(app, { agent_id: "0".repeat(32) });
    expect((await repeat(30, forge)).at(-1)).toBe("429 rate_limited");
    expect((await app.verify(good)).body.decision).toBe("allow");
  });

  test("has a lower limit for each known agent that the proofs name, and does not affect other agents", async () => {
    const app = await application();
    const forge = await forger(app);
    expect((await app.verify(await app.proof())).body.decision).toBe("allow");
    expect(await repeat(3, forge)).toEqual([...of("400 invalid_proof", 2), "429 rate_limited"]);
    const unknown = await forger(app, { agent_id: "0".repeat(32) });
    expect(errorOf(await unknown())).toBe("400 invalid_proof");
  });

  test("does not exclude proofs that a known agent signed", async () => {
    const app = await application();
    const forge = await forger(app);
    expect((await app.verify(await app.proof())).body.decision).toBe("allow");
    expect((await repeat(30, forge)).slice(2)).toEqual(of("429 rate_limited", 28));
    for (let n = 0; n < 3; n += 1) expect((await app.verify(await app.proof())).body.decision).toBe("allow");
  });

  test("gains nothing from a known agent's old proofs, proofs for others, or proofs signed in the agent's name", async () => {
    const [app, other] = [await application(), await application()];
    const [old, elsewhere] = [await app.proof(), await presentFor(app, other)];
    world.api.clock.advance(301);
    expect((await app.verify(await app.proof())).body.decision).toBe("allow");
    const inItsName = { ...(await presentFor(other, app)), agent_id: app.agentId };
    for (const seen of [old, elsewhere, inItsName]) {
      expect((await repeat(20, () => app.verify(seen))).at(-1)).toBe("429 rate_limited");
    }
    expect((await app.verify(await app.proof())).body.decision).toBe("allow");
  });

  async function presentFor(app: Application, other: Application): Promise<Bundle> {
    const { challenge } = (await other.post("/v1/service/challenge")).body;
    const verifier = { verifier_connection_id: other.platform.connectionId };
    return (await app.present({ challenge, ...verifier })).body.proof_bundle as Bundle;
  }

  test("reaches a limit for all connections of the account together, without affecting other accounts", async () => {
    const person = await world.api.person({ organization_name: "Shops" });
    const apps = await Promise.all(Array.from({ length: 5 }, () => application(undefined, person)));
    for (const app of apps.slice(0, 4)) {
      expect(await repeat(20, await forger(app))).toEqual(of("400 invalid_proof", 20));
    }
    expect(errorOf(await (await forger(apps[4] as Application))())).toBe("429 rate_limited");
    expect(errorOf(await (await forger(await application()))())).toBe("400 invalid_proof");
  });

  test("makes an agent known only at the application that allowed this agent", async () => {
    const person = await world.api.person({ organization_name: "Shops" });
    const [app, other] = [await application(undefined, person), await application(undefined, person)];
    expect((await app.verify(await app.proof())).body.decision).toBe("allow");
    const forge = await forger(other, { agent_id: app.agentId });
    expect(await repeat(3, forge)).toEqual(of("400 invalid_proof", 3));
  });

  test("does not make an agent known if the agent's proofs were only denied", async () => {
    const app = await application();
    const denied = await app.verify(await app.proof(), { required_scope: "data:share" });
    expect(denied.body.decision).toBe("deny");
    expect(await repeat(3, await forger(app))).toEqual(of("400 invalid_proof", 3));
  });

  test("uses up its rate limit with spent challenges too, but never with decisions", async () => {
    const app = await application();
    const proof = await app.proof();
    for (const each of [proof, await app.proof(), await app.proof(), await app.proof()]) {
      expect((await app.verify(each)).body.decision).toBe("allow");
    }
    expect(await repeat(5, () => app.verify(proof))).toEqual([
      ...of("400 invalid_challenge", 4),
      "429 rate_limited",
    ]);
  });
});
