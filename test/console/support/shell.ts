import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { TestApi } from "../../support/api.ts";
import type { Shown } from "./console.ts";

const run = promisify(execFile);
/** Base URLs in the shell lines of pages: the first on the trial page, the second on other pages. */
const BASE_URLS = ["https://deputize.example", "http://127.0.0.1/"];

/** Returns the text that a page offers to copy. */
export function copied(shown: Shown, id: string): string {
  return shown.element(`text to copy with the id ${id}`, new RegExp(`<pre id="${id}"[^>]*>([^<]*)</pre>`));
}

/** Runs a page's shell lines against the running API, and returns their output. */
export async function pasted({ url }: Pick<TestApi, "url">, lines: string, apiKey: string): Promise<unknown> {
  const here = BASE_URLS.reduce(
    (text, base) => text.replaceAll(base, base.endsWith("/") ? `${url}/` : url),
    lines.replace(/^API_KEY=.*\n/, ""),
  );
  const env = { PATH: "/usr/bin:/bin", API_KEY: apiKey };
  const { stdout } = await run("sh", ["-c", here], { env });
  return JSON.parse(stdout);
}
