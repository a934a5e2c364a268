import { Resolver } from "node:dns";
import { statSync } from "node:fs";
import { isIP } from "node:net";
import ipaddr from "ipaddr.js";
import { z } from "zod";
import { EVERY_CUSTOM, unregistrableScopes } from "../../protocol/documents/scopes.ts";
import { namespaceName } from "../cluster_fields.ts";
import { NO_CONTROLS } from "../schemas.ts";
import { writesItsHost } from "../url.ts";

/** A text of a documented kind. Tests know wrong values of each kind. */
const textOf = (kind: string) => z.string().meta({ kind });

/** A list, separated by commas. `isItem` checks each item. */
const listOf = (kind: string, isItem: (item: string) => boolean, message: string) =>
  textOf(kind)
    .transform((text) => text.split(",").map((item) => item.trim()))
    .transform((items) => items.filter((item) => item !== ""))
    .refine((items) => items.every(isItem), message);

/** One line of text, such as a user name. */
export const line = textOf("line").min(1).regex(NO_CONTROLS, "must be one line without control characters");
/** The path of a file. */
export const path = textOf("path").min(1).regex(NO_CONTROLS, "must be the path of a file");
/** The path of a folder, which the role creates if it is missing. */
export const folder = textOf("folder")
  .min(1)
  .refine((text) => !isFile(text), "must be a folder, but it is a file");

function isFile(text: string): boolean {
  return statSync(text, { throwIfNoEntry: false })?.isDirectory() === false;
}

const WHOLE = /^\d{1,15}$/;
/** The largest number in the service's tables and timers. */
const LARGEST = 1_000_000_000;

/** A whole number in a range. */
export function wholeNumber(from: number, to: number = LARGEST) {
  const isInRange = (text: string) => WHOLE.test(text) && Number(text) >= from && Number(text) <= to;
  return textOf("number").refine(isInRange, `must be a whole number from ${from} to ${to}`).transform(Number);
}

/** Kubernetes sets such a variable for each Service, and `<NAME>_PORT` may be the name of a setting. */
const SERVICE_LINK = /^(?:tcp|udp|sctp):\/\//;
/** A port. With 0 the system chooses a free port. */
export const port = textOf("number")
  .refine((text) => !SERVICE_LINK.test(text), {
    message:
      "must be a port, but Kubernetes set it for a Service of this name: set enableServiceLinks: false in the pod",
    abort: true,
  })
  .pipe(wholeNumber(0, 65_535));

/** `true` or `false`. */
export const flag = z
  .enum(["true", "false"])
  .default("false")
  .transform((text) => text === "true");

const HOST_NAME =
  /^(?=.{1,253}$)[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9])?)*$/i;

/** Returns whether a text is an IP address or a host name. */
function isHost(text: string): boolean {
  return isIP(text) !== 0 || (HOST_NAME.test(text) && !/^[\d.]+$/.test(text));
}

/** The address or host name at which a server listens. */
export const host = textOf("host").refine(isHost, "must be an IP address or a host name");

