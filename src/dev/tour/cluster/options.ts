import { exitStatus } from "../../../input/exit_status.ts";
import { UserError } from "../../user_error.ts";

/** Options of `deputize tour`, as given on the command line. */
export type ClusterTourOptions = {
  kubeconfig?: string;
  context?: string;
  release: string;
  releaseNamespace: string;
  namespace?: string;
  email?: string;
  mailCode?: string;
  webhooks: boolean;
  json?: boolean;
  timeout: string;
};

/** The parsed options. */
export type ClusterTourSettings = {
  /** Arguments of every kubectl call. */
  common: string[];
  release: string;
  releaseNamespace: string;
  /** An existing namespace, which must remain. `undefined` lets the tour create one. */
  namespace: string | undefined;
  email: string | undefined;
  /** True to ask the user for the sign-in code. False to read it from a trial's mailbox. */
  asksForCode: boolean;
  webhooks: boolean;
  timeoutMs: number;
  removalMs: number;
};

/** Minimum removal timeout, since the deletion of a namespace takes some seconds. */
const LEAST_REMOVAL_MS = 30_000;
const NAME = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const EMAIL = /^[^\s@]+@[^\s@]+\.[^\s@]+$/;
const MOST_SECONDS = 3_600;

/** Parses the options. Throws `UserError` for an invalid option. */
export function readClusterTour(options: ClusterTourOptions): ClusterTourSettings {
  const { kubeconfig, context, email, mailCode, webhooks } = options;
  const timeoutMs = secondsIn(options.timeout) * 1000;
  return {
    common: [
      ...(kubeconfig === undefined ? [] : [`--kubeconfig=${kubeconfig}`]),
      ...(context === undefined ? [] : [`--context=${context}`]),
    ],
    release: nameIn("--release", options.release),
    releaseNamespace: nameIn("--release-namespace", options.releaseNamespace),
    namespace: options.namespace === undefined ? undefined : nameIn("--namespace", options.namespace),
    email: email === undefined ? undefined : emailIn(email),
    asksForCode: mailCode === undefined ? false : asks(mailCode),
    webhooks,
    timeoutMs,
    removalMs: Math.max(timeoutMs, LEAST_REMOVAL_MS),
  };
}

function nameIn(option: string, text: string): string {
  if (NAME.test(text)) return text;
  throw wrong(
    `${option} ${JSON.stringify(text)} is not a name in Kubernetes`,
    "Give lower-case letters, digits and hyphens, such as deputize-system",
  );
}

function emailIn(text: string): string {
  if (EMAIL.test(text)) return text;
  throw wrong(`--email ${JSON.stringify(text)} is not an e-mail address`);
}

function asks(text: string): boolean {
  if (text === "-") return true;
  throw wrong(
    `--mail-code accepts only "-", not ${JSON.stringify(text)}`,
    "The code arrives by email while the tour runs; with --mail-code - the tour then asks you for it",
  );
}

function secondsIn(text: string): number {
  const seconds = Number(text);
  if (/^\d+$/.test(text) && seconds > 0 && seconds <= MOST_SECONDS) return seconds;
  throw wrong(
    `--timeout ${JSON.stringify(text)} is not a number of seconds`,
    `Give a number of seconds from 1 to ${MOST_SECONDS}`,
  );
}

function wrong(message: string, remedy?: string): UserError {
  return new UserError(message, remedy, { status: exitStatus.usage });
}
