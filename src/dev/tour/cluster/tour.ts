import { fileURLToPath } from "node:url";
import { createKubectl, Failure, type Kubectl } from "../../../plugin/kubectl.ts";
import { readDevConfig } from "../../config.ts";
import { runStack } from "../../open_stack.ts";
import { createTerminal, inStep, type Terminal } from "../../terminal.ts";
import { UserError } from "../../user_error.ts";
import { askForCode, codeInMailbox } from "../person.ts";
import type { Receiver } from "../receiver.ts";
import { runTour } from "../run_tour.ts";
import { NAMESPACE_BINDINGS, type TourState, type TourWorld, tourSteps } from "../steps.ts";
import { bindNamespace, choosePlace, makeNamespace, type Place, receiverObjects } from "./namespace.ts";
import { apply, openClusterQuickstart, tourObjects } from "./objects.ts";
import { type ClusterTourOptions, type ClusterTourSettings, readClusterTour } from "./options.ts";
import { type Forward, type ForwardTarget, forwardPort } from "./port_forward.ts";
import {
  READ_PORT,
  RECEIVER,
  readReceiver,
  receiverManifests,
  receiverReady,
  receiverUrl,
} from "./receiver_pod.ts";
import { findRelease, type Release } from "./release.ts";
import { createUndo, type Undo } from "./undo.ts";

/** How what runs in the cluster is reached; a test without pods has ways of its own. */
export type Reach = {
  forward(target: ForwardTarget): Promise<Forward>;
  /** Resolves when the receiver's pod takes webhooks: where they are sent, and where they are read. */
  receiver(place: {
    kubectl: Kubectl;
    namespace: string;
    timeoutMs: number;
    interrupted: AbortSignal;
  }): Promise<{
    url: string;
    deliveries: Forward;
  }>;
};

/** Whose account it is in a trial: nobody else's, since an account may have a single platform. */
const TRIAL_EMAIL = "tour@example.test";
const EXAMPLES = fileURLToPath(new URL("../../../../docs/examples/quickstart", import.meta.url));

/** Pods of the cluster, by kubectl. */
function reachByKubectl(common: readonly string[]): Reach {
  const forward: Reach["forward"] = (target) => forwardPort(common, target);
  return {
    forward,
    async receiver({ kubectl, namespace, timeoutMs, interrupted }) {
      await receiverReady(kubectl, timeoutMs, interrupted);
      const target = { namespace, name: `pod/${RECEIVER}`, port: String(READ_PORT) };
      return { url: await receiverUrl(kubectl), deliveries: await forward(target) };
    },
  };
}

/**
 * Shows the main job on a cluster where a release runs, with the steps of `npm start`, and takes away what it
 * made, after a failure and an interruption too. Resolves to the exit status: 0, 1 after a refusal, a
 * surprise, or when something is left, 130 when interrupted.
 */
export async function runClusterTour(
  options: ClusterTourOptions,
  reachBy: (common: readonly string[]) => Reach = reachByKubectl,
): Promise<number> {
  const { stdout: out, stderr: err } = process;
  const { color } = readDevConfig();
  const terminal = createTerminal({ out, err, color, json: options.json === true });
  const undo = createUndo(terminal);
  const ended = Promise.withResolvers<void>();
  let isClean = true;
  async function takeAway(): Promise<void> {
    await ended.promise;
    isClean = await undo.all();
  }
  let taken: Promise<void> | undefined;
  const stop = () => {
    taken ??= takeAway();
    return taken;
  };
  const status = await runStack({ stop, kill: undo.tellLeft }, terminal, async (interrupted) => {
    try {
      const settings = readClusterTour(options);
      await tour({ settings, terminal, undo, interrupted, reach: reachBy(settings.common) });
    } catch (error) {
      throw error instanceof Failure ? new UserError(error.message) : error;
    } finally {
      ended.resolve();
    }
  });
  return status === 0 && !isClean ? 1 : status;
}

type Context = {
  settings: ClusterTourSettings;
  terminal: Terminal;
  undo: Undo;
  interrupted: AbortSignal;
  reach: Reach;
};

