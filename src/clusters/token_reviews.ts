import { hash } from "node:crypto";
import { z } from "zod";
import type { Clock } from "../clock.ts";
import { ApiError } from "../errors.ts";
import type { TrustedCluster } from "./trusted_clusters.ts";

/** Checks with a cluster whether a token belongs to its operator. */
export type TokenReviews = {
  /** Returns whether the token is the operator's. Throws `unavailable` if the cluster does not answer. */
  isOperator(clusterId: string, cluster: TrustedCluster, token: string): Promise<boolean>;
};

/** The audience that a token for this API must name. */
export const AUDIENCE = "deputize-api";

const GOOD_MS = 60_000;
/** A good answer of this age is still used, but it is renewed in the background. */
const STALE_MS = 30_000;
const BAD_MS = 10_000;
/** Maximum length of a token. Kubernetes tokens are shorter. */
const MAX_TOKEN_LENGTH = 8_192;
/** Maximum number of cached good answers, and of cached bad answers. */
const MAX_KEPT = 1_000;
/** Concurrent reviews by one cluster, limited so that bad tokens cannot overload its API server. */
const MAX_RUNNING = 8;

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
 * Creates a checker that asks clusters with `TokenReview`. It caches good answers for at most a minute, and
 * never beyond the token's expiry. Any number of bad tokens can neither displace a good token from the cache
 * nor delay it.
 */
export function createTokenReviews(clock: Clock): TokenReviews {
  const good = new Map<string, Kept>();
  const bad = new Map<string, Kept>();
  const asking = new Map<string, Promise<boolean>>();
  const running = new Map<string, number>();

  async function ask(
    clusterId: string,
    cluster: TrustedCluster,
    { token, wasGood }: { token: string; wasGood: boolean },
  ): Promise<boolean> {
    const count = running.get(clusterId) ?? 0;
    if (count >= MAX_RUNNING && !wasGood) throw unavailable();
    running.set(clusterId, count + 1);
    try {
      const answer = await cluster.client.authentication.createTokenReview({
        body: { spec: { token, audiences: [AUDIENCE] } },
      });
      const { authenticated, user, audiences = [] } = review.parse(answer).status;
      return authenticated === true && user?.username === cluster.operator && audiences.includes(AUDIENCE);
    } catch {
      throw unavailable();
    } finally {
      running.set(clusterId, (running.get(clusterId) ?? 1) - 1);
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

  /** Concurrent calls for the same token share one review. */
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

/** Returns the expiry in a good token's claims, in milliseconds since 1970. */
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
  return new ApiError("unavailable", "The cluster did not answer whether the token is valid", {
    "retry-after": "2",
  });
}
