/** A call with an API key. */
export type CurlCall = {
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
