import { type Clock, systemClock } from "../clock.ts";
import { printable, printableJson } from "../events/command/report.ts";
import { UsageError } from "../input/exit_status.ts";
import { type Check, check, failed, ok, runChecks } from "./check.ts";
import { apiClusterChecks, operatorClusterChecks } from "./cluster.ts";
import { databaseChecks } from "./database.ts";
import { kafkaChecks } from "./kafka.ts";
import { mailChecks } from "./mail.ts";
import { type NetworkOptions, networkChecks } from "./network.ts";
import { folderChecks, operatorChecks } from "./operator.ts";
import { publicUrlChecks } from "./public_url.ts";
import { workerCheck } from "./running.ts";
import {
  chooseRoles,
  type DoctorRole,
  type Environment,
  processEnvironment,
  readSettings,
  type Settings,
  settingFaults,
} from "./settings.ts";
import { tableJson, tableLines } from "./table.ts";
import { vaultChecks } from "./vault.ts";

type Output = { write(text: string): unknown; isTTY?: boolean };

export type DoctorOptions = {
  /** Roles to check. If empty, those whose settings are in the environment. */
  roles: readonly string[];
  json?: boolean | undefined;
  /** `<host>:<port>` of a public server to connect to, or `none`. */
  egress?: string | undefined;
};

export type DoctorDeps = {
  out?: Output;
  environment?: Environment;
  clock?: Clock;
  /** Name servers for tests. */
  servers?: string[];
  /** Milliseconds for each check. */
  checkMs?: number;
};

/**
 * Runs all checks of the roles and prints one table, or one JSON object. Returns the exit status: 1 if a
 * check failed, and 0 otherwise. Throws `UsageError` for unusable arguments, and `StartError` if no role has
 * settings.
 */
export async function runDoctor(
  { roles: named, json = false, egress }: DoctorOptions,
  { out = process.stdout, environment = processEnvironment(), clock = systemClock, ...deps }: DoctorDeps = {},
): Promise<number> {
  const roles = chooseRoles(named, environment);
  const settings = readSettings(roles, environment);
  const network: NetworkOptions = {
    egress: egressOf(egress, settings.values),
    proxies: PROXIES.filter((name) => (environment[name] ?? "") !== ""),
    ...(deps.servers !== undefined && { servers: deps.servers }),
  };
  const checks = checksOf(roles, settings.values, environment, network);
  const rows = await runChecks(checks, settings, {
    now: () => clock.now(),
    ...(deps.checkMs !== undefined && { checkMs: deps.checkMs }),
  });
  const isColored = out.isTTY === true && (environment.NO_COLOR ?? "") === "";
  const text = json
    ? printableJson(tableJson(rows))
    : tableLines(rows.map(printableRow), { isColored }).join("\n");
  out.write(`${text}\n`);
  return rows.some(({ status }) => status === "failed") ? 1 : 0;
}

const PROXIES = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
/** A public host that exists for tests (RFC 2606), with addresses of both families. */
const EGRESS = "example.com:443";
const HOST_AND_PORT = /^(\[[^\]]+\]|[^:\s]+):(\d{1,5})$/;

/** In development, callbacks lead to this machine or cluster, so no public host is contacted by default. */
function egressOf(text: string | undefined, { DEVELOPMENT }: Settings): NetworkOptions["egress"] {
  const chosen = text ?? (DEVELOPMENT === true ? "none" : EGRESS);
  if (chosen === "none") return undefined;
  const [, host, port] = HOST_AND_PORT.exec(chosen) ?? [];
  if (host !== undefined && Number(port) > 0 && Number(port) < 65_536) return { host, port: Number(port) };
  throw new UsageError("--egress must be <host>:<port>, or none");
}

function checksOf(
  roles: readonly DoctorRole[],
  settings: Settings,
  environment: Environment,
  network: NetworkOptions,
): Check[] {
  const has = (...some: DoctorRole[]) => some.some((role) => roles.includes(role));
  const isFolder = settings.MANIFESTS_DIR !== undefined;
  const [names, egress] = networkChecks(network);
  const usesKafka = settings.EVENTS === "kafka";
  return [
    ...roles.map((role) => settingsCheck(role, environment)),
    ...(has("api", "worker", "migrate") ? databaseChecks() : []),
    ...(has("api", "worker") ? [workerCheck()] : []),
    ...(has("api") ? [...vaultChecks(), ...mailChecks()] : []),
    ...(names === undefined ? [] : [names]),
    ...(has("worker") && egress !== undefined ? [egress] : []),
    ...(has("worker", "migrate") && usesKafka
      ? kafkaChecks({ createsTopics: has("migrate"), usesTopics: has("worker") })
      : []),
    ...(has("operator")
      ? [...(isFolder ? folderChecks() : operatorClusterChecks()), ...operatorChecks()]
      : []),
    ...(has("api")
      ? [...(settings.CLUSTERS_FILE === undefined ? [] : apiClusterChecks()), ...publicUrlChecks()]
      : []),
  ];
}

function settingsCheck(role: DoctorRole, environment: Environment): Check {
  return check(`settings of ${role}`, [], async () => {
    const faults = settingFaults(role, environment);
    if (faults.length === 0) return ok("all settings are valid");
    return failed(faults.join("\n"), "Correct these settings, see docs/settings.md.");
  });
}

function printableRow<T extends { detail: string }>(row: T): T {
  return { ...row, detail: row.detail.split("\n").map(printable).join("\n") };
}
