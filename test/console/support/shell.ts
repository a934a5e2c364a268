import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { PlatformApi } from "../../support/platform_world.ts";
import type { Shown } from "./console.ts";

const run = promisify(execFile);
/** Where lines of tests lead: trials are told the one address, pages the other. */
const BASE_URLS = ["https://deputize.example", "http://127.0.0.1/"];

/** The text of this id that a page gives to copy. */
export function copied(shown: Shown, id: string): string {
  return shown.element(`text to copy with the id ${id}`, new RegExp(`<pre id="${id}"[^>]*>([^<]*)</pre>`));
}

/** What a shell prints for lines of a page, with an API key, asked of the API that is up. */
export async function pasted(
  { url }: Pick<PlatformApi, "url">,
  lines: string,
  apiKey: string,
): Promise<unknown> {
  const here = BASE_URLS.reduce(
    (text, base) => text.replaceAll(base, base.endsWith("/") ? `${url}/` : url),
    lines.replace(/^API_KEY=.*\n/, ""),
  );
  const env = { PATH: "/usr/bin:/bin", API_KEY: apiKey };
  const { stdout } = await run("sh", ["-c", here], { env });
  return JSON.parse(stdout);
}
