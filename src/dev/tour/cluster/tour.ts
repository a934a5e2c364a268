import { fileURLToPath } from "node:url";
import { createKubectl, Failure, type Kubectl } from "../../../plugin/kubectl.ts";
import { readDevConfig } from "../../config.ts";
import { runStack } from "../../open_stack.ts";
import { createTerminal, inStep, type Terminal } from "../../terminal.ts";
import { UserError } from "../../user_error.ts";
import { customerSteps } from "../customer_steps.ts";
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

/** Access to programs in the cluster. Tests without pods supply a replacement. */
export type Reach = {
  forward(target: ForwardTarget): Promise<Forward>;
  /** Resolves when the pod accepts webhooks, to the URL for deliveries and the forward for reading them. */
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

/** Account that only the tour uses in a trial, since an account may have only one platform. */
const TRIAL_EMAIL = "tour@example.test";
const EXAMPLES = fileURLToPath(new URL("../../../../docs/examples/quickstart", import.meta.url));

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
 * Runs the steps of `npm start` against a release in a cluster. Then always tries to remove everything that
 * it created. Resolves to the exit status: 0 after success, 1 after a failure or if something is left in the
 * cluster, 130 after an interruption.
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
  async function cleanUp(): Promise<void> {
    await ended.promise;
    isClean = await undo.all();
  }
  let cleaning: Promise<void> | undefined;
  const stop = () => {
    cleaning ??= cleanUp();
    return cleaning;
  };
  const status = await runStack({ stop, kill: undo.printLeft }, terminal, async (interrupted) => {
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
  const { baseUrl } = await shown(context, "api_reached", "A connection to its API", async () => {
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
    what: `the objects declared in ${namespace}`,
    remove: () => removeDeclared(own, { state, clusterId, namespace, removalMs }),
    byHand: `kubectl delete ${tourObjects.join(" ")} --namespace=${namespace}`,
  });
  const codeFromTerminal = askForCode(
    { input: process.stdin, output: process.stderr },
    interrupted,
    terminal.halt,
  );
  const world: TourWorld = {
    baseUrl,
    email,
    readCode: settings.asksForCode ? codeFromTerminal : codeInMailbox,
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
  // Their mails go to another address, which only the development mailbox shows.
  const steps = settings.asksForCode ? tourSteps : [...tourSteps, ...customerSteps];
  await runTour(terminal, { steps, world, state, interrupted, mayFail: false });
}

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

/** Deletes the objects, waits until the operator has released them, and withdraws the acceptance. */
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

/** Throws `UserError` if the tour could receive no emails or no webhooks of the release. */
function requireReachable({ name, isDevelopment }: Release, settings: ClusterTourSettings): void {
  const { asksForCode, email, webhooks } = settings;
  if (isDevelopment) return;
  if (!asksForCode || email === undefined) {
    throw new UserError(
      `Release ${name} sends sign-in codes by email`,
      "Use --mail-code - and --email <address>; the tour then asks for the code",
    );
  }
  if (webhooks) {
    throw new UserError(
      `Release ${name} accepts only https callbacks, but the tour's receiver uses http`,
      "Use --no-webhooks",
    );
  }
}

function shown<T extends { detail: string }>(
  { terminal, interrupted }: Pick<Context, "terminal" | "interrupted">,
  name: string,
  title: string,
  work: () => Promise<T>,
): Promise<T> {
  interrupted.throwIfAborted();
  return inStep(terminal.step(name, title), { detail: ({ detail }) => detail, interrupted }, work);
}
