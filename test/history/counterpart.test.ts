import { describe, expect, test } from "vitest";
import { addSeconds } from "../../src/clock.ts";
import { prunePresented } from "../../src/proofs/prune.ts";
import { browserOf } from "../console/support/console.ts";
import { type Application, proofApi } from "../proofs/application.ts";

const PATH = "/v1/service/audit/personal";
const world = proofApi();

type Event = { event_id: string; counterpart_id?: string };

const listed = async ({ person }: Application, query = "") =>
  (await person.client.get(`${PATH}${query}`)).body.events as Event[];
const one = async ({ person }: Application, { event_id }: Event) =>
  (await person.client.get(`${PATH}/${event_id}`)).body as Event;
const presentedOf = (app: Application) => listed(app, "?event_type=proof.presented");
const decidedOf = (app: Application) => listed(app, "?decided=true");

/** Presents proofs one second apart, and decides on them in the reverse order. */
async function decidedInReverse(app: Application, count: number): Promise<void> {
  const proofs: unknown[] = [];
  for (let n = 0; n < count; n += 1) {
    proofs.push(await app.proof());
    world.api.clock.advance(1);
  }
  for (const proof of proofs.reverse()) {
    await app.verify(proof, { required_scope: proofs.indexOf(proof) % 2 === 0 ? "data:read" : "files:read" });
    world.api.clock.advance(1);
  }
}

describe("the history of a proof", () => {
  test("links each decision to exactly the proof that was presented, and each proof to its decision", async () => {
    const app = await world.application(["data:read"]);
    await decidedInReverse(app, 3);
    const [presented, decided] = [await presentedOf(app), await decidedOf(app)];
    // Both lists are newest first, and the decisions were made in the reverse order.
    const expected = presented.map(({ event_id }) => event_id).reverse();
    const proofs = await Promise.all(decided.map((event) => one(app, event)));
    expect(proofs.map(({ counterpart_id }) => counterpart_id)).toEqual(expected);
    const back = await Promise.all(presented.map((event) => one(app, event)));
    expect(back.map(({ counterpart_id }) => counterpart_id)).toEqual(
      decided.map(({ event_id }) => event_id).reverse(),
    );
  });

  test("links a proof that was sent as proof_ref", async () => {
    const app = await world.application(["data:read"]);
    const { proof_ref } = (await app.present()).body;
    await app.post("/v1/service/verify", { proof_ref, required_scope: "data:read" });
    const [decided] = await decidedOf(app);
    const [presented] = await presentedOf(app);
    expect((await one(app, decided as Event)).counterpart_id).toBe(presented?.event_id);
  });

  test("links a decision that follows its proof by minutes", async () => {
    const app = await world.application(["data:read"]);
    const proof = await app.proof();
    world.api.clock.advance(240);
    await app.verify(proof);
    const [[presented], [decided]] = [await presentedOf(app), await decidedOf(app)];
    expect((await one(app, decided as Event)).counterpart_id).toBe(presented?.event_id);
    expect((await one(app, presented as Event)).counterpart_id).toBe(decided?.event_id);
  });

  test("has no link in the account of an application that only decided", async () => {
    const [shop, stranger] = [await world.application(), await world.application()];
    const { challenge } = (await shop.post("/v1/service/challenge")).body;
    const { platform } = shop;
    const { body } = await stranger.present({ challenge, verifier_connection_id: platform.connectionId });
    await shop.verify(body.proof_bundle);
    const [decided] = await decidedOf(shop);
    expect(await one(shop, decided as Event)).not.toHaveProperty("counterpart_id");
  });

  test("has no link for a proof that is not decided, and none after the proof was deleted", async () => {
    const app = await world.application(["data:read"]);
    await app.verify(await app.proof());
    world.api.clock.advance(1);
    await app.proof();
    const [undecided] = await presentedOf(app);
    expect(await one(app, undecided as Event)).not.toHaveProperty("counterpart_id");
    await prunePresented({ db: world.api.db, now: addSeconds(world.api.clock.now(), 400) });
    const [decided] = await decidedOf(app);
    expect(await one(app, decided as Event)).not.toHaveProperty("counterpart_id");
  });

  test("leads from the page of a decision to the page of its proof, and back", async () => {
    const app = await world.application(["data:read"]);
    await app.verify(await app.proof());
    const browser = browserOf(world.api, app.person.client);
    const [event] = await decidedOf(app);
    const decision = await browser.open(`/console/history/${event?.event_id}`);
    expect(decision.words).toMatch(/By the proof See when it was shown sha256:[0-9a-f]{64}/);
    const proof = await browser.open(decision.element("proof", /<a href="([^"]*)">See when it was shown/));
    expect(proof.words).toContain(
      "A proof was shown An agent showed its delegation to an application, which then",
    );
    expect(proof.element("decision", /<a href="([^"]*)">See the decision/)).toBe(decision.path);
    await prunePresented({ db: world.api.db, now: addSeconds(world.api.clock.now(), 400) });
    const later = await browser.open(decision.path);
    expect(later.words).toMatch(/By the proof This history has no entry of it.* sha256:[0-9a-f]{64}/);
  });
});
