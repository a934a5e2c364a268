import { join } from "node:path";
import type { Change } from "./changes.ts";
import { command, createPlaceSearch, fromTop, type Sources, textLine } from "./report.ts";

/** A change as the command shows it. `file` and `line` are those of the former files if `removed` is true. */
export type ShownChange = Pick<Change, "object" | "effect" | "lends" | "agree"> & {
  file: string;
  line: number;
  removed: boolean;
};

/** Adds the places to changes. Removed objects have their place in the former sources. */
export function placeChanges(changes: readonly Change[], sources: Sources, former: Sources): ShownChange[] {
  const [find, findFormer] = [createPlaceSearch(sources), createPlaceSearch(former)];
  return changes.map(({ object, spot, isRemoval, effect, lends, agree }) => {
    const place = (isRemoval ? findFormer : find)(spot, spot.path);
    const file = join(sources.folder, spot.file);
    return { object, file, line: place?.line ?? 1, removed: isRemoval, effect, lends, agree };
  });
}

/** Returns the changes as text for people, two lines for each. */
export function changeLines(changes: readonly ShownChange[], revision: string): string[] {
  if (changes.length === 0) return [textLine(`No effect on authority since ${revision}.`)];
  const lines = changes.flatMap(({ object, file, line, removed, effect, agree }) => [
    textLine(`  ${object} ${effect}`),
    textLine(`    ${removed ? "removed from " : ""}${file}:${line}; ${who(agree)}`),
  ]);
  return [textLine(`Effects on authority since ${revision}:`), ...lines];
}

/** Returns the changes as notices for GitHub Actions. A removed object has no line in the new files. */
export function changeNotices(changes: readonly ShownChange[]): string[] {
  return changes.map(({ object, file, line, removed, effect, agree }) => {
    const place = removed ? {} : { file: fromTop(file), line };
    return command("notice", { ...place, title: object }, `${object} ${effect}; ${who(agree)}`);
  });
}

function who(agree: string | null): string {
  return agree === null ? "nobody has to agree" : `must agree: ${agree}`;
}
