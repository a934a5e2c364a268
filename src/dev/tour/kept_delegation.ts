import { awaitStatus } from "./await_status.ts";
import type { ObjectState } from "./quickstart.ts";
import type { QuickstartFolder } from "./quickstart_folder.ts";
import { approve, type TourState, type TourStep, type TourWorld } from "./steps.ts";

/** A running stack with its manifests folder. */
export type FolderWorld = TourWorld & { quickstart: QuickstartFolder };

type Fate = "active" | "pending" | "ended";

const fates: Record<string, Fate> = {
  Active: "active",
  AwaitingApproval: "pending",
  Denied: "ended",
  Revoked: "ended",
  Expired: "ended",
};

const fateOf = ({ reason }: ObjectState): Fate | undefined => fates[reason];

/**
 * Leaves the reader a delegation to try by hand. Keeps an active delegation and approves a waiting one. If
 * the delegation has ended, declares it again unless its file was edited.
 */
export const keptDelegation: TourStep<FolderWorld> = {
  name: "standing_delegation",
  title: "delegation.yaml, kept for you to try",
  async run(world, state) {
    const { quickstart } = world;
    state.certId = "";
    const file = await quickstart.delegationFile();
    if (file === "missing") return "delegation.yaml is gone, so there is no delegation";
    let fate = await awaitStatus(world, "delegation", fateOf);
    if (fate === "ended") {
      if (file === "edited") return `left as it is: ${await quickstart.explain("delegation")}`;
      await quickstart.renewDelegation();
      fate = await awaitStatus(world, "delegation", (now) =>
        fateOf(now) === "ended" ? undefined : fateOf(now),
      );
    }
    if (fate === "pending") {
      state.requestId = await awaitStatus(world, "delegation", ({ status }) => status.requestID);
      state.granted = await approve(state);
      return `${state.certId} grants ${state.granted.join(", ")}`;
    }
    const { certID, approvedScope } = await awaitStatus(world, "delegation", ({ status }) =>
      status.certID ? { certID: status.certID, approvedScope: status.approvedScope ?? [] } : undefined,
    );
    state.certId = certID;
    state.granted = approvedScope;
    return `${certID} still grants ${approvedScope.join(", ")}`;
  },
};

/** Reads the reader's delegation after a tour that did not finish. Ignores an inactive delegation. */
export async function recallKeptDelegation({ quickstart }: FolderWorld, state: TourState): Promise<void> {
  const objectState = await quickstart.objectState("delegation").catch(() => undefined);
  const activeStatus = objectState?.reason === "Active" ? objectState.status : undefined;
  state.certId = activeStatus?.certID ?? "";
  state.granted = activeStatus?.approvedScope ?? [];
}
