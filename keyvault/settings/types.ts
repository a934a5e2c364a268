import { statSync } from "node:fs";
import { isIP } from "node:net";
import { z } from "zod";
import { invalidScopes } from "../../src/protocol/documents/scopes.ts";

/** A text of a documented kind. Tests know wrong values of each kind. */
const textOf = (kind: string) => z.string().meta({ kind });

const WHOLE = /^\d{1,9}$/;

/** A whole number in a range. */
export function wholeNumber(from: number, to: number) {
  const isInRange = (text: string) => WHOLE.test(text) && Number(text) >= from && Number(text) <= to;
  return textOf("number").refine(isInRange, `must be a whole number from ${from} to ${to}`).transform(Number);
}

/** Kubernetes sets such a variable for each Service, and `KEYVAULT_PORT` is also the name of a setting. */
const SERVICE_LINK = /^(?:tcp|udp|sctp):\/\//;
/** A port. With 0 the system chooses a free port. */
export const port = textOf("number")
  .refine((text) => !SERVICE_LINK.test(text), {
    message:
      "must be a port, but Kubernetes set it for a Service of this name: set enableServiceLinks: false in the pod",
    abort: true,
  })
  .pipe(wholeNumber(0, 65_535));
/** A number for which 0 means no limit. */
export const count = wholeNumber(0, 1_000_000);
/** `1` or `0`. */
export const flag = z.enum(["0", "1"]).default("0");

/** One line of text. */
export const line = textOf("line")
  .min(1)
  .regex(/^\P{Cc}*$/u, "must be one line without control characters");
/** The path of a file, which may be missing. */
export const file = textOf("file")
  .min(1)
  .refine((text) => kindOf(text) !== "folder", "must be a file, but it is a folder");
/** The path of a library. */
export const library = file.refine((text) => kindOf(text) === "file", "names a file that does not exist");
/** The path of a folder, which may be missing. */
export const folder = textOf("folder")
  .min(1)
  .refine((text) => kindOf(text) !== "file", "must be a folder, but it is a file");

function kindOf(path: string): "file" | "folder" | undefined {
  const found = statSync(path, { throwIfNoEntry: false });
  return found && (found.isDirectory() ? "folder" : "file");
}

/** The URL of a Postgres database. The host may be missing if a parameter names the folder of a socket. */
export const databaseUrl = textOf("database")
  .regex(/^postgres(ql)?:\/\//, { message: "must start with postgres://", abort: true })
  .superRefine((text, context) => {
    const message = urlFault(text);
    if (message !== undefined) context.addIssue({ code: "custom", message });
  });

const URL_RULE =
  "must be postgres://<user>:<password>@<host>:<port>/<database>, with special characters percent-encoded";
const TLS_MODES = ["disable", "no-verify", "require", "verify-ca", "verify-full"];
const URL_PARAMETERS = ["host", "sslmode", "sslrootcert", "sslcert", "sslkey"];

/** Returns what the driver would ignore or read in another way than written, or `undefined`. */
function urlFault(text: string): string | undefined {
  const [base = "", query = ""] = text.split(/\?(.*)/s);
  const parameters = new URLSearchParams(query);
  const host = parameters.get("host") ?? base.replace(/^[a-z]+:\/\/(?:.*@)?/s, "").replace(/\/.*/s, "");
  if (/,|%2c/i.test(host)) return "names several hosts: name one that always leads to the primary";
  if (!URL.canParse(text.replace("@/", "@socket/"))) return URL_RULE;
  const other = [...parameters.keys()].find((name) => !URL_PARAMETERS.includes(name));
  if (other !== undefined) return `has the unsupported parameter ${other}: remove it`;
  const isKnown = TLS_MODES.includes(parameters.get("sslmode") ?? "verify-full");
  return isKnown ? undefined : `has an unsupported sslmode: write ${TLS_MODES.join(" or ")}`;
}

const HOST_NAME =
  /^(?=.{1,253}$)[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9])?)*$/i;
const HOST_RULE = "must be an IP address or a host name";

function isHost(text: string): boolean {
  return isIP(text) !== 0 || (HOST_NAME.test(text) && !/^[\d.]+$/.test(text));
}

/** The address or host name at which a server listens. */
export const host = textOf("host").min(1).refine(isHost, HOST_RULE);

const listOf = (kind: string) =>
  textOf(kind)
    .transform((text) => text.split(",").map((item) => item.trim()))
    .transform((items) => items.filter((item) => item !== ""));

/** Host names and addresses, separated by commas. A name may begin with `*.`. */
export const hosts = listOf("host")
  .pipe(z.array(z.string()).min(1))
  .refine((names) => names.every((name) => isHost(name.replace(/^\*\./, ""))), HOST_RULE);
/** Names of environment variables, separated by commas. */
export const variables = listOf("variables").refine(
  (names) => names.every((name) => /^[A-Za-z_][A-Za-z0-9_]*$/.test(name)),
  "must be names of environment variables, separated by commas",
);
/** Scopes, separated by commas. */
export const scopes = listOf("scopes").refine(
  (list) => invalidScopes(list).length === 0,
  "holds a scope that is not valid",
);
/** The label of a token. */
export const label = textOf("label").regex(
  /^(?! )[\x20-\x7e]{1,32}(?<! )$/,
  "must be 1 to 32 printable characters without a space at either end",
);
