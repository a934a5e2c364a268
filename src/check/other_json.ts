import { join } from "node:path";
import { readYaml } from "../operator/folder/documents.ts";
import { type ManifestText, openRegularFile } from "../operator/folder/listing.ts";
import { API_VERSION } from "../operator/kinds.ts";
import { BINDINGS_NAME } from "../operator/namespace_bindings.ts";

const [GROUP = ""] = API_VERSION.split("/");
const MENTIONED = [GROUP, BINDINGS_NAME];
/** Maximum length of a mention, with each character as an escape such as `\u0064`. */
const LONGEST = 6 * Math.max(...MENTIONED.map(({ length }) => length));

/**
 * Returns the paths of JSON files that belong to other programs, such as `package-lock.json`. Such a file
 * does not mention Deputize. It has no kind, or it cannot be read as a manifest.
 */
export async function findOtherJson(folder: string, files: readonly ManifestText[]): Promise<Set<string>> {
  const others = new Set<string>();
  for (const file of files) {
    const { path, text, beingWritten } = file;
    if (text === undefined && beingWritten !== true && isJson(path)) {
      if (!(await isMentionedIn(join(folder, path)))) others.add(path);
    } else if (isOtherJson(file)) {
      others.add(path);
    }
  }
  return others;
}

/** Returns whether a file with a text is JSON of another program, as {@link findOtherJson} does. */
export function isOtherJson({ path, text }: ManifestText): boolean {
  if (text === undefined || !isJson(path)) return false;
  const plain = unescaped(text);
  return !isMentioned(plain) && (!plain.includes('"kind"') || readYaml(text).fault !== undefined);
}

function isJson(path: string): boolean {
  return path.endsWith(".json");
}

function isMentioned(text: string): boolean {
  const words = text.toLowerCase();
  return MENTIONED.some((mention) => words.includes(mention));
}

function unescaped(text: string): string {
  return text.replace(/\\u([0-9a-f]{4})/gi, (_, digits) => String.fromCharCode(Number.parseInt(digits, 16)));
}

/** Searches a file of any size and encoding. Returns `false` if it cannot be read. */
async function isMentionedIn(path: string): Promise<boolean> {
  const file = await openRegularFile(path).catch(() => undefined);
  if (file === undefined) return false;
  try {
    let end = "";
    for await (const chunk of file.createReadStream({ encoding: "latin1", autoClose: false })) {
      // Without the zero bytes, UTF-16 reads like ASCII.
      const text = end + String(chunk).replaceAll("\0", "");
      if (isMentioned(unescaped(text))) return true;
      end = text.slice(-LONGEST);
    }
    return false;
  } catch {
    return false;
  } finally {
    await file.close();
  }
}
