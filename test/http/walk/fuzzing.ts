import fc from "fast-check";
import { errorCodes } from "../../../src/errors.ts";
import { leaderOf, type TestApi } from "../../support/api.ts";
import { credentialsOf, type Draft, draftOf, send } from "./call.ts";
import { contract } from "./documented.ts";
import { watchDatabase } from "./fingerprint.ts";
import { spoil, type Wish, wishes } from "./fuzz.ts";
import type { Operation } from "./openapi_document.ts";
import { type Scene, setScene } from "./scene.ts";

/** Tables that a refused call of an operation may change, because the operation counts refusals in them. */
const COUNTED: Record<string, readonly string[]> = {
  send_code: ["rate_limits"],
  verify_code: ["rate_limits", "sign_in_mails"],
  resend_delivery: ["rate_limits"],
  test_callback: ["rate_limits"],
  recover_deliveries: ["rate_limits"],
};

export type FuzzReport = { seed: number; calls: number; statuses: Record<number, number>; faults: string[] };

/**
 * Sends random calls. Reports every 5xx, every undocumented response, and every refused call that changed the
 * database. Stops after ten faults.
 */
export async function fuzz(
  api: TestApi,
  {
    count,
    seed,
    operations = contract.operations,
    most = 10,
  }: { count: number; seed: number; operations?: Operation[]; most?: number },
): Promise<FuzzReport> {
  const report: FuzzReport = { seed, calls: 0, statuses: {}, faults: [] };
  const watch = await watchDatabase(api.db);
  let scene = await setSafely(api);
  await watch.changes();
  for (const wish of fc.sample(wishes(operations), { numRuns: count, seed })) {
    const { answer, told, headers } = await callOnce(api, scene, wish);
    report.calls += 1;
    report.statuses[answer.status] = (report.statuses[answer.status] ?? 0) + 1;
    const tables = await watch.changes();
    const changed = answer.status >= 400 ? uncounted(wish, tables) : [];
    if (told.length + changed.length > 0) {
      const seen = { told, changed, answer: answer.text.slice(0, 300), wish: shown(wish), headers };
      report.faults.push(JSON.stringify(seen).slice(0, 3_000));
    }
    if (report.faults.length === most) break;
    if (tables.length > 0 && !(await isWhole(api, scene))) {
      scene = await setSafely(api);
      await watch.changes();
    }
  }
  return report;
}

/** Creates a scene with a working vault, even if a fault is planted in the vault. */
async function setSafely(api: TestApi): Promise<Scene> {
  const { failure } = api.vault;
  api.vault.failure = undefined;
  const scene = await setScene(api, { organization: true });
  api.vault.failure = failure;
  return scene;
}

async function callOnce(api: TestApi, scene: Scene, wish: Wish) {
  const draft = spoil(draftOf(wish.operation, scene), wish);
  const credentials: Draft["headers"] =
    wish.caller === 1 ? credentialsOf(wish.operation, scene) : wish.caller === 2 ? GARBAGE : [];
  const url = wish.operation.path.startsWith("/internal/") ? api.operatorUrl : api.url;
  const answer = await send(url, wellFormed(draft), credentials);
  const isFailure = answer.status >= 500 && answer.headers.get("x-service-decision") === null;
  const told = [...(isFailure ? [`status ${answer.status}`] : []), ...faultsOf(wish, answer)];
  return { answer, told, headers: draft.headers };
}

/** A changed path may belong to a different operation or to none. Then only the form of errors is checked. */
function faultsOf({ operation, params }: Wish, answer: Awaited<ReturnType<typeof send>>): string[] {
  const isElsewhere = params.length > 0;
  const faults = contract.violations(operation, answer);
  if (!isElsewhere || faults.length === 0) return faults;
  if (answer.status < 400) return [];
  const { code } = JSON.parse(answer.text).error ?? {};
  return code in errorCodes ? [] : faults;
}

const GARBAGE: Draft["headers"] = [
  ["cookie", "service_session=%00; service_csrf=; service_refresh=%ff"],
  ["x-service-csrf", "é"],
  ["x-service-api-key", `dpz_${"a".repeat(8)}_${"b".repeat(43)}_000000`],
];

/** Replaces lone surrogates in the path, because a URL cannot contain them. */
function wellFormed(draft: Draft): Draft {
  const params = Object.entries(draft.params).map(([name, text]) => [name, text.toWellFormed()]);
  return { ...draft, params: Object.fromEntries(params) };
}

function uncounted({ operation }: Wish, tables: string[]): string[] {
  const counted = COUNTED[operation.operationId];
  return tables.filter((name) => !counted?.includes(name));
}

/** Returns whether the scene is usable. A call may have signed out or removed the connection or agent. */
async function isWhole(api: TestApi, { person, keyed, platform, agentId, epoch }: Scene): Promise<boolean> {
  if ((await leaderOf(api, "c1")) !== epoch) return false;
  const session = await person.client.get("/v1/auth/session");
  const agent = await keyed("GET", `/v1/service/connections/${platform.connectionId}/agents/${agentId}`);
  return session.status === 200 && agent.status === 200 && agent.body.disabled_at === null;
}

function shown({ operation, ...wish }: Wish) {
  const raw = wish.body !== undefined && "raw" in wish.body ? wish.body.raw.toString("latin1") : undefined;
  return {
    operation: operation.operationId,
    ...wish,
    ...(raw === undefined ? {} : { body: raw.slice(0, 500) }),
  };
}
