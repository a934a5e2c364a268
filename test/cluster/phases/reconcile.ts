import { inPod } from "../support/release.ts";
import type { Tools } from "../support/tools.ts";

/** What `deputize reconcile` finds in the ledger: its last line. Rejects where it finds a difference. */
export async function reconcile(
  tools: Tools,
): Promise<{ accounts: number; postings: number; differences: number }> {
  const said = await inPod(tools, "worker", ["deputize", "reconcile"]);
  return JSON.parse(said.trim().split("\n").at(-1) ?? "");
}
