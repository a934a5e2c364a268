import { type Html, html } from "../../../html/html.ts";
import type { PlatformAnswer } from "../../../platforms/answers.ts";
import type { Visit } from "../../core/page.ts";
import { type Choice, selectField, textField } from "../../elements/forms/fields.ts";
import { filterForm } from "../../elements/listing.ts";
import type { FILTER_FIELDS } from "./filters.ts";

type Name = (typeof FILTER_FIELDS)[number];

/** Fields that are folded away until one of them is used. */
const FOLDED: readonly Name[] = ["decision_reason", "required_scope", "connection_id", "agent_id", "cert_id"];

/** The form that narrows the history down. */
export function historyFilter(visit: Visit, platforms: readonly PlatformAnswer[]): Html {
  const { history: words, decisions } = visit.texts;
  const field = (name: Name, label: string, more: { hint?: string; type?: string } = {}) =>
    textField(visit, {
      form: "filters",
      name,
      label,
      required: false,
      value: visit.query[name] ?? "",
      ...(more.hint !== undefined && { hint: more.hint }),
      attributes: { type: more.type ?? "text", maxlength: more.type === undefined ? 512 : undefined },
    });
  const choice = (name: Name, label: string, choices: readonly Choice[]) =>
    selectField(visit, {
      form: "filters",
      name,
      label,
      required: false,
      value: visit.query[name] ?? "",
      choices: [{ value: "", label: words.any }, ...choices],
    });
  return filterForm(visit, {
    label: words.filters,
    content: html`
      ${field("from", words.from, { type: "date" })}
      ${field("to", words.to, { type: "date" })}
      ${choice("result", words.result, [
        ...(["allow", "deny", "indeterminate"] as const).map((value) => ({ value, label: decisions[value] })),
        { value: "presented", label: words.presented },
      ])}
      <details open=${FOLDED.some((name) => visit.query[name])}>
        <summary>${words.more}</summary>
        <div class="filters">
        ${choice(
          "decision_reason",
          words.reason,
          Object.entries(decisions.reasons).map(([value, label = value]) => ({ value, label })),
        )}
        ${field("required_scope", words.scope)}
        ${choice(
          "connection_id",
          words.platform,
          platforms.map(({ connection_id, name }) => ({ value: connection_id, label: name })),
        )}
        ${field("agent_id", words.agentId)}
        ${field("cert_id", words.certId)}
        </div>
      </details>`,
  });
}
