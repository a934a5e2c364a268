import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { customerSteps } from "../../src/dev/tour/customer_steps.ts";
import { tourSteps } from "../../src/dev/tour/steps.ts";
import { startReceiver } from "../events/support/receiver.ts";
import { type Load, type LoadOptions, type LoadReport, linesOf, startLoad } from "./load/load.ts";
import { arrowLines } from "./phases/arrow_table.ts";
import { tryArrows } from "./phases/arrows.ts";
import {
  helmRollback,
  helmTest,
  helmUninstall,
  helmUpgrade,
  makeNamespace,
  timed,
} from "./phases/install.ts";
import { countPods, evictEach, killEach, reconcile, restartEach } from "./phases/kills.ts";
import { remainingObjects, schemaOf } from "./phases/remaining_objects.ts";
import { measureReplicas } from "./phases/replicas.ts";
import {
  checkBackup,
  firstBackup,
  headOf,
  loseVault,
  makeRecoveryKey,
  restoreVault,
  takeBackup,
  verifyHeads,
} from "./phases/restore.ts";
import { openSampleAccount } from "./phases/sample_account.ts";
import { APART, forgetPin, givePin, makeSecrets, sealedValues, seesPin, vaultPod } from "./phases/sealed.ts";
import { showTour } from "./phases/tour.ts";
import {
  pinOf,
  restartSealed,
  restartVault,
  sealVault,
  unsealVault,
  untilSealed,
  vaultLog,
  vaultStatus,
  withoutPinFile,
} from "./phases/vault.ts";
import { type Cluster, openCluster } from "./support/cluster.ts";
import { imageOf, importImages, postgresImageOf, vaultImageOf } from "./support/images.ts";
import { importNextImages, MIGRATION, NEXT, packageNextChart } from "./support/next_version.ts";
import { NAMESPACE, podsOf, RELEASE, type Reach, reach, valuesOf } from "./support/release.ts";
import { say } from "./support/say.ts";
import { type Tools, toolsOf } from "./support/tools.ts";
import { measureUsage, usageLines } from "./support/usage.ts";

/**
 * The life of a release on a real cluster, phase by phase. Each phase prints its duration and results. With
 * CLUSTER_KEEP=1, the cluster is kept at the end, and the next run uses it again.
 */
const TAG = "suite";
/** Measuring takes up to a minute. Proofs are created beforehand, so that only the pods' work counts. */
const CALM = { perSecond: 500, proven: 30_000, pauseMs: 500 };
/** The answer to a presentation while the vault cannot sign. */
const PUT_OFF = "503 vault_unavailable Retry-After";
const FAULTS = { perSecond: 50 };
const values = valuesOf(TAG);
let cluster: Cluster;
let tools: Tools;
let folder: string;
/** The private half of the recovery key, if this run created the key. */
let recoveryKey: string | undefined;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "deputize-cluster-"));
  say(
    `the cluster is up after ${await timed(async () => {
      cluster = await openCluster();
    })} s`,
  );
  tools = toolsOf(cluster, NAMESPACE);
  say(`images are imported after ${await timed(() => importImages(cluster, TAG))} s`);
});

afterAll(async () => {
  await cluster?.close();
  if (folder) await rm(folder, { recursive: true, force: true });
});

/** Opens connections to the release, runs `work`, and closes them. */
async function withReach<T>(work: (way: Reach) => Promise<T>): Promise<T> {
  const way = await reach(tools, cluster.receiverHost);
  try {
    return await work(way);
  } finally {
    await way.close();
  }
}

const atApi = <T>(work: (apiUrl: string) => Promise<T>) => withReach(({ apiUrl }) => work(apiUrl));

/** Returns the result of `work` and the load's report. Fails if the load found a problem. */
function underLoad<T>(
  name: string,
  load: Omit<LoadOptions, "folder">,
  work: (load: Load) => Promise<T>,
): Promise<{ result: T; report: LoadReport }> {
  return withReach(async (way) => {
    const running = await startLoad(way, { folder: join(folder, name), ...load });
    const result = await work(running);
    const report = await running.stop();
    say(...linesOf(report), ...report.problems);
    const ledger = await reconcile(tools);
    say(
      `reconcile: ${ledger.accounts} accounts, ${ledger.postings} postings, ${ledger.differences} differences`,
    );
    expect(report.problems).toEqual([]);
    expect(ledger.differences).toBe(0);
    expect(report.verified.allowed).toBeGreaterThan(0);
    expect(report.report.events).toBeGreaterThan(0);
    return { result, report };
  });
}

