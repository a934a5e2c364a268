import { beforeEach, describe, expect, test } from "vitest";
import { createTokenReviews, type TokenReviews } from "../../src/clusters/token_reviews.ts";
import type { TrustedCluster } from "../../src/clusters/trusted_clusters.ts";
import { type SteeredClock, steeredClock } from "../support/clock.ts";
import { noObjects } from "../support/fake_cluster.ts";

const OPERATOR = "system:serviceaccount:deputize-system:deputize-operator";
const GOOD = { authenticated: true, user: { username: OPERATOR }, audiences: ["deputize-api"] };
/** Returns a token in Kubernetes' form with this expiry. The tests never check its signature. */
const tokenUntil = (exp: number) =>
  ["e30", Buffer.from(JSON.stringify({ exp })).toString("base64url"), "sig"].join(".");

describe("the reviews of operators' tokens", () => {
  let clock: SteeredClock;
  let reviews: TokenReviews;
  let asked: string[];
  let answer: (token: string) => unknown;

  beforeEach(() => {
    clock = steeredClock(new Date("2026-01-01T00:00:00Z"));
    reviews = createTokenReviews(clock);
    asked = [];
    answer = () => GOOD;
  });

  const cluster: TrustedCluster = {
    operator: OPERATOR,
    client: {
      ...noObjects,
      authentication: {
        async createTokenReview({ body: { spec } }) {
          expect(spec.audiences).toEqual(["deputize-api"]);
          asked.push(spec.token ?? "");
          return { spec, status: (await answer(spec.token ?? "")) as object };
        },
      },
    },
  };
  const isOperator = (token = "t", id = "one") => reviews.isOperator(id, cluster, token);

  test("accept the configured operator's token for this API's audience", async () => {
    expect(await isOperator()).toBe(true);
  });

  test.each<[string, object]>([
    ["is not authenticated", { ...GOOD, authenticated: false }],
    ["has no authentication result", { user: GOOD.user, audiences: GOOD.audiences }],
    ["is another service account's", { ...GOOD, user: { username: "system:serviceaccount:shop:default" } }],
    ["has no user", { ...GOOD, user: {} }],
    ["is for another audience", { ...GOOD, audiences: ["https://kubernetes.default.svc"] }],
    ["is for no audience", { ...GOOD, audiences: undefined }],
  ])("reject a token that %s", async (_, status) => {
    answer = () => status;
    expect(await isOperator()).toBe(false);
  });

  test("reject a token while the cluster does not answer, and ask the cluster again later", async () => {
    answer = () => Promise.reject(new Error("away"));
    await expect(isOperator()).rejects.toMatchObject({
      code: "unavailable",
      headers: { "retry-after": "2" },
    });
    answer = () => GOOD;
    expect(await isOperator()).toBe(true);
    reviews = createTokenReviews(clock);
    answer = () => "nonsense";
    await expect(isOperator()).rejects.toMatchObject({ code: "unavailable" });
  });

  test("cache a good answer for a minute, renew it after half a minute, and cache a bad answer for ten seconds", async () => {
    await isOperator();
    clock.advance(29);
    await isOperator();
    expect(asked).toHaveLength(1);
    clock.advance(1);
    expect(await isOperator()).toBe(true);
    expect(asked).toHaveLength(2);
    answer = () => ({ authenticated: false });
    await new Promise(setImmediate);
    clock.advance(60);
    expect(await isOperator()).toBe(false);
    clock.advance(9);
    await isOperator();
    expect(asked).toHaveLength(3);
    clock.advance(1);
    await isOperator();
    expect(asked).toHaveLength(4);
  });

  test("cache an answer no longer than its token is valid", async () => {
    const token = tokenUntil(clock.now().getTime() / 1000 + 20);
    expect(await isOperator(token)).toBe(true);
    answer = () => ({ authenticated: false });
    clock.advance(19);
    expect(await isOperator(token)).toBe(true);
    clock.advance(1);
    expect(await isOperator(token)).toBe(false);
  });

  test("keep the answers of different clusters separate", async () => {
    await isOperator("t", "one");
    answer = () => ({ authenticated: false });
    expect(await isOperator("t", "two")).toBe(false);
  });

  test("share one call between concurrent reviews of the same token", async () => {
    expect(await Promise.all(Array.from({ length: 20 }, () => isOperator()))).not.toContain(false);
    expect(asked).toHaveLength(1);
  });

  test("limit concurrent calls for bad tokens, so that they do not delay the operator's own token", async () => {
    await isOperator("own");
    let release: (() => void) | undefined;
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    answer = () => gate.then(() => ({ authenticated: false }));
    const flood = Array.from({ length: 50 }, (_, n) => isOperator(`bad-${n}`).catch(({ code }) => code));
    await new Promise(setImmediate);
    expect(asked).toHaveLength(9);
    clock.advance(45);
    expect(await isOperator("own")).toBe(true);
    release?.();
    const seen = await Promise.all(flood);
    expect(seen.filter((each) => each === "unavailable")).toHaveLength(42);
    expect(await isOperator("x".repeat(8_193))).toBe(false);
  });

  test("keep a good token in the cache despite many bad tokens, and renew it meanwhile", async () => {
    await isOperator("own");
    answer = (token) => (token === "own" ? GOOD : { authenticated: false });
    for (let n = 0; n < 1_100; n += 1) await isOperator(`bad-${n}`);
    asked = [];
    expect(await isOperator("own")).toBe(true);
    expect(asked).toEqual([]);
    clock.advance(61);
    const release = Promise.withResolvers<void>();
    answer = (token) => (token === "own" ? GOOD : release.promise.then(() => ({ authenticated: false })));
    const flood = Array.from({ length: 8 }, (_, n) => isOperator(`slow-${n}`));
    expect(await isOperator("own")).toBe(true);
    release.resolve();
    await Promise.all(flood);
  });

  test("limit the cache of bad tokens", async () => {
    answer = () => ({ authenticated: false });
    for (let n = 0; n < 1_001; n += 1) await isOperator(`bad-${n}`);
    asked = [];
    await isOperator("bad-1");
    await isOperator("bad-0");
    expect(asked).toEqual(["bad-0"]);
  });

  test("ask the cluster again after the clock was set back", async () => {
    await isOperator();
    clock.advance(-3_600);
    await isOperator();
    expect(asked).toHaveLength(2);
  });

  test("keep an earlier good answer while its renewal fails", async () => {
    await isOperator();
    answer = () => Promise.reject(new Error("away"));
    clock.advance(30);
    expect(await isOperator()).toBe(true);
    await new Promise(setImmediate);
    clock.advance(30);
    await expect(isOperator()).rejects.toMatchObject({ code: "unavailable" });
  });
});
