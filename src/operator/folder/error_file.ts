import { stringify } from "yaml";
import { keyText } from "../kinds.ts";
import { removeDurably, writeAtomically } from "./atomic_file.ts";
import type { ManifestError } from "./manifests/plan.ts";

/**
 * Keeps `errors.yaml`: everything that is wrong in the manifests now. While nothing is, there is no such
 * file.
 */
export type ErrorFile = { show(errors: readonly ManifestError[]): Promise<void> };

/** Begins without errors: a file from before is replaced or removed by the first call. */
export function openErrorFile(path: string): ErrorFile {
  let shown: string | undefined;
  return {
    async show(errors) {
      const entries = errors.map(({ object, ...error }) => ({
        ...error,
        ...(object && { object: keyText(object) }),
      }));
      const text = errors.length === 0 ? "" : stringify({ errors: entries }, { lineWidth: 0 });
      if (text === shown) return;
      if (text === "") {
        await removeDurably(path);
      } else {
        await writeAtomically(path, text, { mode: 0o644, folderMode: 0o755, replace: true });
      }
      shown = text;
    },
  };
}
