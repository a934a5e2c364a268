import { createNames } from "../../input/names.ts";
import { rootOf } from "../../input/url.ts";

type CurlCalls = {
  baseUrl: string;
  /** The service's name in its paths and headers. */
  word: string;
  /** The API key as a shell word: a quoted string, or a variable. */
  apiKey: string;
  connectionId: string;
  agentId: string;
  /** The request body of `present`, without the challenge. */
  present: Record<string, unknown>;
  /** The request body of `verify`, without the proof. */
  verify: Record<string, unknown>;
};

/** Returns three shell lines that work when pasted unchanged. The last one prints the decision. */
export function curlLines({ baseUrl, word, apiKey, ...calls }: CurlCalls): string[] {
  const names = createNames(word);
  const header = names.header("X-Service-API-Key");
  const post = (path: string, posted = "") =>
    curlLine({ url: `${rootOf(baseUrl)}${names.paths(`/v1/service/${path}`)[0]}`, header, apiKey, posted });
  const present = `connections/${calls.connectionId}/agents/${calls.agentId}/present`;
  return [
    `CHALLENGE=$(${post("challenge")} | ${picked("challenge")})`,
    `PROOF=$(${post(present, body(calls.present, "challenge", "CHALLENGE"))} | ${picked("proof_ref")})`,
    `${post("verify", body(calls.verify, "proof_ref", "PROOF"))}; echo`,
  ];
}

/** Returns a shell command that extracts a string member from a one-line JSON object. */
function picked(name: string): string {
  return `sed 's/.*"${name}":"\\([^"]*\\)".*/\\1/'`;
}

/** Returns a JSON body whose last member is a shell variable. */
function body(fields: Record<string, unknown>, name: string, variable: string): string {
  const start = JSON.stringify({ ...fields, [name]: "" }).slice(0, -2);
  return `${quoted(start)}"$${variable}"'"}'`;
}

type CurlCall = {
  url: string;
  header: string;
  /** The key as a shell word: a quoted string, or a variable such as `$API_KEY`. */
  apiKey: string;
  /** The request body as a shell word. Empty for a POST without a body. Absent for a GET. */
  posted?: string;
};

/** Returns one shell line for a call. The line works when pasted unchanged. */
export function curlLine({ url, header, apiKey, posted }: CurlCall): string {
  const key = `${header}: ${apiKey}`;
  const line = [
    "curl -s",
    posted !== undefined && "-X POST",
    shellWord(url),
    `-H ${apiKey.startsWith("$") ? `"${key}"` : quoted(key)}`,
    posted !== undefined && "-H 'Content-Type: application/json'",
    posted !== undefined && posted !== "" && `-d ${posted}`,
  ];
  return line.filter(Boolean).join(" ");
}

/** Quotes a string for a shell. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : quoted(text);
}
