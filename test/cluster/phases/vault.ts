import type { Status } from "../../../keyvault/status.ts";
import { until } from "../../support/process.ts";
import { inPod, podOf, podsOf, RELEASE, secretOf, untilReady } from "../support/release.ts";
import type { Tools } from "../support/tools.ts";
import { timed } from "./install.ts";

const VAULT = "keyvault";
export const STATEFUL_SET = `statefulset/${RELEASE}-${VAULT}`;
const CONTAINERS = "/spec/template/spec/containers";
const PIN_VOLUME = "keyvault-pin";
const READY_MS = 120_000;

/**
 * Returns the certificate and key of an administrator. No pod has them, so commands read them from standard
 * input.
 */
async function administrator(tools: Tools): Promise<string> {
  const secret = `${RELEASE}-${VAULT}-admin-tls`;
  return (await secretOf(tools, secret, "tls.crt")) + (await secretOf(tools, secret, "tls.key"));
}

export async function vaultStatus(tools: Tools): Promise<Status> {
  const asked = ["keyvault", "status", "--cert", "-", "--json"];
  return JSON.parse(await inPod(tools, VAULT, asked, await administrator(tools)));
}

/** Returns the vault's log with the audit heads, as a log collector would receive it. */
export function vaultLog(tools: Tools): Promise<string> {
  return tools.kubectl("-n", tools.namespace, "logs", `${RELEASE}-${VAULT}-0`, "-c", VAULT);
}

export async function sealVault(tools: Tools): Promise<void> {
  await inPod(tools, VAULT, ["keyvault", "seal", "--cert", "-"], await administrator(tools));
}

/** Returns the trial's PIN, which an administrator would know. */
export const pinOf = (tools: Tools) => secretOf(tools, `${RELEASE}-trial-keyvault-pin`, "pin");

/** Unseals the vault, by default with the trial's PIN, and waits until the vault is ready. */
export async function unsealVault(tools: Tools, pin?: string): Promise<void> {
  const typed = `${await administrator(tools)}${pin ?? (await pinOf(tools))}\n`;
  await inPod(tools, VAULT, ["keyvault", "unseal", "--cert", "-"], typed);
  await untilReady(tools, VAULT, 1);
}

/** Waits until the vault is ready. Returns the duration in seconds. */
export function restartVault(tools: Tools): Promise<number> {
  return timed(async () => {
    await deletePod(tools);
    await untilReady(tools, VAULT, 1);
  });
}

/** Restarts a vault that then needs its PIN, and waits until it is running and sealed. */
export async function restartSealed(tools: Tools): Promise<void> {
  await deletePod(tools);
  await untilSealed(tools);
}

export async function untilSealed(tools: Tools): Promise<void> {
  const isSealed = async () => {
    const [pod] = await podsOf(tools, VAULT);
    if (pod?.status.phase !== "Running") return false;
    const status = await vaultStatus(tools).catch(() => undefined);
    return status !== undefined && status.sealed !== null;
  };
  await until("the vault has started and is sealed", isSealed, READY_MS);
}

async function deletePod(tools: Tools): Promise<void> {
  const { metadata } = await podOf(tools, VAULT);
  await tools.kubectl("-n", tools.namespace, "delete", "pod", metadata.name, "--wait");
}

type Mount = { name: string };
type Container = { name: string; volumeMounts: Mount[] };
type StatefulSet = { spec: { template: { spec: { containers: Container[] } } } };

/** Removes the vault's PIN file from the next start on. The returned function restores the file. */
export async function withoutPinFile(tools: Tools): Promise<() => Promise<void>> {
  const { spec } = await tools.read<StatefulSet>("-n", tools.namespace, "get", STATEFUL_SET);
  const { containers } = spec.template.spec;
  const without = containers.map((container) => ({
    ...container,
    volumeMounts: container.volumeMounts.filter(({ name }) => name !== PIN_VOLUME),
  }));
  const put = async (value: Container[]) => {
    const patch = JSON.stringify([{ op: "replace", path: CONTAINERS, value }]);
    await tools.kubectl("-n", tools.namespace, "patch", STATEFUL_SET, "--type=json", `--patch=${patch}`);
  };
  await put(without);
  return () => put(containers);
}
