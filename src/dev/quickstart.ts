import { copyFile, mkdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parse } from "yaml";

/** What the operator published for an application, as its Secret holds it. */
export type PlatformCredentials = {
  api_key: string;
  api_key_prefix: string;
  connection_id: string;
  webhook_signing_secret: string;
};

/** The fields of an object's status that the tour reads. */
export type ObjectStatus = {
  agentID?: string;
  requestID?: string;
  certID?: string;
  conditions?: { type: string; status: string; reason: string; message: string }[];
};

export type QuickstartKind = "platform" | "agent" | "delegation";

/** The example's manifests in the folder that the operator watches, and what the operator says of them. */
export type QuickstartFolder = {
  /** Declares tenant, platform and agent; what is there already stays as it is. */
  declarePlatform(): Promise<void>;
  /** Declares the delegation afresh: one from an earlier run is withdrawn first. */
  requestDelegation(): Promise<void>;
  credentials(): Promise<PlatformCredentials | undefined>;
  status(kind: QuickstartKind): Promise<ObjectStatus | undefined>;
  /** The operator's own words on why something is not ready. */
  explain(kind: QuickstartKind): Promise<string>;
};

const NAMESPACE = "default";
const names: Record<QuickstartKind, string> = { platform: "shop", agent: "shop-bot", delegation: "shop-bot" };
const WITHDRAW_TIMEOUT_MS = 30_000;
const POLL_MS = 50;

type Folders = { examples: string; manifests: string; status: string; secrets: string };

/** Works on copies of `examples` in `manifests`, so that a reader can change those and watch. */
export function openQuickstart({ examples, manifests, status, secrets }: Folders): QuickstartFolder {
  const statusFile = (kind: QuickstartKind) => join(status, NAMESPACE, `${kind}.${names[kind]}.yaml`);

  async function readStatus(kind: QuickstartKind): Promise<ObjectStatus | undefined> {
    const state = (await readYaml(statusFile(kind))) as { status?: ObjectStatus } | undefined;
    return state?.status;
  }

  async function declare(file: string): Promise<void> {
    await mkdir(manifests, { recursive: true });
    await copyFile(join(examples, file), join(manifests, file));
  }

  return {
    async declarePlatform() {
      for (const file of ["tenants.yaml", "platform.yaml", "agent.yaml"]) {
        if ((await readText(join(manifests, file))) === undefined) await declare(file);
      }
    },
    async requestDelegation() {
      await rm(join(manifests, "delegation.yaml"), { force: true });
      const end = performance.now() + WITHDRAW_TIMEOUT_MS;
      while ((await readText(statusFile("delegation"))) !== undefined) {
        if (performance.now() > end) throw new Error("The earlier delegation was not withdrawn");
        await sleep(POLL_MS);
      }
      await declare("delegation.yaml");
    },
    async credentials() {
      const secret = (await readYaml(join(secrets, NAMESPACE, `${names.platform}-credentials.yaml`))) as
        | { data?: Record<string, string> }
        | undefined;
      if (!secret?.data) return undefined;
      const entries = Object.entries(secret.data).map(([key, value]) => [key, fromBase64(value)]);
      return Object.fromEntries(entries) as PlatformCredentials;
    },
    status: readStatus,
    async explain(kind) {
      const ready = (await readStatus(kind))?.conditions?.find((condition) => condition.type === "Ready");
      return ready
        ? `Ready=${ready.status}, ${ready.reason}: ${ready.message}`
        : "the operator has not seen it";
    },
  };
}

function fromBase64(text: string): string {
  return Buffer.from(text, "base64").toString("utf8");
}

async function readText(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if ((error as { code?: string }).code === "ENOENT") return undefined;
    throw error;
  }
}

async function readYaml(path: string): Promise<unknown> {
  const text = await readText(path);
  return text === undefined ? undefined : parse(text);
}
