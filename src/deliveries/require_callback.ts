import { ApiError } from "../errors.ts";
import type { PlatformRecord } from "../platforms/platform_record.ts";

/** Throws `no_callback` when a connection has no callback URL. */
export function requireCallback({ callback_url }: Pick<PlatformRecord, "callback_url">): void {
  if (callback_url === null) throw new ApiError("no_callback");
}

/** Throws that, and `callback_inactive` when nothing is sent to it. */
export function requireActiveCallback(record: Pick<PlatformRecord, "callback_url" | "callback_state">): void {
  requireCallback(record);
  if (record.callback_state !== "active") throw new ApiError("callback_inactive");
}
