import { X509Certificate } from "node:crypto";
import { Counter, Gauge, Histogram, Registry } from "prom-client";
import { type ErrorCode, VaultError } from "./errors.ts";
import type { Readiness } from "./status.ts";
import type { TlsMaterial } from "./tls/material.ts";
import type { Token } from "./token/client.ts";
import { PIN_FLAGS } from "./token/messages.ts";
import { LOGIN_OUTCOMES, type LoginOutcome } from "./token/pin_report.ts";

/** Outcome of a request for a key: `answered` with a new or an existing key, or refused by a limit. */
export type CreationOutcome = "answered" | "tenant_limited" | "caller_limited";

/** Metrics of one vault. Labels are certificate names and fixed kinds, never tenants, keys or addresses. */
export type Metrics = {
  registry: Registry;
  keyCreations: Counter<"caller" | "outcome">;
  lastBackup: Gauge;
  countLogin(outcome: LoginOutcome): void;
  /** Seconds from a call's headers to its response. The label `result` is `answered` or the error code. */
  calls: Histogram<"call" | "result">;
};

/** Reasons why a vault cannot sign. These are the codes with which `Readiness` rejects. */
const REASONS = ["sealed", "token_unavailable", "audit_unavailable", "unavailable", "internal"] as const;
const READY_MS = 2_000;

/** Returns the metrics of one vault in their own registry. */
export function createMetrics(): Metrics {
  const registry = new Registry();
  const registers = [registry];
  const logins = new Counter({
    name: "keyvault_token_logins_total",
    help: "Attempts to open the token, by outcome; withheld: the vault did not try the PIN",
    labelNames: ["outcome"],
    registers,
  });
  for (const outcome of LOGIN_OUTCOMES) logins.inc({ outcome }, 0);
  return {
    registry,
    countLogin: (outcome) => logins.inc({ outcome }),
    keyCreations: new Counter({
      name: "keyvault_key_creations_total",
      help: "Requests for keys, by the caller's name and outcome; alert on caller_limited",
      labelNames: ["caller", "outcome"],
      registers,
    }),
    calls: new Histogram({
      name: "keyvault_call_seconds",
      help: "Seconds from a call's headers to its answer, by call and result: answered, or the error's code",
      labelNames: ["call", "result"],
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15],
      registers,
    }),
    lastBackup: new Gauge({
      name: "keyvault_last_backup_timestamp_seconds",
      help: "Time of the newest backup that its caller read completely, in Unix seconds; 0 if none is known",
      registers: [registry],
    }),
  };
}

/** Dependencies of the metrics that show the vault's state. */
type StateParts = {
  readiness: Readiness;
  token: Pick<Token, "sealed" | "pinFlags">;
  material(): Pick<TlsMaterial, "cert" | "authorities">;
};

/**
 * Exports whether this vault can sign, the state of the token's PIN, and when the vault's certificates
 * expire. Measures them at each scrape.
 */
export function showState(
  { registry }: Pick<Metrics, "registry">,
  { readiness, token, material }: StateParts,
): void {
  const registers = [registry];
  new Gauge({
    name: "keyvault_pin_state",
    help: "1 for each state of the PIN: refused or unanswered by the token, or a flag that the token reports",
    labelNames: ["state"],
    registers,
    collect() {
      const sealed = token.sealed();
      this.set({ state: "refused" }, sealed === "pin_refused" ? 1 : 0);
      this.set({ state: "unanswered" }, sealed === "pin_unanswered" ? 1 : 0);
      for (const state of PIN_FLAGS) this.set({ state }, token.pinFlags()?.includes(state) ? 1 : 0);
    },
  });
  new Gauge({
    name: "keyvault_not_ready",
    help: "1 for the reason why this vault cannot sign, 0 for the others; all 0 while it can",
    labelNames: ["reason"],
    registers,
    async collect() {
      const why = await whyNotReady(readiness);
      for (const reason of REASONS) this.set({ reason }, reason === why ? 1 : 0);
    },
  });
  new Gauge({
    name: "keyvault_certificate_expiry_timestamp_seconds",
    help: "Expiry of the server's certificate and of the authority that expires first, in Unix seconds",
    labelNames: ["certificate"],
    registers,
    collect() {
      const { cert, authorities } = material();
      const ends = authorities.map(({ validToDate }) => validToDate.getTime());
      this.set({ certificate: "server" }, new X509Certificate(cert).validToDate.getTime() / 1000);
      this.set({ certificate: "authority" }, Math.min(...ends) / 1000);
    },
  });
}

/** Returns the reason why the vault cannot sign. A part that does not answer in time is `unavailable`. */
async function whyNotReady(readiness: Readiness): Promise<(typeof REASONS)[number] | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<"unavailable">((resolve) => {
    timer = setTimeout(resolve, READY_MS, "unavailable");
  });
  try {
    return await Promise.race([readiness.check().then(() => undefined), late]);
  } catch (error) {
    const code: ErrorCode = error instanceof VaultError ? error.code : "internal";
    return REASONS.find((reason) => reason === code) ?? "internal";
  } finally {
    clearTimeout(timer);
  }
}
