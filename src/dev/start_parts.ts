import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { systemClock } from "../clock.ts";
import { migrate } from "../db/migrate.ts";
import { eventsEnvironment, prepareEvents } from "./kafka/events.ts";
import { kafkaParts } from "./kafka/nodes.ts";
import type { Stack } from "./open_stack.ts";
import { databaseUrl, postgresPart, prepareDatabases } from "./postgres/postgres.ts";
import { rotateLog } from "./process/part.ts";
import { checkFree, freePort } from "./process/ports.ts";
import { initializeVault, openSecrets } from "./secrets.ts";
import {
  API_PORT_SETTING,
  type StackPaths,
  type StackPorts,
  stackParts,
  vaultEnvironment,
} from "./stack_parts.ts";
import { inStep, type Terminal } from "./terminal.ts";
import { openManifests } from "./tour/manifests.ts";
import { openQuickstart, type QuickstartFolder } from "./tour/quickstart_folder.ts";
import { topUp } from "./tour/top_up.ts";

/** A stack whose parts are all ready. `isNew` is true if this is the operator's first start on the folder. */
export type RunningStack = { baseUrl: string; quickstart: QuickstartFolder; isNew: boolean };

type StackSettings = {
  /** The API's port on 127.0.0.1; 0 selects a free port. */
  apiPort: number;
  /** Aliases of the service name in the API's paths. */
  aliases: readonly string[];
  /** Credit of new accounts, and minimum credit of the owner, in micro-USD. Undefined means the default. */
  credits: number | undefined;
  ownerEmail: string;
  inherited: Record<string, string | undefined>;
  /** Path of the vault's PKCS#11 module. Undefined lets the vault choose one. */
  pkcs11Module: string | undefined;
  /** Folder with Kafka's jars. Undefined selects the embedded event transport. */
  kafkaJars: string | undefined;
  /** Aborts when the stack is being stopped. */
  interrupted: AbortSignal;
};

const root = fileURLToPath(new URL("../..", import.meta.url));

/**
 * Starts Postgres, Kafka if requested, the vault, the API, the worker and the operator, each when the
 * previous one is ready. Reuses an earlier run's data. Throws `UserError`.
 */
export async function startParts(
  stack: Stack,
  terminal: Terminal,
  settings: StackSettings,
): Promise<RunningStack> {
  if (settings.apiPort !== 0) {
    await checkFree({ port: settings.apiPort, setting: API_PORT_SETTING });
  }
  const inFolder = (...names: string[]) => join(stack.folder, ...names);
  const dataDir = inFolder("postgres", "data");
  const secrets = await openSecrets(inFolder("secrets"), !existsSync(dataDir));
  const ports: StackPorts = {
    api: settings.apiPort === 0 ? await freePort() : settings.apiPort,
    apiHealth: await freePort(),
    apiOperator: await freePort(),
    vault: await freePort(),
    vaultHealth: await freePort(),
    workerHealth: await freePort(),
    operatorHealth: await freePort(),
  };
  const postgres = postgresPart({ dataDir, port: await freePort(), setting: "another start" });
  await stack.start(postgres);
  const events = eventsEnvironment(await startKafkaPart(stack, settings));
  const port = postgres.ports?.[0]?.port ?? 0;
  const own = { name: "deputize", password: secrets.databasePassword };
  const guest = { name: "keyvault_running", password: secrets.temporaryPassword() };
  const vaultOwn = { name: "keyvault", password: secrets.vaultDatabasePassword, guest };
  const url = databaseUrl(own, port);
  const paths: StackPaths = {
    program: join(root, "src", "main.ts"),
    vaultProgram: join(root, "keyvault", "main.ts"),
    vaultData: inFolder("keyvault"),
    pkcs11Module: settings.pkcs11Module,
    databaseUrlFile: await secrets.write("database.url", url),
    vaultDatabaseUrlFile: await secrets.write("keyvault.url", databaseUrl(guest, port, vaultOwn.name)),
    vaultMigrationUrlFile: await secrets.write("keyvault_owner.url", databaseUrl(vaultOwn, port)),
    sealingKeyFile: secrets.sealingKeyFile,
    operatorTokenFile: secrets.operatorTokenFile,
    manifests: inFolder("manifests"),
    status: inFolder("status"),
    credentials: inFolder("credentials"),
  };
  const examples = join(root, "docs", "examples", "quickstart");
  const { interrupted } = settings;
  const schema = terminal.step(
    "schema",
    settings.kafkaJars === undefined ? "Databases and their schema" : "Databases, their schema, and topics",
  );
  await inStep(schema, { interrupted }, async () => {
    await prepareDatabases(postgres.superuserUrl("postgres"), [own, vaultOwn]);
    const migration = { KEYVAULT_MIGRATION_DATABASE_URL_FILE: paths.vaultMigrationUrlFile };
    const vault = {
      program: paths.vaultProgram,
      env: { ...settings.inherited, ...vaultEnvironment(ports, paths), ...migration },
      logFile: await rotateLog(stack.folder, "keyvault_init"),
    };
    const migrated = migrate(url).then(() => prepareEvents(url, events));
    await Promise.all([migrated, initializeVault(vault)]);
  });
  if (settings.credits !== undefined) {
    const step = terminal.step("credits", "Credit for trials");
    step.done(await topUp({ url, email: settings.ownerEmail, to: settings.credits, clock: systemClock }));
  }
  const found = await openManifests({ ...paths, examples });
  if (found === "restored") {
    terminal.warn(
      `${paths.manifests} was missing; the example is restored, since the operator would delete everything otherwise`,
    );
  }
  const { baseUrl, vault, api, worker, operator } = stackParts(ports, paths, { ...settings, events });
  for (const part of [vault, api, worker, operator]) await stack.start(part);
  const quickstart = openQuickstart({
    examples,
    manifests: paths.manifests,
    status: paths.status,
    secrets: paths.credentials,
    interrupted,
  });
  return { baseUrl, quickstart, isNew: found === "new" };
}

async function startKafkaPart(
  stack: Stack,
  { kafkaJars: jars, inherited }: StackSettings,
): Promise<string | undefined> {
  if (jars === undefined) return undefined;
  const folder = join(stack.folder, "kafka");
  const [kafka] = await kafkaParts({ jars, path: inherited.PATH, folder });
  if (kafka !== undefined) await stack.start(kafka);
  return kafka?.address;
}