async function tour(context: Context): Promise<void> {
  const { settings, terminal, undo, interrupted, reach } = context;
  const { common, timeoutMs, removalMs } = settings;
  const kubectl = createKubectl(common);
  const inside = (namespace: string) => createKubectl([...common, `--namespace=${namespace}`]);
  terminal.line("Preparing\n");
  const { release, place } = await shown(context, "release_found", "A release that is ready", async () => {
    const release = await findRelease(kubectl, settings);
    requireReachable(release, settings);
    const place = await choosePlace(kubectl, inside, release, settings.namespace);
    const detail = `release ${release.name} in namespace ${release.namespace}, version ${release.version}`;
    return { release, place, detail };
  });
  const { namespace } = place;
  const own = inside(namespace);
  const email = settings.email ?? TRIAL_EMAIL;
  const state = {} as TourState;
  const { baseUrl } = await shown(context, "api_reached", "A way to its API", async () => {
    const target = { namespace: release.namespace, name: `service/${release.apiService}`, port: "http" };
    const api = await reach.forward(target);
    undo.add({ remove: api.close });
    return { baseUrl: api.url, detail: `${api.url}, by kubectl port-forward` };
  });
  const { bind } = await shown(context, "namespace_made", "A namespace for the tour", async () => {
    if (!place.isKept) await makeNamespace(kubectl, undo, namespace, removalMs);
    const { operatorNamespace } = release;
    const bind = await bindNamespace(kubectl, undo, { place, email, operatorNamespace });
    return {
      bind,
      detail: `${namespace}${place.isKept ? ", which is kept" : ", with restricted pods only"}`,
    };
  });
  const receiver = settings.webhooks
    ? await startReceiver(context, { release, place, kubectl: own })
    : undefined;
  const { clusterId } = release;
  undo.add({
    what: `what it declared in ${namespace}`,
    remove: () => removeDeclared(own, { state, clusterId, namespace, removalMs }),
    byHand: `kubectl delete ${tourObjects.join(" ")} --namespace=${namespace}`,
  });
  const asked = askForCode({ input: process.stdin, output: process.stderr }, interrupted, terminal.halt);
  const world: TourWorld = {
    baseUrl,
    email,
    readCode: settings.asksForCode ? asked : codeInMailbox,
    quickstart: openClusterQuickstart({
      kubectl: own,
      examples: EXAMPLES,
      clusterId,
      namespace,
      bind,
      interrupted,
    }),
    ...(receiver !== undefined && { receiver }),
    patience: { statusMs: timeoutMs, eventMs: timeoutMs },
  };
  terminal.line("\nThe main job: a person lends an agent authority, and takes it back\n");
  await runTour(terminal, { steps: tourSteps, world, state, interrupted, mayFail: false });
}

/** The receiver of webhooks in the cluster. */
async function startReceiver(
  context: Context,
  { release, place, kubectl }: { release: Release; place: Place; kubectl: Kubectl },
): Promise<Receiver> {
  const { settings, undo, interrupted, reach } = context;
  const { namespace, isKept } = place;
  const { timeoutMs, removalMs } = settings;
  const { receiver } = await shown(context, "receiver_ready", "A receiver of webhooks", async () => {
    if (isKept) {
      const removal = ["delete", ...receiverObjects, "--ignore-not-found", `--timeout=${removalMs}ms`];
      const byHand = `kubectl delete ${receiverObjects.join(" ")} --namespace=${namespace}`;
      undo.add({ what: "the receiver", remove: async () => void (await kubectl.run(removal)), byHand });
    }
    await apply(kubectl, await receiverManifests(release, namespace));
    const { url, deliveries } = await reach.receiver({ kubectl, namespace, timeoutMs, interrupted });
    undo.add({ remove: deliveries.close });
    const receiver = readReceiver({ url, deliveriesUrl: deliveries.url }, interrupted);
    undo.add({ remove: receiver.close });
    return { receiver, detail: `${url}, a pod of ${release.image.name}` };
  });
  return receiver;
}

/** Withdraws what the tour declared, waits until the operator has let it go, and ends the acceptance. */
async function removeDeclared(
  kubectl: Kubectl,
  known: { state: TourState; clusterId: string; namespace: string; removalMs: number },
): Promise<void> {
  const { state, clusterId, namespace, removalMs } = known;
  await kubectl.run(["delete", ...tourObjects, "--ignore-not-found", `--timeout=${removalMs}ms`]);
  if (state.accepted !== true) return;
  await state.person.call("DELETE", `${NAMESPACE_BINDINGS}/${clusterId}/${namespace}`);
  state.accepted = false;
}

/** Throws `UserError` where mail or webhooks of the release cannot reach the tour. */
function requireReachable({ name, isDevelopment }: Release, settings: ClusterTourSettings): void {
  const { asksForCode, email, webhooks } = settings;
  if (isDevelopment) return;
  if (!asksForCode || email === undefined) {
    throw new UserError(
      `Release ${name} mails its codes`,
      "Say --mail-code - and --email <address>, and be asked for the code that is mailed there",
    );
  }
  if (webhooks) {
    throw new UserError(
      `Release ${name} takes https callbacks only, which the tour's receiver is not`,
      "Say --no-webhooks",
    );
  }
}

/** Does it as a step of the terminal, whose detail is part of the answer. */
function shown<T extends { detail: string }>(
  { terminal, interrupted }: Pick<Context, "terminal" | "interrupted">,
  name: string,
  title: string,
  work: () => Promise<T>,
): Promise<T> {
  interrupted.throwIfAborted();
  return inStep(terminal.step(name, title), { detail: ({ detail }) => detail, interrupted }, work);
}
