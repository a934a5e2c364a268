import { VERIFICATION_PRICE_MICRO_USD as PRICE } from "../../../src/accounts/ledger/amounts.ts";
import { endpointIdOf } from "../../../src/webhooks/endpoint.ts";
import { noticeSuspension } from "../../../src/webhooks/record_attempt.ts";
import { SCOPE, type Scene, setScene } from "../../http/walk/scene.ts";
import { setCredit } from "../../support/account_rows.ts";
import type { TestApi } from "../../support/api.ts";
import type { HttpAnswer } from "../../support/http.ts";
import { connect } from "../../support/two_companies.ts";

/** The trace of the requests in {@link everyEvent}. */
export const TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

const MINUTE = 60;

/**
 * Causes every kind of event and history entry by calling the API. Their times are a minute in the past,
 * because the worker sends history rows only after a few seconds.
 */
export async function everyEvent(api: TestApi): Promise<Scene> {
  await api.db("event_way").update({ way: "kafka" });
  api.clock.advance(-MINUTE);
  const scene = await setScene(api);
  const { person, platform, requestId, certId } = scene;
  const headers = { traceparent: TRACE };
  const owner = async (method: string, path: string, body?: object) =>
    well(await person.client.call(method, `/v1/service${path}`, { body, headers })).body;
  const decide = async (scope: string) => {
    api.clock.advance(1);
    const { proof_bundle } = await scene.proof();
    api.clock.advance(1);
    const body = { proof_bundle, required_scope: scope };
    well(await scene.keyed("POST", "/v1/service/verify", body, { headers }));
  };
  await decide("data:share");
  await owner("POST", `/delegations/requests/${requestId}/deny`, { reason: "not now" });
  await setCredit(api.db, person.accountId, PRICE);
  await decide(SCOPE);
  await owner("POST", `/delegations/${certId}/revoke`, { reason: "no longer needed" });
  await owner("POST", `/connections/${platform.connectionId}/rotate-key`, {});
  const keys = `/connections/${platform.connectionId}/keys`;
  const { api_key_prefix } = await owner("POST", keys, { role: "verify" });
  await owner("DELETE", `${keys}/${api_key_prefix}`);
  await owner("POST", `/connections/${platform.connectionId}/deliveries/test`);
  await suspend(api, platform.connectionId);
  const customer = await connect(api, { person, platform });
  await connect(api, { person, platform }, { person: customer.person, scopes: ["data:read"] });
  await owner("DELETE", `/connections/${platform.connectionId}`);
  return scene;
}

/** Suspends the endpoint like a 410 from its receiver. */
async function suspend({ db, clock }: TestApi, connectionId: string): Promise<void> {
  const endpointId = endpointIdOf(connectionId);
  await db.transaction(async (tx) => {
    const suspended = { state: "suspended", suspend_reason: "gone", suspended_at: clock.now() } as const;
    await tx("webhook_endpoints").where({ endpoint_id: endpointId }).update(suspended);
    await noticeSuspension(tx, endpointId, clock.now());
  });
}

function well(answer: HttpAnswer): HttpAnswer {
  if (answer.status >= 300) throw new Error(answer.text);
  return answer;
}
