import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parse } from "yaml";
import { writeAtomically } from "../state_folder.ts";
import { UserError } from "../user_error.ts";
import {
  CREDENTIALS_NAME,
  credentialsOf,
  type DeclaredObject,
  explanationOf,
  objectNames,
  type Quickstart,
  type QuickstartKind,
  quickstartFiles,
  stateOf,
  tourDelegation,
} from "./quickstart.ts";

/**
 * The example's manifests in the folder that the operator watches. In a new folder, `declarePlatform` also
 * declares the reader's delegation.
 */
export type QuickstartFolder = Quickstart & {
  /** Returns the state of the reader's `delegation.yaml`. */
  delegationFile(): Promise<"example" | "edited" | "missing">;
  renewDelegation(): Promise<void>;
  /** Returns the API key that the operator published for the agent. */
  agentKey(): Promise<string | undefined>;
};

const NAMESPACE = "default";
const { delegation: DELEGATION_FILE, ...platformFiles } = quickstartFiles;
const PLATFORM_FILES = Object.values(platformFiles);
const TOUR_FILE = "tour.yaml";
const TOUR_COMMENT =
  " The delegation that the tour asks for, uses and revokes; rewritten at each start.\n Yours is in delegation.yaml.";
const WITHDRAW_TIMEOUT_MS = 30_000;
const POLL_MS = 50;

type QuickstartSettings = {
  examples: string;
  manifests: string;
  status: string;
  secrets: string;
  /** When `interrupted` aborts, new and pending calls reject. */
  interrupted: AbortSignal;
};

/**
 * Works on copies of `examples` in `manifests`, so that a reader can edit the copies and watch the result.
 */
export function openQuickstart({
  examples,
  manifests,
  status,
  secrets,
  interrupted,
}: QuickstartSettings): QuickstartFolder {
  const statusFile = (kind: QuickstartKind) => {
    const word = kind === "tour" ? "delegation" : kind;
    return join(status, NAMESPACE, `${word}.${objectNames[kind]}.yaml`);
  };
  const example = (file: string) => readFile(join(examples, file), "utf8");
  const declared = (file: string) => readText(join(manifests, file));

  async function readState(kind: QuickstartKind): Promise<DeclaredObject | undefined> {
    return (await readYaml(statusFile(kind))) as DeclaredObject | undefined;
  }

  async function published(name: string) {
    const secret = await readYaml(join(secrets, NAMESPACE, `${name}.yaml`));
    return credentialsOf(secret as { data?: Record<string, string> } | undefined);
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
      const manifest = tourDelegation(await example(DELEGATION_FILE));
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
    credentials: () => published(CREDENTIALS_NAME),
    async agentKey() {
      return (await published(`${objectNames.agent}-agent-key`))?.api_key;
    },
    async objectState(kind) {
      interrupted.throwIfAborted();
      return stateOf(await readState(kind));
    },
    explain: async (kind) => explanationOf(await readState(kind)),
  };
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
