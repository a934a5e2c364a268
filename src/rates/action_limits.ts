import { createHash } from "node:crypto";
import type { Database } from "../db/database.ts";
import { ApiError } from "../errors.ts";
import type { Metrics } from "../metrics.ts";
import { consumeRate, createStoredRate } from "./stored_rate.ts";

const TEN_MINUTES = 600;
const HOUR = 3_600;
const DAY = 86_400;

type Limit = { what: string; rates: readonly { points: number; seconds: number }[] };

/**
 * Actions that cannot be taken back or that others notice, and how often the service carries them out for the
 * same key. The counts are in the database, because others can change or remove everything that an object or
 * a Secret in a cluster states about earlier actions.
 */
export const actionLimits = {
  /** The operator replaces an API key without a request: it is due by its age, or its Secret was changed. */
  replace_key: {
    what: "The API key was replaced too often without a request. Find out what changes its Secret",
    rates: [
      { points: 2, seconds: TEN_MINUTES },
      { points: 30, seconds: DAY },
    ],
  },
  /** The operator replaces an API key because the object's annotation has a new text. */
  requested_key: {
    what: "New API keys were requested too often. Find out what changes the annotation",
    rates: [
      { points: 5, seconds: TEN_MINUTES },
      { points: 30, seconds: DAY },
    ],
  },
  /** The operator registers a platform for an object of this name. */
  register_platform: {
    what: "A platform of this name was registered too often. Find out what deletes and creates the object",
    rates: [{ points: 10, seconds: TEN_MINUTES }],
  },
  /** The operator creates an agent, and thereby a key in the vault, for an object of this name. */
  create_agent: {
    what: "An agent of this name was created too often. Find out what deletes and creates the object",
    rates: [{ points: 10, seconds: TEN_MINUTES }],
  },
  /** The operator files a request, which people see, for an object of this name. */
  request_delegation: {
    what: "A delegation of this name was requested too often. Find out what deletes and creates the object",
    rates: [{ points: 10, seconds: TEN_MINUTES }],
  },
  /** The operator files a request for an object of any name in a namespace. */
  request_in_namespace: {
    what: "Too many delegations were requested in this namespace. Find out what creates the objects",
    rates: [{ points: 1_000, seconds: DAY }],
  },
  /** A person registers a platform. A removed platform stays in the database. */
  create_platform: {
    what: "You registered too many platforms",
    rates: [{ points: 100, seconds: HOUR }],
  },
  /** A person replaces an API key or begins a rotation of the webhook secret. */
  rotate_secret: {
    what: "You rotated this connection's secrets too often",
    rates: [{ points: 30, seconds: HOUR }],
  },
  /** A person or an application creates an agent key or a verify key. */
  create_key: {
    what: "Too many API keys were created for this connection",
    rates: [{ points: 100, seconds: HOUR }],
  },
  /** A person requests codes that confirm a change of their account. A set of codes can be tried 5 times. */
  confirm_account: {
    what: "Codes for your account were requested too often",
    rates: [{ points: 5, seconds: DAY }],
  },
  /** Somebody wants to use an address, which gets a mail. The limit counts the requests of all accounts. */
  mail_new_address: {
    what: "This address cannot receive further codes today",
    rates: [{ points: 10, seconds: DAY }],
  },
} as const satisfies Record<string, Limit>;

export type LimitedAction = keyof typeof actionLimits;

/** The limits of actions, in the database for all replicas. */
export type ActionLimits = {
  /**
   * Performs an action for a key, which is a list of names. Without calling `perform`, throws
   * `action_limited` with `Retry-After` if the action was performed too often for this key. An action that
   * fails does not count. The message states no time, so that it stays the same while the limit is reached.
   */
  within<T>(action: LimitedAction, key: readonly string[], perform: () => Promise<T>): Promise<T>;
};

type Deps = { db: Database; metrics: Pick<Metrics, "actionsLimited"> };

/** Creates the limits. */
export function createActionLimits({ db, metrics: { actionsLimited } }: Deps): ActionLimits {
  const actions = Object.keys(actionLimits) as LimitedAction[];
  // Counters start at 0, so that the first event counts as an increase.
  for (const action of actions) actionsLimited.inc({ action }, 0);
  const ratesOf = (action: LimitedAction) =>
    actionLimits[action].rates.map(({ points, seconds }) =>
      createStoredRate(db, { keyPrefix: `${action}_${seconds}`, points, seconds }),
    );
  const stored = new Map(actions.map((action) => [action, ratesOf(action)]));

  return {
    async within(action, names, perform) {
      const key = createHash("sha256").update(JSON.stringify(names)).digest("hex");
      const taken: ReturnType<typeof ratesOf> = [];
      const giveBack = () => Promise.all(taken.map((rate) => rate.giveBack(key)));
      try {
        for (const rate of stored.get(action) ?? []) {
          await consumeRate(rate, key, ({ resetMs }) => {
            // `perform` may throw the refusal of another action, which counts for that action.
            actionsLimited.inc({ action });
            return limited(action, resetMs);
          });
          taken.push(rate);
        }
        return await perform();
      } catch (error) {
        await giveBack().catch(() => undefined);
        throw error;
      }
    },
  };
}

function limited(action: LimitedAction, waitMs: number): ApiError {
  const seconds = Math.max(1, Math.ceil(waitMs / 1000));
  return new ApiError("action_limited", actionLimits[action].what, { "retry-after": String(seconds) });
}
