import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parse, stringify } from "yaml";
import { until } from "../../support/process.ts";
import type { World } from "./world.ts";

/** Agents that are declared one after another, as files for the operator. */
export type Declaring = {
  names: string[];
  /** Ends, and waits until the operator has reported every agent as ready. */
  stop(): Promise<void>;
  /** Differences between the declared agents, the operator's reports and the database. */
  differences(): Promise<Record<string, string[]>>;
};

const PAUSE_MS = 3_000;
const READY_MS = 180_000;
const NAMESPACE = "default";

type State = {
  status?: { agentID?: string; conditions?: { type: string; status: string }[] };
};

type Folders = Omit<World["operatorFolders"], "secrets">;

export function startDeclaring({
  operatorFolders,
  sql,
}: Pick<World, "sql"> & { operatorFolders: Folders }): Declaring {
  const names: string[] = [];
  const stopping = new AbortController();
  const { signal } = stopping;
  async function declare(): Promise<void> {
    while (!signal.aborted) {
      const name = `declared-${names.length}`;
      const metadata = { name, namespace: NAMESPACE };
      const spec = { platformRef: { name: "shop" }, displayName: name, agentType: "api_agent" };
      const manifest = { apiVersion: "deputize.io/v1alpha1", kind: "Agent", metadata, spec };
      await writeFile(join(operatorFolders.manifests, `${name}.yaml`), stringify(manifest));
      names.push(name);
      await sleep(PAUSE_MS, undefined, { signal }).catch(() => undefined);
    }
  }
  const running = declare();
  const stateOf = async (name: string): Promise<State> => {
    const path = join(operatorFolders.status, NAMESPACE, `agent.${name}.yaml`);
    return parse(await readFile(path, "utf8").catch(() => "{}")) as State;
  };
  const isReady = async (name: string): Promise<boolean> => {
    const { status } = await stateOf(name);
    return status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True") === true;
  };
  return {
    names,
    async stop() {
      stopping.abort();
      await running;
      for (const name of names) await until(`${name} is ready`, () => isReady(name), READY_MS);
    },
    async differences() {
      const rows = await sql("select agent_id, name from agents where name like 'declared-%'");
      const reported = new Set(
        await Promise.all(names.map(async (name) => (await stateOf(name)).status?.agentID)),
      );
      const stored = rows.map(({ name }) => String(name));
      return {
        "lost agents": names.filter((name) => !stored.includes(name)),
        "invented agents": rows
          .filter(({ agent_id }) => !reported.has(String(agent_id)))
          .map(({ name }) => String(name)),
      };
    },
  };
}