test("a trial can be installed in a namespace for restricted pods, and passes the chart's tests", async () => {
  await makeNamespace(tools);
  recoveryKey = await makeRecoveryKey(tools, folder);
  say(`helm install --wait: ${await helmUpgrade(tools, values)} s`);
  say(`helm test: ${await helmTest(tools)} s`);
  say(...(await podsOf(tools)).map(({ metadata }) => `  ${metadata.name}`));
});

test("the tour succeeds on the cluster", async () => {
  const steps = await showTour(cluster.kubeconfig);
  say(`the tour has shown ${steps.length} steps: ${steps.join(", ")}`);
  expect(steps).toEqual(expect.arrayContaining([...tourSteps, ...customerSteps].map(({ name }) => name)));
});

test("network policies allow exactly the connections that the components need", async () => {
  const receiver = await startReceiver(Date.now, "", cluster.receiverHost);
  try {
    const machine = { host: cluster.receiverHost, port: Number(new URL(receiver.url).port) };
    const { arrows, differences } = await tryArrows(tools, { image: imageOf(TAG), machine });
    say(...arrowLines(arrows));
    expect(differences).toEqual([]);
  } finally {
    await receiver.close();
  }
});

test("a moderate load gets only allow decisions, and every event in order", async () => {
  say(...usageLines("idle", await measureUsage(tools, 30)));
  const { result, report } = await underLoad("calm", CALM, () => measureUsage(tools, 20));
  say(...usageLines("loaded", result));
  expect(report.verifies).toMatchObject({ unavailable: 0, cut: 0 });
  expect(report.people).toMatchObject({ unavailable: 0, cut: 0 });
  expect(report.ordered).toBe(4);
});

test("three replicas of the API, which share the machine with their callers, decide at least 0.7 times as much as one", async () => {
  const { api } = await countPods(tools);
  const measuring = { counts: [3, 1, 3, 1], after: api ?? 1 };
  const rates = await withReach((way) => measureReplicas(tools, way, measuring));
  say(...rates.map(({ pods, perSecond }) => `  API pods: ${pods}, decisions a second: ${perSecond}`));
  for (const { tally } of rates) expect(tally).toMatchObject({ unavailable: 0, cut: 0, wrong: [] });
  const best = (count: number) =>
    Math.max(...rates.filter(({ pods }) => pods === count).map(({ perSecond }) => perSecond));
  expect(best(3)).toBeGreaterThanOrEqual(0.7 * best(1));
  expect((await reconcile(tools)).differences).toBe(0);
});

test("killing any pod under load loses nothing", async () => {
  const counts = await countPods(tools);
  const { result } = await underLoad("kills", FAULTS, (load) => killEach(tools, load, counts));
  say(...result);
});

test("a rolling restart under load loses no decision", async () => {
  const { result, report } = await underLoad("restart", FAULTS, async (load) => {
    await sleep(2_000);
    return restartEach(tools, load);
  });
  say(...result);
  expect(report.verifies.cut).toBe(0);
});

test("a drain evicts only one pod of each component at a time", async () => {
  for (const component of ["api", "worker", "operator"]) {
    const answers = await evictEach(tools, component);
    say(`${component}: ${Object.values(answers).join(", then ")}`);
    expect(answers).toEqual({ first: "evicted", second: "refused by the budget", later: "evicted" });
  }
});

test("an upgrade with a migration and the rollback of the upgrade lose no decision under load", async () => {
  await importNextImages(cluster, join(folder, "next"), TAG);
  const chart = await packageNextChart(tools, folder);
  const account = await withReach(openSampleAccount);
  const { result } = await underLoad("upgrade", FAULTS, async (load) => {
    const upgraded = await load.fault("upgraded", () => helmUpgrade(tools, valuesOf(NEXT, TAG), chart));
    await sleep(3_000);
    return { upgraded, rolledBack: await load.fault("rolled back", () => helmRollback(tools)) };
  });
  say(`upgraded within ${result.upgraded} s, rolled back within ${result.rolledBack} s`);
  expect(await withReach(schemaOf)).toContain(MIGRATION);
  expect(await atApi(account.verify)).toBe("allow authorized");
});

test("a sealed or missing vault loses no certificate, and restarts in the expected state", async () => {
  const account = await withReach(openSampleAccount);
  const present = () => atApi(account.present);
  const verify = () => atApi(account.verify);
  await sealVault(tools);
  expect(await present()).toBe(PUT_OFF);
  await unsealVault(tools);
  expect(await verify()).toBe("allow authorized");
  say(`restarted with its PIN, open after ${await restartVault(tools)} s`);
  expect(await verify()).toBe("allow authorized");
  const giveBack = await withoutPinFile(tools);
  try {
    await restartSealed(tools);
    expect(await present()).toBe(PUT_OFF);
    say(`restarted without, and unsealed within ${await timed(() => unsealVault(tools))} s`);
    expect(await verify()).toBe("allow authorized");
  } finally {
    await giveBack();
  }
  await restartVault(tools);
});

