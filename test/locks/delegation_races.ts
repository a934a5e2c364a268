import type { TestApi } from "../support/api.ts";
import type { HttpAnswer } from "../support/http.ts";
import { actingFor, addMember } from "../support/members.ts";
import { delegated, registerPlatform, requested } from "../support/platform_world.ts";
import {
  expectNoEvent,
  keyed,
  lockConnection,
  ofConnection,
  type RaceRow,
  removeConnection,
  type Sql,
} from "./races.ts";

type Requested = Awaited<ReturnType<typeof requested>>;

/** Races of the operations on requests and certificates. */
export const delegationRaces: Record<string, RaceRow[]> = {
  request_delegation_with_key: [
    keyRequestRace("whose connection is removed", "404 not_found", removeConnection),
    keyRequestRace("for an agent that is deleted", "409 agent_disabled", ({ agentId }) => [
      "update agents set disabled_at = now() where agent_id = $1",
      agentId,
    ]),
    keyRequestRace("while a person denies the scope", "429 denied_recently", ({ requestId }) => [
      "update delegation_requests set status = 'denied', decided_at = now() where request_id = $1",
      requestId,
    ]),
  ],
  request_delegation: [
    ...ofConnection((own) =>
      own.person.client.post("/v1/service/delegations/self-request", {
        connection_id: own.platform.connectionId,
      }),
    ),
    {
      title: "for an agent that is deleted",
      gets: ["409 agent_disabled"],
      async prepare(api) {
        const own = await requested(api);
        const body = { connection_id: own.platform.connectionId, agent_id: own.agentId };
        return {
          holds: lockConnection(own),
          meanwhile: ["update agents set disabled_at = now() where agent_id = $1", own.agentId],
          call: () => own.person.client.post("/v1/service/delegations/self-request", body),
        };
      },
    },
  ],
  request_access: [
    askingRace("for an agent that is deleted", "409 agent_disabled", ({ agentId }) => [
      "update agents set disabled_at = now() where agent_id = $1",
      agentId,
    ]),
    askingRace("while a person denies the scope", "429 denied_recently", ({ requestId }) => [
      "update delegation_requests set status = 'denied', decided_at = now() where request_id = $1",
      requestId,
    ]),
    askingRace("while the ceiling shrinks", "400 ceiling_exceeded", ({ platform }) => [
      "update platforms set default_allowed_scopes = '{data:share}' where platform_id = $1",
      platform.platformId,
    ]),
  ],
  cancel_access_request: [
    {
      title: "that a person denies",
      gets: ["409 request_not_pending"],
      async prepare(api) {
        const { own, call } = await asking(api);
        const { id } = (await call()).body.task as { id: string };
        return {
          holds: lockConnection(own),
          meanwhile: [
            "update delegation_requests set status = 'denied', decided_at = now() where request_id = $1",
            id,
          ],
          call: () => keyed(api, own, "POST", `/v1/service/access-requests/${id}/cancel`),
        };
      },
    },
  ],
  approve_delegation_request: [
    approvalRace("while the ceiling shrinks", "400 ceiling_exceeded", ({ platform }) => [
      "update platforms set default_allowed_scopes = '{data:share}' where platform_id = $1",
      platform.platformId,
    ]),
    approvalRace("while its agent is deleted", "409 request_not_pending", ({ requestId }) => [
      "update delegation_requests set status = 'withdrawn', decided_at = now() where request_id = $1",
      requestId,
    ]),
    approvalRace("while its connection is removed", "404 not_found", removeConnection),
    approvalRace("while it expires", "409 request_not_pending", ({ requestId }) => [
      "update delegation_requests set expires_at = '2001-01-01' where request_id = $1",
      requestId,
    ]),
    organizationApproval(
      "by a member who is removed",
      "403 forbidden",
      "delete from organization_members where organization_id = $1",
    ),
    organizationApproval(
      "by a member whose role changes",
      "403 forbidden",
      "update organization_members set role = 'developer' where organization_id = $1",
      "select from organization_members where organization_id = $1 for no key update",
    ),
    organizationApproval(
      "by its requester while four eyes become necessary",
      "403 four_eyes_required",
      "update accounts set four_eyes = true where account_id = $1",
    ),
  ],
  deny_delegation_request: [
    {
      title: "that another call decides",
      gets: ["409 request_not_pending"],
      async prepare(api) {
        const own = await requested(api);
        return {
          holds: lockConnection(own),
          meanwhile: [
            "update delegation_requests set status = 'withdrawn', decided_at = now() where request_id = $1",
            own.requestId,
          ],
          call: () => own.person.client.post(`/v1/service/delegations/requests/${own.requestId}/deny`),
        };
      },
    },
  ],
  revoke_delegation: [
    {
      title: "that another call revokes",
      gets: ["200"],
      async prepare(api) {
        const own = await delegated(api);
        return {
          holds: lockConnection(own),
          meanwhile: [
            "update certificates set status = 'revoked', revoked_at = now() where cert_id = $1",
            own.certId,
          ],
          call: () => own.person.client.post(`/v1/service/delegations/${own.certId}/revoke`),
          check: () => expectNoEvent(api, own, "delegation.revoked"),
        };
      },
    },
  ],
};

