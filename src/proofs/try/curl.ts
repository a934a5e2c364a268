import { createNames } from "../../input/names.ts";
import { rootOf } from "../../input/url.ts";

/** Challenge, present and verify as a shell makes them. */
type CurlCalls = {
  baseUrl: string;
  /** The service's word, in paths and headers. */
  word: string;
  /** The API key as a shell reads it: a text in quotes, or a variable. */
  apiKey: string;
  connectionId: string;
  agentId: string;
  /** What present takes besides the challenge. */
  present: Record<string, unknown>;
  /** What verify takes besides the proof. */
  verify: Record<string, unknown>;
};

/** Three lines for a shell, which work when they are pasted unchanged; the last one shows the decision. */
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

/** A text member of a JSON object on one line. */
function picked(name: string): string {
  return `sed 's/.*"${name}":"\\([^"]*\\)".*/\\1/'`;
}

/** A JSON body with a variable of the shell in its last member. */
function body(fields: Record<string, unknown>, name: string, variable: string): string {
  const start = JSON.stringify({ ...fields, [name]: "" }).slice(0, -2);
  return `${quoted(start)}"$${variable}"'"}'`;
}

/** A call with an API key. */
type CurlCall = {
  url: string;
  /** The name of the header that carries the key. */
  header: string;
  /** As a shell reads it: a key, or a variable such as `$API_KEY`. */
  apiKey: string;
  /** What is posted, as a shell reads it; empty for a call without a body. Absent, it is a GET. */
  posted?: string;
};

/** A call as a line for a shell, which works when it is pasted unchanged. */
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

/** A text that a shell takes as it is. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** A word that a shell takes as it is, in quotes where it needs them. */
function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : quoted(text);
}