/** Creates this run's recovery key once. A kept cluster has the public half of an earlier run's key. */
async function withRecoveryKey(): Promise<string> {
  if (recoveryKey !== undefined) return recoveryKey;
  recoveryKey = await makeRecoveryKey(tools, folder);
  await helmUpgrade(tools, values);
  await restartVault(tools);
  return recoveryKey;
}

test("a lost vault recovers from its backup, and reports what was created after the backup", async () => {
  const names = { image: vaultImageOf(TAG), database: `${RELEASE}-trial-keyvault-database` };
  const [recoveryKey, pin] = [await withRecoveryKey(), await pinOf(tools)];
  const account = await withReach(openSampleAccount);
  const backup = await takeBackup(tools, { folder, image: names.image, recoveryKey });
  expect(await checkBackup(backup)).toContain(`${backup.file} is whole`);
  const later = await account.lend();
  const made = [await atApi(account.withNewAgent), await withReach(openSampleAccount)];
  // Seals the vault to log an audit head, so that the logged heads cover everything that will be lost.
  await sealVault(tools);
  const noted = await vaultLog(tools);

  const giveBack = await withoutPinFile(tools);
  try {
    await loseVault(tools, names);
    const said = await restoreVault(tools, backup, names, pin);
    expect(said).toMatch(/All \d+ records are intact/);
    await untilSealed(tools);
    await unsealVault(tools);
    for (const certId of [undefined, later, await account.lend()]) {
      expect(await atApi((apiUrl) => account.verify(apiUrl, certId))).toBe("allow authorized");
    }
    for (const lost of made) {
      expect(await atApi(lost.present)).toBe(PUT_OFF);
      await expect(lost.lend()).rejects.toThrow(/^503: .*vault_unavailable/);
    }
    const again = await atApi(account.withNewAgent);
    expect(await atApi(again.verify)).toBe("allow authorized");

    const heads = { noted, restored: headOf(said), since: await vaultLog(tools) };
    const { all, left } = await verifyHeads(tools, heads, names, pin);
    expect(all).toEqual({ isComplete: false, log: expect.stringContaining("The chain is broken") });
    expect(left).toEqual({
      isComplete: true,
      log: expect.stringContaining("heads noted before are among them"),
    });
  } finally {
    await giveBack();
  }
  await restartVault(tools);
  await firstBackup(tools);
});

test("a release's data survives its uninstallation, and the next release uses it", async () => {
  const account = await withReach(openSampleAccount);
  const before = await remainingObjects(tools);
  say(`helm uninstall: ${await helmUninstall(tools)} s`);
  expect(await remainingObjects(tools)).toEqual(before);
  say(...Object.entries(before).map(([what, names]) => `${what} stay: ${names.join(", ")}`));
  say(`helm install again: ${await helmUpgrade(tools, values)} s`);
  expect(await atApi(account.verify)).toBe("allow authorized");
});

test("a vault without a PIN starts sealed, does not delay installation, and stays sealed during an upgrade", async () => {
  const apart = toolsOf(cluster, APART);
  await makeNamespace(apart);
  await makeRecoveryKey(apart, folder);
  const pin = await makeSecrets(apart, postgresImageOf(TAG));
  say(`helm install --wait beside a sealed vault: ${await helmUpgrade(apart, sealedValues(TAG))} s`);
  await givePin(apart, pin);
  await untilSealed(apart);
  await forgetPin(apart);
  const pod = await vaultPod(apart);
  const upgraded = await helmUpgrade(apart, sealedValues(TAG, { logLevel: "debug" }));
  say(`helm upgrade --wait beside a sealed vault: ${upgraded} s`);
  expect((await vaultStatus(apart)).sealed?.reason).toBe("no_pin_file");
  expect(await vaultPod(apart)).toBe(pod);
  await unsealVault(apart, pin);
  expect(await seesPin(apart)).toBe(false);
  say(`unsealed; the first backup was taken ${await timed(() => firstBackup(apart))} s later`);

  await restartSealed(apart);
  await unsealVault(apart, pin);
  say(`helm uninstall: ${await helmUninstall(apart)} s`);
  await apart.kubectl("delete", "namespace", APART);
});
