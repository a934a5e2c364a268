import type { Database } from "../db/database.ts";
import { ApiError } from "../errors.ts";
import type { PlatformRecord } from "../platforms/platform_record.ts";
import { createStoredRate, takeRate } from "../rates/stored_rate.ts";

/** A connection and the account that owns it. */
export type OwnConnection = { accountId: string; connectionId: string };

/** Throws `no_callback` if a connection has no callback URL. */
export function requireCallback({ callback_url }: Pick<PlatformRecord, "callback_url">): void {
  if (callback_url === null) throw new ApiError("no_callback");
}

/** Throws `no_callback` without a callback URL, or `callback_inactive` for a paused or suspended callback. */
export function requireActiveCallback(record: Pick<PlatformRecord, "callback_url" | "callback_state">): void {
  requireCallback(record);
  if (record.callback_state !== "active") throw new ApiError("callback_inactive");
}

const MINUTE = 60;
const DAY = 24 * 60 * 60;
const TESTS_PER_MINUTE = 5;
const RESENDS_PER_MINUTE = 60;
const RECOVERIES_PER_DAY = 10;
const RESUMES_PER_MINUTE = 20;
const CHANNELS_PER_MINUTE = 5;

/**
 * Limits on requests that members of an account can cause. They protect the URL, which may belong to someone
 * else. They apply to each connection or account separately. Each method throws `rate_limited` with
 * `Retry-After`.
 */
export type SendingRates = {
  /** Allows 5 test events a minute. */
  takeTest(connectionId: string): Promise<void>;
  /** Allows 60 resent deliveries a minute. */
  takeResend(connectionId: string): Promise<void>;
  /** Allows 10 recoveries a day. */
  takeRecovery(connectionId: string): Promise<void>;
  /** Allows 20 resumptions a minute, because each sends held deliveries. */
  takeResume(connectionId: string): Promise<void>;
  /** Allows an account 5 new channels a minute, because each gets a message. */
  takeChannel(accountId: string): Promise<void>;
};

/** Creates the limits. */
export function createSendingRates(db: Database): SendingRates {
  const tests = createStoredRate(db, {
    keyPrefix: "callback_test",
    points: TESTS_PER_MINUTE,
    seconds: MINUTE,
  });
  const resends = createStoredRate(db, { keyPrefix: "resend", points: RESENDS_PER_MINUTE, seconds: MINUTE });
  const recoveries = createStoredRate(db, { keyPrefix: "recover", points: RECOVERIES_PER_DAY, seconds: DAY });
  const resumes = createStoredRate(db, { keyPrefix: "resume", points: RESUMES_PER_MINUTE, seconds: MINUTE });
  const channels = createStoredRate(db, {
    keyPrefix: "channel",
    points: CHANNELS_PER_MINUTE,
    seconds: MINUTE,
  });
  return {
    takeTest: (connectionId) => takeRate(tests, connectionId, "Too many test events were sent"),
    takeResend: (connectionId) => takeRate(resends, connectionId, "Too many deliveries were sent again"),
    takeRecovery: (connectionId) => takeRate(recoveries, connectionId, "Too many recoveries were begun"),
    takeResume: (connectionId) => takeRate(resumes, connectionId, "The callback was resumed too often"),
    takeChannel: (accountId) => takeRate(channels, accountId, "The channel was changed too often"),
  };
}
