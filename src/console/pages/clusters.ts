import type { ClusterApproverAnswer } from "../../clusters/approver_routes.ts";
import type { NamespaceBindingAnswer } from "../../clusters/namespace_routes.ts";
import { ApiError } from "../../errors.ts";
import { type Html, html } from "../../html/html.ts";
import { clusterId, namespaceName } from "../../input/cluster_fields.ts";
import { page, type Visit } from "../core/page.ts";
import { selectField, textField } from "../elements/fields.ts";
import { form } from "../elements/form.ts";
import { table } from "../elements/listing.ts";
import { scopeList } from "../elements/scopes.ts";
import { long, time } from "../elements/values.ts";

type Loaded = Awaited<ReturnType<typeof load>>;

/** The page about the namespaces that act for the account and the cluster users who decide as its owner. */
export const clustersPage = page<Loaded>({
  id: "clusters",
  path: "/console/clusters",
  operations: [
    "list_namespace_bindings",
    "list_cluster_approvers",
    "link_cluster_approver",
    "unlink_cluster_approver",
    "list_organization_members",
  ],
  load,
  title: ({ texts }) => texts.clusters.title,
  back: ({ at, texts }) => ({ to: at("/platforms"), text: texts.platforms.title }),
  render(visit, { asking, accepted, approvers, members }) {
    const words = visit.texts.clusters;
    const isOwner = visit.may("accept_namespace_binding");
    return html`<p class="lead">${words.lead}</p>
      ${!isOwner && html`<p class="quiet">${words.ownersOnly}</p>`}
      ${asking.length > 0 && askingOnes(visit, asking)}
      <section class="card"><h2>${words.accepted}</h2>${acceptedOnes(visit, accepted)}</section>
      ${isOwner && another(visit)}
      <section class="card"><h2>${words.approvers}</h2><p class="quiet">${words.approversLead}</p>${approverTable(visit, approvers)}</section>
      ${visit.may("link_cluster_approver") && html`<div class="cards">${linking(visit, members)}${approvers.length > 0 && unlinking(visit, approvers)}</div>`}`;
  },
  forms: {
    open: {
      async submit(visit, fields) {
        const { clusters } = visit.texts;
        const [cluster, namespace] = [fields.get("cluster").trim(), fields.get("namespace").trim()];
        if (!clusterId.safeParse(cluster).success) throw fault("cluster", clusters.notACluster);
        if (!namespaceName.safeParse(namespace).success) {
          throw fault("namespace", clusters.notANamespace);
        }
        return { to: namespaceAddress(visit, { cluster, namespace }) };
      },
    },
    link: {
      async submit({ call, at }, fields) {
        const body = { cluster: fields.get("cluster").trim(), username: fields.get("username") };
        const member = fields.get("member_account_id");
        await call("link_cluster_approver", {
          body: { ...body, ...(member && { member_account_id: member }) },
        });
        return { to: at("/clusters"), notice: "approver_linked" };
      },
    },
    unlink: {
      async submit({ call, at }, fields) {
        const params = { approver_id: fields.get("approver_id") };
        await call("unlink_cluster_approver", { params, once: true });
        return { to: at("/clusters"), notice: "approver_unlinked" };
      },
    },
  },
});

async function load({ call, acting }: Visit) {
  const isOrganization = acting?.organization_name != null;
  const [{ namespace_bindings }, { cluster_approvers }, { members }] = await Promise.all([
    call("list_namespace_bindings"),
    call("list_cluster_approvers"),
    isOrganization ? call("list_organization_members") : { members: [] },
  ]);
  const { asking = [], accepted = [] } = Object.groupBy(namespace_bindings, ({ status }) => status);
  return { asking, accepted, approvers: cluster_approvers, members };
}

function fault(field: string, message: string): ApiError {
  return new ApiError("invalid_request", `body.${field}: ${message}`);
}

function namespaceAddress(
  { at }: Visit,
  { cluster, namespace }: Pick<NamespaceBindingAnswer, "cluster" | "namespace">,
): string {
  return at(`/clusters/${encodeURIComponent(cluster)}/${encodeURIComponent(namespace)}`);
}

function askingOnes(visit: Visit, asking: readonly NamespaceBindingAnswer[]): Html {
  const words = visit.texts.clusters;
  return html`<section class="card"><h2>${words.asking(asking.length)}</h2><p class="quiet">${words.askingExplain}</p>
    <ul class="plain-list">${asking.map(
      (
        binding,
      ) => html`<li><p><strong>${binding.namespace}</strong>, ${words.inCluster} ${binding.cluster}${" "}
        <span class="quiet">${words.since} ${time(binding.asked_at)}</span></p>
        <p><a href=${namespaceAddress(visit, binding)} aria-label=${`${words.look}: ${binding.namespace}, ${binding.cluster}`}>${words.look}</a></p></li>`,
    )}</ul></section>`;
}