const isHttpUrl = (text: string) => /^https?:\/\/[^@#]+$/i.test(text);
/** An http or https URL whose host everybody reads alike. */
export const url = textOf("url")
  .pipe(z.url({ error: "must be a URL: https://<host>/…", abort: true }))
  .refine(writesItsHost, { message: "must name its host: https://<host>/…", abort: true })
  .refine(isHttpUrl, "must be an http or https URL without user and fragment");
/** The public URL of the service, without a password. Paths are appended to it. */
export const baseUrl = url.refine(
  (text) => !text.includes("?"),
  "must be an http or https URL without query, fragment and user",
);
/** The URL of a server that is only used with TLS. */
export const tlsUrl = url.refine((text) => /^https:/i.test(text), "must begin with https://");

/** The URL of a mail server. */
export const smtpUrl = textOf("mail server").pipe(
  z.url({ protocol: /^smtps?$/, hostname: /./, error: "must be smtp://<host>:<port> or smtps://…" }),
);
const ADDRESS = "[^\\s<>@,]+@[^\\s<>@,]+";
const SENDER = new RegExp(`^(?:[^<>\\p{Cc}]*<${ADDRESS}>|${ADDRESS})$`, "u");
/** The address that mails come from, optionally with a name. */
export const sender = textOf("sender").regex(
  SENDER,
  "must be a mail address, or: Deputize <no-reply@example.com>",
);
/** The address or the page of people who help users. */
export const contact = textOf("contact").pipe(
  z.union([z.email(), z.url({ protocol: /^https?$/ })], "must be a mail address, or an http or https URL"),
);
/** Mail addresses, separated by commas. */
export const mailAddresses = listOf(
  "mail addresses",
  (item) => /^[^\s<>@,]+@[^\s<>@,]+\.[^\s<>@,]+$/.test(item),
  "must be e-mail addresses, separated by commas",
).default([]);

/** Private networks. */
export const networks = listOf(
  "networks",
  (item) => item.includes("/") && isNetwork(item),
  "must be networks, separated by commas: 10.0.0.0/8,fd00::/8",
).default([]);
/** Addresses and networks of proxies. */
export const proxies = listOf(
  "networks",
  isNetwork,
  "must be addresses and networks, separated by commas: 10.0.0.0/8,192.0.2.1",
).default([]);

/** Returns whether a text is an IP address or a CIDR block. */
export function isNetwork(text: string): boolean {
  const [base = "", bits] = text.split("/");
  return isIP(base) !== 0 && !base.includes("%") && (bits === undefined || ipaddr.isValidCIDR(text));
}

/** DNS servers. */
export const dnsServers = listOf("dns servers", () => true, "")
  .refine(areDnsServers, "must be IP addresses, with or without a port: 192.0.2.1:53")
  .default([]);

/** Returns whether Node's `setServers` accepts these addresses. */
function areDnsServers(servers: string[]): boolean {
  try {
    new Resolver().setServers(servers);
    return true;
  } catch {
    return false;
  }
}

/** Pattern of the service name in paths and headers, and of its aliases. */
export const WORD = /^[a-z][a-z0-9]{0,31}$/;
const WORD_RULE = "must be lower-case letters and digits, a letter first";
/** The service name. */
export const word = textOf("word").regex(WORD, WORD_RULE);
/** Further names of the service. */
export const words = listOf("word", (item) => WORD.test(item), WORD_RULE).default([]);

/** Scopes; `undefined` if there are none. */
export const scopes = listOf("scopes", () => true, "")
  .refine(
    (scopes) => unregistrableScopes(scopes).every((scope) => scope === EVERY_CUSTOM),
    "contains an invalid scope",
  )
  .transform((scopes) => (scopes.length === 0 ? undefined : scopes))
  .prefault("");

/** Names of namespaces, without duplicates. */
export const namespaces = listOf(
  "namespaces",
  (item) => namespaceName.safeParse(item).success,
  "must be names of namespaces, separated by commas",
)
  .refine((names) => names.length > 0, "must name a namespace")
  .transform((names) => [...new Set(names)]);

const LABEL = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?";
const LABEL_KEY = `([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?${LABEL}`;
const LABEL_RULES = [
  `!?${LABEL_KEY}`,
  `${LABEL_KEY} ?[!=]?= ?(${LABEL})?`,
  `${LABEL_KEY} (in|notin) \\((${LABEL})?(, ?(${LABEL})?)*\\)`,
].join("|");
/** A label selector, in the form that kubectl and the API server accept. */
export const labelSelector = textOf("label selector").regex(
  new RegExp(`^(${LABEL_RULES})(, ?(${LABEL_RULES}))*$`),
  "must be a label selector such as team=shop,env in (prod,test)",
);

/** A duration in hours, minutes and seconds. */
export const duration = textOf("duration").regex(
  /^(?=.)(\d{1,5}h)?(\d{1,5}m)?(\d{1,5}s)?$/,
  "must be a duration such as 24h or 90m",
);

/** A secret that two processes share. */
export const token = textOf("token")
  .min(32, "must have at least 32 characters")
  .regex(NO_CONTROLS, "must be one line");
/** 32 random bytes in base64. */
export const sealingKey = textOf("key").regex(/^[A-Za-z0-9+/]{43}=$/, "must be 32 bytes in base64");
