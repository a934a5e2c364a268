import type { Clock } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import type { Logger } from "../../log.ts";
import { operatorCalls } from "../../operator_calls.ts";
import { type Route, route } from "../../route.ts";
import { followLeader } from "./leadership.ts";

type Deps = { db: Database; clock: Clock; log: Logger };

/** `POST /internal/v1/leadership`. */
export function claimLeadershipRoute(deps: Deps): Route {
  return route({
    id: "internal_claim_leadership",
    ...operatorCalls.claimLeadership,
    summary: "Give the operator's new leader its epoch",
    access: "operator",
    epoch: "none",
    errors: [],
    async handle({ caller, body }) {
      const { epoch, formerEpoch } = await followLeader(deps, caller);
      deps.log.info({ cluster: caller.clusterId, holder: body.holder, epoch }, "an operator leads");
      return { body: { epoch, former_epoch: formerEpoch } };
    },
  });
}
