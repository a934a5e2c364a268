import { mkdtemp, readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { openDatabase } from "../../../src/db/database.ts";
import { until } from "../../support/process.ts";
import { ROOT } from "../support/cluster.ts";
import { forwardDatabase, RECOVERY, RELEASE } from "../support/release.ts";
import { run } from "../support/run.ts";
import type { Tools } from "../support/tools.ts";
import { STATEFUL_SET, vaultStatus } from "./vault.ts";

const VAULT = `${RELEASE}-keyvault`;
/** The Secret with the PIN for initializing and restoring. */
export const INIT_PIN = `${VAULT}-init-pin`;
const HEADS = `${VAULT}-heads`;
const EXAMPLES = join(ROOT, "docs/examples/keyvault");
const JOB_MS = 300_000;

/** Names that replace those in the documentation's examples. */
export type Names = { image: string; database: string };

/** A backup outside the cluster, and the keys to restore it. */
export type Backup = { name: string; file: string; recoveryKey: string; serviceKey: string };

/** The outcome of a Job, with the output of its containers. */
type Ended = { isComplete: boolean; log: string };

/** Stores the public half of the key in the cluster. Returns the path of the private half. */
export async function makeRecoveryKey(tools: Tools, folder: string): Promise<string> {
  const own = await mkdtemp(join(folder, "recovery-"));
  const [key, pub] = [join(own, "recovery.key"), join(own, "recovery.pub")];
  await run("openssl", ["genpkey", "-algorithm", "X25519", "-out", key]);
  await run("openssl", ["pkey", "-in", key, "-pubout", "-out", pub]);
  const data = { "recovery.pub": await readFile(pub, "utf8") };
  await tools.apply({ apiVersion: "v1", kind: "ConfigMap", metadata: named(tools, RECOVERY), data });
  return key;
}

/** Creates a backup with a Job from the CronJob, and copies the backup out of the cluster. */
export async function takeBackup(
  tools: Tools,
  { folder, image, recoveryKey }: { folder: string; image: string; recoveryKey: string },
): Promise<Backup> {
  const job = `${VAULT}-drill`;
  await remove(tools, "job", job);
  await tools.kubectl("-n", tools.namespace, "create", "job", job, `--from=cronjob/${VAULT}-backup`);
  const { log } = await complete(tools, job);
  const made: { file: string } = JSON.parse(log);
  await remove(tools, "job", job);
  const name = basename(made.file);
  const { service_key } = await vaultStatus(tools);
  return {
    name,
    file: await copyOut(tools, name, { folder, image }),
    recoveryKey,
    serviceKey: service_key ?? "",
  };
}

/** Waits for the backup that is created when a version is installed for the first time. */
export async function firstBackup(tools: Tools): Promise<void> {
  const { items } = await tools.read<{ items: { metadata: { name: string } }[] }>(
    ...["-n", tools.namespace, "get", "jobs", "-l", "app.kubernetes.io/component=keyvault-backup"],
  );
  const first = items.filter(({ metadata }) => /-backup-[0-9a-f]{8}$/.test(metadata.name));
  if (first.length !== 1) throw new Error(`${first.length} Jobs take a first backup`);
  for (const { metadata } of first) await complete(tools, metadata.name);
}

/** Copies a backup out of the cluster with the example's pod. */
async function copyOut(
  tools: Tools,
  name: string,
  { folder, image }: { folder: string; image: string },
): Promise<string> {
  const pod = `${VAULT}-backups`;
  await applyExample(tools, "backups.yaml", { "localhost/deputize-keyvault:0.1.0": image });
  try {
    await tools.kubectl(
      "-n",
      tools.namespace,
      "wait",
      "--for=condition=Ready",
      `pod/${pod}`,
      "--timeout=60s",
    );
    const copy = ["node", "--eval", "fs.createReadStream(process.argv[1]).pipe(process.stdout)"];
    const file = join(folder, name);
    await tools.save(file, "-n", tools.namespace, "exec", pod, "--", ...copy, `/backups/${name}`);
    return file;
  } finally {
    await remove(tools, "pod", pod);
  }
}

/** Runs `keyvault backup check` on the machine with the recovery key, and returns its output. */
export function checkBackup({ file, recoveryKey, serviceKey }: Backup): Promise<string> {
  const asked = ["backup", "check", file, "--recovery-key", recoveryKey, "--service-key", serviceKey];
  return run(process.execPath, [join(ROOT, "keyvault/main.ts"), ...asked]);
}

/** Stops the vault, and deletes the vault's volume and all rows of its database. */
export async function loseVault(tools: Tools, { database }: Names): Promise<void> {
  await tools.kubectl("-n", tools.namespace, "scale", STATEFUL_SET, "--replicas=0");
  await tools.kubectl("-n", tools.namespace, "wait", "--for=delete", `pod/${VAULT}-0`, "--timeout=120s");
  await tools.kubectl("-n", tools.namespace, "delete", "pvc", `data-${VAULT}-0`);
  const way = await forwardDatabase(tools, database, "migrationUrl");
  const owner = openDatabase({ url: way.url, name: "loss", max: 1, onError: () => undefined });
  try {
    await owner.raw("drop schema public cascade");
    await owner.raw("create schema public");
  } finally {
    await owner.destroy();
    await way.close();
  }
}

/** Restores a backup with the example's Job, and returns the Job's output. The vault starts afterwards. */
export async function restoreVault(tools: Tools, backup: Backup, names: Names, pin: string): Promise<string> {
  const recovery = await readFile(backup.recoveryKey, "utf8");
  await tools.apply(
    secretFor(tools, "recovery-key", { "recovery.key": recovery }),
    secretFor(tools, INIT_PIN, { pin }),
  );
  await applyExample(tools, "restore.yaml", {
    "keyvault-20261125T022300.000Z.backup": backup.name,
    "0123456789abcdef0123456789abcdef": backup.serviceKey,
    "localhost/deputize-keyvault:0.1.0": names.image,
    "deputize-keyvault-database": names.database,
  });
  const { log } = await complete(tools, `${VAULT}-restore`);
  await remove(tools, "secret", "recovery-key", INIT_PIN);
  await remove(tools, "job", `${VAULT}-restore`);
  await tools.kubectl("-n", tools.namespace, "scale", STATEFUL_SET, "--replicas=1");
  return log;
}

/**
 * Verifies the audit after a restore, once against all logged heads, and once without the heads of lost
 * records.
 */
export async function verifyHeads(
  tools: Tools,
  { noted, restored, since }: { noted: string; restored: number; since: string },
  names: Names,
  pin: string,
): Promise<{ all: Ended; left: Ended }> {
  const all = await verifyAudit(tools, noted + since, names, pin);
  return { all, left: await verifyAudit(tools, withoutLost(noted, restored) + since, names, pin) };
}

/** Verifies the audit against `heads` with the example's Job. */
async function verifyAudit(tools: Tools, heads: string, names: Names, pin: string): Promise<Ended> {
  const job = `${VAULT}-audit-verify`;
  await tools.apply(
    { apiVersion: "v1", kind: "ConfigMap", metadata: named(tools, HEADS), data: { heads } },
    secretFor(tools, INIT_PIN, { pin }),
  );
  await applyExample(tools, "audit_verify.yaml", {
    "localhost/deputize-keyvault:0.1.0": names.image,
    "secretName: deputize-keyvault-database": `secretName: ${names.database}`,
  });
  const ended = await endOf(tools, job);
  await remove(tools, "configmap", HEADS);
  await remove(tools, "secret", INIT_PIN);
  await remove(tools, "job", job);
  return ended;
}

const HEAD = /audit head\s+(\d+):/;

/**
 * Returns the number of the last audit record, from the output of a restore or of `keyvault audit verify`.
 */
export function headOf(said: string): number {
  const [, number] = HEAD.exec(said) ?? [];
  if (number === undefined) throw new Error(`There is no audit head in: ${said}`);
  return Number(number);
}

/** Returns the audit heads in a log, without those of lost records. Throws `Error` if no head remains. */
export function withoutLost(log: string, restored: number): string {
  const isKept = (line: string) => {
    const { event, seq = 0 } = JSON.parse(line) as { event?: string; seq?: number };
    return event === "audit_head" && seq <= restored;
  };
  const lines = log.split("\n").filter((line) => line.startsWith("{") && isKept(line));
  if (lines.length === 0) throw new Error(`The log has no head up to record ${restored}`);
  return lines.map((line) => `${line}\n`).join("");
}

const named = ({ namespace }: Tools, name: string) => ({ name, namespace });

export const secretFor = (tools: Tools, name: string, stringData: Record<string, string>) => ({
  apiVersion: "v1",
  kind: "Secret",
  metadata: named(tools, name),
  stringData,
});

async function remove(tools: Tools, kind: string, ...names: string[]): Promise<void> {
  await tools.kubectl("-n", tools.namespace, "delete", kind, ...names, "--ignore-not-found");
}

/** Applies an example with other names, as an administrator would. */
async function applyExample(tools: Tools, file: string, replaced: Record<string, string>): Promise<void> {
  let text = await readFile(join(EXAMPLES, file), "utf8");
  for (const [from, to] of Object.entries(replaced)) {
    if (!text.includes(from)) throw new Error(`${file} has no ${from}`);
    text = text.replaceAll(from, to);
  }
  await tools.kubectlWith(text, "-n", tools.namespace, "apply", "-f", "-");
}

async function complete(tools: Tools, job: string): Promise<Ended> {
  const ended = await endOf(tools, job);
  if (!ended.isComplete) throw new Error(`Job ${job} has failed: ${ended.log}`);
  return ended;
}

async function endOf(tools: Tools, job: string): Promise<Ended> {
  type Job = { status: { conditions?: { type: string; status: string }[] } };
  let types: string[] = [];
  const hasEnded = async () => {
    const { status } = await tools.read<Job>("-n", tools.namespace, "get", "job", job);
    types = (status.conditions ?? []).flatMap(({ type, status }) => (status === "True" ? [type] : []));
    return types.includes("Complete") || types.includes("Failed");
  };
  await until(`Job ${job} has ended`, hasEnded, JOB_MS);
  // Reads the logs of all containers, because a Job may fail before its last container.
  const logs = tools.kubectl("-n", tools.namespace, "logs", `job/${job}`, "--all-containers");
  const log = await logs.catch((error: Error) => error.message);
  return { isComplete: types.includes("Complete"), log };
}