function acceptedOnes(visit: Visit, accepted: readonly NamespaceBindingAnswer[]): Html {
  const words = visit.texts.clusters;
  return table<NamespaceBindingAnswer>({
    caption: words.acceptedTable,
    items: accepted,
    empty: words.noneAccepted,
    columns: [
      {
        label: words.namespace,
        cell: (binding) => html`<a href=${namespaceAddress(visit, binding)}>${binding.namespace}</a>`,
      },
      { label: words.cluster, cell: ({ cluster }) => cluster },
      {
        label: words.ceiling,
        cell: ({ ceiling }) =>
          ceiling === null ? html`<span class="quiet">${words.unbounded}</span>` : scopeList(ceiling),
      },
      { label: words.fourEyes, cell: ({ four_eyes }) => (four_eyes ? words.four : words.two) },
      { label: words.acceptedAt, cell: ({ accepted_at }) => accepted_at && time(accepted_at) },
      {
        label: words.acceptedBy,
        cell: ({ accepted_by }) => (accepted_by === null ? words.notKnown : long(accepted_by)),
      },
    ],
  });
}

function another(visit: Visit): Html {
  const words = visit.texts.clusters;
  return html`<section class="card"><h2>${words.other}</h2><p class="quiet">${words.otherHint}</p>${form(
    visit,
    {
      name: "open",
      content: html`${clusterField(visit, "open")}${textField(visit, {
        form: "open",
        name: "namespace",
        label: words.namespace,
        attributes: { maxlength: 63, autocomplete: "off", spellcheck: "false" },
      })}`,
      submit: words.goOn,
      tone: "quiet",
    },
  )}</section>`;
}

function clusterField(visit: Visit, form: string): Html {
  const words = visit.texts.clusters;
  return textField(visit, {
    form,
    name: "cluster",
    label: words.cluster,
    hint: words.clusterHint,
    attributes: { maxlength: 64, autocomplete: "off", spellcheck: "false" },
  });
}

function approverTable({ texts }: Visit, approvers: readonly ClusterApproverAnswer[]): Html {
  const words = texts.clusters;
  return table<ClusterApproverAnswer>({
    caption: words.approversTable,
    items: approvers,
    empty: words.noApprovers,
    columns: [
      { label: words.user, cell: ({ username }) => username },
      { label: words.cluster, cell: ({ cluster }) => cluster },
      {
        label: words.decidesAs,
        cell: ({ member, counts }) =>
          html`${member === null ? words.nobody : long(member.email)}${member !== null && !counts && html`<br /><span class="quiet">${words.notNow}</span>`}`,
      },
      {
        label: words.linkedBy,
        cell: ({ linked_by }) => (linked_by === null ? words.notKnown : long(linked_by)),
      },
      { label: words.linked, cell: ({ linked_at }) => time(linked_at) },
    ],
  });
}

function linking(visit: Visit, members: Loaded["members"]): Html {
  const words = visit.texts.clusters;
  return html`<section class="card"><h2>${words.link}</h2>${form(visit, {
    name: "link",
    content: html`${clusterField(visit, "link")}${textField(visit, {
      form: "link",
      name: "username",
      label: words.username,
      hint: words.usernameHint,
      attributes: { maxlength: 253, autocomplete: "off", spellcheck: "false" },
    })}${
      members.length > 0 &&
      selectField(visit, {
        form: "link",
        name: "member_account_id",
        label: words.member,
        hint: words.memberHint,
        value: "",
        required: false,
        choices: [
          { value: "", label: words.memberDefault },
          ...members.map(({ account_id, email }) => ({ value: account_id, label: email })),
        ],
      })
    }`,
    submit: words.linkSubmit,
  })}</section>`;
}

function unlinking(visit: Visit, approvers: readonly ClusterApproverAnswer[]): Html {
  const words = visit.texts.clusters;
  return html`<section class="card"><h2>${words.unlink}</h2>${form(visit, {
    name: "unlink",
    once: true,
    content: selectField(visit, {
      form: "unlink",
      name: "approver_id",
      label: words.user,
      hint: words.unlinkHint,
      choices: approvers.map(({ approver_id, username, cluster }) => ({
        value: approver_id,
        label: `${username} (${cluster})`,
      })),
    }),
    submit: words.unlinkSubmit,
    tone: "danger",
  })}</section>`;
}
