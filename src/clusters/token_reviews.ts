import { hash } from "node:crypto";
import { z } from "zod";
import type { Clock } from "../clock.ts";
import { ApiError } from "../errors.ts";
import type { TrustedCluster } from "./trusted_clusters.ts";

/** Whether a token is that of a cluster's operator, as the cluster itself says. */
export type TokenReviews = {
  /** Throws `unavailable` when the cluster could not be asked. */
  isOperator(clusterId: string, cluster: TrustedCluster, token: string): Promise<boolean>;
};

/** The audience that a token for this API names. */
export const AUDIENCE = "deputize-api";

const GOOD_MS = 60_000;
/** An answer that is older is asked for again while it is still used. */
const STALE_MS = 30_000;
const BAD_MS = 10_000;
/** Longer tokens are no Kubernetes tokens. */
const MAX_TOKEN_LENGTH = 8_192;
/** Good answers, and bad ones, that are kept. */
const MAX_KEPT = 1_000;
/** Reviews of one cluster at a time: whoever sends bad tokens does not keep its API server busy. */
const MAX_UNDER_WAY = 8;

const review = z.object({
  status: z.object({
    authenticated: z.boolean().optional(),
    user: z.object({ username: z.string().optional() }).optional(),
    audiences: z.array(z.string()).optional(),
  }),
});
const claims = z.object({ exp: z.number().optional() });

type Kept = { isGood: boolean; at: number; until: number };

/**
 * Asks clusters by `TokenReview` and keeps their answers for a minute at most, never longer than a token is
 * good. Reviews of the same token at the same time are one. Bad tokens, however many, neither push a good one
 * out nor keep it waiting.
 */
export function createTokenReviews(clock: Clock): TokenReviews {
  const good = new Map<string, Kept>();
  const bad = new Map<string, Kept>();
  const asking = new Map<string, Promise<boolean>>();
  const underWay = new Map<string, number>();

  async function ask(
    clusterId: string,
    cluster: TrustedCluster,
    { token, wasGood }: { token: string; wasGood: boolean },
  ): Promise<boolean> {
    const count = underWay.get(clusterId) ?? 0;
    if (count >= MAX_UNDER_WAY && !wasGood) throw unavailable();
    underWay.set(clusterId, count + 1);
    try {
      const answer = await cluster.client.authentication.createTokenReview({
        body: { spec: { token, audiences: [AUDIENCE] } },
      });
      const { authenticated, user, audiences = [] } = review.parse(answer).status;
      return authenticated === true && user?.username === cluster.operator && audiences.includes(AUDIENCE);
    } catch {
      throw unavailable();
    } finally {
      underWay.set(clusterId, (underWay.get(clusterId) ?? 1) - 1);
    }
  }

  function keep(key: string, isGood: boolean, token: string): void {
    const now = clock.now().getTime();
    const until = isGood ? Math.min(now + GOOD_MS, expiryOf(token)) : now + BAD_MS;
    good.delete(key);
    bad.delete(key);
    const kept = isGood ? good : bad;
    kept.set(key, { isGood, at: now, until });
    const [oldest] = kept.keys();
    if (kept.size > MAX_KEPT && oldest !== undefined) kept.delete(oldest);
  }

  /** One review of a token at a time, whoever wants it. */
  function reviewed(
    key: string,
    clusterId: string,
    cluster: TrustedCluster,
    token: string,
  ): Promise<boolean> {
    let asked = asking.get(key);
    if (asked === undefined) {
      asked = ask(clusterId, cluster, { token, wasGood: good.has(key) })
        .then((isGood) => {
          keep(key, isGood, token);
          return isGood;
        })
        .finally(() => asking.delete(key));
      asking.set(key, asked);
    }
    return asked;
  }

  return {
    async isOperator(clusterId, cluster, token) {
      if (token.length > MAX_TOKEN_LENGTH) return false;
      const key = hash("sha256", `${clusterId} ${token}`, "base64");
      const now = clock.now().getTime();
      const known = good.get(key) ?? bad.get(key);
      if (known === undefined || known.until <= now || known.at > now) {
        return reviewed(key, clusterId, cluster, token);
      }
      if (known.isGood && now - known.at >= STALE_MS) {
        reviewed(key, clusterId, cluster, token).catch(() => undefined);
      }
      return known.isGood;
    },
  };
}

/** When a token that was found good ends by itself, in milliseconds; it says so in its claims. */
function expiryOf(token: string): number {
  try {
    const payload = Buffer.from(token.split(".")[1] ?? "", "base64url").toString();
    const { exp } = claims.parse(JSON.parse(payload));
    return exp === undefined ? Number.POSITIVE_INFINITY : exp * 1000;
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

function unavailable(): ApiError {
  return new ApiError("unavailable", "The cluster could not be asked about the token", {
    "retry-after": "2",
  });
}
