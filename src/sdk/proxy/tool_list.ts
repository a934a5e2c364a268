import { isPlain } from "../mcp/rules.ts";
import type { Journal } from "./journal.ts";
import { acceptedPart, type ListedTool, type ProxyRules, toolHash } from "./rules_file.ts";
import { suggestRule } from "./suggest.ts";

/** The tools that the server has listed, compared with those that a person has accepted. */
export type ToolList = {
  /**
   * Notes a page of the server's list. Returns the tools of it that the client may see: in `enforce`, those
   * that have a rule and that a person has accepted, without members that nobody could accept.
   */
  see(page: readonly unknown[]): readonly unknown[];
  /** Notes that the server has changed its list. */
  forget(): void;
  /**
   * Returns whether a person has accepted the tool as the server listed it at most a minute ago, and since
   * its last change. `list` reads the whole list. Rejects if `list` does, or if the list keeps changing.
   */
  isAccepted(name: string, list: () => Promise<readonly unknown[]>): Promise<boolean>;
  /** Returns whether a rule or the server names the tool, so that its name is no text of a client. */
  isKnown(name: string): boolean;
};

/** A hostile server cannot make the proxy remember more tools than this. */
const MOST_TOOLS = 2_000;
/** A server that announces no changes can have another tool after this time. */
const LONGEST_AGE_MS = 60_000;
const MOST_READS = 3;

/** Creates the list of one server. All connections of a proxy share it. */
export function createToolList(
  { mode, tools, hashes }: ProxyRules,
  journal: Journal,
  now: () => number = () => performance.now(),
): ToolList {
  const seen = new Map<string, { hash: string | undefined; at: number }>();
  const suggested = new Set<string>();
  let changes = 0;

  function isPermitted(name: string): boolean {
    return tools.has(name) && hashes.get(name) === seen.get(name)?.hash && hashes.has(name);
  }

  function isFresh(name: string): boolean {
    const found = seen.get(name);
    return found !== undefined && now() - found.at < LONGEST_AGE_MS;
  }

  function suggest(tool: ListedTool): void {
    const hash = seen.get(tool.name)?.hash;
    const mark = `${tool.name} ${hash}`;
    if (isPermitted(tool.name) || suggested.has(mark) || suggested.size >= MOST_TOOLS) return;
    suggested.add(mark);
    const rule = suggestRule(tool);
    journal.note(tools.has(tool.name) ? "tool is not accepted" : "tool without a rule", {
      tool: tool.name.slice(0, 128),
      hash,
      suggestion: tools.has(tool.name) ? undefined : (rule ?? "refuse"),
    });
  }

  const list: ToolList = {
    see(page) {
      const named = page.filter(isListedTool);
      const names = named.map(({ name }) => name);
      for (const tool of named) {
        const isTwice = names.indexOf(tool.name) !== names.lastIndexOf(tool.name);
        if (seen.has(tool.name) || seen.size < MOST_TOOLS) {
          seen.set(tool.name, { hash: isTwice ? undefined : toolHash(tool), at: now() });
        }
        suggest(tool);
      }
      return mode === "observe" ? page : named.filter(({ name }) => isPermitted(name)).map(acceptedPart);
    },
    forget() {
      changes += 1;
      seen.clear();
    },
    async isAccepted(name, read) {
      if (mode === "observe" && !hashes.has(name)) return true;
      for (let reads = 0; !isFresh(name); reads++) {
        if (reads >= MOST_READS) throw new Error("the server's list changes too often");
        const before = changes;
        const page = await read();
        // A list that changed in the meantime can have an old part.
        if (changes !== before) continue;
        seen.delete(name);
        list.see(page);
        return isPermitted(name);
      }
      return isPermitted(name);
    },
    isKnown: (name) => tools.has(name) || seen.has(name),
  };
  return list;
}

function isListedTool(value: unknown): value is ListedTool {
  return isPlain(value) && typeof value.name === "string";
}