/** An agent without authority, whose present call was refused, and the call with which it asks. */
async function asking(api: TestApi) {
  const own = await requested(api);
  const scope = "data:read";
  const path = `/v1/service/connections/${own.platform.connectionId}/agents/${own.agentId}/present`;
  const { body } = await keyed(api, own, "POST", "/v1/service/challenge");
  const refused = await keyed(api, own, "POST", path, { challenge: body.challenge, required_scope: scope });
  const ask = {
    subject: { type: "agent", id: own.agentId },
    denial: { evaluation_id: refused.body.evaluation_id },
    requested_access: { scopes: [scope] },
    context: { purpose: "Read it" },
  };
  return { own, call: () => keyed(api, own, "POST", "/v1/service/access-requests", ask) };
}

function askingRace(title: string, gets: string, meanwhile: (own: Requested) => Sql): RaceRow {
  return {
    title,
    gets: [gets],
    async prepare(api) {
      const { own, call } = await asking(api);
      return { holds: lockConnection(own), meanwhile: meanwhile(own), call };
    },
  };
}

/** A race of a call about a pending request, while another transaction holds its connection. */
function requestRace(
  title: string,
  gets: string,
  meanwhile: (own: Requested) => Sql,
  call: (own: Requested, api: TestApi) => Promise<HttpAnswer>,
): RaceRow {
  return {
    title,
    gets: [gets],
    async prepare(api) {
      const own = await requested(api);
      return { holds: lockConnection(own), meanwhile: meanwhile(own), call: () => call(own, api) };
    },
  };
}

function keyRequestRace(title: string, gets: string, meanwhile: (own: Requested) => Sql): RaceRow {
  return requestRace(title, gets, meanwhile, ({ platform, agentId }, api) => {
    const path = `/v1/service/connections/${platform.connectionId}/delegation-requests`;
    const body = { agent_id: agentId, requested_scope: ["data:read"] };
    return api.client().post(path, body, { headers: { "x-service-api-key": platform.apiKey } });
  });
}

function approvalRace(title: string, gets: string, meanwhile: (own: Requested) => Sql): RaceRow {
  return requestRace(title, gets, meanwhile, ({ person, requestId }) =>
    person.client.post(`/v1/service/delegations/requests/${requestId}/approve`, {
      approved_scope: ["data:read"],
    }),
  );
}

/** A member approves their own request. By default, another transaction holds the organization's account. */
function organizationApproval(
  title: string,
  gets: string,
  change: string,
  hold = "select from accounts where account_id = $1 for no key update",
): RaceRow {
  return {
    title,
    gets: [gets],
    async prepare(api) {
      const owner = await api.person({ organization_name: "Engines" });
      const platform = await registerPlatform(owner, {}, "/v1/service/platforms");
      const member = actingFor(await addMember(api, owner.accountId, "owner"), owner.accountId);
      await requested(api, {}, { person: owner, platform });
      const asked = await member.post("/v1/service/delegations/self-request", {
        connection_id: platform.connectionId,
      });
      const path = `/v1/service/delegations/requests/${String(asked.body.request_id)}/approve`;
      return {
        holds: [hold, owner.accountId],
        meanwhile: [change, owner.accountId],
        call: () => member.post(path, { approved_scope: ["data:read"] }),
      };
    },
  };
}
