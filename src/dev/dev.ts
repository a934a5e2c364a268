import { once } from "node:events";
import { join } from "node:path";
import { systemClock } from "../clock.ts";
import { readDevConfig } from "./config.ts";
import { fetchKafka } from "./kafka/jars.ts";
import { openStack, runStack, type Stack } from "./open_stack.ts";
import { readAliases, readCredits, readFolder, readPort } from "./options.ts";
import { reportRefused } from "./refused_manifests.ts";
import { startParts } from "./start_parts.ts";
import { writeAtomically } from "./state_folder.ts";
import { createTerminal } from "./terminal.ts";
import { accessOf, tryItYourself } from "./tour/access_file.ts";
import { customerSteps } from "./tour/customer_steps.ts";
import { type FolderWorld, keptDelegation, recallKeptDelegation } from "./tour/kept_delegation.ts";
import { codeInMailbox } from "./tour/person.ts";
import { startReceiver } from "./tour/receiver.ts";
import { runTour } from "./tour/run_tour.ts";
import { type TourState, tourSteps } from "./tour/steps.ts";
import { type RunningShop, startAgents } from "./tour/try_agent.ts";
import { statusOf } from "./user_error.ts";

/** Options of `deputize dev`, as given on the command line. */
export type DevOptions = {
  once?: boolean;
  json?: boolean;
  data: string;
  port: string;
  alias?: string[];
  credits?: string;
  kafka?: boolean;
};

/** The example's `tenants.yaml` binds its namespace to the account of this owner. */
const OWNER_EMAIL = "owner@example.test";
/** The event timeout is long because the deliveries of a killed worker stay locked for 20 s. */
const PATIENCE = { statusMs: 30_000, eventMs: 60_000 };

/**
 * Starts the whole service, runs the tour, and keeps the service up until Ctrl-C. With `once`, stops it after
 * the tour. In a data folder that was used before, people may have changed the declared objects. A failed
 * tour in such a folder stops the service only with `once`. Resolves to the exit status.
 */
export async function runDev(options: DevOptions): Promise<number> {
  const { color, ...settings } = readDevConfig();
  const terminal = createTerminal({
    out: process.stdout,
    err: process.stderr,
    color,
    json: options.json === true,
  });
  let stack: Stack;
  let apiPort: number;
  let aliases: string[];
  let credits: number | undefined;
  let kafkaJars: string | undefined;
  try {
    apiPort = readPort(options.port);
    aliases = readAliases(options.alias ?? []);
    credits = options.credits === undefined ? undefined : readCredits(options.credits);
    const folder = readFolder(options.data);
    if (options.kafka === true) kafkaJars = await fetchKafka(terminal);
    stack = await openStack({ folder, terminal });
  } catch (error) {
    terminal.problem(error);
    return statusOf(error);
  }
  return runStack(stack, terminal, async (interrupted) => {
    terminal.line("Starting\n");
    const parts = { apiPort, aliases, credits, kafkaJars, ownerEmail: OWNER_EMAIL, interrupted, ...settings };
    const { baseUrl, quickstart, isNew } = await startParts(stack, terminal, parts);
    const stopReporting = reportRefused(join(stack.folder, "status"), terminal);
    const receiver = await startReceiver({
      logFile: join(stack.folder, "received.jsonl"),
      clock: systemClock,
      interrupted,
    });
    let agents: RunningShop | undefined;
    try {
      const earlier = await quickstart.credentials().catch((error: unknown) => terminal.problem(error));
      if (earlier) receiver.useSecret(earlier.webhook_signing_secret);
      const known = { baseUrl, email: OWNER_EMAIL, readCode: codeInMailbox, patience: PATIENCE };
      const world: FolderWorld = { ...known, quickstart, receiver };
      const state = {} as TourState;
      const staysUp = options.once !== true;
      const shown = [...tourSteps, ...customerSteps];
      const steps = staysUp ? [...shown, keptDelegation] : shown;
      terminal.line("\nThe main job: a person lends an agent authority, and takes it back\n");
      const mayFail = staysUp && !isNew;
      const isDone = await runTour(terminal, { steps, world, state, interrupted, mayFail });
      if (!staysUp) return;
      if (!isDone) await recallKeptDelegation(world, state);
      const access = accessOf(baseUrl, state, OWNER_EMAIL);
      const kept = terminal.step("connection_kept", "The connection's details are saved in a file");
      const file = join(stack.folder, "connection.json");
      await writeAtomically(file, `${JSON.stringify(access, undefined, 2)}\n`);
      kept.done(file);
      const agentKey = await quickstart.agentKey().catch((error: unknown) => terminal.problem(error));
      const report = (problem: unknown) => terminal.problem(problem);
      agents = await startAgents(stack.folder, access, { agentKey: agentKey || undefined, report });
      for (const line of tryItYourself(access, stack.folder, agents)) terminal.line(line);
      if (!interrupted.aborted) await once(interrupted, "abort");
    } finally {
      stopReporting();
      await agents?.close();
      await receiver.close();
    }
  });
}
