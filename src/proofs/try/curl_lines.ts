import { rootOf } from "../../input/base_url.ts";
import { createNames } from "../../input/names.ts";
import { curlLine, quoted } from "./curl_line.ts";

/** Challenge, present and verify as a shell makes them. */
export type CurlCalls = {
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
