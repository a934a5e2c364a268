import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parse, parseDocument } from "yaml";
import { writeAtomically } from "../state_folder.ts";
import { UserError } from "../user_error.ts";

/** What the operator published for an application, as its Secret holds it. */
export type PlatformCredentials = {
  api_key: string;
  api_key_prefix: string;
  connection_id: string;
  webhook_signing_secret: string;
};

type Condition = {
  type: string;
  status: string;
  reason: string;
  message: string;
  observedGeneration?: number;
};

/** The fields of an object's status that the tour reads. */
export type ObjectStatus = {
  agentID?: string;
  requestID?: string;
  certID?: string;
  approvedScope?: string[];
  conditions?: Condition[];
};

/**
 * What the operator says of an object as it is declared now: never of an earlier version, nor of one being
 * deleted.
 */
export type ObjectState = { ready: boolean; stalled: boolean; reason: string; status: ObjectStatus };

/** `tour` is the delegation of the tour's own; `delegation` is the reader's. */
export type QuickstartKind = "platform" | "agent" | "tour" | "delegation";

/** The example's manifests in the folder that the operator watches, and what the operator says of them. */
export type QuickstartFolder = {
  /** The namespace of the manifests, and what the API calls the folder that they lie in. */
  place(): Promise<{ clusterId: string; namespace: string }>;
  /**
   * Declares tenant, platform and agent; what is there already stays as it is. Where there is nothing of the
   * example yet, the reader's delegation is written with it.
   */
  declarePlatform(): Promise<void>;
  /** Declares the tour's own delegation again, in `tour.yaml`: one from an earlier run is withdrawn first. */
  requestTour(): Promise<void>;
  /** Whether the reader's `delegation.yaml` is the example's, something else, or not there. */
  delegationFile(): Promise<"example" | "edited" | "missing">;
  /** Declares the reader's delegation again from the example: the current one is withdrawn first. */
  renewDelegation(): Promise<void>;
  /** What the operator published last. Throws `UserError` for a file that is damaged. */
  credentials(): Promise<PlatformCredentials | undefined>;
  /** Throws `UserError` for a status file that is damaged. */
  objectState(kind: QuickstartKind): Promise<ObjectState | undefined>;
  /** The operator's own words on why something is not ready. */
  explain(kind: QuickstartKind): Promise<string>;
};

const NAMESPACE = "default";
const objects: Record<QuickstartKind, string> = {
  platform: "platform.shop",
  agent: "agent.shop-bot",
  tour: "delegation.shop-bot-tour",
  delegation: "delegation.shop-bot",
};
const PLATFORM_FILES = ["tenants.yaml", "platform.yaml", "agent.yaml"];
const DELEGATION_FILE = "delegation.yaml";
const TOUR_FILE = "tour.yaml";
const TOUR_COMMENT =
  " The delegation that the tour asks for, uses and revokes; written anew at each start.\n Yours is in delegation.yaml.";
const WITHDRAW_TIMEOUT_MS = 30_000;
const POLL_MS = 50;

type QuickstartSettings = {
  examples: string;
  manifests: string;
  status: string;
  secrets: string;
  /** Once it is aborted nothing is waited for any more: new and pending calls are rejected. */
  interrupted: AbortSignal;
};
type StateFile = { metadata?: { generation?: number; deletionTimestamp?: string }; status?: ObjectStatus };

/** Works on copies of `examples` in `manifests`, so that a reader can change those and watch. */
export function openQuickstart({
  examples,
  manifests,
  status,
  secrets,
  interrupted,
}: QuickstartSettings): QuickstartFolder {
  const statusFile = (kind: QuickstartKind) => join(status, NAMESPACE, `${objects[kind]}.yaml`);
  const example = (file: string) => readFile(join(examples, file), "utf8");
  const declared = (file: string) => readText(join(manifests, file));

  async function readState(kind: QuickstartKind): Promise<StateFile | undefined> {
    return (await readYaml(statusFile(kind))) as StateFile | undefined;
  }

  async function place(file: string): Promise<void> {
    await writeAtomically(join(manifests, file), await example(file));
  }

  async function withdraw(file: string, kind: QuickstartKind): Promise<void> {
    await rm(join(manifests, file), { force: true });
    const end = performance.now() + WITHDRAW_TIMEOUT_MS;
    while ((await readText(statusFile(kind))) !== undefined) {
      if (performance.now() > end) throw new Error("The earlier delegation was not withdrawn");
      await sleep(POLL_MS, undefined, { signal: interrupted });
    }
  }

  return {
    async place() {
      const identity = (await readYaml(join(status, "cluster.yaml"))) as { clusterID?: string } | undefined;
      if (identity?.clusterID === undefined) throw new Error("The operator has no identity yet");
      return { clusterId: identity.clusterID, namespace: NAMESPACE };
    },
    async declarePlatform() {
      const missing: string[] = [];
      for (const file of [...PLATFORM_FILES, DELEGATION_FILE]) {
        if ((await declared(file)) === undefined) missing.push(file);
      }
      const isFirst = missing.length > PLATFORM_FILES.length;
      for (const file of missing) {
        if (file !== DELEGATION_FILE || isFirst) await place(file);
      }
    },
    async requestTour() {
      await withdraw(TOUR_FILE, "tour");
      const manifest = parseDocument(await example(DELEGATION_FILE));
      manifest.setIn(["metadata", "name"], "shop-bot-tour");
      manifest.commentBefore = TOUR_COMMENT;
      await writeAtomically(join(manifests, TOUR_FILE), manifest.toString());
    },
    async delegationFile() {
      const text = await declared(DELEGATION_FILE);
      if (text === undefined) return "missing";
      return text === (await example(DELEGATION_FILE)) ? "example" : "edited";
    },
    async renewDelegation() {
      await withdraw(DELEGATION_FILE, "delegation");
      await place(DELEGATION_FILE);
    },
    async credentials() {
      const secret = (await readYaml(join(secrets, NAMESPACE, "shop-credentials.yaml"))) as
        | { data?: Record<string, string> }
        | undefined;
      if (!secret?.data) return undefined;
      const entries = Object.entries(secret.data).map(([key, value]) => [key, fromBase64(value)]);
      return Object.fromEntries(entries) as PlatformCredentials;
    },
    async objectState(kind) {
      interrupted.throwIfAborted();
      const state = await readState(kind);
      const generation = state?.metadata?.generation;
      if (!state?.status || generation === undefined || state.metadata?.deletionTimestamp) return undefined;
      const ready = condition(state.status, "Ready");
      if (ready?.observedGeneration !== generation) return undefined;
      return {
        ready: ready.status === "True",
        stalled: condition(state.status, "Stalled")?.status === "True" || ready.reason === "Suspended",
        reason: ready.reason,
        status: state.status,
      };
    },
    async explain(kind) {
      const ready = condition((await readState(kind))?.status ?? {}, "Ready");
      return ready
        ? `Ready=${ready.status}, ${ready.reason}: ${ready.message}`
        : "the operator has not seen it";
    },
  };
}

function condition({ conditions }: ObjectStatus, type: string): Condition | undefined {
  return conditions?.find((candidate) => candidate.type === type);
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
  if (text === undefined) return undefined;
  let value: unknown;
  try {
    value = parse(text);
  } catch (cause) {
    throw damaged(path, cause);
  }
  if (typeof value !== "object" || value === null) throw damaged(path);
  return value;
}

function damaged(path: string, cause?: unknown): UserError {
  return new UserError(`${path} is damaged: it is not the YAML that the operator writes`, `Remove the file`, {
    cause,
  });
}
