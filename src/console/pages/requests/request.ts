import { html } from "../../../html/html.ts";
import { page, type Visit } from "../../core/page.ts";
import { besideField, previewOf, readApproval } from "./approval.ts";
import { asker } from "./asker.ts";
import { decision } from "./decision.ts";
import { outcome } from "./outcome.ts";

type Shown = Awaited<ReturnType<typeof load>>;

/** A request: who asks, what for, and the decision about it. The operator's messages lead here. */
export const requestPage = page<Shown>({
  id: "request",
  path: "/console/requests/{request_id}",
  access: "onboarded",
  operations: [
    "get_delegation_request",
    "list_scopes",
    "preview_delegation_approval",
    "get_delegation",
    "approve_delegation_request",
    "deny_delegation_request",
  ],
  load,
  title: ({ texts }, { request }) => texts.request.title[request.status](request.agent.name),
  back: ({ at, texts }) => ({ to: at("/requests"), text: texts.requests.title }),
  render: (
    visit,
    { request, words, preview, certificate },
  ) => html`<p class="lead">${visit.texts.request.lead[request.status]}</p>
    ${asker(visit, request)}${
      preview === undefined
        ? outcome(visit, { request, words, certificate })
        : decision(visit, { request, words, preview })
    }`,
  forms: {
    approve: {
      errorFields: {
        scope_not_requested: "approved_scope",
        ceiling_exceeded: "approved_scope",
        invalid_expiry: "end_number",
      },
      async submit(visit, fields) {
        const { call, params, at } = visit;
        const request = await call("get_delegation_request", { params });
        const body = readApproval(visit, fields);
        // What is wrong with it stands in the preview then.
        if (fields.get("show") === "preview") return "again";
        await call("approve_delegation_request", { params, body, once: true }).catch((error: unknown) => {
          throw besideField(error, request, body);
        });
        return { to: at(`/requests/${params.request_id}`), notice: "approved" };
      },
    },
    deny: {
      async submit({ call, params, at }, fields) {
        const reason = fields.get("reason").trim();
        await call("deny_delegation_request", { params, body: reason === "" ? {} : { reason }, once: true });
        return { to: at("/requests"), notice: "denied" };
      },
    },
  },
});

async function load(visit: Visit) {
  const { call, params } = visit;
  const [request, vocabulary] = await Promise.all([
    call("get_delegation_request", { params }),
    call("list_scopes"),
  ]);
  const words = { vocabulary, platform: request.platform.name };
  const preview = request.status === "pending" ? await previewOf(visit) : undefined;
  const certificate =
    request.cert_id === null
      ? undefined
      : await call("get_delegation", { params: { cert_id: request.cert_id } });
  return { request, words, preview, certificate };
}
