import type { FigureState } from "./part.ts";

type Severity = "critical" | "warning" | "info";

/** An alert rule: its expression, and whether a figure of its series would have it fire. */
type Alert = {
  /** The series that it looks at, as Prometheus writes it. */
  series: string;
  expr: string;
  fires(value: number): boolean;
  severity: Severity;
  /** The section to read on. */
  runbook: string;
};

type Place = Pick<Alert, "severity" | "runbook">;

const maximum = (series: string, by?: string) =>
  by === undefined ? `max(${series})` : `max by (${by}) (${series})`;

/** More than so much. */
function above(series: string, bound: number, { by, ...place }: Place & { by?: string }): Alert {
  const expr = `${maximum(series, by)} > ${bound}`;
  return { series, expr, fires: (value) => value > bound, ...place };
}

/** Exactly so much. */
function equal(series: string, wanted: number, { by, ...place }: Place & { by?: string }): Alert {
  const expr = `${maximum(series, by)} == ${wanted}`;
  return { series, expr, fires: (value) => value === wanted, ...place };
}

/** Nobody who shows the series; the figure is how many there are. */
function absent(series: string, place: Place): Alert {
  return { series, expr: `absent(${series})`, fires: (value) => value === 0, ...place };
}

/** More than an hour ago; the figure is how many came since. */
function grown(series: string, place: Place): Alert {
  const expr = `${maximum(series)} > ${maximum(`${series} offset 1h`)}`;
  return { series, expr, fires: (value) => value > 0, ...place };
}

/** An end that is nearer than so many days; the figure is how many seconds are left. */
function endsWithin(series: string, days: number, place: Place): Alert {
  const expr = `min(${series}) - time() < ${days} * 86400`;
  return { series, expr, fires: (seconds) => seconds < days * 86_400, ...place };
}

const EVENTS = "docs/events.md#alerts";
const VAULT = "docs/keyvault_runbook.md#the-vault-does-not-sign";

/**
 * The rules of `docs/alerts/` that can be told by looking once, with their own bounds: a rule that is another
 * there fails `test/installation/alerts.test.ts`. Rules wait some minutes before they fire; here it shows
 * immediately.
 */
export const alerts = {
  DeputizeApiNotReady: equal('deputize_ready{role="api"}', 0, {
    severity: "critical",
    runbook: "docs/observability.md#the-api",
  }),
  DeputizeVaultAbsent: absent('keyvault_not_ready{reason="sealed"}', {
    severity: "critical",
    runbook: VAULT,
  }),
  DeputizeVaultSealed: equal('keyvault_not_ready{reason="sealed"}', 1, {
    severity: "critical",
    runbook: "docs/keyvault_runbook.md#stop-everything",
  }),
  DeputizeVaultTokenAway: equal('keyvault_not_ready{reason="token_unavailable"}', 1, {
    severity: "critical",
    runbook: VAULT,
  }),
  DeputizeVaultAuditFails: equal('keyvault_not_ready{reason="audit_unavailable"}', 1, {
    severity: "critical",
    runbook: VAULT,
  }),
  DeputizeVaultNotReady: equal('keyvault_not_ready{reason=~"unavailable|internal"}', 1, {
    by: "reason",
    severity: "critical",
    runbook: VAULT,
  }),
  DeputizeVaultClientCertificateEnds: endsWithin("deputize_vault_certificate_expiry_timestamp_seconds", 14, {
    severity: "warning",
    runbook: "docs/keyvault_runbook.md#rotation",
  }),
  DeputizeWorkerAbsent: absent('deputize_measurement_up{measurement="outbox"}', {
    severity: "critical",
    runbook: EVENTS,
  }),
  DeputizeKafkaAway: equal('deputize_measurement_up{measurement="kafka_lag"}', 0, {
    severity: "critical",
    runbook: EVENTS,
  }),
  DeputizeOutboxStuck: above("deputize_outbox_oldest_seconds", 900, {
    severity: "critical",
    runbook: EVENTS,
  }),
  DeputizeOutboxAges: above("deputize_outbox_oldest_seconds", 60, { severity: "warning", runbook: EVENTS }),
  DeputizeHistoryAges: above("deputize_history_queue_oldest_seconds", 900, {
    severity: "warning",
    runbook: EVENTS,
  }),
  DeputizeConsumerBehind: above("deputize_consumer_oldest_seconds", 300, {
    by: "consumer",
    severity: "warning",
    runbook: EVENTS,
  }),
  DeputizeDeadLettersNotCarried: above("deputize_dead_letters_uncarried", 0, {
    severity: "warning",
    runbook: EVENTS,
  }),
  DeputizeEndpointSuspended: grown('deputize_webhook_endpoints{state="suspended"}', {
    severity: "info",
    runbook: EVENTS,
  }),
  DeputizeDeliveriesHeld: above('deputize_webhook_deliveries{state="held"}', 1000, {
    severity: "warning",
    runbook: EVENTS,
  }),
  DeputizeNoticesOld: above("deputize_notices_oldest_seconds", 3600, {
    severity: "warning",
    runbook: EVENTS,
  }),
  DeputizeLedgerDiffers: above("deputize_ledger_differences", 0, {
    by: "kind",
    severity: "critical",
    runbook: EVENTS,
  }),
} as const satisfies Record<string, Alert>;

/** The name of such a rule. */
export type AlertName = keyof typeof alerts;

/** What a figure is when this rule fires: `critical` is for now, the rest for the day. */
export function stateOf(name: AlertName): FigureState {
  return alerts[name].severity === "critical" ? "act" : "look";
}

/** What the first of these rules that fires makes of a value. */
export function judge(
  value: number,
  ...names: readonly AlertName[]
): {
  state: FigureState;
  alert: AlertName | null;
} {
  const fired = names.find((name) => alerts[name].fires(value));
  return fired === undefined ? { state: "well", alert: null } : { state: stateOf(fired), alert: fired };
}
