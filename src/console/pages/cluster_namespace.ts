import { type Html, html } from "../../html/html.ts";
import { page, type Visit } from "../core/page.ts";
import { checkField } from "../elements/fields.ts";
import { form } from "../elements/form.ts";
import { pickedScopes, scopeList, scopePicker } from "../elements/scopes.ts";
import { facts, time } from "../elements/values.ts";

type Loaded = Awaited<ReturnType<typeof load>>;

/** The page about one namespace of a cluster: whether it acts for the account, and its limits. */
export const clusterNamespacePage = page<Loaded>({
  id: "cluster_namespace",
  path: "/console/clusters/{cluster}/{namespace}",
  operations: ["list_namespace_bindings", "accept_namespace_binding", "end_namespace_binding", "list_scopes"],
  load,
  title: ({ texts, params }) => texts.clusters.namespaceTitle(params.namespace ?? ""),
  back: ({ at, texts }) => ({ to: at("/clusters"), text: texts.clusters.title }),
  render: (visit, loaded) => html`${about(visit, loaded)}
    ${visit.may("accept_namespace_binding") && bounds(visit, loaded)}
    ${visit.may("end_namespace_binding") && loaded.binding?.status === "accepted" && ending(visit)}`,
  forms: {
    accept: {
      errorFields: { invalid_scopes: "ceiling" },
      faults: ({ clusters }) => ({ ceiling: clusters.boundNeeded }),
      async submit({ call, params, at }, fields) {
        const scopes = pickedScopes(fields, "ceiling");
        const body = {
          // Without `unbounded`, the API refuses an empty list, and the page shows the error.
          ceiling: fields.get("unbounded") === "on" && scopes.length === 0 ? null : scopes,
          four_eyes: fields.get("four_eyes") === "on",
          namespace_uid: fields.get("namespace_uid") || null,
        };
        await call("accept_namespace_binding", { params, body });
        return { to: at("/clusters"), notice: "namespace_accepted" };
      },
    },
    end: {
      async submit({ call, params, at }) {
        await call("end_namespace_binding", { params, once: true });
        return { to: at("/clusters"), notice: "namespace_ended" };
      },
    },
  },
});

async function load({ call, params }: Visit) {
  const [{ namespace_bindings }, vocabulary] = await Promise.all([
    call("list_namespace_bindings"),
    call("list_scopes"),
  ]);
  const binding = namespace_bindings.find(
    ({ cluster, namespace }) => cluster === params.cluster && namespace === params.namespace,
  );
  return { binding, vocabulary };
}

function about({ texts, params }: Visit, { binding }: Loaded): Html {
  const words = texts.clusters;
  const { ceiling = null, accepted_at = null } = binding ?? {};
  return html`<section class="card">${facts([
    [words.cluster, params.cluster],
    binding?.namespace_uid != null && [words.uid, binding.namespace_uid],
    [words.state, words.states[binding?.status ?? "none"]],
    accepted_at !== null && [words.acceptedAt, time(accepted_at)],
    accepted_at !== null && [words.acceptedBy, binding?.accepted_by ?? words.notKnown],
    accepted_at !== null && [words.ceiling, ceiling === null ? words.unbounded : scopeList(ceiling)],
    accepted_at !== null && [words.fourEyes, binding?.four_eyes ? words.four : words.two],
  ])}</section>`;
}

function bounds(visit: Visit, { binding, vocabulary }: Loaded): Html {
  const words = visit.texts.clusters;
  const isAccepted = binding?.status === "accepted";
  // A request has limits only if they are those of a former acceptance.
  const isAgain = !isAccepted && (binding?.ceiling != null || binding?.four_eyes === true);
  return html`<section class="card"><h2>${isAccepted ? words.changeTitle : words.acceptTitle}</h2>
    ${!isAccepted && html`<p>${words.acceptLead}</p>`}
    ${isAgain && html`<p>${words.acceptedBefore}</p>`}
    ${form(visit, {
      name: "accept",
      hidden: { namespace_uid: binding?.namespace_uid ?? "" },
      content: html`${scopePicker(visit, {
        form: "accept",
        name: "ceiling",
        label: words.ceilingField,
        hint: words.ceilingHint,
        vocabulary,
        value: binding?.ceiling ?? [],
      })}
      ${checkField(visit, {
        form: "accept",
        name: "unbounded",
        label: words.unboundedField,
        value: isAccepted && binding.ceiling === null ? "on" : "",
      })}
      ${checkField(visit, {
        form: "accept",
        name: "four_eyes",
        label: words.fourEyesField,
        hint: words.fourEyesHint,
        value: binding?.four_eyes ? "on" : "",
      })}`,
      submit: isAccepted ? words.changeSubmit : words.acceptSubmit,
    })}</section>`;
}

function ending(visit: Visit): Html {
  const words = visit.texts.clusters;
  return html`<section class="card"><h2>${words.endTitle}</h2><p>${words.endLead}</p>
    ${form(visit, { name: "end", once: true, submit: words.endSubmit, tone: "danger" })}</section>`;
}
